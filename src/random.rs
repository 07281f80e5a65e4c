//! Numbers at random.

use std::hash::{BuildHasher, RandomState};

/// A number that is unique, and not secret: the standard library seeds its hashers from the system's random source.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}
