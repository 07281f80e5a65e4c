//! Optimistic reads, as in a sequence lock. This is what both version words have in common: the word of a node in the
//! pool ([`VersionLock`]) and the word of a node of an index in memory.
//!
//! A reader loads the word ([`optimistic_read`]), reads, and accepts what it read if the word is still the same
//! ([`validate`]). A writer first changes the word ([`announce`]), then stores, and then gives the word a value that it
//! never had before.
//!
//! [`VersionLock`]: crate::node::shadow::VersionLock

use crate::sync::delay::delay;
use crate::sync::{AtomicU64, Ordering, fence};

/// The version word to read under.
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
    // Pairs with the fence in `announce`: if a load above saw a writer's store, the load below sees the writer's word.
    fence(Ordering::Acquire);
    word.load(Ordering::Relaxed) == version
}

/// Makes the word that the writer has just stored, which turns readers away, visible before all stores that follow.
#[inline(always)]
pub(crate) fn announce() {
    fence(Ordering::Release);
    delay();
}
