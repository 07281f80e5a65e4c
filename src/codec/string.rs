//! Keys of any length: texts and byte strings.

use super::prefix::{bounds_of, prefixes};
use super::size::More;
use super::{ByteStrings, EncodedKey, Key, KeyBytes, PrefixOf, Prefixed};
use crate::entry::kind::Kind;

/// UTF-8 keeps the order of texts.
impl Key for String {
    const KIND: Kind = Kind::simple(17);
    type Form = ByteStrings;
    type Size = More;
    type Borrowed<'k> = &'k str;

    #[inline]
    fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
        KeyBytes::from(key.as_bytes())
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => Self::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

impl Key for Vec<u8> {
    const KIND: Kind = Kind::simple(18);
    type Form = ByteStrings;
    type Size = More;
    type Borrowed<'k> = &'k [u8];

    #[inline]
    fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
        KeyBytes::from(key)
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        bytes.to_vec()
    }
}

impl PrefixOf<String> for &str {
    fn bounds(&self) -> Prefixed<'_, String> {
        bounds_of::<String>(self.as_bytes())
    }
}

prefixes! { Vec<u8> }
