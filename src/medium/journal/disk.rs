//! A file, as far as the journal uses one.

use std::io;
use std::ops::Range;

/// A file, or what stands for one, whose writes survive the machine once [`sync`](Self::sync) has returned.
pub(crate) trait Disk: Send + Sync + 'static {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Fills `bytes` with what is at `at`.
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Replaces what is at `at`; makes the file longer if need be.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Waits until all that was written is on the disk. After an error nothing is known of what was written since the
    /// sync before.
    fn sync(&self) -> io::Result<()>;

    /// As [`write`](Self::write), and waits until these bytes are on the disk, and for no others.
    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file shorter.
    fn cut(&self, len: u64) -> io::Result<()>;

    /// Gives the space of whole pages back: they hold zeros. A hint.
    fn punch(&self, at: u64, len: u64) -> io::Result<()>;

    /// Whether the file has no name any more.
    fn is_gone(&self) -> bool;
}

/// Zeros are written in pieces of this size.
const PIECE: u64 = 1 << 20;

/// Writes zeros with `write`, so that a sync need not tell the file system which bytes are in use.
pub(crate) fn zero(range: Range<u64>, write: impl Fn(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let Range { start, end } = range;
    let zeros = vec![0; PIECE.min(end - start) as usize];
    (start..end).step_by(PIECE as usize).try_for_each(|at| write(at, &zeros[..PIECE.min(end - at) as usize]))
}
