//! The pool as the code of one tree reaches it.

use super::PoolState;
use crate::medium::{LINE, Medium};
use crate::pool::segments::{SegmentKind, Segments};

/// What operations on the nodes and the records of a tree need of a pool: the words, and which segments are the tree's.
pub struct Access<'a, M: Medium> {
    pub(crate) m: &'a M,
    pub(crate) segments: &'a Segments,
    /// The number of the tree.
    pub(crate) tree: u16,
}

impl<M: Medium> Clone for Access<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for Access<'_, M> {}

impl<M: Medium> Access<'_, M> {
    /// Whether `at` is the offset of a block of the tree's leaves, which is long enough for a header.
    #[inline]
    pub(crate) fn is_leaf(self, at: u64) -> bool {
        let unit =
            self.segments.holding(at).and_then(|segment| self.segments.unit(segment, SegmentKind::Leaf, self.tree));
        unit.is_some_and(|(unit, len)| {
            let within = self.segments.within(at);
            u64::from(unit) >= LINE && (within as u32).is_multiple_of(unit) && within + u64::from(unit) <= len
        })
    }
}

impl<M: Medium> PoolState<M> {
    /// The pool as the code of a tree reaches it.
    #[inline(always)]
    pub(crate) fn access(&self, tree: u16) -> Access<'_, M> {
        Access { m: &self.medium, segments: &self.segments, tree }
    }
}
