//! Posting leaves to the index, and asking it which leaves may leave the chain.

use super::TreeState;
use crate::chain::Locked;
use crate::delay::{Validation, delay, is_left_out};
use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::Medium;
use crate::node::Node;

impl<N: Node, M: Medium> TreeState<N, M> {
    /// Posts a leaf, which a split made, to the index.
    pub(super) fn post(&self, low: u64, at: u64) -> Result<(), Fault> {
        delay();
        let _restructuring = self.restructuring.lock();
        // Since the split, the leaf may have been merged away, and its block may even be another leaf now.
        let still = self.leaves.view(at)?.is_some_and(|view| view.range.low() == low);
        if !still && !is_left_out(Validation::Posted) {
            return Ok(());
        }
        self.lag(self.directory.post(low, at));
        Ok(())
    }

    /// Handles the result of a follow-up to a change that is already durable. Not being able to do it is no reason to
    /// fail: the index lags, or a leaf stays sparse. Damage is noted.
    pub(super) fn lag(&self, result: Result<(), Fault>) {
        if let Err(fault) = result
            && let ErrorKind::Corrupt { at, invariant } = *fault.kind()
        {
            self.note::<()>(Err(Broken::new(at, invariant)));
        }
    }

    /// Whether the leaf that begins at `low` may be merged into its left neighbour.
    pub(super) fn may_leave(&self, low: u64) -> Result<bool, Fault> {
        // The tail, which owns MAX, must stay, so that every other leaf has a key that it never owns.
        Ok(low > 0 && low < u64::MAX && self.directory.may_withdraw(low)?)
    }

    /// Locks the right neighbour, if it may leave the chain.
    pub(super) fn lock_to_join(&self, leaf: &Locked<'_, N>) -> Result<Option<Locked<'_, N>>, Fault> {
        let Some(right) = self.leaves.lock_next(leaf)? else { return Ok(None) };
        let may = self.may_leave(right.range().low())?;
        Ok(may.then_some(right))
    }
}
