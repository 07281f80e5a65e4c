//! The encoding of values: as words in their slots, or as records.

use crate::kind::{BYTES, Kind, STRING};
use crate::stored::{Encoded, Stored};

/// A value that a [`Map`](crate::Map) can hold: inline in its slot, or as a record.
///
/// The integers up to 64 bits, `bool`, `char`, `f64`, `()`, `[u8; 8]` and `(u32, u32)` lie in the slot. `Vec<u8>` and
/// `String` are records of up to 1 GiB.
pub trait Value: Sized + 'static {
    /// The kind that the pool stores for this type. It must be the kind of one of this crate's values:
    /// [`Pool::map`](crate::Pool::map) does not compile with any other.
    const KIND: Kind;

    /// The type that `insert` takes.
    type Borrowed<'v>: Copy;

    /// The word of an inline value, or the bytes of a record, as the kind requires. A value of the wrong form is
    /// refused with [`KindMismatch`](crate::ErrorKind::KindMismatch).
    fn encode<'v>(value: Self::Borrowed<'v>) -> Encoded<'v>;

    /// The value of a word or of bytes.
    fn decode(encoded: Stored) -> Self;

    /// The same, borrowed: what [`Map::get_with`](crate::Map::get_with) passes to its closure.
    fn view<'v>(encoded: Encoded<'v>) -> Self::Borrowed<'v>;
}

macro_rules! words {
    ($($type:ty, $kind:expr, |$value:ident| $encode:expr, |$word:ident| $decode:expr;)*) => {$(
        impl Value for $type {
            const KIND: Kind = $kind;
            type Borrowed<'v> = Self;

            fn encode<'v>($value: Self::Borrowed<'v>) -> Encoded<'v> {
                Encoded::Word($encode)
            }

            fn decode(encoded: Stored) -> Self {
                let $word = encoded.word();
                $decode
            }

            fn view<'v>(encoded: Encoded<'v>) -> Self::Borrowed<'v> {
                let $word = encoded.word();
                $decode
            }
        }
    )*};
}

/// Values that are encoded as the keys of their type are.
macro_rules! as_keys {
    ($($type:ty)*) => {$(
        words! {
            $type,
            <$type as super::Key>::KIND,
            |value| <$type as super::Key>::encode(value),
            |word| <$type as super::Key>::decode(&word);
        }
    )*};
}

as_keys! { u64 u32 u16 u8 i64 i32 i16 i8 usize isize bool [u8; 8] (u32, u32) char }

words! {
    f64, Kind::simple(15), |v| v.to_bits(), |w| Self::from_bits(w);
    (), Kind::simple(16), |_v| 0, |_w| ();
}

impl Value for Vec<u8> {
    const KIND: Kind = BYTES;
    type Borrowed<'v> = &'v [u8];

    fn encode<'v>(value: Self::Borrowed<'v>) -> Encoded<'v> {
        Encoded::Bytes(value)
    }

    fn decode(encoded: Stored) -> Self {
        encoded.bytes()
    }

    fn view<'v>(encoded: Encoded<'v>) -> &'v [u8] {
        encoded.bytes()
    }
}

/// Bytes that are no UTF-8, which only a damaged pool holds, are decoded with replacement characters. Only what
/// precedes them is viewed.
impl Value for String {
    const KIND: Kind = STRING;
    type Borrowed<'v> = &'v str;

    fn encode<'v>(value: Self::Borrowed<'v>) -> Encoded<'v> {
        Encoded::Bytes(value.as_bytes())
    }

    fn decode(encoded: Stored) -> Self {
        Self::from_utf8(encoded.bytes()).unwrap_or_else(|error| Self::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    fn view<'v>(encoded: Encoded<'v>) -> &'v str {
        let bytes = encoded.bytes();
        str::from_utf8(bytes).unwrap_or_else(|_| bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()))
    }
}
