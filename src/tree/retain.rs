//! Removing the entries that a closure does not want to keep.

use super::range::Unread;
use super::remove_range::FollowUp;
use super::search::Seen;
use super::{Change, Form, LeafEntries, PTree, Spot, TreeNode, TreeState};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use crate::medium::Medium;
use crate::node::{Entry, Interval, Keys, SplitInPlace, WordNode};
use crate::pool::records::Reading;
use std::borrow::Borrow;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Removes the entries that `keep` refuses, and their records. Returns how many.
    ///
    /// `keep` is called while no lock is held. An entry is removed only with the value that `keep` has seen.
    pub(crate) fn retain(
        &self,
        mut keep: impl FnMut(Spot<'_, N::Keys>, Option<&Reading<'_, M>>) -> Result<bool, Fault>,
    ) -> Result<u64, Fault> {
        let (mut removed, mut unread, mut leaf) = (0, Some(Interval::everything()), LeafEntries::default());
        let mut follow_up = FollowUp { tree: self, sparse: None };
        while let Some(interval) = unread {
            self.medium().pause();
            // Started before the leaf is read: while it lasts, a word names the same record.
            let reading = self.reading().map(Reading::staying);
            let (rest, seen) = self.read_leaf(interval.clone(), true, &mut leaf)?;
            let mut refused = Vec::new();
            for entry in leaf.spots() {
                if !keep(entry, reading.as_ref())? {
                    refused.push(entry.entry());
                }
            }
            let mut is_sparse = false;
            if !refused.is_empty() {
                self.may_change()?;
                match self.take_seen(&interval, seen, &refused)? {
                    Some(sparse) => {
                        removed += refused.len() as u64;
                        is_sparse = sparse;
                    }
                    None => {
                        for entry in refused {
                            removed += u64::from(self.remove_unless(entry, &leaf, reading.as_ref(), &mut keep)?);
                        }
                    }
                }
            }
            drop(reading);
            follow_up.left(is_sparse.then_some(interval));
            unread = rest;
        }
        Ok(removed)
    }

    /// Removes an entry of a leaf that `keep` has refused. If it has another value by now, asks again.
    ///
    /// Both looks at the value are under the lock, so only another thread can make it go on.
    fn remove_unless(
        &self,
        (slot, mut word): Entry,
        leaf: &LeafEntries<N::Keys>,
        reading: Option<&Reading<'_, M>>,
        mut keep: impl FnMut(Spot<'_, N::Keys>, Option<&Reading<'_, M>>) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        let key = N::Keys::with_key((slot, word), reading, ToOwned::to_owned)?;
        let key = N::Keys::as_ref(key.borrow());
        loop {
            let remove = || self.change_in(key, |_, old| if old == Some(word) { Change::Remove } else { Change::Keep });
            let old = remove().or_else(|fault| self.pool.with_space(fault, remove))?;
            match old.word {
                None => return Ok(false),
                Some(now) if now == word => {
                    self.retire_old(key, old);
                    return Ok(true);
                }
                Some(now) => word = now,
            }
            if keep(leaf.bounds.spot(&[(slot, word)], 0), reading)? {
                return Ok(false);
            }
        }
    }
}

impl<N: TreeNode<Ops: SplitInPlace>, M: Medium> TreeState<N, M> {
    /// Removes entries from the leaf in which they were seen, which owns the first key of the interval. Returns whether
    /// the leaf is sparse now. `None`: somebody has written to the leaf since, and nothing was removed.
    pub(super) fn take_seen_in_place(
        &self,
        interval: &Unread<N>,
        seen: Seen,
        refused: &[Entry],
    ) -> Result<Option<bool>, Fault> {
        let leaf = self.lock_owner(interval.first())?;
        let is_same = leaf.at == seen.at && leaf.was() == seen.version;
        Ok(is_same.then(|| self.remove_entries(leaf, refused.to_vec())))
    }
}

impl<N: WordNode, M: Medium> PTree<N, M> {
    /// Removes the entries that `keep` refuses. Returns how many. Keys come in ascending order.
    ///
    /// `keep` is called without any lock: it may be slow, may use this tree, and may panic. An entry is removed only
    /// with the value that `keep` has seen: if another thread changes it meanwhile, `keep` is called again with the new
    /// one. The guarantees of [`range`](Self::range) while other threads write hold for what `keep` sees.
    ///
    /// # Errors
    ///
    /// As [`remove_range`](Self::remove_range).
    ///
    /// # Panics
    ///
    /// If `keep` does. What it has refused in leaves before that is removed.
    ///
    /// # Complexity
    ///
    /// Reads all leaves. Each leaf that loses entries costs what it does in [`remove_range`](Self::remove_range). If
    /// others write to it meanwhile, or if it only ever grows, each entry costs a [`remove`](Self::remove).
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20), (3, 30)])?;
    /// assert_eq!(tree.retain(|key, _value| key % 2 == 1)?, 1);
    /// assert_eq!(tree.keys(..).collect::<Vec<_>>(), [1, 3]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(u64, u64) -> bool) -> Result<u64> {
        self.state.durably(|| {
            self.state.retain(|entry, _| {
                let (key, value) = entry.entry();
                Ok(keep(key, value))
            })
        })
    }
}
