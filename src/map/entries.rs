//! The iterators over entries of a map.

use super::LeafFor;
#[cfg(doc)]
use super::Map;
use crate::codec::{Key, KeyView, Value, decode};
use crate::error::{Fault, Result};
use crate::medium::Medium;
use crate::pool::records::Reading;
use crate::tree::{Range, Spot, TreeNode, TreeState};
use std::marker::PhantomData;

/// The entries of a range of keys. See [`Map::range`].
pub struct Entries<'m, K: Key, V: Value, N: LeafFor<K>, M: Medium> {
    tree: &'m TreeState<N, M>,
    range: Range<'m, N, M>,
    /// Reads the records of the entries that come next from the left. It began before their leaf was read.
    front: Option<Reading<'m, M>>,
    /// Reads the records of the entries that come next from the right. It began before their leaf was read.
    back: Option<Reading<'m, M>>,
    types: Types<K, V>,
}

impl<'m, K: Key, V: Value, N: LeafFor<K>, M: Medium> Entries<'m, K, V, N, M> {
    pub(super) fn new(tree: &'m TreeState<N, M>, range: Range<'m, N, M>) -> Self {
        Self { tree, range, front: None, back: None, types: PhantomData }
    }

    /// These entries, for a caller that reads their keys only.
    pub(super) fn without_values(self) -> Self {
        Self { range: self.range.without_values(), ..self }
    }
}

type SpotOf<'l, K> = Spot<'l, <K as Key>::Form>;

/// Ties an iterator to its types without storing any of them.
type Types<K, V> = PhantomData<fn() -> (K, V)>;

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Entries<'_, K, V, N, M> {
    /// Applies `read` to the next entry in ascending order, without building a `K` or a `V`. Returns `None` after the
    /// last entry.
    ///
    /// `read` sees copies of key and value, which are on the stack if they are short (up to 1 KiB together). It may use
    /// the map. This and the methods of the iterator can be called in any order.
    ///
    /// # Errors
    ///
    /// As [`Map::get`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let pages: bristlecone::Map<String, Vec<u8>> = pool.map("pages")?;
    /// pages.insert("/about", b"<p>About us")?;
    /// pages.insert("/home", b"<p>Welcome")?;
    /// let (mut entries, mut length) = (pages.iter(), 0);
    /// while let Some(result) = entries.next_with(|path, page| length += path.as_bytes().len() + page.len()) {
    ///     result?;
    /// }
    /// assert_eq!(length, 32);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[inline]
    pub fn next_with<R>(&mut self, read: impl FnOnce(KeyView<'_, K>, V::View<'_>) -> R) -> Option<Result<R>> {
        let read = self.next_entry(|entry, reading| Self::view(entry, reading, read))?;
        Some(self.tree.named(read))
    }

    /// Applies `read` to the next entry in descending order, without building a `K` or a `V`. Returns `None` after the
    /// last entry. See [`next_with`](Self::next_with).
    ///
    /// # Errors
    ///
    /// As [`Map::get`].
    pub fn next_back_with<R>(&mut self, read: impl FnOnce(KeyView<'_, K>, V::View<'_>) -> R) -> Option<Result<R>> {
        let read = self.next_entry_back(|entry, reading| Self::view(entry, reading, read))?;
        Some(self.tree.named(read))
    }

    #[inline]
    fn view<R>(
        entry: SpotOf<'_, K>,
        reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(KeyView<'_, K>, V::View<'_>) -> R,
    ) -> Result<R, Fault> {
        entry.with_entry(reading, V::KIND, |key, value| read(KeyView::new(key), V::view(value)))
    }

    /// Applies `read` to the next entry from the left.
    #[inline]
    pub(super) fn next_entry<R>(
        &mut self,
        read: impl FnOnce(SpotOf<'_, K>, Option<&Reading<'_, M>>) -> Result<R, Fault>,
    ) -> Option<Result<R, Fault>> {
        let (tree, front) = (self.tree, &mut self.front);
        let entry = self.range.next_with(|| begin(tree, front));
        // Either reading will do: the one that began before this entry's leaf was read is still held.
        let Some(entry) = entry else { return self.end() };
        let result = read(entry, self.front.as_ref().or(self.back.as_ref()));
        self.forget();
        Some(result)
    }

    /// Applies `read` to the next entry from the right.
    fn next_entry_back<R>(
        &mut self,
        read: impl FnOnce(SpotOf<'_, K>, Option<&Reading<'_, M>>) -> Result<R, Fault>,
    ) -> Option<Result<R, Fault>> {
        let (tree, back) = (self.tree, &mut self.back);
        let entry = self.range.next_back_with(|| begin(tree, back));
        let Some(entry) = entry else { return self.end() };
        let result = read(entry, self.front.as_ref().or(self.back.as_ref()));
        self.forget();
        Some(result)
    }

    /// Ends the readings whose entries are used up.
    #[inline]
    fn forget(&mut self) {
        let (front, back) = self.range.used_up();
        if front {
            self.front = None;
        }
        if back {
            self.back = None;
        }
    }

    /// The end of the range. A leaf that cannot be read ends it, too: the caller must not take that for the end.
    #[cold]
    fn end<R>(&mut self) -> Option<Result<R, Fault>> {
        self.forget();
        self.range.broken().map(|broken| Err(broken.into()))
    }

    pub(super) fn decode(
        tree: &TreeState<N, M>,
        entry: SpotOf<'_, K>,
        reading: Option<&Reading<'_, M>>,
    ) -> Result<(K, V), Fault> {
        let (key, value) = entry.with_stored(reading, V::KIND, |key| K::decode(key))?;
        Ok((key, decode(value, || tree.name())?))
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Iterator for Entries<'_, K, V, N, M> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let tree = self.tree;
        let entry = self.next_entry(|entry, reading| Self::decode(tree, entry, reading))?;
        Some(tree.named(entry))
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> DoubleEndedIterator for Entries<'_, K, V, N, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let tree = self.tree;
        let entry = self.next_entry_back(|entry, reading| Self::decode(tree, entry, reading))?;
        Some(tree.named(entry))
    }
}

/// The keys of a range. See [`Map::keys`].
pub struct Keys<'m, K: Key, V: Value, N: LeafFor<K>, M: Medium>(pub(super) Entries<'m, K, V, N, M>);

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Keys<'_, K, V, N, M> {
    fn decode(entry: SpotOf<'_, K>, reading: Option<&Reading<'_, M>>) -> Result<K, Fault> {
        entry.with_key(reading, |key| K::decode(key))
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Iterator for Keys<'_, K, V, N, M> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        loop {
            let key = self.0.next_entry(Self::decode)?;
            if let Some(key) = self.0.tree.readable(key) {
                return Some(key);
            }
        }
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> DoubleEndedIterator for Keys<'_, K, V, N, M> {
    fn next_back(&mut self) -> Option<K> {
        loop {
            let key = self.0.next_entry_back(Self::decode)?;
            if let Some(key) = self.0.tree.readable(key) {
                return Some(key);
            }
        }
    }
}

/// The values of a range, in the order of their keys. See [`Map::values`].
pub struct Values<'m, K: Key, V: Value, N: LeafFor<K>, M: Medium>(pub(super) Entries<'m, K, V, N, M>);

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Values<'_, K, V, N, M> {
    fn decode(tree: &TreeState<N, M>, entry: SpotOf<'_, K>, reading: Option<&Reading<'_, M>>) -> Result<V, Fault> {
        let ((), value) = entry.with_stored(reading, V::KIND, |_key| ())?;
        decode(value, || tree.name())
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Iterator for Values<'_, K, V, N, M> {
    type Item = Result<V>;

    fn next(&mut self) -> Option<Result<V>> {
        let tree = self.0.tree;
        let value = self.0.next_entry(|entry, reading| Self::decode(tree, entry, reading))?;
        Some(tree.named(value))
    }
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> DoubleEndedIterator for Values<'_, K, V, N, M> {
    fn next_back(&mut self) -> Option<Result<V>> {
        let tree = self.0.tree;
        let value = self.0.next_entry_back(|entry, reading| Self::decode(tree, entry, reading))?;
        Some(tree.named(value))
    }
}

/// Starts a new reading of records. What the previous one kept may be used again.
fn begin<'m, N: TreeNode, M: Medium>(tree: &'m TreeState<N, M>, reading: &mut Option<Reading<'m, M>>) {
    *reading = None;
    *reading = tree.reading().map(Reading::staying);
}
