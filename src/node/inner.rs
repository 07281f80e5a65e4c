//! The nodes of a persistent index: what they need in addition to the operations of leaves.

use super::WordNode;
use super::sorted::Sorted;
use super::sorted_ops::SortedOps;
use super::space::SplitInPlace;

/// The operations of nodes that can be inner nodes. Their places are positions in ascending order of keys, and their
/// level is stored in the pool.
pub trait InnerOps: SplitInPlace<Node: WordNode> {
    /// Levels above the leaves, according to the hints.
    fn level_of(hints: &Self::Hints) -> u16;
}

impl<N: Sorted> InnerOps for SortedOps<N> {
    #[inline]
    fn level_of(hints: &Self::Hints) -> u16 {
        hints.level()
    }
}
