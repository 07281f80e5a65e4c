//! Keys that are words: they lie in the slots of leaves, and compare as numbers.

use super::{Form, PartForm, PartSource, Sink};
use crate::entry::kind::Kind;
use crate::entry::raw::Raw;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Entry, OneLine, Words};
use crate::pool::records::{Reading, Records};
use crate::tree::any_part::{AnyPart, PartOf};
use crate::tree::values::{WrittenRecord, check_len};
use crate::tree::{TreeNode, TreeState};

impl Form for Words {
    type Encoded<'k> = u64;
    type Leaf = OneLine;
    type Source<'k> = WordSource;

    #[inline]
    fn source(word: &u64, whole: PartForm) -> WordSource {
        WordSource::new(*word, whole.size.unwrap_or(8))
    }

    #[inline]
    fn write_part(word: u64, part: PartForm, _: bool, to: &mut impl Sink) {
        to.number(word.wrapping_sub(part.base), part.size.unwrap_or(8));
    }

    #[inline]
    fn read_part<K>(from: &mut impl PartSource, part: PartForm, _: bool, decode: impl FnOnce(&u64) -> K) -> K {
        decode(&from.number(part.size.unwrap_or(8)).wrapping_add(part.base))
    }

    fn with_prefix<'p>(
        parts: Self::Encoded<'p>,
        size: usize,
        whole: PartForm,
    ) -> (Self::Encoded<'p>, Option<Self::Encoded<'p>>) {
        let whole = whole.size.unwrap_or(8);
        if size > whole as usize {
            // The prefix is longer than the keys.
            return (0, Some(0));
        }
        let rest = 8 * (whole - size as u32);
        let first = parts.unbounded_shl(rest);
        (first, (first | !u64::MAX.unbounded_shl(rest)).checked_add(1))
    }

    fn any_part<'t>(part: Box<dyn PartOf<Self> + 't>) -> AnyPart<'t> {
        AnyPart::Words(part)
    }

    fn part<'p, 't>(any: &'p mut AnyPart<'t>) -> Option<&'p mut (dyn PartOf<Self> + 't)> {
        match any {
            AnyPart::Words(part) => Some(&mut **part),
            AnyPart::Bytes(_) => None,
        }
    }

    fn get_with<N: TreeNode<Keys = Self>, M: Medium, R>(
        tree: &TreeState<N, M>,
        key: u64,
        _kind: Kind,
        read: impl FnOnce(Raw<&[u8]>) -> R,
    ) -> Result<Option<R>, Fault> {
        // Started before the slot is read: the record that the slot points to stays as long as this reader does.
        let reading = tree.reading();
        let Some(word) = tree.get(key) else { return Ok(None) };
        match reading {
            None => Ok(Some(read(Raw::Word(word)))),
            Some(reading) => Ok(Some(reading.with(word, |bytes| read(Raw::Bytes(bytes)))?)),
        }
    }

    fn write<'t, N: TreeNode<Keys = Self>, M: Medium>(
        tree: &'t TreeState<N, M>,
        _key: u64,
        value: Raw<&[u8]>,
        again: bool,
    ) -> Result<(u64, WrittenRecord<'t, N, M>), Fault> {
        let (bytes, records) = match (value, &tree.leaves.records) {
            (Raw::Word(word), None) => return Ok((word, WrittenRecord { by: tree, record: None })),
            (Raw::Bytes(bytes), Some(records)) => (bytes, records),
            // The type does not encode what its kind says. Its word would be taken for a record, perhaps for a record
            // of another slot.
            (Raw::Word(_), Some(_)) => return Err(tree.kind_mismatch("bytes", "a value in its slot")),
            (Raw::Bytes(_), None) => return Err(tree.kind_mismatch("values in their slots", "bytes")),
        };
        tree.pool.admit()?;
        check_len(bytes)?;
        let write = if again { Records::write_again } else { Records::write };
        let record = write(records, &tree.pool.medium, &tree.pool.segments, &[bytes])?;
        Ok((record, WrittenRecord { by: tree, record: Some(record) }))
    }

    #[inline]
    fn stored_value<M: Medium>(word: u64, reading: Option<&Reading<'_, M>>, _kind: Kind) -> Result<Raw, Fault> {
        match reading {
            None => Ok(Raw::Word(word)),
            Some(reading) => Ok(Raw::Bytes(reading.pool.read_record(word)?)),
        }
    }

    #[inline]
    fn with_entry<M: Medium, R>(
        (key, word): Entry,
        reading: Option<&Reading<'_, M>>,
        _kind: Kind,
        read: impl FnOnce(&u64, Raw<&[u8]>) -> R,
    ) -> Result<R, Fault> {
        let Some(Reading { pool, .. }) = reading else { return Ok(read(&key, Raw::Word(word))) };
        let len = pool.record_len(word)?;
        Ok(pool.with_record(word, (0, len), |bytes| read(&key, Raw::Bytes(bytes))))
    }

    #[inline]
    fn with_stored<M: Medium, R>(
        (key, word): Entry,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&u64) -> R,
    ) -> Result<(R, Raw), Fault> {
        Ok((read(&key), Self::stored_value(word, reading, kind)?))
    }

    #[inline]
    fn with_key<M: Medium, R>(
        (key, _): Entry,
        _reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(&u64) -> R,
    ) -> Result<R, Fault> {
        Ok(read(&key))
    }
}

/// Parts of a word. All of them are words of fewer bytes.
impl Sink for u64 {
    #[inline]
    fn number(&mut self, number: u64, width: u32) {
        *self = self.unbounded_shl(8 * width) | number & !Self::MAX.unbounded_shl(8 * width);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.number(byte.into(), 1));
    }

    fn escaped(&mut self, bytes: &[u8]) {
        Sink::bytes(self, bytes);
    }
}

/// The parts of a word that are left, in its highest bytes.
#[derive(Debug)]
pub struct WordSource(u64);

impl WordSource {
    #[inline]
    fn new(word: u64, width: u32) -> Self {
        Self(word.unbounded_shl(64 - 8 * width))
    }
}

impl PartSource for WordSource {
    #[inline]
    fn number(&mut self, width: u32) -> u64 {
        let number = self.0.unbounded_shr(64 - 8 * width);
        self.0 = self.0.unbounded_shl(8 * width);
        number
    }

    fn bytes<T>(&mut self, count: usize, read: impl FnOnce(&[u8]) -> T) -> T {
        let word = self.0.to_be_bytes();
        self.0 = self.0.unbounded_shl(8 * count as u32);
        read(&word[..count.min(8)])
    }

    fn rest<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        self.bytes(8, read)
    }

    fn escaped<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        self.bytes(8, read)
    }
}
