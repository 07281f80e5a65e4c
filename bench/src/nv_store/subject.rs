//! NV-Store as a subject.

use super::{NvStore, Options};
use crate::entry::{Bytes, Entry};
use crate::ordered_map::{Fault, OrderedMap};
use crate::out::Outcome;
use bristlecone::medium::Medium;
use std::time::Duration;

/// A store that keeps its first error.
pub(crate) struct NvMap<M: Medium> {
    store: NvStore<M>,
    fault: Fault,
}

impl<M: Medium> NvMap<M> {
    /// The name of the store.
    pub(crate) const NAME: &str = "nv_store";

    /// Opens the store, or creates it.
    pub(crate) fn open(medium: M, options: Options) -> Outcome<Self> {
        Ok(Self { store: NvStore::open(medium, options)?, fault: Fault::default() })
    }
}

impl<M: Medium> OrderedMap<Bytes> for NvMap<M> {
    #[inline]
    fn insert(&self, key: &[u8], value: &[u8]) {
        self.fault.note(self.store.put(key, value));
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.store.get(key, Bytes::read)
    }

    #[inline]
    fn update(&self, key: &[u8], value: &[u8]) {
        self.fault.note(self.store.put(key, value));
    }

    #[inline]
    fn remove(&self, key: &[u8]) {
        self.fault.note(self.store.remove(key));
    }

    fn insert_durably(&self, entries: &[(&[u8], &[u8])]) {
        self.insert_batch(entries);
        self.fault.note(self.store.medium().sync());
    }

    fn fault(&self) -> Outcome<()> {
        self.fault.get()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.fault()?;
        Ok(self.store.medium().settle()?)
    }

    fn rebuilds(&self) -> Option<(u64, Duration)> {
        Some(self.store.rebuilds())
    }

    #[inline]
    fn scan(&self, from: &[u8], each: impl FnMut(&[u8], &[u8]) -> bool) {
        self.store.scan(from, each);
    }
}
