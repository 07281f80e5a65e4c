//! Rows of equal length by their numbers. Each row comes into being when it is first needed.
//!
//! Numbers may be any. There is a page of pointers for each [`PAGE`] numbers, once one of these is in use, and a table
//! of these pages. The first page is found without the table: most pools have no more segments than that, and each load
//! on the way to a row makes every search longer.
//!
//! A small array needs the first elements of one row. So the first [`EARLY`] elements of the row that is needed first,
//! the *early* row, come in chunks, each as long as all before it, without a page. The others of that row come
//! together, as those of all other rows do:
//!
//! ```text
//! early row    | chunk 0: 8 | 8 | 16 | 32 | chunk 4: 64 | the rest             |
//! other rows   | all elements                                                 |
//! ```
//!
//! Elements have *numbers*, which ascend along a row. So one comparison tells whether an element is an early one. In a
//! large array that is rarely so, and a processor expects that it is not.
//!
//! Whatever was made stays where it is until all is dropped, so readers need no lock, however late they are.

use super::slabs::Slabs;
use super::{Zero, Zeroed};
use crate::sync::Mutex;
use std::hint::assert_unchecked;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
// Not those that models see into: each would make every access to a row into several executions. In models, rows are
// made before there are threads.
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Pointers in a page.
const PAGE: usize = 512;

/// The elements of the first chunk of the early row, and of all its chunks.
const LEAST: usize = 8;
const EARLY: usize = 128;
const CHUNKS: usize = (EARLY / LEAST).ilog2() as usize + 1;

/// No row begins with this number, and no element has it.
const NONE: u64 = 1 << 63;

/// The chunk of an early element.
#[inline(always)]
fn chunk_of(at: usize) -> usize {
    // All elements of the first chunk are taken for its last one.
    (at | (LEAST - 1)).ilog2() as usize + 1 - LEAST.ilog2() as usize
}

/// The elements of a chunk.
fn elements_of(chunk: usize) -> Range<usize> {
    if chunk == 0 { 0..LEAST } else { LEAST << (chunk - 1)..LEAST << chunk }
}

type Page<T> = [AtomicPtr<T>; PAGE];

/// A page without rows.
#[inline(always)]
fn none<T>() -> *mut Page<T> {
    static NONE: Page<()> = [const { AtomicPtr::new(std::ptr::null_mut()) }; PAGE];
    // Null pointers to elements of any type are alike, and nobody writes to this page.
    (&raw const NONE).cast_mut().cast()
}

/// See the [module](self).
pub(crate) struct Rows<T> {
    len: usize,
    /// The first page, or [`none`].
    first: AtomicPtr<Page<T>>,
    /// All pages by number.
    table: AtomicPtr<RowTable<T>>,
    /// The numbers of the early elements, from the first one on.
    span: u64,
    /// The number of the first element of the early row, or [`NONE`].
    early: AtomicU64,
    /// Where its chunks would start if they held all elements before them as well.
    chunks: [AtomicPtr<T>; CHUNKS],
    growth: Mutex<RowGrowth<T>>,
}

struct RowTable<T>(Zeroed<AtomicPtr<Page<T>>>);

/// What the pointers point to.
struct RowGrowth<T> {
    rows: Slabs<T>,
    pages: Vec<Zeroed<Page<T>>>,
    /// The last one is the current one. Readers may still use the others.
    #[expect(clippy::vec_box, reason = "readers have pointers to them")]
    tables: Vec<Box<RowTable<T>>>,
}

impl<T: Zero> Rows<T> {
    /// Rows of `len` elements, whose numbers differ by `step` in a row, and by `width` from one row to the next.
    /// Numbers are below `2^62`.
    pub(crate) fn new(len: usize, step: u64, width: u64) -> Self {
        let growth = RowGrowth { rows: Slabs::new(), pages: Vec::new(), tables: Vec::new() };
        let (first, table) = (AtomicPtr::new(none()), AtomicPtr::default());
        let (early, chunks, span) = (AtomicU64::new(NONE), Default::default(), (EARLY as u64 * step).min(width));
        Self { len, first, table, span, early, chunks, growth: Mutex::new(growth) }
    }

    /// Bytes of memory that the rows take, and what leads to them.
    pub(crate) fn resident(&self) -> u64 {
        let growth = self.growth.lock();
        let tables = growth.tables.iter().map(|table| size_of::<RowTable<T>>() as u64 + table.0.resident());
        let pages = growth.pages.capacity() * size_of::<Zeroed<Page<T>>>();
        growth.rows.resident()
            + tables.sum::<u64>()
            + pages as u64
            + growth.pages.iter().map(Zeroed::resident).sum::<u64>()
    }

    /// Element `at` of a row, with its number; `None` if it was not made.
    ///
    /// # Safety
    ///
    /// `at` is below the length of the rows, and the number is that of the first element of the row and `at` steps, or
    /// less than a step more.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, row: usize, at: usize, number: u64) -> Option<&T> {
        debug_assert!(at < self.len);
        let mut start = if row < PAGE {
            // SAFETY: it is the page without rows, or one that lives as long as `self`, and its content was published
            // with its address.
            let page = unsafe { &*self.first.load(Ordering::Acquire) };
            page[row].load(Ordering::Acquire)
        } else {
            // SAFETY: the same.
            let page = unsafe { &*self.page(row / PAGE) };
            page[row % PAGE].load(Ordering::Acquire)
        };
        // After the load of the start: a thread that finds the rest of the early row also finds which row that is.
        if number.wrapping_sub(self.early.load(Ordering::Relaxed)) < self.span {
            start = self.chunk(at);
        }
        if start.is_null() {
            return None;
        }
        // It may begin before the memory that it leads to.
        let element = start.wrapping_add(at);
        // SAFETY: no element is at 0.
        unsafe { assert_unchecked(!element.is_null()) };
        // SAFETY: `at` is below the length of the row, and lies in what `start` was made for. It lives as long as
        // `self`, was zero when the pointer was published, which is a value by `Zero`, and is never handed out for
        // writing.
        Some(unsafe { &*element })
    }

    /// Where the chunk of an early element would start if it held all before it; null if it was not made.
    // Apart: what is inlined here would make the way to all other elements longer.
    #[cold]
    #[inline(never)]
    fn chunk(&self, at: usize) -> *mut T {
        self.chunks[chunk_of(at)].load(Ordering::Acquire)
    }

    #[inline]
    fn page(&self, number: usize) -> *mut Page<T> {
        let table = self.table.load(Ordering::Acquire);
        // SAFETY: it is null, or points to a table that lives as long as `self`.
        let page = unsafe { table.as_ref() }.and_then(|table| table.0.get(number));
        let page = page.map_or(std::ptr::null_mut(), |page| page.load(Ordering::Acquire));
        if page.is_null() { none() } else { page }
    }

    /// Makes an element of a row, which is not beyond its length, unless it was made; and others with it. `first` is
    /// the number of the first element of the row.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn make(&self, row: usize, at: usize, first: u64) -> io::Result<()> {
        let mut growth = self.growth.lock();
        // In models, all elements of a row are made before there are threads.
        if self.early.load(Ordering::Relaxed) == NONE && at < EARLY && !self.has(row) && !cfg!(bristlecone_loom) {
            self.early.store(first, Ordering::Relaxed);
        }
        let is_early = self.early.load(Ordering::Relaxed) == first;
        if is_early && at < EARLY {
            let (pointer, elements) = (&self.chunks[chunk_of(at)], elements_of(chunk_of(at)));
            if pointer.load(Ordering::Relaxed).is_null() {
                let elements = elements.start..elements.end.min(self.len);
                let start = growth.rows.allocate(elements.len())?.as_ptr();
                pointer.store(start.wrapping_sub(elements.start), Ordering::Release);
            }
            return Ok(());
        }
        let page = match self.page(row / PAGE) {
            page if page == none() => self.add_page(&mut growth, row / PAGE)?,
            page => page,
        };
        // SAFETY: the page lives as long as `self`.
        let pointer = unsafe { &(&*page)[row % PAGE] };
        if pointer.load(Ordering::Relaxed).is_null() {
            let from = if is_early { EARLY } else { 0 };
            let start = growth.rows.allocate(self.len - from)?.as_ptr();
            pointer.store(start.wrapping_sub(from), Ordering::Release);
        }
        Ok(())
    }

    /// Whether a row was made that is not the early one.
    fn has(&self, row: usize) -> bool {
        // SAFETY: the page lives as long as `self`, or forever.
        let page = unsafe { &*self.page(row / PAGE) };
        !page[row % PAGE].load(Ordering::Relaxed).is_null()
    }

    fn add_page(&self, growth: &mut RowGrowth<T>, number: usize) -> io::Result<*mut Page<T>> {
        if growth.tables.last().is_none_or(|table| table.0.len() <= number) {
            let table = RowTable(Zeroed::new((number + 1).next_power_of_two())?);
            let old = growth.tables.last().map_or(&[][..], |old| &old.0);
            for (new, old) in table.0.iter().zip(old) {
                new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            growth.tables.push(Box::new(table));
            let table = NonNull::from(&**growth.tables.last().expect("one was added"));
            self.table.store(table.as_ptr(), Ordering::Release);
        }
        growth.pages.push(Zeroed::new(1)?);
        let page = NonNull::from(&growth.pages.last().expect("one was added")[0]).as_ptr();
        growth.tables.last().expect("there is one").0[number].store(page, Ordering::Release);
        if number == 0 {
            self.first.store(page, Ordering::Release);
        }
        Ok(page)
    }
}

// SAFETY: the pointers lead to what it owns, which are slices and tables of `T`.
unsafe impl<T: Send + Sync> Send for Rows<T> {}
// SAFETY: as for `Send`; a shared one hands out shared elements only.
unsafe impl<T: Send + Sync> Sync for Rows<T> {}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const LEN: usize = 5;
    const WIDTH: u64 = LONG as u64;
    const LONG: usize = EARLY + if cfg!(miri) { 8 } else { EARLY };

    fn get(rows: &Rows<AtomicU64>, row: usize, at: usize) -> Option<&AtomicU64> {
        assert!(at < rows.len);
        // SAFETY: checked just now; and this is the number.
        unsafe { rows.get(row, at, first(row) + at as u64) }
    }

    fn make(rows: &Rows<AtomicU64>, row: usize, at: usize) -> io::Result<()> {
        rows.make(row, at, first(row))
    }

    fn first(row: usize) -> u64 {
        row as u64 * WIDTH
    }

    #[test]
    fn rows_are_those_that_were_made() {
        let rows = Rows::<AtomicU64>::new(LONG, 1, WIDTH);
        let numbers = &[3, 0, 511, 512, 513, 5000, 1 << 20][..if cfg!(miri) { 6 } else { 7 }];
        assert!(numbers.iter().all(|&number| get(&rows, number, 0).is_none()));
        // The first one is the early one.
        (0..LONG).for_each(|at| make(&rows, 3, at).unwrap());
        numbers.iter().for_each(|&number| make(&rows, number, LONG - 1).unwrap());
        for (&number, at) in numbers.iter().flat_map(|number| (0..LONG).map(move |at| (number, at))) {
            assert_eq!(get(&rows, number, at).unwrap().swap(number as u64 + 1, Ordering::Relaxed), 0);
        }
        let holds = |&number: &usize| {
            let is_own = |at| get(&rows, number, at).unwrap().load(Ordering::Relaxed) == number as u64 + 1;
            (0..LONG).all(is_own)
        };
        assert!(numbers.iter().all(holds));
        assert!(
            [1, 2, 510, 514, 1024, 5001, (1 << 20) + 1, 1 << 40].iter().all(|&other| get(&rows, other, 0).is_none())
        );
    }

    #[test]
    fn the_early_row_comes_in_chunks_each_as_long_as_all_before_it() {
        let ends = (0..CHUNKS).scan(0, |end, chunk| {
            let elements = elements_of(chunk);
            assert_eq!(std::mem::replace(end, elements.end), elements.start);
            assert!(elements.clone().all(|at| chunk_of(at) == chunk));
            Some(elements.end)
        });
        assert!(ends.eq([8, 16, 32, 64, 128]));
        let rows = Rows::<AtomicU64>::new(LONG, 1, WIDTH);
        // In any order.
        let mut made = Vec::new();
        for (at, chunk) in [(40, 32..64), (7, 0..8), (16, 16..32)] {
            make(&rows, 9, at).unwrap();
            made.extend(chunk);
            assert!((0..LONG).all(|at| get(&rows, 9, at).is_some() == made.contains(&at)));
        }
        assert!(rows.resident() < 8 * 1024 && std::ptr::eq(rows.first.load(Ordering::Relaxed), none()));
        let early = std::ptr::from_ref(get(&rows, 9, 40).unwrap());
        make(&rows, 9, EARLY).unwrap();
        assert!((EARLY..LONG).all(|at| get(&rows, 9, at).is_some()) && get(&rows, 9, 8).is_none());
        assert!(std::ptr::eq(get(&rows, 9, 40).unwrap(), early));
        make(&rows, 8, 0).unwrap();
        assert!((0..LONG).all(|at| get(&rows, 8, at).is_some()), "only one row is early");
    }

    /// A row may have fewer elements than are early, and its last one may reach beyond it.
    #[test]
    fn early_elements_are_those_of_one_row_only() {
        let rows = Rows::<AtomicU64>::new(7, 640, 4096);
        let get = |row: usize, at: usize| {
            // SAFETY: there are seven elements, with these numbers.
            unsafe { rows.get(row, at, row as u64 * 4096 + at as u64 * 640) }
        };
        for row in [5, 6, 4] {
            (0..7).for_each(|at| rows.make(row, at, row as u64 * 4096).unwrap());
        }
        let mut places: Vec<_> = (4..7).flat_map(|row| (0..7).map(move |at| (row, at))).collect();
        places.sort_by_key(|&(row, at)| std::ptr::from_ref(get(row, at).unwrap()).addr());
        places.dedup_by_key(|&mut (row, at)| std::ptr::from_ref(get(row, at).unwrap()).addr());
        // The seventh one of the early row is no block of a segment, and may be another one's.
        assert!(places.len() >= 20, "{places:?}");
    }

    /// Each thread makes all rows, from another one on. So most are found by threads that did not make them, while
    /// pages and tables are added.
    #[test]
    fn rows_stay_where_they_are_while_others_are_made() {
        const THREADS: usize = 4;
        let count: usize = if cfg!(miri) { 8 } else { 4000 };
        let rows = Rows::<AtomicU64>::new(LEN, 1, WIDTH);
        let number = |i: usize| i % count * 257;
        let start = Barrier::new(THREADS);
        let places: Vec<Vec<usize>> = std::thread::scope(|threads| {
            let each = (0..THREADS).map(|thread| {
                let (rows, start) = (&rows, &start);
                threads.spawn(move || {
                    start.wait();
                    let begin = thread * count / THREADS;
                    let mut places = vec![0; count];
                    for i in begin..begin + count {
                        make(rows, number(i), LEN - 1).unwrap();
                        let word = get(rows, number(i), LEN - 1).unwrap();
                        word.fetch_add(1, Ordering::Relaxed);
                        places[i % count] = std::ptr::from_ref(word).addr();
                        // The first one is found whatever is added meanwhile.
                        assert!(get(rows, number(begin), 0).is_some());
                    }
                    places
                })
            });
            let each: Vec<_> = each.collect();
            each.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for i in 0..count {
            let word = get(&rows, number(i), LEN - 1).unwrap();
            assert_eq!(word.load(Ordering::Relaxed), THREADS as u64);
            assert!(places.iter().all(|places| places[i] == std::ptr::from_ref(word).addr()));
        }
    }

    #[test]
    fn a_row_for_which_there_is_no_memory_is_an_error() {
        let rows = Rows::<AtomicU64>::new(usize::MAX / 16, 1, WIDTH);
        assert!(make(&rows, 7, EARLY).is_err() && get(&rows, 7, EARLY).is_none());
        assert!(make(&rows, 7, 0).is_err() || get(&rows, 7, 0).is_some());
        assert!(make(&rows, 8, 0).is_err() && get(&rows, 8, 0).is_none());
    }
}
