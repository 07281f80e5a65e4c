//! Shadows by block: an array with a row for each segment that the pool may ever have. Only the parts that are touched
//! take memory.

use crate::memory::{Zero, Zeroed};
use crate::node::shadow::Shadow;
use crate::sync::{AtomicU64, Mutex, Ordering};
use std::io;

/// All shadows of a chain.
pub(crate) struct Shadows<H> {
    of: Zeroed<Shadow<H>>,
    /// The stamp of each block (see [`frozen`](super::frozen)). Empty in layouts that take no part in snapshots.
    stamps: Zeroed<AtomicU64>,
    /// Blocks per segment.
    blocks: usize,
    rows: Rows,
}

/// Rows in the order in which segments are first looked at. Where segments of records lie between those of nodes, rows by
/// number would lie apart, and huge pages would make all that is between them take memory.
struct Rows {
    /// One more than the row of each segment; 0 if it has none yet. Empty if rows are by number.
    of: Zeroed<AtomicU64>,
    taken: Mutex<u64>,
}

impl Rows {
    #[inline]
    fn of(&self, segment: u32) -> u64 {
        match self.of[segment as usize].load(Ordering::Relaxed) {
            0 => self.take(segment),
            row => row - 1,
        }
    }

    #[cold]
    #[inline(never)]
    fn take(&self, segment: u32) -> u64 {
        let (mut taken, of) = (self.taken.lock(), &self.of[segment as usize]);
        let row = of.load(Ordering::Relaxed);
        if row > 0 {
            return row - 1;
        }
        *taken += 1;
        of.store(*taken, Ordering::Relaxed);
        *taken - 1
    }
}

impl<H: Zero> Shadows<H> {
    /// Shadows for `segments` segments of `blocks` blocks each. `scattered`: most of the segments have other blocks. It is
    /// the same for each call, and known when the program is compiled: a branch would take a seventh of a search.
    pub(crate) fn new(segments: u32, blocks: usize, scattered: bool, stamped: bool) -> io::Result<Self> {
        let len = blocks.checked_mul(segments as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let rows = Rows { of: Zeroed::new(if scattered { segments as usize } else { 0 })?, taken: Mutex::new(0) };
        let stamps = Zeroed::new(if stamped { len } else { 0 })?;
        Ok(Self { of: Zeroed::new(len)?, stamps, blocks, rows })
    }

    /// The shadow of block `index` of a segment.
    #[inline(always)]
    pub(crate) fn get(&self, segment: u32, index: usize, scattered: bool) -> &Shadow<H> {
        &self.of[self.place(segment, index, scattered)]
    }

    /// The stamp of the same block.
    #[inline]
    pub(crate) fn stamp(&self, segment: u32, index: usize, scattered: bool) -> &AtomicU64 {
        &self.stamps[self.place(segment, index, scattered)]
    }

    #[inline(always)]
    fn place(&self, segment: u32, index: usize, scattered: bool) -> usize {
        let row = if scattered { self.rows.of(segment) } else { segment.into() };
        row as usize * self.blocks + index
    }
}
