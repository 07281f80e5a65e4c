//! Insert, update, remove and compare-and-exchange are one verb: find the owner, decide, and make the change.

use super::{TreeNode, TreeState};
use crate::chain::Locked;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{InNode, RefOf, Renew, Space, SplitInPlace, Verb};
use crate::pool::patience::Patience;
use std::ops::ControlFlow;

/// What to do with the entry of a key.
pub(crate) enum Change {
    /// Change nothing.
    Keep,
    /// Set this value.
    Put(u64),
    /// Remove the entry.
    Remove,
}

impl Change {
    /// Sets this value, or removes the entry.
    pub(super) fn to(new: Option<u64>) -> Self {
        new.map_or(Self::Remove, Self::Put)
    }
}

/// What a key had before a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// Its word, if it was there.
    pub(crate) word: Option<u64>,
    /// The [stamp](crate::chain::frozen) of its leaf when the change was made; 0 if no snapshot sees what it had.
    pub(crate) stamp: u64,
}

/// A new key and its value.
type New<'k, N> = (RefOf<'k, N>, u64);

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Changes the entry of a key as `decide` says, given its current value, which is returned. Durable when it
    /// returns.
    ///
    /// `decide` is called again if the leaf had to be replaced first.
    #[inline]
    pub(crate) fn change(
        &self,
        key: RefOf<'_, N>,
        mut decide: impl FnMut(Option<u64>) -> Change,
    ) -> Result<Option<u64>, Fault> {
        let mut patience = Patience::default();
        loop {
            match self.change_in(key, |_, old| decide(old)) {
                Err(fault) => self.pool.wait_for_space(&mut patience, fault)?,
                Ok(before) => return Ok(before.word),
            }
        }
    }

    /// Changes the entry of a key as `decide` says, given the leaf, which is locked, and the key's current value.
    /// Returns what the key had. Durable when it returns. Does not wait for space.
    #[inline]
    pub(crate) fn change_in(
        &self,
        key: RefOf<'_, N>,
        decide: impl FnMut(&Locked<'_, N>, Option<u64>) -> Change,
    ) -> Result<Before, Fault> {
        self.change_by(key, || self.lock_owner(key), decide)
    }

    /// Changes the entry of a key as `decide` says, given the leaf, which is locked, and the key's current value.
    /// `lock` locks the leaf that owns the key. Returns what the key had. Durable when it returns. Does not wait for
    /// space.
    #[inline]
    pub(crate) fn change_by<'t>(
        &'t self,
        key: RefOf<'_, N>,
        mut lock: impl FnMut() -> Result<Locked<'t, N>, Fault>,
        mut decide: impl FnMut(&Locked<'_, N>, Option<u64>) -> Change,
    ) -> Result<Before, Fault> {
        self.may_change()?;
        let leaves = &self.leaves;
        loop {
            let mut leaf = lock()?;
            // Before `decide`, which may look at what was read in other leaves (see `TreePart::change`).
            let newest = leaves.newest();
            let found = leaves.search(&leaf, key);
            let old = found.ok().map(|place| leaves.value(&leaf, place));
            let change = decide(&leaf, old);
            let takes = match (&change, found) {
                (Change::Keep, _) | (Change::Remove, Err(_)) => return Ok(Before { word: old, stamp: 0 }),
                (Change::Put(_), Err(_)) => 1,
                (Change::Put(_), Ok(_)) => N::Space::TAKES.update,
                (Change::Remove, Ok(_)) => N::Space::TAKES.remove,
            };
            let stamp = leaves.freeze(&leaf, newest);
            if takes > 0 && !leaves.has_room(&leaf, takes) {
                let verb = WithoutRoom { tree: self, leaf, key, takes, found, change, decide: &mut decide };
                match N::Space::run(verb)? {
                    ControlFlow::Break(word) => return Ok(Before { word, stamp }),
                    ControlFlow::Continue(()) => continue,
                }
            }
            match (change, found) {
                (Change::Keep, _) | (Change::Remove, Err(_)) => unreachable!("nothing is to be changed"),
                (Change::Put(value), Ok(place)) => leaves.update(&mut leaf, place, value),
                (Change::Put(value), Err(place)) => self.insert_new(leaf, place, (key, value))?,
                (Change::Remove, Ok(place)) => self.remove_old(leaf, place, key)?,
            }
            return Ok(Before { word: old, stamp });
        }
    }

    #[inline(always)]
    fn insert_new<'t>(&'t self, leaf: Locked<'t, N>, place: usize, new: New<'_, N>) -> Result<(), Fault> {
        let Some(mut leaf) = N::by_copy(self, leaf, InNode::Insert(place), new)? else { return Ok(()) };
        self.leaves.insert(&mut leaf, place, new);
        // Counted under the lock: `clear` sets the count anew while it holds all locks.
        self.leaves.count.add(1);
        Ok(())
    }

    #[inline(always)]
    fn remove_old(&self, leaf: Locked<'_, N>, place: usize, key: RefOf<'_, N>) -> Result<(), Fault> {
        let leaves = &self.leaves;
        let Some(mut leaf) = N::by_copy(self, leaf, InNode::Remove(place), (key, 0))? else {
            // By these rules a copy may leave a sparse leaf. It merges only now, because a copy waits for no other
            // thread.
            if !N::POLICY.merging.evens_out() {
                self.lag(N::Space::run(Gather { tree: self, key }));
            }
            return Ok(());
        };
        leaves.remove(&mut leaf, place);
        leaves.count.sub_one();
        if leaves.is_sparse(&leaf) {
            drop(leaf);
            self.lag(N::Space::run(Gather { tree: self, key }));
        }
        Ok(())
    }
}

/// A change for which its leaf has no room.
struct WithoutRoom<'t, 'd, 'k, N: TreeNode, M: Medium, D> {
    tree: &'t TreeState<N, M>,
    leaf: Locked<'t, N>,
    key: RefOf<'k, N>,
    takes: usize,
    found: Result<usize, usize>,
    change: Change,
    decide: &'d mut D,
}

impl<N: TreeNode, M: Medium, D: FnMut(&Locked<'_, N>, Option<u64>) -> Change> Verb<N::Ops>
    for WithoutRoom<'_, '_, '_, N, M, D>
{
    /// `Break`: the change is durable, and the key had this value. `Continue`: another thread has made room for it.
    type Output = Result<ControlFlow<Option<u64>>, Fault>;

    #[inline(always)]
    fn in_place(self) -> Self::Output
    where
        N::Ops: SplitInPlace,
    {
        let (Change::Put(value), Err(place)) = (self.change, self.found) else {
            unreachable!("in place, only an insert takes a slot");
        };
        self.tree.insert_into_full(self.leaf, place, (self.key, value))?;
        Ok(ControlFlow::Break(None))
    }

    #[inline(always)]
    fn renewed(self) -> Self::Output
    where
        N::Ops: Renew,
    {
        drop(self.leaf);
        let done = self.tree.rewrite_leaf(self.key, self.takes, self.decide)?;
        Ok(done.map_or(ControlFlow::Continue(()), ControlFlow::Break))
    }
}

impl<N: TreeNode<Ops: SplitInPlace>, M: Medium> TreeState<N, M> {
    /// Runs once in dozens of inserts, and is kept out of the way of the others.
    #[cold]
    #[inline(never)]
    fn insert_into_full<'t>(&'t self, leaf: Locked<'t, N>, place: usize, new: New<'_, N>) -> Result<(), Fault> {
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

/// The follow-up to a removal that left a leaf nearly empty.
pub(super) struct Gather<'t, 'k, N: TreeNode, M: Medium> {
    pub(super) tree: &'t TreeState<N, M>,
    pub(super) key: RefOf<'k, N>,
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
