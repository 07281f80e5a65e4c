//! An array that grows and whose elements stay where they are, so that readers need no lock, however late they are.
//!
//! The first elements lie in chunks, each twice as long as the one before it, so what is small takes little. Then comes
//! one long *stretch*, which takes memory only where it was touched, and then chunks again. So nearly all elements of a
//! large array are found with one comparison, and without a load on the way from one node to the next. Where the
//! process has few addresses left, there are only chunks. An element is found by its name:
//!
//! ```text
//! | 0 32               | index in the stretch 32 |
//! | 1 + number of chunk 32 | index in the chunk 32   |
//! ```
//!
//! Both parts of a name come from a shift. The chunk of a mere number would come from the position of its highest bit,
//! which takes longer to find than all the rest, and a search finds a node on each level.

use super::slabs::Slabs;
use super::{Zero, Zeroed};
use crate::sync::Mutex;
use std::hint::assert_unchecked;
use std::io;
use std::ptr::NonNull;
// As in `rows`.
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The number of elements of the first chunk.
const FIRST: u64 = if cfg!(bristlecone_loom) { 16 } else { 1 };
/// The chunks before the stretch, and their elements.
const BEFORE: usize = 8;
const SMALL: u64 = before(BEFORE);
/// Bytes of the stretch.
const STRETCH: usize = if cfg!(miri) { 1 << 10 } else { 64 << 20 };
/// The most chunks. The last one has `2^31` elements.
const CHUNKS: usize = 32;

/// See the [module](self).
pub(crate) struct Growing<T> {
    /// Where the stretch starts, and its elements: 0 as long as it was not made, or if there are few addresses.
    stretch: AtomicPtr<T>,
    stretch_len: AtomicUsize,
    /// Where the chunks start. Apart from their lengths: so a chunk's number is the index of a word.
    starts: [AtomicPtr<T>; CHUNKS],
    /// 0 as long as the chunk was not made.
    lens: [AtomicUsize; CHUNKS],
    growth: Mutex<Growth<T>>,
}

/// What the pointers point to.
struct Growth<T> {
    slabs: Slabs<T>,
    stretch: Option<Zeroed<T>>,
}

/// Whether the stretch is but a small part of the addresses that are left. Most of it may never be touched.
fn may_stretch() -> bool {
    #[cfg(all(target_os = "linux", not(any(bristlecone_loom, miri))))]
    if crate::memory::addresses::share() < STRETCH as u64 {
        return false;
    }
    !cfg!(bristlecone_loom)
}

/// The chunk that holds the element with this number, of those that lie in chunks.
fn chunk_of(number: u64) -> usize {
    (number / FIRST + 1).ilog2() as usize
}

/// The number of elements in chunks before a chunk.
const fn before(chunk: usize) -> u64 {
    (FIRST << chunk) - FIRST
}

impl<T: Zero> Growing<T> {
    /// An array without elements.
    pub(crate) fn new() -> Self {
        let (starts, lens) = (Default::default(), Default::default());
        let growth = Mutex::new(Growth { slabs: Slabs::new(), stretch: None });
        let array = Self { stretch: AtomicPtr::default(), stretch_len: AtomicUsize::new(0), starts, lens, growth };
        if cfg!(bristlecone_loom) {
            // See `Rows`.
            array.reserve(FIRST).expect("models have memory");
        }
        array
    }

    /// Bytes of memory that the elements take.
    pub(crate) fn resident(&self) -> u64 {
        let growth = self.growth.lock();
        growth.slabs.resident() + growth.stretch.as_ref().map_or(0, Zeroed::resident)
    }

    /// The name of the element with this number, which must have been [made](Self::reserve).
    pub(crate) fn name(&self, number: u64) -> u64 {
        match self.place(number) {
            ElementPlace::Stretch(index) => index,
            ElementPlace::Chunk(chunk, index) => (chunk as u64 + 1) << 32 | index,
        }
    }

    fn place(&self, number: u64) -> ElementPlace {
        let stretch = self.stretch_len.load(Ordering::Acquire) as u64;
        match number.checked_sub(SMALL) {
            Some(index) if index < stretch => ElementPlace::Stretch(index),
            _ => {
                let number = if number < SMALL { number } else { number - stretch };
                let chunk = chunk_of(number);
                // Behind the last chunk, no index is needed.
                ElementPlace::Chunk(chunk, if chunk < CHUNKS { number - before(chunk) } else { 0 })
            }
        }
    }

    /// An element; `None` if there is none with that name, which may be any word.
    #[inline(always)]
    pub(crate) fn get(&self, name: u64) -> Option<&T> {
        let index = name as usize;
        let start = if index < self.stretch_len.load(Ordering::Acquire) {
            self.stretch.load(Ordering::Relaxed)
        } else {
            return self.in_chunk(name);
        };
        // SAFETY: the stretch has more elements than `index`: its start was stored before its length was published. It
        // lives as long as `self`.
        Some(unsafe { element(start, index) })
    }

    #[inline]
    fn in_chunk(&self, name: u64) -> Option<&T> {
        let (chunk, index) = (((name >> 32) as usize).wrapping_sub(1), name as u32 as usize);
        if index >= self.lens.get(chunk)?.load(Ordering::Acquire) {
            return None;
        }
        let start = self.starts[chunk].load(Ordering::Relaxed);
        // SAFETY: as for the stretch.
        Some(unsafe { element(start, index) })
    }

    /// Makes the elements with numbers below `len`.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    #[inline]
    pub(crate) fn reserve(&self, len: u64) -> io::Result<()> {
        let Some(last) = len.checked_sub(1) else { return Ok(()) };
        // Chunks are made in order, and the stretch before all that lie behind it.
        let is_made = match self.place(last) {
            ElementPlace::Stretch(_) => true,
            ElementPlace::Chunk(chunk, _) => {
                self.lens.get(chunk).ok_or(io::ErrorKind::OutOfMemory)?.load(Ordering::Acquire) > 0
            }
        };
        if is_made { Ok(()) } else { self.make(last) }
    }

    #[cold]
    fn make(&self, last: u64) -> io::Result<()> {
        let mut growth = self.growth.lock();
        if last >= SMALL && growth.stretch.is_none() && self.lens[BEFORE].load(Ordering::Relaxed) == 0 {
            self.make_chunks(&mut growth, BEFORE)?;
            // Only now: where chunks have names for what could lie in the stretch, it is too late.
            growth.stretch =
                Some(STRETCH / size_of::<T>()).filter(|_| may_stretch()).and_then(|len| Zeroed::new(len).ok());
            if let Some(stretch) = &growth.stretch {
                self.stretch.store(NonNull::from(&**stretch).as_ptr().cast(), Ordering::Relaxed);
                self.stretch_len.store(stretch.len(), Ordering::Release);
            }
        }
        match self.place(last) {
            ElementPlace::Stretch(_) => Ok(()),
            ElementPlace::Chunk(chunk, _) => self.make_chunks(&mut growth, chunk + 1),
        }
    }

    /// Makes the chunks below `end` that were not made.
    fn make_chunks(&self, growth: &mut Growth<T>, end: usize) -> io::Result<()> {
        for chunk in 0..end {
            if self.lens[chunk].load(Ordering::Relaxed) == 0 {
                let len = (FIRST as usize) << chunk;
                self.starts[chunk].store(growth.slabs.allocate(len)?.as_ptr(), Ordering::Relaxed);
                self.lens[chunk].store(len, Ordering::Release);
            }
        }
        Ok(())
    }
}

/// An element of a stretch or a chunk.
///
/// # Safety
///
/// There is one with this index, and it lives as long as `'a`.
#[inline(always)]
unsafe fn element<'a, T: Zero>(start: *mut T, index: usize) -> &'a T {
    // SAFETY: the caller says that there is one.
    let element = unsafe { start.add(index) };
    // SAFETY: an element is not at 0. (Otherwise, it would be compared with that, on each level.)
    unsafe { assert_unchecked(!element.is_null()) };
    // SAFETY: it was zero when it was published, which is a value by `Zero`, and is never handed out for writing.
    unsafe { &*element }
}

/// Where an element lies: its index there.
enum ElementPlace {
    Stretch(u64),
    Chunk(usize, u64),
}

// SAFETY: the pointers lead to what it owns, which are slices of `T`.
unsafe impl<T: Send + Sync> Send for Growing<T> {}
// SAFETY: as for `Send`; a shared one hands out shared elements only.
unsafe impl<T: Send + Sync> Sync for Growing<T> {}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, AtomicU64};

    const COUNT: u64 = if cfg!(miri) { 100 } else { 100_000 };

    #[test]
    fn each_number_has_an_element_of_its_own() {
        let array = Growing::<AtomicU64>::new();
        let name = |number| array.name(number);
        for number in 0..COUNT {
            array.reserve(number + 1).unwrap();
            assert_eq!(array.get(name(number)).unwrap().swap(number + 1, Ordering::Relaxed), 0);
        }
        assert!((0..COUNT).all(|number| array.get(name(number)).unwrap().load(Ordering::Relaxed) == number + 1));
    }

    #[test]
    fn a_word_that_names_no_element_leads_nowhere() {
        let array = Growing::<AtomicU64>::new();
        assert!(array.get(0).is_none() && array.get(1 << 32).is_none());
        array.reserve(FIRST + 1).unwrap();
        let made = |chunk: u64, index: u64| array.get((chunk + 1) << 32 | index).is_some();
        assert!(array.get(0).is_none(), "there is no stretch yet");
        assert!(made(0, FIRST - 1) && made(1, 0) && made(1, 2 * FIRST - 1));
        assert!(!made(0, FIRST) && !made(1, 2 * FIRST) && !made(2, 0) && !made(0, u64::from(u32::MAX)));
        assert!((0..64).all(|bit| array.get(1 << bit | 1 << 63).is_none() && array.get(!(1 << bit)).is_none()));
        assert!((2..u64::from(u32::MAX)).step_by(1 << 24).all(|chunk| !made(chunk, 0)));
        assert!(array.get(u64::MAX).is_none());
        array.reserve(SMALL + 1).unwrap();
        let stretch = (STRETCH / 8) as u64;
        assert!(array.get(0).is_some() && array.get(stretch - 1).is_some() && array.get(stretch).is_none());
        assert!(array.get(u64::MAX).is_none() && array.get(1 << 63).is_none() && !made(BEFORE as u64, 0));
        array.reserve(SMALL + stretch + 1).unwrap();
        assert!(made(BEFORE as u64, 0) && array.get(stretch).is_none());
    }

    /// As where the system has no addresses for the stretch.
    #[test]
    fn without_a_stretch_all_elements_lie_in_chunks() {
        let array = Growing::<AtomicU64>::new();
        {
            let mut growth = array.growth.lock();
            for chunk in 0..=BEFORE {
                let len = (FIRST as usize) << chunk;
                array.starts[chunk].store(growth.slabs.allocate(len).unwrap().as_ptr(), Ordering::Relaxed);
                array.lens[chunk].store(len, Ordering::Release);
            }
        }
        for number in 0..COUNT {
            array.reserve(number + 1).unwrap();
            assert_eq!(array.get(array.name(number)).unwrap().swap(number + 1, Ordering::Relaxed), 0);
        }
        assert!((0..COUNT).all(|number| array.get(array.name(number)).unwrap().load(Ordering::Relaxed) == number + 1));
        assert!(array.growth.lock().stretch.is_none());
    }

    #[test]
    fn elements_stay_where_they_are_while_it_grows() {
        let array = Growing::<AtomicU64>::new();
        let name = |number| array.name(number);
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
        assert!(array.reserve(1).is_ok() && array.get(array.name(0)).is_some());
    }
}
