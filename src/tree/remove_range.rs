//! Removing all entries of an interval, leaf by leaf.

use super::range::{Edges, Unread, no_less};
use super::{PTree, Range, TreeNode, TreeState};
use crate::chain::Locked;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use crate::medium::Medium;
use crate::node::{Entry, NoLess, SplitInPlace, WordNode};
use std::ops::RangeBounds;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Removes all entries of an interval, and their records. Returns how many there were.
    ///
    /// One leaf is locked at a time. Whatever other threads insert behind it stays.
    pub(crate) fn remove_range(&self, interval: Option<Unread<N>>) -> Result<u64, Fault> {
        let (mut removed, mut unread) = (0, interval);
        let mut follow_up = FollowUp { tree: self, sparse: None };
        while let Some(rest) = unread {
            self.medium().pause();
            self.may_change()?;
            let take = || self.take_leaf(&rest);
            let taken = take().or_else(|fault| self.pool.with_space(fault, take))?;
            removed += taken.removed;
            follow_up.left(taken.is_sparse.then_some(rest));
            unread = taken.rest;
        }
        Ok(removed)
    }

    /// Removes entries of a locked leaf, which ascend, and their records. Durable when it returns. Returns whether the
    /// leaf is sparse now.
    pub(super) fn remove_entries(&self, mut leaf: Locked<'_, N>, entries: Vec<Entry>) -> bool
    where
        N::Ops: SplitInPlace,
    {
        let leaves = &self.leaves;
        let stamp = leaves.freeze(&leaf, leaves.newest());
        leaves.remove_all(&mut leaf, &entries);
        // Counted under the lock: `clear` sets the count anew while it holds all locks.
        leaves.count.sub(entries.len() as u64);
        let is_sparse = leaves.is_sparse(&leaf);
        drop(leaf);
        self.retire_removed(entries, stamp);
        is_sparse
    }

    /// Retires the records of entries that were removed, if they have any. `stamp`: of their leaf.
    pub(super) fn retire_removed(&self, entries: Vec<Entry>, stamp: u64) {
        if self.leaves.records.is_some() {
            self.retire_entries(entries, stamp);
        }
    }

    /// The entries of an interval in the locked leaf that owns its first key, and what is left of the interval.
    pub(super) fn entries_of(
        &self,
        leaf: &Locked<'_, N>,
        unread: &Unread<N>,
    ) -> Result<(Vec<Entry>, Option<Unread<N>>), Fault> {
        let leaves = &self.leaves;
        let (view, mut entries, mut edges) = (leaf.view(), Vec::new(), Edges::<N>::default());
        let count = leaves.entries_in(&view, unread.span(), &mut entries);
        entries.truncate(count);
        leaves.note_edges(&view, leaves.next_of(&view), &mut edges);
        let rest = unread.clone().beyond(&edges).map_err(|NoLess| no_less(leaf.at))?;
        Ok((entries, rest))
    }
}

/// Merges the leaves that removals from left to right have left sparse. One merges when the next one is done: it would
/// otherwise be given entries that are about to be removed.
pub(super) struct FollowUp<'t, N: TreeNode, M: Medium> {
    pub(super) tree: &'t TreeState<N, M>,
    /// The sparse leaf that owns the first key of this.
    pub(super) sparse: Option<Unread<N>>,
}

impl<N: TreeNode, M: Medium> FollowUp<'_, N, M> {
    /// Notes that the next leaf is done: it owns the first key of this, if it is sparse. No leaf may be locked.
    pub(super) fn left(&mut self, sparse: Option<Unread<N>>) {
        if let Some(before) = std::mem::replace(&mut self.sparse, sparse) {
            self.tree.after_removal(before.first());
        }
    }
}

impl<N: TreeNode, M: Medium> Drop for FollowUp<'_, N, M> {
    /// Follows up, also after an error, but not if the medium has panicked: then nothing more can be done.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.left(None);
        }
    }
}

/// What became of a leaf of which entries were removed.
pub(super) struct Emptied<N: TreeNode> {
    pub(super) removed: u64,
    pub(super) is_sparse: bool,
    /// What is left of the interval.
    pub(super) rest: Option<Unread<N>>,
}

impl<N: TreeNode<Ops: SplitInPlace>, M: Medium> TreeState<N, M> {
    /// Removes the entries of an interval from the leaf that owns its first key.
    pub(super) fn take_in_place(&self, unread: &Unread<N>) -> Result<Emptied<N>, Fault> {
        let leaf = self.lock_owner(unread.first())?;
        let (entries, rest) = self.entries_of(&leaf, unread)?;
        if rest.is_some() {
            self.leaves.prefetch_all(self.leaves.next_of(&leaf.view()));
        }
        let removed = entries.len() as u64;
        Ok(Emptied { removed, is_sparse: removed > 0 && self.remove_entries(leaf, entries), rest })
    }
}

impl<N: WordNode, M: Medium> PTree<N, M> {
    /// Removes all entries of a range of keys. Returns how many there were.
    ///
    /// It goes from leaf to leaf, and locks one at a time. Other threads see all entries of a leaf go at once, and
    /// entries of different leaves one leaf after the other. What they insert meanwhile may go or stay.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`], [`ErrorKind::Forked`]. It never fails for want of space in the pool. Some of the entries
    /// may have been removed, durably. [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// # Panics
    ///
    /// As [`range`](Self::range).
    ///
    /// # Complexity
    ///
    /// One search for each leaf. With [`OneLine`](crate::OneLine) leaves: each line that loses entries is flushed once,
    /// with one fence for each leaf. If it is sparse then, it merges with its neighbour, which takes about three lines
    /// and two fences, or shares the entries of that, as after [`remove`](Self::remove). Sorted leaves need their
    /// fences for each entry. A leaf that only ever grows is written anew, without the entries.
    ///
    /// # Crash consistency
    ///
    /// Durable when it returns. In flight at a crash: **any part** of the entries is gone; each one whole or not at
    /// all.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20), (3, 30), (4, 40)])?;
    /// assert_eq!(tree.remove_range(2..4)?, 2);
    /// assert_eq!(tree.iter().collect::<Vec<_>>(), [(1, 10), (4, 40)]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn remove_range(&self, range: impl RangeBounds<u64>) -> Result<u64> {
        let interval = Range::new(&self.state, range, |&key: &u64| key).into_unread();
        self.state.durably(|| self.state.remove_range(interval))
    }
}
