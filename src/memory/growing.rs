//! An array that grows and whose elements stay where they are, so that readers need no lock, however late they are.
//!
//! Each chunk is twice as long as the one before it, so few pointers lead to all there may ever be. An element is found by
//! its name:
//!
//! ```text
//! | chunk 32 | index in the chunk 32 |
//! ```
//!
//! Both parts of a name come from a shift. The chunk of a mere number would come from the position of its highest bit,
//! which takes longer to find than all the rest, and a search finds a node on each level.

use super::Zero;
use super::slabs::Slabs;
use crate::sync::Mutex;
use std::io;
// As in `rows`.
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The number of elements of the first chunk.
const FIRST: u64 = 16;
/// The most chunks. The last one has `2^31` elements.
const CHUNKS: usize = 28;

/// See the [module](self).
pub(crate) struct Growing<T> {
    /// Where the chunks start. Apart from their lengths: so a chunk's number is the index of a word, and needs no shift on the
    /// way from one node to the next.
    starts: [AtomicPtr<T>; CHUNKS],
    /// 0 as long as the chunk was not made.
    lens: [AtomicUsize; CHUNKS],
    slabs: Mutex<Slabs<T>>,
}

/// The chunk that holds the element with this number.
fn chunk_of(number: u64) -> usize {
    (number / FIRST + 1).ilog2() as usize
}

/// The number of elements before a chunk.
fn before(chunk: usize) -> u64 {
    (FIRST << chunk) - FIRST
}

impl<T: Zero> Growing<T> {
    /// An array without elements.
    pub(crate) fn new() -> Self {
        let (starts, lens) = (Default::default(), Default::default());
        let array = Self { starts, lens, slabs: Mutex::new(Slabs::new()) };
        if cfg!(loom) {
            // See `Rows`.
            array.reserve(FIRST).expect("models have memory");
        }
        array
    }

    /// The name of the element with this number.
    pub(crate) fn name(number: u64) -> u64 {
        let chunk = chunk_of(number);
        (chunk as u64) << 32 | (number - before(chunk))
    }

    /// An element; `None` if there is none with that name, which may be any word.
    #[inline(always)]
    pub(crate) fn get(&self, name: u64) -> Option<&T> {
        let (chunk, index) = ((name >> 32) as usize, name as u32 as usize);
        if index >= self.lens.get(chunk)?.load(Ordering::Acquire) {
            return None;
        }
        let start = self.starts[chunk].load(Ordering::Relaxed);
        // SAFETY: the chunk has more elements than `index`: its start was stored before its length was published.
        let element = unsafe { start.add(index) };
        // SAFETY: the chunk lives as long as `self`, its elements were zero when it was published, which is a value by
        // `Zero`, and they are never handed out for writing.
        Some(unsafe { &*element })
    }

    /// Makes the elements with numbers below `len`.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    #[inline]
    pub(crate) fn reserve(&self, len: u64) -> io::Result<()> {
        let Some(last) = len.checked_sub(1).map(chunk_of) else { return Ok(()) };
        // Chunks are made in order.
        let is_made = self.lens.get(last).ok_or(io::ErrorKind::OutOfMemory)?.load(Ordering::Acquire) > 0;
        if is_made { Ok(()) } else { self.make(last) }
    }

    #[cold]
    fn make(&self, last: usize) -> io::Result<()> {
        let mut slabs = self.slabs.lock();
        for chunk in 0..=last {
            if self.lens[chunk].load(Ordering::Relaxed) == 0 {
                let len = (FIRST as usize) << chunk;
                self.starts[chunk].store(slabs.take(len)?.as_ptr(), Ordering::Relaxed);
                self.lens[chunk].store(len, Ordering::Release);
            }
        }
        Ok(())
    }
}

// SAFETY: the pointers lead to what it owns, which are slices of `T`.
unsafe impl<T: Send + Sync> Send for Growing<T> {}
// SAFETY: as for `Send`; a shared one hands out shared elements only.
unsafe impl<T: Send + Sync> Sync for Growing<T> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, AtomicU64};

    const COUNT: u64 = if cfg!(miri) { 100 } else { 100_000 };

    #[test]
    fn each_number_has_an_element_of_its_own() {
        let array = Growing::<AtomicU64>::new();
        let name = Growing::<AtomicU64>::name;
        for number in 0..COUNT {
            array.reserve(number + 1).unwrap();
            assert_eq!(array.get(name(number)).unwrap().swap(number + 1, Ordering::Relaxed), 0);
        }
        assert!((0..COUNT).all(|number| array.get(name(number)).unwrap().load(Ordering::Relaxed) == number + 1));
    }

    #[test]
    fn a_word_that_names_no_element_leads_nowhere() {
        let array = Growing::<AtomicU64>::new();
        assert!(array.get(0).is_none());
        array.reserve(FIRST + 1).unwrap();
        let made = |chunk: u64, index: u64| array.get(chunk << 32 | index).is_some();
        assert!(made(0, FIRST - 1) && made(1, 0) && made(1, 2 * FIRST - 1));
        assert!(!made(0, FIRST) && !made(1, 2 * FIRST) && !made(2, 0) && !made(0, u64::from(u32::MAX)));
        assert!((0..64).all(|bit| array.get(1 << bit | 1 << 63).is_none() && array.get(!(1 << bit)).is_none()));
        assert!((2..u64::from(u32::MAX)).step_by(1 << 24).all(|chunk| !made(chunk, 0)));
        assert!(array.get(u64::MAX).is_none());
    }

    #[test]
    fn elements_stay_where_they_are_while_it_grows() {
        let array = Growing::<AtomicU64>::new();
        let name = Growing::<AtomicU64>::name;
        let (made, end) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    threads.spawn(|| {
                        let mut first = None;
                        while !end.load(Ordering::Relaxed) {
                            // Nothing but the array itself orders what this thread sees.
                            let Some(number) = made.load(Ordering::Relaxed).checked_sub(1) else { continue };
                            if let Some(last) = array.get(name(number)) {
                                assert!([0, number + 1].contains(&last.load(Ordering::Relaxed)));
                            }
                            let Some(element) = array.get(name(0)) else { continue };
                            assert!(std::ptr::eq(*first.get_or_insert(element), element));
                        }
                    })
                })
                .collect();
            for number in 0..COUNT {
                array.reserve(number + 1).unwrap();
                array.get(name(number)).unwrap().store(number + 1, Ordering::Relaxed);
                made.store(number + 1, Ordering::Relaxed);
            }
            end.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }

    #[test]
    fn more_than_there_are_names_is_an_error() {
        let array = Growing::<AtomicU64>::new();
        assert!(array.reserve(u64::MAX).is_err());
        assert!(array.reserve(1).is_ok() && array.get(0).is_some());
    }
}
