//! Copy on write: makes a change by copying the leaf, in a layout whose [policy](crate::node::Policy) finds that
//! cheaper.

use super::TreeState;
use super::directory::Directory;
use super::replace::{LinkTo, NewLeaves, parts};
use crate::chain::Locked;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Entry, InNode, WordNode};

impl<N: WordNode, M: Medium> TreeState<N, M> {
    /// Makes a change by copying the leaf, if that costs less. Otherwise, or if another thread is in the way, returns
    /// the leaf.
    #[inline(always)]
    pub(super) fn by_copy<'t>(
        &'t self,
        leaf: Locked<'t, N>,
        change: InNode,
        entry: Entry,
    ) -> Result<Option<Locked<'t, N>>, Fault> {
        if self.leaves.copy_pays(&leaf, change) { self.copied(leaf, change, entry) } else { Ok(Some(leaf)) }
    }

    #[cold]
    fn copied<'t>(&'t self, leaf: Locked<'t, N>, change: InNode, entry: Entry) -> Result<Option<Locked<'t, N>>, Fault> {
        let mut entries = self.leaves.entries(&leaf);
        let i = entries.partition_point(|other| other.0 < entry.0);
        match change {
            InNode::Insert(_) => entries.insert(i, entry),
            InNode::Remove(_) => drop(entries.remove(i)),
        }
        let removed = matches!(change, InNode::Remove(_));
        // A nearly empty leaf merges, and that is done in place. By other rules it may stay as it is for long.
        let merging = N::POLICY.merging;
        if removed && merging.evens_out() && merging.is_sparse(entries.len(), N::SLOTS) {
            return Ok(Some(leaf));
        }
        let in_two = entries.len() > N::SLOTS;
        let count = &self.leaves.count;
        self.copy(leaf, parts(&entries, in_two), || if removed { count.sub_one() } else { count.add(1) })
    }

    /// Replaces a leaf by one or two leaves without waiting for any thread: with a lock held, the wait could last
    /// forever.
    fn copy<'t>(
        &'t self,
        old: Locked<'t, N>,
        parts: NewLeaves<'_>,
        count: impl FnOnce(),
    ) -> Result<Option<Locked<'t, N>>, Fault> {
        let Some(_restructuring) = self.restructuring.try_lock() else { return Ok(Some(old)) };
        let low = old.range().low();
        let left = if low == 0 {
            LinkTo::Root
        } else {
            let hint = self.directory.floor(low - 1);
            let hint = hint.filter(|&at| self.leaves.accept(at, self.root.index_at()).is_ok());
            let left = hint.and_then(|at| self.lock_owner_at_once(at, low - 1));
            match left.filter(|left| left.range().high() == low) {
                Some(left) => LinkTo::Leaf(left),
                None => return Ok(Some(old)),
            }
        };
        let lines = self.leaves.lines(&old);
        match self.replace_leaf(left, old, None, parts, lines, count) {
            Ok(()) => Ok(None),
            // There may be room for the change in place.
            Err((old, fault)) if fault.is_out_of_space() => Ok(Some(old)),
            Err((_, fault)) => Err(fault),
        }
    }
}
