//! Values as the typed map stores them: words in their slots, or records that slots point to.

use super::{Change, TreeNode, TreeState};
use crate::codec::{Encoded, Stored};
use crate::error::{ErrorKind, Fault};
use crate::medium::Medium;
use crate::node::WordNode;
use crate::pool::record::RECORD_MAX;
use crate::pool::records::Reading;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Starts a reading of records; `None` if the values are in their slots.
    #[inline]
    pub(crate) fn reading(&self) -> Option<Reading<'_, M>> {
        Some(self.leaves.records.as_ref()?.reading(&self.pool.medium, &self.pool.segments))
    }
}

impl<N: WordNode, M: Medium> TreeState<N, M> {
    /// The value of a key.
    pub(crate) fn value(&self, key: u64) -> Result<Option<Stored>, Fault> {
        // Started before the slot is read: the record that the slot points to stays as long as this reader does.
        let reading = self.reading();
        self.get(key).map(|word| self.stored(word, reading.as_ref())).transpose()
    }

    /// The value behind a slot's word, which was read after `reading` had begun.
    pub(crate) fn stored(&self, word: u64, reading: Option<&Reading<'_, M>>) -> Result<Stored, Fault> {
        match reading {
            None => Ok(Stored::Word(word)),
            Some(reading) => Ok(Stored::Bytes(reading.reader.read(word)?)),
        }
    }

    /// Applies `read` to the value of a key.
    pub(crate) fn value_with<R>(&self, key: u64, read: impl FnOnce(Encoded<'_>) -> R) -> Result<Option<R>, Fault> {
        let reading = self.reading();
        let Some(word) = self.get(key) else { return Ok(None) };
        match reading {
            None => Ok(Some(read(Encoded::Word(word)))),
            Some(reading) => Ok(Some(reading.with(word, |bytes| read(Encoded::Bytes(bytes)))?)),
        }
    }

    /// Sets the value of a key if `wanted` accepts what its slot holds. Returns what it held.
    pub(crate) fn put(
        &self,
        key: u64,
        value: Encoded<'_>,
        wanted: fn(Option<u64>) -> bool,
    ) -> Result<Option<u64>, Fault> {
        let (word, record) = self.write(value)?;
        let mut stored = false;
        let mut change = || {
            self.change(key, |old| {
                stored = wanted(old);
                if stored { Change::Put(word) } else { Change::Keep }
            })
        };
        let old = match change().or_else(|fault| self.with_space(fault, change)) {
            Ok(old) => old,
            Err(fault) => {
                self.discard(record);
                return Err(fault);
            }
        };
        // Either the old record or the new one has no slot now.
        if stored {
            self.retire(old)
        } else {
            self.discard(record)
        }
        Ok(old)
    }

    /// Removes a key and the record that its slot points to. Returns true if the key was there.
    pub(crate) fn take(&self, key: u64) -> Result<bool, Fault> {
        let old = self.change(key, |_| Change::Remove)?;
        self.retire(old);
        Ok(old.is_some())
    }

    /// Fills an empty tree in strictly ascending order of keys. Returns the number of entries.
    pub(crate) fn bulk_load_values<'v>(&self, entries: impl Iterator<Item = (u64, Encoded<'v>)>) -> Result<u64, Fault> {
        let mut written = Written { by: self, records: Vec::new() };
        let loaded = self.bulk_load(entries.map(|(key, value)| {
            let (word, record) = self.write(value)?;
            written.records.extend(record);
            Ok((key, word))
        }))?;
        written.records.clear();
        Ok(loaded)
    }

    /// The word for a slot, and the record that it points to, if any. The record is durable.
    fn write(&self, value: Encoded<'_>) -> Result<(u64, Option<u64>), Fault> {
        let (bytes, records) = match (value, &self.leaves.records) {
            (Encoded::Word(word), None) => return Ok((word, None)),
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
        Ok((record, Some(record)))
    }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// The error for a value that is not of the tree's kind.
    #[cold]
    fn is_of(&self, found: &str, given: &str) -> Fault {
        ErrorKind::KindMismatch { tree: self.name.clone(), found: found.to_owned(), expected: given.to_owned() }.into()
    }

    /// Retries what failed with `fault`, if it wanted space that is about to come back from records.
    #[cold]
    fn with_space<T>(&self, fault: Fault, attempt: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
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
    fn discard(&self, record: Option<u64>) {
        if let (Some(records), Some(record)) = (&self.leaves.records, record)
            && self.pool.owned().is_ok()
        {
            records.discard(&self.pool.medium, &self.pool.segments, record);
        }
    }
}

/// Records that no slot points to yet. They are freed if none ever will, because of an error or a panic of the caller's
/// iterator.
struct Written<'c, N: TreeNode, M: Medium> {
    by: &'c TreeState<N, M>,
    records: Vec<u64>,
}

impl<N: TreeNode, M: Medium> Drop for Written<'_, N, M> {
    fn drop(&mut self) {
        self.records.drain(..).for_each(|record| self.by.discard(Some(record)));
    }
}
