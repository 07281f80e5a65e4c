//! The memory of a ring, as far as the journal uses it: its words, of which the first are the head (`head.rs`), and the
//! others cells (`ring.rs`).

use super::header::Seat;
use crate::sync::AtomicU64;
use std::io;

/// Words that the next process finds as this one left them.
pub(crate) trait Memory: Send + Sync + Sized + 'static {
    /// The words.
    fn words(&self) -> &[AtomicU64];

    /// Replaces words of one sector, all at once, and waits until the sector is on the disk.
    fn write_through(&self, at: usize, words: &[u64]) -> io::Result<()>;

    /// Whether these are the pages to which the last process has stored, and not what a disk had of them (J23).
    fn is_witnessed(&self) -> bool;

    /// Lets the next process know that these are the pages to which this one stores.
    fn bear_witness(&self);

    /// Fails if what was stored could not be written back: then the words may be older ones.
    fn check(&self) -> io::Result<()>;

    /// Whether the next process will not find it.
    fn is_gone(&self) -> bool;

    /// Words for so many cells, all of them 0, to go on with; and their seat, which is that of these if these still
    /// have it. The next process does not find them before they are [named](Self::name).
    fn another(&self, cells: u64) -> io::Result<(Self, Seat)>;

    /// Whether what [`another`](Self::another) has made can be named.
    fn is_nameable(&self) -> bool;

    /// Lets the next process find what [`another`](Self::another) has made, also after a loss of power. If it
    /// `exchanges`, it takes the name of the words before, which nobody finds any more.
    fn name(&self, exchanges: bool) -> io::Result<()>;

    /// Removes words that no process needs any more, if they still have a name.
    fn remove(&self);
}

/// Words of the head. (A model has few words.)
pub(super) const HEAD: usize = if cfg!(bristlecone_loom) { 16 } else { 256 };
/// Words of a cell.
pub(super) const CELL: usize = 10;

/// Words that a ring of so many cells needs.
pub(crate) const fn words(cells: u64) -> usize {
    HEAD + cells as usize * CELL
}

/// How many cells there are in so many words.
pub(super) fn cells(words: usize) -> u64 {
    (words.saturating_sub(HEAD) / CELL) as u64
}
