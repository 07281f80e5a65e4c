//! Counters of what is rare: structural changes, and what threads do that were in each other's way. Nobody waits for
//! them, and where nothing of the kind happens, no instruction is spent on them.

// Not those of a model checker: no thread decides anything by them.
use core::sync::atomic::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// How often something has happened.
#[derive(Debug, Default)]
pub(crate) struct Rare(AtomicU64);

impl Rare {
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What has happened to the nodes of a chain since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// One node has become two.
    pub(crate) splits: Rare,
    /// Two nodes have become one, or an empty one has gone.
    pub(crate) merges: Rare,
    /// A read that another thread has disturbed began again.
    pub(crate) retries: Rare,
    /// A change has waited for a node that another thread had locked.
    pub(crate) waits: Rare,
}

/// The tallies, in lines of their own: all threads read what lies beside them.
pub(crate) type Tally = CachePadded<Tallies>;
