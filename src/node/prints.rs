//! The fingerprints of an unsorted leaf, and how many entries it has, in its shadow.

use crate::arch::simd::{self, FortyBytes};
use crate::memory::Zero;
use crate::node::fingerprints::SlotSet;
use crate::sync::{AtomicU64, Ordering};

/// The most slots: as many fingerprints as fit into the shadow's line.
pub(super) const MOST: usize = 39;

/// Words of fingerprints in the shadow; the last byte is the count.
const WORDS: usize = (MOST + 1) / 8;

/// The first `slots` slots.
const fn all(slots: usize) -> SlotSet {
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
    /// The slots, of the first `SLOTS`, that have this fingerprint.
    #[inline]
    pub(super) fn matching<const SLOTS: usize>(&self, print: u8) -> SlotSet {
        simd::equal(&self.0 as &FortyBytes, print) & all(SLOTS)
    }

    /// The slots, of the first `SLOTS`, that hold no entry.
    #[inline]
    pub(super) fn empty<const SLOTS: usize>(&self) -> SlotSet {
        self.matching::<SLOTS>(0)
    }

    /// The slots, of the first `SLOTS`, that hold an entry.
    #[inline]
    pub(super) fn used<const SLOTS: usize>(&self) -> SlotSet {
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

    /// Records that all slots are empty.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Records entries in empty slots.
    // Word by word: to load bytes together that were stored one by one, a processor waits for all stores before these,
    // also for those to lines that are not in its cache.
    pub(super) fn fill_all(&self, entries: impl Iterator<Item = (usize, u8)>) {
        let mut count = self.count();
        for (slot, print) in entries {
            self.set_byte(slot, print);
            count += 1;
        }
        self.set_byte(MOST, count as u8);
    }

    /// Records that all slots but these are empty.
    pub(super) fn retain(&self, slots: SlotSet) {
        let bytes_of = |bits: u64| {
            let each = (bits & 0xff).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
            // The highest bit of each byte that is not 0, then all of its bits.
            let set = (each.wrapping_add(0x7f7f_7f7f_7f7f_7f7f) | each) & 0x8080_8080_8080_8080;
            (set >> 7).wrapping_mul(0xff)
        };
        let mut count = 0;
        for (i, word) in self.0.iter().enumerate() {
            let kept = word.load(Ordering::Relaxed) & bytes_of((slots & all(MOST)) >> (i * 8));
            count += 8 - simd::equal_in_word(kept, 0).count_ones();
            word.store(kept, Ordering::Relaxed);
        }
        self.set_byte(MOST, count as u8);
    }
}

/// The empty slot for an entry: one of its home line, or else the next one behind, or else the first. `empty` has at
/// least one slot, or the result is no slot.
#[inline]
pub(super) fn nearest(empty: SlotSet, home: SlotSet) -> usize {
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

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::random::Random;

    fn bytes(prints: &Prints) -> Vec<u8> {
        prints.0.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
    }

    #[test]
    fn what_stays_is_what_was_there_and_is_counted() {
        let mut random = Random(1);
        for _ in 0..2000 {
            let (used, kept) = (random.next() & all(MOST), random.next());
            let print = |slot: usize| [1, 0x80, 0xff, 0x7f][slot % 4];
            let of = |slots: SlotSet| (0..MOST).filter(move |slot| slots >> slot & 1 == 1);
            let expected = |slots: SlotSet| {
                let mut bytes = vec![0; MOST + 1];
                of(slots).for_each(|slot| bytes[slot] = print(slot));
                bytes[MOST] = slots.count_ones() as u8;
                bytes
            };
            let prints = Prints::zero();
            let half = used & random.next();
            prints.fill_all(of(half).map(|slot| (slot, print(slot))));
            prints.fill_all(of(used & !half).map(|slot| (slot, print(slot))));
            assert_eq!(bytes(&prints), expected(used));
            prints.retain(kept);
            assert_eq!(bytes(&prints), expected(used & kept));
            prints.clear();
            assert_eq!(bytes(&prints), expected(0));
        }
    }
}
