//! What takes part in transactions and in snapshots: trees and maps with the default leaves.

use crate::codec::{self, Key, PrefixOf, Value};
use crate::error::{ErrorKind, Fault};
use crate::map::{LeafFor, Map, encoded_range, prefix_range};
use crate::medium::Medium;
use crate::node::{Defer, Interval, WordNode};
use crate::pool::PoolState;
use crate::tree::{Item, PTree, TreeState};
use std::borrow::Borrow;
use std::ops::RangeBounds;

/// A [`PTree`] or a [`Map`] that takes part in [transactions](crate::Transaction) and [snapshots](crate::Snapshot): one
/// with the default leaves, [`OneLine`](crate::OneLine) or [`ByteLeaf`](crate::ByteLeaf).
///
/// A map with the default leaves takes part whatever its key and value are, so code may be generic over them, without
/// further bounds.
///
/// Sealed.
///
/// # Examples
///
/// ```
/// use bristlecone::{Key, Map, Pool, Result, Snapshot, Transaction, Value, WriteBatch};
///
/// /// Moves the entry of a key from one map to another one, both of any type.
/// fn move_entry<'t, K: Key, V>(
///     tx: &mut Transaction<'t>,
///     from: &'t Map<K, V>,
///     to: &'t Map<K, V>,
///     key: K::Borrowed<'_>,
/// ) -> Result<bool>
/// where
///     V: for<'v> Value<Borrowed<'v> = &'v str> + AsRef<str>,
/// {
///     let Some(value) = tx.get(from, key)? else { return Ok(false) };
///     tx.insert(to, key, value.as_ref())?;
///     tx.remove(from, key)?;
///     Ok(true)
/// }
///
/// /// How many entries there are in a transaction, and were in a snapshot.
/// fn count<'t, K: Key, V: Value>(
///     map: &'t Map<K, V>,
///     tx: &mut Transaction<'t>,
///     before: &Snapshot,
///     batch: &mut WriteBatch<'t>,
///     forget: K::Borrowed<'_>,
/// ) -> Result<(usize, u64)> {
///     batch.remove(map, forget)?;
///     Ok((tx.range(map, ..)?.count(), before.len(map)?))
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
/// let (new, done): (Map<u64, String>, _) = (pool.map("new")?, pool.map("done")?);
/// new.insert(7, "seven")?;
/// let before = pool.snapshot();
/// assert!(pool.transaction(|tx| move_entry(tx, &new, &done, 7))?);
/// let (mut tx, mut batch) = (pool.begin(), pool.batch());
/// assert_eq!(count(&new, &mut tx, &before, &mut batch, 1)?, (0, 1));
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub trait Table<M: Medium> {
    /// The type of the keys.
    type Key: Key;

    /// The type of the values.
    type Value: Value;

    #[doc(hidden)]
    type Node: LeafFor<Self::Key, Ops: Defer>;

    #[doc(hidden)]
    fn tree(&self) -> &TreeState<Self::Node, M>;
}

impl<N: WordNode<Ops: Defer>, M: Medium> Table<M> for PTree<N, M> {
    type Key = u64;
    type Value = u64;
    type Node = N;

    fn tree(&self) -> &TreeState<N, M> {
        &self.state
    }
}

impl<K: Key, V: Value, N: LeafFor<K, Ops: Defer>, M: Medium> Table<M> for Map<K, V, N, M> {
    type Key = K;
    type Value = V;
    type Node = N;

    fn tree(&self) -> &TreeState<N, M> {
        self.state()
    }
}

/// The keys of a table, as methods take them.
pub(crate) type TableKey<'k, T, M> = <<T as Table<M>>::Key as Key>::Borrowed<'k>;
/// The values of a table, as methods take them.
pub(crate) type ValueOf<'v, T, M> = <<T as Table<M>>::Value as Value>::Borrowed<'v>;
/// What the keys of a table's tree are.
pub(crate) type TreeKeysOf<T, M> = <<T as Table<M>>::Key as Key>::Form;
/// An interval of a table's keys.
pub(crate) type UnreadOf<T, M> = Interval<TreeKeysOf<T, M>>;

/// The tree of a table, if that is in this pool.
pub(crate) fn tree_in<'t, T: Table<M>, M: Medium>(
    table: &'t T,
    pool: &PoolState<M>,
) -> Result<&'t TreeState<T::Node, M>, Fault> {
    let tree = table.tree();
    if std::ptr::eq(&*tree.pool, pool) { Ok(tree) } else { Err(ErrorKind::OtherPool { tree: tree.name() }.into()) }
}

/// The interval of a range; `None` if it is empty.
#[track_caller]
pub(crate) fn interval<'k, T: Table<M>, M: Medium>(
    table: &T,
    range: impl RangeBounds<TableKey<'k, T, M>>,
) -> Option<UnreadOf<T, M>> {
    encoded_range::<T::Key, T::Node, M>(table.tree(), range).into_unread()
}

/// The interval of the keys with a prefix.
pub(crate) fn with_prefix<T: Table<M>, M: Medium>(table: &T, prefix: impl PrefixOf<T::Key>) -> Option<UnreadOf<T, M>> {
    prefix_range::<T::Key, T::Node, M>(table.tree(), &prefix).into_unread()
}

/// A key and a value of a tree as their types.
pub(crate) fn decode<T: Table<M>, M: Medium>(
    (key, value): Item<TreeKeysOf<T, M>>,
    tree: &TreeState<T::Node, M>,
) -> Result<(T::Key, T::Value), Fault> {
    let value = codec::decode(value, || tree.name())?;
    Ok((T::Key::decode(key.borrow()), value))
}
