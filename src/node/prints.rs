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

    /// Changes several fingerprints at once.
    pub(super) fn edit(&self, change: impl FnOnce(&mut [u8; MOST])) {
        let mut bytes = [0; WORDS * 8];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&self.0) {
            *chunk = word.load(Ordering::Relaxed).to_le_bytes();
        }
        let (prints, count) = bytes.split_last_chunk_mut::<1>().expect("forty bytes");
        let prints: &mut [u8; MOST] = prints.try_into().expect("39 fingerprints and the count");
        change(prints);
        *count = [prints.iter().map(|&print| u8::from(print != 0)).sum()];
        for (chunk, word) in bytes.as_chunks::<8>().0.iter().zip(&self.0) {
            word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
    }
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
