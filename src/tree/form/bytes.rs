//! Keys that are byte strings. An entry is a record of a key and a value, and slots point to records.

use super::escape::{escape, unescape};
use super::{Form, KeyBytes, PartForm, PartSource, Sink};
use crate::entry::byte_key::ByteKey;
use crate::entry::kind::Kind;
use crate::entry::raw::{KEY_MAX, Raw};
use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::Medium;
use crate::node::{ByteLeaf, ByteStrings, Entry, KeyLen, RecordParts, record_of, reference};
use crate::pool::access::Access;
use crate::pool::records::{Reading, Records};
use crate::tree::any_part::{AnyPart, PartOf};
use crate::tree::values::{WrittenRecord, check_len};
use crate::tree::{TreeNode, TreeState};
use std::ops::Range;

/// Values in up to this many words are copied while the leaf is known not to change. Longer ones are read in an epoch.
const SHORT: usize = 17;

/// What was found in a leaf that did not change meanwhile.
enum FoundValue {
    /// A value that was copied to these bytes of the buffer.
    Short(Range<usize>),
    /// A value that does not fit into the buffer.
    Long,
    /// A damaged record.
    Damaged(Broken),
}

impl<N: TreeNode<Keys = ByteStrings>, M: Medium> TreeState<N, M> {
    /// Copies a value that a slot points to, if it fits into the buffer.
    #[inline]
    fn copy_value(&self, reference: u64, buffer: &mut [[u8; 8]; SHORT]) -> FoundValue {
        let at = record_of(reference);
        let pool = self.leaves.access();
        match pool.parts(at) {
            Ok(parts) => pool.load_record(at, parts.value, buffer).map_or(FoundValue::Long, FoundValue::Short),
            Err(broken) => FoundValue::Damaged(broken),
        }
    }

    #[cold]
    fn get_long_with<R>(&self, key: ByteKey<'_>, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fault> {
        // Started before the slot is read: the record that the slot points to stays as long as this reader does.
        let Some(reading) = self.reading() else { return Ok(None) };
        let Some(reference) = self.get(key) else { return Ok(None) };
        let at = record_of(reference);
        let value = reading.pool.parts(at)?.value;
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
fn stored(pool: Access<'_, impl Medium>, at: u64, RecordParts { value, .. }: RecordParts, kind: Kind) -> Raw {
    match kind.is_record {
        true => Raw::Bytes(pool.record_bytes(at, value.0, value.1)),
        false => Raw::Word(pool.with_record(at, value, word)),
    }
}

/// Where an entry is, and what reads it.
#[inline]
fn entry_of<'r, M: Medium>(reference: u64, reading: Option<&Reading<'r, M>>) -> (Access<'r, M>, u64) {
    (reading.expect("a tree of byte strings has records").pool, record_of(reference))
}

impl Form for ByteStrings {
    type Encoded<'k> = KeyBytes<'k>;
    type Leaf = ByteLeaf;
    type Source<'k> = ByteSource<'k>;

    #[inline]
    fn source(bytes: &[u8], _: PartForm) -> ByteSource<'_> {
        ByteSource(bytes)
    }

    #[inline]
    fn write_part(encoded: KeyBytes<'_>, part: PartForm, is_last: bool, to: &mut impl Sink) {
        let bytes = encoded.as_bytes();
        match part.size {
            // A length that is known when the program is compiled copies faster.
            Some(size) => to.bytes(bytes.get(..size as usize).unwrap_or(bytes)),
            None if is_last => to.bytes(bytes),
            None => to.escaped(bytes),
        }
    }

    #[inline]
    fn read_part<K>(from: &mut impl PartSource, part: PartForm, is_last: bool, decode: impl FnOnce(&[u8]) -> K) -> K {
        match part.size {
            _ if is_last => from.rest(decode),
            Some(size) => from.bytes(size as usize, decode),
            None => from.escaped(decode),
        }
    }

    fn with_prefix<'p>(parts: Self::Encoded<'p>, _: usize, _: PartForm) -> (KeyBytes<'p>, Option<KeyBytes<'p>>) {
        let after = parts.after_prefix();
        (parts, after)
    }

    fn any_part<'t>(part: Box<dyn PartOf<Self> + 't>) -> AnyPart<'t> {
        AnyPart::Bytes(part)
    }

    fn part<'p, 't>(any: &'p mut AnyPart<'t>) -> Option<&'p mut (dyn PartOf<Self> + 't)> {
        match any {
            AnyPart::Bytes(part) => Some(&mut **part),
            AnyPart::Words(_) => None,
        }
    }

    // A short value is copied out of its record, and then the version of the leaf tells whether the slot pointed to the
    // record all the time: a record is not used again before its slot has changed. So that takes no lock and no pin.
    #[inline]
    fn get_with<N: TreeNode<Keys = Self>, M: Medium, R>(
        tree: &TreeState<N, M>,
        key: ByteKey<'_>,
        kind: Kind,
        read: impl FnOnce(Raw<&[u8]>) -> R,
    ) -> Result<Option<R>, Fault> {
        let read = |bytes: &[u8]| read(encoded(bytes, kind));
        let mut buffer = [[0; 8]; SHORT];
        let found = tree.with_owner(key, |view| {
            let reference = tree.leaves.value_in(view, key)?;
            Some(tree.copy_value(reference, &mut buffer))
        });
        match tree.note(found) {
            None => Ok(None),
            Some(FoundValue::Short(bytes)) => Ok(Some(read(&buffer.as_flattened()[bytes]))),
            Some(FoundValue::Damaged(broken)) => Err(broken.into()),
            Some(FoundValue::Long) => tree.get_long_with(key, read),
        }
    }

    fn write<'t, N: TreeNode<Keys = Self>, M: Medium>(
        tree: &'t TreeState<N, M>,
        key: ByteKey<'_>,
        value: Raw<&[u8]>,
        again: bool,
    ) -> Result<(u64, WrittenRecord<'t, N, M>), Fault> {
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
        let len = KeyLen::for_len(key.len());
        let write = if again { Records::write_again } else { Records::write };
        let record = write(records, &tree.pool.medium, &tree.pool.segments, &[len.as_bytes(), key, value])?;
        let written = WrittenRecord { by: tree, record: Some(record) };
        Ok((reference(record, hash)?, written))
    }

    fn stored_value<M: Medium>(reference: u64, reading: Option<&Reading<'_, M>>, kind: Kind) -> Result<Raw, Fault> {
        let (pool, at) = entry_of(reference, reading);
        Ok(stored(pool, at, pool.parts(at)?, kind))
    }

    #[inline]
    fn with_entry<M: Medium, R>(
        (_, reference): Entry,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&[u8], Raw<&[u8]>) -> R,
    ) -> Result<R, Fault> {
        let (pool, at) = entry_of(reference, reading);
        let RecordParts { key: (from, len), value: (_, value) } = pool.parts(at)?;
        // The value follows the key.
        Ok(pool.with_record(at, (from, len + value), |bytes| {
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
        let (pool, at) = entry_of(reference, reading);
        let parts = pool.parts(at)?;
        Ok((pool.with_record(at, parts.key, read), stored(pool, at, parts, kind)))
    }

    #[inline]
    fn with_key<M: Medium, R>(
        (_, reference): Entry,
        reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        let (pool, at) = entry_of(reference, reading);
        Ok(pool.with_record(at, pool.parts(at)?.key, read))
    }
}

impl Sink for KeyBytes<'_> {
    #[inline]
    fn number(&mut self, number: u64, width: u32) {
        self.extend(&number.to_be_bytes()[8 - width as usize..]);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend(bytes);
    }

    #[inline]
    fn escaped(&mut self, bytes: &[u8]) {
        escape(bytes, self);
    }
}

/// The parts of a byte string that are left.
#[derive(Debug)]
pub struct ByteSource<'k>(&'k [u8]);

impl PartSource for ByteSource<'_> {
    #[inline]
    fn number(&mut self, width: u32) -> u64 {
        let width = width as usize;
        let mut number = [0; 8];
        self.bytes(width, |bytes| number[8 - width..][..bytes.len()].copy_from_slice(bytes));
        u64::from_be_bytes(number)
    }

    #[inline]
    fn bytes<T>(&mut self, count: usize, read: impl FnOnce(&[u8]) -> T) -> T {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        read(bytes)
    }

    #[inline]
    fn rest<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(std::mem::take(&mut self.0))
    }

    #[inline]
    fn escaped<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        let (string, rest) = unescape(self.0);
        self.0 = rest;
        read(&string)
    }
}
