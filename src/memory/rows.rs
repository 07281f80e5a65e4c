//! Rows of equal length by their numbers, of which each comes into being when it is first needed.
//!
//! Numbers may be any. There is a page of pointers for each [`PAGE`] numbers of which one is in use, and a table of these
//! pages. The first page is found without the table: most pools have no more segments than that, and each load on the way
//! to a row makes every search longer.
//!
//! Whatever was made stays where it is until all is dropped, so readers need no lock, however late they are.

use super::slabs::Slabs;
use super::{Zero, Zeroed};
use crate::sync::Mutex;
use std::io;
use std::ptr::NonNull;
// Not those that models see into: each would make every access to a row into several executions. In models, rows are made
// before there are threads.
use std::sync::atomic::{AtomicPtr, Ordering};

/// Pointers in a page.
const PAGE: usize = 512;

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
    table: AtomicPtr<Table<T>>,
    growth: Mutex<Growth<T>>,
}

struct Table<T>(Zeroed<AtomicPtr<Page<T>>>);

/// What the pointers point to.
struct Growth<T> {
    rows: Slabs<T>,
    pages: Vec<Zeroed<Page<T>>>,
    /// The last one is the current one. Readers may still use the others.
    #[expect(clippy::vec_box, reason = "readers have pointers to them")]
    tables: Vec<Box<Table<T>>>,
}

impl<T: Zero> Rows<T> {
    /// Rows of `len` elements.
    pub(crate) fn new(len: usize) -> Self {
        let growth = Growth { rows: Slabs::new(), pages: Vec::new(), tables: Vec::new() };
        let (first, table) = (AtomicPtr::new(none()), AtomicPtr::default());
        Self { len, first, table, growth: Mutex::new(growth) }
    }

    /// Element `at` of a row; `None` if the row was not made, or is not so long.
    #[inline(always)]
    pub(crate) fn get(&self, row: usize, at: usize) -> Option<&T> {
        let (page, row) =
            if row < PAGE { (self.first.load(Ordering::Acquire), row) } else { (self.page(row / PAGE), row % PAGE) };
        // SAFETY: it is the page without rows, or one that lives as long as `self`, and its content was published with its
        // address.
        let start = unsafe { &*page }[row].load(Ordering::Acquire);
        if start.is_null() || at >= self.len {
            return None;
        }
        // SAFETY: `at` is below the length of the row.
        let element = unsafe { start.add(at) };
        // SAFETY: the row lives as long as `self`, its elements were zero when the pointer was published, which is a value
        // by `Zero`, and they are never handed out for writing.
        Some(unsafe { &*element })
    }

    #[inline]
    fn page(&self, number: usize) -> *mut Page<T> {
        let table = self.table.load(Ordering::Acquire);
        // SAFETY: it is null, or that of a table that lives as long as `self`.
        let page = unsafe { table.as_ref() }.and_then(|table| table.0.get(number));
        let page = page.map_or(std::ptr::null_mut(), |page| page.load(Ordering::Acquire));
        if page.is_null() { none() } else { page }
    }

    /// Makes a row, unless there is one.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn make(&self, row: usize) -> io::Result<()> {
        let mut growth = self.growth.lock();
        let page = match self.page(row / PAGE) {
            page if page == none() => self.add_page(&mut growth, row / PAGE)?,
            page => page,
        };
        // SAFETY: the page lives as long as `self`.
        let pointer = unsafe { &(&*page)[row % PAGE] };
        if pointer.load(Ordering::Relaxed).is_null() {
            pointer.store(growth.rows.take(self.len)?.as_ptr(), Ordering::Release);
        }
        Ok(())
    }

    fn add_page(&self, growth: &mut Growth<T>, number: usize) -> io::Result<*mut Page<T>> {
        if growth.tables.last().is_none_or(|table| table.0.len() <= number) {
            let table = Table(Zeroed::new((number + 1).next_power_of_two())?);
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
    use crate::sync::AtomicU64;
    use std::sync::Barrier;

    const LEN: usize = 5;

    #[test]
    fn rows_are_those_that_were_made() {
        let rows = Rows::<AtomicU64>::new(LEN);
        let numbers = &[0, 3, 511, 512, 513, 5000, 1 << 20][..if cfg!(miri) { 6 } else { 7 }];
        assert!(numbers.iter().all(|&number| rows.get(number, 0).is_none()));
        numbers.iter().for_each(|&number| rows.make(number).unwrap());
        for (&number, at) in numbers.iter().flat_map(|number| (0..LEN).map(move |at| (number, at))) {
            assert_eq!(rows.get(number, at).unwrap().swap(number as u64 + 1, Ordering::Relaxed), 0);
        }
        let holds = |&number: &usize| {
            let is_own = |at| rows.get(number, at).unwrap().load(Ordering::Relaxed) == number as u64 + 1;
            (0..LEN).all(is_own)
        };
        assert!(numbers.iter().all(holds));
        assert!(
            [1, 2, 510, 514, 1024, 5001, (1 << 20) + 1, usize::MAX].iter().all(|&other| rows.get(other, 0).is_none())
        );
        assert!(rows.get(0, LEN).is_none() && rows.get(0, usize::MAX).is_none());
    }

    /// Each thread makes all rows, from another one on. So most are found by threads that did not make them, while pages
    /// and tables are added.
    #[test]
    fn rows_stay_where_they_are_while_others_are_made() {
        const THREADS: usize = 4;
        let count: usize = if cfg!(miri) { 8 } else { 4000 };
        let rows = Rows::<AtomicU64>::new(LEN);
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
                        rows.make(number(i)).unwrap();
                        let word = rows.get(number(i), LEN - 1).unwrap();
                        word.fetch_add(1, Ordering::Relaxed);
                        places[i % count] = std::ptr::from_ref(word).addr();
                        // The first one is found whatever is added meanwhile.
                        assert!(rows.get(number(begin), 0).is_some());
                    }
                    places
                })
            });
            let each: Vec<_> = each.collect();
            each.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for i in 0..count {
            let word = rows.get(number(i), LEN - 1).unwrap();
            assert_eq!(word.load(Ordering::Relaxed), THREADS as u64);
            assert!(places.iter().all(|places| places[i] == std::ptr::from_ref(word).addr()));
        }
    }

    #[test]
    fn a_row_for_which_there_is_no_memory_is_an_error() {
        let rows = Rows::<AtomicU64>::new(usize::MAX / 16);
        assert!(rows.make(7).is_err() && rows.get(7, 0).is_none());
    }
}
