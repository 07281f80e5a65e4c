//! The element of a leaf: one version of a key, or its removal.

use super::clock::SLOTS;
use crate::numbers::mix;

/// Words of an element.
pub(super) const WORDS: usize = 4;
pub(super) const BYTES: u64 = WORDS as u64 * 8;

/// One version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    /// [`hash`] of the key.
    pub(super) hash: u64,
    pub(super) record: u64,
    pub(super) stamp: Stamp,
    pub(super) key_len: u32,
    /// The length of the value; 0 for a removal.
    pub(super) value_len: u32,
}

/// When a version was made, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) time: u64,
    /// The slot that says whether the version counts, if a transaction in several leaves made it; else 0.
    pub(super) slot: usize,
    pub(super) removed: bool,
}

impl Stamp {
    const SLOT_BITS: u32 = 7;
    /// At ten million changes per second, it is reached in a hundred years.
    pub(super) const LATEST: u64 = u64::MAX >> (Self::SLOT_BITS + 1);
    /// No store has come so far: a later time on the medium is damage. What follows it would not fit into a stamp.
    pub(super) const LIKELY: u64 = Self::LATEST / 2;

    fn word(self) -> u64 {
        (self.time << Self::SLOT_BITS | self.slot as u64) << 1 | u64::from(self.removed)
    }

    fn from_word(word: u64) -> Self {
        let slot = (word >> 1) as usize & ((1 << Self::SLOT_BITS) - 1);
        Self { time: word >> (Self::SLOT_BITS + 1), slot, removed: word & 1 == 1 }
    }
}

// Slots have the numbers from 1.
const _: () = assert!(SLOTS < 1 << Stamp::SLOT_BITS);

impl Element {
    /// A version that has no time yet.
    pub(super) fn new(key: &[u8], record: u64, value_len: usize) -> Self {
        let stamp = Stamp { time: 0, slot: 0, removed: false };
        Self { hash: hash(key), record, stamp, key_len: key.len() as u32, value_len: value_len as u32 }
    }

    /// The removal of what this version shows.
    pub(super) fn removal(self) -> Self {
        Self { stamp: Stamp { removed: true, ..self.stamp }, value_len: 0, ..self }
    }

    pub(super) fn at_time(self, time: u64, slot: usize) -> Self {
        Self { stamp: Stamp { time, slot, ..self.stamp }, ..self }
    }

    pub(super) fn words(self) -> [u64; WORDS] {
        let lengths = u64::from(self.key_len) << 32 | u64::from(self.value_len);
        [self.hash, self.record, self.stamp.word(), lengths]
    }

    pub(super) fn from_words([hash, record, stamp, lengths]: [u64; WORDS]) -> Self {
        let (key_len, value_len) = ((lengths >> 32) as u32, lengths as u32);
        Self { hash, record, stamp: Stamp::from_word(stamp), key_len, value_len }
    }

    /// Where the value is, in a record.
    pub(super) fn value_at(self) -> u64 {
        self.record + u64::from(self.key_len).next_multiple_of(8)
    }

    /// The bytes of the record of a version; a removal has none of its own.
    pub(super) fn record_bytes(self) -> u64 {
        record_bytes(u64::from(self.key_len), u64::from(self.value_len))
    }
}

/// The bytes of a record of a key and a value with these lengths, which may be anything.
pub(super) fn record_bytes(key: u64, value: u64) -> u64 {
    key.div_ceil(8).saturating_mul(8).saturating_add(value)
}

/// A hash of a key. Keys of up to eight bytes and of equal lengths have equal ones only if they are equal.
#[inline]
pub(super) fn hash(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain((!rest.is_empty()).then_some(&last));
    words.fold(mix(key.len() as u64), |hash, word| mix(hash ^ u64::from_le_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn words_keep_an_element() {
        let stamps = [(1, 0), (Stamp::LATEST, SLOTS), (77, 3)];
        for (time, slot) in stamps {
            let version = Element::new(b"some key", 640, 5).at_time(time, slot);
            for element in [version, version.removal()] {
                assert_eq!(Element::from_words(element.words()), element);
            }
        }
    }

    #[test]
    fn hashes_tell_short_keys_apart() {
        let keys = (0..=255).flat_map(|byte| (0..8).map(move |len| [vec![0; len], vec![byte]].concat()));
        let hashes: BTreeSet<u64> = keys.map(|key| hash(&key)).collect();
        assert_eq!(hashes.len(), 256 * 8);
        assert!(hash(b"a longer key") != hash(b"a longer kez") && hash(b"") != hash(b"\0"));
    }
}
