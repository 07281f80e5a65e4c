//! The fingerprints of an unsorted leaf, and how many entries it has, in its shadow.

use crate::arch::simd::{self, Bytes};
use crate::memory::Zero;
use crate::node::fingerprints::Slots;
use crate::sync::{AtomicU64, Ordering};

/// The most slots: as many fingerprints as fit into the shadow's line.
pub(super) const MOST: usize = 39;

/// Words of fingerprints in the shadow; the last byte is the count.
const WORDS: usize = (MOST + 1) / 8;

/// So many slots, from the first one on.
const fn all(slots: usize) -> Slots {
    (1 << slots) - 1
}

/// The fingerprints and the count.
#[derive(Debug)]
pub struct Prints([AtomicU64; WORDS]);

// SAFETY: the type consists of numbers, for which zero bytes are the value 0, and it has no destructor.
unsafe impl Zero for Prints {
    fn zero() -> Self {
        Self(Zero::zero())
    }
}

impl Prints {
    /// Those of the first `SLOTS` slots that have this fingerprint.
    #[inline]
    pub(super) fn matching<const SLOTS: usize>(&self, print: u8) -> Slots {
        simd::equal(&self.0 as &Bytes, print) & all(SLOTS)
    }

    /// Those of the first `SLOTS` slots that hold no entry.
    #[inline]
    pub(super) fn empty<const SLOTS: usize>(&self) -> Slots {
        self.matching::<SLOTS>(0)
    }

    /// Those of the first `SLOTS` slots that hold an entry.
    #[inline]
    pub(super) fn used<const SLOTS: usize>(&self) -> Slots {
        !self.empty::<SLOTS>() & all(SLOTS)
    }

    #[inline]
    fn set_byte(&self, i: usize, byte: u8) {
        let (word, shift) = (&self.0[i / 8], i % 8 * 8);
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(byte) << shift, Ordering::Relaxed);
    }

    /// How many entries there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.0[WORDS - 1].load(Ordering::Relaxed) >> 56) as usize
    }

    /// Records an entry in an empty slot.
    #[inline]
    pub(super) fn fill(&self, slot: usize, print: u8) {
        self.set_byte(slot, print);
        self.set_byte(MOST, (self.count() + 1) as u8);
    }

    /// Records that a slot is now empty.
    #[inline]
    pub(super) fn vacate(&self, slot: usize) {
        self.set_byte(slot, 0);
        self.set_byte(MOST, (self.count() - 1) as u8);
    }

    /// Forgets all entries.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Records that of all slots that hold an entry only these still do.
    pub(super) fn keep(&self, slots: Slots) {
        let mut words = self.copy();
        let mut kept = 0;
        for (i, word) in words.0.iter_mut().enumerate() {
            *word &= bytes_of((slots & all(MOST)) >> (i * 8) as u32 & 0xff);
            kept += used_bytes(*word);
        }
        self.set(words, kept);
    }

    /// Records entries in empty slots: `fill` does so in a copy.
    pub(super) fn fill_many(&self, fill: impl FnOnce(&mut Copied)) {
        let mut words = self.copy();
        fill(&mut words);
        let mut used = 0;
        words.0[WORDS - 1] &= u64::MAX >> 8;
        for word in words.0 {
            used += used_bytes(word);
        }
        self.set(words, used);
    }

    fn copy(&self) -> Copied {
        Copied(self.0.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// Stores the fingerprints, and how many there are.
    fn set(&self, mut words: Copied, count: u32) {
        words.0[WORDS - 1] = words.0[WORDS - 1] & u64::MAX >> 8 | u64::from(count) << 56;
        self.0.iter().zip(words.0).for_each(|(word, new)| word.store(new, Ordering::Relaxed));
    }
}

/// A copy of fingerprints.
///
/// It is made of words, as they are stored: words that are read back from bytes just written wait until all of these are
/// in the cache.
pub(super) struct Copied([u64; WORDS]);

impl Copied {
    /// Records an entry in an empty slot.
    #[inline(always)]
    pub(super) fn fill(&mut self, slot: usize, print: u8) {
        let (word, shift) = (&mut self.0[slot / 8], slot % 8 * 8);
        *word = *word & !(0xff << shift) | u64::from(print) << shift;
    }
}

/// The lowest bit of each byte.
const LOWEST: u64 = 0x0101_0101_0101_0101;

/// The word whose byte `i` is 255 if bit `i` is set, and else 0.
#[inline]
const fn bytes_of(bits: u64) -> u64 {
    // Bit `i` of byte `i`, and then the highest bit of each byte that is not 0.
    let each = bits.wrapping_mul(LOWEST) & 0x8040_2010_0804_0201;
    (((each + (LOWEST * 0x7f)) >> 7) & LOWEST) * 0xff
}

/// How many bytes of a word are not 0.
#[inline]
const fn used_bytes(word: u64) -> u32 {
    let low = LOWEST * 0x7f;
    (((word & low) + low | word) & !low).count_ones()
}

/// The empty slot for an entry: one of its home line, or else the next one behind, or else the first. `empty` has at
/// least one slot, or the result is no slot.
#[inline]
pub(super) fn nearest(empty: Slots, home: Slots) -> usize {
    let from_home = empty & home.wrapping_neg();
    let choice = if empty & home != 0 {
        empty & home
    } else if from_home != 0 {
        from_home
    } else {
        empty
    };
    choice.trailing_zeros() as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn filled(prints: &[(usize, u8)]) -> Prints {
        let all = Prints::zero();
        all.fill_many(|all| prints.iter().for_each(|&(slot, print)| all.fill(slot, print)));
        all
    }

    fn content(prints: &Prints) -> Vec<u8> {
        prints.0.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
    }

    #[test]
    fn one_by_one_and_at_once_are_the_same() {
        let entries: Vec<(usize, u8)> = (0..MOST).map(|slot| (slot, (slot * 83 % 255 + 1) as u8)).collect();
        for step in 1..=MOST {
            let (some, one_by_one): (Vec<_>, _) = (entries.iter().copied().step_by(step).collect(), Prints::zero());
            some.iter().for_each(|&(slot, print)| one_by_one.fill(slot, print));
            assert_eq!(content(&filled(&some)), content(&one_by_one));
            assert_eq!(filled(&some).count(), some.len());
        }
    }

    #[test]
    fn what_is_kept_is_what_was_there() {
        let entries: Vec<(usize, u8)> = (0..MOST).step_by(2).map(|slot| (slot, [1, 128, 255][slot % 3])).collect();
        for i in 0..2000_u64 {
            let slots: Slots = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 30);
            let (kept, prints) = (entries.iter().filter(|(slot, _)| slots >> slot & 1 == 1), filled(&entries));
            prints.keep(slots);
            let kept: Vec<_> = kept.copied().collect();
            assert_eq!(content(&prints), content(&filled(&kept)));
            assert_eq!(prints.count(), kept.len());
        }
        let prints = filled(&entries);
        prints.clear();
        assert_eq!(content(&prints), [0; WORDS * 8]);
    }
}
