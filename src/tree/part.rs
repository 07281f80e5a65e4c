//! The part that one tree has in a transaction: what was read in it, and what is to be written to it.

use crate::entry::kind::Kind;
use crate::entry::raw::Raw;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::shadow::Version;
use crate::node::{Defer, Keys};
use crate::pool::lists::WordChange;
use crate::pool::records::Reading;
use crate::tree::reads::Reads;
use crate::tree::search::Seen;
use crate::tree::together::Together;
use crate::tree::values::WrittenRecord;
use crate::tree::voids::Voids;
use crate::tree::writes::Writes;
use crate::tree::{Before, Change, Form, TreeNode, TreeState};

/// What a transaction needs of each of its trees.
pub trait Part {
    /// The tree's number in its pool. Leaves are locked in the order of these.
    fn slot(&self) -> u16;

    /// Whether this is the part of the tree at this address.
    fn is_of(&self, tree: *const ()) -> bool;

    /// How many reads there are to be compared.
    fn reads(&self) -> usize;

    /// What the last call has learned of the tree. Once.
    fn news(&mut self) -> News;

    /// How many entries and writes scans have looked at, and how many leaves were asked whether they own a key.
    #[cfg(test)]
    fn looks(&self) -> usize;

    /// How many keys are to be written.
    fn writes(&self) -> usize;

    /// Reads again what was read in leaves that have changed since. Returns true if there were any.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if something else was found.
    fn refresh(&mut self) -> Result<bool, Fault>;

    /// Whether what was read was the same at the instant of an open snapshot: all of it, or only what was read last.
    fn was_so_at(&self, instant: u64, all: bool) -> Result<bool, Fault>;

    /// Whether no leaf that was read has changed, or is locked by another thread. `held` are the leaves that this
    /// thread has locked, by offset, with the versions that they had before. Calls `others` before it looks at a leaf
    /// that is not held.
    fn is_valid(&self, held: &[(u64, Version)], others: &dyn Fn()) -> bool;

    /// Locks all leaves that were read, too. Returns false if it does not get one.
    fn guard(&mut self) -> Result<bool, Fault>;

    /// Whether what was read is as it was, where all leaves that were read are locked.
    fn is_same(&self) -> Result<bool, Fault>;

    /// Writes the records of all new values. Flushed, but not fenced. Returns true if there are any. `again` says that
    /// the thread has waited for space.
    fn write_records(&mut self, again: bool) -> Result<bool, Fault>;

    /// Gives up the records that were written, and lets others use the space of those that were read.
    fn let_go_of_space(&mut self);

    /// Keeps what was read from being used again, as before. Returns false if any leaf with records has changed
    /// meanwhile: then what it had may have been used again.
    fn hold_again(&mut self) -> bool;

    /// Makes the only change of a transaction if `is_valid`, given the leaf that is locked for it. Returns what the
    /// key had; `None` if the change was not made. Durable when it returns.
    fn change(&self, is_valid: &dyn Fn((u64, Version)) -> bool) -> Result<Option<Before>, Fault>;

    /// Follows up on this change.
    fn changed(&mut self, old: Before);

    /// Locks all leaves of the changes. See [`Together::lock`]. Returns false if it does not get one.
    fn lock(&mut self, may_wait: bool) -> Result<bool, Fault>;

    /// How many words will change at most. Known once the leaves are locked.
    fn words(&self) -> usize;

    /// The leaves that are locked.
    fn held(&self, held: &mut Vec<(u64, Version)>);

    /// Keeps the leaves that are locked as they are for the snapshot with this instant.
    fn freeze(&self, newest: u64);

    /// Passes all words that change.
    fn defer(&mut self, words: &mut Vec<WordChange>);

    /// Unlocks all leaves; `done` says whether the changes are durable.
    fn unlock(&mut self, done: bool);

    /// Follows up when no leaf is locked any more.
    fn tidy(&mut self);

    /// Waits for the leaf that was not to be had.
    fn wait(&mut self) -> Result<(), Fault>;
}

/// What a call has learned of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum News {
    /// Nothing: it has not looked at the tree.
    #[default]
    Nothing,
    /// What was read before, and has not changed.
    Known,
    /// Something else.
    Read,
}

/// The part of one tree.
pub(crate) struct TreePart<'t, N: TreeNode<Keys: Form>, M: Medium> {
    pub(super) tree: &'t TreeState<N, M>,
    /// The kind of the values.
    kind: Kind,
    /// Keeps records from being used again. It begins before the first read of a tree with records.
    pub(super) reading: Option<Reading<'t, M>>,
    pub(super) reads: Reads<N::Keys>,
    pub(super) news: News,
    pub(super) writes: Writes<'t, N, M>,
    pub(super) voids: Voids<N::Keys>,
    /// The records of new values. They are given back unless the changes are made.
    written: Vec<WrittenRecord<'t, N, M>>,
    together: Together<'t, N, M>,
    /// The number of the write whose leaf was not to be had.
    busy: Option<usize>,
    /// How many entries and writes scans have looked at.
    #[cfg(test)]
    looks: std::cell::Cell<usize>,
}

impl<'t, N: TreeNode<Keys: Form>, M: Medium> TreePart<'t, N, M> {
    pub(crate) fn new(tree: &'t TreeState<N, M>, kind: Kind) -> Box<Self> {
        // It is long, so it is made where it stays.
        let part = Box::new_uninit();
        let new = Self {
            tree,
            kind,
            reading: None,
            reads: Reads::new(),
            news: News::Nothing,
            writes: Writes::new(),
            voids: Voids::new(),
            written: Vec::new(),
            together: Together::new(tree),
            busy: None,
            #[cfg(test)]
            looks: Default::default(),
        };
        Box::write(part, new)
    }

    /// A part that begins with a write.
    pub(crate) fn with_write(
        tree: &'t TreeState<N, M>,
        kind: Kind,
        key: &<N::Keys as Keys>::Key,
        value: Option<Raw<&[u8]>>,
    ) -> Box<Self> {
        // While memory responds for the leaf, there is time to make the part.
        let hint = tree.request(N::Keys::as_ref(key));
        let mut part = Self::new(tree, kind);
        part.writes.push(key, value.map(Raw::owned), || hint);
        part
    }

    pub(super) fn begin(&mut self) {
        if self.reading.is_none() {
            self.reading = self.tree.reading().map(Reading::staying);
        }
    }

    /// Slots point to all new records now.
    fn keep(&mut self) {
        while let Some(written) = self.written.pop() {
            written.keep();
        }
    }

    /// Counts what a scan looks at, for tests.
    #[inline(always)]
    pub(super) fn count(&self, _looks: usize) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + _looks);
    }

    pub(super) fn stored(&self, word: u64) -> Result<Raw, Fault> {
        N::Keys::stored_value(word, self.reading.as_ref(), self.kind)
    }
}

impl<N: TreeNode<Keys: Form, Ops: Defer>, M: Medium> Part for TreePart<'_, N, M> {
    fn slot(&self) -> u16 {
        self.tree.slot()
    }

    fn is_of(&self, tree: *const ()) -> bool {
        std::ptr::from_ref(self.tree).cast() == tree
    }

    fn reads(&self) -> usize {
        self.reads.len()
    }

    fn writes(&self) -> usize {
        self.writes.len()
    }

    fn news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    #[cfg(test)]
    fn looks(&self) -> usize {
        self.looks.get() + self.together.looks.get()
    }

    fn refresh(&mut self) -> Result<bool, Fault> {
        self.reads.refresh(self.tree)
    }

    fn was_so_at(&self, instant: u64, all: bool) -> Result<bool, Fault> {
        self.reads.was_so_at(self.tree, (instant, self.reading.as_ref()), all)
    }

    fn is_valid(&self, held: &[(u64, Version)], others: &dyn Fn()) -> bool {
        let is_mine = |seen: Seen| {
            let i = held.binary_search_by_key(&seen.at, |&(at, _)| at);
            i.is_ok_and(|i| held[i].1 == seen.version)
        };
        self.reads.seen().all(|seen| {
            is_mine(seen) || {
                others();
                self.tree.still(seen)
            }
        })
    }

    fn write_records(&mut self, again: bool) -> Result<bool, Fault> {
        self.writes.make_list();
        for write in self.writes.all_mut() {
            let Some(value) = write.new.as_ref().map(Raw::lent) else { continue };
            if matches!(value, Raw::Word(_)) && self.tree.leaves.records.is_none() {
                // It is the word for the slot.
                continue;
            }
            // It does not wait: what was written and read would keep others waiting.
            let (word, written) = N::Keys::write(self.tree, write.key(), value, again)?;
            write.written = Some(word);
            if written.is_record() {
                self.written.push(written);
            }
        }
        Ok(!self.written.is_empty())
    }

    fn let_go_of_space(&mut self) {
        self.writes.all_mut().iter_mut().for_each(|write| write.written = None);
        self.written.clear();
        self.reading = None;
    }

    fn hold_again(&mut self) -> bool {
        if self.reads.len() == 0 {
            return true;
        }
        self.begin();
        // From here on, the records stay to which the slots of these versions point. A word that is a value means the
        // same whatever has come between.
        self.reading.is_none() || self.reads.seen().all(|seen| self.tree.leaves.is_unchanged(seen.at, seen.version))
    }

    fn change(&self, is_valid: &dyn Fn((u64, Version)) -> bool) -> Result<Option<Before>, Fault> {
        let write = &self.writes.all()[0];
        let (tree, key, word) = (self.tree, write.key(), write.word());
        let mut hint = write.hint;
        let mut is_made = false;
        let lock = || {
            let at_once = hint.take().and_then(|hint| tree.lock_owner_at_once(hint, key));
            at_once.map_or_else(|| tree.lock_owner(key), Ok)
        };
        let old = tree.change_by(key, lock, |leaf, _| {
            is_made = is_valid((leaf.at, leaf.was()));
            if is_made { word.map_or(Change::Remove, Change::Put) } else { Change::Keep }
        })?;
        Ok(is_made.then_some(old))
    }

    fn changed(&mut self, old: Before) {
        self.keep();
        self.tree.retire_old(self.writes.all()[0].key(), old);
    }

    fn guard(&mut self) -> Result<bool, Fault> {
        Ok(self.together.guard(self.reads.seen().map(|seen| seen.at))?)
    }

    fn is_same(&self) -> Result<bool, Fault> {
        let locked = self.together.by_low();
        self.reads.is_same(|key| locked.get(key), |interval| Ok(locked.entries(interval)?))
    }

    fn lock(&mut self, may_wait: bool) -> Result<bool, Fault> {
        self.busy = self.together.lock(self.writes.all_mut(), may_wait)?.err();
        Ok(self.busy.is_none())
    }

    fn words(&self) -> usize {
        // A new entry has two.
        self.writes.len() + self.together.new_entries()
    }

    fn held(&self, held: &mut Vec<(u64, Version)>) {
        held.extend(self.together.held());
    }

    fn freeze(&self, newest: u64) {
        self.together.freeze(newest);
    }

    fn defer(&mut self, changes: &mut Vec<WordChange>) {
        self.together.defer(self.writes.all_mut(), |at, word| changes.push((at, word)));
    }

    fn unlock(&mut self, done: bool) {
        if done {
            self.together.unlock();
            self.keep();
        } else {
            self.together.let_go();
        }
    }

    fn tidy(&mut self) {
        self.together.tidy(self.writes.all_mut());
    }

    fn wait(&mut self) -> Result<(), Fault> {
        let Some(busy) = self.busy.take() else { return Ok(()) };
        self.together.wait_for(self.writes.all()[busy].key())
    }
}
