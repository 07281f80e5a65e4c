//! Shadows by block: a row for each segment in which a block of the chain was looked at.
//!
//! A row is never given back while the chain is open. If its segment becomes another tree's, a late reader still finds
//! the shadow of the block that it came for.

use crate::memory::{Rows, Zero};
use crate::node::shadow::Shadow;
use crate::sync::AtomicU64;
use std::io;

/// All shadows of a chain.
pub(crate) struct Shadows<H> {
    of: Rows<Shadow<H>>,
    /// The stamp of each block (see [`frozen`](super::frozen)). None in layouts that take no part in snapshots. A segment
    /// that has shadows has its stamps.
    stamps: Option<Rows<AtomicU64>>,
}

impl<H: Zero> Shadows<H> {
    /// Shadows for segments of `blocks` blocks each. `segments`: those that the pool has now.
    pub(crate) fn new(segments: u32, blocks: usize, stamped: bool) -> io::Result<Self> {
        let shadows = Self { of: Rows::new(blocks), stamps: stamped.then(|| Rows::new(blocks)) };
        if cfg!(bristlecone_loom) {
            // See `Rows`.
            (0..segments as usize).try_for_each(|segment| shadows.make(segment))?;
        }
        Ok(shadows)
    }

    /// The shadow of block `index` of a segment; `None` if that was not made, or has fewer blocks.
    #[inline(always)]
    pub(crate) fn get(&self, segment: usize, index: usize) -> Option<&Shadow<H>> {
        self.of.get(segment, index)
    }

    /// The stamp of the same block.
    #[inline]
    pub(crate) fn stamp(&self, segment: usize, index: usize) -> Option<&AtomicU64> {
        self.stamps.as_ref()?.get(segment, index)
    }

    /// Makes the shadows of a segment, unless it has them.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    #[cold]
    pub(crate) fn make(&self, segment: usize) -> io::Result<()> {
        self.stamps.as_ref().map_or(Ok(()), |stamps| stamps.make(segment))?;
        self.of.make(segment)
    }
}
