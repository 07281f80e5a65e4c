//! Values as the typed map stores them: words in their slots, or records that slots point to.

use super::keys::TreeKeys;
use super::{Change, TreeNode, TreeState};
use crate::codec::{Encoded, Kind, Stored};
use crate::error::{ErrorKind, Fault};
use crate::medium::Medium;
use crate::node::{Entry, Words};
use crate::pool::record::RECORD_MAX;
use crate::pool::records::Reading;

/// What maps need to know of the keys of their trees.
pub trait MapKeys: TreeKeys {
    /// A key that was read.
    type Key: ?Sized;

    /// The value of a key, of this kind.
    fn value<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        key: Self::Ref<'_>,
        kind: Kind,
    ) -> Result<Option<Stored>, Fault>;

    /// Applies `read` to the value of a key.
    fn value_with<N: TreeNode<Keys = Self>, M: Medium, R>(
        tree: &TreeState<N, M>,
        key: Self::Ref<'_>,
        kind: Kind,
        read: impl FnOnce(Encoded<'_>) -> R,
    ) -> Result<Option<R>, Fault>;

    /// The values of keys, in their order.
    fn values<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        keys: &[Self::Ref<'_>],
        kind: Kind,
        out: impl FnMut(Result<Option<Stored>, Fault>),
    );

    /// Sets the value of a key if `wanted` accepts what its slot holds. Returns true if the key was there.
    fn put<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        key: Self::Ref<'_>,
        value: Encoded<'_>,
        wanted: fn(Option<u64>) -> bool,
    ) -> Result<bool, Fault>;

    /// Removes a key and the record that its slot points to. Returns true if the key was there.
    fn take<N: TreeNode<Keys = Self>, M: Medium>(tree: &TreeState<N, M>, key: Self::Ref<'_>) -> Result<bool, Fault>;

    /// Fills an empty tree in strictly ascending order of keys. Returns the number of entries.
    fn bulk_load_values<'v, N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        entries: impl Iterator<Item = (Self::Owned, Encoded<'v>)>,
    ) -> Result<u64, Fault>;

    /// Applies `read` to the key of an entry, which was read after `reading` had begun.
    fn with_key<N: TreeNode<Keys = Self>, M: Medium, R>(
        entry: Entry,
        reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(&Self::Key) -> R,
    ) -> Result<R, Fault>;

    /// Applies `read` to key and value of an entry, which was read after `reading` had begun.
    fn with_entry<N: TreeNode<Keys = Self>, M: Medium, R>(
        entry: Entry,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&Self::Key, Stored) -> R,
    ) -> Result<R, Fault>;
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Starts a reading of records; `None` if the values are in their slots.
    #[inline]
    pub(crate) fn reading(&self) -> Option<Reading<'_, M>> {
        Some(self.leaves.records.as_ref()?.reading(&self.pool.medium, &self.pool.segments))
    }

    /// The error for a value that is not of the tree's kind.
    #[cold]
    fn is_of(&self, found: &str, given: &str) -> Fault {
        ErrorKind::KindMismatch { tree: self.name.clone(), found: found.to_owned(), expected: given.to_owned() }.into()
    }

    /// Retries what failed with `fault`, if it wanted space that is about to come back from records.
    #[cold]
    pub(super) fn with_space<T>(&self, fault: Fault, attempt: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
        match &self.leaves.records {
            None => Err(fault),
            Some(records) => records.with_space(&self.pool.medium, &self.pool.segments, fault, attempt),
        }
    }

    /// Retires records that slots, durably, no longer point to.
    pub(super) fn retire(&self, records: impl IntoIterator<Item = u64>) {
        if let Some(of_tree) = &self.leaves.records {
            of_tree.retire(&self.pool.medium, &self.pool.segments, records);
        }
    }

    /// Gives back a record to which no slot ever pointed.
    fn discard(&self, record: u64) {
        if let Some(records) = &self.leaves.records
            && self.pool.owned().is_ok()
        {
            records.discard(&self.pool.medium, &self.pool.segments, record);
        }
    }
}

impl<N: TreeNode<Keys = Words>, M: Medium> TreeState<N, M> {
    /// The value behind a slot's word, which was read after `reading` had begun.
    #[inline]
    fn stored(word: u64, reading: Option<&Reading<'_, M>>) -> Result<Stored, Fault> {
        match reading {
            None => Ok(Stored::Word(word)),
            Some(reading) => Ok(Stored::Bytes(reading.reader.read(word)?)),
        }
    }

    /// The word for a slot, and the record that it points to, if any. The record is durable.
    fn write(&self, value: Encoded<'_>) -> Result<(u64, Written<'_, N, M>), Fault> {
        let none = Written { by: self, record: None };
        let (bytes, records) = match (value, &self.leaves.records) {
            (Encoded::Word(word), None) => return Ok((word, none)),
            (Encoded::Bytes(bytes), Some(records)) => (bytes, records),
            // The type does not encode what its kind says. Its word would be taken for a record, perhaps for that of
            // another slot.
            (Encoded::Word(_), Some(_)) => return Err(self.is_of("bytes", "a value in its slot")),
            (Encoded::Bytes(_), None) => return Err(self.is_of("values in their slots", "bytes")),
        };
        self.pool.owned()?;
        let len = bytes.len() as u64;
        if len > RECORD_MAX {
            return Err(ErrorKind::RecordTooLong { len, limit: RECORD_MAX }.into());
        }
        let record = records.write(&self.pool.medium, &self.pool.segments, &[bytes])?;
        Ok((record, Written { by: self, record: Some(record) }))
    }
}

impl MapKeys for Words {
    type Key = u64;

    fn value<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        key: u64,
        _kind: Kind,
    ) -> Result<Option<Stored>, Fault> {
        // Started before the slot is read: the record that the slot points to stays as long as this reader does.
        let reading = tree.reading();
        tree.get(key).map(|word| TreeState::<N, M>::stored(word, reading.as_ref())).transpose()
    }

    fn value_with<N: TreeNode<Keys = Self>, M: Medium, R>(
        tree: &TreeState<N, M>,
        key: u64,
        _kind: Kind,
        read: impl FnOnce(Encoded<'_>) -> R,
    ) -> Result<Option<R>, Fault> {
        let reading = tree.reading();
        let Some(word) = tree.get(key) else { return Ok(None) };
        match reading {
            None => Ok(Some(read(Encoded::Word(word)))),
            Some(reading) => Ok(Some(reading.with(word, |bytes| read(Encoded::Bytes(bytes)))?)),
        }
    }

    fn values<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        keys: &[u64],
        _kind: Kind,
        mut out: impl FnMut(Result<Option<Stored>, Fault>),
    ) {
        let reading = tree.reading();
        let stored = |word| TreeState::<N, M>::stored(word, reading.as_ref());
        tree.get_many_with(keys, |word| word, |found| out(found.map(stored).transpose()));
    }

    fn put<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        key: u64,
        value: Encoded<'_>,
        wanted: fn(Option<u64>) -> bool,
    ) -> Result<bool, Fault> {
        let (word, written) = tree.write(value)?;
        let mut is_stored = false;
        let mut change = || {
            tree.change(key, |old| {
                is_stored = wanted(old);
                if is_stored { Change::Put(word) } else { Change::Keep }
            })
        };
        let old = change().or_else(|fault| tree.with_space(fault, change))?;
        if is_stored {
            // The old record has no slot now, the new one has.
            written.keep();
            tree.retire(old);
        }
        Ok(old.is_some())
    }

    fn take<N: TreeNode<Keys = Self>, M: Medium>(tree: &TreeState<N, M>, key: u64) -> Result<bool, Fault> {
        let old = tree.change(key, |_| Change::Remove)?;
        tree.retire(old);
        Ok(old.is_some())
    }

    fn bulk_load_values<'v, N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        entries: impl Iterator<Item = (u64, Encoded<'v>)>,
    ) -> Result<u64, Fault> {
        let mut all = Vec::new();
        let loaded = tree.bulk_load(entries.map(|(key, value)| {
            let (word, written) = tree.write(value)?;
            all.push(written);
            Ok((key, word))
        }))?;
        all.into_iter().for_each(Written::keep);
        Ok(loaded)
    }

    #[inline]
    fn with_key<N: TreeNode<Keys = Self>, M: Medium, R>(
        (key, _): Entry,
        _reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(&u64) -> R,
    ) -> Result<R, Fault> {
        Ok(read(&key))
    }

    #[inline]
    fn with_entry<N: TreeNode<Keys = Self>, M: Medium, R>(
        (key, word): Entry,
        reading: Option<&Reading<'_, M>>,
        _kind: Kind,
        read: impl FnOnce(&u64, Stored) -> R,
    ) -> Result<R, Fault> {
        Ok(read(&key, TreeState::<N, M>::stored(word, reading)?))
    }
}

/// A record to which no slot points yet. It is given back if none ever will, because of an error or a panic of the
/// caller's iterator.
pub(super) struct Written<'t, N: TreeNode, M: Medium> {
    pub(super) by: &'t TreeState<N, M>,
    pub(super) record: Option<u64>,
}

impl<N: TreeNode, M: Medium> Written<'_, N, M> {
    /// The offset of the record; 0 if there is none.
    pub(super) fn at(&self) -> u64 {
        self.record.unwrap_or(0)
    }

    /// A slot points to the record now.
    pub(super) fn keep(mut self) {
        self.record = None;
    }
}

impl<N: TreeNode, M: Medium> Drop for Written<'_, N, M> {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            self.by.discard(record);
        }
    }
}
