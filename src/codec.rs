//! The encoding of keys and values as words of a tree, and the kinds of keys and values.

/// A kind of key or value, as a root entry names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// The number that is stored in the pool.
    pub tag: u32,
    /// The name that messages use.
    pub name: &'static str,
    /// Whether the word is the offset of a record.
    pub is_record: bool,
}

impl Kind {
    const fn word(tag: u32, name: &'static str) -> Self {
        Self { tag, name, is_record: false }
    }

    /// Whether it is one of the crate's kinds, unchanged. The pool stores the number of a kind only, and takes the rest
    /// from here.
    pub(crate) const fn is_known(self) -> bool {
        let mut i = 0;
        while i < KINDS.len() {
            if KINDS[i].tag == self.tag {
                return KINDS[i].is_record == self.is_record;
            }
            i += 1;
        }
        false
    }
}

/// The kind of the keys and values of a plain tree.
pub(crate) const U64: Kind = Kind::word(1, "u64");
/// Byte strings.
pub(crate) const BYTES: Kind = Kind { tag: 100, name: "bytes", is_record: true };

const KINDS: [Kind; 17] = [
    U64,
    Kind::word(2, "u32"),
    Kind::word(3, "u16"),
    Kind::word(4, "u8"),
    Kind::word(5, "i64"),
    Kind::word(6, "i32"),
    Kind::word(7, "i16"),
    Kind::word(8, "i8"),
    Kind::word(9, "usize"),
    Kind::word(10, "isize"),
    Kind::word(11, "bool"),
    Kind::word(12, "[u8; 8]"),
    Kind::word(13, "(u32, u32)"),
    Kind::word(14, "char"),
    Kind::word(15, "f64"),
    Kind::word(16, "()"),
    BYTES,
];

fn name_of(tag: u32) -> &'static str {
    KINDS.iter().find(|kind| kind.tag == tag).map_or("unknown", |kind| kind.name)
}

pub(crate) fn key_kind_name(tag: u32) -> &'static str {
    name_of(tag)
}

pub(crate) fn value_kind_name(tag: u32) -> &'static str {
    name_of(tag)
}

pub(crate) fn is_record(tag: u32) -> bool {
    KINDS.iter().any(|kind| kind.tag == tag && kind.is_record)
}

/// A key with an order-preserving encoding in eight bytes: `a < b` if and only if `a.encode() < b.encode()`.
pub trait Key: Copy + Ord {
    /// The kind that the pool stores for this type. It must be the kind of one of this crate's keys:
    /// [`Pool::map`](crate::Pool::map) does not compile with any other.
    const KIND: Kind;

    /// The word of a key.
    fn encode(self) -> u64;

    /// The key of a word. A word that encodes no key, which only a damaged pool holds, is decoded to an arbitrary key.
    fn decode(word: u64) -> Self;
}

/// A value that a [`Map`](crate::Map) can hold: inline in its slot, or as a record.
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

/// A value on its way into the pool.
#[derive(Debug, Clone, Copy)]
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

impl Encoded<'_> {
    fn word(self) -> u64 {
        match self {
            Self::Word(word) => word,
            Self::Bytes(_) => 0,
        }
    }
}

impl Stored {
    fn word(self) -> u64 {
        match self {
            Self::Word(word) => word,
            Self::Bytes(_) => 0,
        }
    }
}

macro_rules! keys {
    ($($type:ty, $tag:literal, |$key:ident| $encode:expr, |$word:ident| $decode:expr;)*) => {$(
        impl Key for $type {
            const KIND: Kind = KINDS[$tag - 1];

            fn encode(self) -> u64 {
                let $key = self;
                $encode
            }

            fn decode($word: u64) -> Self {
                $decode
            }
        }

        values! { $type, $tag, |$key| $encode, |$word| $decode; }
    )*};
}

macro_rules! values {
    ($($type:ty, $tag:literal, |$value:ident| $encode:expr, |$word:ident| $decode:expr;)*) => {$(
        impl Value for $type {
            const KIND: Kind = KINDS[$tag - 1];
            type Borrowed<'v> = Self;

            fn encode<'v>(value: Self::Borrowed<'v>) -> Encoded<'v> {
                let $value = value;
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

const SIGN: u64 = 1 << 63;

keys! {
    u64, 1, |k| k, |w| w;
    u32, 2, |k| k.into(), |w| w as Self;
    u16, 3, |k| k.into(), |w| w as Self;
    u8, 4, |k| k.into(), |w| w as Self;
    // Flipping the sign bit of the widened integer makes words compare as the integers do.
    i64, 5, |k| k as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    i32, 6, |k| i64::from(k) as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    i16, 7, |k| i64::from(k) as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    i8, 8, |k| i64::from(k) as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    usize, 9, |k| k as u64, |w| w as Self;
    isize, 10, |k| k as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    bool, 11, |k| k.into(), |w| w != 0;
    // Big-endian, so that words compare as the bytes do.
    [u8; 8], 12, |k| u64::from_be_bytes(k), |w| w.to_be_bytes();
    (u32, u32), 13, |k| u64::from(k.0) << 32 | u64::from(k.1), |w| ((w >> 32) as u32, w as u32);
    char, 14, |k| k.into(), |w| u32::try_from(w).ok().and_then(Self::from_u32).unwrap_or(Self::REPLACEMENT_CHARACTER);
}

values! {
    f64, 15, |v| v.to_bits(), |w| Self::from_bits(w);
    (), 16, |_v| 0, |_w| ();
}

impl Value for Vec<u8> {
    const KIND: Kind = BYTES;
    type Borrowed<'v> = &'v [u8];

    fn encode<'v>(value: Self::Borrowed<'v>) -> Encoded<'v> {
        Encoded::Bytes(value)
    }

    fn decode(encoded: Stored) -> Self {
        match encoded {
            Stored::Bytes(bytes) => bytes,
            Stored::Word(word) => word.to_ne_bytes().to_vec(),
        }
    }

    fn view<'v>(encoded: Encoded<'v>) -> Self::Borrowed<'v> {
        match encoded {
            Encoded::Bytes(bytes) => bytes,
            // A map of byte strings has no inline values.
            Encoded::Word(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered<K: Key + std::fmt::Debug>(keys: &[K]) {
        for pair in keys.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].encode() < pair[1].encode(), "{pair:?}");
        }
        for &key in keys {
            assert_eq!(K::decode(key.encode()), key);
        }
    }

    #[test]
    fn every_key_keeps_its_order_and_comes_back() {
        ordered(&[0u64, 1, u64::MAX - 1, u64::MAX]);
        ordered(&[0u32, 1, u32::MAX]);
        ordered(&[0u16, 1, u16::MAX]);
        ordered(&[0u8, 1, u8::MAX]);
        ordered(&[i64::MIN, -1, 0, 1, i64::MAX]);
        ordered(&[i32::MIN, -1, 0, 1, i32::MAX]);
        ordered(&[i16::MIN, -1, 0, 1, i16::MAX]);
        ordered(&[i8::MIN, -1, 0, 1, i8::MAX]);
        ordered(&[0usize, 1, usize::MAX]);
        ordered(&[isize::MIN, -1, 0, 1, isize::MAX]);
        ordered(&[false, true]);
        ordered(&[*b"aaaaaaaa", *b"aaaaaaab", *b"b\0\0\0\0\0\0\0", [255; 8]]);
        ordered(&[(0, 0), (0, 1), (0, u32::MAX), (1, 0), (u32::MAX, u32::MAX)]);
        ordered(&['\0', 'a', 'é', char::MAX]);
    }

    #[test]
    fn tags_are_places_in_the_table() {
        for (i, kind) in KINDS.iter().enumerate().take(16) {
            assert_eq!(kind.tag as usize, i + 1);
        }
        assert!(is_record(BYTES.tag) && !is_record(U64.tag));
    }
}
