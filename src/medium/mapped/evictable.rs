//! The private pages of a mapping with a journal, as far as they can show the file again.

use super::pages::FileMap;
use crate::medium::disk_file::DiskFile;
use crate::medium::journal::Pages;
use core::sync::atomic::{AtomicU64, Ordering};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a page of the machine; where pages are larger, none go.
const PAGE: u64 = 4096;

pub(super) struct Evictable {
    pub(super) map: Arc<FileMap>,
    pub(super) file: DiskFile,
    /// See `System::growing`.
    pub(super) growing: Arc<Mutex<()>>,
}

impl Pages for Evictable {
    fn with_length(&self, work: &mut dyn FnMut()) -> bool {
        let growing = self.growing.try_lock();
        if growing.is_some() {
            work();
        }
        growing.is_some()
    }

    fn unit(&self, at: u64) -> (Range<u64>, bool) {
        match self.map.detached_around(at) {
            Some(unit) => (unit, true),
            None => (at / PAGE * PAGE..at / PAGE * PAGE + PAGE, false),
        }
    }

    fn shows(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(start) = self.map.part(&(at..at + bytes.len() as u64)) else { return false };
        let words = start.cast::<AtomicU64>();
        bytes.as_chunks::<8>().0.iter().enumerate().all(|(index, bytes)| {
            // SAFETY: a word of what is mapped, which stays so while the length does; it is only accessed atomically.
            let word = unsafe { &*words.wrapping_add(index) };
            word.load(Ordering::Relaxed) == u64::from_ne_bytes(*bytes)
        })
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let Some(start) = self.map.part(&(at..at + bytes.len() as u64)) else { return };
        for (index, bytes) in bytes.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: as in `shows`.
            let word = unsafe { &*start.cast::<AtomicU64>().wrapping_add(index) };
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    fn show_file(&self, range: Range<u64>, kept: &[u64]) -> io::Result<()> {
        if self.map.detached_around(range.start).is_some() {
            self.map.attach(self.file.as_file(), range, kept)
        } else {
            self.map.show_file(&range)
        }
    }

    fn let_go(&self, range: Range<u64>) {
        let _ = self.map.show_file(&range);
    }
}
