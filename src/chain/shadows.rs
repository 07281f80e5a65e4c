//! Shadows by block: one array for all segments that the pool may ever have, of which only what is touched is real.

use crate::memory::{Zero, Zeroed};
use crate::node::shadow::Shadow;
use std::io;

/// All shadows of a chain.
pub(crate) struct Shadows<H> {
    of: Zeroed<Shadow<H>>,
    /// Blocks in a segment.
    blocks: usize,
}

impl<H: Zero> Shadows<H> {
    /// For so many segments of so many blocks.
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
