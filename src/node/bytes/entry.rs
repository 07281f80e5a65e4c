//! The entry of a byte string: a record of a key and a value, and the word of the slot that points to it.
//!
//! ```text
//! record      | length of the key: 1 to 3 bytes | key | value |
//! reference   | fingerprint 8 | home 8 | offset of the record 48 |        0: no entry
//! ```
//!
//! The length of a key takes seven bits of each byte, the lowest ones first; each byte but the last has its top bit
//! set. The fingerprint is not 0. Fingerprint and home come from the hash of the key, so neither the first touch of a
//! leaf nor a split needs to read records.

use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::Medium;
use crate::pool::access::Access;
use crate::pool::record::{HEADER, locate};
use std::cmp::Ordering;

/// Offsets of records are less than this.
const OFFSETS: u64 = 1 << 48;

/// The reference to a record at `at` whose key has this hash.
pub(crate) fn reference(at: u64, hash: u64) -> Result<u64, Fault> {
    if at >= OFFSETS {
        return Err(ErrorKind::OutOfSpace { wanted: at, capacity: OFFSETS, source: None }.into());
    }
    Ok(at | tag(hash) << 48)
}

/// The top sixteen bits of the references to keys with this hash.
#[inline]
pub(in crate::node) fn tag(hash: u64) -> u64 {
    let print = (hash >> 56).max(1);
    print << 8 | hash >> 48 & 0xff
}

/// The fingerprint in a reference.
#[inline]
pub(in crate::node) fn print(reference: u64) -> u8 {
    (reference >> 56) as u8
}

/// The home line that a tag names, of this many.
#[inline]
pub(in crate::node) fn home(tag: u64, lines: usize) -> usize {
    ((tag & 0xff) as usize * lines) >> 8
}

/// The offset in a reference.
#[inline]
pub(crate) fn record(reference: u64) -> u64 {
    reference & (OFFSETS - 1)
}

/// The reference to a copy of the record that another one points to; `None` if it lies too far away.
pub(crate) fn moved(reference: u64, copy: u64) -> Option<u64> {
    (copy < OFFSETS).then_some(reference & !(OFFSETS - 1) | copy)
}

/// What comes before a key of this length in its record.
pub(crate) struct KeyLen {
    bytes: [u8; 3],
    len: usize,
}

impl KeyLen {
    pub(crate) fn for_len(len: usize) -> Self {
        let byte = |i: usize| (len >> (7 * i) & 0x7f) as u8;
        match len {
            0..0x80 => Self { bytes: [byte(0), 0, 0], len: 1 },
            0x80..0x4000 => Self { bytes: [byte(0) | 0x80, byte(1), 0], len: 2 },
            _ => Self { bytes: [byte(0) | 0x80, byte(1) | 0x80, byte(2)], len: 3 },
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The length that these bytes begin with, and how many bytes that takes.
    #[inline]
    fn read(bytes: [u8; 8]) -> (u64, u64) {
        let bits = |i: usize| u64::from(bytes[i] & 0x7f) << (7 * i);
        if bytes[0] < 0x80 {
            (bits(0), 1)
        } else if bytes[1] < 0x80 {
            (bits(0) | bits(1), 2)
        } else {
            (bits(0) | bits(1) | bits(2), 3)
        }
    }
}

/// Where key and value are in the bytes of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordParts {
    /// Where the key begins, and its length.
    pub(crate) key: (u64, u64),
    /// Where the value begins, and its length.
    pub(crate) value: (u64, u64),
}

/// Reading entries.
impl<M: Medium> Access<'_, M> {
    /// Where key and value of the record at `at` are.
    // Scans call it for each entry, and the result is too long for registers.
    #[inline(always)]
    pub(crate) fn parts(self, at: u64) -> Result<RecordParts, Broken> {
        let len = self.record_len(at)?;
        // A record has at least one word behind its header.
        let (key, from) = KeyLen::read(self.m.load(at + HEADER).to_ne_bytes());
        match len.checked_sub(from + key) {
            Some(value) => Ok(RecordParts { key: (from, key), value: (from + key, value) }),
            None => Err(Broken::new(at, "V2: a key longer than its record")),
        }
    }

    /// Whether the key of the record is this one.
    #[inline]
    pub(crate) fn has_key(self, at: u64, key: &[u8]) -> bool {
        let Ok(RecordParts { key: (from, len), .. }) = self.parts(at) else { return false };
        if len != key.len() as u64 {
            return false;
        }
        // Whole words of the pool are compared. The first one begins with the length.
        let (first, rest) = key.split_at(key.len().min(8 - from as usize));
        let (whole, last) = rest.as_chunks::<8>();
        let mut next = at + HEADER;
        let mut word = || {
            let word = self.m.load(next);
            next += 8;
            word
        };
        let starts = |word: u64, skip: usize, bytes: &[u8]| word.to_ne_bytes()[skip..skip + bytes.len()] == *bytes;
        starts(word(), from as usize, first)
            && whole.iter().all(|bytes| word() == u64::from_ne_bytes(*bytes))
            && (last.is_empty() || starts(word(), 0, last))
    }

    /// How the key of the record lies to another one. A damaged record has the empty key.
    pub(crate) fn order_to(self, at: u64, key: &[u8]) -> Ordering {
        let (from, len) = self.parts(at).map_or((0, 0), |parts| parts.key);
        let mut piece = [0; 64];
        let common = len.min(key.len() as u64) as usize;
        for (i, other) in key[..common].chunks(piece.len()).enumerate() {
            let found = &mut piece[..other.len()];
            self.copy_record(at, from + (i * 64) as u64, found);
            if found != other {
                return (*found).cmp(other);
            }
        }
        len.cmp(&(key.len() as u64))
    }

    /// The key of the record. A damaged record has the empty key.
    pub(crate) fn key_of(self, at: u64) -> Vec<u8> {
        self.parts(at).map_or_else(|_| Vec::new(), |parts| self.record_bytes(at, parts.key.0, parts.key.1))
    }

    /// Whether the tree may have a record there.
    #[inline]
    pub(crate) fn has_record(self, at: u64) -> bool {
        locate(self.segments, self.tree, at).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_keys_are_read_back() {
        for len in (0..70_000).step_by(if cfg!(miri) { 97 } else { 1 }).chain([1 << 20]) {
            let stored = KeyLen::for_len(len);
            let mut bytes = [0xff; 8];
            bytes[..stored.as_bytes().len()].copy_from_slice(stored.as_bytes());
            assert_eq!(KeyLen::read(bytes), (len as u64, stored.as_bytes().len() as u64), "{len}");
        }
    }

    #[test]
    fn a_reference_is_never_zero_and_tells_its_parts() {
        for hash in [0, 1 << 48, 0xff << 48, 1 << 56, u64::MAX] {
            let word = reference(0x1234_5678, hash).unwrap();
            assert_eq!((record(word), print(word) == 0, word >> 48), (0x1234_5678, false, tag(hash)));
            assert!(home(tag(hash), 9) < 9);
        }
        assert!(reference(OFFSETS, 0).is_err());
    }
}
