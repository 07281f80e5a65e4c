//! Removing several entries, or the first one or the last one.

use super::{LeafFor, Map, encoded_range};
use crate::codec::{Key, KeyView, Value};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::medium::Medium;
use std::borrow::Borrow;
use std::ops::RangeBounds;

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Map<K, V, N, M> {
    /// Removes all entries of a range of keys, and their records. Returns how many there were.
    ///
    /// It goes from leaf to leaf, and locks one at a time. Other threads see all entries of a leaf go at once, and
    /// entries of different leaves one leaf after the other. What they insert meanwhile may go or stay.
    ///
    /// # Errors
    ///
    /// As [`PTree::remove_range`](crate::PTree::remove_range).
    ///
    /// # Panics
    ///
    /// As [`range`](Self::range).
    ///
    /// # Complexity
    ///
    /// As [`PTree::remove_range`](crate::PTree::remove_range), with byte strings as keys, too: one search and one fence
    /// for each leaf, and what merging takes.
    ///
    /// # Crash consistency
    ///
    /// Durable when it returns. In flight at a crash: **any part** of the entries is gone; each one whole or not at
    /// all.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let log: bristlecone::Map<(u64, u32), String> = pool.map("log")?; // by second and number
    /// log.insert_batch(&[((1, 1), "boot"), ((1, 2), "ready"), ((5, 1), "halt")])?;
    /// assert_eq!(log.remove_range(..(5, 0))?, 2);
    /// assert_eq!(log.first_key_value()?.unwrap().1, "halt");
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn remove_range<'k>(&self, range: impl RangeBounds<K::Borrowed<'k>>) -> Result<u64> {
        let interval = encoded_range::<K, N, M>(&self.state, range).into_unread();
        self.state.durably(|| self.state.remove_range(interval))
    }

    /// Removes the entries that `keep` refuses, and their records. Returns how many. Keys come in ascending order.
    ///
    /// `keep` sees copies of key and value, which are on the stack if they are short (up to 1 KiB together). It is
    /// called without any lock: it may be slow, may use this map, and may panic. An entry is removed only with the
    /// value that `keep` has seen: if another thread changes it meanwhile, `keep` is called again with the new one. The
    /// guarantees of [`range`](Self::range) while other threads write hold for what `keep` sees; and until all entries
    /// of a leaf were seen, records that are replaced or removed meanwhile keep their space.
    ///
    /// # Errors
    ///
    /// As [`PTree::remove_range`](crate::PTree::remove_range).
    ///
    /// # Panics
    ///
    /// If `keep` does. What it has refused in leaves before that is removed.
    ///
    /// # Complexity
    ///
    /// As [`PTree::retain`](crate::PTree::retain), and all records are read.
    ///
    /// # Crash consistency
    ///
    /// As [`remove_range`](Self::remove_range).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let pages: bristlecone::Map<String, Vec<u8>> = pool.map("pages")?;
    /// pages.insert_batch(&[("/about", b"<p>About us".to_vec()), ("/draft", vec![])])?;
    /// assert_eq!(pages.retain(|path, page| path.as_bytes() != b"/draft" && !page.is_empty())?, 1);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(KeyView<'_, K>, V::View<'_>) -> bool) -> Result<u64> {
        self.state.durably(|| {
            self.state.retain(|entry, reading| {
                entry.with_entry(reading, V::KIND, |key, value| keep(KeyView::new(key), V::view(value)))
            })
        })
    }

    /// Removes the entry with the smallest key. Returns the entry.
    ///
    /// Each entry is returned to one thread only. If another thread inserts a smaller key meanwhile, that one may stay.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    ///
    /// # Complexity
    ///
    /// As [`first_key_value`](Self::first_key_value), and then as [`take`](Self::take); so often as other threads take
    /// the entry first, and once more.
    ///
    /// # Crash consistency
    ///
    /// As [`remove`](Self::remove).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let jobs: bristlecone::Map<(u8, u64), String> = pool.map("jobs")?; // by priority and number
    /// jobs.insert_batch(&[((2, 1), "sweep"), ((1, 2), "cook")])?;
    /// assert_eq!(jobs.pop_first()?, Some(((1, 2), "cook".to_owned())));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<(K, V)>> {
        self.pop(true)
    }

    /// Removes the entry with the greatest key. Returns the entry. As [`pop_first`](Self::pop_first).
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    ///
    /// # Complexity
    ///
    /// As [`last_key_value`](Self::last_key_value), and then as [`take`](Self::take).
    ///
    /// # Crash consistency
    ///
    /// As [`remove`](Self::remove).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert_batch(&[(1, "one"), (2, "two")])?;
    /// assert_eq!(names.pop_last()?, Some((2, "two".to_owned())));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn pop_last(&self) -> Result<Option<(K, V)>> {
        self.pop(false)
    }

    fn pop(&self, is_first: bool) -> Result<Option<(K, V)>> {
        let popped = self.state.durably(|| self.state.pop(V::KIND, is_first))?;
        let entry = |(key, value): (_, _)| Ok((K::decode(Borrow::borrow(&key)), self.decode(value)?));
        self.state.named(popped.map(entry).transpose())
    }
}
