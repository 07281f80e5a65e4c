//! What lets the private pages of a mapping go: the mapping itself.

use std::io;
use std::ops::Range;

/// A mapping whose private pages can go.
pub(crate) trait Pages: Send + Sync {
    /// Does this while the mapping keeps its length. False if somebody is changing that.
    fn with_length(&self, work: &mut dyn FnMut()) -> bool;

    /// The range that goes as a whole, or not at all, of which this offset is a part; and whether pages of it can stay
    /// private when it goes.
    fn unit(&self, at: u64) -> (Range<u64>, bool);

    /// Whether the mapping shows these bytes.
    fn shows(&self, at: u64, bytes: &[u8]) -> bool;

    /// Stores these bytes.
    fn put(&self, at: u64, bytes: &[u8]);

    /// Shows the file in a unit, or in several adjacent ones, but for the pages that begin at `kept`, in ascending
    /// order.
    ///
    /// # Errors
    ///
    /// The error of the system; then the mapping is as it was.
    fn show_file(&self, range: Range<u64>, kept: &[u64]) -> io::Result<()>;

    /// Lets go of pages that nobody uses: they show zeros, or the file, or what they showed.
    fn let_go(&self, range: Range<u64>);
}
