//! Room in leaves: what a tree does with a leaf that is too full for a change, and with one that removals have left
//! nearly empty. Layouts differ in that, and in which changes of many entries follow from it.

use super::range::Unread;
use super::remove_range::Emptied;
use super::search::Seen;
use super::write::{Change, Wanted};
use super::{TreeNode, TreeState};
use crate::chain::Locked;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Entry, InNode, RefOf, Renew, Space, SplitInPlace, Verb, WordNode};
use std::ops::ControlFlow;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Makes a change for which its leaf has no room. `Break`: the change is durable, and the key had this value.
    /// `Continue`: another thread has made room for it. `decide` decides again if the leaf must be unlocked.
    #[inline(always)]
    pub(super) fn make_room<'t>(
        &'t self,
        leaf: Locked<'t, N>,
        wanted: Wanted<'_, N>,
        decide: &mut impl FnMut(&Locked<'_, N>, Option<u64>) -> Change,
    ) -> Result<ControlFlow<Option<u64>>, Fault> {
        N::Space::run(WithoutRoom { tree: self, leaf, wanted, decide })
    }

    /// Inserts an entry at its place in a leaf that has room, or by a copy of the leaf, if that costs less.
    #[inline(always)]
    pub(super) fn insert_new<'t>(
        &'t self,
        leaf: Locked<'t, N>,
        place: usize,
        new: (RefOf<'_, N>, u64),
    ) -> Result<(), Fault> {
        let Some(mut leaf) = N::by_copy(self, leaf, InNode::Insert(place), new)? else { return Ok(()) };
        self.leaves.insert(&mut leaf, place, new);
        // Counted under the lock: `clear` sets the count anew while it holds all locks.
        self.leaves.count.add(1);
        Ok(())
    }

    /// Removes the entry at a place of a leaf, or by a copy of the leaf, if that costs less.
    #[inline(always)]
    pub(super) fn remove_old(&self, leaf: Locked<'_, N>, place: usize, key: RefOf<'_, N>) -> Result<(), Fault> {
        let leaves = &self.leaves;
        let Some(mut leaf) = N::by_copy(self, leaf, InNode::Remove(place), (key, 0))? else {
            // By these rules a copy may leave a sparse leaf. It merges only now, because a copy waits for no other
            // thread.
            if !N::POLICY.merging.evens_out() {
                self.after_removal(key);
            }
            return Ok(());
        };
        leaves.remove(&mut leaf, place);
        leaves.count.sub_one();
        if leaves.is_sparse(&leaf) {
            drop(leaf);
            self.after_removal(key);
        }
        Ok(())
    }

    /// Follows up on removals that have left the leaf which owns the key nearly empty. No leaf may be locked.
    #[inline]
    pub(super) fn after_removal(&self, key: RefOf<'_, N>) {
        self.lag(N::Space::run(Gather { tree: self, key }));
    }

    /// Removes the entries of an interval from the leaf that owns its first key.
    pub(super) fn take_leaf(&self, unread: &Unread<N>) -> Result<Emptied<N>, Fault> {
        N::Space::run(TakeLeaf { tree: self, unread })
    }

    /// Removes entries from the leaf in which they were seen, which owns the first key of the interval. Returns whether
    /// the leaf is sparse now. `None`: somebody has written to the leaf since, or the layout removes entries one by
    /// one; nothing was removed.
    pub(super) fn take_seen(&self, interval: &Unread<N>, seen: Seen, refused: &[Entry]) -> Result<Option<bool>, Fault> {
        N::Space::run(TakeSeen { tree: self, interval, seen, refused })
    }
}

impl<N: WordNode, M: Medium> TreeState<N, M> {
    /// Inserts entries whose keys ascend. Returns how many are new.
    pub(super) fn insert_ascending(&self, entries: &[Entry]) -> Result<u64, Fault> {
        N::Space::run(InsertAll { tree: self, entries })
    }
}

impl<N: TreeNode<Ops: SplitInPlace>, M: Medium> TreeState<N, M> {
    /// Runs once in dozens of inserts, and is kept out of the way of the others.
    #[cold]
    #[inline(never)]
    fn insert_into_full<'t>(
        &'t self,
        leaf: Locked<'t, N>,
        place: usize,
        new: (RefOf<'_, N>, u64),
    ) -> Result<(), Fault> {
        let leaves = &self.leaves;
        let Some(mut leaf) = N::by_copy(self, leaf, InNode::Insert(place), new)? else { return Ok(()) };
        let right = leaves.insert_by_split(&mut leaf, 0, new)?;
        let (from, at, name) = (leaf.at, right.at, leaves.name(right.at));
        leaves.count.add(1);
        drop((right, leaf));
        self.lag(self.post(name, at, from));
        Ok(())
    }
}

/// See [`make_room`](TreeState::make_room).
struct WithoutRoom<'t, 'd, 'k, N: TreeNode, M: Medium, D> {
    tree: &'t TreeState<N, M>,
    leaf: Locked<'t, N>,
    wanted: Wanted<'k, N>,
    decide: &'d mut D,
}

impl<N: TreeNode, M: Medium, D: FnMut(&Locked<'_, N>, Option<u64>) -> Change> Verb<N::Ops>
    for WithoutRoom<'_, '_, '_, N, M, D>
{
    type Output = Result<ControlFlow<Option<u64>>, Fault>;

    #[inline(always)]
    fn in_place(self) -> Self::Output
    where
        N::Ops: SplitInPlace,
    {
        let (Change::Put(value), Err(place)) = (self.wanted.change, self.wanted.found) else {
            unreachable!("in place, only an insert takes a slot");
        };
        self.tree.insert_into_full(self.leaf, place, (self.wanted.key, value))?;
        Ok(ControlFlow::Break(None))
    }

    #[inline(always)]
    fn renewed(self) -> Self::Output
    where
        N::Ops: Renew,
    {
        drop(self.leaf);
        let done = self.tree.rewrite_leaf(self.wanted.key, self.wanted.takes, self.decide)?;
        Ok(done.map_or(ControlFlow::Continue(()), ControlFlow::Break))
    }
}

/// The follow-up to a removal that left a leaf nearly empty.
struct Gather<'t, 'k, N: TreeNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    key: RefOf<'k, N>,
}

impl<N: TreeNode, M: Medium> Verb<N::Ops> for Gather<'_, '_, N, M> {
    type Output = Result<(), Fault>;

    fn in_place(self) -> Result<(), Fault>
    where
        N::Ops: SplitInPlace,
    {
        self.tree.rebalance(self.key)
    }

    fn renewed(self) -> Result<(), Fault>
    where
        N::Ops: Renew,
    {
        self.tree.gather(self.key)
    }
}

/// See [`take_leaf`](TreeState::take_leaf).
struct TakeLeaf<'t, 'u, N: TreeNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    unread: &'u Unread<N>,
}

impl<N: TreeNode, M: Medium> Verb<N::Ops> for TakeLeaf<'_, '_, N, M> {
    type Output = Result<Emptied<N>, Fault>;

    fn in_place(self) -> Self::Output
    where
        N::Ops: SplitInPlace,
    {
        self.tree.take_in_place(self.unread)
    }

    fn renewed(self) -> Self::Output
    where
        N::Ops: Renew,
    {
        self.tree.take_renewed(self.unread)
    }
}

/// See [`take_seen`](TreeState::take_seen).
struct TakeSeen<'t, 'u, N: TreeNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    interval: &'u Unread<N>,
    seen: Seen,
    refused: &'u [Entry],
}

impl<N: TreeNode, M: Medium> Verb<N::Ops> for TakeSeen<'_, '_, N, M> {
    type Output = Result<Option<bool>, Fault>;

    fn in_place(self) -> Self::Output
    where
        N::Ops: SplitInPlace,
    {
        self.tree.take_seen_in_place(self.interval, self.seen, self.refused)
    }

    fn renewed(self) -> Self::Output
    where
        N::Ops: Renew,
    {
        Ok(None)
    }
}

/// See [`insert_ascending`](TreeState::insert_ascending).
struct InsertAll<'t, N: WordNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    entries: &'t [Entry],
}

impl<N: WordNode, M: Medium> Verb<N::Ops> for InsertAll<'_, N, M> {
    type Output = Result<u64, Fault>;

    fn in_place(self) -> Result<u64, Fault>
    where
        N::Ops: SplitInPlace,
    {
        self.tree.insert_in_groups(self.entries)
    }

    /// Inserts one entry after the other: making room requires that no leaf is locked, and nothing is saved where each
    /// change needs its own fences.
    fn renewed(self) -> Result<u64, Fault>
    where
        N::Ops: Renew,
    {
        let insert = |new: u64, &(key, value): &Entry| {
            Ok(new + u64::from(self.tree.change(key, |_| Change::Put(value))?.is_none()))
        };
        self.entries.iter().try_fold(0, insert)
    }
}
