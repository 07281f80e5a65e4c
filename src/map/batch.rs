//! Inserting many entries.

use super::{LeafFor, Map};
use crate::codec::{Key, ToKey, ToValue, Value, owned};
use crate::entry::raw::Raw;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use crate::medium::Medium;
use crate::tree::{Group, in_batches};

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Map<K, V, N, M> {
    /// Sets the values of several keys. Returns how many keys are new. Of equal keys, the last one counts.
    ///
    /// Keys and values are given borrowed, or as they are ([`ToKey`], [`ToValue`]).
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert). Some of the entries may have been inserted, durably. No entry that was there is
    /// lost.
    ///
    /// # Complexity
    ///
    /// Where keys and values are words, as [`PTree::insert_batch`](crate::PTree::insert_batch): one fence in all.
    /// Otherwise each entry costs what an `insert` does, but 32 records share a fence.
    ///
    /// # Crash consistency
    ///
    /// As [`PTree::insert_batch`](crate::PTree::insert_batch): **any part** of the batch; each entry is there whole or
    /// not at all.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// assert_eq!(names.insert_batch(&[(3, "three"), (1, "one"), (3, "drei")])?, 2);
    /// assert_eq!(names.insert_batch(&[(4, "four".to_owned())])?, 1);
    /// assert_eq!(names.get(3)?.as_deref(), Some("drei"));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn insert_batch(&self, entries: &[(impl ToKey<K>, impl ToValue<V>)]) -> Result<u64> {
        self.state.durably(|| self.insert_all(entries))
    }

    fn insert_all(&self, entries: &[(impl ToKey<K>, impl ToValue<V>)]) -> Result<u64, Fault> {
        let tree = &*self.state;
        let owned = |key: &_| ToKey::<K>::with_key(key, |key| owned::<K>(key));
        // A value of the wrong form, or of none, is refused below.
        let word = |value: &_| {
            ToValue::<V>::with_value(value, |value| match V::encode(value) {
                Ok(Raw::Word(word)) => Some(word),
                Ok(Raw::Bytes(_)) | Err(_) => None,
            })
        };
        let words = || entries.iter().map(|(key, value)| Some((owned(key), word(value)?))).collect();
        if !V::KIND.is_record
            && let Some(inserted) = N::insert_words(tree, words)
        {
            return inserted;
        }
        let mut ordered: Vec<_> = entries.iter().map(|(key, value)| (owned(key), value)).collect();
        // Nobody sees any of equal keys but the last one, which stays the last one in the sort.
        ordered.sort_by(|(key, _), (other, _)| key.cmp(other));
        ordered.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        let mut group = Group::new(tree);
        for (key, value) in ordered {
            value.with_value(|value| group.push(key, self.encode(value)?.lent()))?;
        }
        group.finish()
    }

    /// Inserts what an iterator yields. Returns how many keys are new. Of equal keys, the last one counts.
    ///
    /// Draws up to 1024 entries, inserts them as one [batch](Self::insert_batch), draws the next ones, and so on. No
    /// lock is held while it draws: the iterator may use this map. Keys and values are given borrowed, or as they are.
    ///
    /// # Errors
    ///
    /// As [`insert_batch`](Self::insert_batch). Batches before the one that failed are inserted.
    ///
    /// # Panics
    ///
    /// If the iterator does. Batches before that are inserted.
    ///
    /// # Complexity
    ///
    /// As [`insert_batch`](Self::insert_batch) for each 1024 entries: faster if they come in ascending order.
    ///
    /// # Crash consistency
    ///
    /// As [`PTree::extend`](crate::PTree::extend).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let squares: bristlecone::Map<String, u64> = pool.map("squares")?;
    /// assert_eq!(squares.extend((0..2000).map(|n| (format!("{n:04}"), n * n)))?, 2000);
    /// assert_eq!(squares.extend([("0003", 9), ("new", 1)])?, 1);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn extend(&self, entries: impl IntoIterator<Item = (impl ToKey<K>, impl ToValue<V>)>) -> Result<u64> {
        in_batches(entries, |batch| self.insert_batch(batch))
    }

    /// Fills an empty map with entries in strictly ascending order of keys. Returns the number of entries.
    ///
    /// Keys and values are given borrowed, or as they are ([`ToKey`], [`ToValue`]).
    ///
    /// # Errors
    ///
    /// As [`PTree::bulk_load`](crate::PTree::bulk_load), [`ErrorKind::KeyTooLong`], [`ErrorKind::RecordTooLong`], and
    /// [`ErrorKind::Unencodable`].
    ///
    /// # Panics
    ///
    /// If the iterator does. Then nothing has been loaded.
    ///
    /// # Complexity
    ///
    /// As [`PTree::bulk_load`](crate::PTree::bulk_load); each record adds its own lines and one fence.
    ///
    /// # Crash consistency
    ///
    /// All entries are loaded, or none is.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let lines: bristlecone::Map<u64, String> = pool.map("lines")?;
    /// let text = "first\nsecond\nthird";
    /// assert_eq!(lines.bulk_load((1..).zip(text.lines()))?, 3);
    ///
    /// let upper: bristlecone::Map<u64, String> = pool.map("upper")?;
    /// upper.bulk_load((1..).zip(text.lines().map(str::to_uppercase)))?;
    /// assert_eq!(upper.get(2)?.as_deref(), Some("SECOND"));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn bulk_load(&self, entries: impl IntoIterator<Item = (impl ToKey<K>, impl ToValue<V>)>) -> Result<u64> {
        let entries = entries.into_iter().map(|(key, value)| (key.with_key(|key| owned::<K>(key)), value));
        let write = |value: &_, write: &mut dyn FnMut(Raw<&[u8]>)| {
            ToValue::<V>::with_value(value, |value| {
                write(self.encode(value)?.lent());
                Ok(())
            })
        };
        self.state.durably(|| self.state.bulk_load_values(entries, write))
    }
}
