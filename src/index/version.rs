//! The version word of a node of an index in memory: a sequence lock with one writer. It is odd while the node is open,
//! which means that it is being written.

use crate::sync::delay::delay;
use crate::sync::version;
use crate::sync::{AtomicU64, Ordering, spin_loop};

/// Failed tries after which a reader takes the writer's lock.
const TRIES: usize = if cfg!(bristlecone_loom) { 1 } else { 64 };

/// Why a reader has to start again from the root.
#[derive(Debug)]
pub(crate) enum Moved {
    /// What was being read was written to.
    Written,
    /// A node is still in the pool, or seemed to be because of a concurrent write.
    NotLoaded,
}

/// Repeats a read that a write interfered with. `None`: all tries failed, or a node is still in the pool.
pub(crate) fn again<R>(mut read: impl FnMut() -> Result<R, Moved>) -> Option<R> {
    for _ in 0..TRIES {
        match read() {
            Ok(found) => return Some(found),
            Err(Moved::Written) => spin_loop(),
            Err(Moved::NotLoaded) => break,
        }
    }
    None
}

/// See the [module](self).
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexVersion<'n>(pub(crate) &'n AtomicU64);

impl IndexVersion<'_> {
    /// The version under which to read the node.
    #[inline]
    pub(crate) fn optimistic_read(self) -> Result<u64, Moved> {
        let version = version::optimistic_read(self.0);
        if version.is_multiple_of(2) { Ok(version) } else { Err(Moved::Written) }
    }

    /// Whether everything read since [`optimistic_read`](Self::optimistic_read) belongs to this version.
    #[inline]
    pub(crate) fn validate(self, version: u64) -> Result<(), Moved> {
        if version::validate(self.0, version) { Ok(()) } else { Err(Moved::Written) }
    }

    /// Keeps readers out. Returns false if the node was open.
    pub(crate) fn open(self) -> bool {
        let version = self.0.load(Ordering::Relaxed);
        let closed = version.is_multiple_of(2);
        if closed {
            self.0.store(version + 1, Ordering::Relaxed);
            version::announce();
        }
        closed
    }

    /// Lets readers in again, under a version they have not seen.
    pub(crate) fn close(self) {
        let version = self.0.load(Ordering::Relaxed);
        debug_assert!(!version.is_multiple_of(2));
        delay();
        self.0.store(version + 1, Ordering::Release);
    }
}
