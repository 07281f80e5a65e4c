//! Ordered maps in memory, which do not outlive the process.

use crate::btreemap::Alone;
use crate::ordered_map::{Fault, OrderedMap};
use crate::out::Outcome;
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
fn give(entries: impl Iterator<Item = (u64, u64)>, mut each: impl FnMut(u64, u64) -> bool) {
    for (key, value) in entries {
        if !each(key, value) {
            break;
        }
    }
}

/// std's map under a readers-writer lock: a simple solution that is enough for many programs.
#[derive(Default)]
pub(crate) struct Locked(RwLock<BTreeMap<u64, u64>>);

impl OrderedMap for Locked {
    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.0.write().insert(key, value);
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.read().get(&key).copied()
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        if let Some(old) = self.0.write().get_mut(&key) {
            *old = value;
        }
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.0.write().remove(&key);
    }

    #[inline]
    fn scan(&self, from: u64, each: impl FnMut(u64, u64) -> bool) {
        give(self.0.read().range(from..).map(|(&key, &value)| (key, value)), each);
    }

    #[inline]
    fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>> {
        let map = self.0.read();
        keys.iter().map(|key| map.get(key).copied()).collect()
    }

    #[inline]
    fn insert_batch(&self, entries: &[(u64, u64)]) {
        self.0.write().extend(entries.iter().copied());
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
        give(entries.map(|(key, &value)| (key.get(), value)), each);
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
#[derive(Default)]
pub(crate) struct Scc(TreeIndex<u64, u64>);

impl OrderedMap for Scc {
    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.0.upsert_sync(key, value);
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.peek_with(&key, |_, value| *value)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        self.0.upsert_sync(key, value);
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.0.remove_sync(&key);
    }

    #[inline]
    fn scan(&self, from: u64, each: impl FnMut(u64, u64) -> bool) {
        let guard = Guard::new();
        let owned = |(&key, &value): (&u64, &u64)| (key, value);
        // A range that starts below the smallest key would search all leaves for its start.
        if from == 0 {
            give(self.0.iter(&guard).map(owned), each);
        } else {
            give(self.0.range(from.., &guard).map(owned), each);
        }
    }

    #[inline]
    fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>> {
        let guard = Guard::new();
        keys.iter().map(|key| self.0.peek(key, &guard).copied()).collect()
    }
}

/// crossbeam's skip list.
#[derive(Default)]
pub(crate) struct Skip(SkipMap<u64, u64>);

impl OrderedMap for Skip {
    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|entry| *entry.value())
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.0.remove(&key);
    }

    #[inline]
    fn scan(&self, from: u64, each: impl FnMut(u64, u64) -> bool) {
        give(self.0.range(from..).map(|entry| (*entry.key(), *entry.value())), each);
    }
}
