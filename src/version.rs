//! Optimistic reads, as of a sequence lock: what both version words share, that of a node in the pool ([`VersionLock`]) and
//! that of a node of an index in memory.
//!
//! A reader takes the word ([`optimistic_read`]), reads, and believes what it read if the word is still the same
//! ([`validate`]). A writer first makes the word another one ([`announce`]), then stores, then gives the word a value that it
//! never had.
//!
//! [`VersionLock`]: crate::node::shadow::VersionLock

use crate::delay::delay;
use crate::sync::{AtomicU64, Ordering, fence};

/// The word to read under.
#[inline(always)]
pub(crate) fn optimistic_read(word: &AtomicU64) -> u64 {
    let version = word.load(Ordering::Acquire);
    delay();
    version
}

/// Whether everything read since [`optimistic_read`] belongs to one version.
#[inline(always)]
#[must_use]
pub(crate) fn validate(word: &AtomicU64, version: u64) -> bool {
    delay();
    // Pairs with the fence in `announce`: a load above that saw a writer's store makes the load below see its word.
    fence(Ordering::Acquire);
    word.load(Ordering::Relaxed) == version
}

/// The word that a writer stored just now, which turns readers away, is seen before any store that follows.
#[inline(always)]
pub(crate) fn announce() {
    fence(Ordering::Release);
    delay();
}
