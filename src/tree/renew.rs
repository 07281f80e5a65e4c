//! Leaves that only ever grow: new leaves replace one that has no room, or one that is nearly empty.

use super::directory::Directory;
use super::range::Unread;
use super::remove_range::Emptied;
use super::replace::{LinkTo, parts};
use super::{Change, TreeState};
use crate::chain::Locked;
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::node::{Entry, Renew, WordNode};

/// A leaf, and what points to it.
pub(super) type WithLeft<'t, N> = (LinkTo<'t, N>, Locked<'t, N>);

/// What a change makes of the entries of a leaf.
struct Changed {
    /// The value that the key had.
    found: Option<u64>,
    is_removal: bool,
    /// All entries, with the change made.
    entries: Vec<Entry>,
}

impl<N: WordNode<Ops: Renew>, M: Medium> TreeState<N, M> {
    /// Makes a change that takes `takes` slots, for which the leaf that owns the key has no room: in the new leaves
    /// that replace it, so that the store that links them also commits the change. Returns the value that the key had.
    /// `None`: there is room by now, and nothing was changed.
    ///
    /// # Errors
    ///
    /// If there is no space for new leaves, one of the same size, for which a block is in reserve, takes the place of
    /// the old one. So only an insert into a leaf that is full of entries can fail for want of space.
    #[cold]
    pub(super) fn rewrite_leaf(
        &self,
        key: u64,
        takes: usize,
        decide: &mut dyn FnMut(&Locked<'_, N>, Option<u64>) -> Change,
    ) -> Result<Option<Option<u64>>, Fault> {
        for resized in [true, false] {
            match self.change_with_room(key, takes, resized, decide) {
                Err(fault) if fault.is_out_of_space() => {}
                done => return done,
            }
        }
        self.change_in_reserve(key, decide).map(Some)
    }

    /// The entries of a leaf, changed as `decide` says. As an error, the value that the key has: nothing is to change.
    fn changed(
        &self,
        old: &Locked<'_, N>,
        key: u64,
        decide: &mut dyn FnMut(&Locked<'_, N>, Option<u64>) -> Change,
    ) -> Result<Changed, Option<u64>> {
        let leaves = &self.leaves;
        let found = leaves.search(old, key).ok().map(|place| leaves.value(old, place));
        let mut entries = leaves.entries(old);
        let i = entries.partition_point(|entry| entry.0 < key);
        let mut is_removal = false;
        match (decide(old, found), found) {
            (Change::Keep, _) | (Change::Remove, None) => return Err(found),
            (Change::Remove, Some(_)) => {
                entries.remove(i);
                is_removal = true;
            }
            (Change::Put(value), Some(_)) => entries[i].1 = value,
            (Change::Put(value), None) => entries.insert(i, (key, value)),
        }
        Ok(Changed { found, is_removal, entries })
    }

    /// Replaces a leaf by leaves in which a change is made.
    fn commit_changed<'t>(
        &'t self,
        left: LinkTo<'t, N>,
        old: Locked<'t, N>,
        beyond: Option<Locked<'t, N>>,
        (changed, in_two): (&Changed, bool),
        lines: u32,
    ) -> Result<(), Fault> {
        let count = || match changed.found {
            Some(_) if changed.is_removal => self.leaves.count.sub_one(),
            Some(_) => {}
            None => self.leaves.count.add(1),
        };
        self.replace_leaf(left, old, beyond, parts(&changed.entries, in_two), lines, count).map_err(|(_, fault)| fault)
    }

    /// Follows up on a change, when no lock is held: a removal may leave little.
    fn tidy(&self, key: u64, changed: Changed) -> Option<u64> {
        if changed.is_removal {
            self.lag(self.gather(key));
        }
        changed.found
    }

    /// Changes the entry of a key by copying its leaf into the block of the same size that is in reserve.
    fn change_in_reserve(
        &self,
        key: u64,
        decide: &mut dyn FnMut(&Locked<'_, N>, Option<u64>) -> Change,
    ) -> Result<Option<u64>, Fault> {
        let restructuring = self.restructuring.lock();
        let (left, old) = self.lock_with_left(key)?;
        let changed = match self.changed(&old, key, decide) {
            Ok(changed) => changed,
            Err(found) => return Ok(found),
        };
        let lines = self.leaves.lines(&old);
        // Entries that do not fit need another block.
        let in_two = changed.entries.len() > self.leaves.slots(&old);
        self.commit_changed(left, old, None, (&changed, in_two), lines)?;
        drop(restructuring);
        Ok(self.tidy(key, changed))
    }

    /// Changes the entry of a key in new leaves that hold the live entries of the old one: two leaves if these take
    /// half of it or more, otherwise one. That one also takes the entries of the right neighbour, if it has few. The
    /// new leaves may have another size than the old one.
    fn change_with_room(
        &self,
        key: u64,
        takes: usize,
        resized: bool,
        decide: &mut dyn FnMut(&Locked<'_, N>, Option<u64>) -> Change,
    ) -> Result<Option<Option<u64>>, Fault> {
        let restructuring = self.restructuring.lock();
        let (left, old) = self.lock_with_left(key)?;
        if self.leaves.has_room(&old, takes) {
            return Ok(None);
        }
        let mut changed = match self.changed(&old, key, decide) {
            Ok(changed) => changed,
            Err(found) => return Ok(Some(found)),
        };
        let (entries, slots) = (&mut changed.entries, self.leaves.slots(&old));
        let in_two = self.leaves.len(&old) * 2 >= slots && entries.len() > 1;
        let mut beyond = None;
        if !in_two {
            let has_little = |right: &Locked<'_, N>| {
                let both = entries.len() + self.leaves.len(right);
                self.leaves.taken(right) * 2 <= self.leaves.slots(right) && both * 4 <= slots * 3
            };
            beyond = self.lock_to_join(&old)?.filter(has_little);
            entries.extend(beyond.iter().flat_map(|right| self.leaves.entries(right)));
        }
        let lines = if resized {
            self.leaves.count_write(&old, takes);
            self.leaves.resize(&old)
        } else {
            self.leaves.lines(&old)
        };
        self.commit_changed(left, old, beyond, (&changed, in_two), lines)?;
        drop(restructuring);
        Ok(Some(self.tidy(key, changed)))
    }

    /// Removes the entries of an interval from the leaf that owns its first key. A leaf without the entries takes the
    /// place of the old one: one leaf is written instead of a removal for each entry.
    pub(super) fn take_renewed(&self, unread: &Unread<N>) -> Result<Emptied<N>, Fault> {
        let _restructuring = self.restructuring.lock();
        let (left, old) = self.lock_with_left(unread.first())?;
        let (removed, rest) = self.entries_of(&old, unread)?;
        let count = removed.len() as u64;
        if count > 0 {
            let mut stays = self.leaves.entries(&old);
            stays.retain(|entry| removed.binary_search(entry).is_err());
            let stamp = self.leaves.freeze(&old, self.leaves.newest());
            let (parts, lines) = (parts(&stays, false), self.leaves.lines(&old));
            // The new leaf is as large as the old one, so there is a block in reserve for it.
            let replaced = self.replace_leaf(left, old, None, parts, lines, || self.leaves.count.sub(count));
            replaced.map_err(|(_, fault)| fault)?;
            self.retire_removed(removed, stamp);
        }
        Ok(Emptied { removed: count, is_sparse: count > 0, rest })
    }

    /// Merges the sparse leaf that owns the key with a neighbour, in a layout that renews its leaves. If neither
    /// neighbour has room for it, renews it alone. An empty leaf leaves the chain unless both neighbours have another
    /// parent.
    #[cold]
    pub(super) fn gather(&self, key: u64) -> Result<(), Fault> {
        let _restructuring = self.restructuring.lock();
        let leaves = &self.leaves;
        let (mut left, old) = self.lock_with_left(key)?;
        if !leaves.is_sparse(&old) {
            return Ok(());
        }
        let low = old.range().low();
        let is_empty = leaves.len(&old) == 0;
        let may_leave = self.may_leave(&old)?;
        if let LinkTo::Leaf(left) = &mut left
            && is_empty
            && may_leave
        {
            // Before it leaves the chain. Crash: the index lags; a search moves right from the left neighbour.
            self.directory.withdraw(low)?;
            leaves.unlink(left, old).inspect_err(|_| self.directory.is_unsure())?;
            return Ok(());
        }
        // An empty leaf adds nothing to its neighbour.
        if let Some(right) = self.lock_to_join(&old)?.filter(|right| is_empty || self.fit(&old, right)) {
            return self.join_by_rewriting(left, old, right);
        }
        if let LinkTo::Leaf(leaf) = &left
            && may_leave
            && self.fit(leaf, &old)
        {
            drop((left, old));
            let (left, old) = self.lock_with_left(low - 1)?;
            // Other threads may have filled them meanwhile.
            return match self.lock_to_join(&old)?.filter(|right| self.fit(&old, right)) {
                Some(right) => self.join_by_rewriting(left, old, right),
                None => Ok(()),
            };
        }
        let entries = leaves.entries(&old);
        let lines = leaves.lines(&old);
        self.replace_leaf(left, old, None, parts(&entries, false), lines, || ()).map_err(|(_, fault)| fault)
    }

    /// Makes one leaf of two neighbours, as large as the larger one.
    fn join_by_rewriting<'t>(
        &'t self,
        left: LinkTo<'t, N>,
        old: Locked<'t, N>,
        right: Locked<'t, N>,
    ) -> Result<(), Fault> {
        let mut entries = self.leaves.entries(&old);
        entries.extend(self.leaves.entries(&right));
        let lines = self.leaves.lines(&old).max(self.leaves.lines(&right));
        self.replace_leaf(left, old, Some(right), parts(&entries, false), lines, || ()).map_err(|(_, fault)| fault)
    }

    /// Whether two leaves fit into one that is as large as the larger one, with a quarter of its slots left free.
    fn fit(&self, left: &Locked<'_, N>, right: &Locked<'_, N>) -> bool {
        let slots = self.leaves.slots(left).max(self.leaves.slots(right));
        (self.leaves.len(left) + self.leaves.len(right)) * 4 <= slots * 3
    }

    /// Locks the leaf that owns the key, and what points to it. The caller holds `restructuring`: in a layout that
    /// renews its leaves, they only come and go under it.
    pub(super) fn lock_with_left(&self, key: u64) -> Result<WithLeft<'_, N>, Fault> {
        let owner = self.lock_owner(key)?;
        let (low, at) = (owner.range().low(), owner.at);
        drop(owner);
        // Go by the chain: the index may lag and lead to a leaf that is already locked.
        let (left, old) = if low == 0 {
            (LinkTo::Root, self.leaves.lock(self.head())?)
        } else {
            let left = self.lock_owner(low - 1)?;
            let old = self.leaves.lock_next(&left)?;
            (LinkTo::Leaf(left), old)
        };
        // It must not be another leaf that owns the key, either: in it the caller would no longer find what sent it
        // here, and would come back forever.
        let lost = || Broken::new(at, "N1: the chain does not lead to the key's owner");
        let old = old.filter(|old| old.at == at).ok_or_else(lost)?;
        Ok((left, old))
    }
}
