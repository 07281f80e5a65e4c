//! Extents: what a tree stores at a close, so that it need not be walked at the next open.

use super::PoolState;
use super::segments::SegmentKind;
use crate::error::{Fault, Result};
use crate::medium::{Medium, Step};

impl<M: Medium> PoolState<M> {
    /// Stores words as an extent of the given tree. Durable when it returns.
    pub(crate) fn write_extent(&self, tree: u16, words: &[u64]) -> Result<u64, Fault> {
        let bytes = words.len() as u64 * 8;
        let segment = self.segments.assign_extent(&self.medium, tree, bytes)?;
        let at = self.segments.start(segment);
        for (i, &word) in words.iter().enumerate() {
            self.medium.store(at + i as u64 * 8, word);
        }
        // An incomplete extent would be detected by the checksums, and then the leaves would be found as after a crash.
        // The flush saves the next open that work.
        self.medium.flush(at, bytes, Step::CloseRecord);
        self.medium.fence(Step::CloseRecord);
        Ok(at)
    }

    /// The words of an extent, if it belongs to the tree and is large enough.
    pub(crate) fn read_extent(
        &self,
        tree: u16,
        at: u64,
        words: u32,
    ) -> Option<impl ExactSizeIterator<Item = u64> + Clone> {
        let segment = self.segments.holding(at).filter(|_| self.segments.within(at) == 0)?;
        let entry = self.segments.entry(segment)?;
        // Only segments that the table really has for it count, so space is reserved for everything that is read.
        if entry.kind != SegmentKind::Extent
            || entry.tree != tree
            || u64::from(words) * 8 > self.segments.extent_bytes(segment)
        {
            return None;
        }
        Some((0..words).map(move |i| self.medium.load(at + u64::from(i) * 8)))
    }
}
