//! The trees of this crate as subjects.

use crate::ordered_map::{Fault, NAME, OrderedMap, Space};
use crate::out::Outcome;
use bristlecone::medium::Medium;
use bristlecone::{IndexKind, PTree, Pool, WordNode};
use std::time::Duration;

/// A tree of this crate, in a pool with no other tree.
pub(crate) struct Tree<N: WordNode, M: Medium> {
    tree: PTree<N, M>,
    fault: Fault,
}

impl<N: WordNode, M: Medium> Tree<N, M> {
    /// Opens the tree, or creates it.
    pub(crate) fn open(pool: &Pool<M>, index: IndexKind) -> Outcome<Self> {
        Ok(Self { tree: pool.tree_with(NAME, index)?, fault: Fault::default() })
    }
}

impl<N: WordNode, M: Medium> OrderedMap for Tree<N, M> {
    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.fault.note(self.tree.insert(key, value));
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.tree.get(key)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        self.fault.note(self.tree.update(key, value));
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.fault.note(self.tree.remove(key));
    }

    fn insert_durably(&self, entries: &[(u64, u64)]) {
        self.insert_batch(entries);
        self.fault.note(self.tree.pool().sync());
    }

    fn fault(&self) -> Outcome<()> {
        self.fault.get()?;
        self.tree.fault().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Also closes the pool: there is no other handle to it.
    fn close(self: Box<Self>) -> Outcome<()> {
        self.fault()?;
        let pool = self.tree.pool();
        drop(self);
        Ok(pool.close()?)
    }

    fn space(&self) -> Outcome<Option<Space>> {
        Space::of(&self.tree.pool(), &self.tree.check()).map(Some)
    }

    fn rebuilds(&self) -> Option<(u64, Duration)> {
        matches!(self.tree.index(), IndexKind::Flat | IndexKind::FlatFixed).then(|| self.tree.index_rebuilds())
    }

    #[inline]
    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) {
        for (key, value) in self.tree.range(from..) {
            if !each(key, value) {
                break;
            }
        }
    }

    #[inline]
    fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>> {
        self.tree.multi_get(keys)
    }

    #[inline]
    fn insert_batch(&self, entries: &[(u64, u64)]) {
        self.fault.note(self.tree.insert_batch(entries));
    }
}
