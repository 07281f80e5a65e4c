//! The store as it was at one instant.

use super::NvStore;
use super::block;
use super::element::Element;
use super::key::Key;
use super::leaves::{Id, View};
use super::live::Ticket;
use bristlecone::medium::{Hint, Medium};

/// All changes up to a time, and none after it. While it lives, renewals keep what it shows.
pub(crate) struct Snapshot<'s, M: Medium> {
    store: &'s NvStore<M>,
    ticket: Ticket<'s>,
}

impl<M: Medium> NvStore<M> {
    /// A snapshot with all changes that have returned. Waits for those that have a time and are not published.
    pub(crate) fn snapshot(&self) -> Snapshot<'_, M> {
        let ticket = self.live.begin(&self.clock);
        self.clock.wait(ticket.time);
        Snapshot { store: self, ticket }
    }

    /// Passes the entries from a key on to `each`, in order, until it returns `false`: those of a snapshot of its own.
    pub(crate) fn scan(&self, from: &[u8], each: impl FnMut(&[u8], &[u8]) -> bool) {
        self.snapshot().scan(from, each);
    }
}

impl<'s, M: Medium> Snapshot<'s, M> {
    pub(super) fn store(&self) -> &'s NvStore<M> {
        self.store
    }

    pub(super) fn time(&self) -> u64 {
        self.ticket.time
    }

    /// Passes the value of a key on.
    pub(crate) fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let _pin = self.store.arena.pin();
        let found = self.store.last(Key::new(key), |element| element.stamp.time <= self.time());
        found.map(|element| self.store.value(&element, read))
    }

    /// Passes the entries from a key on to `each`, in order, until it returns `false`.
    pub(crate) fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) {
        let key = Key::new(from);
        let mut next = Some(self.store.index.owner(&self.store.leaves, key));
        let mut shown = Shown::default();
        while let Some(id) = next {
            let _pin = self.store.arena.pin();
            next = self.read(id, key, &mut shown);
            let more = shown.entries.iter().all(|entry| {
                let key = &shown.keys[entry.start..][..entry.element.key_len as usize];
                self.store.value(&entry.element, |value| each(key, value))
            });
            if !more {
                return;
            }
        }
    }

    /// Finds what a leaf shows from a key on, and the next leaf. The caller has pinned.
    fn read(&self, id: Id, from: Key<'_>, shown: &mut Shown) -> Option<Id> {
        let leaf = self.store.leaves.get(id);
        let view = leaf.view();
        // After the view: if it has lost keys, there is a leaf for them.
        let next = leaf.next();
        let end = next.map(|next| self.store.leaves.get(next).low());
        shown.find(self.store, view, self.time(), |key| {
            key.cmp_with(from.head, || from.bytes).is_ge()
                && end.is_none_or(|end| key.cmp_with(end.head, || end.bytes).is_lt())
        });
        next
    }
}

/// What a leaf shows, in the order of keys. It keeps its memory from leaf to leaf.
#[derive(Default)]
struct Shown {
    entries: Vec<Entry>,
    /// The keys, one after the other.
    keys: Vec<u8>,
}

struct Entry {
    element: Element,
    /// The head of the entry's key.
    head: u64,
    /// Where the entry's key begins in `keys`.
    start: usize,
}

impl Shown {
    /// Finds the last version of each key up to a time, among the keys that are wanted.
    fn find<M: Medium>(&mut self, store: &NvStore<M>, view: View, time: u64, wanted: impl Fn(Key<'_>) -> bool) {
        self.entries.clear();
        self.keys.clear();
        let medium = store.arena.medium();
        // Each record is a miss of the cache, so that they had better wait together.
        (0..view.count).for_each(|i| medium.hint(block::element(medium, view.at, i).record, 1, Hint::Soon));
        // From the last one: the first of several equal ones counts.
        for i in (0..view.count).rev() {
            let element = block::element(medium, view.at, i);
            if element.stamp.time > time {
                continue;
            }
            store.arena.with(element.record, element.key_len as usize, |key| {
                let key = Key::new(key);
                if wanted(key) {
                    self.entries.push(Entry { element, head: key.head, start: self.keys.len() });
                    self.keys.extend_from_slice(key.bytes);
                }
            });
        }
        let key = |entry: &Entry| &self.keys[entry.start..][..entry.element.key_len as usize];
        // Stable, so that equal ones stay as they are.
        self.entries.sort_by(|a, b| Key { head: a.head, bytes: key(a) }.cmp_with(b.head, || key(b)));
        self.entries.dedup_by(|a, b| key(a) == key(b));
        self.entries.retain(|entry| !entry.element.stamp.removed);
    }
}
