//! A node whose separators are words.
//!
//! ```text
//! words     4 lines: | version | word of slot 1 | word of slot 2 | ... | word of slot 31 |
//! children  4 lines: | slot 0 | slot 1 | ... | slot 31 |
//! ```
//!
//! The word of a slot is its low minus one, with the sign bit flipped, so that `low <= key` becomes `word < key'` for
//! signed numbers, which CPUs compare eight at a time.
//!
//! A search reads four lines of words at once, and then one line of children. [`NodeSlots::touch`] prefetches the
//! children, too, where they may be far away.

use super::node::{InNodes, IndexNode, NodeSlots, PAD, SIGN, WIDTH};
use crate::arch::simd::{self, Compare};
use crate::memory::Zero;
use crate::node::Words;
use crate::sync::{AtomicU64, Ordering};

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct NodeOfWords {
    words: simd::WordLanes,
    children: [AtomicU64; WIDTH],
}

#[cfg(not(bristlecone_loom))]
const _: () = assert!(size_of::<NodeOfWords>() == 2 * WIDTH * 8);

// SAFETY: the type consists of numbers, for which zero bytes are the value 0, and it has no destructor.
unsafe impl Zero for NodeOfWords {
    fn zero() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self { words: core::array::from_fn(zero), children: core::array::from_fn(zero) }
    }
}

impl NodeOfWords {
    /// The low is ignored for slot 0, and never 0 for others.
    fn set(&self, slot: usize, (low, child): (u64, u64)) {
        if slot > 0 {
            debug_assert!(low > 0);
            self.set_word(slot, low.wrapping_sub(1) ^ SIGN);
        }
        self.set_child(slot, child);
    }

    /// Puts `entries` behind the first `len`; returns how many there are then.
    fn append(&self, mut len: usize, entries: impl Iterator<Item = (u64, u64)>) -> usize {
        for entry in entries {
            self.set(len, entry);
            len += 1;
        }
        len
    }
}

impl NodeSlots for NodeOfWords {
    #[inline(always)]
    fn words(&self) -> &simd::WordLanes {
        &self.words
    }

    #[inline(always)]
    fn children(&self) -> &[AtomicU64; WIDTH] {
        &self.children
    }

    #[inline]
    fn name(&self, slot: usize) -> u64 {
        debug_assert!(slot > 0);
        (self.words[slot].load(Ordering::Relaxed) ^ SIGN).wrapping_add(1)
    }

    fn remove(&self, at: usize, len: usize) {
        for slot in at + 1..len {
            self.set(slot - 1, self.entry(slot, 0));
        }
        self.set_word(len - 1, PAD);
    }
}

impl InNodes for Words {
    type Node = NodeOfWords;
}

impl IndexNode<Words> for NodeOfWords {
    #[inline(always)]
    fn slot_of(&self, _: &Words, key: u64, (): &mut (), _: u64, compare: impl Compare) -> usize {
        // The result is less than WIDTH anyway; the remainder tells the compiler so.
        compare.below(&self.words, (key ^ SIGN).cast_signed()) % WIDTH
    }

    fn relabel(&self, _: &Words, slot: usize, low: u64) {
        debug_assert!(low > 0);
        self.set_word(slot, low.wrapping_sub(1) ^ SIGN);
    }

    fn fill(&self, _: &Words, entries: impl Iterator<Item = (u64, u64)>) {
        self.truncate(self.append(0, entries));
    }

    fn insert(&self, _: &Words, at: usize, len: usize, entry: (u64, u64)) {
        for slot in (at..len).rev() {
            self.set(slot + 1, self.entry(slot, 0));
        }
        self.set(at, entry);
    }

    fn split(&self, separators: &Words, cut: usize, right: &Self) {
        right.fill(separators, (cut..WIDTH).map(|slot| self.entry(slot, 0)));
        self.truncate(cut);
    }

    fn absorb(&self, _: &Words, right: &Self, low: u64) {
        self.append(self.len(), (0..right.len()).map(|slot| right.entry(slot, low)));
    }
}
