//! The entries of a range, as a snapshot sees them.

use super::Snapshot;
use crate::codec::Value;
use crate::error::Result;
use crate::map::table::{Table, TreeKeysOf, UnreadOf, decode};
use crate::medium::{Mapped, Medium};
use crate::snapshot::ends::Ends;
use crate::tree::{LeafEntries, TreeState};
use std::fmt;
use std::iter::FusedIterator;

/// The entries of a range, as a snapshot sees them. See [`Snapshot::range`].
pub struct SnapshotRange<'s, T: Table<M>, M: Medium = Mapped> {
    snapshot: &'s Snapshot<M>,
    tree: &'s TreeState<T::Node, M>,
    ends: Ends<TreeKeysOf<T, M>>,
    /// The entries of the leaf that was read last.
    entries: LeafEntries<TreeKeysOf<T, M>>,
}

impl<T: Table<M>, M: Medium> fmt::Debug for SnapshotRange<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotRange").finish_non_exhaustive()
    }
}

impl<'s, T: Table<M>, M: Medium> SnapshotRange<'s, T, M> {
    pub(super) fn new(
        snapshot: &'s Snapshot<M>,
        tree: &'s TreeState<T::Node, M>,
        unread: Option<UnreadOf<T, M>>,
    ) -> Self {
        Self { snapshot, tree, ends: Ends::new(unread), entries: LeafEntries::default() }
    }

    fn step(&mut self, from_left: bool) -> Option<Result<(T::Key, T::Value)>> {
        let Self { snapshot, tree, ends, entries } = self;
        let item = ends.step(from_left, |unread, from_left, items| {
            snapshot.read(tree, T::Value::KIND, (unread, from_left), entries, items)
        })?;
        Some(self.snapshot.pool.named(item.and_then(|item| decode::<T, M>(item, tree))))
    }
}

impl<T: Table<M>, M: Medium> Iterator for SnapshotRange<'_, T, M> {
    type Item = Result<(T::Key, T::Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

impl<T: Table<M>, M: Medium> DoubleEndedIterator for SnapshotRange<'_, T, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}

impl<T: Table<M>, M: Medium> FusedIterator for SnapshotRange<'_, T, M> {}
