//! Changes that depend on the value before, or return it, as typed maps make them: values compare by their encodings.

use super::pop::not_found;
use super::{Before, Change, Form, PTree, TreeNode, TreeState};
use crate::entry::kind::{Kind, U64};
use crate::entry::raw::Raw;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use crate::medium::Medium;
use crate::node::{RefOf, WordNode};
use crate::pool::patience::Patience;

/// What came of an exchange: as an error, the value that the key had instead.
type Exchanged = Result<(), Option<Raw>>;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Sets the value of a key from `current` to `new`, where `None` means that the key is not there.
    pub(crate) fn exchange(
        &self,
        key: RefOf<'_, N>,
        kind: Kind,
        current: Option<Raw<&[u8]>>,
        new: Option<Raw<&[u8]>>,
    ) -> Result<Exchanged, Fault> {
        if self.leaves.records.is_some() {
            return self.exchange_record(key, kind, current, new);
        }
        let current = current.map(Raw::word);
        let new = new.map(|value| self.write(key, value)).transpose()?.map(|(word, _)| word);
        let old = self.change(key, |old| if old == current { Change::to(new) } else { Change::Keep })?;
        Ok(if old == current { Ok(()) } else { Err(old.map(Raw::Word)) })
    }

    /// Sets the value of a key from `current` to `new`, in a tree whose values are records. The records are compared
    /// while no lock is held: as long as a reading lasts, a slot with the same word points to the same record.
    fn exchange_record(
        &self,
        key: RefOf<'_, N>,
        kind: Kind,
        current: Option<Raw<&[u8]>>,
        new: Option<Raw<&[u8]>>,
    ) -> Result<Exchanged, Fault> {
        let (mut written, mut missed, mut patience) = (None, None, Patience::default());
        loop {
            // Started before the slot is read.
            let reading = self.reading();
            let (word, seen) = self.get_seen(key)?;
            let is_current = match (word, current) {
                (Some(word), Some(current)) => {
                    N::Keys::with_entry((0, word), reading.as_ref(), kind, |_, value| value == current)?
                }
                (word, current) => word.is_none() && current.is_none(),
            };
            if !is_current {
                let found = word.map(|word| N::Keys::stored_value(word, reading.as_ref(), kind));
                return Ok(Err(found.transpose()?));
            }
            if let (Some(value), None) = (new, &written) {
                // Without a reading, which would keep records that are retired: this may wait for their space.
                drop(reading);
                written = Some(self.write_durably(key, value)?);
                continue;
            }
            let put = written.as_ref().map(|(word, _)| *word);
            let mut is_made = false;
            let old = self.change_in(key, |_, old| {
                is_made = old == word;
                if is_made { Change::to(put) } else { Change::Keep }
            });
            drop(reading);
            let old = match old {
                Ok(old) => old,
                Err(fault) => {
                    // Meanwhile, the same word may become that of another record: it is read again.
                    self.pool.wait_for_space(&mut patience, fault)?;
                    continue;
                }
            };
            if is_made {
                written.into_iter().for_each(|(_, written)| written.keep());
                self.retire_old(key, old);
                return Ok(Ok(()));
            }
            // If another thread was faster, the leaf has another version now.
            if missed.replace(seen) == Some(seen) {
                return Err(not_found(seen).into());
            }
        }
    }

    /// Changes the value of a key to what `next` makes of it. Returns the value before.
    ///
    /// `next` is called without any lock. It passes the new value on, and is called again if the entry has changed
    /// meanwhile.
    pub(crate) fn update_with(
        &self,
        key: RefOf<'_, N>,
        kind: Kind,
        mut next: impl FnMut(Option<Raw>, &mut dyn FnMut(Option<Raw<&[u8]>>)) -> Result<(), Fault>,
    ) -> Result<Option<Raw>, Fault> {
        let mut old = N::Keys::get_with(self, key, kind, |value| value.owned())?;
        loop {
            let mut result = Ok(Ok(()));
            let current = old.as_ref().map(Raw::lent);
            next(old.clone(), &mut |new| result = self.exchange(key, kind, current, new))?;
            match result? {
                Ok(()) => return Ok(old),
                Err(now) => old = now,
            }
        }
    }

    /// Sets the value of a key. Returns the value that it had.
    pub(crate) fn replace_value(&self, key: RefOf<'_, N>, kind: Kind, value: Raw<&[u8]>) -> Result<Option<Raw>, Fault> {
        let old = self.put_written(key, self.write_durably(key, value)?)?;
        self.value_before(key, kind, old)
    }

    /// Removes a key. Returns the value that it had.
    pub(crate) fn take_value(&self, key: RefOf<'_, N>, kind: Kind) -> Result<Option<Raw>, Fault> {
        let old = self.change_in(key, |_, _| Change::Remove)?;
        self.value_before(key, kind, old)
    }

    /// The value that a key had before a change, whose record is then retired.
    fn value_before(&self, key: RefOf<'_, N>, kind: Kind, old: Before) -> Result<Option<Raw>, Fault> {
        // No slot points to the record, and nobody else retires it.
        let reading = self.reading();
        let value = old.word.map(|word| N::Keys::stored_value(word, reading.as_ref(), kind)).transpose()?;
        // Its pin would keep the record from ripening.
        drop(reading);
        self.retire_old(key, old);
        Ok(value)
    }
}

impl<N: WordNode, M: Medium> PTree<N, M> {
    /// Changes the value of a key to what `next` makes of it, where `None` means that the key is not there. Returns the
    /// value before, as [`AtomicU64::fetch_update`](std::sync::atomic::AtomicU64::fetch_update) does.
    ///
    /// `next` is called without any lock: it may be slow, may use this tree, and may panic, and then nothing has
    /// changed. If another thread changes the value meanwhile, `next` is called again with that. What `next` returns
    /// takes the place of exactly the value that it was given. A value that was changed and changed back counts as the
    /// same.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Complexity
    ///
    /// As [`get`](Self::get), and then as `insert`, `update` or `remove`, whichever takes place; so often as other
    /// threads change the value meanwhile, and once more.
    ///
    /// # Crash consistency
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// let count = |n: Option<u64>| Some(n.unwrap_or(0) + 1);
    /// assert_eq!(tree.update_with(7, count)?, None);
    /// assert_eq!(tree.update_with(7, count)?, Some(1));
    /// assert_eq!(tree.update_with(7, |n| n.filter(|&n| n > 2))?, Some(2)); // removed
    /// assert_eq!(tree.get(7), None);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn update_with(&self, key: u64, mut next: impl FnMut(Option<u64>) -> Option<u64>) -> Result<Option<u64>> {
        let old = self.state.durably(|| {
            self.state.update_with(key, U64, |old, put| {
                put(next(old.map(Raw::word)).map(Raw::Word));
                Ok(())
            })
        })?;
        Ok(old.map(Raw::word))
    }
}
