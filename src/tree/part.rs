//! The part that one tree has in a transaction: what was read in it, and what is to be written to it.

use crate::error::{ErrorKind, Fault};
use crate::kind::Kind;
use crate::medium::Medium;
use crate::node::shadow::Version;
use crate::node::{ByteStrings, Defer, Entry, Keys, Words};
use crate::pool::lists::Word;
use crate::pool::records::Reading;
use crate::stored::{Encoded, Stored};
use crate::tree::search::Seen;
use crate::tree::together::Together;
use crate::tree::values::Written;
use crate::tree::writes::{New, Writes};
use crate::tree::{Before, Change, MapKeys, TreeKeys, TreeNode, TreeState};
use std::borrow::Borrow;

/// An entry of a table as a transaction sees it.
pub(crate) type Item<K> = (<K as Keys>::Owned, Stored);

/// What a transaction needs of each of its trees.
pub trait Part {
    /// The tree's number in its pool. Leaves are locked in the order of these.
    fn slot(&self) -> u16;

    /// Whether this is the part of the tree at this address.
    fn is_of(&self, tree: *const ()) -> bool;

    /// How many times something was read.
    fn reads(&self) -> usize;

    /// How many keys are to be written.
    fn writes(&self) -> usize;

    /// Reads again what was read in leaves that have changed since. Returns true if there were any.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if something else was found.
    fn refresh(&mut self) -> Result<bool, Fault>;

    /// Whether what was read, from the read with this number on, was the same at the instant of an open snapshot.
    fn was_so_at(&self, instant: u64, from: usize) -> Result<bool, Fault>;

    /// Whether no leaf that was read has changed, or is locked by another thread. `held` are the leaves that this thread has
    /// locked, by offset, with the versions that they had before. Calls `others` before it looks at a leaf that is not held.
    fn is_valid(&self, held: &[(u64, Version)], others: &dyn Fn()) -> bool;

    /// Locks all leaves that were read, too. Returns false if it does not get one.
    fn guard(&mut self) -> Result<bool, Fault>;

    /// Whether what was read is as it was, where all leaves that were read are locked.
    fn is_same(&self) -> Result<bool, Fault>;

    /// Writes the records of all new values. Flushed, but not fenced. Returns true if there are any. `again` says that the
    /// thread has waited for space.
    fn write_records(&mut self, again: bool) -> Result<bool, Fault>;

    /// Gives up the records that were written, and lets others use the space of those that were read.
    fn let_go_of_space(&mut self);

    /// Keeps what was read from being used again, as before. Returns false if any leaf has changed meanwhile: then it may
    /// have been used again.
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
    fn defer(&mut self, words: &mut Vec<Word>);

    /// Unlocks all leaves; `done` says whether the changes are durable.
    fn unlock(&mut self, done: bool);

    /// Follows up when no leaf is locked any more.
    fn tidy(&mut self);

    /// Waits for the leaf that was not to be had.
    fn wait(&mut self) -> Result<(), Fault>;
}

/// The same, for trees with such keys.
pub trait PartOf<K: MapKeys>: Part {
    /// The value of a key.
    fn get(&mut self, key: &K::Key) -> Result<Option<Stored>, Fault>;

    /// Sets the value of a key, or removes it.
    fn put(&mut self, key: &K::Key, value: Option<Encoded<'_>>);

    /// Reads the first or the last part of an interval, and adds its entries to `items`, in ascending order. Returns what is
    /// left of the interval.
    fn read(
        &mut self,
        unread: K::Unread,
        from_left: bool,
        items: &mut Vec<Item<K>>,
    ) -> Result<Option<K::Unread>, Fault>;
}

/// The part of a tree of either form of keys.
pub enum AnyPart<'t> {
    Words(Box<dyn PartOf<Words> + 't>),
    Bytes(Box<dyn PartOf<ByteStrings> + 't>),
}

impl<'t> AnyPart<'t> {
    pub(crate) fn part(&self) -> &(dyn Part + 't) {
        match self {
            Self::Words(part) => &**part,
            Self::Bytes(part) => &**part,
        }
    }

    pub(crate) fn part_mut(&mut self) -> &mut (dyn Part + 't) {
        match self {
            Self::Words(part) => &mut **part,
            Self::Bytes(part) => &mut **part,
        }
    }
}

/// Something that was read.
enum Read<K: TreeKeys> {
    /// The word of a key.
    Key { key: K::Owned, word: Option<u64>, seen: Seen },
    /// The entries of an interval, and the leaves that it lies in.
    Interval { interval: K::Unread, entries: Vec<Entry>, seen: Vec<Seen> },
}

/// Whether the same entries were found. A reference is that of one record as long as the reading lasts, but its head may
/// depend on the leaf.
fn same_entries<K: Keys>(one: &[Entry], other: &[Entry]) -> bool {
    let same = |((key, word), (other_key, other_word)): (&Entry, &Entry)| {
        word == other_word && (K::HAS_RECORDS || key == other_key)
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// The leaves that were read, and their versions.
fn all_seen<K: TreeKeys>(reads: &[Read<K>]) -> impl Iterator<Item = &Seen> {
    reads.iter().flat_map(|read| match read {
        Read::Key { seen, .. } => std::slice::from_ref(seen),
        Read::Interval { seen, .. } => seen,
    })
}

/// The part of one tree.
pub(crate) struct TreePart<'t, N: TreeNode<Keys: MapKeys>, M: Medium> {
    tree: &'t TreeState<N, M>,
    /// The kind of the values.
    kind: Kind,
    /// Keeps records from being used again. It begins before the first read of a tree with records.
    reading: Option<Reading<'t, M>>,
    reads: Vec<Read<N::Keys>>,
    writes: Writes<'t, N, M>,
    /// The records of new values. They are given back unless the changes are made.
    written: Vec<Written<'t, N, M>>,
    together: Together<'t, N, M>,
    /// The number of the write whose leaf was not to be had.
    busy: Option<usize>,
}

impl<'t, N: TreeNode<Keys: MapKeys>, M: Medium> TreePart<'t, N, M> {
    pub(crate) fn new(tree: &'t TreeState<N, M>, kind: Kind) -> Box<Self> {
        // It is long, so it is made where it stays.
        let part = Box::new_uninit();
        let new = Self {
            tree,
            kind,
            reading: None,
            reads: Vec::new(),
            writes: Writes::new(),
            written: Vec::new(),
            together: Together::new(tree),
            busy: None,
        };
        Box::write(part, new)
    }

    /// A part that begins with a write.
    pub(crate) fn with_write(
        tree: &'t TreeState<N, M>,
        kind: Kind,
        key: &<N::Keys as Keys>::Key,
        value: Option<Encoded<'_>>,
    ) -> Box<Self> {
        // While memory responds for the leaf, there is time to make the part.
        let hint = tree.request(N::Keys::as_ref(key));
        let mut part = Self::new(tree, kind);
        part.writes.put(key, New::of(value), || hint);
        part
    }

    fn begin(&mut self) {
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

    fn stored(&self, word: u64) -> Result<Stored, Fault> {
        N::Keys::stored_value(word, self.reading.as_ref(), self.kind)
    }
}

impl<N: TreeNode<Keys: MapKeys, Ops: Defer>, M: Medium> Part for TreePart<'_, N, M> {
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

    fn refresh(&mut self) -> Result<bool, Fault> {
        let tree = self.tree;
        let mut any = false;
        for read in &mut self.reads {
            match read {
                Read::Key { key, word, seen } => {
                    if tree.still(*seen) {
                        continue;
                    }
                    let (now, seen_now) = tree.get_seen(N::Keys::as_ref((*key).borrow()))?;
                    if now != *word {
                        return Err(ErrorKind::Conflict.into());
                    }
                    *seen = seen_now;
                }
                Read::Interval { interval, entries, seen } => {
                    if seen.iter().all(|&seen| tree.still(seen)) {
                        continue;
                    }
                    let (mut now, mut piece, mut unread) = (Vec::new(), Vec::new(), Some(interval.clone()));
                    let mut leaves = Vec::new();
                    while let Some(rest) = unread {
                        let (rest, seen_now) = tree.read_seen(rest, true, &mut piece)?;
                        now.append(&mut piece);
                        leaves.push(seen_now);
                        unread = rest;
                    }
                    *seen = leaves;
                    if !same_entries::<N::Keys>(entries, &now) {
                        return Err(ErrorKind::Conflict.into());
                    }
                }
            }
            any = true;
        }
        Ok(any)
    }

    fn was_so_at(&self, instant: u64, from: usize) -> Result<bool, Fault> {
        let (tree, reading) = (self.tree, self.reading.as_ref());
        for read in &self.reads[from..] {
            let was_so = match read {
                Read::Key { key, word, .. } => tree.get_at((*key).borrow(), instant, reading)? == *word,
                Read::Interval { interval, entries, .. } => {
                    let (mut then, mut piece, mut unread) = (Vec::new(), Vec::new(), Some(interval.clone()));
                    while let Some(rest) = unread {
                        unread = tree.read_at(rest, true, instant, reading, &mut piece)?;
                        then.append(&mut piece);
                    }
                    same_entries::<N::Keys>(entries, &then)
                }
            };
            if !was_so {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_valid(&self, held: &[(u64, Version)], others: &dyn Fn()) -> bool {
        let is_mine = |seen: Seen| {
            let i = held.binary_search_by_key(&seen.at, |&(at, _)| at);
            i.is_ok_and(|i| held[i].1 == seen.version)
        };
        let is_valid = |&seen: &Seen| {
            is_mine(seen) || {
                others();
                self.tree.still(seen)
            }
        };
        self.reads.iter().all(|read| match read {
            Read::Key { seen, .. } => is_valid(seen),
            Read::Interval { seen, .. } => seen.iter().all(is_valid),
        })
    }

    fn write_records(&mut self, again: bool) -> Result<bool, Fault> {
        self.writes.settle();
        for write in self.writes.all_mut() {
            let Some(value) = write.new.encoded() else { continue };
            if matches!(value, Encoded::Word(_)) && self.tree.leaves.records.is_none() {
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
        if self.reads.is_empty() {
            return true;
        }
        self.begin();
        // From here on, the records stay to which the slots of these versions point.
        all_seen(&self.reads).all(|seen| self.tree.leaves.is_unchanged(seen.at, seen.version))
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
        let Self { reads, together, .. } = self;
        for seen in all_seen(reads) {
            if !together.guard(seen.at)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_same(&self) -> Result<bool, Fault> {
        for read in &self.reads {
            let is_same = match read {
                Read::Key { key, word, .. } => self.together.get(N::Keys::as_ref(key.borrow())) == Some(*word),
                Read::Interval { interval, entries, .. } => {
                    let now = self.together.entries(interval.clone())?;
                    now.is_some_and(|now| same_entries::<N::Keys>(entries, &now))
                }
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
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

    fn defer(&mut self, changes: &mut Vec<Word>) {
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

impl<N: TreeNode<Keys: MapKeys, Ops: Defer>, M: Medium> PartOf<N::Keys> for TreePart<'_, N, M> {
    fn get(&mut self, key: &<N::Keys as Keys>::Key) -> Result<Option<Stored>, Fault> {
        if let Some(new) = self.writes.get(key) {
            return Ok(new.stored());
        }
        self.begin();
        let (word, seen) = self.tree.get_seen(N::Keys::as_ref(key))?;
        self.reads.push(Read::Key { key: key.to_owned(), word, seen });
        word.map(|word| self.stored(word)).transpose()
    }

    fn put(&mut self, key: &<N::Keys as Keys>::Key, value: Option<Encoded<'_>>) {
        let tree = self.tree;
        // While memory responds for the leaf, the transaction goes on.
        self.writes.put(key, New::of(value), || tree.request(N::Keys::as_ref(key)));
    }

    fn read(
        &mut self,
        unread: <N::Keys as TreeKeys>::Unread,
        from_left: bool,
        items: &mut Vec<Item<N::Keys>>,
    ) -> Result<Option<<N::Keys as TreeKeys>::Unread>, Fault> {
        self.begin();
        let mut entries = Vec::new();
        let (rest, seen) = self.tree.read_seen(unread.clone(), from_left, &mut entries)?;
        let interval = N::Keys::without(&unread, rest.as_ref(), from_left);
        let reading = self.reading.as_ref();
        let mut writes = self.writes.range(N::Keys::bounds(&interval)).peekable();
        let item = |(key, new): (&<N::Keys as Keys>::Owned, &New)| {
            let key: &<N::Keys as Keys>::Key = key.borrow();
            Some((key.to_owned(), new.stored()?))
        };
        for &entry in &entries {
            let key = N::Keys::with_key(entry, reading, ToOwned::to_owned)?;
            while let Some(before) = writes.next_if(|&(written, _)| *written < key) {
                items.extend(item(before));
            }
            match writes.next_if(|&(written, _)| *written == key) {
                Some(instead) => items.extend(item(instead)),
                None => items.push((key, N::Keys::stored_value(entry.1, reading, self.kind)?)),
            }
        }
        items.extend(writes.filter_map(item));
        self.reads.push(Read::Interval { interval, entries, seen: vec![seen] });
        Ok(rest)
    }
}
