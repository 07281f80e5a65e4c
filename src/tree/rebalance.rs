//! Merging a nearly empty leaf with a neighbour, or sharing entries with it, in place.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::chain::Locked;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Keys, Merging, RefOf, SplitInPlace};
use crate::sync::delay::delay;
use core::ops::ControlFlow;

/// A leaf and a neighbour, from left to right; `None`: the neighbour has another parent, or there is none. `Break`: the
/// leaf does not want a neighbour any more.
type Neighbours<'t, N> = ControlFlow<(), Option<(Locked<'t, N>, Locked<'t, N>)>>;

impl<N: TreeNode<Ops: SplitInPlace>, M: Medium> TreeState<N, M> {
    /// Merges the sparse leaf that owns the key with a neighbour, or shares entries with it.
    ///
    /// The right neighbour is preferred, as in Circ-Tree, or the left one, as in Crab-tree. The other neighbour is used
    /// if the preferred one has another parent. What else a layout may do is its [policy](Merging).
    #[cold]
    pub(super) fn rebalance(&self, key: RefOf<'_, N>) -> Result<(), Fault> {
        delay();
        let _restructuring = self.restructuring.lock();
        match N::POLICY.merging {
            Merging::RightFirst => {
                if !self.join_right(key)? {
                    self.join_left(key)?;
                }
            }
            Merging::LeftFirst => {
                if !self.join_left(key)? {
                    self.join_right(key)?;
                }
            }
            Merging::RightOnly => {
                self.join_right(key)?;
            }
            Merging::LeftOrTake => {
                if !self.join_left(key)? && !self.join_right(key)? {
                    self.take_from_both(key)?;
                }
            }
        }
        Ok(())
    }

    /// Joins the leaf that owns the key with its right neighbour, if it is sparse. Returns true if nothing more is to
    /// be done.
    fn join_right(&self, key: RefOf<'_, N>) -> Result<bool, Fault> {
        self.join_pair(self.with_right(key, |leaf| self.leaves.is_sparse(leaf))?)
    }

    /// Joins the leaf that owns the key with its left neighbour, if it is sparse. Returns true if nothing more is to be
    /// done.
    fn join_left(&self, key: RefOf<'_, N>) -> Result<bool, Fault> {
        self.join_pair(self.with_left(key, |leaf| self.leaves.is_sparse(leaf))?)
    }

    fn join_pair(&self, pair: Neighbours<'_, N>) -> Result<bool, Fault> {
        match pair {
            ControlFlow::Break(()) => return Ok(true),
            ControlFlow::Continue(Some((left, right)))
                if N::POLICY.merging.evens_out() || self.leaves.fit_in_one(&left, &right) =>
            {
                self.join(left, right, None)?;
                return Ok(true);
            }
            ControlFlow::Continue(_) => {}
        }
        Ok(false)
    }

    /// Locks the leaf that owns the key, and its right neighbour.
    fn with_right(
        &self,
        key: RefOf<'_, N>,
        wants: impl Fn(&Locked<'_, N>) -> bool,
    ) -> Result<Neighbours<'_, N>, Fault> {
        let leaf = self.lock_owner(key)?;
        if !wants(&leaf) || N::Keys::is_tail(leaf.range()) {
            return Ok(ControlFlow::Break(()));
        }
        let right = self.lock_to_join(&leaf)?;
        Ok(ControlFlow::Continue(right.map(|right| (leaf, right))))
    }

    /// Locks the left neighbour of the leaf that owns the key, and that leaf: leaves are locked from left to right.
    fn with_left(&self, key: RefOf<'_, N>, wants: impl Fn(&Locked<'_, N>) -> bool) -> Result<Neighbours<'_, N>, Fault> {
        let leaves = &self.leaves;
        let leaf = self.lock_owner(key)?;
        let (at, name) = (leaf.at, leaves.name(leaf.at));
        if !wants(&leaf) || N::Keys::is_tail(leaf.range()) {
            return Ok(ControlFlow::Break(()));
        }
        if !self.may_leave(&leaf)? {
            return Ok(ControlFlow::Continue(None));
        }
        drop(leaf);
        // Under `restructuring` the leaf stays in the chain, and so does its low.
        let left = N::Keys::with_key_before(leaves.block(at), |before| self.lock_owner(before))?;
        if let Some(right) = leaves.lock_next(&left)?
            && leaves.name(right.at) == name
            && wants(&right)
        {
            return Ok(ControlFlow::Continue(Some((left, right))));
        }
        Ok(ControlFlow::Continue(None))
    }

    /// Moves entries from both neighbours into the leaf that owns the key, until it is more than half full: half of
    /// what it needs comes from the right one, and the rest from the left one, and then from the right one again, as
    /// far as these stay half full.
    ///
    /// Each is a change of the chain of its own. Crash, between them: the leaf has less than it needs.
    fn take_from_both(&self, key: RefOf<'_, N>) -> Result<(), Fault> {
        let len = |leaf: &Locked<'_, N>| self.leaves.len(leaf);
        let needed = |leaf: &Locked<'_, N>| (N::SLOTS / 2 + 1).saturating_sub(len(leaf));
        let spare = |leaf: &Locked<'_, N>| len(leaf).saturating_sub(N::SLOTS / 2);
        let takes = |leaf: &Locked<'_, N>| needed(leaf) > 0;
        let from_right = |parts: usize| {
            if let ControlFlow::Continue(Some((leaf, right))) = self.with_right(key, takes)? {
                let taken = needed(&leaf).div_ceil(parts).min(spare(&right));
                if taken > 0 {
                    let in_left = len(&leaf) + taken;
                    self.join(leaf, right, Some(in_left))?;
                }
            }
            Ok(())
        };
        from_right(2)?;
        if let ControlFlow::Continue(Some((left, leaf))) = self.with_left(key, takes)? {
            let taken = needed(&leaf).min(spare(&left));
            if taken > 0 {
                let in_left = len(&left) - taken;
                self.join(left, leaf, Some(in_left))?;
            }
        }
        from_right(1)
    }

    /// Makes one leaf of two neighbours, or two leaves. The left one gets `in_left` entries, or half of all.
    fn join<'t>(&'t self, mut left: Locked<'t, N>, right: Locked<'t, N>, in_left: Option<usize>) -> Result<(), Fault> {
        // Before it leaves the chain. Crash: the index lags; a search moves right from the left neighbour.
        self.directory.withdraw(self.leaves.name(right.at))?;
        delay();
        let (from, old) = (left.at, right.at);
        let joined = self.leaves.join(&mut left, right, 0, in_left);
        if joined.as_ref().map_or(true, |&to_post| to_post == Some(old)) {
            // Nothing was joined.
            self.directory.is_unsure();
        }
        let to_post = joined?;
        drop(left);
        if let Some(at) = to_post {
            self.post_now(self.leaves.name(at), at, from);
        }
        Ok(())
    }
}
