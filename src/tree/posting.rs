//! Posting leaves to the index, and asking it which leaves may leave the chain.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::chain::Locked;
use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::Medium;
use crate::node::Keys;
use crate::sync::delay::{Validation, delay, is_left_out};

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Posts a leaf with this name, which a split of the leaf at `from` made, to the index.
    pub(super) fn post(&self, name: u64, at: u64, from: u64) -> Result<(), Fault> {
        delay();
        let _restructuring = self.restructuring.lock();
        // Since the split, the leaf may have been merged away, and its block may even be another leaf now.
        let still = self.leaves.view(at)?.is_some() && self.leaves.name(at) == name;
        if !still && !is_left_out(Validation::Posted) {
            return Ok(());
        }
        self.post_now(name, at, from);
        Ok(())
    }

    /// Posts a leaf that is in the chain, where the leaf at `from` is to the left of it or was. The caller holds
    /// `restructuring`.
    pub(super) fn post_now(&self, name: u64, at: u64, from: u64) {
        self.lag(self.directory.post(name, at).and_then(|()| self.note_posted(at, from)));
    }

    /// Notes in the left neighbour of a leaf that the index knows the leaf.
    fn note_posted(&self, at: u64, from: u64) -> Result<(), Fault> {
        let leaves = &self.leaves;
        if !leaves.caught_up(from, at)? {
            // The leaf at `from` was moved, or many have come between the two.
            let mut left = N::Keys::with_key_before(leaves.block(at), |before| self.lock_owner(before))?;
            if leaves.next(left.at)? == Some(at) {
                leaves.note_posted(&mut left);
            }
        }
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

    /// Whether a leaf may be merged into its left neighbour.
    pub(super) fn may_leave(&self, leaf: &Locked<'_, N>) -> Result<bool, Fault> {
        let range = leaf.range();
        // The tail must stay, so that every other leaf has a key that it never owns.
        let may = !N::Keys::is_first(range) && !N::Keys::is_tail(range);
        Ok(may && self.directory.may_withdraw(self.leaves.name(leaf.at))?)
    }

    /// Locks the right neighbour, if it may leave the chain.
    pub(super) fn lock_to_join(&self, leaf: &Locked<'_, N>) -> Result<Option<Locked<'_, N>>, Fault> {
        let Some(right) = self.leaves.lock_next(leaf)? else { return Ok(None) };
        let may = self.may_leave(&right)?;
        Ok(may.then_some(right))
    }
}
