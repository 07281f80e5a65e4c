//! Snapshots: all trees of a pool as they were at one instant, while changes go on.
//!
//! How they come about, and the invariants F1 to F3, are in `docs/design.md`, section 6.

mod backup;
mod ends;
mod range;

pub use backup::Backup;
pub use range::SnapshotRange;

use crate::codec::{self, Key, PrefixOf, Value};
use crate::entry::kind::Kind;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use crate::map::table::{Table, TableKey, TreeKeysOf, interval, tree_in, with_prefix};
use crate::medium::{Mapped, Medium};
use crate::node::Interval;
use crate::pool::{Pool, PoolState};
use crate::sync::{AtomicBool, Ordering};
use crate::tree::{Form, Item, LeafEntries, TreeNode, TreeState};
use std::borrow::Borrow;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

/// All trees and maps of a pool as they were at one instant, while other threads change them.
///
/// [`Pool::snapshot`] opens one. It sees every change that was made before, none that begins afterwards, and
/// transactions whole or not at all. Reading takes no locks of trees, and blocks nobody. There may be any number of
/// snapshots, of any age, and any number of threads may read from one.
///
/// Trees and maps with the default leaves ([`Table`]) can be read; a tree that was created later is empty in a
/// snapshot. While a snapshot is open, trees that were open, or are opened, stay open: they cannot be dropped, and the
/// pool cannot be closed. A tree that is closed may be dropped, and is then lost to snapshots, too.
///
/// Nothing of a snapshot outlives the process. One that is leaked (`mem::forget`) keeps its memory, and keeps the pool
/// from being closed in order.
///
/// # Complexity
///
/// Opening takes the same time whatever the pool holds. While no snapshot is open, nothing costs more. While one is,
/// the first change of a leaf copies the leaf's entries in memory (16 bytes each); records that are replaced or removed
/// keep their space in the pool if the snapshot sees them. If the copies take [more memory than they
/// may](crate::Options::snapshot_memory), the oldest snapshot [expires](ErrorKind::SnapshotTooOld); a single
/// transaction, or [`clear`](crate::PTree::clear), may exceed that for as long as it runs. Dropping a snapshot takes
/// time in proportion to its copies. The next older one may get some of them.
///
/// In a child that came from `fork`, nothing can be read from a snapshot.
///
/// # Crash consistency
///
/// What is read was durable before the snapshot was opened, or was being made so; with a [journal](crate::Journal), a
/// loss of power takes back what was not synced.
///
/// # Source
///
/// NV-Store's snapshots keep versions of each value. Here, leaves are copied before they change, as shadow pages are.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use bristlecone::{Map, Pool};
///
/// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("shop.pool"))?;
/// let stock: Map<String, u64> = pool.map("stock")?;
/// let sold: Map<String, u64> = pool.map("sold")?;
/// stock.insert("apple", 5)?;
///
/// let before = pool.snapshot();
/// pool.transaction(|tx| {
///     tx.insert(&stock, "apple", 4)?;
///     tx.insert(&sold, "apple", 1)
/// })?;
/// assert_eq!((before.get(&stock, "apple")?, before.get(&sold, "apple")?), (Some(5), None));
/// assert_eq!((stock.get("apple")?, sold.get("apple")?), (Some(4), Some(1)));
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct Snapshot<M: Medium = Mapped> {
    pool: Arc<PoolState<M>>,
    instant: u64,
    is_expired: Arc<AtomicBool>,
}

impl<M: Medium> fmt::Debug for Snapshot<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_expired = self.is_expired.load(Ordering::Relaxed);
        f.debug_struct("Snapshot").field("is_expired", &is_expired).finish_non_exhaustive()
    }
}

impl<M: Medium> Pool<M> {
    /// Opens a [snapshot](Snapshot) of all trees.
    ///
    /// # Complexity
    ///
    /// A look at each open tree. Nothing is flushed, and no change is waited for.
    pub fn snapshot(&self) -> Snapshot<M> {
        let pool = Arc::clone(&self.state);
        let (instant, is_expired) = pool.open_snapshot();
        Snapshot { pool, instant, is_expired }
    }
}

impl<M: Medium> Snapshot<M> {
    /// The value that a key had.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SnapshotTooOld`], [`ErrorKind::OtherPool`], [`ErrorKind::Forked`], [`ErrorKind::Corrupt`],
    /// [`ErrorKind::Undecodable`].
    ///
    /// # Complexity
    ///
    /// As [`Map::get`](crate::Map::get), and if the key's leaf has changed since, a search among the frozen leaves of
    /// this snapshot, or of the next newer one that is open and has it.
    pub fn get<T: Table<M>>(&self, table: &T, key: TableKey<'_, T, M>) -> Result<Option<T::Value>> {
        let tree = self.tree(table)?;
        let key = T::Key::encode(key);
        let reading = tree.reading();
        let word = tree.get_at(key.borrow(), self.instant, reading.as_ref());
        let value = |word| TreeKeysOf::<T, M>::stored_value(word, reading.as_ref(), T::Value::KIND);
        let value = word.and_then(|word| word.map(value).transpose());
        let decode = |value| codec::decode(value, || tree.name());
        self.pool.named(self.still_there(value).and_then(|value| value.map(decode).transpose()))
    }

    /// Whether a key was there.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn contains_key<T: Table<M>>(&self, table: &T, key: TableKey<'_, T, M>) -> Result<bool> {
        let tree = self.tree(table)?;
        let key = T::Key::encode(key);
        let word = tree.get_at(key.borrow(), self.instant, tree.reading().as_ref());
        self.pool.named(self.still_there(word).map(|word| word.is_some()))
    }

    /// The entries of a range, in ascending order; from the other end, in descending order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OtherPool`], [`ErrorKind::Forked`]. The iterator returns the errors of [`get`](Self::get), and
    /// nothing after one.
    ///
    /// # Panics
    ///
    /// As [`Map::range`](crate::Map::range).
    #[track_caller]
    pub fn range<'s, 'k, T: Table<M>>(
        &'s self,
        table: &'s T,
        range: impl RangeBounds<TableKey<'k, T, M>>,
    ) -> Result<SnapshotRange<'s, T, M>> {
        let tree = self.tree(table)?;
        Ok(SnapshotRange::new(self, tree, interval(table, range)))
    }

    /// The entries whose keys begin with a prefix. As [`range`](Self::range).
    ///
    /// # Errors
    ///
    /// As [`range`](Self::range).
    pub fn prefix<'s, T: Table<M>>(
        &'s self,
        table: &'s T,
        prefix: impl PrefixOf<T::Key>,
    ) -> Result<SnapshotRange<'s, T, M>> {
        let tree = self.tree(table)?;
        Ok(SnapshotRange::new(self, tree, with_prefix(table, prefix)))
    }

    /// All entries. As [`range`](Self::range).
    ///
    /// # Errors
    ///
    /// As [`range`](Self::range).
    pub fn iter<'s, T: Table<M>>(&'s self, table: &'s T) -> Result<SnapshotRange<'s, T, M>> {
        Ok(SnapshotRange::new(self, self.tree(table)?, Some(Interval::everything())))
    }

    /// The number of entries that there were.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Complexity
    ///
    /// Reads all leaves.
    pub fn len<T: Table<M>>(&self, table: &T) -> Result<u64> {
        let tree = self.tree(table)?;
        let (mut len, mut entries) = (0, LeafEntries::without_records());
        let mut unread = Some(Interval::everything());
        while let Some(rest) = unread {
            let rest = tree.read_at(rest, true, self.instant, tree.reading().as_ref(), &mut entries);
            unread = self.pool.named(self.still_there(rest))?;
            len += entries.len() as u64;
        }
        Ok(len)
    }

    /// Whether there were no entries.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn is_empty<T: Table<M>>(&self, table: &T) -> Result<bool> {
        Ok(self.iter(table)?.next().transpose()?.is_none())
    }

    /// Reads the first or the last leaf of an interval, and adds its entries, with values of a kind, to `items`, in
    /// ascending order. Returns what is left of the interval. `entries` is a buffer.
    fn read<N: TreeNode>(
        &self,
        tree: &TreeState<N, M>,
        kind: Kind,
        (unread, from_left): (Interval<N::Keys>, bool),
        entries: &mut LeafEntries<N::Keys>,
        items: &mut Vec<Item<N::Keys>>,
    ) -> Result<Option<Interval<N::Keys>>, Fault> {
        // Begun before the leaf is read, and no longer needed when its entries are copied.
        let reading = tree.reading();
        self.pool.owned()?;
        let read = tree.read_at(unread, from_left, self.instant, reading.as_ref(), entries).and_then(|rest| {
            for entry in entries.spots() {
                items.push(entry.with_stored(reading.as_ref(), kind, ToOwned::to_owned)?);
            }
            Ok(rest)
        });
        self.still_there(read)
    }

    fn tree<'s, T: Table<M>>(&self, table: &'s T) -> Result<&'s TreeState<T::Node, M>> {
        self.pool.named(self.pool.owned().and_then(|()| tree_in(table, &self.pool)))
    }

    /// What was read of a snapshot, unless it may have expired meanwhile: then that means nothing.
    fn still_there<R>(&self, read: Result<R, Fault>) -> Result<R, Fault> {
        let is_expired = self.is_expired.load(Ordering::SeqCst);
        // By F2, only an expired snapshot is too old; in a damaged pool, others may be, and say so.
        if is_expired { Err(self.pool.instants.too_old()) } else { read }
    }
}

impl<M: Medium> Drop for Snapshot<M> {
    fn drop(&mut self) {
        self.pool.close_snapshot(self.instant);
    }
}
