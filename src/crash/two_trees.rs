//! Two trees of one pool that the checkers see as one: changes of several keys at once may concern both.

use super::any_tree::{AnyTree, AsKey, AsValue, Before, Entries, OfNumbers, Write};
use crate::error::{Error, ErrorKind, Result};
use crate::map::{LeafFor, Map};
use crate::medium::Medium;
use crate::node::Defer;
use crate::pool::Pool;
use crate::pool::Report;
use crate::snapshot::Snapshot;
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::transaction::Transaction;
use std::collections::BTreeMap;

/// Two maps, whose keys and values stand for numbers.
pub(super) struct TwoTrees<K: AsKey, V: AsValue, N: LeafFor<K::Key>, M: Medium> {
    pool: Pool<M>,
    trees: [OfNumbers<K, V, N, M>; 2],
    /// Whether the trees have each other's names.
    is_swapped: AtomicBool,
    kept: Mutex<Vec<Kept<M>>>,
}

impl<K: AsKey, V: AsValue, N: LeafFor<K::Key>, M: Medium> TwoTrees<K, V, N, M> {
    pub(super) fn new(pool: &Pool<M>, trees: [OfNumbers<K, V, N, M>; 2]) -> Self {
        Self { pool: pool.clone(), trees, is_swapped: AtomicBool::new(false), kept: Mutex::new(Vec::new()) }
    }

    fn write<'t>(
        &'t self,
        writes: &[Write],
        mut write: impl FnMut(&'t Map<K::Key, V::Value, N, M>, &K::Key, Option<V::Value>) -> Result<()>,
    ) -> Result<()> {
        writes.iter().try_for_each(|&(key, value)| {
            let tree = self.tree(key);
            write(tree.map(), &tree.key(key), value.map(|value| V::value(key, value)))
        })
    }

    /// The tree of a key. Keys that are next to each other, and those of each kind of history, are in both.
    fn tree(&self, key: u64) -> &OfNumbers<K, V, N, M> {
        &self.trees[((key >> 1 ^ key >> 2) as usize & 1) ^ usize::from(self.is_swapped.load(Ordering::Relaxed))]
    }
}

/// The entries of one of the trees, in ascending or in descending order.
type EntriesOf<K, V> = Vec<(<K as AsKey>::Key, <V as AsValue>::Value)>;

impl<K: AsKey, V: AsValue, N: LeafFor<K::Key, Ops: Defer>, M: Medium> TwoTrees<K, V, N, M> {
    fn values<'t>(
        &'t self,
        keys: &[u64],
        mut get: impl FnMut(&'t Map<K::Key, V::Value, N, M>, &K::Key) -> Result<Option<V::Value>>,
    ) -> Result<Vec<Option<u64>>> {
        let value = |&key: &u64| {
            let tree = self.tree(key);
            get(tree.map(), &tree.key(key))?.map(|value| V::number(key, &value)).transpose()
        };
        keys.iter().map(value).collect()
    }

    /// The values of keys, from a range of each tree. The second tree's range is read backwards.
    fn values_of_range<'t>(
        &'t self,
        keys: &[u64],
        mut scan: impl FnMut(&'t Map<K::Key, V::Value, N, M>, [&K::Key; 2], bool) -> Result<EntriesOf<K, V>>,
    ) -> Result<Vec<Option<u64>>> {
        let mut found = BTreeMap::new();
        for (tree, backwards) in self.trees.iter().zip([false, true]) {
            let (from, to) = (tree.key(keys[0]), tree.key(keys[keys.len() - 1]));
            for (key, value) in scan(tree.map(), [&from, &to], backwards)? {
                let number = tree.number(&key)?;
                found.insert(number, V::number(number, &value)?);
            }
        }
        Ok(keys.iter().map(|key| found.get(key).copied()).collect())
    }

    fn in_transaction<'t>(
        &'t self,
        transaction: &mut Transaction<'t, M>,
        keys: &[u64],
        range: bool,
    ) -> Result<Vec<Option<u64>>> {
        if !range {
            return self.values(keys, |map, key| transaction.get(map, K::borrowed(key)));
        }
        self.values_of_range(keys, |map, [from, to], backwards| {
            collect(transaction.range(map, K::borrowed(from)..=K::borrowed(to))?, backwards)
        })
    }

    fn in_snapshot(&self, snapshot: &Snapshot<M>, keys: &[u64], range: bool) -> Result<Vec<Option<u64>>> {
        if !range {
            return self.values(keys, |map, key| snapshot.get(map, K::borrowed(key)));
        }
        self.values_of_range(keys, |map, [from, to], backwards| {
            collect(snapshot.range(map, K::borrowed(from)..=K::borrowed(to))?, backwards)
        })
    }

    /// Reads keys in a snapshot, and keeps it for a while: then they must be the same.
    fn at_an_instant(&self, keys: &[u64], range: bool) -> Result<Vec<Option<u64>>> {
        let snapshot = self.pool.snapshot();
        let values = self.in_snapshot(&snapshot, keys, range)?;
        let kept = Kept { snapshot, keys: keys.to_vec(), values: values.clone() };
        let mut all = self.kept.lock();
        all.push(kept);
        // The newest, the oldest, or one in between.
        let old = (all.len() > KEPT).then(|| all.remove(keys[0] as usize % (KEPT + 1)));
        drop(all);
        if let Some(Kept { snapshot, keys, values }) = old
            && (self.in_snapshot(&snapshot, &keys, !range)? != values)
        {
            return Err(Error::new("", ErrorKind::Corrupt { at: 0, invariant: "a snapshot has changed" }));
        }
        Ok(values)
    }
}

/// How many snapshots are kept.
const KEPT: usize = 4;

/// A snapshot, and what some keys were in it. They ascend.
struct Kept<M: Medium> {
    snapshot: Snapshot<M>,
    keys: Vec<u64>,
    values: Vec<Option<u64>>,
}

fn collect<T>(entries: impl DoubleEndedIterator<Item = Result<T>>, backwards: bool) -> Result<Vec<T>> {
    if backwards { entries.rev().collect() } else { entries.collect() }
}

impl<K: AsKey, V: AsValue, N: LeafFor<K::Key, Ops: Defer>, M: Medium> AnyTree for TwoTrees<K, V, N, M> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.tree(key).get(key)
    }

    fn multi_get(&self, keys: &[u64]) -> Result<Vec<Option<u64>>> {
        keys.iter().map(|&key| self.get(key)).collect()
    }

    fn insert(&self, key: u64, value: u64) -> Result<Before> {
        self.tree(key).insert(key, value)
    }

    fn insert_new(&self, key: u64, value: u64) -> Result<Before> {
        self.tree(key).insert_new(key, value)
    }

    fn update(&self, key: u64, value: u64) -> Result<Before> {
        self.tree(key).update(key, value)
    }

    fn remove(&self, key: u64) -> Result<Before> {
        self.tree(key).remove(key)
    }

    fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Result<Option<u64>> {
        self.tree(key).compare_exchange(key, current, new)
    }

    fn insert_batch(&self, entries: &[(u64, u64)]) -> Result<()> {
        self.trees.iter().try_for_each(|tree| {
            let own = entries.iter().copied().filter(|&(key, _)| std::ptr::eq(self.tree(key), tree));
            tree.insert_batch(&own.collect::<Vec<_>>())
        })
    }

    fn remove_range(&self, keys: (u64, u64)) -> Result<u64> {
        self.trees.iter().map(|tree| tree.remove_range(keys)).sum()
    }

    fn transaction(&self, keys: &[u64], range: bool, writes: &[Write]) -> Result<Vec<Option<u64>>> {
        if keys.is_empty() {
            let mut batch = self.pool.batch();
            self.write(writes, |map, at, value| match value {
                None => batch.remove(map, K::borrowed(at)),
                Some(value) => batch.insert(map, K::borrowed(at), V::borrowed(&value)),
            })?;
            return batch.commit().map(|()| Vec::new());
        }
        if writes.is_empty() && keys[0].is_multiple_of(2) {
            return self.at_an_instant(keys, range);
        }
        self.pool.transaction(|transaction| {
            let values = self.in_transaction(transaction, keys, range);
            self.write(writes, |map, at, value| match value {
                None => transaction.remove(map, K::borrowed(at)),
                Some(value) => transaction.insert(map, K::borrowed(at), V::borrowed(&value)),
            })?;
            values
        })
    }

    fn swap(&self) -> Result<()> {
        let maps = self.trees.each_ref().map(OfNumbers::map);
        self.pool.transaction(|transaction| {
            let [one, other] = maps.map(|map| collect(transaction.range(map, ..)?, false));
            for (entries, from, to) in [(one?, maps[0], maps[1]), (other?, maps[1], maps[0])] {
                for (key, value) in entries {
                    transaction.remove(from, K::borrowed(&key))?;
                    transaction.insert(to, K::borrowed(&key), V::borrowed(&value))?;
                }
            }
            transaction.swap_trees(&maps[0].name(), &maps[1].name())
        })?;
        self.is_swapped.fetch_xor(true, Ordering::Relaxed);
        Ok(())
    }

    fn bulk_load(&self, _entries: &[(u64, u64)]) -> Result<u64> {
        unreachable!("two trees are not loaded at once")
    }

    fn compact(&self) -> Result<()> {
        self.trees.iter().try_for_each(AnyTree::compact)
    }

    fn move_everything(&self) -> Result<()> {
        self.trees.iter().try_for_each(AnyTree::move_everything)
    }

    fn clear(&self) -> Result<()> {
        unreachable!("two trees are not cleared at once")
    }

    fn range(&self, (from, to): (u64, u64)) -> Entries<'_> {
        let mut all: Vec<_> = self.trees.iter().flat_map(|tree| tree.range((from, to))).collect();
        // Errors come first.
        all.sort_by_key(|entry| entry.as_ref().ok().map(|&(key, _)| key));
        Box::new(all.into_iter())
    }

    fn is_empty(&self) -> bool {
        self.trees.iter().all(AnyTree::is_empty)
    }

    fn len(&self) -> u64 {
        self.trees.iter().map(AnyTree::len).sum()
    }

    fn check(&self) -> Report {
        let [one, other] = self.trees.each_ref().map(AnyTree::check);
        if one.violations.is_empty() { other } else { one }
    }

    fn fault(&self) -> Option<Error> {
        self.trees.iter().find_map(AnyTree::fault)
    }
}
