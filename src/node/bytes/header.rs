//! The header of a leaf of byte strings, and what reads it.
//!
//! ```text
//! line 0   | next 8 | layout 16, skip 16, length of the low 32 | low, or its record: 48 |
//! ```
//!
//! A low of up to 48 bytes lies in the header. A longer one is a record, to which the first of these words
//! points.

use crate::entry::byte_key::common_prefix;
use crate::error::Broken;
use crate::medium::Medium;
use crate::node::BlockAt;
use std::cmp::Ordering;

/// Offset of the word of layout, skip, and length of the low.
pub(in crate::node) const META: u64 = 8;
/// Offset of the low, or of the word that points to its record.
pub(in crate::node) const LOW: u64 = 16;
/// The greatest length of a low in the header.
pub(in crate::node) const INLINE: usize = 48;

/// The tag of the layout.
pub(in crate::node) const LAYOUT: u16 = 64;

/// The word of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) struct Meta {
    /// How many bytes of keys the heads of the leaf skip. The low has as many.
    pub(in crate::node) skip: usize,
    /// The length of the low.
    pub(in crate::node) len: usize,
}

impl Meta {
    pub(in crate::node) fn word(self) -> u64 {
        u64::from(LAYOUT) | (self.skip as u64) << 16 | (self.len as u64) << 32
    }

    #[inline]
    pub(in crate::node) fn from_word(word: u64) -> Self {
        Self { skip: (word >> 16) as u16 as usize, len: (word >> 32) as usize }
    }
}

/// The header of a leaf.
impl<M: Medium> BlockAt<'_, M> {
    #[inline]
    pub(in crate::node) fn meta(self) -> Meta {
        Meta::from_word(self.load(META))
    }

    /// The record of the low of a leaf; 0 if it has none.
    pub(crate) fn low_record(self) -> u64 {
        if self.meta().len > INLINE { self.load(LOW) } else { 0 }
    }

    /// Checks the record of the low of a leaf that has one.
    pub(crate) fn check_low(self, record: u64) -> Result<(), Broken> {
        self.pool.check_record(record)?;
        if self.pool.record_len(record)? == self.meta().len as u64 {
            Ok(())
        } else {
            Err(self.broken(META, "V2: a low of another length than its record"))
        }
    }

    /// Applies `read` to the low of a leaf. If the leaf is written to meanwhile, or damaged, that is any string.
    #[inline]
    pub(crate) fn with_low<R>(self, read: impl FnOnce(&[u8]) -> R) -> R {
        let len = self.meta().len;
        if len > INLINE {
            return read(&self.long_low());
        }
        let mut words = [[0; 8]; INLINE / 8];
        for (i, word) in words[..len.div_ceil(8)].iter_mut().enumerate() {
            *word = self.load(LOW + i as u64 * 8).to_ne_bytes();
        }
        read(&words.as_flattened()[..len])
    }

    #[cold]
    fn long_low(self) -> Vec<u8> {
        self.pool.read_record(self.load(LOW)).unwrap_or_default()
    }

    /// The low of a leaf.
    pub(in crate::node) fn low_key(self) -> Vec<u8> {
        self.with_low(<[u8]>::to_vec)
    }

    /// The head of a key in a leaf: the eight bytes behind the first `skip`. It is 0 for keys below all that share
    /// these first bytes, and the greatest number for keys above them. So heads are in the order of keys, whatever keys
    /// come into the leaf later.
    pub(in crate::node) fn head(self, skip: usize, key: &[u8]) -> u64 {
        self.with_low(|low| match low.get(..skip) {
            Some(prefix) => head(key, prefix),
            // Damage.
            None => crate::entry::byte_key::head(key, skip),
        })
    }

    /// The head, in a leaf, of the low of another one.
    pub(crate) fn head_of_low(self, other: u64) -> u64 {
        let skip = self.meta().skip;
        self.other(other).with_low(|low| self.head(skip, low))
    }

    /// The head of the key of a record.
    pub(in crate::node) fn head_of(self, skip: usize, record: u64) -> u64 {
        self.head(skip, &self.pool.key_of(record))
    }
}

/// The head of a key in a leaf whose heads skip the bytes of `prefix`.
#[inline]
pub(in crate::node) fn head(key: &[u8], prefix: &[u8]) -> u64 {
    match prefix_order(key, prefix) {
        Ordering::Less => 0,
        Ordering::Equal => crate::entry::byte_key::head(key, prefix.len()),
        Ordering::Greater => u64::MAX,
    }
}

/// How a key lies to all strings that begin with a prefix; equal if it is one of them.
fn prefix_order(key: &[u8], prefix: &[u8]) -> Ordering {
    key[..key.len().min(prefix.len())].cmp(prefix)
}

/// The shortest string that is greater than `left` and not greater than `right`, which is greater than `left`: a length
/// to which `right` can be cut.
pub(crate) fn separator_len(left: &[u8], right: &[u8]) -> usize {
    (common_prefix(left, right) + 1).min(right.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_separates() {
        let strings: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"ab", b"abc", b"b", b"\xff"];
        for (i, left) in strings.iter().enumerate() {
            for right in &strings[i + 1..] {
                let separator = &right[..separator_len(left, right)];
                assert!(*left < separator && separator <= right, "{left:?} {separator:?} {right:?}");
            }
        }
    }

    #[test]
    fn keys_lie_to_a_prefix_as_to_its_strings() {
        for (key, order) in [
            (&b"aa"[..], Ordering::Less),
            (b"a", Ordering::Less),
            (b"ab", Ordering::Equal),
            (b"abz", Ordering::Equal),
            (b"b", Ordering::Greater),
            (b"", Ordering::Less),
        ] {
            assert_eq!(prefix_order(key, b"ab"), order, "{key:?}");
        }
        assert_eq!(prefix_order(b"", b""), Ordering::Equal);
    }

    #[test]
    fn the_word_of_the_header_is_read_back() {
        let meta = Meta { skip: 65_535, len: 65_537 };
        assert_eq!(Meta::from_word(meta.word()), meta);
    }
}
