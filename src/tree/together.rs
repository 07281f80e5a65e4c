//! The part that one tree has in several changes at once: their leaves are locked and get room, then it is known which
//! words change, and at last the leaves are unlocked.

use super::directory::Directory;
use super::node::OwnedOf;
use super::range::{Edges, Unread, no_less};
use super::writes::{Write, Writes};
use super::{Before, Form, TreeNode, TreeState};
use crate::chain::Locked;
use crate::error::{Broken, Fault};
use crate::index::GROUP;
use crate::medium::Medium;
use crate::node::shadow::Version;
use crate::node::{Defer, Entry, Keys, NoLess, RefOf, Side};
use crate::sync::delay::delay;
use std::collections::BTreeMap;

/// How many leaves a thread that must not wait follows the chain when the index lags.
const FAR: usize = 64;

/// Leaves of a tree that are locked for changes.
pub(crate) struct Together<'t, N: TreeNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    /// From left to right.
    held: Vec<Locked<'t, N>>,
    /// Leaves that were read and are not to be changed.
    guards: Vec<Locked<'t, N>>,
    /// The names and offsets of the leaves that splits made, and the leaf to the left of each. They are posted to the
    /// index once no leaf is locked.
    to_post: Vec<(u64, u64, u64)>,
    /// How many changes are new entries; known once all leaves are locked.
    new: usize,
    added: u64,
    removed: u64,
    /// How many leaves were asked whether they own a key.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<usize>,
}

impl<'t, N: TreeNode, M: Medium> Together<'t, N, M> {
    pub(crate) fn new(tree: &'t TreeState<N, M>) -> Self {
        Self {
            tree,
            held: Vec::new(),
            guards: Vec::new(),
            to_post: Vec::new(),
            new: 0,
            added: 0,
            removed: 0,
            #[cfg(test)]
            looks: Default::default(),
        }
    }

    /// Locks leaves that were only read, without waiting for them. Returns false if one is not to be had.
    pub(crate) fn guard(&mut self, read: impl Iterator<Item = u64>) -> Result<bool, Broken> {
        let mut mine: Vec<u64> = self.locked().map(|leaf| leaf.at).collect();
        mine.sort_unstable();
        let mut read: Vec<u64> = read.filter(|at| mine.binary_search(at).is_err()).collect();
        read.sort_unstable();
        read.dedup();
        self.guards.reserve(read.len());
        for at in read {
            let Some(leaf) = self.tree.leaves.try_lock(at)? else { return Ok(false) };
            self.guards.push(leaf);
        }
        Ok(true)
    }

    fn locked(&self) -> impl Iterator<Item = &Locked<'t, N>> {
        self.guards.iter().chain(&self.held)
    }

    /// The leaves that are locked, to look for what was read in them.
    pub(crate) fn by_low(&self) -> ByLow<'_, 't, N, M> {
        let low = |leaf: &Locked<'t, N>| self.edges(leaf).low;
        ByLow { of: self, leaves: self.locked().map(|leaf| (low(leaf), leaf)).collect() }
    }

    fn edges(&self, leaf: &Locked<'t, N>) -> Edges<N> {
        let (leaves, view, mut edges) = (&self.tree.leaves, leaf.view(), Edges::<N>::default());
        leaves.note_edges(&view, leaves.next_of(&view), &mut edges);
        edges
    }

    /// The leaves that are held, with the versions that they had before.
    pub(crate) fn held(&self) -> impl Iterator<Item = (u64, Version)> {
        self.held.iter().map(|leaf| (leaf.at, leaf.was()))
    }

    /// Unlocks all leaves, under the versions that they had unless they were split.
    pub(crate) fn let_go(&mut self) {
        self.held.clear();
        self.guards.clear();
        self.new = 0;
    }

    /// How many changes are new entries.
    pub(crate) fn new_entries(&self) -> usize {
        self.new
    }

    fn owns(&self, leaf: &Locked<'t, N>, key: RefOf<'_, N>) -> Result<bool, Broken> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        Ok(self.tree.leaves.side(leaf.at, leaf.range(), key)? == Side::Within)
    }
}

/// Leaves that are locked, by their lows: however many there are, the one that owns a key takes one search.
pub(crate) struct ByLow<'h, 't, N: TreeNode, M: Medium> {
    of: &'h Together<'t, N, M>,
    leaves: BTreeMap<OwnedOf<N>, &'h Locked<'t, N>>,
}

impl<'t, N: TreeNode, M: Medium> ByLow<'_, 't, N, M> {
    /// The locked leaf that owns a key.
    fn owner(&self, key: RefOf<'_, N>) -> Option<&Locked<'t, N>> {
        let leaf = N::Keys::floor(&self.leaves, key).copied();
        leaf.filter(|leaf| self.of.owns(leaf, key).unwrap_or(false))
    }

    /// The word of a key, whose leaf is locked; `None` if it is not.
    pub(crate) fn get(&self, key: RefOf<'_, N>) -> Option<Option<u64>> {
        let leaves = &self.of.tree.leaves;
        let leaf = self.owner(key)?;
        Some(leaves.search(leaf, key).ok().map(|place| leaves.value(leaf, place)))
    }

    /// The entries of an interval, whose leaves are locked; `None` if one of them is not.
    pub(crate) fn entries(&self, interval: Unread<N>) -> Result<Option<Vec<Entry>>, Broken> {
        let leaves = &self.of.tree.leaves;
        let (mut all, mut entries, mut unread) = (Vec::new(), Vec::new(), Some(interval));
        while let Some(rest) = unread {
            let Some(leaf) = self.owner(rest.first()) else { return Ok(None) };
            let count = leaves.entries_in(&leaf.view(), rest.span(), &mut entries);
            all.extend(entries.drain(..).take(count));
            unread = rest.beyond(&self.of.edges(leaf)).map_err(|NoLess| no_less(leaf.at))?;
        }
        Ok(Some(all))
    }
}

impl<'t, N: TreeNode<Keys: Form, Ops: Defer>, M: Medium> Together<'t, N, M> {
    /// Locks the leaves of changes, whose keys ascend, and makes room in them. Waits for the first leaf only, and only
    /// if `may_wait`. As an error, the number of a change whose leaf it does not get: the caller must let go of
    /// everything, and then wait for that leaf.
    ///
    /// # Errors
    ///
    /// Those of a split.
    pub(crate) fn lock(&mut self, writes: &mut [Write<'t, N, M>], may_wait: bool) -> Result<Result<(), usize>, Fault> {
        let leaves = &self.tree.leaves;
        self.held.reserve(writes.len().min(GROUP));
        let (mut first, mut asked) = (0, 0);
        while first < writes.len() {
            if writes.len() > Writes::<N, M>::FEW && first >= asked {
                // While memory responds for one leaf, the others are requested.
                asked = writes.len().min(first + GROUP);
                self.request(&mut writes[first..asked]);
            }
            let (key, hint) = (writes[first].key(), writes[first].hint);
            let leaf = match self.held.pop() {
                Some(leaf) if self.owns(&leaf, key)? => Some(leaf),
                last => {
                    self.held.extend(last);
                    match hint.and_then(|hint| self.tree.lock_owner_at_once(hint, key)) {
                        Some(leaf) => Some(leaf),
                        None if may_wait && self.held.is_empty() => Some(self.tree.lock_owner(key)?),
                        None => self.try_lock_owner(key)?,
                    }
                }
            };
            let Some(mut leaf) = leaf else { return Ok(Err(first)) };
            let (mut behind, mut new) = (first, 0);
            // With so many new keys there is no room, and the others decide nothing about the first split.
            while let Some(write) = writes.get(behind)
                && new <= 2 * N::SLOTS
                && (behind == first || self.owns(&leaf, write.key())?)
            {
                new += usize::from(self.is_new(&leaf, write));
                behind += 1;
            }
            let mut right = None;
            if !leaves.has_room(&leaf, new) {
                right = Some(self.split_for(&mut leaf, &writes[first..behind])?);
                while behind > first && !self.owns(&leaf, writes[behind - 1].key())? {
                    behind -= 1;
                }
                new = writes[first..behind].iter().filter(|write| self.is_new(&leaf, write)).count();
            }
            self.new += new;
            let number = self.held.len() as u32;
            writes[first..behind].iter_mut().for_each(|write| write.leaf = number);
            self.held.extend([leaf].into_iter().chain(right));
            first = behind;
        }
        Ok(Ok(()))
    }

    /// Whether a change adds an entry to its leaf.
    fn is_new(&self, leaf: &Locked<'t, N>, write: &Write<'t, N, M>) -> bool {
        write.word().is_some() && self.tree.leaves.search(leaf, write.key()).is_err()
    }

    /// Splits a leaf that has no room for changes.
    #[cold]
    #[inline(never)]
    fn split_for(&mut self, leaf: &mut Locked<'t, N>, writes: &[Write<'t, N, M>]) -> Result<Locked<'t, N>, Fault> {
        let leaves = &self.tree.leaves;
        let new = writes.iter().filter(|write| self.is_new(leaf, write));
        let new: Vec<_> = new.filter_map(|write| Some((write.key(), write.word()?))).collect();
        let right = leaves.split_for(leaf, &new)?;
        self.to_post.push((leaves.name(right.at), right.at, leaf.at));
        Ok(right)
    }

    /// Asks the index for the leaves of changes, at most a [`GROUP`] of them, and requests these.
    fn request(&self, writes: &mut [Write<'t, N, M>]) {
        let tree = self.tree;
        let mut keys = [writes[0].key(); GROUP];
        keys.iter_mut().zip(&*writes).for_each(|(key, write)| *key = write.key());
        let hints = tree.directory.floors_at_once(&keys[..writes.len()]);
        for (write, hint) in writes.iter_mut().zip(hints) {
            hint.iter().for_each(|&hint| tree.leaves.prefetch(N::Directory::<M>::leaf(hint), write.key()));
            write.hint = hint;
        }
    }

    /// Locks the leaf that owns the key, without waiting for anything. It lies to the right of all that are held.
    fn try_lock_owner(&self, key: RefOf<'_, N>) -> Result<Option<Locked<'t, N>>, Broken> {
        let leaves = &self.tree.leaves;
        let mut at = self.tree.start_in_hand(key);
        for _ in 0..FAR {
            leaves.prefetch(at, key);
            let next = match leaves.try_lock(at)? {
                Some(leaf) => match leaves.side(at, leaf.range(), key)? {
                    Side::Within => return Ok(Some(leaf)),
                    Side::Left => return Ok(None),
                    Side::Right => leaves.next(at)?,
                },
                // The index does not know leaves that are held, or to the right of these.
                None => match self.held.last() {
                    Some(last) if self.held.iter().any(|leaf| leaf.at == at) => leaves.next(last.at)?,
                    _ => return Ok(None),
                },
            };
            let Some(next) = next else { return Ok(None) };
            at = next;
        }
        Ok(None)
    }

    /// Keeps all leaves as they are for the snapshot with this instant.
    pub(crate) fn freeze(&self, newest: u64) {
        for leaf in &self.held {
            self.tree.leaves.freeze(leaf, newest);
        }
    }

    /// Makes the changes, for which all leaves are locked, in everything but the pool, and passes the words of the pool
    /// that change to `put`. It neither fails nor allocates.
    pub(crate) fn defer(&mut self, writes: &mut [Write<'t, N, M>], mut put: impl FnMut(u64, u64)) {
        let leaves = &self.tree.leaves;
        // Removals come last: no new entry then takes the slot of one that goes, and each word changes once.
        for removals in [false, true] {
            for write in writes.iter_mut().filter(|write| write.word().is_none() == removals) {
                let leaf = &mut self.held[write.leaf as usize];
                let (key, value) = (write.key(), write.word());
                let place = leaves.search(leaf, key);
                let old = place.ok().map(|place| {
                    let word = Some(leaves.value(leaf, place));
                    Before { word, stamp: leaves.stamp_of(leaf) }
                });
                leaves.defer(leaf, place, key, value, &mut put);
                match (place, value) {
                    (Err(_), Some(_)) => self.added += 1,
                    (Ok(_), None) => {
                        self.removed += 1;
                        write.is_sparse = leaves.is_sparse(leaf);
                    }
                    _ => {}
                }
                write.old = old;
            }
        }
    }

    /// Counts the changes and unlocks the leaves.
    pub(crate) fn unlock(&mut self) {
        delay();
        let (added, removed) = (std::mem::take(&mut self.added), std::mem::take(&mut self.removed));
        let count = &self.tree.leaves.count;
        if added > removed {
            count.add(added - removed);
        }
        // An entry that comes for one that goes does not change the number.
        (added..removed).for_each(|_| count.sub_one());
        self.let_go();
    }

    /// Follows up on changes, or on splits for changes that did not come, when no leaf of any tree is locked any more.
    pub(crate) fn tidy(&mut self, writes: &mut [Write<'t, N, M>]) {
        let tree = self.tree;
        for (name, at, from) in self.to_post.drain(..) {
            tree.lag(tree.post(name, at, from));
        }
        for write in &mut *writes {
            if let Some(old) = write.old.take() {
                tree.retire_old(write.key(), old);
            }
        }
        for write in writes {
            if std::mem::take(&mut write.is_sparse) {
                tree.after_removal(write.key());
            }
        }
    }

    /// Waits until nobody else has the lock of a key's leaf. No leaf may be locked.
    pub(crate) fn wait_for(&self, key: RefOf<'_, N>) -> Result<(), Fault> {
        self.tree.lock_owner(key).map(drop)
    }
}
