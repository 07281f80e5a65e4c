//! Trees of all kinds, as the checkers see them: keys and values are numbers, whatever stands for them in the tree.

use super::key_shape::{KeyShape, torn};
use crate::codec::{Key, Value};
use crate::error::{Error, Result};
use crate::map::{LeafFor, Map};
use crate::medium::Medium;
use crate::node::WordNode;
use crate::pool::Report;
use crate::tree::PTree;
use std::marker::PhantomData;

/// What a change says about the value that its key had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    Value(Option<u64>),
    WasThere(bool),
}

impl Before {
    pub(crate) fn was_there(self) -> bool {
        match self {
            Self::Value(value) => value.is_some(),
            Self::WasThere(was_there) => was_there,
        }
    }
}

/// Entries in order, from both ends.
pub(crate) type Entries<'t> = Box<dyn DoubleEndedIterator<Item = Result<(u64, u64)>> + 't>;

/// An open tree of any kind.
pub(crate) trait AnyTree: Send + Sync {
    fn get(&self, key: u64) -> Result<Option<u64>>;
    fn multi_get(&self, keys: &[u64]) -> Result<Vec<Option<u64>>>;
    fn insert(&self, key: u64, value: u64) -> Result<Before>;
    fn insert_new(&self, key: u64, value: u64) -> Result<Before>;
    fn update(&self, key: u64, value: u64) -> Result<Before>;
    fn remove(&self, key: u64) -> Result<Before>;
    fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Result<Option<u64>>;
    fn insert_batch(&self, entries: &[(u64, u64)]) -> Result<()>;
    /// Removes the keys from the first one to the last one.
    fn remove_range(&self, keys: (u64, u64)) -> Result<u64>;
    /// Reads keys, and then sets and removes others, in one transaction; keys of a `range`, which ascend, are read as
    /// one. Without reads, it is a batch of writes.
    fn transaction(&self, _keys: &[u64], _range: bool, _writes: &[Write]) -> Result<Vec<Option<u64>>> {
        unreachable!("only for what takes part in transactions")
    }
    /// Moves all entries of each of two trees to the other one, and exchanges their names, in one transaction.
    fn swap(&self) -> Result<()> {
        unreachable!("only for two trees")
    }
    fn bulk_load(&self, entries: &[(u64, u64)]) -> Result<u64>;
    fn clear(&self) -> Result<()>;
    fn compact(&self) -> Result<()>;
    /// Moves everything, sparse or not.
    fn move_everything(&self) -> Result<()>;
    /// The entries from the first key to the last one. From 0 to the greatest number, that is all of the tree.
    fn range(&self, keys: (u64, u64)) -> Entries<'_>;
    fn is_empty(&self) -> bool;
    fn len(&self) -> u64;
    fn check(&self) -> Report;
    fn fault(&self) -> Option<Error>;

    /// All entries.
    fn entries(&self) -> Result<Vec<(u64, u64)>> {
        self.range(ALL).collect()
    }
}

/// A key, and its new value or none.
pub(crate) type Write = (u64, Option<u64>);

/// All keys.
pub(crate) const ALL: (u64, u64) = (0, u64::MAX);

/// Numbers in the slots.
impl<N: WordNode, M: Medium> AnyTree for PTree<N, M> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.get(key))
    }

    fn multi_get(&self, keys: &[u64]) -> Result<Vec<Option<u64>>> {
        Ok(self.multi_get(keys))
    }

    fn insert(&self, key: u64, value: u64) -> Result<Before> {
        self.insert(key, value).map(Before::Value)
    }

    fn insert_new(&self, key: u64, value: u64) -> Result<Before> {
        self.compare_exchange(key, None, Some(value)).map(Before::Value)
    }

    fn update(&self, key: u64, value: u64) -> Result<Before> {
        self.update(key, value).map(Before::Value)
    }

    fn remove(&self, key: u64) -> Result<Before> {
        self.remove(key).map(Before::Value)
    }

    fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Result<Option<u64>> {
        self.compare_exchange(key, current, new)
    }

    fn insert_batch(&self, entries: &[(u64, u64)]) -> Result<()> {
        self.insert_batch(entries).map(drop)
    }

    fn remove_range(&self, (from, to): (u64, u64)) -> Result<u64> {
        self.remove_range(from..=to)
    }

    fn bulk_load(&self, entries: &[(u64, u64)]) -> Result<u64> {
        self.bulk_load(entries.iter().copied())
    }

    fn clear(&self) -> Result<()> {
        self.clear()
    }

    fn compact(&self) -> Result<()> {
        self.compact().map(drop)
    }

    fn move_everything(&self) -> Result<()> {
        self.state.durably(|| self.state.move_everything())
    }

    fn range(&self, (from, to): (u64, u64)) -> Entries<'_> {
        Box::new(self.range(from..=to).map(Ok))
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn check(&self) -> Report {
        self.check()
    }

    fn fault(&self) -> Option<Error> {
        self.fault()
    }
}

/// How keys of a map stand for numbers, in their order.
pub(crate) trait AsKey: Copy + Send + Sync + 'static {
    type Key: Key;

    fn key(self, number: u64) -> Self::Key;
    fn number(self, key: &Self::Key) -> Result<u64>;
    /// The key as methods take it.
    fn borrowed(key: &Self::Key) -> <Self::Key as Key>::Borrowed<'_>;
}

/// How values of a map stand for numbers.
pub(crate) trait AsValue: 'static {
    type Value: Value;

    fn value(key: u64, number: u64) -> Self::Value;
    /// The number of a value that was found at a key; an error for a value that does not stand for any.
    fn number(key: u64, value: &Self::Value) -> Result<u64>;
    /// The value as methods take it.
    fn borrowed(value: &Self::Value) -> <Self::Value as Value>::Borrowed<'_>;
}

/// Numbers that stand for themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers;

impl AsKey for Numbers {
    type Key = u64;

    fn key(self, number: u64) -> u64 {
        number
    }

    fn number(self, &key: &u64) -> Result<u64> {
        Ok(key)
    }

    fn borrowed(&key: &u64) -> u64 {
        key
    }
}

impl AsValue for Numbers {
    type Value = u64;

    fn value(_key: u64, number: u64) -> u64 {
        number
    }

    fn number(_key: u64, &value: &u64) -> Result<u64> {
        Ok(value)
    }

    fn borrowed(&value: &u64) -> u64 {
        value
    }
}

impl AsKey for KeyShape {
    type Key = Vec<u8>;

    fn key(self, number: u64) -> Vec<u8> {
        self.key(number)
    }

    fn number(self, key: &Vec<u8>) -> Result<u64> {
        self.number(key)
    }

    fn borrowed(key: &Vec<u8>) -> &[u8] {
        key
    }
}

/// Records that stand for numbers.
pub trait Records: 'static {
    fn record(key: u64, number: u64) -> Vec<u8>;
    /// The number that a record claims to stand for. Others may claim it, too.
    fn claimed(record: &[u8]) -> Option<u64>;
}

impl<R: Records> AsValue for R {
    type Value = Vec<u8>;

    fn value(key: u64, number: u64) -> Vec<u8> {
        R::record(key, number)
    }

    fn number(key: u64, found: &Vec<u8>) -> Result<u64> {
        R::claimed(found).filter(|&number| R::record(key, number) == *found).ok_or_else(|| torn(key))
    }

    fn borrowed(value: &Vec<u8>) -> &[u8] {
        value
    }
}

/// A map whose keys and values stand for numbers.
pub(super) struct OfNumbers<K: AsKey, V: AsValue, N: LeafFor<K::Key>, M: Medium> {
    map: Map<K::Key, V::Value, N, M>,
    keys: K,
    values: PhantomData<fn() -> V>,
}

impl<K: AsKey, V: AsValue, N: LeafFor<K::Key>, M: Medium> OfNumbers<K, V, N, M> {
    pub(super) fn new(map: Map<K::Key, V::Value, N, M>, keys: K) -> Self {
        Self { map, keys, values: PhantomData }
    }

    pub(super) fn map(&self) -> &Map<K::Key, V::Value, N, M> {
        &self.map
    }

    /// The number that a key stands for.
    pub(super) fn number(&self, key: &K::Key) -> Result<u64> {
        self.keys.number(key)
    }

    /// Entries as the map holds them.
    fn stored(&self, entries: &[(u64, u64)]) -> Vec<(K::Key, V::Value)> {
        entries.iter().map(|&(key, value)| (self.keys.key(key), V::value(key, value))).collect()
    }

    /// The key for a number.
    pub(super) fn key(&self, number: u64) -> K::Key {
        self.keys.key(number)
    }
}

impl<K: AsKey, V: AsValue, N: LeafFor<K::Key>, M: Medium> AnyTree for OfNumbers<K, V, N, M> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        let value = self.map.get(K::borrowed(&self.keys.key(key)))?;
        value.map(|value| V::number(key, &value)).transpose()
    }

    fn multi_get(&self, numbers: &[u64]) -> Result<Vec<Option<u64>>> {
        let keys: Vec<K::Key> = numbers.iter().map(|&number| self.keys.key(number)).collect();
        let values = self.map.multi_get(&keys.iter().map(K::borrowed).collect::<Vec<_>>())?;
        let number = |(value, &key): (Option<V::Value>, &u64)| value.map(|value| V::number(key, &value)).transpose();
        values.into_iter().zip(numbers).map(number).collect()
    }

    fn insert(&self, key: u64, value: u64) -> Result<Before> {
        let (at, value) = (self.keys.key(key), V::value(key, value));
        self.map.insert(K::borrowed(&at), V::borrowed(&value)).map(Before::WasThere)
    }

    fn insert_new(&self, key: u64, value: u64) -> Result<Before> {
        let (at, value) = (self.keys.key(key), V::value(key, value));
        let is_new = self.map.insert_new(K::borrowed(&at), V::borrowed(&value))?;
        Ok(Before::WasThere(!is_new))
    }

    fn update(&self, key: u64, value: u64) -> Result<Before> {
        let (at, value) = (self.keys.key(key), V::value(key, value));
        self.map.update(K::borrowed(&at), V::borrowed(&value)).map(Before::WasThere)
    }

    fn remove(&self, key: u64) -> Result<Before> {
        self.map.remove(K::borrowed(&self.keys.key(key))).map(Before::WasThere)
    }

    fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Result<Option<u64>> {
        let at = self.keys.key(key);
        let (current, new) = (current.map(|value| V::value(key, value)), new.map(|value| V::value(key, value)));
        let (current, new) = (current.as_ref().map(V::borrowed), new.as_ref().map(V::borrowed));
        let found = self.map.compare_exchange(K::borrowed(&at), current, new)?;
        found.map(|found| V::number(key, &found)).transpose()
    }

    fn insert_batch(&self, entries: &[(u64, u64)]) -> Result<()> {
        let stored = self.stored(entries);
        let lent: Vec<_> = stored.iter().map(|(key, value)| (K::borrowed(key), V::borrowed(value))).collect();
        self.map.insert_batch(&lent).map(drop)
    }

    fn remove_range(&self, (from, to): (u64, u64)) -> Result<u64> {
        let (from, to) = (self.keys.key(from), self.keys.key(to));
        self.map.remove_range(K::borrowed(&from)..=K::borrowed(&to))
    }

    fn bulk_load(&self, entries: &[(u64, u64)]) -> Result<u64> {
        let stored = self.stored(entries);
        self.map.bulk_load(stored.iter().map(|(key, value)| (K::borrowed(key), V::borrowed(value))))
    }

    fn clear(&self) -> Result<()> {
        self.map.clear()
    }

    fn compact(&self) -> Result<()> {
        self.map.compact().map(drop)
    }

    fn move_everything(&self) -> Result<()> {
        self.map.state().durably(|| self.map.state().move_everything())
    }

    fn range(&self, (from, to): (u64, u64)) -> Entries<'_> {
        let range = if (from, to) == ALL {
            // Also keys that stand for no number.
            self.map.iter()
        } else {
            let (from, to) = (self.keys.key(from), self.keys.key(to));
            self.map.range(K::borrowed(&from)..=K::borrowed(&to))
        };
        let numbers = |(key, value): (K::Key, V::Value)| {
            let key = self.keys.number(&key)?;
            Ok((key, V::number(key, &value)?))
        };
        Box::new(range.map(move |entry| entry.and_then(numbers)))
    }

    fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    fn len(&self) -> u64 {
        self.map.len()
    }

    fn check(&self) -> Report {
        self.map.check()
    }

    fn fault(&self) -> Option<Error> {
        self.map.fault()
    }
}
