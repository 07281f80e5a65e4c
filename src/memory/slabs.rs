//! Memory that comes in slabs: what needs little takes little, and what needs much gets huge pages.

use super::{HUGE, Zero, Zeroed};
use std::io;
use std::ptr::NonNull;

/// The greatest size of a slab in bytes. Each is about as large as all before it, up to that.
const GREATEST: usize = 32 << 20;
/// From this size on, slabs are of whole huge pages.
const LARGE: usize = 256 << 10;

/// Hands out elements that are zero at first and stay where they are until it is dropped.
pub(super) struct Slabs<T> {
    slabs: Vec<Zeroed<T>>,
    /// Elements of the last slab that were handed out.
    used: usize,
    /// Bytes of all slabs.
    bytes: usize,
}

impl<T: Zero> Slabs<T> {
    pub(super) fn new() -> Self {
        Self { slabs: Vec::new(), used: 0, bytes: 0 }
    }

    /// The start of `len` adjacent elements that nobody else has.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub(super) fn allocate(&mut self, len: usize) -> io::Result<NonNull<T>> {
        if self.slabs.last().is_none_or(|slab| slab.len() - self.used < len) {
            let slab = match self.next(len) {
                more if more > len => Zeroed::new(more).or_else(|_| Zeroed::new(len)),
                _ => Zeroed::new(len),
            };
            self.add(slab?)?;
        }
        let slab = self.slabs.last().expect("a slab was added");
        let start = NonNull::from(&slab[self.used..][..len]).cast();
        self.used += len;
        Ok(start)
    }

    /// Bytes of memory that they take.
    pub(super) fn resident(&self) -> u64 {
        let own = self.slabs.capacity() * size_of::<Zeroed<T>>();
        own as u64 + self.slabs.iter().map(Zeroed::resident).sum::<u64>()
    }

    /// The number of elements of the next slab. `len` of them are needed now.
    fn next(&self, len: usize) -> usize {
        let Some(needed) = len.checked_mul(size_of::<T>()).filter(|_| !cfg!(bristlecone_loom)) else { return len };
        let bytes = needed.max(self.bytes.min(GREATEST));
        let bytes = if bytes < LARGE { bytes } else { bytes.checked_next_multiple_of(HUGE).unwrap_or(bytes) };
        // At least what is needed, which is rounded down to whole elements here.
        bytes / size_of::<T>()
    }

    fn add(&mut self, slab: Zeroed<T>) -> io::Result<()> {
        self.slabs.try_reserve(1).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.bytes += size_of_val(&*slab);
        self.slabs.push(slab);
        self.used = 0;
        Ok(())
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};

    #[test]
    fn no_element_is_handed_out_twice_or_moves() {
        let mut slabs = Slabs::<AtomicU64>::new();
        let lens = [1, 7000, 3, 9000, 1, 30_000, 4, 100_000, 2];
        let lens = if cfg!(miri) { &lens[..4] } else { &lens[..] };
        let starts: Vec<_> = lens.iter().map(|&len| slabs.allocate(len).unwrap()).collect();
        let words = |i: usize| {
            // SAFETY: `take` returned the start of so many elements, which live as long as `slabs`.
            unsafe { std::slice::from_raw_parts(starts[i].as_ptr(), lens[i]) }
        };
        for i in 0..lens.len() {
            assert!(words(i).iter().all(|word| word.swap(i as u64 + 1, Ordering::Relaxed) == 0));
        }
        for i in 0..lens.len() {
            assert!(words(i).iter().all(|word| word.load(Ordering::Relaxed) == i as u64 + 1));
        }
        drop(slabs);
    }

    #[test]
    fn slabs_grow_with_what_is_needed() {
        const PIECE: usize = 1 << 10;
        let mut slabs = Slabs::<AtomicU64>::new();
        let mut sizes = Vec::new();
        for _ in 0..if cfg!(miri) { 4 } else { 100_000 } {
            slabs.allocate(PIECE / 8).unwrap();
            sizes.push(slabs.slabs.last().unwrap().len() * 8);
        }
        sizes.dedup();
        assert!(sizes[0] == PIECE && sizes.iter().all(|&size| size <= GREATEST), "{sizes:?}");
        assert!(sizes.iter().all(|&size| size < LARGE || size.is_multiple_of(HUGE)), "{sizes:?}");
        // 1, 2, 4 ... 128 KiB, and then 2, 2, 4, 8, 16 and 32 MiB.
        assert!(cfg!(miri) || sizes.len() == 13, "{sizes:?}");
    }

    #[test]
    fn more_than_there_is_memory_is_an_error_and_does_no_harm() {
        let mut slabs = Slabs::<AtomicU64>::new();
        assert!(slabs.allocate(usize::MAX / 16).is_err() && slabs.allocate(usize::MAX).is_err());
        assert!(slabs.allocate(1).is_ok());
    }
}
