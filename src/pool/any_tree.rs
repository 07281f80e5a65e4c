//! What a pool needs of its open trees, of any type.

use super::{Compacted, Measured};
use crate::error::Fault;
use std::any::Any;

/// An open tree of any type.
pub(crate) type OpenTree = dyn AnyTree + Send + Sync;

/// What a pool needs of its open trees.
pub(crate) trait AnyTree: Any {
    /// Drops the frozen leaves that no open snapshot can see. `open`: their instants, ascending.
    fn thaw(&self, open: &[u64]);

    /// Whether a snapshot of this instant, or of a later one, needs the tree to stay open.
    fn is_in_snapshots_since(&self, oldest: u64) -> bool;

    /// Notes the name that the tree has now.
    fn rename(&self, name: String);

    /// Gives back the space of records that readers can no longer know. Returns whether readers, or transactions that
    /// will end, keep the space of other records.
    fn collect(&self) -> bool;

    /// Numbers about the tree.
    fn measure(&self) -> Measured;

    /// Moves what lies in sparse segments.
    fn compact(&self) -> Result<Compacted, Fault>;
}
