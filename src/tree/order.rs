//! The entries of a leaf that was read, and whether their keys are in order.
//!
//! Entries come from a leaf in the order of what its slots say. Where keys are in records, a damaged record has another
//! key than its slot says, so each key is compared with its slot when it is read. That is enough:
//!
//! - O1 Heads are in the order of keys (B5). So if each entry has the head of its key, entries with different heads are
//!   in order. Of entries with equal heads, each is compared with its left neighbour.
//! - O2 A leaf that nobody writes to has only keys that it owns (B1: whatever empties slots holds the lock). So its
//!   entries lie between the two lows that were read under the same version.
//! - O3 The next leaf is read from the greater of the two on, or up to the lesser one, and what lies beyond that is not
//!   shown.
//!
//! All of this is read under one version of one leaf, and a record does not change while it is pinned. So whatever
//! other threads do, a key that is not where its slot says is damage.

use super::Form;
use super::ahead::Asker;
use crate::entry::kind::Kind;
use crate::entry::raw::Raw;
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::node::{Edges, Entry, Keys};
use crate::pool::records::Reading;

/// What is known of the entries of a leaf that was read.
pub(crate) struct Bounds<K: Keys> {
    /// Where the leaf begins and ends.
    pub(super) edges: Edges<K>,
    /// One bit for each entry whose head alone does not tell whether it is in order.
    close: u64,
}

impl<K: Keys> Default for Bounds<K> {
    fn default() -> Self {
        Self { edges: Edges::default(), close: 0 }
    }
}

impl<K: Keys> Bounds<K> {
    /// Notes what the entries are, once the edges were noted.
    #[inline]
    pub(super) fn note(&mut self, entries: &[Entry]) {
        self.close = K::close(&self.edges, entries);
    }

    /// The entry with this number.
    #[inline]
    pub(super) fn spot<'l>(&'l self, entries: &'l [Entry], i: usize) -> Spot<'l, K> {
        Spot { entries, i, of: self }
    }
}

/// Entries of a leaf that was read.
pub(crate) struct LeafEntries<K: Keys> {
    pub(super) entries: Vec<Entry>,
    pub(super) bounds: Bounds<K>,
    /// For a scan that reads one leaf after the other into this.
    pub(super) asker: Asker,
}

impl<K: Keys> Default for LeafEntries<K> {
    fn default() -> Self {
        Self { entries: Vec::new(), bounds: Bounds::default(), asker: Asker::default() }
    }
}

impl<K: Keys> LeafEntries<K> {
    /// For a scan that reads no records.
    pub(crate) fn without_records() -> Self {
        let mut entries = Self::default();
        entries.asker.skips_records = true;
        entries
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All of them, in ascending order.
    pub(crate) fn spots(&self) -> impl DoubleEndedIterator<Item = Spot<'_, K>> + ExactSizeIterator {
        (0..self.entries.len()).map(|i| self.bounds.spot(&self.entries, i))
    }
}

/// An entry, and where it is among the entries of its leaf.
pub(crate) struct Spot<'l, K: Keys> {
    entries: &'l [Entry],
    i: usize,
    of: &'l Bounds<K>,
}

impl<K: Keys> Clone for Spot<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Keys> Copy for Spot<'_, K> {}

impl<K: Keys> Spot<'_, K> {
    #[inline]
    pub(crate) fn entry(self) -> Entry {
        self.entries[self.i]
    }
}

/// Each method fails if the key is not in order. `reading` began before the leaf was read.
impl<K: Form> Spot<'_, K> {
    /// Applies `read` to the key and to the value.
    #[inline]
    pub(crate) fn with_entry<M: Medium, R>(
        self,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&K::Key, Raw<&[u8]>) -> R,
    ) -> Result<R, Fault> {
        let read = |key: &K::Key, value: Raw<&[u8]>| self.is_in_order(key, reading).then(|| read(key, value));
        K::with_entry(self.entry(), reading, kind, read)?.ok_or_else(|| self.fault(reading))
    }

    /// Applies `read` to the key.
    #[inline]
    pub(crate) fn with_key<M: Medium, R>(
        self,
        reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(&K::Key) -> R,
    ) -> Result<R, Fault> {
        let read = |key: &K::Key| self.is_in_order(key, reading).then(|| read(key));
        K::with_key(self.entry(), reading, read)?.ok_or_else(|| self.fault(reading))
    }

    /// Applies `read` to the key, and returns the value, too.
    #[inline]
    pub(crate) fn with_stored<M: Medium, R>(
        self,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&K::Key) -> R,
    ) -> Result<(R, Raw), Fault> {
        let read = |key: &K::Key| self.is_in_order(key, reading).then(|| read(key));
        let (key, value) = K::with_stored(self.entry(), reading, kind, read)?;
        Ok((key.ok_or_else(|| self.fault(reading))?, value))
    }

    /// Whether the key of the entry is in order.
    #[inline(always)]
    fn is_in_order<M: Medium>(self, key: &K::Key, reading: Option<&Reading<'_, M>>) -> bool {
        // Slots without records have all of each key.
        let is_close = K::HAS_RECORDS && self.of.close.wrapping_shr(self.i as u32) & 1 != 0;
        K::has_head(&self.of.edges, self.entry().0, key) && (!is_close || self.wrong(key, reading).is_none())
    }

    /// What is wrong with the key of the entry.
    #[cold]
    #[inline(never)]
    fn wrong<M: Medium>(self, key: &K::Key, reading: Option<&Reading<'_, M>>) -> Option<&'static str> {
        let Self { entries, i, of } = self;
        if !K::has_head(&of.edges, entries[i].0, key) {
            return Some("N3: a head of another key");
        }
        if !of.edges.hold(key) {
            return Some("N2: a key that the leaf does not own");
        }
        // If that one cannot be read, its own error says so.
        let left = i.checked_sub(1).map(|left| entries[left]).filter(|left| left.0 == entries[i].0);
        let ascends = left.map(|left| K::with_key(left, reading, |left| left < key));
        matches!(ascends, Some(Ok(false))).then_some("N3: a key twice in a leaf")
    }

    #[cold]
    #[inline(never)]
    fn fault<M: Medium>(self, reading: Option<&Reading<'_, M>>) -> Fault {
        match K::with_key(self.entry(), reading, |key| self.wrong(key, reading)) {
            Ok(wrong) => {
                // The record of a damaged tree may just have become another one.
                Broken::new(K::record(self.entry().1), wrong.unwrap_or("V2: a record that changes")).into()
            }
            Err(fault) => fault,
        }
    }
}
