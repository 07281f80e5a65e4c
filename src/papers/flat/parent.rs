//! The parent of some leaves: their lows, in order, and their offsets, under one version word.
//!
//! ```text
//! | version | length, posts | low 0 | leaf 0 | low 1 | leaf 1 | ... | low n - 1 | leaf n - 1 |
//! ```
//!
//! A parent with `k` units has room for `n = k UNIT / 2 - 1` leaves. Only the first `length` slots count, so a new
//! parent takes one line to write and to read.

use crate::index::IndexVersion;
use crate::papers::search::partition;
use crate::sync::{AtomicU64, Ordering};

/// Separators of an inner node, and words of a parent that is not enlarged: 1 KiB.
pub(super) const UNIT: usize = if cfg!(any(test, bristlecone_loom)) { 8 } else { 128 };

/// Words before the first low.
const HEAD: usize = 2;

/// Leaves of the smallest parent.
pub(super) const ROOM: usize = (UNIT - HEAD) / 2;

/// The most leaves that a rebuild puts into a parent, when there is not enough room for one parent per leaf.
pub(super) const PACKED: usize = ROOM.div_ceil(2);

const _: () = assert!(PACKED < ROOM);

/// See the [module](self). Its words change only while its version is odd, or no root leads to it.
#[derive(Clone, Copy)]
pub(super) struct Parent<'h> {
    words: &'h [AtomicU64],
}

impl<'h> Parent<'h> {
    /// A parent in these words, if they are at least one unit.
    #[inline]
    pub(super) fn new(words: &'h [AtomicU64]) -> Option<Self> {
        (words.len() >= UNIT).then_some(Self { words })
    }

    #[inline]
    pub(super) fn version(self) -> IndexVersion<'h> {
        IndexVersion(&self.words[0])
    }

    /// The most leaves.
    #[inline]
    pub(super) fn room(self) -> usize {
        (self.words.len() - HEAD) / 2
    }

    pub(super) fn units(self) -> usize {
        self.words.len() / UNIT
    }

    /// The number of leaves.
    #[inline]
    pub(super) fn len(self) -> usize {
        let length = self.words[1].load(Ordering::Relaxed) & u64::from(u32::MAX);
        // While the parent is being written, it may be any number.
        (length as usize).min(self.room())
    }

    /// How many leaves were posted to the parent since it was made.
    pub(super) fn posts(self) -> u64 {
        self.words[1].load(Ordering::Relaxed) >> 32
    }

    /// The slot of the greatest low `<= key`.
    #[inline]
    pub(super) fn slot(self, key: u64) -> Option<usize> {
        partition(self.len(), |slot| self.low(slot) <= key).checked_sub(1)
    }

    #[inline]
    pub(super) fn low(self, slot: usize) -> u64 {
        self.words[HEAD + 2 * slot].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn leaf(self, slot: usize) -> u64 {
        self.words[HEAD + 2 * slot + 1].load(Ordering::Relaxed)
    }

    pub(super) fn entry(self, slot: usize) -> (u64, u64) {
        (self.low(slot), self.leaf(slot))
    }

    /// The entries in its slots, in order.
    pub(super) fn entries(self) -> impl Iterator<Item = (u64, u64)> + use<'h> {
        (0..self.len()).map(move |slot| self.entry(slot))
    }

    // Writing: only by the one writer.

    fn set(self, slot: usize, (low, leaf): (u64, u64)) {
        self.words[HEAD + 2 * slot].store(low, Ordering::Relaxed);
        self.words[HEAD + 2 * slot + 1].store(leaf, Ordering::Relaxed);
    }

    fn set_len(self, len: usize, posts: u64) {
        self.words[1].store(len as u64 | posts.min(u64::from(u32::MAX)) << 32, Ordering::Relaxed);
    }

    /// Makes `entries` the whole content, while no root leads to the parent. The old content of its words does not
    /// matter.
    pub(super) fn fill(self, entries: impl Iterator<Item = (u64, u64)>) {
        let len = entries.enumerate().map(|(slot, entry)| self.set(slot, entry)).count();
        self.set_len(len, 0);
        self.words[0].store(0, Ordering::Relaxed);
    }

    /// Makes `entries` the whole content of an empty parent.
    pub(super) fn learn(self, entries: &[(u64, u64)]) {
        self.version().open();
        entries.iter().enumerate().for_each(|(slot, &entry)| self.set(slot, entry));
        self.set_len(entries.len(), 0);
        self.version().close();
    }

    /// Puts `entry` into slot `at`: if it is `new`, before the entries from there on, otherwise in place of the one
    /// with the same low.
    pub(super) fn post(self, at: usize, entry: (u64, u64), new: bool) {
        let len = self.len();
        if new {
            for slot in (at..len).rev() {
                self.set(slot + 1, self.entry(slot));
            }
        }
        self.set(at, entry);
        self.set_len(len + usize::from(new), self.posts() + 1);
    }

    /// Removes slot `at`.
    pub(super) fn remove(self, at: usize) {
        let len = self.len();
        for slot in at + 1..len {
            self.set(slot - 1, self.entry(slot));
        }
        self.set_len(len - 1, self.posts());
    }
}
