//! Prefixes of keys.

use super::{EncodedKey, Form, Key};
use crate::tree::{PartForm, Sink};

/// What keys of type `K` may begin with.
///
/// A prefix of a text, a byte string or an array is a shorter one. A prefix of a tuple is the tuple of its first parts,
/// one or more but not all. Keys with that prefix have parts that are equal to them: `("EUR",)` is a prefix of
/// `("EUR", 7)`, and not of `("EURUSD", 7)`. What is longer than the keys is a prefix of none. Options have no
/// prefixes.
///
/// For tuples whose text only begins with something, take a range that ends where the next text would begin: `("a.com",
/// "bo")..("a.com", "bp")` has all keys of `a.com` whose second part begins with `bo`.
///
/// # Examples
///
/// ```
/// use bristlecone::{Map, Pool};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
/// let seats: Map<(u16, u32), ()> = pool.map("seats")?;
/// for seat in [(1, 7), (2, 1), (2, u32::MAX), (3, 0)] {
///     seats.insert(seat, ())?;
/// }
/// let row: Vec<u32> = seats.prefix((2,)).map(|entry| entry.map(|((_, seat), ())| seat)).collect::<Result<_, _>>()?;
/// assert_eq!(row, [1, u32::MAX]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
///
/// A type of your own has the prefixes for which you implement this:
///
/// ```
/// # use bristlecone::codec::{EncodedKey, Kind, PrefixOf, Prefixed};
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
/// impl PrefixOf<Email> for &str {
///     fn bounds(&self) -> Prefixed<'_, Email> {
///         PrefixOf::<String>::bounds(self)
///     }
/// }
///
/// let (from, to) = PrefixOf::<Email>::bounds(&"ab");
/// assert_eq!((from.as_bytes(), to.unwrap().as_bytes()), (&b"ab"[..], &b"ac"[..]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prefix of `{K}`",
    label = "not a prefix of these keys",
    note = "`&str` is a prefix of `String`, `&[u8]` of `Vec<u8>` and arrays, and `(a,)` of the tuples that begin with `a`"
)]
pub trait PrefixOf<K: Key> {
    /// The bounds of the encoded keys that begin with this.
    fn bounds(&self) -> Prefixed<'_, K>;
}

/// The first encoded key that begins with a prefix of keys of type `K`, and the first one behind all of these, if there
/// is one.
pub type Prefixed<'p, K> = (EncodedKey<'p, K>, Option<EncodedKey<'p, K>>);

/// Byte strings as prefixes of keys that are encoded as their bytes.
macro_rules! prefixes {
    ($($type:ty)*) => {$(
        impl $crate::codec::PrefixOf<$type> for &[u8] {
            fn bounds(&self) -> $crate::codec::Prefixed<'_, $type> {
                $crate::codec::prefix::bounds_of::<$type>(self)
            }
        }

        impl<const N: usize> $crate::codec::PrefixOf<$type> for &[u8; N] {
            fn bounds(&self) -> $crate::codec::Prefixed<'_, $type> {
                $crate::codec::prefix::bounds_of::<$type>(*self)
            }
        }
    )*};
}

pub(super) use prefixes;

/// The bounds of the keys that begin with these bytes.
pub(super) fn bounds_of<K: Key>(prefix: &[u8]) -> Prefixed<'_, K> {
    let mut parts = EncodedKey::<'_, K>::default();
    parts.bytes(prefix);
    K::Form::with_prefix(parts, prefix.len(), const { PartForm::of::<K>() })
}
