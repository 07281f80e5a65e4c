//! Insert, update, remove and compare-and-exchange are one verb: find the owner, decide, do it.

use super::Core;
use crate::chain::Locked;
use crate::error::Result;
use crate::medium::Medium;
use crate::node::{Entry, InNode, Node};

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
    ///
    /// `decide` is asked again if the leaf had to be replaced first.
    #[inline]
    pub(crate) fn change(&self, key: u64, mut decide: impl FnMut(Option<u64>) -> Change) -> Result<Option<u64>> {
        self.pool.owned()?;
        let leaves = &self.leaves;
        loop {
            let mut leaf = self.lock_owner(key)?;
            let found = leaves.search(&leaf, key);
            let old = found.ok().map(|place| leaves.value(&leaf, place));
            let change = decide(old);
            if N::RENEWS {
                let takes = match (&change, found) {
                    (Change::Keep, _) | (Change::Remove, Err(_)) => 0,
                    (Change::Put(_), Err(_)) => 1,
                    (Change::Put(_), Ok(_)) => N::TAKES.update,
                    (Change::Remove, Ok(_)) => N::TAKES.remove,
                };
                if leaves.room(&leaf) < takes {
                    drop(leaf);
                    match self.renew(key, takes, &mut decide)? {
                        Some(old) => return Ok(old),
                        None => continue,
                    }
                }
            }
            match (change, found) {
                (Change::Keep, _) | (Change::Remove, Err(_)) => {}
                (Change::Put(value), Ok(place)) => leaves.update(&mut leaf, place, value),
                (Change::Put(value), Err(place)) => self.insert_new(leaf, place, (key, value))?,
                (Change::Remove, Ok(place)) => self.remove_old(leaf, place, key)?,
            }
            return Ok(old);
        }
    }

    #[inline(always)]
    fn insert_new<'t>(&'t self, leaf: Locked<'t, N::Aid>, place: usize, new: Entry) -> Result<()> {
        let leaves = &self.leaves;
        let Some(mut leaf) = self.by_copy(leaf, InNode::Insert(place), new)? else { return Ok(()) };
        if leaves.is_full(&leaf) {
            return self.insert_by_split(leaf, new);
        }
        leaves.insert(&mut leaf, place, new);
        // Counted under the lock: `clear` counts anew when it holds all locks.
        leaves.count.add(1);
        Ok(())
    }

    /// Once in dozens of inserts, and not in the way of the others.
    #[cold]
    #[inline(never)]
    fn insert_by_split<'t>(&'t self, mut leaf: Locked<'t, N::Aid>, new: Entry) -> Result<()> {
        let leaves = &self.leaves;
        let (right, with_new) = leaves.split(&mut leaf, 0, new)?;
        if !with_new && let Err(place) = leaves.search(&leaf, new.0) {
            leaves.insert(&mut leaf, place, new);
        }
        let (low, at) = (right.span().low(), right.at);
        leaves.count.add(1);
        drop(right);
        drop(leaf);
        self.lag(self.post(low, at));
        Ok(())
    }

    #[inline(always)]
    fn remove_old(&self, leaf: Locked<'_, N::Aid>, place: usize, key: u64) -> Result<()> {
        let leaves = &self.leaves;
        let Some(mut leaf) = self.by_copy(leaf, InNode::Remove(place), (key, 0))? else { return Ok(()) };
        leaves.remove(&mut leaf, place);
        leaves.count.sub_one();
        if leaves.is_sparse(&leaf) {
            drop(leaf);
            self.lag(if N::RENEWS { self.gather(key) } else { self.rebalance(key) });
        }
        Ok(())
    }
}
