//! Entries of byte strings: each is a record of a key and a value.

use crate::byte_key::ByteKey;
use crate::error::{Broken, ErrorKind, Fault};
use crate::kind::Kind;
use crate::medium::Medium;
use crate::node::{ByteStrings, Entry, KeyLen, Parts, ReadEntry, record_of, reference};
use crate::pool::record::RecordReader;
use crate::pool::records::{Reading, Records};
use crate::raw::{KEY_MAX, Raw};
use crate::tree::part::{AnyPart, PartOf};
use crate::tree::values::{MapKeys, Written, check_len};
use crate::tree::{TreeNode, TreeState, Unread};
use std::ops::{Bound, Range};

/// Values in up to this many words are copied while the leaf is known not to change. Longer ones are read in an epoch.
const SHORT: usize = 17;

/// What was found in a leaf that did not change meanwhile.
enum Found {
    /// A value that was copied to these bytes of the buffer.
    Short(Range<usize>),
    /// A value that does not fit into the buffer.
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
    fn copy_value(&self, reference: u64, buffer: &mut [[u8; 8]; SHORT]) -> Found {
        let at = record_of(reference);
        match self.reader().parts(at) {
            Ok(parts) => self.reader().load(at, parts.value, buffer).map_or(Found::Long, Found::Short),
            Err(broken) => Found::Damaged(broken),
        }
    }

    /// Applies `read` to the bytes of the value of a key.
    ///
    /// A short value is copied out of its record, and then the version of the leaf tells whether the slot pointed to
    /// the record all the time: a record is not used again before its slot has changed. So that takes no lock and no
    /// pin.
    #[inline]
    fn bytes_with<R>(&self, key: ByteKey<'_>, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fault> {
        let mut buffer = [[0; 8]; SHORT];
        let found = self.with_owner(key, |view| {
            let reference = self.leaves.value_in(view, key)?;
            Some(self.copy_value(reference, &mut buffer))
        });
        match self.note(found) {
            None => Ok(None),
            Some(Found::Short(bytes)) => Ok(Some(read(&buffer.as_flattened()[bytes]))),
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
        Ok(Some(reading.with_part(at, value, read)))
    }
}

/// The number that these bytes are; 0 if they are damaged.
fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

/// A value of this kind.
fn encoded(bytes: &[u8], kind: Kind) -> Raw<&[u8]> {
    if kind.is_record { Raw::Bytes(bytes) } else { Raw::Word(word(bytes)) }
}

/// The value of a record with these parts.
#[inline]
fn stored<M: Medium>(reader: RecordReader<'_, M>, at: u64, Parts { value, .. }: Parts, kind: Kind) -> Raw {
    match kind.is_record {
        true => Raw::Bytes(reader.bytes(at, value.0, value.1)),
        false => Raw::Word(reader.with_part(at, value, word)),
    }
}

/// Where an entry is, and what reads it.
#[inline]
fn entry_of<'r, M: Medium>(reference: u64, reading: Option<&Reading<'r, M>>) -> (RecordReader<'r, M>, u64) {
    (reading.expect("a tree of byte strings has records").reader, record_of(reference))
}

impl MapKeys for ByteStrings {
    fn any_part<'t>(part: Box<dyn PartOf<Self> + 't>) -> AnyPart<'t> {
        AnyPart::Bytes(part)
    }

    fn part<'p, 't>(any: &'p mut AnyPart<'t>) -> Option<&'p mut (dyn PartOf<Self> + 't)> {
        match any {
            AnyPart::Bytes(part) => Some(&mut **part),
            AnyPart::Words(_) => None,
        }
    }

    fn len(key: &[u8]) -> usize {
        key.len()
    }

    fn bounds(Unread { from, to }: &Unread) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(from), to.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }

    fn value<N: TreeNode<Keys = Self>, M: Medium>(
        tree: &TreeState<N, M>,
        key: ByteKey<'_>,
        kind: Kind,
    ) -> Result<Option<Raw>, Fault> {
        Self::value_with(tree, key, kind, |value| value.owned())
    }

    #[inline]
    fn value_with<N: TreeNode<Keys = Self>, M: Medium, R>(
        tree: &TreeState<N, M>,
        key: ByteKey<'_>,
        kind: Kind,
        read: impl FnOnce(Raw<&[u8]>) -> R,
    ) -> Result<Option<R>, Fault> {
        tree.bytes_with(key, |bytes| read(encoded(bytes, kind)))
    }

    fn write<'t, N: TreeNode<Keys = Self>, M: Medium>(
        tree: &'t TreeState<N, M>,
        key: ByteKey<'_>,
        value: Raw<&[u8]>,
        again: bool,
    ) -> Result<(u64, Written<'t, N, M>), Fault> {
        tree.pool.admit()?;
        let (key, hash) = (key.bytes(), key.hash());
        let word;
        let value = match value {
            Raw::Word(number) => {
                word = number.to_ne_bytes();
                &word
            }
            Raw::Bytes(bytes) => bytes,
        };
        if key.len() > KEY_MAX {
            return Err(ErrorKind::KeyTooLong { len: key.len() as u64, limit: KEY_MAX as u64 }.into());
        }
        check_len(value)?;
        let records = tree.leaves.records.as_ref().expect("a tree of byte strings has records");
        let len = KeyLen::of(key.len());
        let write = if again { Records::write_again } else { Records::write };
        let record = write(records, &tree.pool.medium, &tree.pool.segments, &[len.as_bytes(), key, value])?;
        let written = Written { by: tree, record: Some(record) };
        Ok((reference(record, hash)?, written))
    }

    fn stored_value<M: Medium>(reference: u64, reading: Option<&Reading<'_, M>>, kind: Kind) -> Result<Raw, Fault> {
        let (reader, at) = entry_of(reference, reading);
        Ok(stored(reader, at, reader.parts(at)?, kind))
    }

    #[inline]
    fn with_entry<M: Medium, R>(
        (_, reference): Entry,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&[u8], Raw<&[u8]>) -> R,
    ) -> Result<R, Fault> {
        let (reader, at) = entry_of(reference, reading);
        let Parts { key: (from, len), value: (_, value) } = reader.parts(at)?;
        // The value follows the key.
        Ok(reader.with_part(at, (from, len + value), |bytes| {
            let (key, value) = bytes.split_at(len as usize);
            read(key, encoded(value, kind))
        }))
    }

    #[inline]
    fn with_stored<M: Medium, R>(
        (_, reference): Entry,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<(R, Raw), Fault> {
        let (reader, at) = entry_of(reference, reading);
        let parts = reader.parts(at)?;
        Ok((reader.with_part(at, parts.key, read), stored(reader, at, parts, kind)))
    }

    #[inline]
    fn with_key<M: Medium, R>(
        (_, reference): Entry,
        reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        let (reader, at) = entry_of(reference, reading);
        Ok(reader.with_part(at, reader.parts(at)?.key, read))
    }
}
