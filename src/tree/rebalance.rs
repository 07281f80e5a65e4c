//! What follows a split or a removal: telling the index, merging, sharing.

use super::Core;
use crate::chain::Locked;
use crate::delay::{Validation, delay, is_left_out};
use crate::error::{Broken, Error, Result};
use crate::medium::Medium;
use crate::node::Node;

impl<N: Node, M: Medium> Core<N, M> {
    /// Tells the index of a leaf that a split made.
    ///
    pub(super) fn post(&self, low: u64, at: u64) -> Result<()> {
        delay();
        let _restructuring = self.restructuring.lock();
        // Since the split it may have been merged away, and even have come back as another leaf.
        let still = self.named(self.leaves.view(at))?.is_some_and(|view| view.span.low() == low);
        if !still && !is_left_out(Validation::Posted) {
            return Ok(());
        }
        self.lag(self.directory.post(low, at));
        Ok(())
    }

    /// Takes the result of what follows a change that is durable already. That it could not be done is no reason to fail:
    /// the index lags, or a leaf stays sparse. Damage is noted.
    pub(super) fn lag(&self, result: Result<()>) {
        if let Err(Error::Corrupt { at, invariant, .. }) = result {
            self.note::<()>(Err(Broken::new(at, invariant)));
        }
    }

    /// Merges the sparse leaf that owns the key with a neighbour, or shares with it.
    ///
    /// The right neighbour is preferred, as in Circ-Tree, or the left one, as in Crab-tree; the other one serves where that
    /// has another parent.
    #[cold]
    pub(super) fn rebalance(&self, key: u64) -> Result<()> {
        delay();
        let _restructuring = self.restructuring.lock();
        if N::MERGES_LEFT {
            if !self.join_left(key)? {
                self.join_right(key)?;
            }
        } else if !self.join_right(key)? {
            self.join_left(key)?;
        }
        Ok(())
    }

    /// Joins the leaf that owns the key, if it is sparse, with its right neighbour; true if there is nothing more to do.
    fn join_right(&self, key: u64) -> Result<bool> {
        let leaf = self.lock_owner(key)?;
        if !self.leaves.is_sparse(&leaf) || leaf.span().low() == u64::MAX {
            return Ok(true);
        }
        if let Some(next) = self.named(self.leaves.next(leaf.at))?
            && let Some(right) = self.named(self.leaves.lock(next))?
            // The tail, which owns MAX, stays: so every other leaf has a key that it never owns.
            && right.span().low() < u64::MAX
            && self.directory.may_withdraw(right.span().low())?
        {
            self.join(leaf, right)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// The same with its left neighbour. Leaves are locked from left to right.
    fn join_left(&self, key: u64) -> Result<bool> {
        let leaf = self.lock_owner(key)?;
        let low = leaf.span().low();
        let sparse = self.leaves.is_sparse(&leaf);
        drop(leaf);
        if !sparse || low == u64::MAX {
            return Ok(true);
        }
        if low == 0 || !self.directory.may_withdraw(low)? {
            return Ok(false);
        }
        let left = self.lock_owner(low - 1)?;
        if left.span().high() == low
            && let Some(next) = self.named(self.leaves.next(left.at))?
            && let Some(right) = self.named(self.leaves.lock(next))?
            && self.leaves.is_sparse(&right)
        {
            self.join(left, right)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes one leaf of two neighbours, or two of even size.
    fn join<'c>(&'c self, mut left: Locked<'c, N::Aid>, right: Locked<'c, N::Aid>) -> Result<()> {
        let (low, at) = (right.span().low(), right.at);
        // Before it leaves the chain. Crash: the index lags, a search moves right from the left neighbour.
        self.directory.withdraw(low)?;
        delay();
        if self.leaves.fit_in_one(&left, &right) {
            self.leaves.merge(&mut left, right);
            return Ok(());
        }
        let (low, at) = match self.leaves.redistribute(&mut left, right, 0) {
            Ok(new) => (new.span().low(), new.at),
            // No space to share: everything stays where it was.
            Err(Error::OutOfSpace { .. }) => (low, at),
            Err(error) => return Err(error),
        };
        drop(left);
        self.lag(self.directory.post(low, at));
        Ok(())
    }
}
