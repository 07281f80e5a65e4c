//! Shadows by block: one array for all segments that the pool may ever have. Only the parts that are touched take
//! memory.

use crate::memory::{Zero, Zeroed};
use crate::node::shadow::Shadow;
use std::io;

/// All shadows of a chain.
pub(crate) struct Shadows<H> {
    of: Zeroed<Shadow<H>>,
    /// Blocks per segment.
    blocks: usize,
}

impl<H: Zero> Shadows<H> {
    /// Shadows for `segments` segments of `blocks` blocks each.
    pub(crate) fn new(segments: u32, blocks: usize) -> io::Result<Self> {
        let len = blocks.checked_mul(segments as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { of: Zeroed::new(len)?, blocks })
    }

    /// The shadow of block `index` of a segment.
    #[inline]
    pub(crate) fn get(&self, segment: u32, index: usize) -> &Shadow<H> {
        &self.of[segment as usize * self.blocks + index]
    }
}
