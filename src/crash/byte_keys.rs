//! Trees of byte strings that are crashed. Keys are numbers in the model, and strings of a shape in the tree.

use super::history::{batch, bulk};
use super::tree_type::{AnyTree, number, record, torn};
use crate::error::Result;
use crate::map::Map;
use crate::medium::Sim;
use crate::node::ByteLeaf;
use crate::tree::Report;

/// What the strings look like that stand for numbers. They are in the order of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyShape {
    /// The eight bytes of the number, which share seven or so: heads differ.
    Bytes,
    /// Sixty bytes more before these: fence keys do not fit into headers.
    Long,
    /// Zeros, from the empty string on: each is a prefix of the next one, and all heads are equal.
    Zeros,
}

impl KeyShape {
    const PREFIX: [u8; 60] = [b'x'; 60];
    /// Numbers from this one on are no zeros.
    const MOST_ZEROS: u64 = 100;

    pub(super) fn key(self, number: u64) -> Vec<u8> {
        match self {
            Self::Bytes => number.to_be_bytes().to_vec(),
            Self::Long => [&Self::PREFIX[..], &number.to_be_bytes()].concat(),
            Self::Zeros if number < Self::MOST_ZEROS => vec![0; number as usize],
            Self::Zeros => [&[0xff][..], &number.to_be_bytes()].concat(),
        }
    }

    /// The number that a string stands for; an error for other strings.
    fn number(self, key: &[u8]) -> Result<u64> {
        let last = key.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let zeros = self == Self::Zeros && key.first() != Some(&0xff);
        let number = if zeros { key.len() as u64 } else { last };
        if self.key(number) == key { Ok(number) } else { Err(torn()) }
    }
}

/// A map of such strings.
pub(super) struct Shaped<V, const SLOTS: usize>
where
    V: crate::codec::Value,
{
    pub(super) map: Map<Vec<u8>, V, ByteLeaf<SLOTS>, Sim>,
    pub(super) shape: KeyShape,
}

/// Numbers.
impl<const SLOTS: usize> AnyTree for Shaped<u64, SLOTS> {
    fn insert(&self, key: u64, value: u64) -> Result<bool> {
        self.map.insert(&self.shape.key(key), value)
    }

    fn remove(&self, key: u64) -> Result<bool> {
        self.map.remove(&self.shape.key(key))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.map.get(&self.shape.key(key))
    }

    fn entries(&self, reverse: bool) -> Result<Vec<(u64, u64)>> {
        let entry =
            |entry: Result<(Vec<u8>, u64)>| entry.and_then(|(key, value)| Ok((self.shape.number(&key)?, value)));
        let all = self.map.iter();
        if reverse { all.rev().map(entry).collect() } else { all.map(entry).collect() }
    }

    fn clear(&self) -> Result<()> {
        self.map.clear()
    }

    fn bulk_load(&self, n: u64) -> Result<u64> {
        let entries: Vec<(Vec<u8>, u64)> = bulk(n).map(|(key, value)| (self.shape.key(key), value)).collect();
        self.map.bulk_load(entries.iter().map(|(key, value)| (&key[..], *value)))
    }

    fn insert_batch(&self, n: u64) -> Result<()> {
        batch(n).try_for_each(|(key, value)| self.insert(key, value).map(drop))
    }

    fn check(&self) -> Report {
        self.map.check()
    }
}

/// Byte strings of all lengths.
impl<const SLOTS: usize> AnyTree for Shaped<Vec<u8>, SLOTS> {
    fn insert(&self, key: u64, value: u64) -> Result<bool> {
        self.map.insert(&self.shape.key(key), &record(value))
    }

    fn remove(&self, key: u64) -> Result<bool> {
        self.map.remove(&self.shape.key(key))
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.map.get(&self.shape.key(key))?.map(|bytes| number(&bytes)).transpose()
    }

    fn entries(&self, reverse: bool) -> Result<Vec<(u64, u64)>> {
        let entry = |entry: Result<(Vec<u8>, Vec<u8>)>| {
            entry.and_then(|(key, value)| Ok((self.shape.number(&key)?, number(&value)?)))
        };
        let all = self.map.iter();
        if reverse { all.rev().map(entry).collect() } else { all.map(entry).collect() }
    }

    fn clear(&self) -> Result<()> {
        self.map.clear()
    }

    fn bulk_load(&self, n: u64) -> Result<u64> {
        let entries: Vec<(Vec<u8>, Vec<u8>)> =
            bulk(n).map(|(key, value)| (self.shape.key(key), record(value))).collect();
        self.map.bulk_load(entries.iter().map(|(key, value)| (&key[..], &value[..])))
    }

    fn insert_batch(&self, n: u64) -> Result<()> {
        batch(n).try_for_each(|(key, value)| self.insert(key, value).map(drop))
    }

    fn check(&self) -> Report {
        self.map.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_in_the_order_of_their_numbers() {
        for shape in [KeyShape::Bytes, KeyShape::Long, KeyShape::Zeros] {
            let numbers = [0, 1, 2, 7, 50, 99, 100, 101, 255, 256, 1000, u64::MAX];
            assert!(numbers.map(|number| shape.key(number)).is_sorted_by(|one, next| one < next), "{shape:?}");
            assert!(numbers.iter().all(|&number| shape.number(&shape.key(number)).is_ok_and(|found| found == number)));
            assert!(shape.number(b"abc").is_err());
        }
    }
}
