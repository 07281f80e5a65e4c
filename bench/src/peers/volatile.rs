//! Ordered maps in memory, which do not outlive the process.

use crate::btreemap::Alone;
use crate::entry::{Entry, Words};
use crate::ordered_map::{Fault, OrderedMap};
use crate::out::Outcome;
use crate::owned::Owned;
use brie_tree::BTree;
use brie_tree::nonmax::NonMaxU64;
use congee::Congee;
use crossbeam_skiplist::SkipMap;
use parking_lot::RwLock;
use scc::{Guard, TreeIndex};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound;

/// Passes entries to `each` until `each` returns `false`.
fn give<'e, E: Entry>(
    entries: impl Iterator<Item = (E::Key<'e>, E::Value<'e>)>,
    mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool,
) {
    for (key, value) in entries {
        if !each(key, value) {
            break;
        }
    }
}

/// The keys from this one on.
fn onwards<'k, E: Owned>(from: &'k E::Key<'_>) -> (Bound<&'k E::Lookup>, Bound<&'k E::Lookup>) {
    (Bound::Included(E::lookup(from)), Bound::Unbounded)
}

/// std's map under a readers-writer lock: a simple solution that is enough for many programs.
pub(crate) struct Locked<E: Owned>(RwLock<BTreeMap<E::OwnedKey, E::OwnedValue>>);

impl<E: Owned> Default for Locked<E> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<E: Owned> OrderedMap<E> for Locked<E> {
    #[inline]
    fn insert(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.0.write().insert(E::own_key(key), E::own_value(value));
    }

    #[inline]
    fn get(&self, key: E::Key<'_>) -> Option<u64> {
        self.0.read().get(E::lookup(&key)).map(|value| E::read(E::value_of(value)))
    }

    #[inline]
    fn update(&self, key: E::Key<'_>, value: E::Value<'_>) {
        if let Some(old) = self.0.write().get_mut(E::lookup(&key)) {
            E::replace(old, value);
        }
    }

    #[inline]
    fn remove(&self, key: E::Key<'_>) {
        self.0.write().remove(E::lookup(&key));
    }

    #[inline]
    fn scan(&self, from: E::Key<'_>, each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) {
        let map = self.0.read();
        give::<E>(map.range(onwards::<E>(&from)).map(|(key, value)| (E::key_of(key), E::value_of(value))), each);
    }

    #[inline]
    fn multi_get(&self, keys: &[E::Key<'_>]) -> Vec<Option<u64>> {
        let map = self.0.read();
        keys.iter().map(|key| map.get(E::lookup(key)).map(|value| E::read(E::value_of(value)))).collect()
    }

    #[inline]
    fn insert_batch(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) {
        self.0.write().extend(entries.iter().map(|&(key, value)| (E::own_key(key), E::own_value(value))));
    }
}

/// brie-tree: a single-threaded B+-tree of integers, searched with SIMD.
#[derive(Default)]
pub(crate) struct Brie(Alone<BTree<NonMaxU64, u64>>);

impl Brie {
    /// The greatest key cannot be stored, but no phase uses it.
    #[inline]
    fn key(key: u64) -> NonMaxU64 {
        NonMaxU64::new(key).expect("a key below the greatest")
    }
}

impl OrderedMap for Brie {
    fn is_shared(&self) -> bool {
        false
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.0.write(|tree| tree.insert(Self::key(key), value));
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.read().get(Self::key(key)).copied()
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        self.0.write(|tree| {
            if let Some(old) = tree.get_mut(Self::key(key)) {
                *old = value;
            }
        });
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.0.write(|tree| tree.remove(Self::key(key)));
    }

    #[inline]
    fn scan(&self, from: u64, each: impl FnMut(u64, u64) -> bool) {
        let entries = self.0.read().iter_from(Bound::Included(Self::key(from)));
        give::<Words>(entries.map(|(key, &value)| (key.get(), value)), each);
    }
}

/// congee: an adaptive radix tree with optimistic locks.
#[derive(Default)]
pub(crate) struct Art {
    tree: Congee<usize, usize>,
    fault: Fault,
}

impl OrderedMap for Art {
    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.fault.note(self.tree.insert(key as usize, value as usize, &self.tree.pin()));
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.tree.get(&(key as usize), &self.tree.pin()).map(|value| value as u64)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        self.tree.compute_if_present(&(key as usize), |_| Some(value as usize), &self.tree.pin());
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.tree.remove(&(key as usize), &self.tree.pin());
    }

    /// It has no iterator, but fills a buffer; a larger buffer makes it slower.
    #[inline]
    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) {
        let guard = self.tree.pin();
        let mut buffer = [(0, 0); 100];
        let mut from = from as usize;
        loop {
            let found = self.tree.range(&from, &usize::MAX, &mut buffer, &guard);
            for &(key, value) in &buffer[..found] {
                if !each(key as u64, value as u64) {
                    return;
                }
            }
            match buffer[found.saturating_sub(1)].0.checked_add(1) {
                Some(next) if found == buffer.len() => from = next,
                _ => return,
            }
        }
    }

    fn fault(&self) -> Outcome<()> {
        self.fault.get()
    }

    /// With a buffer that is no larger than needed.
    #[inline]
    fn scan_some(&self, from: u64, limit: u64) -> u64 {
        let mut buffer = [(0, 0); 100];
        let limit = buffer.len().min(limit as usize);
        let found = self.tree.range(&(from as usize), &usize::MAX, &mut buffer[..limit], &self.tree.pin());
        black_box(&buffer);
        found as u64
    }

    #[inline]
    fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>> {
        let guard = self.tree.pin();
        keys.iter().map(|&key| self.tree.get(&(key as usize), &guard).map(|value| value as u64)).collect()
    }
}

/// scc's B+-tree, whose readers take no lock.
pub(crate) struct Scc<E: Owned>(TreeIndex<E::OwnedKey, E::OwnedValue>);

impl<E: Owned> Default for Scc<E> {
    fn default() -> Self {
        Self(TreeIndex::default())
    }
}

impl<E: Owned> OrderedMap<E> for Scc<E> {
    #[inline]
    fn insert(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.0.upsert_sync(E::own_key(key), E::own_value(value));
    }

    #[inline]
    fn get(&self, key: E::Key<'_>) -> Option<u64> {
        self.0.peek_with(E::lookup(&key), |_, value| E::read(E::value_of(value)))
    }

    #[inline]
    fn update(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.0.upsert_sync(E::own_key(key), E::own_value(value));
    }

    #[inline]
    fn remove(&self, key: E::Key<'_>) {
        self.0.remove_sync(E::lookup(&key));
    }

    #[inline]
    fn scan(&self, from: E::Key<'_>, each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) {
        let guard = Guard::new();
        let entry = |(key, value)| (E::key_of(key), E::value_of(value));
        // A range that starts below the smallest key would search all leaves for its start.
        if E::is_least(from) {
            give::<E>(self.0.iter(&guard).map(entry), each);
        } else {
            give::<E>(self.0.range::<E::Lookup, _>(onwards::<E>(&from), &guard).map(entry), each);
        }
    }

    #[inline]
    fn multi_get(&self, keys: &[E::Key<'_>]) -> Vec<Option<u64>> {
        let guard = Guard::new();
        keys.iter().map(|key| self.0.peek(E::lookup(key), &guard).map(|value| E::read(E::value_of(value)))).collect()
    }
}

/// crossbeam's skip list.
pub(crate) struct Skip<E: Owned>(SkipMap<E::OwnedKey, E::OwnedValue>);

impl<E: Owned> Default for Skip<E> {
    fn default() -> Self {
        Self(SkipMap::default())
    }
}

impl<E: Owned> OrderedMap<E> for Skip<E> {
    #[inline]
    fn insert(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.0.insert(E::own_key(key), E::own_value(value));
    }

    #[inline]
    fn get(&self, key: E::Key<'_>) -> Option<u64> {
        self.0.get(E::lookup(&key)).map(|entry| E::read(E::value_of(entry.value())))
    }

    #[inline]
    fn update(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.0.insert(E::own_key(key), E::own_value(value));
    }

    #[inline]
    fn remove(&self, key: E::Key<'_>) {
        self.0.remove(E::lookup(&key));
    }

    #[inline]
    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) {
        for entry in self.0.range(onwards::<E>(&from)) {
            if !each(E::key_of(entry.key()), E::value_of(entry.value())) {
                break;
            }
        }
    }
}
