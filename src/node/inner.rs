//! The nodes of a persistent index: what they need beside the operations of leaves.

use super::sorted::Sorted;
use super::sorted_ops::SortedOps;
use super::space::SplitInPlace;

/// The operations of nodes that can be inner ones. Their places are positions in ascending order of keys, and they say in
/// the pool which level they have.
pub trait InnerOps: SplitInPlace {
    /// Levels above the leaves, as the hints have it.
    fn level_of(hints: &Self::Hints) -> u16;
}

impl<N: Sorted> InnerOps for SortedOps<N> {
    #[inline]
    fn level_of(hints: &Self::Hints) -> u16 {
        hints.level()
    }
}
