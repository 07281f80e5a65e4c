//! Values as trees take and return them, and the greatest length of a key.

use std::borrow::Cow;

/// The greatest length of an encoded key.
pub(crate) const KEY_MAX: usize = 65_536;

/// A value on its way into the pool, as its type [encodes](crate::Value::encode) it.
#[derive(Debug, Clone)]
pub enum ToStore<'v> {
    /// A value that fits into the slot.
    Word(u64),
    /// A value that becomes a record: its own bytes, or such as were built of it.
    Bytes(Cow<'v, [u8]>),
}

impl From<u64> for ToStore<'_> {
    #[inline]
    fn from(word: u64) -> Self {
        Self::Word(word)
    }
}

impl<'v> From<&'v [u8]> for ToStore<'v> {
    #[inline]
    fn from(bytes: &'v [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for ToStore<'_> {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}

impl ToStore<'_> {
    /// This value, borrowed.
    #[inline]
    pub(crate) fn encoded(&self) -> Encoded<'_> {
        match self {
            Self::Word(word) => Encoded::Word(*word),
            Self::Bytes(bytes) => Encoded::Bytes(bytes),
        }
    }
}

/// A value in a slot or in a record, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded<'v> {
    /// A value that is in the slot.
    Word(u64),
    /// A value that is a record.
    Bytes(&'v [u8]),
}

/// A value on its way out of the pool.
#[derive(Debug, Clone)]
pub enum Stored {
    /// A value that was in the slot.
    Word(u64),
    /// A value that was a record.
    Bytes(Vec<u8>),
}

impl<'v> Encoded<'v> {
    /// The word; 0 if it is a record.
    #[inline]
    pub fn word(self) -> u64 {
        match self {
            Self::Word(word) => word,
            Self::Bytes(_) => 0,
        }
    }

    /// The bytes of the record; none if it is a word.
    #[inline]
    pub fn bytes(self) -> &'v [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            // A map of records has no inline values.
            Self::Word(_) => &[],
        }
    }
}

impl From<Encoded<'_>> for Stored {
    fn from(value: Encoded<'_>) -> Self {
        match value {
            Encoded::Word(word) => Self::Word(word),
            Encoded::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }
}

impl Stored {
    /// This value, borrowed, on its way into another pool.
    pub(crate) fn encoded(&self) -> Encoded<'_> {
        match self {
            Self::Word(word) => Encoded::Word(*word),
            Self::Bytes(bytes) => Encoded::Bytes(bytes),
        }
    }

    /// The word; 0 if it was a record.
    #[inline]
    pub fn word(self) -> u64 {
        match self {
            Self::Word(word) => word,
            Self::Bytes(_) => 0,
        }
    }

    /// The bytes of the record, or of the word.
    #[inline]
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Word(word) => word.to_ne_bytes().to_vec(),
        }
    }
}
