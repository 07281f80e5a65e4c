//! Insert, update, remove and compare-and-exchange are one verb: find the owner, decide, and make the change.

use super::{TreeNode, TreeState};
use crate::chain::Locked;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::RefOf;
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

/// A change for which its leaf has no room.
pub(super) struct Wanted<'k, N: TreeNode> {
    pub(super) key: RefOf<'k, N>,
    /// The slots that it takes.
    pub(super) takes: usize,
    /// The place of the key; as an error, where it would go.
    pub(super) found: Result<usize, usize>,
    pub(super) change: Change,
}

/// What a key had before a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// Its word, if it was there.
    pub(crate) word: Option<u64>,
    /// The [stamp](crate::chain::frozen) of its leaf when the change was made; 0 if no snapshot sees what it had.
    pub(crate) stamp: u64,
}

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
                (Change::Put(_), Ok(_)) => leaves.update_takes(),
                (Change::Remove, Ok(_)) => leaves.removal_takes(),
            };
            let stamp = leaves.freeze(&leaf, newest);
            if takes > 0 && !leaves.has_room(&leaf, takes) {
                match self.make_room(leaf, Wanted { key, takes, found, change }, &mut decide)? {
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
}
