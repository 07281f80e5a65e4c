//! The word that names the root and the height of an index in memory.

use super::version::Moved;
use crate::delay::delay;
use crate::sync::{AtomicU64, Ordering};

/// An empty tree has no node.
const NONE: u64 = u64::MAX;
/// The name of the root is below, the height from here on.
const HEIGHT: u32 = 48;

/// The top of a tree that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// Of a tree, the name of its topmost node; of a flat index, the generation of its nodes. Less than `2^48`.
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
    pub(crate) fn get(&self) -> Option<Root> {
        let word = self.0.load(Ordering::Acquire);
        delay();
        (word != NONE).then_some(Root { id: word & ((1 << HEIGHT) - 1), height: (word >> HEIGHT) as usize })
    }

    /// Whether `root` is still the root: to be asked behind an acquire load or fence.
    #[inline]
    pub(crate) fn validate(&self, root: Root) -> Result<(), Moved> {
        if self.0.load(Ordering::Relaxed) == word(root) { Ok(()) } else { Err(Moved::Written) }
    }

    /// For the writer: of a tree, before it closes the nodes of the change.
    pub(crate) fn set(&self, root: Option<Root>) {
        delay();
        self.0.store(root.map_or(NONE, word), Ordering::Release);
    }
}

#[inline]
fn word(root: Root) -> u64 {
    root.id | (root.height as u64) << HEIGHT
}
