//! Syncs of a file, whose failures are remembered.
//!
//! The system tells an error of the disk once, and takes what it could not write for written: the next sync succeeds, and what the disk
//! lacks is gone with the cache. So after a failure, no sync of the mapping succeeds any more: a pool is not closed in order
//! on it, although its owner was told.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

/// The first failure, if there was one.
#[derive(Default)]
pub(super) struct Syncs(OnceLock<io::Error>);

impl Syncs {
    /// Calls `sync`, unless it was in vain before.
    ///
    /// # Errors
    ///
    /// The error of the system, now or of the first failure.
    pub(super) fn sync(&self, file: &File, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        if let Some(first) = self.0.get() {
            return Err(io::Error::new(first.kind(), format!("an earlier sync of the file failed: {first}")));
        }
        #[cfg(all(test, target_os = "linux", not(any(bristlecone_loom, miri))))]
        let sync = |file: &File| if failing::this() { Err(io::ErrorKind::StorageFull.into()) } else { sync(file) };
        sync(file).inspect_err(|error| {
            let first = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            let _ = self.0.set(first);
        })
    }
}

/// Stands for a disk that cannot write.
#[cfg(all(test, target_os = "linux", not(any(bristlecone_loom, miri))))]
pub(super) mod failing {
    use std::cell::Cell;

    thread_local! {
        static SYNCS: Cell<u32> = const { Cell::new(0) };
    }

    /// The next so many syncs of this thread fail.
    pub(in super::super) fn next(syncs: u32) {
        SYNCS.set(syncs);
    }

    pub(super) fn this() -> bool {
        let left = SYNCS.get();
        SYNCS.set(left.saturating_sub(1));
        left > 0
    }
}
