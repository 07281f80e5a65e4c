//! What methods take that need a key or a value only for a moment: borrowed, or owned.

use super::{Key, Value};

/// What stands for a key of type `K` where many entries are inserted: what methods take for one key
/// ([`Key::Borrowed`]), or a `String` or `Vec<u8>` itself.
///
/// A composite key with a text in it is given as what methods take: `("a", 7)` for a `(String, u64)`.
///
/// # Examples
///
/// For a type of your own, what methods take already implements it. Implement it for the type itself, too, if that is
/// something else:
///
/// ```
/// # use bristlecone::codec::{EncodedKey, Kind, ToKey};
/// # use bristlecone::Key;
/// # #[derive(PartialEq, Eq, PartialOrd, Ord)]
/// # struct Email(String);
/// # impl Key for Email {
/// #     const KIND: Kind = <String as Key>::KIND;
/// #     type Form = <String as Key>::Form;
/// #     type Size = <String as Key>::Size;
/// #     type Borrowed<'k> = &'k str;
/// #     fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> { String::encode(key) }
/// #     fn decode(bytes: &[u8]) -> Self { Self(String::decode(bytes)) }
/// # }
/// impl ToKey<Email> for Email {
///     fn with_key<R>(&self, read: impl FnOnce(&str) -> R) -> R {
///         read(&self.0)
///     }
/// }
/// # let dir = tempfile::tempdir().unwrap();
/// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
/// let names: bristlecone::Map<Email, String> = pool.map("names")?;
/// names.insert_batch(&[(Email("a@b.c".to_owned()), "Ada")])?;
/// names.insert_batch(&[("b@b.c", "Bob".to_owned())])?;
/// assert_eq!(names.len(), 2);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not stand for a key of type `{K}`",
    label = "not a `{K}`, and not what methods take for it",
    note = "`&str` and `String` stand for a `String`, `&[u8]` and `Vec<u8>` for a `Vec<u8>`, and `(&str, u64)` for a `(String, u64)`"
)]
pub trait ToKey<K: Key> {
    /// Applies `read` to what methods take.
    fn with_key<R>(&self, read: impl FnOnce(K::Borrowed<'_>) -> R) -> R;
}

/// What stands for a value of type `V` where many entries are inserted: what methods take for one value
/// ([`Value::Borrowed`]), or a `String` or `Vec<u8>` itself.
///
/// [`Map::update_with`](crate::Map::update_with) needs it of the type of values itself. For a type of your own, see
/// [`ToKey`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not stand for a value of type `{V}`",
    label = "not a `{V}`, and not what methods take for it",
    note = "`&str` and `String` stand for a `String`, `&[u8]` and `Vec<u8>` for a `Vec<u8>`"
)]
pub trait ToValue<V: Value> {
    /// Applies `read` to what methods take.
    fn with_value<R>(&self, read: impl FnOnce(V::Borrowed<'_>) -> R) -> R;
}

impl<K: Key> ToKey<K> for K::Borrowed<'_> {
    #[inline]
    fn with_key<R>(&self, read: impl FnOnce(K::Borrowed<'_>) -> R) -> R {
        read(*self)
    }
}

impl<V: Value> ToValue<V> for V::Borrowed<'_> {
    #[inline]
    fn with_value<R>(&self, read: impl FnOnce(V::Borrowed<'_>) -> R) -> R {
        read(*self)
    }
}

/// What lends a text or a byte string.
macro_rules! lends {
    ($($type:ty, $owned:ty, $lent:ty, $([$($generics:tt)*])?;)*) => {$(
        impl $(<$($generics)*>)? ToKey<$owned> for $type {
            fn with_key<R>(&self, read: impl FnOnce($lent) -> R) -> R {
                read(&self[..])
            }
        }

        impl $(<$($generics)*>)? ToValue<$owned> for $type {
            fn with_value<R>(&self, read: impl FnOnce($lent) -> R) -> R {
                read(&self[..])
            }
        }
    )*};
}

lends! {
    String, String, &str,;
    &String, String, &str,;
    Vec<u8>, Vec<u8>, &[u8],;
    &Vec<u8>, Vec<u8>, &[u8],;
    [u8; N], Vec<u8>, &[u8], [const N: usize];
    &[u8; N], Vec<u8>, &[u8], [const N: usize];
}
