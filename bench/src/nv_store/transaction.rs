//! Several changes as one, against a snapshot.

use super::NvStore;
use super::change::Write;
use super::element::Element;
use super::snapshot::Snapshot;
use crate::out::Outcome;
use bristlecone::medium::Medium;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Reads a snapshot and its own writes; others see these when it has committed. Dropped before, it changes nothing.
pub(crate) struct Transaction<'s, M: Medium> {
    snapshot: Snapshot<'s, M>,
    /// `None`: removed.
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// How a commit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a conflict has changed nothing"]
pub(crate) enum Commit {
    Done,
    /// Another change of one of its keys came first.
    Conflict,
}

impl<M: Medium> NvStore<M> {
    pub(crate) fn begin(&self) -> Transaction<'_, M> {
        Transaction { snapshot: self.snapshot(), writes: BTreeMap::new() }
    }
}

impl<M: Medium> Transaction<'_, M> {
    /// Passes the value of a key on.
    pub(crate) fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self.writes.get(key) {
            Some(value) => value.as_deref().map(read),
            None => self.snapshot.get(key, read),
        }
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.writes.insert(key.to_vec(), Some(value.to_vec()));
    }

    #[cfg_attr(not(test), expect(dead_code, reason = "no measurement removes in a transaction"))]
    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.writes.insert(key.to_vec(), None);
    }

    /// Passes the entries from a key on to `each`, in order, until it returns `false`.
    pub(crate) fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) {
        let mut writes = self.writes.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).peekable();
        let mut goes_on = true;
        self.snapshot.scan(from, |key, value| {
            while let Some((own, new)) = writes.next_if(|(own, _)| goes_on && own.as_slice() < key) {
                goes_on = new.as_ref().is_none_or(|new| each(own, new));
            }
            goes_on = goes_on
                && match writes.next_if(|(own, _)| own.as_slice() == key) {
                    Some((_, Some(new))) => each(key, new),
                    Some((_, None)) => true,
                    None => each(key, value),
                };
            goes_on
        });
        while let Some((own, new)) = writes.next_if(|_| goes_on) {
            goes_on = new.as_ref().is_none_or(|new| each(own, new));
        }
    }

    /// Makes all of its writes, or none.
    ///
    /// # Errors
    ///
    /// If the medium is full, or fails. Then none is made, unless only the acknowledgement failed.
    pub(crate) fn commit(self) -> Outcome<Commit> {
        let store = self.snapshot.store();
        if self.writes.is_empty() {
            return Ok(Commit::Done);
        }
        store.arena.medium().admit()?;
        let mut made = Vec::new();
        let committed = self.make(&mut made);
        if !matches!(committed, Ok(Commit::Done)) {
            made.into_iter().for_each(|version| store.arena.give(version.record, version.record_bytes()));
        }
        let committed = committed?;
        store.arena.medium().acknowledge()?;
        Ok(committed)
    }

    /// Notes the versions that it has written records for.
    fn make(&self, made: &mut Vec<Element>) -> Outcome<Commit> {
        let store = self.snapshot.store();
        let mut writes: Vec<(&[u8], Write)> = Vec::with_capacity(self.writes.len());
        for (key, value) in &self.writes {
            let Some(value) = value else {
                writes.push((key, Write::Remove));
                continue;
            };
            let version = store.version(key, value)?;
            made.push(version);
            writes.push((key, Write::Put(version)));
        }
        let appended = store.change(&writes, self.snapshot.time())?;
        Ok(appended.map_or(Commit::Conflict, |_| Commit::Done))
    }
}
