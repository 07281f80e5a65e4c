//! Merging a nearly empty node with a neighbour, or sharing entries with it.

use super::PersistentIndex;
use crate::chain::Locked;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{InnerOps, Merging, WordNode};

impl<N: WordNode<Ops: InnerOps>, M: Medium> PersistentIndex<N, M> {
    /// Merges the sparse node that owns the key with a neighbour under the same parent, or moves entries between the
    /// two, as far as the layout's [policy](crate::node::Merging) has it.
    pub(super) fn rebalance(&self, level: u16, key: u64) -> Result<(), Fault> {
        let Some(node) = self.lock(level, key)? else { return Ok(()) };
        let low = node.range().low();
        if let Some(right) = self.lock_right(level, &node)?
            && self.may_withdraw_at(level + 1, right.range().low())?
            && self.may_join(&node, &right)
        {
            return self.join(level, node, right);
        }
        if N::POLICY.merging == Merging::RightOnly || low == 0 || !self.may_withdraw_at(level + 1, low)? {
            return Ok(());
        }
        drop(node);
        let Some(left) = self.lock(level, low - 1)? else { return Ok(()) };
        if left.range().high() == low
            && let Some(right) = self.lock_right(level, &left)?
            && self.may_join(&left, &right)
        {
            return self.join(level, left, right);
        }
        Ok(())
    }

    fn may_join(&self, left: &Locked<'_, N>, right: &Locked<'_, N>) -> bool {
        N::POLICY.merging.evens_out() || self.chain.fit_in_one(left, right)
    }

    fn join<'c>(&'c self, level: u16, mut left: Locked<'c, N>, right: Locked<'c, N>) -> Result<(), Fault> {
        // Withdrawn before the node leaves the chain. Crash: the level above lags, a search moves right from the left
        // neighbour.
        self.withdraw_at(level + 1, right.range().low())?;
        let to_post = self.chain.join(&mut left, right, level, None)?;
        drop(left);
        let Some(at) = to_post else { return Ok(()) };
        match self.post_at(level + 1, self.chain.name(at), at) {
            // The index lags.
            Err(fault) if fault.is_out_of_space() => Ok(()),
            other => other,
        }
    }
}
