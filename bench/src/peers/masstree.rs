//! masstree: a trie of B+-trees, each for eight bytes of the keys, which have at most 256. Readers take no lock.

use crate::entry::{Bytes, Entry};
use crate::ordered_map::OrderedMap;
use masstree::{MassTree15, RangeBound};

pub(crate) struct Mass(MassTree15<Box<[u8]>>);

impl Default for Mass {
    fn default() -> Self {
        Self(MassTree15::new())
    }
}

impl OrderedMap<Bytes> for Mass {
    #[inline]
    fn insert(&self, key: &[u8], value: &[u8]) {
        // Unlike `insert`, this copies no value that it replaces.
        self.0.insert_with_guard(key, value.into(), &self.0.guard());
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get_ref(key, &self.0.guard()).map(|value| Bytes::read(&value))
    }

    #[inline]
    fn update(&self, key: &[u8], value: &[u8]) {
        self.insert(key, value);
    }

    #[inline]
    fn remove(&self, key: &[u8]) {
        // It may only fail to find the key.
        let _ = self.0.remove_with_guard(key, &self.0.guard());
    }

    #[inline]
    fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) {
        let guard = self.0.guard();
        // A range that includes its start does not show it if it is deep in the trie, so the start is looked up.
        if self.0.get_ref(from, &guard).is_none_or(|value| each(from, &value)) {
            let rest = (RangeBound::Excluded(from), RangeBound::Unbounded);
            self.0.scan_intra_leaf_batch_ref(rest.0, rest.1, |key, value| each(key, value), &guard);
        }
    }

    #[inline]
    fn multi_get(&self, keys: &[&[u8]]) -> Vec<Option<u64>> {
        let guard = self.0.guard();
        keys.iter().map(|key| self.0.get_ref(key, &guard).map(|value| Bytes::read(&value))).collect()
    }
}
