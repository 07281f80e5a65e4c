//! Buffers for the entries of a leaf, which short scans would otherwise allocate and clear for each of them.

use crate::node::Entry;
use std::cell::Cell;

thread_local! {
    /// The buffer of a scan of this thread that has ended.
    static SPARE: Cell<Vec<Entry>> = const { Cell::new(Vec::new()) };
}

/// A buffer that goes back to the thread. What it holds at first is left from another scan.
#[derive(Default)]
pub(super) struct Scratch(Vec<Entry>);

impl Scratch {
    /// The buffer to write to.
    #[inline]
    pub(super) fn buffer(&mut self) -> &mut Vec<Entry> {
        if self.0.capacity() == 0 {
            // Not there while the thread ends.
            self.0 = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        &mut self.0
    }

    /// What was written.
    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.0
    }
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        if self.0.capacity() > 0 {
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
        }
    }
}
