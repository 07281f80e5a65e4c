//! Values as trees take and return them, and the greatest length of a key.

use std::borrow::Cow;
use std::ops::Deref;

/// The greatest length of an encoded key.
pub(crate) const KEY_MAX: usize = 65_536;

/// A value as trees hold it: a word in its slot, or the bytes of a record.
///
/// `B` says whose the bytes are. On the way into a pool they are `Cow<[u8]>`: those of the value itself, or such as
/// were built of it. On the way out they are a `Vec<u8>`, or a `&[u8]` that lives as long as a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raw<B = Vec<u8>> {
    /// A value that is in its slot.
    Word(u64),
    /// A value that is a record.
    Bytes(B),
}

impl<B> From<u64> for Raw<B> {
    #[inline]
    fn from(word: u64) -> Self {
        Self::Word(word)
    }
}

impl<'v> From<&'v [u8]> for Raw<Cow<'v, [u8]>> {
    #[inline]
    fn from(bytes: &'v [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Raw<Cow<'_, [u8]>> {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}

impl<B> Raw<B> {
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
    pub fn bytes(self) -> B
    where
        B: Default,
    {
        match self {
            Self::Bytes(bytes) => bytes,
            // A map of records has no inline values.
            Self::Word(_) => B::default(),
        }
    }
}

impl<B: Deref<Target = [u8]>> Raw<B> {
    /// This value, borrowed.
    #[inline]
    pub(crate) fn lent(&self) -> Raw<&[u8]> {
        match self {
            Self::Word(word) => Raw::Word(*word),
            Self::Bytes(bytes) => Raw::Bytes(bytes),
        }
    }
}

impl Raw<&[u8]> {
    /// This value, with bytes of its own.
    #[inline]
    pub(crate) fn owned<B: for<'b> From<&'b [u8]>>(self) -> Raw<B> {
        match self {
            Self::Word(word) => Raw::Word(word),
            Self::Bytes(bytes) => Raw::Bytes(bytes.into()),
        }
    }
}
