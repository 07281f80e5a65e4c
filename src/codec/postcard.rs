//! Values of any type that serde knows, as bytes of postcard.

use super::{ToValue, Value};
use crate::entry::kind::{BYTES, Kind};
use crate::entry::raw::Raw;
use crate::error::Refusal;
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A value of any type that [serde](https://serde.rs) knows, stored as bytes of [postcard](https://docs.rs/postcard).
///
/// `insert` takes a `&T`, and `get` returns a `Postcard<T>`, whose field is the value. The closure of
/// [`get_with`](crate::Map::get_with) takes a [`PostcardView`].
///
/// # Another form of the type
///
/// Postcard is small and fast because it does not describe itself: there are the values of the fields, one after the
/// other, without names or types. Its [format](https://postcard.jamesmunns.com/wire-format) is stable. So it is the
/// type that must stay, and only these changes leave old values readable:
///
/// - other names of types, fields and variants;
/// - new variants at the end of an enumeration. Old programs cannot read them.
///
/// Any other change (a field more or less, another order, `u32` instead of `String`) makes old values unreadable, or
/// worse, other values. Bytes that end too early, or that are left over, are refused as
/// [`Undecodable`](crate::ErrorKind::Undecodable), and reported by [`Map::check`](crate::Map::check); but `(u8, u8)` is
/// read from what was `[u8; 2]`. All types have the same kind, `postcard (bytes)`: that of the tree does not tell them
/// apart.
///
/// So make the type an enumeration of its versions from the first day on, and read old ones as the new one. Or give a
/// new tree to the new type, fill it from the old one, and [swap](crate::Transaction::swap_trees) the two. To have a
/// kind of its own, wrap it in a type that calls this one:
/// [docs/own-types.md](https://docs.rs/crate/bristlecone/latest/source/docs/own-types.md) shows all three.
///
/// # Examples
///
/// ```
/// use bristlecone::{Map, Pool, Postcard};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Session {
///     user: String,
///     rights: Vec<u16>,
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
/// let sessions: Map<u128, Postcard<Session>> = pool.map("sessions")?;
/// sessions.insert(7, &Session { user: "ada".into(), rights: vec![1, 2] })?;
/// let Some(Postcard(session)) = sessions.get(7)? else { panic!() };
/// assert_eq!(session.rights, [1, 2]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Postcard<T>(pub T);

/// A value that is not decoded yet.
pub struct PostcardView<'v, T> {
    bytes: &'v [u8],
    of: PhantomData<fn() -> T>,
}

impl<'v, T> PostcardView<'v, T> {
    /// The bytes.
    pub fn as_bytes(self) -> &'v [u8] {
        self.bytes
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// If the bytes are none of a `T`.
    pub fn decode(self) -> Result<T, Refusal>
    where
        T: DeserializeOwned,
    {
        self.decode_as()
    }

    /// The value as another type, which may borrow from the bytes: `&str` instead of `String`. It must be stored as `T`
    /// is.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub fn decode_as<U: Deserialize<'v>>(self) -> Result<U, Refusal> {
        match postcard::take_from_bytes(self.bytes)? {
            (value, []) => Ok(value),
            (_, rest) => Err(format!("{} bytes are left over", rest.len()).into()),
        }
    }
}

impl<T> Clone for PostcardView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PostcardView<'_, T> {}

impl<T> fmt::Debug for PostcardView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes.escape_ascii())
    }
}

impl<T: Serialize + DeserializeOwned + 'static> ToValue<Self> for Postcard<T> {
    fn with_value<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.0)
    }
}

impl<T: Serialize + DeserializeOwned + 'static> Value for Postcard<T> {
    const KIND: Kind = Kind::own("postcard", BYTES);
    type Borrowed<'v> = &'v T;
    type View<'v> = PostcardView<'v, T>;

    fn encode<'v>(value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal> {
        Ok(postcard::to_allocvec(value)?.into())
    }

    fn decode(stored: Raw) -> Result<Self, Refusal> {
        Ok(Self(Self::view(stored.lent()).decode()?))
    }

    fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
        PostcardView { bytes: encoded.bytes(), of: PhantomData }
    }
}
