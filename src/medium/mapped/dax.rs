//! Mappings whose file-system metadata is durable without `msync`.

use crate::arch::{self, Flush};
use crate::medium::{Domain, LINE};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::ptr::null_mut;

pub(super) struct SyncMap {
    start: *mut core::ffi::c_void,
    len: usize,
}

impl SyncMap {
    /// `None` where the file system has no direct access.
    pub(super) fn new(file: &File, len: usize, writable: bool) -> Option<Self> {
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        // SAFETY: a new mapping at an address the kernel chooses; nothing existing is replaced.
        let start = unsafe { mmap(null_mut(), len, protection, flags, file, 0) }.ok()?;
        Some(Self { start, len })
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.cast()
    }
}

impl Drop for SyncMap {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; `Mapped` hands out no reference that outlives it.
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
