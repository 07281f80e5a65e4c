//! A change: elements that are appended to one leaf or several, all or none.

use super::NvStore;
use super::block;
use super::element::Element;
use super::key::Key;
use super::leaves::{Leaf, View};
use crate::out::Outcome;
use bristlecone::medium::{Medium, Step};
use std::sync::MutexGuard;

/// A leaf that this thread has locked, and what to append to it.
pub(super) struct Locked<'l> {
    pub(super) leaf: &'l Leaf,
    pub(super) view: View,
    elements: Vec<Element>,
    _guard: MutexGuard<'l, ()>,
}

impl<'l> Locked<'l> {
    /// Locks the leaf.
    pub(super) fn new(leaf: &'l Leaf) -> Self {
        let guard = leaf.lock();
        Self { leaf, view: leaf.view(), elements: Vec::new(), _guard: guard }
    }

    pub(super) fn room(&self) -> usize {
        self.leaf.capacity() - self.view.count
    }
}

/// What a change does with a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    /// A new version.
    Put(Element),
    /// A removal, if there is something to remove.
    Remove,
}

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The change is made; this many elements were appended.
    Done(usize),
    /// A key has a version that is later than it may be.
    Conflict,
    /// The leaf that owns the key must first have room for so many elements.
    Full(Vec<u8>, usize),
}

impl<M: Medium> NvStore<M> {
    /// Makes all writes, whose keys ascend, or none if a key has a version later than `limit`. Says how many elements
    /// were appended; `None`: a conflict.
    pub(super) fn change(&self, writes: &[(&[u8], Write)], limit: u64) -> Outcome<Option<usize>> {
        loop {
            match self.attempt(writes, limit) {
                Attempt::Done(appended) => return Ok(Some(appended)),
                Attempt::Conflict => return Ok(None),
                Attempt::Full(key, need) => self.renew(&key, need)?,
            }
        }
    }

    fn attempt(&self, writes: &[(&[u8], Write)], limit: u64) -> Attempt {
        let mut locked: Vec<Locked<'_>> = Vec::new();
        for (i, &(key, write)) in writes.iter().enumerate() {
            let key = Key::new(key);
            let mut leaf = match locked.pop() {
                Some(last) if self.owns(last.leaf, key) => last,
                other => {
                    locked.extend(other);
                    self.lock(key)
                }
            };
            // A version that may follow any other one is appended without a look at the leaf, as printed.
            let looks = limit < u64::MAX || matches!(write, Write::Remove);
            let before = looks.then(|| block::last(&self.arena, leaf.view, key.bytes, |_| true)).flatten();
            if before.is_some_and(|before| before.stamp.time > limit) {
                return Attempt::Conflict;
            }
            leaf.elements.extend(match write {
                Write::Put(version) => Some(version),
                Write::Remove => before.filter(|before| !before.stamp.removed).map(Element::removal),
            });
            if leaf.elements.len() > leaf.room() {
                let more = writes[i + 1..].iter().take_while(|(key, _)| self.owns(leaf.leaf, Key::new(key)));
                return Attempt::Full(key.bytes.to_vec(), leaf.elements.len() + more.count());
            }
            locked.push(leaf);
        }
        locked.retain(|leaf| !leaf.elements.is_empty());
        self.append(&mut locked);
        Attempt::Done(locked.iter().map(|leaf| leaf.elements.len()).sum())
    }

    /// Whether a leaf owns a key that is not before its low key.
    #[inline]
    pub(super) fn owns(&self, leaf: &Leaf, key: Key<'_>) -> bool {
        leaf.next().is_none_or(|next| !self.leaves.get(next).is_up_to(key))
    }

    /// Locks the leaf that owns a key. What this thread has locked is left of it.
    fn lock(&self, key: Key<'_>) -> Locked<'_> {
        let mut id = self.index.owner(&self.leaves, key);
        loop {
            let locked = Locked::new(self.leaves.get(id));
            match locked.leaf.next().filter(|_| !self.owns(locked.leaf, key)) {
                Some(next) => id = next,
                None => return locked,
            }
        }
    }

    /// Appends the elements to their leaves, all at one time.
    fn append(&self, locked: &mut [Locked<'_>]) {
        if locked.is_empty() {
            return;
        }
        let medium = self.arena.medium();
        let change = self.clock.start();
        let slot = if locked.len() > 1 { change.slot } else { 0 };
        for Locked { view, elements, .. } in &mut *locked {
            elements.iter_mut().for_each(|element| *element = element.at_time(change.time, slot));
            block::write(medium, view.at, view.count, elements, Step::AppendElements);
        }
        if slot > 0 {
            medium.store(self.slot_at(slot), change.time);
            medium.flush(self.slot_at(slot), 8, Step::LogCount);
        }
        medium.fence(Step::AppendElements);
        for Locked { view, elements, .. } in &mut *locked {
            view.count += elements.len();
            block::count(medium, view.at, view.count, Step::AppendCount);
        }
        medium.fence(Step::AppendCount);
        if slot > 0 {
            medium.store(self.slot_at(slot), 0);
            medium.flush(self.slot_at(slot), 8, Step::LogForget);
            medium.fence(Step::LogForget);
        }
        locked.iter().for_each(|Locked { leaf, view, .. }| leaf.set_view(*view));
    }
}
