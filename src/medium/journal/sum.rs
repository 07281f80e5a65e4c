//! The checksum of a ring's words, which threads store: cheaper than a CRC, and as good for single bits.

use crate::random::Random;

/// A sum of words that are multiplied with keys: each change of a single bit changes the upper half.
pub(super) struct KeyedSum(u64);

impl KeyedSum {
    #[inline]
    pub(super) fn new(nonce: u64, position: u64, place: u64) -> Self {
        let mut sum = Self(nonce);
        sum.add(position, KEYS[8]);
        sum.add(place, KEYS[9]);
        sum
    }

    #[inline]
    pub(super) fn add(&mut self, word: u64, key: u64) {
        self.0 = self.0.wrapping_add(word.wrapping_mul(key));
    }

    /// 32 bits, not all of them 0.
    #[inline]
    pub(super) fn check(&self) -> u64 {
        let upper = self.0 >> 32;
        if upper == 0 { u64::from(u32::MAX) } else { upper }
    }
}

/// For each word of a cell, and for its position, and for `where`.
pub(super) const KEYS: [u64; 10] = keys();

/// Odd numbers. None of their multiples by powers of two is near to 0, so that the sum of a word with one bit more or
/// less differs by more than the lower half holds.
const fn keys() -> [u64; 10] {
    let (mut keys, mut found, mut random) = ([0; 10], 0, Random(0));
    while found < keys.len() {
        let key = random.next() | 1;
        let (mut bit, mut is_far) = (0, true);
        while bit < 64 {
            let multiple = key << bit;
            let distance = if multiple < multiple.wrapping_neg() { multiple } else { multiple.wrapping_neg() };
            is_far = is_far && distance >> 32 != 0;
            bit += 1;
        }
        if is_far {
            keys[found] = key;
            found += 1;
        }
    }
    keys
}
