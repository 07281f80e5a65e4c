//! The word that holds the root and the height of an index in memory.

use super::version::Moved;
use crate::sync::delay::delay;
use crate::sync::{AtomicU64, Ordering};

/// The word of an empty tree, which has no node.
const NONE: u64 = u64::MAX;
/// The shift of the height; the bits below are the root's id.
const HEIGHT: u32 = 48;

/// The top of a tree that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRoot {
    /// For a tree, the name of its topmost node; for a flat index, the generation of its nodes. Less than `2^48`.
    pub(crate) id: u64,
    /// Steps from the root to the bottom.
    pub(crate) height: usize,
}

#[derive(Debug)]
pub(crate) struct RootWord(AtomicU64);

impl RootWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(NONE))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<IndexRoot> {
        let word = self.0.load(Ordering::Acquire);
        delay();
        (word != NONE).then_some(IndexRoot { id: word & ((1 << HEIGHT) - 1), height: (word >> HEIGHT) as usize })
    }

    /// Whether `root` is still the root. To be called after an acquire load or fence.
    #[inline]
    pub(crate) fn validate(&self, root: IndexRoot) -> Result<(), Moved> {
        if self.0.load(Ordering::Relaxed) == word(root) { Ok(()) } else { Err(Moved::Written) }
    }

    /// For the writer. In a tree, to be called before the nodes of the change are closed.
    pub(crate) fn set(&self, root: Option<IndexRoot>) {
        delay();
        self.0.store(root.map_or(NONE, word), Ordering::Release);
    }
}

#[inline]
fn word(root: IndexRoot) -> u64 {
    root.id | (root.height as u64) << HEIGHT
}
