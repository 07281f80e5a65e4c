//! What a key of a map is.

use super::{Form, Size};
use crate::entry::kind::Kind;
use crate::node::Keys;
use std::borrow::Borrow;

/// A key of a [`Map`](crate::Map): a type with an encoding that keeps its order.
///
/// Keys of types that never take more than eight bytes are words ([`Words`](crate::codec::Words)), and compare as
/// numbers. All others are byte strings ([`ByteStrings`](crate::codec::ByteStrings)) of up to 65,536 bytes.
///
/// | keys | methods take | encoding |
/// |---|---|---|
/// | `u8` to `u64`, `usize`, `i8` to `i64`, `isize`, `bool`, `char` | the key | a word |
/// | `u128`, `i128` | the key | 16 bytes |
/// | `[u8; 1]` to `[u8; 8]` | the key | a word |
/// | `[u8; 9]` to `[u8; 64]` | the key | the bytes |
/// | `[u8; 96]`, `[u8; 128]`, `[u8; 256]` | `&[u8; N]` | the bytes |
/// | `String`, `Vec<u8>` | `&str`, `&[u8]` | the bytes |
/// | `Option<K>` | `Option` of what methods take for `K` | one byte, then the key, or zeros; `None` comes first |
/// | tuples of two to six keys | the tuple of what methods take for the parts | the parts, one after the other |
///
/// Tuples and options are words if all their parts take up to eight bytes together: 1 for `u8` and `bool`, 2 for `u16`,
/// 4 for `u32` and `char`, 8 for `u64` and `usize`, one for an option besides its key, and so on. Texts, byte strings
/// and composite keys with such parts take two bytes more, and one more for each byte 0 in them, where another part
/// follows. So a tuple with a text last is the shortest one.
///
/// # Examples
///
/// A type of your own is stored as one of these types. It takes the kind, form and size from there, and encodes every
/// key as a key of that type: bytes of another length, or a text that is none, would come back as other keys. The pool
/// knows only the kind: of two types with the same kind, it cannot tell as which a map was made, unless one of them has
/// a kind with a [name of its own](Kind::own). For [`prefix`](crate::Map::prefix), implement
/// [`PrefixOf`](crate::codec::PrefixOf), too.
///
/// ```
/// use bristlecone::codec::{EncodedKey, Kind};
/// use bristlecone::Key;
///
/// #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
/// struct Email(String);
///
/// impl Key for Email {
///     const KIND: Kind = <String as Key>::KIND;
///     type Form = <String as Key>::Form;
///     type Size = <String as Key>::Size;
///     type Borrowed<'k> = &'k str;
///
///     fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
///         String::encode(key)
///     }
///
///     fn decode(bytes: &[u8]) -> Self {
///         Self(String::decode(bytes))
///     }
/// }
///
/// assert_eq!(Email::encode("a@b.c").as_bytes(), b"a@b.c");
/// assert_eq!(<(Email, u64)>::encode(("a@b.c", 7)).as_bytes(), b"a@b.c\0\0\0\0\0\0\0\0\0\x07");
/// ```
///
/// A structure is stored as a tuple. This one is a word, because it takes six bytes:
///
/// ```
/// use bristlecone::codec::{EncodedKey, Kind};
/// use bristlecone::{Key, Map, Pool};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
/// struct Seat {
///     row: u16,
///     number: u32,
/// }
///
/// type Parts = (u16, u32);
///
/// impl Key for Seat {
///     const KIND: Kind = Parts::KIND;
///     type Form = <Parts as Key>::Form;
///     type Size = <Parts as Key>::Size;
///     type Borrowed<'k> = Self;
///
///     fn encode<'k>(seat: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
///         Parts::encode((seat.row, seat.number))
///     }
///
///     fn decode(word: &u64) -> Self {
///         let (row, number) = Parts::decode(word);
///         Self { row, number }
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
/// let taken: Map<Seat, ()> = pool.map("taken")?;
/// taken.insert(Seat { row: 3, number: 12 }, ())?;
/// assert!(taken.contains_key(Seat { row: 3, number: 12 }));
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    label = "not a key",
    note = "keys are integers, `bool`, `char`, `String`, `Vec<u8>`, arrays of up to 64 bytes, and options and tuples of them",
    note = "a type of your own implements `Key` by calling that of one of these types"
)]
pub trait Key: Ord + Sized + 'static {
    /// The kind that the pool stores for this type: that of one of this crate's keys, or one that is
    /// [stored as it](Kind::own). [`Pool::map`](crate::Pool::map) does not compile with any other.
    const KIND: Kind;

    /// Whether keys are words or byte strings. A type takes it from the type that its kind comes from.
    type Form: Form;

    /// What a tuple or an option needs to know about its parts. A type takes it from the type that its kind comes from.
    type Size: Size<Form = Self::Form>;

    /// The type that methods take: `u64` for `u64`, `&str` for `String`.
    type Borrowed<'k>: Copy;

    /// The word or the bytes of a key. They compare as the keys do: `a < b` if and only if `encode(a) < encode(b)`.
    ///
    /// An implementation must spell the type of its argument `Self::Borrowed<'k>`, also where that is a plain
    /// reference: with `&'k [u8]` in its place, the lifetime is another kind of parameter for the compiler than here
    /// (it is *late bound*), and the implementation is refused with E0195.
    ///
    /// ```compile_fail,E0195
    /// # use bristlecone::codec::{EncodedKey, Kind};
    /// # use bristlecone::Key;
    /// # #[derive(PartialEq, Eq, PartialOrd, Ord)]
    /// # struct Digest(Vec<u8>);
    /// # impl Key for Digest {
    /// #     const KIND: Kind = <Vec<u8> as Key>::KIND;
    /// #     type Form = <Vec<u8> as Key>::Form;
    /// #     type Size = <Vec<u8> as Key>::Size;
    /// #     type Borrowed<'k> = &'k [u8];
    /// fn encode<'k>(key: &'k [u8]) -> EncodedKey<'k, Self> { // `key: Self::Borrowed<'k>` compiles
    ///     <Vec<u8>>::encode(key)
    /// }
    /// #     fn decode(bytes: &[u8]) -> Self { Self(bytes.to_vec()) }
    /// # }
    /// ```
    ///
    /// ```
    /// # use bristlecone::codec::{EncodedKey, Kind};
    /// # use bristlecone::Key;
    /// # #[derive(PartialEq, Eq, PartialOrd, Ord)]
    /// # struct Digest(Vec<u8>);
    /// # impl Key for Digest {
    /// #     const KIND: Kind = <Vec<u8> as Key>::KIND;
    /// #     type Form = <Vec<u8> as Key>::Form;
    /// #     type Size = <Vec<u8> as Key>::Size;
    /// #     type Borrowed<'k> = &'k [u8];
    /// fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
    ///     <Vec<u8>>::encode(key)
    /// }
    /// #     fn decode(bytes: &[u8]) -> Self { Self(bytes.to_vec()) }
    /// # }
    /// ```
    fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self>;

    /// The key of a word or of bytes. If they encode no key, because the pool is damaged or because another type with
    /// this kind encoded them otherwise, it is an arbitrary key.
    fn decode(stored: &StoredKey<Self>) -> Self;
}

/// A key of type `K` on its way into the tree: `u64`, or [`KeyBytes`](crate::codec::KeyBytes).
pub type EncodedKey<'k, K> = <<K as Key>::Form as Form>::Encoded<'k>;

/// A key of type `K` as the tree holds it: `u64`, or `[u8]`.
pub type StoredKey<K> = <<K as Key>::Form as Keys>::Key;

/// An encoded key in memory of its own.
pub(crate) fn owned<K: Key>(key: K::Borrowed<'_>) -> <K::Form as Keys>::Owned {
    Borrow::<StoredKey<K>>::borrow(&K::encode(key)).to_owned()
}

/// The kind of a key type. It does not compile if that is no kind of keys, or none of keys of this form.
pub(crate) const fn kind_of<K: Key>() -> Kind {
    assert!(K::KIND.is_key(), "the kind of a key is that of one of this crate's keys");
    let agree = match (K::KIND.size, <K::Size as Size>::BYTES) {
        (Some(size), Some(bytes)) => size == bytes,
        (Some(size), None) => size > 8,
        (None, bytes) => bytes.is_none(),
    };
    assert!(agree, "the form and the size of a key are those of the type that it takes its kind from");
    K::KIND
}
