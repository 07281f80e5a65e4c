//! Insert, update, remove and compare-and-exchange are one verb: find the owner, decide, do it.

use super::Core;
use crate::error::Result;
use crate::medium::Medium;
use crate::node::Node;

/// What is to become of a key.
pub(crate) enum Change {
    /// Nothing.
    Keep,
    /// It has this value.
    Put(u64),
    /// It goes.
    Remove,
}

impl<N: Node, M: Medium> Core<N, M> {
    /// Changes the entry of a key as `decide` says, given its value; returns that value. Durable when it returns.
    #[inline]
    pub(crate) fn change(&self, key: u64, decide: impl FnOnce(Option<u64>) -> Change) -> Result<Option<u64>> {
        let leaves = &self.leaves;
        let mut leaf = self.lock_owner(key)?;
        let found = leaves.search(&leaf, key);
        let old = found.ok().map(|place| leaves.value(&leaf, place));
        match (decide(old), found) {
            (Change::Keep, _) | (Change::Remove, Err(_)) => {}
            (Change::Put(value), Ok(place)) => leaves.update(&mut leaf, place, value),
            (Change::Put(value), Err(place)) => {
                let new = (key, value);
                if leaves.is_full(&leaf) {
                    let (right, with_new) = leaves.split(&mut leaf, 0, new)?;
                    if !with_new && let Err(place) = leaves.search(&leaf, key) {
                        leaves.insert(&mut leaf, place, new);
                    }
                    let (low, at) = (right.span().low(), right.at);
                    // Counted under the lock: `clear` counts anew when it holds all locks.
                    leaves.count.add(1);
                    drop(right);
                    drop(leaf);
                    self.lag(self.post(low, at));
                } else {
                    leaves.insert(&mut leaf, place, new);
                    leaves.count.add(1);
                }
            }
            (Change::Remove, Ok(place)) => {
                leaves.remove(&mut leaf, place);
                leaves.count.sub_one();
                if leaves.is_sparse(&leaf) {
                    drop(leaf);
                    self.lag(self.rebalance(key));
                }
            }
        }
        Ok(old)
    }
}
