//! Numbers at random.

use std::hash::{BuildHasher, RandomState};

/// A number that is unique, and not secret: the standard library seeds its hashers from the system's random source.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// Numbers that a seed determines: SplitMix64. The keys of a ring's checks are made of them, so they stay as they are.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

#[allow(dead_code, reason = "most of it is for checkers")]
impl Random {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// True once in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
