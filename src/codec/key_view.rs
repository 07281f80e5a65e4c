//! A key where it was read, before anything is built of it.

use super::{ByteStrings, Key, StoredKey};
use std::borrow::Cow;
use std::fmt;

/// A key as [`Entries::next_with`](crate::iter::Entries::next_with) passes it to its closure: encoded, in a copy that
/// lives as long as the call.
pub struct KeyView<'v, K: Key>(&'v StoredKey<K>);

impl<'v, K: Key> KeyView<'v, K> {
    #[inline]
    pub(crate) fn new(stored: &'v StoredKey<K>) -> Self {
        Self(stored)
    }

    /// The key itself.
    #[inline]
    pub fn decode(self) -> K {
        K::decode(self.0)
    }
}

impl<'v, K: Key<Form = ByteStrings>> KeyView<'v, K> {
    /// The bytes that encode the key. A `String` or a `Vec<u8>` is encoded as its own bytes. They compare as keys do.
    #[inline]
    pub fn as_bytes(self) -> &'v [u8] {
        self.0
    }
}

impl<'v> KeyView<'v, String> {
    /// The text. Bytes that are no UTF-8, which only a damaged pool holds, are replaced.
    pub fn as_str(self) -> Cow<'v, str> {
        String::from_utf8_lossy(self.0)
    }
}

impl<K: Key> Clone for KeyView<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Key> Copy for KeyView<'_, K> {}

impl<K: Key + fmt::Debug> fmt::Debug for KeyView<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decode().fmt(f)
    }
}
