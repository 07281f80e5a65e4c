//! Removing the first entry, or the last one.

use super::node::OwnedOf;
use super::search::Seen;
use super::{LeafEntries, PTree, TreeNode, TreeState};
use crate::entry::kind::{Kind, U64};
use crate::entry::raw::Raw;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Broken, Fault, Result};
use crate::medium::Medium;
use crate::node::{Interval, Keys, WordNode};
use std::borrow::Borrow;

/// An entry that was removed.
type Popped<N> = (OwnedOf<N>, Raw);

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Removes the first entry or the last one, and returns it.
    pub(crate) fn pop(&self, kind: Kind, is_first: bool) -> Result<Option<Popped<N>>, Fault> {
        let mut missed = None;
        loop {
            let Some((key, seen)) = self.end(is_first)? else { return Ok(None) };
            if let Some(value) = self.take_value(N::Keys::as_ref(key.borrow()), kind)? {
                return Ok(Some((key, value)));
            }
            // If another thread was faster, the leaf has another version now.
            if missed.replace(seen) == Some(seen) {
                return Err(not_found(seen).into());
            }
        }
    }

    /// The first key or the last one, and where it was seen.
    fn end(&self, is_first: bool) -> Result<Option<(OwnedOf<N>, Seen)>, Fault> {
        let (mut unread, mut leaf) = (Some(Interval::everything()), LeafEntries::default());
        while let Some(interval) = unread {
            // Started before the leaf is read.
            let reading = self.reading();
            let (rest, seen) = self.read_leaf(interval, is_first, &mut leaf)?;
            let end = if is_first { leaf.spots().next() } else { leaf.spots().next_back() };
            if let Some(spot) = end {
                return Ok(Some((spot.with_key(reading.as_ref(), ToOwned::to_owned)?, seen)));
            }
            unread = rest;
        }
        Ok(None)
    }
}

/// The damage of a leaf that has shown a key twice under one version, in between which a search did not find it there.
#[cold]
pub(super) fn not_found(Seen { at, .. }: Seen) -> Broken {
    Broken::new(at, "N3: an entry that is not found by its key")
}

impl<N: WordNode, M: Medium> PTree<N, M> {
    /// Removes the entry with the smallest key. Returns the entry.
    ///
    /// Each entry is returned to one thread only. If another thread inserts a smaller key meanwhile, that one may stay.
    ///
    /// # Errors
    ///
    /// As [`remove`](Self::remove).
    ///
    /// # Complexity
    ///
    /// As [`first_key_value`](Self::first_key_value), and then as `remove`; so often as other threads take the entry
    /// first, and once more.
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20)])?;
    /// assert_eq!(tree.pop_first()?, Some((1, 10)));
    /// assert_eq!(tree.pop_first()?, Some((2, 20)));
    /// assert_eq!(tree.pop_first()?, None);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<(u64, u64)>> {
        self.pop(true)
    }

    /// Removes the entry with the greatest key. Returns the entry. As [`pop_first`](Self::pop_first).
    ///
    /// # Errors
    ///
    /// As [`remove`](Self::remove).
    ///
    /// # Complexity
    ///
    /// As [`last_key_value`](Self::last_key_value), and then as `remove`.
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20)])?;
    /// assert_eq!(tree.pop_last()?, Some((2, 20)));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn pop_last(&self) -> Result<Option<(u64, u64)>> {
        self.pop(false)
    }

    fn pop(&self, is_first: bool) -> Result<Option<(u64, u64)>> {
        let popped = self.state.durably(|| self.state.pop(U64, is_first))?;
        Ok(popped.map(|(key, value)| (key, value.word())))
    }
}
