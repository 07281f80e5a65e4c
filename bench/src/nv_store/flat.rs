//! NV-Tree's inner nodes: arrays in which the place of a child follows from the place of its parent.
//!
//! The parents of leaves take new leaves in. When one is full, all inner nodes are built anew from the chain, with one
//! leaf in each parent, as printed. Inner nodes above the parents never change.
//!
//! Readers take no lock on a parent. A store there keeps its leaves in order, with one of them twice at most, so a
//! reader finds a leaf that is not right of the one it looks for; and from there it follows the chain.

use super::key::Key;
use super::leaves::{FIRST, Id, Leaf, Leaves};
use crate::arena::{SHARDS, home};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The inner nodes, and how to replace them all.
pub(super) struct Index {
    /// Each shard leads to the newest nodes; a reader marks only its own shard.
    shards: [Shard; SHARDS],
    /// The thread that holds it may change parents, and replace the nodes.
    upkeep: Mutex<Upkeep>,
}

#[repr(align(64))]
struct Shard(RwLock<Arc<Nodes>>);

#[derive(Debug, Default, Clone, Copy)]
struct Upkeep {
    rebuilds: u64,
    time: Duration,
}

struct Nodes {
    /// From the root down. None if there is one parent only.
    levels: Vec<Level>,
    parents: Box<[Parent]>,
    shape: Shape,
}

/// The paper's `m`: a parent has so many keys, and one leaf more; a node above has twice as many.
#[derive(Debug, Clone, Copy)]
struct Shape(usize);

impl Shape {
    /// Leaves of a parent.
    fn leaves(self) -> usize {
        self.0 + 1
    }

    /// Keys of a node above.
    fn keys(self) -> usize {
        2 * self.0
    }
}

/// The nodes of one level, one after the other: each has its keys, and one child more.
struct Level {
    heads: Vec<u64>,
    /// The leaf whose low key is the key.
    leaves: Vec<Id>,
}

/// The leaves below one of the lowest nodes, in the order of their keys. The first one stays.
struct Parent {
    len: AtomicUsize,
    leaves: Box<[AtomicU32]>,
}

impl Index {
    /// The index of all leaves in the chain, with so many keys in a parent.
    pub(super) fn new(leaves: &Leaves, keys: usize) -> Self {
        let nodes = Arc::new(Nodes::new(leaves, Shape(keys)));
        let shards = std::array::from_fn(|_| Shard(RwLock::new(Arc::clone(&nodes))));
        Self { shards, upkeep: Mutex::default() }
    }

    /// The leaf that owns a key, or has just lost it.
    #[inline]
    pub(super) fn owner(&self, leaves: &Leaves, key: Key<'_>) -> Id {
        self.last(leaves, key, |leaf| leaf.is_up_to(key))
    }

    /// The leaf before the one with this low key, which is not empty.
    pub(super) fn before(&self, leaves: &Leaves, low: Key<'_>) -> Id {
        self.last(leaves, low, |leaf| leaf.is_before(low))
    }

    /// The last leaf for which `is_left` holds: its low key is less than that of `key`, or as `key` has it.
    #[inline]
    fn last(&self, leaves: &Leaves, key: Key<'_>, is_left: impl Fn(&Leaf) -> bool) -> Id {
        let start = {
            let nodes = self.shards[home()].0.read().unwrap_or_else(PoisonError::into_inner);
            nodes.find(leaves, key, &is_left)
        };
        leaves.walk(start, is_left)
    }

    /// Takes in a leaf that is in the chain.
    pub(super) fn insert(&self, leaves: &Leaves, id: Id) {
        let mut upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = Arc::clone(&self.shards[0].0.read().unwrap_or_else(PoisonError::into_inner));
        if nodes.insert(leaves, id) {
            return;
        }
        let start = Instant::now();
        let nodes = Arc::new(Nodes::new(leaves, nodes.shape));
        for shard in &self.shards {
            *shard.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&nodes);
        }
        *upkeep = Upkeep { rebuilds: upkeep.rebuilds + 1, time: upkeep.time + start.elapsed() };
    }

    /// How often all nodes were built anew, and how long that took.
    pub(super) fn rebuilds(&self) -> (u64, Duration) {
        let upkeep = *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        (upkeep.rebuilds, upkeep.time)
    }
}

impl Nodes {
    fn new(leaves: &Leaves, shape: Shape) -> Self {
        let mut firsts: Vec<Id> = leaves.chain().collect();
        let parents = firsts.iter().map(|&id| Parent::new(id, shape)).collect();
        let mut levels = Vec::new();
        while firsts.len() > 1 {
            let nodes = firsts.chunks(shape.keys() + 1);
            levels.push(Level::new(leaves, nodes.clone().flat_map(|children| &children[1..]).copied().collect()));
            firsts = nodes.map(|children| children[0]).collect();
        }
        levels.reverse();
        Self { levels, parents, shape }
    }

    #[inline]
    fn find(&self, leaves: &Leaves, key: Key<'_>, is_left: &impl Fn(&Leaf) -> bool) -> Id {
        self.parents[self.parent(leaves, key, is_left)].find(leaves, is_left).1
    }

    #[inline]
    fn parent(&self, leaves: &Leaves, key: Key<'_>, is_left: &impl Fn(&Leaf) -> bool) -> usize {
        let keys = self.shape.keys();
        self.levels
            .iter()
            .fold(0, |node, level| node * (keys + 1) + level.find(leaves, node * keys, keys, key, is_left))
    }

    /// False if the parent is full.
    fn insert(&self, leaves: &Leaves, id: Id) -> bool {
        let low = leaves.get(id).low();
        let is_left = |leaf: &Leaf| leaf.is_up_to(low);
        self.parents[self.parent(leaves, low, &is_left)].insert(leaves, id, &is_left)
    }
}

impl Level {
    fn new(leaves: &Leaves, ids: Vec<Id>) -> Self {
        Self { heads: ids.iter().map(|&id| leaves.get(id).low().head).collect(), leaves: ids }
    }

    /// Which child of a node leads to the last leaf for which `is_left` holds.
    #[inline]
    fn find(&self, leaves: &Leaves, from: usize, keys: usize, key: Key<'_>, is_left: &impl Fn(&Leaf) -> bool) -> usize {
        let (mut low, mut high) = (from, self.heads.len().min(from + keys));
        while low < high {
            let middle = low.midpoint(high);
            let head = self.heads[middle];
            let left = head < key.head || head == key.head && is_left(leaves.get(self.leaves[middle]));
            (low, high) = if left { (middle + 1, high) } else { (low, middle) };
        }
        low - from
    }
}

impl Parent {
    fn new(first: Id, shape: Shape) -> Self {
        let leaves = std::iter::once(first).chain(std::iter::repeat(FIRST)).take(shape.leaves());
        Self { len: AtomicUsize::new(1), leaves: leaves.map(AtomicU32::new).collect() }
    }

    #[inline]
    fn get(&self, i: usize) -> Id {
        self.leaves[i].load(Ordering::Acquire)
    }

    /// The last leaf for which `is_left` holds, or the first one; and its place, if nobody is storing to the parent.
    #[inline]
    fn find(&self, leaves: &Leaves, is_left: &impl Fn(&Leaf) -> bool) -> (usize, Id) {
        let (mut found, mut high) = ((0, self.get(0)), self.len.load(Ordering::Acquire));
        let mut low = 1;
        while low < high {
            let middle = low.midpoint(high);
            let id = self.get(middle);
            if is_left(leaves.get(id)) {
                (found, low) = ((middle, id), middle + 1);
            } else {
                high = middle;
            }
        }
        found
    }

    /// False if it is full. A leaf that is there already is not stored again: a rebuild may have been faster.
    fn insert(&self, leaves: &Leaves, id: Id, is_left: &impl Fn(&Leaf) -> bool) -> bool {
        let (place, found) = self.find(leaves, is_left);
        let len = self.len.load(Ordering::Relaxed);
        if found == id {
            return true;
        }
        if len == self.leaves.len() {
            return false;
        }
        for i in (place + 1..len).rev() {
            self.leaves[i + 1].store(self.get(i), Ordering::Release);
        }
        self.leaves[place + 1].store(id, Ordering::Release);
        self.len.store(len + 1, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::leaves::View;
    use super::*;

    fn leaf(low: &[u8]) -> Leaf {
        Leaf::new(low.into(), View { at: 64, count: 0 }, 4)
    }

    /// A new leaf in the chain, right of the last one up to its low key.
    fn split(leaves: &Leaves, low: &[u8]) -> Id {
        let left = leaves.walk(FIRST, |leaf| leaf.is_up_to(Key::new(low)));
        let new = leaf(low);
        new.set_next(leaves.get(left).next());
        let id = leaves.push(new);
        leaves.get(left).set_next(Some(id));
        id
    }

    #[test]
    fn every_key_is_found_through_every_shape() {
        for keys in [1, 2, 3, 7] {
            let leaves = Leaves::new();
            leaves.push(leaf(b""));
            let index = Index::new(&leaves, keys);
            let lows: Vec<String> = (0..300).map(|i| format!("common prefix {:03}", i * 7919 % 1000)).collect();
            for low in &lows {
                index.insert(&leaves, split(&leaves, low.as_bytes()));
            }
            let nodes = Arc::clone(&index.shards[0].0.read().unwrap());
            for low in &lows {
                let key = Key::new(low.as_bytes());
                let owner = leaves.get(index.owner(&leaves, key));
                assert_eq!(owner.low().bytes, low.as_bytes());
                // The nodes lead to the leaf itself, without a step along the chain.
                let found = nodes.find(&leaves, key, &|leaf| leaf.is_up_to(key));
                assert_eq!(found, index.owner(&leaves, key));
                let before = leaves.get(index.before(&leaves, key));
                assert_eq!(leaves.get(before.next().unwrap()).low().bytes, low.as_bytes());
            }
            assert!(index.rebuilds().0 > 1, "{keys} keys");
        }
    }

    #[test]
    fn a_leaf_that_no_parent_has_is_found_along_the_chain() {
        let leaves = Leaves::new();
        leaves.push(leaf(b""));
        let index = Index::new(&leaves, 2);
        let ids: Vec<Id> = (0..9).map(|i| split(&leaves, &[i])).collect();
        assert!((0..9).all(|i| index.owner(&leaves, Key::new(&[i, 5])) == ids[usize::from(i)]));
    }
}
