//! Reproducible randomness, and the keys and values that benchmarks and workers use.

use std::hash::{BuildHasher, RandomState};

/// A bijection of the 64-bit words that scatters neighbours (the finaliser of SplitMix64).
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A sequence of uniform words.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `limit`, which is not 0.
    #[inline]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        Self::scale(self.word(), limit)
    }

    /// Maps a uniform word to a number below `limit`.
    #[inline]
    pub(crate) fn scale(word: u64, limit: u64) -> u64 {
        ((u128::from(word) * u128::from(limit)) >> 64) as u64
    }
}

/// A seed that differs from run to run.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(std::process::id()) >> 32
}

/// A series of uniform keys without repetition: every index has its own key, and the value follows from the key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    seed: u64,
}

impl Keys {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed: mix(seed) }
    }

    /// The `i`-th key.
    #[inline]
    pub(crate) fn key(self, i: u64) -> u64 {
        mix(self.seed.wrapping_add(i))
    }

    /// The value that belongs to a key.
    #[inline]
    pub(crate) fn value(key: u64) -> u64 {
        !key.rotate_left(17)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_do_not_repeat() {
        let keys = Keys::new(1);
        let distinct: HashSet<u64> = (0..10_000).map(|i| keys.key(i)).collect();
        assert_eq!(distinct.len(), 10_000);
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(1), 0);
    }
}
