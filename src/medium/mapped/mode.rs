//! How a file is mapped on Linux.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::ptr::null_mut;

/// The unit that the system maps beside a page, where there is one.
pub(super) const HUGE_PAGE: u64 = 2 << 20;

/// How a file is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapMode {
    /// All stores reach the file, and its metadata are durable without `msync`. Only where the file system has direct
    /// access.
    Synchronous,
    /// The file is only read, and its metadata are durable without `msync`. Only where the file system has direct
    /// access.
    SynchronousToRead,
    /// All stores reach the file.
    Shared,
    /// Private pages: even a store to them does not reach the file.
    Private,
}

impl MapMode {
    pub(super) fn synchronous(writable: bool) -> Self {
        if writable { Self::Synchronous } else { Self::SynchronousToRead }
    }

    pub(super) fn flags(self) -> (ProtFlags, MapFlags) {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        match self {
            Self::Synchronous => (both, MapFlags::SHARED_VALIDATE | MapFlags::SYNC),
            Self::SynchronousToRead => (ProtFlags::READ, MapFlags::SHARED_VALIDATE | MapFlags::SYNC),
            Self::Shared => (both, MapFlags::SHARED | MapFlags::NORESERVE),
            Self::Private => (both, MapFlags::PRIVATE | MapFlags::NORESERVE),
        }
    }

    /// An error if the system does not map this part of a file so: it is mapped somewhere, and unmapped.
    pub(super) fn check(self, file: &File, at: usize, len: usize) -> io::Result<()> {
        let (protection, flags) = self.flags();
        // SAFETY: a new mapping where nothing is: the kernel chooses the address.
        let start = unsafe { mmap(null_mut(), len, protection, flags, file, at as u64) }?;
        // SAFETY: exactly the mapping made above, which nobody uses.
        let _ = unsafe { munmap(start, len) };
        Ok(())
    }
}
