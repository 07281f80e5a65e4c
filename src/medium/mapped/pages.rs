//! Mappings of files on Linux: where huge pages fit, and with durable file-system metadata where the system offers that.

use crate::arch::{self, Flush};
use crate::medium::{Domain, LINE};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::null_mut;

/// The smallest unit that the system maps.
pub(super) const PAGE: u64 = 4096;

/// The next larger unit, where there is one.
pub(super) const HUGE_PAGE: u64 = 2 << 20;

/// The advice to put huge pages into a range now. Not every C library names it.
pub(super) const MADV_COLLAPSE: i32 = 25;

/// A file that is mapped.
pub(in crate::medium) struct FileMap {
    start: *mut c_void,
    len: usize,
}

impl FileMap {
    /// Maps the first `len` bytes of a file for reading, and for writing if that is wanted.
    pub(in crate::medium) fn new(file: &File, len: usize, writable: bool) -> io::Result<Self> {
        // Private pages: even a store to them would not reach the file.
        let sharing = if writable { MapFlags::SHARED } else { MapFlags::PRIVATE };
        let map = Self::with(file, len, ProtFlags::READ | ProtFlags::WRITE, sharing | MapFlags::NORESERVE)?;
        // Only a hint: tmpfs may follow it, and other file systems refuse.
        // SAFETY: exactly the mapping; the advice changes no content.
        let _ = unsafe { madvise(map.start, len, Advice::LinuxHugepage) };
        Ok(map)
    }

    /// Maps a file such that its metadata are durable without `msync`. It fails where the file system has no direct access.
    pub(super) fn synchronous(file: &File, len: usize, writable: bool) -> io::Result<Self> {
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        Self::with(file, len, protection, MapFlags::SHARED_VALIDATE | MapFlags::SYNC)
    }

    fn with(file: &File, len: usize, protection: ProtFlags, flags: MapFlags) -> io::Result<Self> {
        // SAFETY: a new mapping where nothing is: an address is only a wish.
        let start = unsafe { mmap(aligned(len), len, protection, flags, file, 0) }?;
        Ok(Self { start, len })
    }

    /// Maps all pages at once: one fault per page would take longer. A hint.
    pub(in crate::medium) fn populate(&self) {
        // SAFETY: exactly the mapping; the advice changes no content.
        let _ = unsafe { madvise(self.start, self.len, Advice::LinuxPopulateWrite) };
    }

    /// Replaces whole huge pages of a private mapping, whose file has no data there, by memory that is no file's: it is filled in
    /// huge pages, and a first store need not copy a page of zeros.
    ///
    /// # Errors
    ///
    /// The error of the system; then the mapping is as it was.
    pub(super) fn detach(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        let (at, len) = (range.start as usize, (range.end - range.start) as usize);
        assert!(at.is_multiple_of(HUGE_PAGE as usize) && at + len <= self.len, "whole huge pages of the mapping");
        // SAFETY: the mapping is at least as long.
        let start = unsafe { self.start.cast::<u8>().add(at) }.cast();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: a part of this very mapping, which shows zeros and goes on to; words in it are only accessed atomically.
        unsafe { mmap_anonymous(start, len, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        // Only a hint.
        // SAFETY: exactly the part that was mapped; the advice changes no content.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        Ok(())
    }

    pub(in crate::medium) fn start(&self) -> *mut u8 {
        self.start.cast()
    }
}

/// An address at which huge pages fit and where so many bytes were free just now. It is a wish and no reservation: a file
/// that is mapped over a reservation takes the addresses even if that fails, and another thread may get them.
fn aligned(len: usize) -> *mut c_void {
    let huge = HUGE_PAGE as usize;
    let Some(all) = len.checked_add(huge).filter(|_| len >= huge) else { return null_mut() };
    // SAFETY: a new mapping at an address the kernel chooses; nothing existing is replaced.
    let free = unsafe { mmap_anonymous(null_mut(), all, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE) };
    let Ok(free) = free else { return null_mut() };
    // SAFETY: exactly the mapping made above, which nobody uses.
    let _ = unsafe { munmap(free, all) };
    free.map_addr(|at| at.next_multiple_of(huge))
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `with`; `Mapped` hands out no reference that outlives it.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

/// The domain of a synchronous mapping on this machine.
///
/// `PowerWithCaches` only if every region of persistent memory says so, because the file could lie on any of them.
/// `Power` only if there is an instruction that writes lines back, and if a line has the size that the proofs assume.
pub(super) fn domain() -> Domain {
    if arch::line_size() < LINE as usize {
        return Domain::Process;
    }
    let regions = std::fs::read_dir("/sys/bus/nd/devices").into_iter().flatten().flatten();
    let mut domains =
        regions.filter_map(|region| std::fs::read_to_string(region.path().join("persistence_domain")).ok()).peekable();
    if domains.peek().is_some() && domains.all(|domain| domain.trim() == "cpu_cache") {
        Domain::PowerWithCaches
    } else if Flush::chosen() == Flush::None {
        Domain::Process
    } else {
        Domain::Power
    }
}
