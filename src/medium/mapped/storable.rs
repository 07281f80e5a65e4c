//! Stores to what was reserved that cannot run out of space.
//!
//! A file system takes the space of the whole *folio* of its cache in which a page lies, when the page is stored to. A
//! folio may be as long as a huge page, and the file may have only a part of it: the rest is a hole. Then the disk may
//! be too full for a store to what was reserved, and the system ends the process with a signal. The first read makes a
//! folio: an access to the mapping, or that of another program that copies the file. So:
//!
//! - What was reserved is stored to, in a way that reports errors, before it counts as reserved.
//! - A folio that lies partly in a reserved range and partly in a hole has one of the two ends of that range. The pages
//!   there are stored to when the pool is opened, and when the range gets another end, or a hole beside it. Then the
//!   rest of the folio has space, too.

use super::Mapped;
use super::mode::HUGE_PAGE;
use super::system::page;
use crate::medium::disk_file::has_blocks;
use crate::medium::journal::Disk;
use rustix::io::Errno;
use rustix::mm::Advice;
use std::io;
use std::ops::Range;

impl Mapped {
    /// Takes what stores to whole pages of a shared mapping need: their space is reserved.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`], [`io::ErrorKind::OutOfMemory`]; what the disk says that cannot read the pages,
    /// or write others.
    pub(super) fn make_storable(&self, pages: &Range<u64>) -> io::Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let whole = pages.start..pages.end.next_multiple_of(page());
        let store = || populate(self, whole.clone(), Advice::LinuxPopulateWrite);
        match store() {
            // Linux before 5.14 does not know it. It has no large folios either.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(Errno::FAULT) => {
                // Folios are made anew, as small as may be.
                let end = whole.end.next_multiple_of(HUGE_PAGE).min(self.map.mapped());
                let write = || self.file.sync();
                self.map.forget(self.file.as_file(), &(whole.start / HUGE_PAGE * HUGE_PAGE..end), write)?;
                match store() {
                    Err(Errno::FAULT) if populate(self, whole.clone(), Advice::LinuxPopulateRead).is_err() => {
                        Err(Errno::IO.into())
                    }
                    Err(Errno::FAULT) => Err(Errno::NOSPC.into()),
                    other => Ok(other?),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the ends of a reserved range storable, as far as a hole may follow there in the same folio. What lies from
    /// `done` on is storable.
    pub(super) fn hold_ends(&self, pages: &Range<u64>, done: u64) -> io::Result<()> {
        let page = page();
        let first = pages.start..(pages.start + page).min(pages.end);
        let last = pages.start.max(pages.end.saturating_sub(1) / page * page)..pages.end;
        if !pages.start.is_multiple_of(HUGE_PAGE) && first.start < done {
            self.make_storable(&first)?;
        }
        if !pages.end.is_multiple_of(HUGE_PAGE) && last.start < done {
            self.make_storable(&last)?;
        }
        Ok(())
    }

    /// Makes the pages beside a range that was given back storable, if they have space: the folio there may still be in
    /// one piece.
    pub(super) fn hold_beside(&self, pages: &Range<u64>) -> io::Result<()> {
        let page = page();
        let before = pages.start.saturating_sub(page)..pages.start;
        let behind = pages.end..(pages.end + page).min(self.map.mapped());
        for (end, beside) in [(pages.start, before), (pages.end, behind)] {
            if !end.is_multiple_of(HUGE_PAGE) && !beside.is_empty() && has_blocks(self.file.as_file(), &beside) {
                self.make_storable(&beside)?;
            }
        }
        Ok(())
    }
}

fn populate(mapped: &Mapped, pages: Range<u64>, advice: Advice) -> rustix::io::Result<()> {
    #[cfg(all(test, not(any(bristlecone_loom, miri))))]
    if let Some(error) = failing::of(advice) {
        return Err(error);
    }
    mapped.populate_pages(pages, advice)
}

/// Stands for a disk that has no space left, or that cannot read.
#[cfg(all(test, not(any(bristlecone_loom, miri))))]
pub(super) mod failing {
    use super::{Advice, Errno};
    use std::cell::Cell;

    thread_local! {
        static STORES: Cell<u32> = const { Cell::new(0) };
        static READS: Cell<u32> = const { Cell::new(0) };
    }

    /// The next so many stores, and reads, of this thread fail.
    pub(in super::super) fn next(stores: u32, reads: u32) {
        STORES.set(stores);
        READS.set(reads);
    }

    pub(super) fn of(advice: Advice) -> Option<Errno> {
        let left = if advice == Advice::LinuxPopulateWrite { &STORES } else { &READS };
        let fails = left.get() > 0;
        left.set(left.get().saturating_sub(1));
        fails.then_some(Errno::FAULT)
    }
}
