//! The addresses that this process has left, and how many of them may be set aside for what is not there yet.
//!
//! A pool sets addresses aside so that its file can grow where it is mapped. They cost nothing, but there are only so
//! many: as many as the processor can tell apart, or as the process may use (`RLIMIT_AS`). All pools together set aside
//! no more than half of those that nobody uses, each of them a small part of what remains of that half. So however many
//! there are, the rest of the process keeps its half, and the last pool is opened like the first. What a pool needs
//! beyond, it takes when it needs it, as long as a quarter of all addresses stays for the rest of the process: without
//! any, its next allocation would end it.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of addresses that are set aside and not used, of all pools.
static SET_ASIDE: AtomicU64 = AtomicU64::new(0);

/// Bytes of addresses that are set aside for one mapping. They are counted as long as this lives.
#[derive(Default)]
pub(crate) struct SetAside(AtomicU64);

impl SetAside {
    /// Says how many they are now. One thread at a time.
    pub(crate) fn set(&self, bytes: u64) {
        let before = self.0.swap(bytes, Ordering::Relaxed);
        SET_ASIDE.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Bytes of addresses that the process neither uses nor has set aside.
pub(crate) fn left() -> u64 {
    let used = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = used.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    limit().saturating_sub(pages * rustix::param::page_size() as u64)
}

fn limit() -> u64 {
    getrlimit(Resource::As).current.unwrap_or(u64::MAX).min(all())
}

/// The most bytes of addresses that a pool may take now for what it needs.
pub(crate) fn spare() -> u64 {
    left().saturating_sub(limit() / 4)
}

/// The most bytes of addresses that may be set aside now for one thing: an eighth of what remains of the half for all.
pub(crate) fn share() -> u64 {
    let set_aside = SET_ASIDE.load(Ordering::Relaxed);
    let half = left().saturating_add(set_aside) / 2;
    half.saturating_sub(set_aside) / 8
}

/// How many bytes of addresses the processor tells apart for processes, or less.
pub(crate) fn all() -> u64 {
    (sample() as u64).checked_next_power_of_two().unwrap_or(u64::MAX)
}

/// An address that the system has chosen, at random near the end of all or behind a third; always the same one. 0 if
/// there is none yet.
pub(crate) fn sample() -> usize {
    static SAMPLE: AtomicUsize = AtomicUsize::new(0);
    match SAMPLE.load(Ordering::Relaxed) {
        0 => {}
        known => return known,
    }
    let (page, flags) = (rustix::param::page_size(), MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address the kernel chooses; nothing existing is replaced.
    let Ok(found) = (unsafe { mmap_anonymous(null_mut(), page, ProtFlags::empty(), flags) }) else { return 0 };
    // SAFETY: exactly the mapping made above, which nobody uses.
    let _ = unsafe { munmap(found, page) };
    match SAMPLE.compare_exchange(0, found.addr(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => found.addr(),
        Err(first) => first,
    }
}

/// What to do if the system refuses a mapping.
pub(crate) fn refused(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::OutOfMemory {
        return error;
    }
    let what = "the process has too few addresses left for it (`ulimit -v`), no memory (`ulimit -d`, `vm.overcommit_memory`), or as many \
                mappings as it may have (`vm.max_map_count`)";
    io::Error::new(io::ErrorKind::OutOfMemory, what)
}
