//! Maps as trees of the command line: the types of keys and values that it knows.

use crate::keys::Key;
use crate::trees::{Entry, Span, Tree};
use crate::values::Values;
use bristlecone::codec::{PrefixOf, Prefixed};
use bristlecone::medium::Medium;
use bristlecone::{ByteLeaf, Error, ErrorKind, Map, Pool, Result, WordNode};
use std::ops::Bound;

/// The types of keys that the command line knows.
trait KeyType: bristlecone::Key {
    type Prefix<'k>: PrefixOf<Self>;

    /// The key, if it is of this type.
    fn of(key: &Key) -> Option<Self::Borrowed<'_>>;
    /// The prefix, if keys of this type have any.
    fn prefix(key: &Key) -> Option<Self::Prefix<'_>>;
    fn key(self) -> Key;
}

/// Numbers have no prefixes.
enum NoPrefix {}

impl PrefixOf<u64> for NoPrefix {
    fn bounds(&self) -> Prefixed<'_, u64> {
        match *self {}
    }
}

impl KeyType for u64 {
    type Prefix<'k> = NoPrefix;

    fn of(key: &Key) -> Option<Self> {
        if let Key::Number(number) = key { Some(*number) } else { None }
    }

    fn prefix(_: &Key) -> Option<NoPrefix> {
        None
    }

    fn key(self) -> Key {
        Key::Number(self)
    }
}

impl KeyType for String {
    type Prefix<'k> = &'k str;

    fn of(key: &Key) -> Option<&str> {
        if let Key::Text(text) = key { Some(text) } else { None }
    }

    fn prefix(key: &Key) -> Option<&str> {
        Self::of(key)
    }

    fn key(self) -> Key {
        Key::Text(self)
    }
}

impl KeyType for Vec<u8> {
    type Prefix<'k> = &'k [u8];

    fn of(key: &Key) -> Option<&[u8]> {
        if let Key::Bytes(bytes) = key { Some(bytes) } else { None }
    }

    fn prefix(key: &Key) -> Option<&[u8]> {
        Self::of(key)
    }

    fn key(self) -> Key {
        Key::Bytes(self)
    }
}

/// The types of values that the command line knows.
trait ValueType: bristlecone::Value {
    const VALUES: Values;

    /// The value that is typed like this.
    fn typed(typed: &[u8]) -> Option<Self::Borrowed<'_>>;
    fn shown(self) -> Vec<u8>;
}

impl ValueType for u64 {
    const VALUES: Values = Values::Numbers;

    fn typed(typed: &[u8]) -> Option<Self> {
        let digits = typed.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(typed).ok().filter(|_| digits)?.parse().ok()
    }

    fn shown(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl ValueType for String {
    const VALUES: Values = Values::Texts;

    fn typed(typed: &[u8]) -> Option<&str> {
        std::str::from_utf8(typed).ok()
    }

    fn shown(self) -> Vec<u8> {
        self.into_bytes()
    }
}

impl ValueType for Vec<u8> {
    const VALUES: Values = Values::Bytes;

    fn typed(typed: &[u8]) -> Option<&[u8]> {
        Some(typed)
    }

    fn shown(self) -> Vec<u8> {
        self
    }
}

/// The bound of a range, if the key is of this type.
fn bound<K: KeyType>(key: &Option<Key>) -> Option<Bound<K::Borrowed<'_>>> {
    match key {
        None => Some(Bound::Unbounded),
        Some(key) => K::of(key).map(Bound::Included),
    }
}

/// The kind of a key or a value is not that of the tree.
fn mismatch<M: Medium>(pool: &Pool<M>, tree: &str, what: &str) -> Error {
    let (found, expected) = (format!("other {what}"), format!("these {what}"));
    Error::new(pool.stat().name, ErrorKind::KindMismatch { tree: tree.to_owned(), found, expected })
}

/// A map as a tree. This is a macro, because the crate has no name for what the leaves of all kinds of keys share.
macro_rules! tree_of {
    ($key:ty, $leaf:ty $(, $n:ident: $node:ident)?) => {
        impl<V: ValueType $(, $n: $node)?, M: Medium> Tree for Map<$key, V, $leaf, M> {
            fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
                let key = <$key>::of(key).ok_or_else(|| mismatch(&self.pool(), &self.name(), "keys"))?;
                let value = self.get(key)?;
                match self.fault() {
                    Some(error) => Err(error),
                    None => Ok(value.map(V::shown)),
                }
            }

            fn put(&self, key: &Key, value: &[u8]) -> Result<bool> {
                let key = <$key>::of(key).ok_or_else(|| mismatch(&self.pool(), &self.name(), "keys"))?;
                let value = V::typed(value).ok_or_else(|| mismatch(&self.pool(), &self.name(), "values"))?;
                self.insert(key, value)
            }

            fn remove(&self, key: &Key) -> Result<bool> {
                self.remove(<$key>::of(key).ok_or_else(|| mismatch(&self.pool(), &self.name(), "keys"))?)
            }

            fn entries(&self, span: &Span, reverse: bool) -> Result<Box<dyn Iterator<Item = Result<Entry>> + '_>> {
                let other = || mismatch(&self.pool(), &self.name(), "keys");
                let entries = match span {
                    Span::Between(from, to) => {
                        let (from, to) = (bound::<$key>(from), bound::<$key>(to));
                        self.range(from.zip(to).ok_or_else(other)?)
                    }
                    Span::Prefix(key) => self.prefix(<$key>::prefix(key).ok_or_else(other)?),
                };
                let entry = |entry: Result<($key, V)>| entry.map(|(key, value)| (key.key(), value.shown()));
                // The iterator ends early where the tree is damaged.
                let fault = std::iter::from_fn(|| self.fault().map(Err)).take(1);
                Ok(if reverse {
                    Box::new(entries.rev().map(entry).chain(fault))
                } else {
                    Box::new(entries.map(entry).chain(fault))
                })
            }

            fn len(&self) -> u64 {
                self.len()
            }

            fn accepts(&self, value: &[u8]) -> bool {
                V::typed(value).is_some()
            }

            fn values(&self) -> Values {
                V::VALUES
            }
        }
    };
}

tree_of!(u64, N, N: WordNode);
tree_of!(String, ByteLeaf);
tree_of!(Vec<u8>, ByteLeaf);
