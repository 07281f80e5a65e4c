//! Merging a nearly empty leaf with a neighbour, or sharing entries with it, in place.

use super::TreeState;
use crate::chain::Locked;
use crate::delay::delay;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Node, SplitInPlace};

impl<N: Node<Ops: SplitInPlace>, M: Medium> TreeState<N, M> {
    /// Merges the sparse leaf that owns the key with a neighbour, or shares entries with it.
    ///
    /// The right neighbour is preferred, as in Circ-Tree, or the left one, as in Crab-tree. The other neighbour is used
    /// if the preferred one has another parent.
    #[cold]
    pub(super) fn rebalance(&self, key: u64) -> Result<(), Fault> {
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
    fn join_right(&self, key: u64) -> Result<bool, Fault> {
        let leaf = self.lock_owner(key)?;
        if !self.leaves.is_sparse(&leaf) || leaf.range().low() == u64::MAX {
            return Ok(true);
        }
        let Some(right) = self.lock_to_join(&leaf)? else { return Ok(false) };
        self.join(leaf, right)?;
        Ok(true)
    }

    /// The same with the left neighbour. Leaves are locked from left to right.
    fn join_left(&self, key: u64) -> Result<bool, Fault> {
        let leaf = self.lock_owner(key)?;
        let low = leaf.range().low();
        let sparse = self.leaves.is_sparse(&leaf);
        drop(leaf);
        if !sparse || low == u64::MAX {
            return Ok(true);
        }
        if !self.may_leave(low)? {
            return Ok(false);
        }
        let left = self.lock_owner(low - 1)?;
        if left.range().high() == low
            && let Some(right) = self.leaves.lock_next(&left)?
            && self.leaves.is_sparse(&right)
        {
            self.join(left, right)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes one leaf of two neighbours, or two leaves of even size.
    fn join<'t>(&'t self, mut left: Locked<'t, N>, right: Locked<'t, N>) -> Result<(), Fault> {
        // Before it leaves the chain. Crash: the index lags; a search moves right from the left neighbour.
        self.directory.withdraw(right.range().low())?;
        delay();
        let to_post = self.leaves.join(&mut left, right, 0)?;
        drop(left);
        if let Some((low, at)) = to_post {
            self.lag(self.directory.post(low, at));
        }
        Ok(())
    }
}
