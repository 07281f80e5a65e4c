//! Values as the typed map stores them: words in their slots, or records that the slots point to.

use super::{Change, Core};
use crate::codec::{Encoded, Read, Stored};
use crate::error::{Error, Result};
use crate::medium::Medium;
use crate::node::Node;

impl<N: Node, M: Medium> Core<N, M> {
    /// The value of a key.
    pub(crate) fn value(&self, key: u64) -> Result<Option<Stored>> {
        self.pool.intact(self.get_with(key, |word| self.stored(word)).transpose())
    }

    /// The value behind a slot's word. May be called for a word that is no longer current; what it returns is then thrown
    /// away, and all it reads is checked.
    fn stored(&self, word: u64) -> Read<Stored> {
        match &self.records {
            None => Ok(Stored::Word(word)),
            Some(records) => records.read(&self.pool.medium, &self.pool.segments, word).map(Stored::Bytes),
        }
    }

    /// Sets the value of a key if what its slot holds is as `wanted`; returns what it held.
    pub(crate) fn put(&self, key: u64, value: Encoded<'_>, wanted: fn(Option<u64>) -> bool) -> Result<Option<u64>> {
        let (word, record) = self.write(value)?;
        let mut stored = false;
        let old = self.change(key, |old| {
            stored = wanted(old);
            if stored { Change::Put(word) } else { Change::Keep }
        });
        // Either the old record or the new one is now without a slot.
        let stale = match (&old, stored) {
            (Ok(old), true) => *old,
            _ => record,
        };
        self.free_record(stale);
        old
    }

    /// Removes a key and what its slot points to; true if it was there.
    pub(crate) fn take(&self, key: u64) -> Result<bool> {
        let old = self.change(key, |_| Change::Remove)?;
        self.free_record(old);
        Ok(old.is_some())
    }

    /// Fills an empty tree, in strictly ascending order of keys; returns how many there were.
    pub(crate) fn bulk_load_values<'v>(&self, entries: impl Iterator<Item = (u64, Encoded<'v>)>) -> Result<u64> {
        let mut written = Written { by: self, records: Vec::new() };
        let loaded = self.bulk_load(entries.map(|(key, value)| {
            let (word, record) = self.write(value)?;
            written.records.extend(record);
            Ok((key, word))
        }))?;
        written.records.clear();
        Ok(loaded)
    }

    /// The word for a slot, and the record that it points to if there is one, which is durable.
    fn write(&self, value: Encoded<'_>) -> Result<(u64, Option<u64>)> {
        let bytes = match value {
            Encoded::Word(word) => return Ok((word, None)),
            Encoded::Bytes(bytes) => bytes,
        };
        let records = self.records.as_ref().ok_or_else(|| Error::KindMismatch {
            tree: self.name.clone(),
            found: "values in their slots".to_owned(),
            expected: "bytes".to_owned(),
        })?;
        self.pool.owned()?;
        let record = records.write(&self.pool.medium, &self.pool.segments, bytes)?;
        Ok((record, Some(record)))
    }

    fn free_record(&self, record: Option<u64>) {
        if let (Some(records), Some(record)) = (&self.records, record)
            && self.pool.owned().is_ok()
        {
            records.free(&self.pool.medium, &self.pool.segments, record);
        }
    }
}

/// Records that no slot points to yet: freed if none ever will, be it for an error or a panic of the caller's iterator.
struct Written<'c, N: Node, M: Medium> {
    by: &'c Core<N, M>,
    records: Vec<u64>,
}

impl<N: Node, M: Medium> Drop for Written<'_, N, M> {
    fn drop(&mut self) {
        self.records.drain(..).for_each(|record| self.by.free_record(Some(record)));
    }
}
