//! Circ-Tree's long keys (its section 3): the key of an entry is a hash of eight bytes, and its value leads to a record
//! with the keys and values of that hash, of which there is nearly always one.
//!
//! The paper's other hash has sixteen bytes, which a slot of two words has no room for. Hashes have no order: there is
//! no scan.

use crate::entry::{Bytes, Entry};
use crate::ordered_map::{Fault, OrderedMap};
use crate::out::Outcome;
use bristlecone::medium::Medium;
use bristlecone::papers::Circular;
use bristlecone::{Map, Pool};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, PoisonError};

/// Locks of hashes, which share them. Changes of a record take turns.
const LOCKS: usize = 1024;

/// A map from byte strings to byte strings, by their hashes.
pub(super) struct Hashed<M: Medium> {
    map: Map<u64, Vec<u8>, Circular<64>, M>,
    hash: fn(&[u8]) -> u64,
    locks: Box<[Mutex<()>]>,
    fault: Fault,
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

/// The lengths of a key and of its value, before both.
const HEAD: usize = 8;

/// The entries in a record, in no order.
fn entries(mut record: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = record.split_at_checked(HEAD)?;
        let len = |at: usize| head[at..].iter().take(4).rev().fold(0, |len, &byte| len << 8 | usize::from(byte));
        let (key, rest) = rest.split_at_checked(len(0))?;
        let (value, rest) = rest.split_at_checked(len(4))?;
        record = rest;
        Some((key, value))
    })
}

fn push(record: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for bytes in [key, value] {
        record.extend((bytes.len() as u32).to_le_bytes());
    }
    record.extend(key);
    record.extend(value);
}

impl<M: Medium> Hashed<M> {
    /// Opens the map, or creates it.
    pub(super) fn open(pool: &Pool<M>) -> Outcome<Self> {
        Self::with(pool, hash)
    }

    fn with(pool: &Pool<M>, hash: fn(&[u8]) -> u64) -> Outcome<Self> {
        let locks = (0..LOCKS).map(|_| Mutex::default()).collect();
        Ok(Self { map: pool.map_of("hashed")?, hash, locks, fault: Fault::default() })
    }

    /// Replaces the record of a key by one with this value, or without the key.
    fn change(&self, key: &[u8], value: Option<&[u8]>) -> Outcome<()> {
        let hash = (self.hash)(key);
        let _turn = self.locks[hash as usize % LOCKS].lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = Vec::with_capacity(HEAD + key.len() + value.map_or(0, <[u8]>::len));
        if let Some(value) = value {
            push(&mut record, key, value);
        }
        self.map.get_with(hash, |old| {
            entries(old).filter(|(other, _)| *other != key).for_each(|(other, value)| push(&mut record, other, value));
        })?;
        if record.is_empty() {
            self.map.remove(hash)?
        } else {
            self.map.insert(hash, &record)?
        };
        Ok(())
    }
}

impl<M: Medium> OrderedMap<Bytes> for Hashed<M> {
    fn insert(&self, key: &[u8], value: &[u8]) {
        self.fault.note(self.change(key, Some(value)));
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let read =
            |record: &[u8]| entries(record).find(|(other, _)| *other == key).map(|(_, value)| Bytes::read(value));
        self.fault.note(self.map.get_with((self.hash)(key), read)).flatten().flatten()
    }

    fn update(&self, key: &[u8], value: &[u8]) {
        self.insert(key, value);
    }

    fn remove(&self, key: &[u8]) {
        self.fault.note(self.change(key, None));
    }

    fn fault(&self) -> Outcome<()> {
        self.fault.get()
    }

    fn scan(&self, _: &[u8], _: impl FnMut(&[u8], &[u8]) -> bool) {
        self.fault.note::<(), _>(Err("hashes have no order"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Text;
    use crate::numbers::Random;
    use bristlecone::medium::Dram;
    use std::collections::BTreeMap;

    /// As many keys have the same hash as a hash of two bits makes.
    #[test]
    fn keys_with_one_hash_share_a_record() {
        let pool = Pool::options().create_on(Dram::zeroed(32 << 20)).unwrap();
        let map = Hashed::with(&pool, |key| hash(key) & 3).unwrap();
        let content = Bytes { text: Text::User, value: 20 };
        let (mut model, mut random) = (BTreeMap::new(), Random::new(5));
        let (mut key, mut value) = Default::default();
        for _ in 0..3000 {
            let (number, word) = (random.below(30), random.word());
            let key = content.key(number, &mut key);
            match random.below(3) {
                0 => {
                    map.insert(key, content.value(word, &mut value));
                    model.insert(number, word);
                }
                1 => {
                    map.remove(key);
                    model.remove(&number);
                }
                _ => assert_eq!(map.get(key), model.get(&number).copied()),
            }
        }
        map.fault().unwrap();
        map.scan(b"a", |_, _| true);
        assert!(map.fault().is_err());
    }
}
