//! Iterators that own a handle of their map.

use super::{Entries, LeafFor, Map, encoded_range};
use crate::codec::{Key, Value};
use crate::error::Result;
use crate::medium::Medium;
use crate::tree::Owned;
use std::fmt;
use std::ops::RangeBounds;

/// The entries of a range of keys, with a handle of their map. See [`Map::into_range`].
pub struct IntoEntries<K: Key, V: Value, N: LeafFor<K>, M: Medium>(Owned<N, M, Result<(K, V)>>);

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> fmt::Debug for IntoEntries<K, V, N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoEntries").field("map", &self.0.name()).finish_non_exhaustive()
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Iterator for IntoEntries<K, V, N, M> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Result<(K, V)>> {
        self.0.next()
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> DoubleEndedIterator for IntoEntries<K, V, N, M> {
    fn next_back(&mut self) -> Option<Result<(K, V)>> {
        self.0.next_back()
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Map<K, V, N, M> {
    /// The entries of a range of keys, as [`range`](Self::range), in an iterator that owns this handle: another thread
    /// may go on with it.
    ///
    /// It has the keys and values of one leaf in memory. Unlike the iterator of `range`, it keeps no space in the pool
    /// from being used again while it is put aside.
    ///
    /// # Panics
    ///
    /// As [`range`](Self::range).
    ///
    /// # Complexity
    ///
    /// One search for each leaf, whose entries are then decoded, up to 39. After a crash, as [`range`](Self::range).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert_batch(&[(1, "one"), (2, "two"), (3, "three")])?;
    /// let entries = names.clone().into_range(2..);
    /// let read = std::thread::spawn(move || entries.collect::<Result<Vec<_>, _>>());
    /// assert_eq!(read.join().unwrap()?, [(2, "two".to_owned()), (3, "three".to_owned())]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn into_range<'k>(self, range: impl RangeBounds<K::Borrowed<'k>>) -> IntoEntries<K, V, N, M> {
        let unread = encoded_range::<K, N, M>(&self.state, range).into_unread();
        IntoEntries(Owned::new(self.state, unread, |tree, entry, reading| {
            Some(tree.named(entry.and_then(|entry| Entries::<K, V, N, M>::decode(tree, entry, reading))))
        }))
    }
}

/// All entries, in ascending order, as [`Map::iter`].
impl<'m, K: Key, V: Value, N: LeafFor<K>, M: Medium> IntoIterator for &'m Map<K, V, N, M> {
    type Item = Result<(K, V)>;
    type IntoIter = Entries<'m, K, V, N, M>;

    fn into_iter(self) -> Entries<'m, K, V, N, M> {
        self.iter()
    }
}

/// All entries, in ascending order, as [`Map::into_range`]. They stay in the map: this consumes the handle.
impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> IntoIterator for Map<K, V, N, M> {
    type Item = Result<(K, V)>;
    type IntoIter = IntoEntries<K, V, N, M>;

    fn into_iter(self) -> IntoEntries<K, V, N, M> {
        self.into_range(..)
    }
}
