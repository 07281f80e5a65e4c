//! Values as the typed map stores them: words in their slots, or records that slots point to.

use super::{Before, Change, Form, TreeNode, TreeState};
use crate::entry::kind::Kind;
use crate::entry::raw::Raw;
use crate::error::{ErrorKind, Fault};
use crate::medium::{Medium, Step};
use crate::node::{Entry, Keys, RefOf};
use crate::pool::record::RECORD_MAX;
use crate::pool::records::Reading;
use std::borrow::Borrow;

impl<N: TreeNode<Keys: Form>, M: Medium> TreeState<N, M> {
    /// The values of keys, in their order.
    pub(crate) fn values(&self, keys: &[RefOf<'_, N>], kind: Kind, mut out: impl FnMut(Result<Option<Raw>, Fault>)) {
        // Started before the slots are read.
        let reading = self.reading();
        let stored = |word| N::Keys::stored_value(word, reading.as_ref(), kind);
        self.get_many_with(keys, |word| word, |found| out(found.map(stored).transpose()));
    }

    /// [Writes](Form::write) a value. If there is no space, this waits for it. The caller holds no lock, and is not
    /// reading.
    #[inline]
    pub(super) fn write(&self, key: RefOf<'_, N>, value: Raw<&[u8]>) -> Result<(u64, WrittenRecord<'_, N, M>), Fault> {
        let write = |again| N::Keys::write(self, key, value, again);
        write(false).or_else(|fault| self.pool.with_space(fault, || write(true)))
    }

    /// [Writes](Form::write) a value. If there is no space, this waits for it. The caller holds no lock, and is not
    /// reading. The record, if there is one, is durable when this returns.
    #[inline]
    pub(super) fn write_durably(
        &self,
        key: RefOf<'_, N>,
        value: Raw<&[u8]>,
    ) -> Result<(u64, WrittenRecord<'_, N, M>), Fault> {
        let (word, written) = self.write(key, value)?;
        if written.is_record() {
            self.medium().fence(Step::RecordWrite);
        }
        Ok((word, written))
    }

    /// Sets the value of a key if `wanted` accepts what its slot holds. Returns true if the key was there.
    pub(crate) fn put_if(
        &self,
        key: RefOf<'_, N>,
        value: Raw<&[u8]>,
        wanted: fn(Option<u64>) -> bool,
    ) -> Result<bool, Fault> {
        let (word, written) = self.write_durably(key, value)?;
        let mut is_stored = false;
        let mut change = || {
            self.change_in(key, |_, old| {
                is_stored = wanted(old);
                if is_stored { Change::Put(word) } else { Change::Keep }
            })
        };
        let old = change().or_else(|fault| self.pool.with_space(fault, change))?;
        if is_stored {
            // The old record has no slot now, the new one has.
            written.keep();
            self.retire_old(key, old);
        }
        Ok(old.word.is_some())
    }

    /// Sets the slot of a key to what was [written](Self::write), durably, for it. The caller retires what the slot
    /// had.
    pub(super) fn put_written(
        &self,
        key: RefOf<'_, N>,
        (word, written): (u64, WrittenRecord<'_, N, M>),
    ) -> Result<Before, Fault> {
        let change = || self.change_in(key, |_, _| Change::Put(word));
        let old = change().or_else(|fault| self.pool.with_space(fault, change))?;
        written.keep();
        Ok(old)
    }

    /// Removes a key and the record that its slot points to. Returns true if the key was there.
    pub(crate) fn remove_value(&self, key: RefOf<'_, N>) -> Result<bool, Fault> {
        let old = self.change_in(key, |_, _| Change::Remove)?;
        self.retire_old(key, old);
        Ok(old.word.is_some())
    }

    /// Retires the record of a value that was replaced or removed. Where there was none, nothing is locked.
    #[inline]
    pub(crate) fn retire_old(&self, key: RefOf<'_, N>, old: Before) {
        if let Some(word) = old.word
            && self.leaves.records.is_some()
        {
            let record = N::Keys::record(word);
            if !self.leaves.frozen.retire(key, record, old.stamp) {
                self.retire([record]);
            }
        }
    }

    /// Fills an empty tree in strictly ascending order of keys. Returns the number of entries.
    ///
    /// `write` passes the encoding of a value on.
    pub(crate) fn bulk_load_values<V>(
        &self,
        entries: impl Iterator<Item = (<N::Keys as Keys>::Owned, V)>,
        write: impl Fn(&V, &mut dyn FnMut(Raw<&[u8]>)) -> Result<(), Fault>,
    ) -> Result<u64, Fault> {
        let mut all = Vec::new();
        let loaded = self.bulk_load(entries.map(|(key, value)| {
            let mut result = None;
            write(&value, &mut |value| result = Some(self.write_durably(N::Keys::as_ref(key.borrow()), value)))?;
            let (word, written) = result.expect("it passes the value on")?;
            if written.is_record() {
                all.push(written);
            }
            Ok((key, word))
        }))?;
        all.into_iter().for_each(WrittenRecord::keep);
        Ok(loaded)
    }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Starts a reading of records; `None` if the values are in their slots.
    #[inline]
    pub(crate) fn reading(&self) -> Option<Reading<'_, M>> {
        Some(self.leaves.records.as_ref()?.reading(&self.pool.medium, &self.pool.segments))
    }

    /// The error for a value that is not of the tree's kind.
    #[cold]
    pub(super) fn kind_mismatch(&self, found: &str, given: &str) -> Fault {
        ErrorKind::KindMismatch { tree: self.name(), found: found.to_owned(), expected: given.to_owned() }.into()
    }

    /// Retires the records of entries of a leaf that was replaced. `stamp` is the leaf's.
    pub(super) fn retire_entries(&self, entries: Vec<Entry>, stamp: u64) {
        let reading = self.reading();
        let is_frozen = |&(key, value): &Entry| {
            let retire = |key: &_| self.leaves.frozen.retire(N::Keys::as_ref(key), N::Keys::record(value), stamp);
            // A record that cannot be read is not used again.
            N::Keys::with_key((key, value), reading.as_ref(), retire).unwrap_or(true)
        };
        let rest = entries.into_iter().filter(|entry| self.leaves.frozen.is_empty() || !is_frozen(entry));
        let rest: Vec<u64> = rest.map(|(_, value)| N::Keys::record(value)).collect();
        // Its pin would keep them from ripening.
        drop(reading);
        self.retire(rest);
    }

    /// Retires records that slots, durably, no longer point to, and that no snapshot sees.
    pub(super) fn retire(&self, records: impl IntoIterator<Item = u64>) {
        if let Some(of_tree) = &self.leaves.records {
            of_tree.retire(&self.pool.medium, &self.pool.segments, records);
        }
    }

    /// Gives back a record to which no slot ever pointed.
    pub(super) fn discard(&self, record: u64) {
        if let Some(records) = &self.leaves.records
            && self.pool.owned().is_ok()
        {
            records.discard(&self.pool.medium, &self.pool.segments, record);
        }
    }
}

/// Refuses a value that is too long.
pub(crate) fn check_len(value: &[u8]) -> Result<(), Fault> {
    let len = value.len() as u64;
    if len > RECORD_MAX { Err(ErrorKind::RecordTooLong { len, limit: RECORD_MAX }.into()) } else { Ok(()) }
}

/// A record to which no slot points yet. It is given back if none ever will, because of an error or a panic of the
/// caller's iterator.
pub struct WrittenRecord<'t, N: TreeNode, M: Medium> {
    pub(super) by: &'t TreeState<N, M>,
    pub(super) record: Option<u64>,
}

impl<N: TreeNode, M: Medium> WrittenRecord<'_, N, M> {
    /// A slot points to the record now.
    pub(crate) fn keep(mut self) {
        self.record = None;
    }

    /// Whether there is a record.
    pub(crate) fn is_record(&self) -> bool {
        self.record.is_some()
    }
}

impl<N: TreeNode, M: Medium> Drop for WrittenRecord<'_, N, M> {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            self.by.discard(record);
        }
    }
}
