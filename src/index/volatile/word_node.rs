//! One node of the volatile index: up to [`WIDTH`] children, with the separators between them, under one version word.
//!
//! ```text
//! words     4 lines: | version | word of slot 1 | word of slot 2 | ... | word of slot 31 |
//! children  4 lines: | slot 0 | slot 1 | ... | slot 31 |
//! ```
//!
//! The word of a slot is its low minus one, with the sign bit flipped, so that `low <= key` becomes `word < key'` for
//! signed numbers, which CPUs compare eight at a time. Slots behind the last one hold [`PAD`], which is below no key.
//! So a search counts the words below the key and needs no length. Slot 0 has no separator: a search enters a node only
//! with a key that is not below the low of slot 0, which the parent knows.
//!
//! A search reads four lines of words at once, and then one line of children. [`Node::touch`] prefetches the children,
//! too, where they may be far away.

use super::RUN;
use crate::arch;
use crate::arch::simd::{self, Compare};
use crate::index::version::{Moved, Version};
use crate::memory::Zero;
use crate::sync::{AtomicU64, Ordering};

/// The most children of a node.
pub(super) const WIDTH: usize = simd::WORDS;

/// Entries of a node that is built in bulk: it leaves room for the first inserts.
pub(super) const FILL: usize = WIDTH - WIDTH / 8;

/// Marks a child that is still in the pool; the other bits are its number in the image.
pub(super) const NOT_LOADED: u64 = 1 << 63;

/// Words in a line.
const PER_LINE: usize = arch::LINE / size_of::<u64>();

/// The word of an empty slot.
const PAD: u64 = i64::MAX as u64;

/// The sign bit. Flipping it makes signed comparison order unsigned numbers.
const SIGN: u64 = 1 << 63;

/// See the [module](self). Its words change only between [`open`](Node::open) and [`close`](Node::close).
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// Word 0 is the version, odd while the node is open.
    words: simd::Words,
    children: [AtomicU64; WIDTH],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Node>() == 2 * WIDTH * 8);

// SAFETY: the type consists of numbers, for which zero bytes are the value 0, and it has no destructor.
unsafe impl Zero for Node {
    fn zero() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self { words: core::array::from_fn(zero), children: core::array::from_fn(zero) }
    }
}

impl Node {
    #[inline]
    fn version(&self) -> Version<'_> {
        Version(&self.words[0])
    }

    /// The version under which to read the node.
    #[inline]
    pub(super) fn optimistic_read(&self) -> Result<u64, Moved> {
        self.version().optimistic_read()
    }

    /// Whether everything read since [`optimistic_read`](Node::optimistic_read) belongs to this version.
    #[inline]
    pub(super) fn validate(&self, version: u64) -> Result<(), Moved> {
        self.version().validate(version)
    }

    /// Keeps readers out. Returns false if the node was open.
    pub(super) fn open(&self) -> bool {
        self.version().open()
    }

    /// Lets readers in again, under a version they have not seen.
    pub(super) fn close(&self) {
        self.version().close();
    }

    /// Prefetches the children while the words are compared.
    #[inline(always)]
    pub(super) fn touch(&self) {
        // This compiles to four instructions; a stepped iterator would compile to a loop.
        for line in self.children.as_chunks::<PER_LINE>().0 {
            arch::prefetch_of(line);
        }
    }

    /// Prefetches all lines.
    #[inline(always)]
    pub(super) fn touch_all(&self) {
        for line in self.words.as_chunks::<PER_LINE>().0 {
            arch::prefetch_of(line);
        }
        self.touch();
    }

    /// The slot of the greatest low `<= key`; slot 0 if there is none.
    pub(super) fn slot(&self, key: u64) -> usize {
        simd::below(&self.words, (key ^ SIGN).cast_signed())
    }

    /// As [`slot`](Self::slot).
    #[inline(always)]
    pub(super) fn slot_of(&self, key: u64, compare: impl Compare) -> usize {
        // The result is less than WIDTH anyway; the remainder tells the compiler so.
        compare.below(&self.words, (key ^ SIGN).cast_signed()) % WIDTH
    }

    /// The child of the greatest low `<= key`.
    #[inline(always)]
    pub(super) fn child_of(&self, key: u64, compare: impl Compare) -> u64 {
        self.child(self.slot_of(key, compare))
    }

    /// The child at a slot and those at the slots behind it, in use or not; 0 behind the last slot.
    #[inline]
    pub(super) fn run(&self, slot: usize) -> [u64; RUN] {
        core::array::from_fn(|i| self.children.get(slot + i).map_or(0, |child| child.load(Ordering::Relaxed)))
    }

    /// The low of a slot other than 0.
    #[inline]
    pub(super) fn low(&self, slot: usize) -> u64 {
        debug_assert!(slot > 0);
        (self.words[slot].load(Ordering::Relaxed) ^ SIGN).wrapping_add(1)
    }

    #[inline]
    pub(super) fn child(&self, slot: usize) -> u64 {
        self.children[slot].load(Ordering::Relaxed)
    }

    /// Low and child of a slot. `least` is the low of slot 0.
    pub(super) fn entry(&self, slot: usize, least: u64) -> (u64, u64) {
        (if slot == 0 { least } else { self.low(slot) }, self.child(slot))
    }

    /// The number of children, which is at least one.
    pub(super) fn len(&self) -> usize {
        simd::below(&self.words, PAD.cast_signed()) + 1
    }

    // Writing: only by the one writer, while the node is open.

    /// Sets the low of a slot other than 0. The low is never 0.
    pub(super) fn set_low(&self, slot: usize, low: u64) {
        debug_assert!(low > 0);
        self.set_word(slot, low.wrapping_sub(1) ^ SIGN);
    }

    pub(super) fn set_child(&self, slot: usize, child: u64) {
        self.children[slot].store(child, Ordering::Relaxed);
    }

    fn set_word(&self, slot: usize, word: u64) {
        debug_assert!(slot > 0);
        self.words[slot].store(word, Ordering::Relaxed);
    }

    /// The low is ignored for slot 0.
    fn set(&self, slot: usize, (low, child): (u64, u64)) {
        if slot > 0 {
            self.set_low(slot, low);
        }
        self.set_child(slot, child);
    }

    /// Makes `entries`, at least one and at most [`WIDTH`], the whole content of the node.
    pub(super) fn fill(&self, entries: impl Iterator<Item = (u64, u64)>) {
        self.truncate(self.append(0, entries));
    }

    /// Puts `entries` behind the first `len`; returns how many there are then.
    pub(super) fn append(&self, mut len: usize, entries: impl Iterator<Item = (u64, u64)>) -> usize {
        for entry in entries {
            self.set(len, entry);
            len += 1;
        }
        len
    }

    /// Drops all but the first `len` children, at least one.
    pub(super) fn truncate(&self, len: usize) {
        for slot in len.max(1)..WIDTH {
            self.set_word(slot, PAD);
        }
    }

    /// Inserts `entry` at slot `at`, not 0, of a node with `len < WIDTH` children.
    pub(super) fn insert(&self, at: usize, len: usize, entry: (u64, u64)) {
        for slot in (at..len).rev() {
            self.set(slot + 1, self.entry(slot, 0));
        }
        self.set(at, entry);
    }

    /// Removes slot `at` from a node with `len` children, more than one.
    pub(super) fn remove(&self, at: usize, len: usize) {
        for slot in at + 1..len {
            self.set(slot - 1, self.entry(slot, 0));
        }
        self.set_word(len - 1, PAD);
    }
}
