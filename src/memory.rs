//! Volatile memory that holds zeros until it is written to. It is requested once and backed by pages as it is touched,
//! in huge pages where the system provides them.
//!
//! [`Zeroed`] is one array, which starts at a line boundary. What is needed bit by bit, without a limit that is known
//! before, is a [`Growing`] array or [`Rows`]: a limit far away would take address space, which systems may count.

#[cfg(target_os = "linux")]
pub(crate) mod addresses;
mod faults;
mod growing;
mod rows;
mod slabs;

use crate::sync::{AtomicU64, Ordering};
use std::io;
use std::ops::Deref;
use std::sync::atomic::AtomicPtr;

pub(crate) use faults::page_faults;
pub(crate) use growing::Growing;
pub(crate) use rows::Rows;

/// The size and the alignment of a huge page.
const HUGE: usize = 2 << 20;

/// Bytes that an allocator takes for each array that it hands out, beside that, for its own notes and to align it.
pub(crate) const OF_ALLOCATOR: usize = 32;

/// Types that have a value consisting of zero bytes only. An array of a type that is aligned to more than a page does
/// not compile.
///
/// # Safety
///
/// A value whose bytes are all zero is valid, and equals [`zero`](Self::zero). Dropping a value does nothing.
pub unsafe trait Zero {
    /// The value whose bytes are all zero.
    #[cfg_attr(not(bristlecone_loom), allow(dead_code, reason = "memory comes as zeros, but for the model checker"))]
    fn zero() -> Self;
}

// SAFETY: it has no bytes and no destructor.
unsafe impl Zero for () {
    fn zero() {}
}

// SAFETY: zero bytes are the number 0, and a number has no destructor.
unsafe impl Zero for AtomicU64 {
    fn zero() -> Self {
        Self::new(0)
    }
}

// SAFETY: zero bytes are the null pointer, and a pointer has no destructor.
unsafe impl<T> Zero for AtomicPtr<T> {
    fn zero() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

// SAFETY: an array is its elements, and each of them is `Zero`.
unsafe impl<T: Zero, const N: usize> Zero for [T; N] {
    fn zero() -> Self {
        std::array::from_fn(|_| T::zero())
    }
}

/// Two numbers in one word that belong together.
///
/// ```text
/// | 32 | 32 |
/// ```
///
/// There is no lock: if two threads change it at once, one change may be lost.
#[derive(Debug)]
pub struct Halves(AtomicU64);

// SAFETY: zero bytes are the number 0, and a number has no destructor.
unsafe impl Zero for Halves {
    fn zero() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Halves {
    /// Both numbers.
    #[inline]
    pub(crate) fn get(&self) -> (usize, usize) {
        let word = self.0.load(Ordering::Relaxed);
        ((word >> 32) as usize, word as u32 as usize)
    }

    /// Replaces both numbers. Only their lower 32 bits are kept.
    #[inline]
    pub(crate) fn set(&self, one: usize, other: usize) {
        self.0.store((one as u64) << 32 | u64::from(other as u32), Ordering::Relaxed);
    }

    /// Adds to both numbers.
    #[inline]
    pub(crate) fn add(&self, one: usize, other: usize) {
        let (to_one, to_other) = self.get();
        self.set(to_one + one, to_other + other);
    }
}

/// How much of an array is touched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Usage {
    /// Most of it, in huge pages.
    Dense,
    /// A few pages.
    Sparse,
}

#[cfg(not(bristlecone_loom))]
mod imp {
    use super::Usage;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ptr::NonNull;

    /// Arrays of up to this many bytes come from the allocator, which writes zeros to all of them: a mapping costs two
    /// system calls, and the memory checkers do not watch its ends.
    const SMALL: usize = if cfg!(bristlecone_watched) { 1 << 30 } else { 64 << 10 };

    /// The limit for arrays with few touched pages: the allocator may write zeros to all of them.
    const SMALL_AND_SPARSE: usize = if cfg!(bristlecone_watched) { SMALL } else { 16 << 10 };

    /// The most that an element may be aligned to: a mapping of less than a huge page begins at a page, and no more is
    /// known of it.
    const MOST_ALIGNED: usize = 4096;

    enum Owner {
        Nobody,
        Heap(Layout),
        Map(Map),
    }

    #[cfg(target_os = "linux")]
    use linux::Map;
    #[cfg(not(target_os = "linux"))]
    use portable::Map;

    #[cfg(target_os = "linux")]
    mod linux {
        use crate::memory::{HUGE, Usage};
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
        use std::io;
        use std::ptr::NonNull;

        /// Zeroed pages of this process. If many are used and they have the size of a huge page, they begin at one: the
        /// kernel makes huge pages only of what is aligned.
        pub(super) struct Map {
            start: NonNull<u8>,
            len: usize,
        }

        impl Map {
            pub(super) fn new(len: usize, usage: Usage) -> io::Result<Self> {
                let pages = |len| {
                    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
                    // SAFETY: the kernel chooses where they lie, so they replace nothing.
                    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags) }?;
                    let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
                    Ok::<_, io::Error>(Self { start, len })
                };
                if len < HUGE || usage == Usage::Sparse {
                    return pages(len);
                }
                let len = len.checked_next_multiple_of(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
                let map = pages(len.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?)?.cut(len);
                // SAFETY: these are the pages of the map, and the advice does not change what they hold.
                let advised = unsafe { madvise(map.start.as_ptr().cast(), map.len, Advice::LinuxHugepage) };
                // It is only a hint.
                let _ = advised;
                Ok(map)
            }

            /// Keeps `len` bytes from the first huge page on, of a map that is longer by a huge page.
            fn cut(mut self, len: usize) -> Self {
                let before = self.start.as_ptr().align_offset(HUGE);
                // SAFETY: `before` is less than a huge page, so this lies in the map.
                let start = unsafe { self.start.add(before) };
                // SAFETY: `before + len` is less than the length of the map.
                let end = unsafe { start.add(len) };
                for (start, len) in [(self.start, before), (end, self.len - before - len)] {
                    if len > 0 {
                        // SAFETY: these are whole pages of the map, outside of what is kept, and nothing refers to
                        // them.
                        let unmapped = unsafe { munmap(start.as_ptr().cast(), len) };
                        // If the system keeps them, they are only lost.
                        let _ = unmapped;
                    }
                }
                (self.start, self.len) = (start, len);
                self
            }

            pub(super) fn start(&self) -> NonNull<u8> {
                self.start
            }

            /// Bytes of the pages that the system has given for it: those that were touched, and what is huge, whole.
            pub(super) fn resident(&self) -> u64 {
                /// Pages that are asked for at once.
                const MANY: usize = 4096;
                let page = rustix::param::page_size();
                let mut is_there = [0; MANY];
                let pages: usize = (0..self.len)
                    .step_by(MANY * page)
                    .map(|from| {
                        let len = (self.len - from).min(MANY * page);
                        let first = self.start.as_ptr().wrapping_add(from);
                        // SAFETY: these are pages of the map, and there is a byte for each of them.
                        let asked = unsafe { libc::mincore(first.cast(), len, is_there.as_mut_ptr()) };
                        let pages = &is_there[..len.div_ceil(page)];
                        // Where the system does not tell, all of them count.
                        if asked == 0 { pages.iter().filter(|page| **page & 1 == 1).count() } else { pages.len() }
                    })
                    .sum();
                (pages * page) as u64
            }
        }

        impl Drop for Map {
            fn drop(&mut self) {
                // SAFETY: these are the pages of the map. What borrowed them from it is gone.
                let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
                // If the system keeps them, they are only lost.
                let _ = unmapped;
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    mod portable {
        use crate::memory::Usage;
        use std::io;
        use std::ptr::NonNull;

        /// Zeroed pages of this process.
        pub(super) struct Map {
            start: NonNull<u8>,
            _map: memmap2::MmapRaw,
        }

        impl Map {
            pub(super) fn new(len: usize, _: Usage) -> io::Result<Self> {
                let map = memmap2::MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
                let map = memmap2::MmapRaw::from(map);
                let start = NonNull::new(map.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory)?;
                Ok(Self { start, _map: map })
            }

            pub(super) fn start(&self) -> NonNull<u8> {
                self.start
            }

            /// Bytes of its pages. Which of them were touched, is not asked.
            pub(super) fn resident(&self) -> u64 {
                self._map.len() as u64
            }
        }
    }

    pub(super) struct Array<T> {
        start: NonNull<T>,
        len: usize,
        owner: Owner,
    }

    // SAFETY: it owns its elements, as a box does.
    unsafe impl<T: Send> Send for Array<T> {}
    // SAFETY: as for `Send`; sharing it shares its elements.
    unsafe impl<T: Sync> Sync for Array<T> {}

    impl<T: super::Zero> Array<T> {
        pub(super) fn new(len: usize, usage: Usage) -> io::Result<Self> {
            const { assert!(align_of::<T>() <= MOST_ALIGNED, "a mapping is aligned to a page only") }
            let layout = Layout::array::<T>(len).and_then(|layout| layout.align_to(crate::arch::LINE));
            let layout = layout.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
            let small = if usage == Usage::Sparse { SMALL_AND_SPARSE } else { SMALL };
            let (start, owner) = match layout.size() {
                0 => (NonNull::dangling(), Owner::Nobody),
                bytes if bytes <= small => {
                    // SAFETY: the layout is not empty.
                    let start = unsafe { alloc_zeroed(layout) };
                    (NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?.cast(), Owner::Heap(layout))
                }
                bytes => {
                    let map = Map::new(bytes, usage)?;
                    (map.start().cast(), Owner::Map(map))
                }
            };
            Ok(Self { start, len, owner })
        }
    }

    impl<T> Array<T> {
        #[inline]
        pub(super) fn elements(&self) -> &[T] {
            // SAFETY: these are `len` elements. They are aligned (the heap's by the layout, a mapping's to a page, and
            // none needs more) and zero at first, which is a value by `Zero`. They live as long as `self` and are never
            // handed out for writing.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }

        pub(super) fn resident(&self) -> u64 {
            match &self.owner {
                Owner::Nobody => 0,
                Owner::Heap(layout) => (layout.size() + super::OF_ALLOCATOR) as u64,
                Owner::Map(map) => map.resident(),
            }
        }
    }

    impl<T> Drop for Array<T> {
        fn drop(&mut self) {
            if let Owner::Heap(layout) = self.owner {
                // SAFETY: allocated with this layout in `new`. The elements need no dropping, by `Zero`.
                unsafe { dealloc(self.start.as_ptr().cast(), layout) }
            }
        }
    }
}

/// What the model checker can see into: elements that are made one by one.
#[cfg(bristlecone_loom)]
mod imp {
    use std::io;

    pub(super) struct Array<T>(Box<[T]>);

    impl<T: super::Zero> Array<T> {
        pub(super) fn new(len: usize, _: super::Usage) -> io::Result<Self> {
            Ok(Self((0..len).map(|_| T::zero()).collect()))
        }
    }

    impl<T> Array<T> {
        pub(super) fn elements(&self) -> &[T] {
            &self.0
        }

        pub(super) fn resident(&self) -> u64 {
            size_of_val(&*self.0) as u64
        }
    }
}

/// A shared array that starts as zeros and is written to through the interior mutability of its elements.
pub(crate) struct Zeroed<T>(imp::Array<T>);

impl<T: Zero> Zeroed<T> {
    /// An array of `len` zeros.
    ///
    /// # Errors
    ///
    /// The system does not have that much memory for the process.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        imp::Array::new(len, Usage::Dense).map(Self)
    }

    /// As [`new`](Self::new), for memory that is touched in few pages. Only these take memory.
    pub(crate) fn sparse(len: usize) -> io::Result<Self> {
        imp::Array::new(len, Usage::Sparse).map(Self)
    }
}

impl<T> Zeroed<T> {
    /// Bytes of memory that it takes. The system is asked which pages it has given.
    pub(crate) fn resident(&self) -> u64 {
        self.0.resident()
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.0.elements()
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_arrays_are_zero_and_keep_what_is_stored() {
        for len in [0, 1, 1000, if cfg!(miri) { 2000 } else { 1 << 20 }] {
            let array = Zeroed::<AtomicU64>::new(len).unwrap();
            assert_eq!(array.len(), len);
            assert!(array.iter().step_by(997).all(|word| word.load(Ordering::Relaxed) == 0));
            array.iter().step_by(997).for_each(|word| word.store(7, Ordering::Relaxed));
            assert!(array.iter().step_by(997).all(|word| word.load(Ordering::Relaxed) == 7));
        }
    }

    /// Negative controls: each must be found.
    #[cfg(bristlecone_watched)]
    mod planted {
        use super::*;

        #[test]
        #[ignore = "a planted bug, which `scripts/check asan` and `miri` run"]
        fn a_load_behind_the_end() {
            let array = Zeroed::<AtomicU64>::new(1 << 10).unwrap();
            // SAFETY: there is none: it is the first word behind the array.
            let behind = unsafe { &*array.as_ptr().wrapping_add(1 << 10) };
            behind.load(Ordering::Relaxed);
        }

        #[test]
        #[ignore = "a planted bug, which `scripts/check asan` and `miri` run"]
        fn a_load_after_the_drop() {
            let array = Zeroed::<AtomicU64>::new(1 << 10).unwrap();
            let word = array.as_ptr();
            drop(array);
            // SAFETY: there is none: the array was given back.
            let dangling = unsafe { &*word };
            dangling.load(Ordering::Relaxed);
        }
    }

    #[test]
    fn more_than_there_is_address_space_is_an_error() {
        assert!(Zeroed::<AtomicU64>::new(usize::MAX / 16).is_err());
        assert!(Zeroed::<AtomicU64>::new(usize::MAX).is_err());
    }
}
