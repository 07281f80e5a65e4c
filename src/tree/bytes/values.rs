//! Entries of byte strings: each is a record of a key and a value.

use crate::byte_key::ByteKey;
use crate::codec::{Encoded, KEY_MAX, Kind, Stored};
use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::Medium;
use crate::node::{ByteStrings, Entry, KeyLen, Parts, ReadEntry, record_of, reference};
use crate::pool::record::{RECORD_MAX, RecordReader};
use crate::pool::records::Reading;
use crate::tree::values::{MapKeys, Written};
use crate::tree::{Change, TreeNode, TreeState};

/// Values of up to this many bytes are copied while the leaf is known not to change. Longer ones are read in an epoch.
const SHORT: usize = 128;

/// What was found in a leaf that did not change meanwhile.
enum Found {
    /// So many bytes, in the buffer.
    Short(usize),
    /// More than fit there.
    Long,
    /// A damaged record.
    Damaged(Broken),
}

impl<N: TreeNode<Keys = ByteStrings>, M: Medium> TreeState<N, M> {
    fn reader(&self) -> RecordReader<'_, M> {
        RecordReader { m: &self.pool.medium, segments: &self.pool.segments, tree: self.root.slot }
    }

    /// Copies a value that a slot points to, if it fits into the buffer.
    #[inline]
    fn copy_value(&self, reference: u64, buffer: &mut [u8; SHORT]) -> Found {
        let at = record_of(reference);
        match self.reader().parts(at) {
            Ok(Parts { value: (from, len), .. }) => match buffer.get_mut(..len as usize) {
                Some(bytes) => {
                    self.reader().copy(at, from, bytes);
                    Found::Short(len as usize)
                }
                None => Found::Long,
            },
            Err(broken) => Found::Damaged(broken),
        }
    }

    /// Applies `read` to the bytes of the value of a key.
    ///
    /// A short value is copied out of its record, and then the version of the leaf tells whether the slot pointed to the
    /// record all the time: a record is not used again before its slot has changed. So that takes no lock and no pin.
    #[inline]
    fn bytes_with<R>(&self, key: ByteKey<'_>, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fault> {
        let mut buffer = [0; SHORT];
        let found = self.with_owner(key, |view| {
            let reference = self.leaves.value_in(view, key)?;
            Some(self.copy_value(reference, &mut buffer))
        });
        match self.note(found) {
            None => Ok(None),
            Some(Found::Short(len)) => Ok(Some(read(&buffer[..len]))),
            Some(Found::Damaged(broken)) => Err(broken.into()),
            Some(Found::Long) => self.long_bytes_with(key, read),
        }
    }

    #[cold]
    fn long_bytes_with<R>(&self, key: ByteKey<'_>, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fault> {
        // Started before the slot is read: the record that the slot points to stays as long as this reader does.
        let Some(reading) = self.reading() else { return Ok(None) };
        let Some(reference) = self.get(key) else { return Ok(None) };
        let at = record_of(reference);
        let value = reading.reader.parts(at)?.value;
        Ok(Some(reading.with_part(at, value, read)?))
    }

    /// Writes the record of an entry, and returns the reference to it. The record is durable.
    fn write_entry(&self, key: &[u8], value: Encoded<'_>) -> Result<Written<'_, N, M>, Fault> {
        self.pool.owned()?;
        let (word, bytes);
        let value = match value {
            Encoded::Word(number) => {
                word = number.to_ne_bytes();
                &word[..]
            }
            Encoded::Bytes(given) => {
                bytes = given;
                bytes
            }
        };
        if key.len() > KEY_MAX {
            return Err(ErrorKind::KeyTooLong { len: key.len() as u64, limit: KEY_MAX as u64 }.into());
        }
        if value.len() as u64 > RECORD_MAX {
            return Err(ErrorKind::RecordTooLong { len: value.len() as u64, limit: RECORD_MAX }.into());
        }
        let records = self.leaves.records.as_ref().expect("a tree of byte strings has records");
        let len = KeyLen::of(key.len());
        let parts = [len.as_bytes(), key, value];
        let record = records.write(&self.pool.medium, &self.pool.segments, &parts)?;
        Ok(Written { by: self, record: Some(record) })
    }
}

/// The value that these bytes are, of this kind.
fn stored(bytes: Vec<u8>, kind: Kind) -> Stored {
    if kind.is_record { Stored::Bytes(bytes) } else { Stored::Word(word(&bytes)) }
}

/// The number that these bytes are; 0 if they are damaged.
fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

impl MapKeys for ByteStrings {
    type Key = [u8];

    fn value<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        key: ByteKey<'_>,
        kind: Kind,
    ) -> Result<Option<Stored>, Fault> {
        Self::value_with(tree, key, kind, |value| match value {
            Encoded::Word(word) => Stored::Word(word),
            Encoded::Bytes(bytes) => Stored::Bytes(bytes.to_vec()),
        })
    }

    #[inline]
    fn value_with<N: TreeNode<Keys = Self>, M: Medium, R>(
        tree: &TreeState<N, M>,
        key: ByteKey<'_>,
        kind: Kind,
        read: impl FnOnce(Encoded<'_>) -> R,
    ) -> Result<Option<R>, Fault> {
        tree.bytes_with(key, |bytes| {
            read(if kind.is_record { Encoded::Bytes(bytes) } else { Encoded::Word(word(bytes)) })
        })
    }

    fn values<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        keys: &[ByteKey<'_>],
        kind: Kind,
        mut out: impl FnMut(Result<Option<Stored>, Fault>),
    ) {
        // Started before the slots are read.
        let reading = tree.reading();
        tree.get_many_with(
            keys,
            |reference| reference,
            |found| {
                let value = |reference: u64| {
                    let (at, reading) =
                        (record_of(reference), reading.as_ref().expect("a tree of byte strings has records"));
                    let (from, len) = reading.reader.parts(at)?.value;
                    Ok(stored(reading.reader.bytes(at, from, len), kind))
                };
                out(found.map(value).transpose());
            },
        );
    }

    fn put<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        key: ByteKey<'_>,
        value: Encoded<'_>,
        wanted: fn(Option<u64>) -> bool,
    ) -> Result<bool, Fault> {
        let written = tree.write_entry(key.bytes(), value)?;
        let new = reference(written.at(), key.hash())?;
        let mut is_stored = false;
        let mut change = || {
            tree.change(key, |old| {
                is_stored = wanted(old);
                if is_stored { Change::Put(new) } else { Change::Keep }
            })
        };
        let old = change().or_else(|fault| tree.with_space(fault, change))?;
        if is_stored {
            written.keep();
            tree.retire(old.map(record_of));
        }
        Ok(old.is_some())
    }

    fn take<N: TreeNode<Keys = Self>, M: Medium>(tree: &TreeState<N, M>, key: ByteKey<'_>) -> Result<bool, Fault> {
        let old = tree.change(key, |_| Change::Remove)?;
        tree.retire(old.map(record_of));
        Ok(old.is_some())
    }

    fn bulk_load_values<'v, N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        entries: impl Iterator<Item = (Vec<u8>, Encoded<'v>)>,
    ) -> Result<u64, Fault> {
        let mut all = Vec::new();
        let loaded = tree.bulk_load(entries.map(|(key, value)| {
            let written = tree.write_entry(&key, value)?;
            let word = reference(written.at(), ByteKey::at(&key).hash())?;
            all.push(written);
            Ok((key, word))
        }))?;
        all.into_iter().for_each(Written::keep);
        Ok(loaded)
    }

    fn with_key<N: TreeNode<Keys = Self>, M: Medium, R>(
        (_, reference): Entry,
        reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        let reader = reading.expect("a tree of byte strings has records").reader;
        let at = record_of(reference);
        let (from, len) = reader.parts(at)?.key;
        let mut short = [0; SHORT];
        Ok(match short.get_mut(..len as usize) {
            Some(bytes) => {
                reader.copy(at, from, bytes);
                read(bytes)
            }
            None => read(&reader.bytes(at, from, len)),
        })
    }

    fn with_entry<N: TreeNode<Keys = Self>, M: Medium, R>(
        entry: Entry,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&[u8], Stored) -> R,
    ) -> Result<R, Fault> {
        let reader = reading.expect("a tree of byte strings has records").reader;
        let at = record_of(entry.1);
        let (from, len) = reader.parts(at)?.value;
        let value = stored(reader.bytes(at, from, len), kind);
        Self::with_key::<N, M, R>(entry, reading, |key| read(key, value))
    }
}
