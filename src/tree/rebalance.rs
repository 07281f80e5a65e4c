//! Merging a nearly empty leaf with a neighbour, or sharing entries with it, in place.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::chain::Locked;
use crate::delay::delay;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Keys, RefOf, SplitInPlace};

impl<N: TreeNode<Ops: SplitInPlace>, M: Medium> TreeState<N, M> {
    /// Merges the sparse leaf that owns the key with a neighbour, or shares entries with it.
    ///
    /// The right neighbour is preferred, as in Circ-Tree, or the left one, as in Crab-tree. The other neighbour is used
    /// if the preferred one has another parent.
    #[cold]
    pub(super) fn rebalance(&self, key: RefOf<'_, N>) -> Result<(), Fault> {
        delay();
        let _restructuring = self.restructuring.lock();
        if N::POLICY.merges_left {
            if !self.join_left(key)? {
                self.join_right(key)?;
            }
        } else if !self.join_right(key)? {
            self.join_left(key)?;
        }
        Ok(())
    }

    /// Joins the leaf that owns the key with its right neighbour, if it is sparse. Returns true if nothing more is to
    /// be done.
    fn join_right(&self, key: RefOf<'_, N>) -> Result<bool, Fault> {
        let leaf = self.lock_owner(key)?;
        if !self.leaves.is_sparse(&leaf) || N::Keys::is_tail(leaf.range()) {
            return Ok(true);
        }
        let Some(right) = self.lock_to_join(&leaf)? else { return Ok(false) };
        self.join(leaf, right)?;
        Ok(true)
    }

    /// The same with the left neighbour. Leaves are locked from left to right.
    fn join_left(&self, key: RefOf<'_, N>) -> Result<bool, Fault> {
        let leaves = &self.leaves;
        let leaf = self.lock_owner(key)?;
        let (at, name) = (leaf.at, leaves.name(leaf.at));
        let done = !leaves.is_sparse(&leaf) || N::Keys::is_tail(leaf.range());
        if done || !self.may_leave(&leaf)? {
            return Ok(done);
        }
        drop(leaf);
        // Under `restructuring` the leaf stays in the chain, and so does its fence key.
        let left = N::Keys::with_key_before::<M, _>(leaves.access(), at, |before| self.lock_owner(before))?;
        if let Some(right) = leaves.lock_next(&left)?
            && leaves.name(right.at) == name
            && leaves.is_sparse(&right)
        {
            self.join(left, right)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes one leaf of two neighbours, or two leaves of even size.
    fn join<'t>(&'t self, mut left: Locked<'t, N>, right: Locked<'t, N>) -> Result<(), Fault> {
        // Before it leaves the chain. Crash: the index lags; a search moves right from the left neighbour.
        self.directory.withdraw(self.leaves.name(right.at))?;
        delay();
        let from = left.at;
        let to_post = self.leaves.join(&mut left, right, 0)?;
        drop(left);
        if let Some(at) = to_post {
            self.post_now(self.leaves.name(at), at, from);
        }
        Ok(())
    }
}
