//! The encoding of values: as words in their slots, or as records.

use crate::entry::kind::{BYTES, Kind, STRING};
use crate::entry::raw::Raw;
use crate::error::{ErrorKind, Fault, Refusal};
use std::borrow::Cow;

/// A value that a [`Map`](crate::Map) can hold: inline in its slot, or as a record.
///
/// The integers up to 64 bits, `bool`, `char`, `f64`, `()`, `[u8; 8]` and `(u32, u32)` lie in the slot. `Vec<u8>` and
/// `String` are records of up to 1 GiB. With the feature `serde`, so is `Postcard`.
///
/// # Examples
///
/// A type of your own is stored as one of these, under a [name](Kind::own) of its own or as if it were that type. Here
/// nothing is built to encode it, and what is no address is refused when it is read.
///
/// ```
/// use bristlecone::codec::{Kind, Raw, Refusal};
/// use bristlecone::{ErrorKind, Map, Pool, Value};
/// use std::borrow::Cow;
///
/// #[derive(Debug, PartialEq)]
/// struct Email(String);
///
/// impl Value for Email {
///     const KIND: Kind = Kind::own("email", <String as Value>::KIND);
///     type Borrowed<'v> = &'v Email;
///     type View<'v> = &'v str;
///
///     fn encode<'v>(value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal> {
///         Ok(value.0.as_bytes().into())
///     }
///
///     fn decode(stored: Raw) -> Result<Self, Refusal> {
///         let text = String::from_utf8(stored.bytes())?;
///         if text.contains('@') { Ok(Self(text)) } else { Err("no address".into()) }
///     }
///
///     fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
///         str::from_utf8(encoded.bytes()).unwrap_or("")
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
/// let addresses: Map<u64, Email> = pool.map("addresses")?;
/// addresses.insert(7, &Email("ada@b.c".into()))?;
/// assert_eq!(addresses.get_with(7, |text| text.len())?, Some(7));
///
/// addresses.insert(8, &Email("nobody".into()))?;
/// let error = addresses.get(8).unwrap_err();
/// assert!(matches!(&error.kind, ErrorKind::Undecodable { tree, .. } if tree == "addresses"));
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value",
    label = "not a value",
    note = "values are integers of up to 64 bits, `bool`, `char`, `f64`, `()`, `[u8; 8]`, `(u32, u32)`, `String` and `Vec<u8>`",
    note = "a type of your own implements `Value`; with the feature `serde`, `Postcard<T>` does"
)]
pub trait Value: Sized + 'static {
    /// The kind that the pool stores for this type: that of one of this crate's values, or one that is [stored as
    /// it](Kind::own). [`Pool::map`](crate::Pool::map) does not compile with any other.
    const KIND: Kind;

    // Whether every word, or all bytes, can be read: then nothing is to be checked.
    #[doc(hidden)]
    const IS_ALWAYS_READABLE: bool = false;

    /// The type that `insert` takes.
    type Borrowed<'v>: Copy;

    /// The type that the closures of [`Map::get_with`](crate::Map::get_with) and its like take.
    type View<'v>;

    /// The word of an inline value, or the bytes of a record, as the kind requires. A value of the wrong form is
    /// refused with [`KindMismatch`](ErrorKind::KindMismatch). An implementation must spell the type of its argument
    /// `Self::Borrowed<'v>`, as in [`Key::encode`](crate::Key::encode).
    ///
    /// # Errors
    ///
    /// If the value cannot be stored. The caller gets the reason in [`Unencodable`](ErrorKind::Unencodable), and
    /// nothing has changed.
    fn encode<'v>(value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal>;

    /// The value of a word or of bytes.
    ///
    /// # Errors
    ///
    /// If they are no value of this type. The caller gets the reason in [`Undecodable`](ErrorKind::Undecodable), and
    /// [`Map::check`](crate::Map::check) reports the record.
    fn decode(stored: Raw) -> Result<Self, Refusal>;

    /// A view of the value of a word or of bytes. It cannot fail: what may be no value is viewed as a `Result`, or as
    /// something that is decoded later.
    fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v>;
}

/// A value as a tree takes it. `tree` is the name of that, for errors.
#[inline]
pub(crate) fn encode<'v, V: Value>(
    value: V::Borrowed<'v>,
    tree: impl FnOnce() -> String,
) -> Result<Raw<Cow<'v, [u8]>>, Fault> {
    V::encode(value).map_err(|source| refused(tree(), V::KIND, source, true))
}

/// A value as a tree returned it.
#[inline]
pub(crate) fn decode<V: Value>(stored: Raw, tree: impl FnOnce() -> String) -> Result<V, Fault> {
    V::decode(stored).map_err(|source| refused(tree(), V::KIND, source, false))
}

#[cold]
fn refused(tree: String, kind: Kind, source: Refusal, is_new: bool) -> Fault {
    let kind = kind.name().into_owned();
    match is_new {
        true => ErrorKind::Unencodable { tree, kind, source }.into(),
        false => ErrorKind::Undecodable { tree, kind, source }.into(),
    }
}

macro_rules! words {
    ($($type:ty, $kind:expr, |$value:ident| $encode:expr, |$word:ident| $decode:expr;)*) => {$(
        impl Value for $type {
            const KIND: Kind = $kind;
            const IS_ALWAYS_READABLE: bool = true;
            type Borrowed<'v> = Self;
            type View<'v> = Self;

            #[inline]
            fn encode<'v>($value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal> {
                Ok(Raw::Word($encode))
            }

            #[inline]
            fn decode(stored: Raw) -> Result<Self, Refusal> {
                let $word = stored.word();
                Ok($decode)
            }

            #[inline]
            fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
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
    const IS_ALWAYS_READABLE: bool = true;
    type Borrowed<'v> = &'v [u8];
    type View<'v> = &'v [u8];

    #[inline]
    fn encode<'v>(value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal> {
        Ok(value.into())
    }

    #[inline]
    fn decode(stored: Raw) -> Result<Self, Refusal> {
        Ok(stored.bytes())
    }

    #[inline]
    fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
        encoded.bytes()
    }
}

/// Bytes that are no UTF-8, which only a damaged pool holds, are decoded with replacement characters. Only what
/// precedes them is viewed.
impl Value for String {
    const KIND: Kind = STRING;
    const IS_ALWAYS_READABLE: bool = true;
    type Borrowed<'v> = &'v str;
    type View<'v> = &'v str;

    #[inline]
    fn encode<'v>(value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal> {
        Ok(value.as_bytes().into())
    }

    #[inline]
    fn decode(stored: Raw) -> Result<Self, Refusal> {
        let text = Self::from_utf8(stored.bytes());
        Ok(text.unwrap_or_else(|error| Self::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
        let bytes = encoded.bytes();
        str::from_utf8(bytes).unwrap_or_else(|_| bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()))
    }
}
