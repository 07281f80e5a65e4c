//! Removing the first entry, or the last one.

use super::node::OwnedOf;
use super::{MapKeys, PTree, Range, TreeNode, TreeState};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use crate::kind::{Kind, U64};
use crate::medium::Medium;
use crate::node::{Keys, WordNode};
use crate::stored::Stored;
use std::borrow::Borrow;

/// An entry that was removed.
type Popped<N> = (OwnedOf<N>, Stored);

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Removes the first entry or the last one, and returns it.
    pub(crate) fn pop(&self, kind: Kind, is_first: bool) -> Result<Option<Popped<N>>, Fault> {
        loop {
            // Started before the leaf is read.
            let reading = self.reading();
            let mut all = Range::all(self);
            let Some(entry) = (if is_first { all.next() } else { all.next_back() }) else {
                return all.broken().map_or(Ok(None), |broken| Err(broken.into()));
            };
            let key = N::Keys::with_key(entry, reading.as_ref(), ToOwned::to_owned)?;
            drop(reading);
            // Another thread may have been faster.
            if let Some(value) = self.take_value(N::Keys::as_ref(key.borrow()), kind)? {
                return Ok(Some((key, value)));
            }
        }
    }
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
    /// As [`first_key_value`](Self::first_key_value), and then as `remove`; so often as other threads take the entry first,
    /// and once more.
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
        let popped = self.state.acknowledged(self.state.pop(U64, is_first))?;
        Ok(popped.map(|(key, value)| (key, value.word())))
    }
}
