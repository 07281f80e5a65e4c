//! The tree: one chain of leaves, an index over it, and one verb per file.

mod ahead;
mod any_part;
mod batch;
mod bulk;
mod bytes;
mod check;
mod checks;
mod close;
mod compact;
mod copy;
mod cursor;
mod describe;
mod directory;
mod exchange;
mod extend;
mod finger;
#[cfg(all(test, not(bristlecone_loom)))]
mod foreign;
mod form;
mod handle;
mod image;
#[cfg(all(test, not(bristlecone_loom)))]
mod image_model;
mod len;
#[cfg(all(test, not(bristlecone_loom)))]
mod many;
#[cfg(all(test, bristlecone_loom))]
mod models;
mod node;
mod open;
mod order;
mod owned;
mod part;
mod past;
mod pop;
mod posting;
mod power_loss;
#[cfg(all(test, not(bristlecone_loom)))]
mod races;
mod range;
mod reads;
mod rebalance;
mod remove_range;
mod renew;
mod replace;
mod restructuring;
mod retain;
mod room;
mod scratch;
mod search;
#[cfg(all(test, not(bristlecone_loom)))]
mod tests;
mod together;
mod values;
mod voids;
mod walk;
mod write;
mod writes;

pub(crate) use any_part::{AnyPart, PartOf};
pub(crate) use cursor::{Cursor, CursorStep as ScanStep, Item};
pub(crate) use extend::{Group, in_batches};
pub use form::{Form, KeyBytes};
pub(crate) use form::{PartForm, PartSource, Sink};
#[cfg(all(test, not(any(bristlecone_loom, miri)), target_os = "linux"))]
pub(crate) use image::by_image;
#[cfg(all(test, feature = "crash", not(bristlecone_loom)))]
pub(crate) use image::{ImageRule, leave_out as leave_out_of_images};
pub(crate) use order::{LeafEntries, Spot};
pub use owned::IntoRange;
pub(crate) use owned::Owned;
pub(crate) use part::{News, TreePart};
pub use range::{Column, Range};
pub(crate) use values::check_len;
pub(crate) use write::{Before, Change};

use crate::chain::Chain;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Broken, Error, Fault, Result};
use crate::medium::{Mapped, Medium};
use crate::memory::OF_ALLOCATOR;
use crate::node::{IndexKind, OneLine, WordNode};
use crate::papers::Rebuilds;
use crate::pool::roots::Root;
use crate::pool::{Pool, PoolState, Report};
use crate::sync::{AtomicU64, Mutex, Ordering};
use directory::Directory;
use finger::Fingers;
use handle::Handles;
pub(crate) use handle::TreeHandle;
pub(crate) use node::TreeNode;
use restructuring::Restructuring;
use std::fmt;
use std::ops::RangeBounds;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An ordered map from `u64` to `u64` that outlives crashes.
///
/// `N` is the layout of the nodes, and `M` is the medium that holds the pool. All keys and all values are legal: 0,
/// `u64::MAX`, repeated values. It is a handle: cloning it is cheap, it is `Send` and `Sync`, and all methods take
/// `&self`.
///
/// Methods are named as in `BTreeMap` where the meaning is the same. These differ: changes return a `Result`, `keys`
/// and `values` take a range, and [`update_with`](Self::update_with) stands for entries.
///
/// # Crash consistency
///
/// Every change is durable when its method returns, in the sense of [`Pool::durability`]. A change in flight at a crash
/// is there whole, or not at all. No reader ever returns what a crash could take back, except with a
/// [journal](crate::Journal): a loss of power takes back what was not synced, though others may have read it.
///
/// # Complexity
///
/// A [`OneLine`] leaf, the default: one line flushed and one fence per insert, update or removal. One insert in about
/// 27 splits a leaf, which flushes about ten lines and fences twice. In a sorted leaf with `n` entries, four slots to a
/// line, a linear leaf moves about `n / 2` entries per insert or removal, and a circular one about `n / 4`. A run of
/// `k` slots touches `(k + 3) / 4` lines on average; each is flushed once, with one fence. With
/// [`Journal::Each`](crate::Journal::Each), each change also waits for one `fdatasync`, which all threads that wait
/// share.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("a.pool");
/// use bristlecone::Pool;
///
/// let pool = Pool::options().capacity(64 << 20).open(&path)?;
/// let tree = pool.tree("squares")?;
/// for n in 0..100 {
///     tree.insert(n, n * n)?;
/// }
/// assert_eq!(tree.range(10..=12).collect::<Vec<_>>(), [(10, 100), (11, 121), (12, 144)]);
/// assert_eq!(tree.remove(11)?, Some(121));
/// assert_eq!(tree.iter().next_back(), Some((99, 99 * 99)));
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct PTree<N: WordNode = OneLine, M: Medium = Mapped> {
    pub(crate) state: TreeHandle<N, M>,
}

impl<N: WordNode, M: Medium> Clone for PTree<N, M> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

/// The name, the kind of tree and the number of entries, but no entries: unlike the `Debug` of `BTreeMap`, this takes
/// no long walk. After a crash, the number is there once it is known.
impl<N: WordNode, M: Medium> fmt::Debug for PTree<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.show(f, "PTree")
    }
}

// A medium of files does not panic. What a caller passes in may: closures, iterators, and the encodings of the caller's
// types. All of it runs while no leaf is locked, and before a change or after it, so a panic there leaves the tree
// whole.
impl<N: WordNode> UnwindSafe for PTree<N> {}
impl<N: WordNode> RefUnwindSafe for PTree<N> {}

/// An open tree. There is one for each tree and process, whatever the number of handles.
pub struct TreeState<N: TreeNode, M: Medium> {
    pub(crate) pool: Arc<PoolState<M>>,
    /// A transaction may change it.
    name: Mutex<String>,
    root: Root,
    pub(crate) leaves: Chain<N, M>,
    directory: N::Directory<M>,
    fingers: Fingers,
    /// The last snapshot that was opened before the tree was created, which does not see it; 0 if it was there when the
    /// pool was opened.
    born: u64,
    /// The leftmost leaf.
    head: AtomicU64,
    /// The close record from whose image the index takes its nodes; 0 means none.
    image_at: AtomicU64,
    /// About so many records that nothing points to may count as in use, since the tree was opened by an image; 0: none
    /// does.
    spare_records: AtomicU64,
    handles: Handles,
    /// Held while the index changes or nodes leave a chain. Taken before any leaf is locked.
    restructuring: Restructuring,
    /// Held while the tree is compacted. Taken before all other locks.
    compacting: Mutex<()>,
    /// The first broken invariant that a reader came across.
    fault: OnceLock<Broken>,
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    fn medium(&self) -> &M {
        &self.pool.medium
    }

    /// Comes before every change, and before any lock.
    #[inline(always)]
    fn may_change(&self) -> Result<(), Fault> {
        self.pool.admit()?;
        if N::POLICY.in_snapshots {
            self.pool.limit_snapshots();
        }
        Ok(())
    }

    /// The name that the tree has now.
    pub(crate) fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// The number of the tree in its pool.
    pub(crate) fn slot(&self) -> u16 {
        self.root.slot
    }

    /// Bytes of memory that the open tree takes.
    pub(crate) fn memory(&self) -> u64 {
        let own = size_of::<Self>() + align_of::<Self>() + self.name.lock().capacity() + 2 * OF_ALLOCATOR;
        own as u64 + self.leaves.memory() + self.directory.memory()
    }

    /// The offset of the word that points to the first leaf, for messages.
    pub(crate) fn head_at(&self) -> u64 {
        self.root.head_at()
    }

    fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// Notes damage that a method without a `Result` found.
    fn note<T: Default>(&self, result: Result<T, Broken>) -> T {
        result.unwrap_or_else(|broken| {
            let _ = self.fault.set(broken);
            T::default()
        })
    }

    /// What was read; `None` if it is damaged, which is noted.
    pub(crate) fn readable<T>(&self, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.lag(Err(fault))).ok()
    }

    pub(crate) fn fault(&self) -> Option<Error> {
        self.fault.get().map(|&broken| self.pool.error(broken.into()))
    }

    /// Adds the name of the pool to a fault, where a result leaves the crate.
    #[inline]
    pub(crate) fn named<T>(&self, result: Result<T, Fault>) -> Result<T> {
        self.pool.named(result)
    }

    /// Makes a change, and adds the name of the pool to its fault, where its result leaves the crate. The change is
    /// then as durable as is wanted.
    #[inline]
    pub(crate) fn durably<T>(&self, change: impl FnOnce() -> Result<T, Fault>) -> Result<T> {
        self.pool.durably(change)
    }
}

impl<M: Medium> Pool<M> {
    /// Opens the tree of this name, or creates an empty one.
    ///
    /// Opening a tree twice gives two handles to the same tree.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LayoutMismatch`], [`ErrorKind::KindMismatch`]: the tree exists and is another kind of tree.
    /// [`ErrorKind::TreeName`], [`ErrorKind::TooManyTrees`], [`ErrorKind::OutOfSpace`], [`ErrorKind::Forked`],
    /// [`ErrorKind::Corrupt`]. In a pool that is open for [reading only](crate::Options::read_only),
    /// [`ErrorKind::NoSuchTree`], since none is created, and [`ErrorKind::PowerLoss`]. [`ErrorKind::Journal`]: the
    /// change may have been made.
    ///
    /// # Complexity
    ///
    /// After an orderly close, in proportion to the number of free blocks; no leaf is read. After a crash, the headers
    /// of all leaves are read, on all cores. If the values are records, all leaves are read.
    ///
    /// # Crash consistency
    ///
    /// A new tree is there, empty, or not at all. If a crash interrupts the recovery of an existing tree, the next open
    /// recovers it.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let tree = pool.tree("t")?; // new, and empty
    /// tree.insert(1, 10)?;
    /// assert_eq!(pool.tree("t")?.get(1), Some(10)); // another handle to the same tree
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn tree(&self, name: &str) -> Result<PTree<OneLine, M>> {
        self.tree_of(name)
    }

    /// Opens or creates a tree with nodes of another layout, and with the kind of index that
    /// [goes with it](WordNode::INDEX).
    ///
    /// # Errors
    ///
    /// As [`tree`](Self::tree).
    ///
    /// # Complexity
    ///
    /// As [`tree`](Self::tree).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use bristlecone::{Pool, papers::CircTree};
    ///
    /// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a.pool"))?;
    /// let ring = pool.tree_of::<CircTree>("ring")?;
    /// ring.insert(1, 10)?;
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn tree_of<N: WordNode>(&self, name: &str) -> Result<PTree<N, M>> {
        self.tree_with(name, N::INDEX)
    }

    /// Opens or creates a tree with nodes of another layout and another kind of index.
    ///
    /// # Errors
    ///
    /// As [`tree`](Self::tree); [`ErrorKind::LayoutMismatch`] also if the tree exists and has another kind of index.
    ///
    /// # Complexity
    ///
    /// As [`tree`](Self::tree).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use bristlecone::{IndexKind, OneLine, Pool};
    ///
    /// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a.pool"))?;
    /// let tree = pool.tree_with::<OneLine>("t", IndexKind::Persistent)?;
    /// tree.insert(1, 10)?;
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn tree_with<N: WordNode>(&self, name: &str, index: IndexKind) -> Result<PTree<N, M>> {
        let kinds = (crate::entry::kind::U64, crate::entry::kind::U64);
        let state = self.state.durably(|| TreeState::open(&self.state, name, index, kinds))?;
        Ok(PTree { state: TreeHandle::new(state) })
    }
}

impl<N: WordNode, M: Medium> PTree<N, M> {
    /// The name that the tree has in its pool now. A [transaction](crate::Transaction::rename_tree) may change it.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let tree = pool.tree("squares")?;
    /// assert_eq!(tree.name(), "squares");
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn name(&self) -> String {
        self.state.name()
    }

    /// The pool that holds the tree.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let tree = pool.tree("squares")?;
    /// let cubes = tree.pool().tree("cubes")?; // in the same pool
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn pool(&self) -> Pool<M> {
        Pool { state: Arc::clone(&self.state.pool) }
    }

    /// The tree's kind of index.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// use bristlecone::{IndexKind, OneLine};
    ///
    /// assert_eq!(pool.tree("t")?.index(), IndexKind::Volatile);
    /// assert_eq!(pool.tree_with::<OneLine>("u", IndexKind::Persistent)?.index(), IndexKind::Persistent);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn index(&self) -> IndexKind {
        self.state.directory.kind()
    }

    /// The value of a key.
    ///
    /// If the pool is damaged where the key would be, the result is `None`, and [`fault`](Self::fault) returns the
    /// damage.
    ///
    /// # Complexity
    ///
    /// The index, one shadow, and a search in one leaf: by fingerprints in `OneLine` leaves, binary in sorted ones. No
    /// lock is taken and nothing is flushed. After a crash, whatever touches a leaf for the first time reads all of it,
    /// and stores what its layout has to repair.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// tree.insert(1, 10)?;
    /// assert_eq!(tree.get(1), Some(10));
    /// assert_eq!(tree.get(2), None);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[inline]
    pub fn get(&self, key: u64) -> Option<u64> {
        self.state.get(key)
    }

    /// Whether the key is there.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// tree.insert(1, 10)?;
    /// assert!(tree.contains_key(1) && !tree.contains_key(2));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[inline]
    pub fn contains_key(&self, key: u64) -> bool {
        self.get(key).is_some()
    }

    /// The values of several keys, in the order of the keys. This is faster than one [`get`](Self::get) after the
    /// other.
    ///
    /// Each value is one that the key had during the call. The values need not belong to one instant.
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (3, 30)])?;
    /// assert_eq!(tree.multi_get(&[3, 2, 1]), [Some(30), None, Some(10)]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>> {
        let mut values = Vec::with_capacity(keys.len());
        self.state.get_many_with(keys, |value| value, |value| values.push(value));
        values
    }

    /// Sets the value of a key. Returns the value that it had.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfSpace`] if a leaf had to be split and there was no room for another one;
    /// [`ErrorKind::Corrupt`], [`ErrorKind::ReadOnly`], [`ErrorKind::Forked`]. In these cases nothing has changed.
    /// [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// # Complexity
    ///
    /// The lines of the entries that move (none in `OneLine` leaves) and of the new entry, each flushed and fenced
    /// once. If the key was there, one line and one fence. One insert in about `0.7 s` splits a leaf of `s` slots,
    /// which adds half a leaf, two headers and two fences.
    ///
    /// # Crash consistency
    ///
    /// Durable when it returns. In flight at a crash: the old entry or the new one.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// assert_eq!(tree.insert(1, 10)?, None);
    /// assert_eq!(tree.insert(1, 11)?, Some(10));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.change(key, |_| Change::Put(value))
    }

    /// Sets the values of several keys under one fence. Returns how many keys are new. Of equal keys, the last one
    /// counts.
    ///
    /// Where fences are expensive, this is many times as fast as one [`insert`](Self::insert) after the other. Other
    /// threads wait for the leaves concerned until the whole batch is durable, so a batch should have thousands of
    /// entries rather than millions.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert). Some of the entries may have been inserted, durably. No entry that was there is
    /// lost.
    ///
    /// # Complexity
    ///
    /// With [`OneLine`](crate::OneLine) leaves: each line that gets entries is flushed once, with one fence in all.
    /// Each leaf that splits adds half a leaf, two headers and two fences. Each leaf that another thread holds at that
    /// moment adds a fence. Sorted leaves need their fences for each entry.
    ///
    /// # Crash consistency
    ///
    /// Durable when it returns. In flight at a crash: **any part** of the batch, in any order of keys; each entry is
    /// there whole or not at all. No reader sees an entry before it is durable; with a [journal](crate::Journal),
    /// before it survives the process.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// assert_eq!(tree.insert_batch(&[(3, 30), (1, 10), (3, 31)])?, 2);
    /// assert_eq!(tree.multi_get(&[1, 2, 3]), [Some(10), None, Some(31)]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn insert_batch(&self, entries: &[(u64, u64)]) -> Result<u64> {
        self.state.durably(|| self.state.insert_batch(entries))
    }

    /// Sets the value of a key that is there. Returns the value that it had, or `None` if the key is not there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`], [`ErrorKind::ReadOnly`], [`ErrorKind::Forked`]; [`ErrorKind::Journal`]: the change may
    /// have been made. It never fails for want of space in the pool.
    ///
    /// # Complexity
    ///
    /// One line flushed, one fence.
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
    /// # let tree = pool.tree("t")?;
    /// assert_eq!(tree.update(1, 10)?, None); // not there, and not inserted
    /// tree.insert(1, 10)?;
    /// assert_eq!(tree.update(1, 11)?, Some(10));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.change(key, |old| if old.is_some() { Change::Put(value) } else { Change::Keep })
    }

    /// Sets the value of a key from `current` to `new`, where `None` means that the key is not there.
    ///
    /// Returns the previous value. The exchange took place if that equals `current`.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert). Losing the race is not an error.
    ///
    /// # Complexity
    ///
    /// As `insert`, `update` or `remove`, whichever takes place.
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
    /// # let tree = pool.tree("t")?;
    /// assert_eq!(tree.compare_exchange(1, None, Some(10))?, None); // inserted
    /// assert_eq!(tree.compare_exchange(1, Some(9), Some(11))?, Some(10)); // refused
    /// assert_eq!(tree.compare_exchange(1, Some(10), None)?, Some(10)); // removed
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Result<Option<u64>> {
        self.change(key, |old| if old == current { new.map_or(Change::Remove, Change::Put) } else { Change::Keep })
    }

    /// Removes a key. Returns the value that it had.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`]. It never fails for want of space in the pool.
    /// [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// # Complexity
    ///
    /// The lines of the entries that move (none in `OneLine` leaves) and of the slot that becomes empty, each flushed
    /// and fenced once. A leaf that is less than a quarter full is then merged with a neighbour, or shares its entries.
    ///
    /// # Crash consistency
    ///
    /// Durable when it returns. In flight at a crash: the entry, or no entry.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// tree.insert(1, 10)?;
    /// assert_eq!(tree.remove(1)?, Some(10));
    /// assert_eq!(tree.remove(1)?, None);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn remove(&self, key: u64) -> Result<Option<u64>> {
        self.change(key, |_| Change::Remove)
    }

    #[inline]
    fn change(&self, key: u64, decide: impl FnMut(Option<u64>) -> Change) -> Result<Option<u64>> {
        self.state.durably(|| self.state.change(key, decide))
    }

    /// The entries of a range of keys, in ascending order; [`Iterator::rev`] gives them in descending order.
    ///
    /// A range is not a snapshot. Each leaf is read at one instant, when the iterator comes to it. The iterator sees
    /// what other threads change ahead of it, and does not see what they change behind it. Whatever they do:
    ///
    /// - keys come in strict order, and none comes twice, whichever ends the iterator is read from;
    /// - a key is shown if it is there throughout, from the creation of the iterator until it has passed the key;
    /// - a key that is shown was there at some moment of that time, with this value, durably. With a
    ///   [journal](crate::Journal), it survives the process, but it may not be on the disk yet ([`Pool::sync`] waits
    ///   for that).
    ///
    /// # Panics
    ///
    /// If the range starts after its end, or starts and ends at the same excluded key, and the tree has an entry. (In
    /// an empty tree, such a range is empty. `BTreeMap` does the same.)
    ///
    /// # Complexity
    ///
    /// One search, then from leaf to leaf; backwards, one search per leaf. The leaf ahead is prefetched while one is
    /// read. After a crash, the first touch of each leaf reads all of it and stores what its layout has to repair.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20), (3, 30)])?;
    /// assert_eq!(tree.range(2..).collect::<Vec<_>>(), [(2, 20), (3, 30)]);
    /// assert_eq!(tree.range(..=2).rev().collect::<Vec<_>>(), [(2, 20), (1, 10)]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn range(&self, range: impl RangeBounds<u64>) -> Range<'_, N, M> {
        Range::new(&self.state, range, |&key: &u64| key)
    }

    /// The keys of a range, in ascending order; from the other end, in descending order. `BTreeMap::keys` has no range.
    ///
    /// # Panics
    ///
    /// As [`range`](Self::range).
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20), (3, 30)])?;
    /// assert_eq!(tree.keys(..3).collect::<Vec<_>>(), [1, 2]);
    /// // The iterator does not borrow the bounds.
    /// let mut behind = {
    ///     let first = 2;
    ///     tree.keys((std::ops::Bound::Included(&first), std::ops::Bound::Unbounded))
    /// };
    /// assert_eq!(behind.next_back(), Some(3));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn keys(&self, range: impl RangeBounds<u64>) -> Column<'_, N, M> {
        Range::new(&self.state, range, |&key: &u64| key).map(|(key, _)| key)
    }

    /// The values of a range of keys, in ascending order of these; from the other end, in descending order.
    /// `BTreeMap::values` has no range.
    ///
    /// # Panics
    ///
    /// As [`range`](Self::range).
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20), (3, 30)])?;
    /// assert_eq!(tree.values(2..).sum::<u64>(), 50);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn values(&self, range: impl RangeBounds<u64>) -> Column<'_, N, M> {
        Range::new(&self.state, range, |&key: &u64| key).map(|(_, value)| value)
    }

    /// All entries, in ascending order. `for (key, value) in &tree` does the same.
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(2, 20), (1, 10)])?;
    /// assert_eq!(tree.iter().collect::<Vec<_>>(), [(1, 10), (2, 20)]);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn iter(&self) -> Range<'_, N, M> {
        self.range(..)
    }

    /// The entry with the smallest key.
    ///
    /// # Complexity
    ///
    /// One search, and one leaf; empty leaves before it are read, too. After a crash, the first touch of each leaf
    /// reads all of it. [`last_key_value`](Self::last_key_value) does the same from the other end.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// assert_eq!(tree.first_key_value(), None);
    /// tree.insert_batch(&[(1, 10), (2, 20)])?;
    /// assert_eq!(tree.first_key_value(), Some((1, 10)));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn first_key_value(&self) -> Option<(u64, u64)> {
        self.iter().next()
    }

    /// The entry with the greatest key.
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20)])?;
    /// assert_eq!(tree.last_key_value(), Some((2, 20)));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn last_key_value(&self) -> Option<(u64, u64)> {
        self.iter().next_back()
    }

    /// The number of entries. While other threads write: the number at some moment during the call.
    ///
    /// If other threads write so fast that a thousand looks at the counters do not settle it, the result may be too
    /// high, by at most what was inserted during one look.
    ///
    /// # Complexity
    ///
    /// A few looks at 32 counters. The first call after a crash reads all leaves, on all cores; other threads may write
    /// meanwhile.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20)])?;
    /// assert_eq!(tree.len(), 2);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn len(&self) -> u64 {
        self.state.len()
    }

    /// Whether there are no entries. While other threads write: whether there were none at some moment during the call.
    ///
    /// # Complexity
    ///
    /// As [`first_key_value`](Self::first_key_value), and as [`len`](Self::len) if that finds nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// assert!(tree.is_empty());
    /// tree.insert(1, 10)?;
    /// assert!(!tree.is_empty());
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Bytes of memory (DRAM) that the open tree takes now: its handles' common state, the shadows of its leaves, its
    /// index, and what it knows of free blocks, with what is kept for nodes to come. What open snapshots keep of it is
    /// in [`Pool::snapshots`]. [`Report::memory`] is what the shadows and the index need at least.
    ///
    /// # Complexity
    ///
    /// A few counters, and the lock of the threads that change the index. No leaf is read. In a large tree, the system
    /// is asked which pages it has given: a call for each 16 MiB.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// let before = tree.memory();
    /// tree.extend((0..100_000).map(|n| (n, n)))?;
    /// assert!(tree.memory() > before);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn memory(&self) -> u64 {
        self.state.memory()
    }

    /// How often a [`Flat`](IndexKind::Flat) index was rebuilt since the tree was opened, because a parent of leaves
    /// was full, and how long that took in all. Zero for other kinds of index.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// use bristlecone::{IndexKind, OneLine};
    ///
    /// let tree = pool.tree_with::<OneLine>("t", IndexKind::Flat)?;
    /// tree.extend((0..100_000).map(|n| (n, n)))?;
    /// let (count, time) = tree.index_rebuilds();
    /// assert!(count > 0, "in {time:?}");
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn index_rebuilds(&self) -> (u64, Duration) {
        let Rebuilds { count, nanoseconds } = self.state.directory.rebuilds();
        (count, Duration::from_nanos(nanoseconds))
    }

    /// Removes all entries at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfSpace`] if there is no room for two empty leaves; [`ErrorKind::Corrupt`]. In both cases
    /// nothing has changed. [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// # Complexity
    ///
    /// Locks all leaves, which touches each of them: after a crash, those that nobody has touched yet are read. Writes
    /// two leaves, with three fences.
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
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20)])?;
    /// tree.clear()?;
    /// assert!(tree.is_empty());
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn clear(&self) -> Result<()> {
        self.state.durably(|| self.state.clear())
    }

    /// Fills an empty tree with entries in strictly ascending order of keys. Returns the number of entries.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsorted`] with the first wrong position, [`ErrorKind::NotEmpty`], [`ErrorKind::OutOfSpace`],
    /// [`ErrorKind::Corrupt`]. In these cases nothing has been loaded. [`ErrorKind::Journal`]: the change may have been
    /// made.
    ///
    /// # Complexity
    ///
    /// Every leaf is written once; three fences in all.
    ///
    /// # Crash consistency
    ///
    /// All entries are loaded, or none is.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// assert_eq!(tree.bulk_load((0..1000).map(|n| (n, n * n)))?, 1000);
    /// assert_eq!(tree.get(31), Some(961));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn bulk_load(&self, entries: impl IntoIterator<Item = (u64, u64)>) -> Result<u64> {
        self.state.durably(|| self.state.bulk_load(entries.into_iter().map(Ok)))
    }

    /// The first broken invariant that a method without a `Result` came across, if any.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// let sum: u64 = tree.values(..).sum();
    /// assert!(tree.fault().is_none(), "values are missing in {sum}");
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn fault(&self) -> Option<Error> {
        self.state.fault()
    }

    /// Checks every invariant of the tree, in the pool and in memory. It changes nothing.
    ///
    /// Other threads must not write meanwhile, or the report is useless.
    ///
    /// # Complexity
    ///
    /// Reads all leaves, on one core, and then counts as [`len`](Self::len) does, which touches all leaves after a
    /// crash.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// tree.insert(1, 10)?;
    /// let report = tree.check();
    /// assert!(report.is_clean(), "{:?}", report.violations);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn check(&self) -> Report {
        self.state.check()
    }
}
