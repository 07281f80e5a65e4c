//! The nodes of a persistent index: what they need in addition to the operations of leaves.

use super::sorted::Sorted;
use super::sorted_ops::SortedOps;
use super::space::SplitInPlace;
use super::{NodeAt, WordNode};
use crate::medium::Medium;

/// The operations of nodes that can be inner nodes. Their level is stored in the pool.
pub trait InnerOps: SplitInPlace<Node: WordNode> {
    /// Levels above the leaves, according to the hints.
    fn level_of(hints: &Self::Hints) -> u16;

    /// The place of the greatest entry whose key is not above this one.
    #[inline]
    fn floor(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Option<usize> {
        match Self::search(node, key) {
            Ok(place) => Some(place),
            Err(place) => place.checked_sub(1),
        }
    }
}

impl<N: Sorted> InnerOps for SortedOps<N> {
    #[inline]
    fn level_of(hints: &Self::Hints) -> u16 {
        hints.level()
    }
}
