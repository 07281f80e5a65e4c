//! Shadows by block: one array per segment, made when the segment's first block is looked at.

use crate::node::shadow::Shadow;
use std::sync::OnceLock;

/// All shadows of a chain.
pub(crate) struct Shadows {
    segments: Box<[OnceLock<Box<[Shadow]>>]>,
}

impl Shadows {
    pub(crate) fn new(segments: u32) -> Self {
        Self { segments: (0..segments).map(|_| OnceLock::new()).collect() }
    }

    /// The shadow of block `index` of a segment that has room for `blocks`.
    #[inline]
    pub(crate) fn get(&self, segment: u32, index: usize, blocks: usize) -> &Shadow {
        let of_segment = &self.segments[segment as usize];
        &of_segment.get_or_init(|| (0..blocks).map(|_| Shadow::new()).collect())[index]
    }
}
