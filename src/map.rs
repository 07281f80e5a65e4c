//! The typed ordered map: Rust types as keys and values, over a tree of words.

#[cfg(all(test, not(loom)))]
mod tests;

use crate::codec::{Key, KeyView, MapForm, PrefixOf, Value, Word, decode, encode, kind_of};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Broken, Error, Fault, Result};
use crate::kind::{Kind, Kinds};
use crate::medium::{Mapped, Medium};
use crate::node::{Entry, IndexKind, Keys as _, WordNode};
use crate::pool::records::Reading;
use crate::pool::{Compacted, Pool};
use crate::stored::{Encoded, Stored, ToStore};
use crate::tree::{MapKeys, Range, Report, TreeNode, TreeState};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// What the keys of a map's tree are.
pub(crate) type KeysOf<K> = <<K as Key>::Form as MapForm>::Keys;
/// The layout that a map has by default.
type LeafOf<K> = <<K as Key>::Form as MapForm>::Leaf;

/// An ordered map from `K` to `V` that outlives crashes.
///
/// A key is of any type with an order-preserving encoding ([`Key`]): numbers, texts, byte strings of up to 65,536 bytes,
/// arrays, and options and tuples of them. Keys of up to eight bytes lie in the slots of leaves, and so do their values of
/// up to eight bytes. All others lie in records of the same pool: texts and byte strings (`String`, `Vec<u8>`, up to 1 GiB)
/// as values ([`Value`]), and longer keys together with their values.
///
/// # Crash consistency
///
/// As [`PTree`](crate::PTree). A record is durable before the slot that points to it, so a value is always there whole.
///
/// # Complexity
///
/// As `PTree`; a record adds the flushes of its own lines and one fence. With [`Journal::Each`](crate::Journal::Each), each
/// change also waits for one `fdatasync`, which all threads that wait share.
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
pub struct Map<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>> = LeafOf<K>, M: Medium = Mapped> {
    state: Arc<TreeState<N, M>>,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> Clone for Map<K, V, N, M> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), types: PhantomData }
    }
}

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> fmt::Debug for Map<K, V, N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("name", &self.state.name()).finish_non_exhaustive()
    }
}

impl<M: Medium> Pool<M> {
    /// Opens the map of this name, or creates an empty one.
    ///
    /// # Errors
    ///
    /// As [`tree`](Self::tree).
    ///
    /// # Examples
    ///
    /// Your own types have the kind of one of this crate's types, or one that is [stored as it](crate::Kind::own). A made-up
    /// kind does not compile:
    ///
    /// ```compile_fail,E0080
    /// use bristlecone::{Encoded, Kind, Map, Pool, Refusal, Stored, ToStore, Value};
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
    ///     fn encode<'v>(value: Self::Borrowed<'v>) -> Result<ToStore<'v>, Refusal> {
    ///         Ok(value.into())
    ///     }
    ///
    ///     fn decode(stored: Stored) -> Result<Self, Refusal> {
    ///         Ok(Self(stored.word()))
    ///     }
    ///
    ///     fn view<'v>(encoded: Encoded<'v>) -> Self::View<'v> {
    ///         u64::view(encoded)
    ///     }
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a")).unwrap();
    /// let numbers: Map<u64, Number> = pool.map("numbers").unwrap();
    /// ```
    pub fn map<K: Key, V: Value>(&self, name: &str) -> Result<Map<K, V, LeafOf<K>, M>> {
        self.map_with(name, IndexKind::Volatile)
    }

    /// Opens or creates a map with nodes of another layout, and with the kind of index that
    /// [goes with it](WordNode::INDEX).
    ///
    /// # Errors
    ///
    /// As [`tree`](Self::tree).
    pub fn map_of<K: Key<Form = Word>, V: Value, N: WordNode>(&self, name: &str) -> Result<Map<K, V, N, M>> {
        self.map_with(name, N::INDEX)
    }

    /// Opens or creates a map with nodes of another layout and another kind of index.
    ///
    /// # Errors
    ///
    /// As [`tree_with`](Self::tree_with).
    pub fn map_with<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>>(
        &self,
        name: &str,
        index: IndexKind,
    ) -> Result<Map<K, V, N, M>> {
        let state = self.state.acknowledged(TreeState::open(&self.state, name, index, const { kinds::<K, V>() }))?;
        Ok(Map { state, types: PhantomData })
    }

    /// Opens a map that is there as what it is stored as, whatever names of their [own](crate::Kind::own) its kinds have: for
    /// programs that do not know its types, and to change the form of its values.
    ///
    /// Nothing keeps such a map from writing what the types cannot read.
    ///
    /// # Errors
    ///
    /// As [`tree_with`](Self::tree_with); [`ErrorKind::NoSuchTree`].
    ///
    /// # Examples
    ///
    /// As what a tree is stored as is in [`TreeInfo::stored_keys`](crate::TreeInfo::stored_keys) and `stored_values`.
    ///
    /// ```
    /// # use bristlecone::{ByteLeaf, Encoded, ErrorKind, IndexKind, Kind, Map, Pool, Refusal, Stored, ToStore, Value};
    /// # struct Note(String);
    /// # impl Value for Note {
    /// #     const KIND: Kind = Kind::own("note", <String as Value>::KIND);
    /// #     type Borrowed<'v> = &'v str;
    /// #     type View<'v> = &'v str;
    /// #     fn encode<'v>(value: Self::Borrowed<'v>) -> Result<ToStore<'v>, Refusal> { String::encode(value) }
    /// #     fn decode(stored: Stored) -> Result<Self, Refusal> { String::decode(stored).map(Self) }
    /// #     fn view<'v>(encoded: Encoded<'v>) -> Self::View<'v> { String::view(encoded) }
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
    pub fn map_as_stored<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>>(
        &self,
        name: &str,
        index: IndexKind,
    ) -> Result<Map<K, V, N, M>> {
        let own = self.state.named(self.state.find(name))?.signature(&self.state.medium).kinds.own;
        let kinds = Kinds { own, ..const { kinds::<K, V>() }.into() };
        let state = self.state.acknowledged(TreeState::open_existing(&self.state, name, index, kinds))?;
        Ok(Map { state, types: PhantomData })
    }
}

/// The kinds of a map. It does not compile if one of them is no kind of keys, or of values.
const fn kinds<K: Key, V: Value>() -> (Kind, Kind) {
    assert!(V::KIND.is_value(), "the kind of a value is that of one of this crate's values");
    (kind_of::<K>(), V::KIND)
}

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> Map<K, V, N, M> {
    pub(crate) fn state(&self) -> &TreeState<N, M> {
        &self.state
    }

    /// The name that the map has in its pool now. A [transaction](crate::Transaction::rename_tree) may change it.
    pub fn name(&self) -> String {
        self.state.name()
    }

    /// The pool that holds the map.
    pub fn pool(&self) -> Pool<M> {
        Pool { state: Arc::clone(&self.state.pool) }
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if the slot points to no record. [`ErrorKind::Undecodable`] if what is there is no value of the
    /// type.
    pub fn get(&self, key: K::Borrowed<'_>) -> Result<Option<V>> {
        let value = KeysOf::<K>::value(&self.state, K::Form::key(&K::encode(key)), V::KIND);
        self.state.named(value.and_then(|value| value.map(|value| self.decode(value)).transpose()))
    }

    #[inline]
    fn decode(&self, value: Stored) -> Result<V, Fault> {
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
        let read = |value: Encoded<'_>| read(V::view(value));
        self.state.named(KeysOf::<K>::value_with(&self.state, K::Form::key(&K::encode(key)), V::KIND, read))
    }

    /// The values of several keys, in the order of the keys. This is faster than one [`get`](Self::get) after the other.
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
        let keys: Vec<_> = encoded.iter().map(K::Form::key).collect();
        let mut values = Vec::with_capacity(keys.len());
        self.state.values(&keys, V::KIND, |value| values.push(value));
        let decode = |value: Result<Option<_>, _>| value?.map(|value| self.decode(value)).transpose();
        self.state.named(values.into_iter().map(decode).collect())
    }

    /// Whether the key is there.
    pub fn contains_key(&self, key: K::Borrowed<'_>) -> bool {
        self.state.get_with(K::Form::key(&K::encode(key)), |_| ()).is_some()
    }

    /// Moves what lies in sparse segments of the map, and gives segments back to the pool, while other threads go on.
    ///
    /// As [`Pool::compact`], for this map alone.
    ///
    /// # Errors
    ///
    /// As [`Pool::compact`].
    pub fn compact(&self) -> Result<Compacted> {
        self.state.acknowledged(self.state.compact())
    }

    /// Sets the value of a key. Returns true if the key had a value before.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::KeyTooLong`], [`ErrorKind::RecordTooLong`], [`ErrorKind::Unencodable`], [`ErrorKind::OutOfSpace`],
    /// [`ErrorKind::Corrupt`], [`ErrorKind::Forked`]. In these cases nothing has changed. [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// A byte string is written before the one that it replaces is given back, however short it is: in a full pool, remove the
    /// key first.
    pub fn insert(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>) -> Result<bool> {
        self.put(key, value, |_| true)
    }

    /// Sets the value of a key that is there. Returns true if it is there.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub fn update(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>) -> Result<bool> {
        self.put(key, value, |old| old.is_some())
    }

    /// Sets the value of a key that is not there. Returns true if it was not there.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub fn insert_new(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>) -> Result<bool> {
        self.put(key, value, |old| old.is_none()).map(|was_there| !was_there)
    }

    fn put(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>, wanted: fn(Option<u64>) -> bool) -> Result<bool> {
        let key = K::encode(key);
        let put = |value: ToStore<'_>| self.state.put(K::Form::key(&key), value.encoded(), wanted);
        self.state.acknowledged(encode::<V>(value, || self.state.name()).and_then(put))
    }

    /// Removes a key. Returns true if it was there. A key that is too long is not there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`], [`ErrorKind::Forked`]. It never fails for want of space in the pool.
    /// [`ErrorKind::Journal`]: the change may have been made.
    pub fn remove(&self, key: K::Borrowed<'_>) -> Result<bool> {
        self.state.acknowledged(self.state.take(K::Form::key(&K::encode(key))))
    }

    #[track_caller]
    fn encoded_range<'k>(&self, range: impl RangeBounds<K::Borrowed<'k>>) -> Range<'_, N, M> {
        let encode = |bound: Bound<&K::Borrowed<'k>>| bound.map(|&key| K::encode(key));
        K::Form::range(&self.state, (encode(range.start_bound()), encode(range.end_bound())))
    }

    fn entries<'m>(&'m self, range: Range<'m, N, M>) -> Entries<'m, K, V, N, M> {
        Entries { tree: &self.state, range, front: None, back: None, types: PhantomData }
    }

    /// The keys of a range, in ascending order; from the other end, in descending order.
    ///
    /// A key that cannot be read, because the pool is damaged there, is left out; [`fault`](Self::fault) then returns the
    /// damage.
    ///
    /// # Panics
    ///
    /// As [`PTree::range`](crate::PTree::range).
    #[track_caller]
    pub fn keys<'k, R: RangeBounds<K::Borrowed<'k>>>(
        &self,
        range: R,
    ) -> impl DoubleEndedIterator<Item = K> + use<'_, 'k, K, V, N, M, R> {
        Keys(self.entries(self.encoded_range(range)))
    }

    /// The entries of a range, in ascending order; from the other end, in descending order.
    ///
    /// The iterator returns the errors of [`get`](Self::get). If a leaf cannot be read, it returns that, and nothing more.
    ///
    /// The guarantees of [`PTree::range`](crate::PTree::range) while other threads write hold here too: strict order,
    /// no key twice, no entry missed that is there throughout, no entry shown that never was. With a
    /// [journal](crate::Journal), what is shown may not be on the disk yet. Each leaf is read at one instant. A value is the
    /// one that its key had then, even if another thread has replaced or removed it since.
    ///
    /// Until all entries of a leaf are consumed, byte strings that are replaced or removed meanwhile keep their space.
    /// So in a nearly full pool, changes may fail while an iterator is put aside half-way. They fail with
    /// [`ErrorKind::OutOfSpace`] after some seconds; on the iterator's own thread, where waiting would be in vain, at
    /// once. That an iterator is put aside is known by its being there: one that is leaked (`mem::forget`) keeps that space
    /// until the pool is closed.
    ///
    /// # Panics
    ///
    /// If the range starts after its end, or starts and ends at the same excluded key, and the map has an entry. (In an
    /// empty map, such a range is empty. `BTreeMap` does the same.)
    #[track_caller]
    pub fn range<'k>(&self, range: impl RangeBounds<K::Borrowed<'k>>) -> Entries<'_, K, V, N, M> {
        self.entries(self.encoded_range(range))
    }

    /// The entries whose keys begin with a prefix, in ascending order; from the other end, in descending order.
    ///
    /// The guarantees are those of [`range`](Self::range).
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
        self.entries(K::Form::with_prefix(&self.state, prefix.bounds()))
    }

    /// All entries, in ascending order.
    pub fn iter(&self) -> Entries<'_, K, V, N, M> {
        self.range(..)
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn first_key_value(&self) -> Result<Option<(K, V)>> {
        self.iter().next().transpose()
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn last_key_value(&self) -> Result<Option<(K, V)>> {
        self.iter().next_back().transpose()
    }

    /// The number of entries. See [`PTree::len`](crate::PTree::len).
    pub fn len(&self) -> u64 {
        self.state.len()
    }

    /// Whether there are no entries. See [`PTree::is_empty`](crate::PTree::is_empty).
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Removes all entries at once, and their records.
    ///
    /// # Errors
    ///
    /// As [`PTree::clear`](crate::PTree::clear).
    pub fn clear(&self) -> Result<()> {
        self.state.acknowledged(self.state.clear())
    }

    /// Fills an empty map with entries in strictly ascending order of keys. Returns the number of entries.
    ///
    /// # Errors
    ///
    /// As [`PTree::bulk_load`](crate::PTree::bulk_load), [`ErrorKind::KeyTooLong`], [`ErrorKind::RecordTooLong`], and
    /// [`ErrorKind::Unencodable`].
    pub fn bulk_load<'k, 'v>(
        &self,
        entries: impl IntoIterator<Item = (K::Borrowed<'k>, V::Borrowed<'v>)>,
    ) -> Result<u64> {
        let entries = entries
            .into_iter()
            .map(|(key, value)| Ok((K::Form::owned(K::encode(key)), encode::<V>(value, || self.state.name())?)));
        self.state.acknowledged(self.state.bulk_load_values(entries, ToStore::encoded))
    }

    /// The first broken invariant that a method without a `Result` came across, if any.
    pub fn fault(&self) -> Option<Error> {
        self.state.fault()
    }

    /// Checks every invariant of the map, including its records, and that its type can read each value. It changes nothing.
    /// Other threads must not write meanwhile.
    pub fn check(&self) -> Report {
        let mut report = self.state.check();
        if !V::IS_ALWAYS_READABLE && report.is_clean() {
            self.check_values(&mut report);
        }
        report
    }

    fn check_values(&self, report: &mut Report) {
        let mut entries = self.iter();
        let is_readable = |(_, word): Entry, reading: Option<&Reading<'_, M>>| {
            let value = KeysOf::<K>::stored_value(word, reading, V::KIND)?;
            let at = if reading.is_some() { KeysOf::<K>::record(word) } else { self.state.head_at() };
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

/// The entries of a range of keys. See [`Map::range`].
pub struct Entries<'m, K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> {
    tree: &'m TreeState<N, M>,
    range: Range<'m, N, M>,
    /// Reads the records of the entries that come next from the left. It began before their leaf was read.
    front: Option<Reading<'m, M>>,
    /// The same for the entries from the right.
    back: Option<Reading<'m, M>>,
    types: Types<K, V>,
}

/// Ties an iterator to its types without storing any of them.
type Types<K, V> = PhantomData<fn() -> (K, V)>;

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> Entries<'_, K, V, N, M> {
    /// Applies `read` to the next entry in ascending order, without building a `K` or a `V`. Returns `None` after the last
    /// entry.
    ///
    /// `read` sees copies of key and value, which are on the stack if they are short (up to 1 KiB together). It may use the
    /// map. This and the methods of the iterator can be called in any order.
    ///
    /// # Errors
    ///
    /// As [`Map::get`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let pages: bristlecone::Map<String, Vec<u8>> = pool.map("pages")?;
    /// pages.insert("/about", b"<p>About us")?;
    /// pages.insert("/home", b"<p>Welcome")?;
    /// let (mut entries, mut length) = (pages.iter(), 0);
    /// while let Some(result) = entries.next_with(|path, page| length += path.as_bytes().len() + page.len()) {
    ///     result?;
    /// }
    /// assert_eq!(length, 32);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[inline]
    pub fn next_with<R>(&mut self, read: impl FnOnce(KeyView<'_, K>, V::View<'_>) -> R) -> Option<Result<R>> {
        let read = self.next_entry(|entry, reading| Self::view(entry, reading, read))?;
        Some(self.tree.named(read))
    }

    /// The same for the next entry in descending order.
    ///
    /// # Errors
    ///
    /// As [`Map::get`].
    pub fn next_back_with<R>(&mut self, read: impl FnOnce(KeyView<'_, K>, V::View<'_>) -> R) -> Option<Result<R>> {
        let read = self.next_entry_back(|entry, reading| Self::view(entry, reading, read))?;
        Some(self.tree.named(read))
    }

    #[inline]
    fn view<R>(
        entry: Entry,
        reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(KeyView<'_, K>, V::View<'_>) -> R,
    ) -> Result<R, Fault> {
        KeysOf::<K>::with_entry(entry, reading, V::KIND, |key, value| {
            read(KeyView::new(K::Form::stored(key)), V::view(value))
        })
    }

    /// Applies `read` to the next entry from the left.
    #[inline]
    fn next_entry<R>(
        &mut self,
        read: impl FnOnce(Entry, Option<&Reading<'_, M>>) -> Result<R, Fault>,
    ) -> Option<Result<R, Fault>> {
        let (tree, front) = (self.tree, &mut self.front);
        let entry = self.range.next_with(|| begin(tree, front));
        self.read(entry, read)
    }

    /// Applies `read` to the next entry from the right.
    fn next_entry_back<R>(
        &mut self,
        read: impl FnOnce(Entry, Option<&Reading<'_, M>>) -> Result<R, Fault>,
    ) -> Option<Result<R, Fault>> {
        let (tree, back) = (self.tree, &mut self.back);
        let entry = self.range.next_back_with(|| begin(tree, back));
        self.read(entry, read)
    }

    #[inline]
    fn read<R>(
        &mut self,
        entry: Option<Entry>,
        read: impl FnOnce(Entry, Option<&Reading<'_, M>>) -> Result<R, Fault>,
    ) -> Option<Result<R, Fault>> {
        // Either reading will do: the one that began before this entry's leaf was read is still held.
        let reading = self.front.as_ref().or(self.back.as_ref());
        // A leaf that cannot be read ends the range: who reads on must not take that for the end.
        let broken = || self.range.broken().map(|broken| Err(broken.into()));
        let result = entry.map_or_else(broken, |entry| Some(read(entry, reading)));
        let (front, back) = self.range.used_up();
        if front {
            self.front = None;
        }
        if back {
            self.back = None;
        }
        result
    }

    fn decode(tree: &TreeState<N, M>, entry: Entry, reading: Option<&Reading<'_, M>>) -> Result<(K, V), Fault> {
        let value = decode(KeysOf::<K>::stored_value(entry.1, reading, V::KIND)?, || tree.name())?;
        KeysOf::<K>::with_key(entry, reading, |key| (K::decode(K::Form::stored(key)), value))
    }
}

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> Iterator for Entries<'_, K, V, N, M> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let tree = self.tree;
        let entry = self.next_entry(|entry, reading| Self::decode(tree, entry, reading))?;
        Some(tree.named(entry))
    }
}

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> DoubleEndedIterator for Entries<'_, K, V, N, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let tree = self.tree;
        let entry = self.next_entry_back(|entry, reading| Self::decode(tree, entry, reading))?;
        Some(tree.named(entry))
    }
}

/// The keys of a range.
struct Keys<'m, K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium>(Entries<'m, K, V, N, M>);

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> Keys<'_, K, V, N, M> {
    fn decode(entry: Entry, reading: Option<&Reading<'_, M>>) -> Result<K, Fault> {
        KeysOf::<K>::with_key(entry, reading, |key| K::decode(K::Form::stored(key)))
    }
}

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> Iterator for Keys<'_, K, V, N, M> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        loop {
            let key = self.0.next_entry(Self::decode)?;
            if let Some(key) = self.0.tree.readable(key) {
                return Some(key);
            }
        }
    }
}

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>>, M: Medium> DoubleEndedIterator for Keys<'_, K, V, N, M> {
    fn next_back(&mut self) -> Option<K> {
        loop {
            let key = self.0.next_entry_back(Self::decode)?;
            if let Some(key) = self.0.tree.readable(key) {
                return Some(key);
            }
        }
    }
}

/// Starts a new reading of records. What the previous one kept may be used again.
fn begin<'m, N: TreeNode, M: Medium>(tree: &'m TreeState<N, M>, reading: &mut Option<Reading<'m, M>>) {
    *reading = None;
    *reading = tree.reading().map(Reading::staying);
}
