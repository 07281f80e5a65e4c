//! Shadows by block: a row for each segment in which a block of the chain was looked at. A chain that has a few blocks
//! has the beginning of a row.
//!
//! A shadow is never given back while the chain is open. If its segment becomes another tree's, a late reader still
//! finds the shadow of the block that it came for.

use crate::memory::{Rows, Zero};
use crate::node::shadow::Shadow;
use crate::sync::AtomicU64;
use std::io;

/// All shadows of a chain.
pub(crate) struct Shadows<H> {
    of: Rows<Shadow<H>>,
    /// The stamp of each block (see [`frozen`](super::frozen)). None in layouts that take no part in snapshots.
    stamps: Option<Rows<AtomicU64>>,
}

impl<H: Zero> Shadows<H> {
    /// Shadows for segments of `size` bytes, with blocks of `bytes` bytes. `segments`: those that the pool has now.
    pub(crate) fn new(segments: u32, size: u64, bytes: u64, stamped: bool) -> io::Result<Self> {
        let blocks = size.div_ceil(bytes) as usize;
        let stamps = stamped.then(|| Rows::new(blocks, bytes, size));
        let shadows = Self { of: Rows::new(blocks, bytes, size), stamps };
        if cfg!(bristlecone_loom) {
            // See `Rows`.
            (0..segments as usize).try_for_each(|segment| shadows.make(segment, 0, 0))?;
        }
        Ok(shadows)
    }

    /// Bytes of memory that they take.
    pub(crate) fn resident(&self) -> u64 {
        self.of.resident() + self.stamps.as_ref().map_or(0, Rows::resident)
    }

    /// The shadow of block `index` of a segment, which lies at `at`; `None` if that was not made.
    ///
    /// # Safety
    ///
    /// A segment has more blocks than `index`, and `at` is in that one.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, segment: usize, index: usize, at: u64) -> Option<&Shadow<H>> {
        // SAFETY: the caller says so, and a row has a shadow for each.
        unsafe { self.of.get(segment, index, at) }
    }

    /// The stamp of the same block.
    ///
    /// # Safety
    ///
    /// As for [`get`](Self::get).
    #[inline]
    pub(crate) unsafe fn stamp(&self, segment: usize, index: usize, at: u64) -> Option<&AtomicU64> {
        let stamps = self.stamps.as_ref()?;
        // SAFETY: as for `get`.
        unsafe { stamps.get(segment, index, at) }
    }

    /// Makes the shadow and the stamp of a block, unless it has them. Shadows and stamps of other blocks are made along
    /// with it. The segment begins at `start`.
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    #[cold]
    pub(crate) fn make(&self, segment: usize, index: usize, start: u64) -> io::Result<()> {
        self.stamps.as_ref().map_or(Ok(()), |stamps| stamps.make(segment, index, start))?;
        self.of.make(segment, index, start)
    }
}
