//! This crate's map from byte strings to byte strings as a subject.

use crate::entry::{Bytes, Entry};
use crate::ordered_map::{Fault, NAME, OrderedMap, Space};
use crate::out::Outcome;
use bristlecone::medium::Medium;
use bristlecone::{ByteLeaf, Map, Node, Pool};

/// A map of this crate, in a pool with nothing else.
pub(crate) struct ByteMap<M: Medium> {
    map: Map<Vec<u8>, Vec<u8>, ByteLeaf, M>,
    fault: Fault,
}

impl<M: Medium> ByteMap<M> {
    /// The name of the layout.
    pub(crate) const NAME: &str = <ByteLeaf>::NAME;
    /// Bytes of a leaf: ten lines.
    pub(crate) const NODE_BYTES: u32 = 640;

    /// Opens the map, or creates it.
    pub(crate) fn open(pool: &Pool<M>) -> Outcome<Self> {
        Ok(Self { map: pool.map(NAME)?, fault: Fault::default() })
    }
}

impl<M: Medium> OrderedMap<Bytes> for ByteMap<M> {
    #[inline]
    fn insert(&self, key: &[u8], value: &[u8]) {
        self.fault.note(self.map.insert(key, value));
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.fault.note(self.map.get_with(key, Bytes::read)).flatten()
    }

    #[inline]
    fn update(&self, key: &[u8], value: &[u8]) {
        self.fault.note(self.map.update(key, value));
    }

    #[inline]
    fn remove(&self, key: &[u8]) {
        self.fault.note(self.map.remove(key));
    }

    fn insert_durably(&self, entries: &[(&[u8], &[u8])]) {
        self.insert_batch(entries);
        self.fault.note(self.map.pool().sync());
    }

    fn fault(&self) -> Outcome<()> {
        self.fault.get()?;
        self.map.fault().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Also closes the pool: there is no other handle to it.
    fn close(self: Box<Self>) -> Outcome<()> {
        self.fault()?;
        let pool = self.map.pool();
        drop(self);
        Ok(pool.close()?)
    }

    fn space(&self) -> Outcome<Option<Space>> {
        Space::of(&self.map.pool(), &self.map.check()).map(Some)
    }

    #[inline]
    fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) {
        let mut entries = self.map.range(from..);
        while let Some(more) = entries.next_with(|key, value| each(key.as_bytes(), value)) {
            if self.fault.note(more) != Some(true) {
                break;
            }
        }
    }

    #[inline]
    fn multi_get(&self, keys: &[&[u8]]) -> Vec<Option<u64>> {
        let values = self.fault.note(self.map.multi_get(keys)).unwrap_or_default();
        values.into_iter().map(|value| value.map(|value| Bytes::read(&value))).collect()
    }
}
