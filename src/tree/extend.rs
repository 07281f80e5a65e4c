//! Inserting what an iterator yields, batch by batch; and batches of typed maps.

use super::Form;
use super::node::OwnedOf;
use super::values::WrittenRecord;
use super::{PTree, TreeNode, TreeState};
use crate::entry::raw::Raw;
use crate::error::{Fault, Result};
use crate::medium::{Medium, Step};
use crate::node::{Keys, WordNode};
use std::borrow::Borrow;

/// How many entries are drawn before they are inserted.
pub(crate) const DRAWN: usize = 1024;

/// How many records are written before a fence.
const AT_ONCE: usize = 32;

/// A key, the word for its slot, and the record that the word points to, if any.
type ReadyWrite<'t, N, M> = (OwnedOf<N>, u64, WrittenRecord<'t, N, M>);

/// Entries on their way into a tree whose values are records: these are durable before the first slot changes.
pub(crate) struct Group<'t, N: TreeNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    ready: Vec<ReadyWrite<'t, N, M>>,
    inserted: u64,
}

impl<'t, N: TreeNode<Keys: Form>, M: Medium> Group<'t, N, M> {
    pub(crate) fn new(tree: &'t TreeState<N, M>) -> Self {
        Self { tree, ready: Vec::with_capacity(AT_ONCE), inserted: 0 }
    }

    /// Sets the value of a key, at the latest when the group is finished.
    pub(crate) fn push(&mut self, key: OwnedOf<N>, value: Raw<&[u8]>) -> Result<(), Fault> {
        let tree = self.tree;
        let (word, written) = match N::Keys::write(tree, N::Keys::as_ref(key.borrow()), value, false) {
            // The records that those at hand are to replace have space; and none at hand takes any while this waits.
            Err(fault) if fault.is_out_of_space() => {
                self.write_group()?;
                tree.write(N::Keys::as_ref(key.borrow()), value)?
            }
            written => written?,
        };
        self.ready.push((key, word, written));
        if self.ready.len() >= AT_ONCE { self.write_group() } else { Ok(()) }
    }

    /// Changes the slots, in the order in which the keys came. Records to which none points after an error are given
    /// back.
    fn write_group(&mut self) -> Result<(), Fault> {
        let tree = self.tree;
        if self.ready.iter().any(|(.., written)| written.is_record()) {
            tree.medium().fence(Step::RecordWrite);
        }
        for (key, word, written) in self.ready.drain(..) {
            let key = N::Keys::as_ref(key.borrow());
            let old = tree.put_written(key, (word, written))?;
            self.inserted += u64::from(old.word.is_none());
            tree.retire_old(key, old);
        }
        Ok(())
    }

    /// Inserts what is left. Returns how many keys were new.
    pub(crate) fn finish(mut self) -> Result<u64, Fault> {
        self.write_group()?;
        Ok(self.inserted)
    }
}

/// Passes what an iterator yields to `insert`, up to [`DRAWN`] items at a time. Returns the sum of what that returns.
pub(crate) fn in_batches<T>(
    items: impl IntoIterator<Item = T>,
    mut insert: impl FnMut(&[T]) -> Result<u64>,
) -> Result<u64> {
    // An iterator may go on after its end.
    let (mut items, mut inserted) = (items.into_iter().fuse(), 0);
    let mut batch = Vec::with_capacity(items.size_hint().0.min(DRAWN));
    loop {
        batch.extend(items.by_ref().take(DRAWN));
        if batch.is_empty() {
            return Ok(inserted);
        }
        inserted += insert(&batch)?;
        batch.clear();
    }
}

impl<N: WordNode, M: Medium> PTree<N, M> {
    /// Inserts what an iterator yields. Returns how many keys are new. Of equal keys, the last one counts.
    ///
    /// Draws up to 1024 entries, inserts them as one [batch](Self::insert_batch), draws the next ones, and so on. No
    /// lock is held while it draws: the iterator may use this tree.
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
    /// Durable when it returns. In flight at a crash: all batches before one, and **any part** of that one; each entry
    /// is there whole or not at all.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// assert_eq!(tree.extend((0..5000).map(|n| (n, n * n)))?, 5000);
    /// assert_eq!(tree.extend([(7, 0), (5000, 1)])?, 1);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn extend(&self, entries: impl IntoIterator<Item = (u64, u64)>) -> Result<u64> {
        in_batches(entries, |batch| self.insert_batch(batch))
    }
}
