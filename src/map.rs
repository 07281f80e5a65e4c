//! The typed ordered map: Rust types as keys and values, over a tree of words or of byte strings.

mod batch;
mod entries;
mod exchange;
mod owned;
mod removal;
pub(crate) mod table;
#[cfg(all(test, not(bristlecone_loom)))]
mod tests;

pub use entries::{Entries, Keys, Values};
pub use owned::IntoEntries;

use crate::codec::{EncodedKey, Form, Key, PrefixOf, StoredKey, Value, Words, decode, encode, kind_of};
use crate::entry::kind::{Kind, Kinds};
use crate::entry::raw::Raw;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Broken, Error, Fault, Result};
use crate::medium::{Mapped, Medium};
use crate::node::{IndexKind, Interval, Keys as _, WordNode};
use crate::pool::records::Reading;
use crate::pool::{Compacted, Pool, Report};
use crate::tree::{Range, Spot, TreeHandle, TreeNode, TreeState};
use std::borrow::Borrow;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A layout of leaves for maps whose keys are `K`.
///
/// Sealed: each [`WordNode`] is one if keys are words, and each [`ByteLeaf`](crate::ByteLeaf) if they are byte strings.
pub trait LeafFor<K: Key>: TreeNode<Keys = K::Form> {}

impl<K: Key, N: TreeNode<Keys = K::Form>> LeafFor<K> for N {}

/// The layout that a map has by default: [`OneLine`](crate::OneLine) if keys are words, and
/// [`ByteLeaf`](crate::ByteLeaf) if they are byte strings.
pub type DefaultLeaf<K> = <<K as Key>::Form as Form>::Leaf;

/// An ordered map from `K` to `V` that outlives crashes.
///
/// A key is of any type with an order-preserving encoding ([`Key`]): numbers, texts, byte strings of up to 65,536
/// bytes, arrays, and options and tuples of them. Keys of types of up to eight bytes lie in the slots of leaves, and so
/// do their values of up to eight bytes. All others lie in records of the same pool: texts and byte strings (`String`,
/// `Vec<u8>`, up to 1 GiB) as values ([`Value`]), and longer keys together with their values.
///
/// Methods are named as in `BTreeMap` where the meaning is the same. These differ: `insert` and `remove` return whether
/// the key was there, because reading the value before costs ([`replace`](Self::replace) and [`take`](Self::take)
/// return it); `keys` and `values` take a range; `range`, `iter` and `values` yield results.
/// [`update_with`](Self::update_with) stands for entries, and there is no access to a value in its place.
///
/// # Crash consistency
///
/// As [`PTree`](crate::PTree). A record is durable before the slot that points to it, so a value is always there whole.
///
/// # Complexity
///
/// As `PTree`; a record adds the flushes of its own lines and one fence. With [`Journal::Each`](crate::Journal::Each),
/// each change also waits for one `fdatasync`, which all threads that wait share.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("a.pool");
/// use bristlecone::{Map, Pool};
///
/// let pool = Pool::options().capacity(64 << 20).open(&path)?;
/// let names: Map<i32, Vec<u8>> = pool.map("names")?;
/// names.insert(-1, b"minus one")?;
/// names.insert(7, b"seven")?;
/// assert_eq!(names.get(7)?.as_deref(), Some(&b"seven"[..]));
/// let keys: Vec<i32> = names.keys(..).collect();
/// assert_eq!(keys, [-1, 7]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct Map<K: Key, V: Value, N: LeafFor<K> = DefaultLeaf<K>, M: Medium = Mapped> {
    state: TreeHandle<N, M>,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Clone for Map<K, V, N, M> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), types: PhantomData }
    }
}

/// The name, the kind of tree and the number of entries, but no entries: unlike the `Debug` of `BTreeMap`, this takes
/// no long walk. After a crash, the number is there once it is known.
impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> fmt::Debug for Map<K, V, N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.show(f, "Map")
    }
}

// As `PTree`.
impl<K: Key, V: Value, N: LeafFor<K>> UnwindSafe for Map<K, V, N> {}
impl<K: Key, V: Value, N: LeafFor<K>> RefUnwindSafe for Map<K, V, N> {}

impl<M: Medium> Pool<M> {
    /// Opens the map of this name, or creates an empty one.
    ///
    /// # Errors
    ///
    /// As [`tree`](Self::tree).
    ///
    /// # Examples
    ///
    /// Your own types have the kind of one of this crate's types, or one that is
    /// [stored as it](crate::codec::Kind::own). A made-up kind does not compile:
    ///
    /// ```compile_fail,E0080
    /// use bristlecone::codec::{Kind, Raw, Refusal};
    /// use bristlecone::{Map, Pool, Value};
    /// use std::borrow::Cow;
    ///
    /// struct Number(u64);
    ///
    /// impl Value for Number {
    ///     const KIND: Kind = {
    ///         let mut kind = <u64 as Value>::KIND;
    ///         kind.is_record = true; // without this line it does
    ///         kind
    ///     };
    ///     type Borrowed<'v> = u64;
    ///     type View<'v> = u64;
    ///
    ///     fn encode<'v>(value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal> {
    ///         Ok(value.into())
    ///     }
    ///
    ///     fn decode(stored: Raw) -> Result<Self, Refusal> {
    ///         Ok(Self(stored.word()))
    ///     }
    ///
    ///     fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
    ///         u64::view(encoded)
    ///     }
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a")).unwrap();
    /// let numbers: Map<u64, Number> = pool.map("numbers").unwrap();
    /// ```
    pub fn map<K: Key, V: Value>(&self, name: &str) -> Result<Map<K, V, DefaultLeaf<K>, M>> {
        self.map_with(name, IndexKind::Volatile)
    }

    /// Opens or creates a map with nodes of another layout, and with the kind of index that
    /// [goes with it](WordNode::INDEX).
    ///
    /// # Errors
    ///
    /// As [`tree`](Self::tree).
    pub fn map_of<K: Key<Form = Words>, V: Value, N: WordNode>(&self, name: &str) -> Result<Map<K, V, N, M>> {
        self.map_with(name, N::INDEX)
    }

    /// Opens or creates a map with nodes of another layout and another kind of index.
    ///
    /// # Errors
    ///
    /// As [`tree_with`](Self::tree_with).
    pub fn map_with<K: Key, V: Value, N: LeafFor<K>>(&self, name: &str, index: IndexKind) -> Result<Map<K, V, N, M>> {
        let state = self.state.durably(|| TreeState::open(&self.state, name, index, const { kinds::<K, V>() }))?;
        Ok(Map { state: TreeHandle::new(state), types: PhantomData })
    }

    /// Opens a map that is there as what it is stored as, whatever names of their [own](crate::codec::Kind::own) its
    /// kinds have: for programs that do not know its types, and to change the form of its values.
    ///
    /// Nothing keeps such a map from writing what the types cannot read.
    ///
    /// # Errors
    ///
    /// As [`tree_with`](Self::tree_with); [`ErrorKind::NoSuchTree`].
    ///
    /// # Examples
    ///
    /// As what a tree is stored as is in [`TreeInfo::stored_keys`](crate::stat::TreeInfo::stored_keys) and
    /// `stored_values`.
    ///
    /// ```
    /// # use bristlecone::codec::{Kind, Raw, Refusal};
    /// # use bristlecone::{ByteLeaf, ErrorKind, IndexKind, Map, Pool, Value};
    /// # use std::borrow::Cow;
    /// # struct Note(String);
    /// # impl Value for Note {
    /// #     const KIND: Kind = Kind::own("note", <String as Value>::KIND);
    /// #     type Borrowed<'v> = &'v str;
    /// #     type View<'v> = &'v str;
    /// #     fn encode<'v>(value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal> { String::encode(value) }
    /// #     fn decode(stored: Raw) -> Result<Self, Refusal> { String::decode(stored).map(Self) }
    /// #     fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> { String::view(encoded) }
    /// # }
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let notes: Map<String, Note> = pool.map("notes")?;
    /// notes.insert("monday", "rain")?;
    /// drop(notes);
    ///
    /// let refused = pool.map::<String, String>("notes").unwrap_err();
    /// assert!(refused.to_string().ends_with("'notes' holds string -> note (string), asked for string -> string"));
    /// let texts: Map<String, String> = pool.map_as_stored::<_, _, ByteLeaf>("notes", IndexKind::Volatile)?;
    /// assert_eq!(texts.get("monday")?.as_deref(), Some("rain"));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn map_as_stored<K: Key, V: Value, N: LeafFor<K>>(
        &self,
        name: &str,
        index: IndexKind,
    ) -> Result<Map<K, V, N, M>> {
        let own = self.state.named(self.state.find(name))?.signature(&self.state.medium).kinds.own;
        let kinds = Kinds { own, ..const { kinds::<K, V>() }.into() };
        let state = self.state.durably(|| TreeState::open_existing(&self.state, name, index, kinds))?;
        Ok(Map { state: TreeHandle::new(state), types: PhantomData })
    }
}

/// The kinds of a map. It does not compile if one of them is no kind of keys, or of values.
const fn kinds<K: Key, V: Value>() -> (Kind, Kind) {
    assert!(V::KIND.is_value(), "the kind of a value is that of one of this crate's values");
    (kind_of::<K>(), V::KIND)
}

/// An encoded key as a search takes it.
#[inline(always)]
fn search_key<'e, K: Key>(encoded: &'e EncodedKey<'_, K>) -> <K::Form as crate::node::Keys>::Ref<'e> {
    K::Form::as_ref(encoded.borrow())
}

/// The entries of a range of keys.
#[inline]
#[track_caller]
pub(crate) fn encoded_range<'t, 'k, K: Key, N: LeafFor<K>, M: Medium>(
    tree: &'t TreeState<N, M>,
    range: impl RangeBounds<K::Borrowed<'k>>,
) -> Range<'t, N, M> {
    Range::new(tree, range, |&key| K::encode(key))
}

/// The entries whose keys begin with a prefix.
pub(crate) fn prefix_range<'t, K: Key, N: LeafFor<K>, M: Medium>(
    tree: &'t TreeState<N, M>,
    prefix: &impl PrefixOf<K>,
) -> Range<'t, N, M> {
    let owned = |key: EncodedKey<'_, K>| Borrow::<StoredKey<K>>::borrow(&key).to_owned();
    let (from, to) = prefix.bounds();
    Range::over(tree, Interval { from: owned(from), to: to.map(owned) }.if_any())
}

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Map<K, V, N, M> {
    pub(crate) fn state(&self) -> &TreeState<N, M> {
        &self.state
    }

    /// The name that the map has in its pool now. A [transaction](crate::Transaction::rename_tree) may change it.
    ///
    /// # Complexity
    ///
    /// One lock, which nobody holds for long; and a copy.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// assert_eq!(names.name(), "names");
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn name(&self) -> String {
        self.state.name()
    }

    /// The pool that holds the map.
    ///
    /// # Complexity
    ///
    /// A handle is cloned.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// let others: bristlecone::Map<u64, String> = names.pool().map("others")?; // in the same pool
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn pool(&self) -> Pool<M> {
        Pool { state: Arc::clone(&self.state.pool) }
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if the slot points to no record. [`ErrorKind::Undecodable`] if what is there is no value
    /// of the type.
    ///
    /// # Complexity
    ///
    /// As [`PTree::get`](crate::PTree::get); a record adds its own lines. No lock is taken and nothing is flushed.
    /// After a crash, whatever touches a leaf for the first time reads all of it.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert(7, "seven")?;
    /// assert_eq!(names.get(7)?.as_deref(), Some("seven"));
    /// assert_eq!(names.get(8)?, None);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn get(&self, key: K::Borrowed<'_>) -> Result<Option<V>> {
        let value = K::Form::get_with(&self.state, search_key::<K>(&K::encode(key)), V::KIND, |value| value.owned());
        self.state.named(value.and_then(|value| value.map(|value| self.decode(value)).transpose()))
    }

    #[inline]
    fn encode<'v>(&self, value: V::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Fault> {
        encode::<V>(value, || self.state.name())
    }

    #[inline]
    fn decode(&self, value: Raw) -> Result<V, Fault> {
        decode(value, || self.state.name())
    }

    /// Applies `read` to the value of a key, without building a `V`.
    ///
    /// `read` sees a copy of the bytes, which is on the stack if they are few (up to 1 KiB). It is called at most once,
    /// and may use the map.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Complexity
    ///
    /// As [`get`](Self::get), without an allocation for a short value.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, Vec<u8>> = pool.map("names")?;
    /// names.insert(7, b"seven")?;
    /// assert_eq!(names.get_with(7, |name| name.len())?, Some(5));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn get_with<R>(&self, key: K::Borrowed<'_>, read: impl FnOnce(V::View<'_>) -> R) -> Result<Option<R>> {
        let read = |value: Raw<&[u8]>| read(V::view(value));
        self.state.named(K::Form::get_with(&self.state, search_key::<K>(&K::encode(key)), V::KIND, read))
    }

    /// The values of several keys, in the order of the keys. This is faster than one [`get`](Self::get) after the
    /// other.
    ///
    /// Each value is one that the key had during the call. The values need not belong to one instant.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Complexity
    ///
    /// As `get` for each key, but the cache misses of sixteen keys at a time overlap.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let ages: bristlecone::Map<String, u64> = pool.map("ages")?;
    /// ages.insert("ada", 36)?;
    /// assert_eq!(ages.multi_get(&["ada", "alan"])?, [Some(36), None]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn multi_get(&self, keys: &[K::Borrowed<'_>]) -> Result<Vec<Option<V>>> {
        let encoded: Vec<_> = keys.iter().map(|&key| K::encode(key)).collect();
        let keys: Vec<_> = encoded.iter().map(search_key::<K>).collect();
        let mut values = Vec::with_capacity(keys.len());
        self.state.values(&keys, V::KIND, |value| values.push(value));
        let decode = |value: Result<Option<_>, _>| value?.map(|value| self.decode(value)).transpose();
        self.state.named(values.into_iter().map(decode).collect())
    }

    /// Whether the key is there.
    ///
    /// # Complexity
    ///
    /// As [`get`](Self::get), but no value is read.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let seen: bristlecone::Map<String, ()> = pool.map("seen")?;
    /// seen.insert("ada", ())?;
    /// assert!(seen.contains_key("ada") && !seen.contains_key("bob"));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn contains_key(&self, key: K::Borrowed<'_>) -> bool {
        self.state.get_with(search_key::<K>(&K::encode(key)), |_| ()).is_some()
    }

    /// Moves what lies in sparse segments of the map, and gives segments back to the pool, while other threads go on.
    ///
    /// As [`Pool::compact`], for this map alone.
    ///
    /// # Errors
    ///
    /// As [`Pool::compact`].
    ///
    /// # Complexity
    ///
    /// As [`Pool::compact`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let texts: bristlecone::Map<u64, Vec<u8>> = pool.map("texts")?;
    /// texts.extend((0..50_000).map(|key| (key, [7; 100])))?;
    /// texts.retain(|key, _| key.decode() % 8 == 0)?;
    /// assert!(texts.compact()?.records > 0);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn compact(&self) -> Result<Compacted> {
        self.state.durably(|| self.state.compact())
    }

    /// Sets the value of a key. Returns true if the key had a value before. [`replace`](Self::replace) returns the
    /// value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::KeyTooLong`], [`ErrorKind::RecordTooLong`], [`ErrorKind::Unencodable`], [`ErrorKind::OutOfSpace`],
    /// [`ErrorKind::Corrupt`], [`ErrorKind::ReadOnly`], [`ErrorKind::Forked`]. In these cases nothing has changed.
    /// [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// A byte string is written before the one that it replaces is given back, however short it is: in a full pool,
    /// remove the key first.
    ///
    /// # Complexity
    ///
    /// As [`PTree::insert`](crate::PTree::insert); a record adds its own lines and one fence. A value that is replaced
    /// is not read.
    ///
    /// # Crash consistency
    ///
    /// Durable when it returns. In flight at a crash: the old entry or the new one, whole.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// assert!(!names.insert(7, "seven")?);
    /// assert!(names.insert(7, "sieben")?);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn insert(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>) -> Result<bool> {
        self.put_if(key, value, |_| true)
    }

    /// Sets the value of a key that is there. Returns true if it is there.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Complexity
    ///
    /// As [`PTree::update`](crate::PTree::update). A record adds its own lines and one fence, also if the key is not
    /// there.
    ///
    /// # Crash consistency
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// assert!(!names.update(7, "seven")?);
    /// assert!(names.is_empty());
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn update(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>) -> Result<bool> {
        self.put_if(key, value, |old| old.is_some())
    }

    /// Sets the value of a key that is not there. Returns true if it was not there.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Complexity
    ///
    /// As [`insert`](Self::insert). A record is written also if the key is there.
    ///
    /// # Crash consistency
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// assert!(names.insert_new(7, "seven")?);
    /// assert!(!names.insert_new(7, "sieben")?);
    /// assert_eq!(names.get(7)?.as_deref(), Some("seven"));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn insert_new(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>) -> Result<bool> {
        self.put_if(key, value, |old| old.is_none()).map(|was_there| !was_there)
    }

    fn put_if(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>, wanted: fn(Option<u64>) -> bool) -> Result<bool> {
        let key = K::encode(key);
        let put = |value: Raw<Cow<'_, [u8]>>| self.state.put_if(search_key::<K>(&key), value.lent(), wanted);
        self.state.durably(|| self.encode(value).and_then(put))
    }

    /// Removes a key. Returns true if it was there. A key that is too long is not there. [`take`](Self::take) returns
    /// the value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`], [`ErrorKind::Forked`]. It never fails for want of space in the pool.
    /// [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// # Complexity
    ///
    /// As [`PTree::remove`](crate::PTree::remove). The value is not read.
    ///
    /// # Crash consistency
    ///
    /// Durable when it returns. In flight at a crash: the entry, whole, or no entry.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert(7, "seven")?;
    /// assert!(names.remove(7)?);
    /// assert!(!names.remove(7)?);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn remove(&self, key: K::Borrowed<'_>) -> Result<bool> {
        self.state.durably(|| self.state.remove_value(search_key::<K>(&K::encode(key))))
    }

    /// The keys of a range, in ascending order; from the other end, in descending order. `BTreeMap::keys` has no range.
    ///
    /// A key that cannot be read, because the pool is damaged there, is left out; [`fault`](Self::fault) then returns
    /// the damage.
    ///
    /// # Panics
    ///
    /// As [`PTree::range`](crate::PTree::range).
    ///
    /// # Complexity
    ///
    /// As [`range`](Self::range), but no value is read.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<String, u64> = pool.map("names")?;
    /// names.insert_batch(&[("ada", 1), ("bob", 2), ("cleo", 3)])?;
    /// assert!(names.keys("b"..).eq(["bob", "cleo"]));
    ///
    /// // No iterator borrows the bounds of its range.
    /// let after = |first: &str| (names.keys(first..), names.values(first..), names.range(first..));
    /// let (keys, values, entries) = after(&format!("{}o", "b"));
    /// assert_eq!((keys.count(), values.count(), entries.count()), (2, 2, 2));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn keys<'k>(&self, range: impl RangeBounds<K::Borrowed<'k>>) -> Keys<'_, K, V, N, M> {
        Keys(self.range(range).without_values())
    }

    /// The values of a range of keys, in ascending order of these; from the other end, in descending order.
    /// `BTreeMap::values` has no range.
    ///
    /// The iterator returns the errors of [`range`](Self::range), and has its guarantees.
    ///
    /// # Panics
    ///
    /// As [`PTree::range`](crate::PTree::range).
    ///
    /// # Complexity
    ///
    /// As [`range`](Self::range).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert_batch(&[(1, "one"), (2, "two")])?;
    /// assert_eq!(names.values(..).collect::<Result<Vec<_>, _>>()?, ["one", "two"]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn values<'k>(&self, range: impl RangeBounds<K::Borrowed<'k>>) -> Values<'_, K, V, N, M> {
        Values(self.range(range))
    }

    /// The entries of a range, in ascending order; from the other end, in descending order.
    ///
    /// The iterator returns the errors of [`get`](Self::get), and [`ErrorKind::Corrupt`] for a key that would be out of
    /// order, and goes on behind it. If a leaf cannot be read, it returns that, and nothing more.
    ///
    /// The guarantees of [`PTree::range`](crate::PTree::range) while other threads write hold here too: strict order,
    /// no key twice, no entry missed that is there throughout, no entry shown that never was. With a
    /// [journal](crate::Journal), what is shown may not be on the disk yet. Each leaf is read at one instant. A value
    /// is the one that its key had then, even if another thread has replaced or removed it since.
    ///
    /// Until all entries of a leaf are consumed, byte strings that are replaced or removed meanwhile keep their space.
    /// So in a nearly full pool, changes of any tree may fail while an iterator is put aside half-way. They fail with
    /// [`ErrorKind::OutOfSpace`] after some seconds; on the iterator's own thread, where waiting would be in vain,
    /// after milliseconds. That an iterator is put aside is known by its being there: one that is leaked
    /// (`mem::forget`) keeps that space until the pool is closed. One of [`into_range`](Self::into_range) keeps none.
    ///
    /// # Panics
    ///
    /// If the range starts after its end, or starts and ends at the same excluded key, and the map has an entry. (In an
    /// empty map, such a range is empty. `BTreeMap` does the same.)
    ///
    /// # Complexity
    ///
    /// As [`PTree::range`](crate::PTree::range), and what the records take that are read.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert_batch(&[(1, "one"), (2, "two"), (3, "three")])?;
    /// let last_two = names.range(2..).rev().collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(last_two, [(3, "three".to_owned()), (2, "two".to_owned())]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn range<'k>(&self, range: impl RangeBounds<K::Borrowed<'k>>) -> Entries<'_, K, V, N, M> {
        Entries::new(&self.state, encoded_range::<K, N, M>(&self.state, range))
    }

    /// The entries whose keys begin with a prefix, in ascending order; from the other end, in descending order.
    ///
    /// It guarantees what [`range`](Self::range) does.
    ///
    /// # Complexity
    ///
    /// As [`range`](Self::range).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let visits: bristlecone::Map<(u32, u16), u64> = pool.map("visits")?; // by customer and day
    /// visits.insert((7, 1), 3)?;
    /// visits.insert((7, 2), 5)?;
    /// visits.insert((8, 1), 9)?;
    /// let mut total = 0;
    /// for entry in visits.prefix((7,)) {
    ///     total += entry?.1;
    /// }
    /// assert_eq!(total, 8);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl PrefixOf<K>) -> Entries<'_, K, V, N, M> {
        Entries::new(&self.state, prefix_range::<K, N, M>(&self.state, &prefix))
    }

    /// All entries, in ascending order. `for entry in &map` does the same.
    ///
    /// # Complexity
    ///
    /// As [`range`](Self::range).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert(7, "seven")?;
    /// for entry in &names {
    ///     let (key, name) = entry?;
    ///     println!("{key}: {name}");
    /// }
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn iter(&self) -> Entries<'_, K, V, N, M> {
        self.range(..)
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Complexity
    ///
    /// As [`PTree::first_key_value`](crate::PTree::first_key_value), and one record.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// assert_eq!(names.first_key_value()?, None);
    /// names.insert_batch(&[(1, "one"), (2, "two")])?;
    /// assert_eq!(names.first_key_value()?, Some((1, "one".to_owned())));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn first_key_value(&self) -> Result<Option<(K, V)>> {
        self.iter().next().transpose()
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Complexity
    ///
    /// As [`first_key_value`](Self::first_key_value).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert_batch(&[(1, "one"), (2, "two")])?;
    /// assert_eq!(names.last_key_value()?, Some((2, "two".to_owned())));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn last_key_value(&self) -> Result<Option<(K, V)>> {
        self.iter().next_back().transpose()
    }

    /// The number of entries. See [`PTree::len`](crate::PTree::len).
    ///
    /// # Complexity
    ///
    /// A few looks at 32 counters. If keys and values are words, the first call after a crash reads all leaves, on all
    /// cores. (With records, the open has read them.)
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert_batch(&[(1, "one"), (2, "two")])?;
    /// assert_eq!(names.len(), 2);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn len(&self) -> u64 {
        self.state.len()
    }

    /// Whether there are no entries. See [`PTree::is_empty`](crate::PTree::is_empty).
    ///
    /// # Complexity
    ///
    /// As [`first_key_value`](Self::first_key_value), without the record, and as [`len`](Self::len) if that finds
    /// nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// assert!(names.is_empty());
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Bytes of memory (DRAM) that the open map takes now. See [`PTree::memory`](crate::PTree::memory).
    ///
    /// # Complexity
    ///
    /// As [`PTree::memory`](crate::PTree::memory).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// let before = names.memory();
    /// names.extend((0..100_000).map(|n| (n, "x")))?;
    /// assert!(names.memory() > before);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn memory(&self) -> u64 {
        self.state.memory()
    }

    /// Removes all entries at once, and their records.
    ///
    /// # Errors
    ///
    /// As [`PTree::clear`](crate::PTree::clear).
    ///
    /// # Complexity
    ///
    /// As [`PTree::clear`](crate::PTree::clear); with records, all leaves are read.
    ///
    /// # Crash consistency
    ///
    /// All entries are there, or none is.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert_batch(&[(1, "one"), (2, "two")])?;
    /// names.clear()?;
    /// assert!(names.is_empty());
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn clear(&self) -> Result<()> {
        self.state.durably(|| self.state.clear())
    }

    /// The first broken invariant that a method without a `Result` came across, if any.
    ///
    /// # Complexity
    ///
    /// Nothing is read. [`check`](Self::check) looks for damage.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<String, u64> = pool.map("names")?;
    /// let count = names.keys(..).count();
    /// assert!(names.fault().is_none(), "keys are missing in {count}");
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn fault(&self) -> Option<Error> {
        self.state.fault()
    }

    /// Checks every invariant of the map, including its records, and that its type can read each value. It changes
    /// nothing. Other threads must not write meanwhile.
    ///
    /// # Complexity
    ///
    /// Reads all leaves and all records, on one core, and then counts as [`len`](Self::len) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert(7, "seven")?;
    /// let report = names.check();
    /// assert!(report.is_clean(), "{:?}", report.violations);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn check(&self) -> Report {
        let mut report = self.state.check();
        if !V::IS_ALWAYS_READABLE && report.is_clean() {
            self.check_values(&mut report);
        }
        report
    }

    fn check_values(&self, report: &mut Report) {
        let mut entries = self.iter();
        let is_readable = |entry: Spot<'_, <K as Key>::Form>, reading: Option<&Reading<'_, M>>| {
            let (_, word) = entry.entry();
            let value = K::Form::stored_value(word, reading, V::KIND)?;
            let at = if reading.is_some() { K::Form::record(word) } else { self.state.head_at() };
            Ok(V::decode(value).map_err(|_| Broken::new(at, "V3: a value that its type cannot read")).err())
        };
        while let Some(checked) = entries.next_entry(is_readable) {
            match checked {
                Ok(broken) => broken.into_iter().for_each(|broken| report.add(broken)),
                // All records were checked a moment ago.
                Err(_) => report.add(Broken::new(self.state.head_at(), "V3: a value that cannot be read")),
            }
        }
    }
}
