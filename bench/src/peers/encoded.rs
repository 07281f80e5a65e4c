//! Entries as stores keep them that know byte strings only.

use crate::entry::{Bytes, Entry, Words};
use crate::out::Outcome;

/// Entries that are byte strings, or can be made such.
pub(crate) trait Encoded: Entry {
    type Encoding<'e>: AsRef<[u8]>;
    /// The bytes of all keys and of all values, if these are as many for all.
    const LEN: Option<usize>;

    fn encode_key<'e>(key: &'e Self::Key<'_>) -> Self::Encoding<'e>;
    fn encode_value<'e>(value: &'e Self::Value<'_>) -> Self::Encoding<'e>;
    fn decode_key(bytes: &[u8]) -> Outcome<Self::Key<'_>>;
    fn decode_value(bytes: &[u8]) -> Outcome<Self::Value<'_>>;

    /// Reads all of a value.
    #[inline]
    fn read_encoded(value: &[u8]) -> Outcome<u64> {
        Self::decode_value(value).map(Self::read)
    }
}

/// Numbers, most significant byte first: so they sort like the numbers.
impl Encoded for Words {
    type Encoding<'e> = [u8; 8];
    const LEN: Option<usize> = Some(Bytes::WORD);

    fn encode_key(&key: &u64) -> [u8; 8] {
        key.to_be_bytes()
    }

    fn encode_value(&value: &u64) -> [u8; 8] {
        value.to_be_bytes()
    }

    fn decode_key(bytes: &[u8]) -> Outcome<u64> {
        Ok(u64::from_be_bytes(bytes.try_into()?))
    }

    fn decode_value(bytes: &[u8]) -> Outcome<u64> {
        Self::decode_key(bytes)
    }
}

impl Encoded for Bytes {
    type Encoding<'e> = &'e [u8];
    const LEN: Option<usize> = None;

    fn encode_key<'e>(key: &'e &[u8]) -> &'e [u8] {
        key
    }

    fn encode_value<'e>(value: &'e &[u8]) -> &'e [u8] {
        value
    }

    fn decode_key(bytes: &[u8]) -> Outcome<&[u8]> {
        Ok(bytes)
    }

    fn decode_value(bytes: &[u8]) -> Outcome<&[u8]> {
        Ok(bytes)
    }
}
