//! What the system is told about how a mapping is read, and what it is asked for ahead.
//!
//! A fault of a page that is not in memory makes the system read many pages around it, 128 KiB or more, as the disk is
//! set. Where memory holds only a part of the file, these push out pages that are used: a random access to a pool of
//! 257 MiB under a limit of 96 MiB takes fifty times as long as the disk. So beyond half of the memory, only the page
//! that is accessed is read. Then the system does not know either what will be read next. What does know asks ahead.

use super::Mapped;
use super::mode::MapMode;
use super::system::page;
use crate::medium::{Access, Medium, limit};
use rustix::mm::Advice;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// No memory is so small that half of it holds less.
const LEAST: u64 = 4 << 20;

/// How a file is to be read.
#[derive(Default)]
pub(super) struct Wishes {
    pub(super) access: Access,
    /// Half of the memory, when it was first asked for.
    half: OnceLock<u64>,
}

impl Wishes {
    /// The advice for a file of so many bytes.
    fn for_file(&self, len: u64) -> Advice {
        let is_large = || len > LEAST && len > self.half();
        match self.access {
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
            Access::Auto if is_large() => Advice::Random,
            Access::Auto => Advice::Normal,
        }
    }

    /// Half of the memory, beyond which a file is read page by page.
    fn half(&self) -> u64 {
        *self.half.get_or_init(|| {
            #[cfg(all(test, not(any(bristlecone_loom, miri))))]
            if let Some(bytes) = super::tests::SHARE.get() {
                return bytes;
            }
            limit::memory() / 2
        })
    }
}

/// Advice that was given for a whole mapping, and is to be given for what is added to it.
pub(super) struct Advised(AtomicU32);

impl Default for Advised {
    fn default() -> Self {
        Self(AtomicU32::new(Advice::Normal as u32))
    }
}

impl Advised {
    /// Whether only what is accessed is read.
    #[inline]
    pub(super) fn is_random(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Advice::Random as u32
    }

    /// The advice, unless it is what the system does anyway.
    pub(super) fn given(&self) -> Option<Advice> {
        [Advice::Random, Advice::Sequential].into_iter().find(|&advice| self.0.load(Ordering::Relaxed) == advice as u32)
    }

    /// Notes an advice. False if it was given before.
    pub(super) fn note(&self, advice: Advice) -> bool {
        self.0.swap(advice as u32, Ordering::Relaxed) != advice as u32
    }
}

impl Mapped {
    /// Advises the system for a file of so many bytes, of which all are mapped. One thread at a time.
    pub(super) fn advise(&self, len: u64) {
        // In memory, and where the processor reads the disk itself, there is nothing to be read ahead.
        if !self.system.in_memory && matches!(self.map.how(), MapMode::Shared | MapMode::Private) {
            let advice = self.system.wishes.for_file(len);
            if self.map.advise(advice) {
                use rustix::fs;
                let is_random = advice == Advice::Random;
                let advice = if is_random { fs::Advice::Random } else { fs::Advice::Normal };
                // What checkpoints and evictions read, page by page. A hint.
                let _ = fs::fadvise(self.file.as_file(), 0, None, advice);
            }
        }
    }

    /// See [`Medium::asks_ahead`](crate::medium::Medium::asks_ahead): a quarter of the memory.
    pub(super) fn kept_by_a_reader(&self) -> Option<u64> {
        self.map.advised.is_random().then(|| self.system.wishes.half() / 2)
    }

    /// See [`Medium::missing`](crate::medium::Medium::missing).
    pub(super) fn not_in_memory(&self, at: u64, len: u64) -> Vec<Range<u64>> {
        let pages = self.pages_over(at, len);
        let page = rustix::param::page_size() as u64;
        let mut there = vec![0u8; (pages.end.saturating_sub(pages.start)).div_ceil(page) as usize];
        let Some(part) = self.map.part(&pages).filter(|_| !there.is_empty()) else { return Vec::new() };
        // SAFETY: whole pages of the mapping, and a byte for each of them.
        if unsafe { libc::mincore(part, (pages.end - pages.start) as usize, there.as_mut_ptr()) } != 0 {
            return Vec::new();
        }
        let mut missing: Vec<Range<u64>> = Vec::new();
        for (start, _) in (pages.start..).step_by(page as usize).zip(&there).filter(|(_, there)| **there & 1 == 0) {
            match missing.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end += page,
                None => missing.push(start..start + page),
            }
        }
        missing
    }

    /// Asks the disk for the pages of a range, and does not wait for them. A hint.
    pub(super) fn ask(&self, at: u64, len: u64) {
        let pages = self.pages_over(at, len);
        if self.map.advised.is_random() && pages.start < pages.end {
            let _ = self.populate_pages(pages, Advice::WillNeed);
        }
    }

    /// Lets go of the pages of a range, if all of the file can never be in memory. A hint.
    pub(super) fn let_go(&self, at: u64, len: u64) {
        let pages = self.pages_over(at, len);
        if self.map.advised.is_random() && pages.start < pages.end && self.accessible() / 2 > self.system.wishes.half()
        {
            let _ = self.populate_pages(pages, Advice::LinuxPageOut);
        }
    }

    /// The whole pages of the mapping that a range touches.
    fn pages_over(&self, at: u64, len: u64) -> Range<u64> {
        at / page() * page()..(at + len).next_multiple_of(page()).min(self.map.mapped())
    }
}
