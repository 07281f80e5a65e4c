//! Values as trees take and return them, and the greatest length of a key.

/// The greatest length of an encoded key.
pub(crate) const KEY_MAX: usize = 65_536;

/// A value on its way into the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded<'v> {
    /// A value that fits into the slot.
    Word(u64),
    /// A value that becomes a record.
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
    #[inline]
    pub(crate) fn word(self) -> u64 {
        match self {
            Self::Word(word) => word,
            Self::Bytes(_) => 0,
        }
    }

    #[inline]
    pub(crate) fn bytes(self) -> &'v [u8] {
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
    /// The same on its way into another pool.
    pub(crate) fn encoded(&self) -> Encoded<'_> {
        match self {
            Self::Word(word) => Encoded::Word(*word),
            Self::Bytes(bytes) => Encoded::Bytes(bytes),
        }
    }

    #[inline]
    pub(crate) fn word(self) -> u64 {
        match self {
            Self::Word(word) => word,
            Self::Bytes(_) => 0,
        }
    }

    #[inline]
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Word(word) => word.to_ne_bytes().to_vec(),
        }
    }
}
