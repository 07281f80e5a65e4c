//! The volatile index as the models of trees use it: each access is one step. The [models](super::volatile) of the real
//! index show that its accesses appear to be one step, so the models of trees need not explore what happens inside it.

use super::separators::{Lows, Separators, Strings};
use super::volatile::{DamagedNode, GROUP, ImageTop, RUN, ReadNode};
use crate::node::Words;
use crate::sync::version;
use crate::sync::{AtomicU64, Ordering};
use std::sync::Mutex;

/// The names of separators and their leaves, in the order of the separators.
type Leaves = Vec<(u64, u64)>;

/// Separators and their leaves.
pub struct VolatileIndex<S: Separators = Words> {
    separators: S,
    /// The lock is never held while separators are read, which may be steps of a model.
    leaves: Mutex<Leaves>,
    /// What loom sees of an access: each one reads or writes this word.
    step: AtomicU64,
}

super::in_memory! { VolatileIndex<S>, S: Separators }

impl VolatileIndex {
    pub(crate) fn new() -> Self {
        Self::with_separators(Words)
    }
}

impl<F: Lows> VolatileIndex<Strings<F>> {
    pub(crate) fn separator(&self, name: u64) -> Vec<u8> {
        self.separators.copy(name)
    }
}

impl<S: Separators> VolatileIndex<S> {
    pub(crate) fn with_separators(separators: S) -> Self {
        Self { separators, leaves: Mutex::default(), step: AtomicU64::new(0) }
    }

    /// Acquire: a reader that sees a posted leaf also sees everything that was done before it was posted.
    fn read(&self) -> (Leaves, u64) {
        let step = self.step.fetch_add(0, Ordering::Acquire);
        (self.leaves.lock().unwrap().clone(), step)
    }

    /// There is one writer at a time, so nothing changes until the step.
    fn write<R>(&self, write: impl FnOnce(&mut Leaves) -> R) -> R {
        let mut leaves = self.leaves.lock().unwrap().clone();
        let written = write(&mut leaves);
        self.step.fetch_add(1, Ordering::AcqRel);
        *self.leaves.lock().unwrap() = leaves;
        version::announce();
        written
    }

    /// Where the separator at the key is, or would be.
    fn search(&self, leaves: &Leaves, key: S::Key<'_>) -> Result<usize, usize> {
        leaves.binary_search_by(|&(name, _)| self.separators.order_of(name, key))
    }

    /// The leaves from the leaf of the greatest separator `<= key` on.
    fn from<'l>(&self, leaves: &'l Leaves, key: S::Key<'_>) -> Option<&'l [(u64, u64)]> {
        let floor = self.search(leaves, key).or_else(|behind| behind.checked_sub(1).ok_or(())).ok()?;
        Some(&leaves[floor..])
    }

    pub(crate) fn floor(&self, key: S::Key<'_>) -> Option<u64> {
        self.from(&self.read().0, key).map(|leaves| leaves[0].1)
    }

    pub(crate) fn floor_at_once(&self, key: S::Key<'_>) -> Option<u64> {
        self.floor(key)
    }

    pub(crate) fn named_at_once(&self, key: S::Key<'_>) -> Option<Named<'_, S>> {
        let (leaves, step) = self.read();
        self.from(&leaves, key).map(|leaves| Named { leaf: leaves[0].1, index: self, step })
    }

    pub(crate) fn floors_at_once(&self, keys: &[S::Key<'_>]) -> [Option<u64>; GROUP] {
        std::array::from_fn(|i| keys.get(i).and_then(|&key| self.floor(key)))
    }

    pub(crate) fn nameds_at_once(&self, keys: &[S::Key<'_>]) -> [Option<Named<'_, S>>; GROUP] {
        std::array::from_fn(|i| keys.get(i).and_then(|&key| self.named_at_once(key)))
    }

    pub(crate) fn run_at_once(&self, key: S::Key<'_>) -> Option<[u64; RUN]> {
        let (leaves, _) = self.read();
        let leaves = self.from(&leaves, key)?;
        Some(std::array::from_fn(|i| leaves.get(i).map_or(0, |&(_, leaf)| leaf)))
    }

    pub(crate) fn post(&self, low: u64, leaf: u64) {
        self.write(|leaves| match self.separators.with_key(low, |key| self.search(leaves, key)) {
            // The first separator keeps its name.
            Ok(at) => leaves[at] = (if leaves[at].0 == 0 { 0 } else { low }, leaf),
            Err(at) => leaves.insert(at, (low, leaf)),
        });
    }

    pub(crate) fn withdraw(&self, low: u64) -> Option<u64> {
        self.write(|leaves| {
            let at = leaves.iter().position(|&(name, _)| name == low)?;
            Some(leaves.remove(at).1)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.read().0.len()
    }

    /// Nothing of a model asks for it.
    pub(crate) fn replaced(&self) -> usize {
        0
    }

    pub(crate) fn is_replaced(&self) {}

    pub(crate) fn copy<R>(
        &self,
        _from: Option<S::Key<'_>>,
        _most: usize,
        f: impl FnMut(u64, u64),
        _rest: impl FnOnce(u64) -> R,
    ) -> Result<Option<R>, DamagedNode> {
        self.for_each(f);
        Ok(None)
    }

    pub(crate) fn learn(&self, pairs: impl ExactSizeIterator<Item = (u64, u64)>) {
        self.write(|leaves| *leaves = pairs.collect());
    }

    pub(crate) fn for_each(&self, mut f: impl FnMut(u64, u64)) -> bool {
        self.read().0.into_iter().for_each(|(low, leaf)| f(low, leaf));
        true
    }

    pub(crate) fn restore(&self, top: ImageTop, source: ReadNode) -> bool {
        fn load_nodes(source: &ReadNode, node: u64, height: u64) -> Option<Leaves> {
            let entries = source(node, height, true)?;
            if height == 0 {
                return Some(entries);
            }
            let below = entries.into_iter().map(|(_, child)| load_nodes(source, child, height - 1));
            below.collect::<Option<Vec<_>>>().map(|below| below.concat())
        }
        let loaded = if top.nodes == 0 { Some(Leaves::new()) } else { load_nodes(&source, top.nodes - 1, top.height) };
        loaded.map(|loaded| self.write(|leaves| *leaves = loaded)).is_some()
    }

    pub(crate) fn is_lost(&self) -> bool {
        false
    }

    pub(crate) fn bytes(&self) -> u64 {
        0
    }
}

/// A leaf that the index named, and how to find out whether it still does.
pub struct Named<'i, S: Separators> {
    leaf: u64,
    index: &'i VolatileIndex<S>,
    step: u64,
}

impl<S: Separators> Clone for Named<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Separators> Copy for Named<'_, S> {}

impl<S: Separators> Named<'_, S> {
    pub(crate) fn leaf(&self) -> u64 {
        self.leaf
    }

    pub(crate) fn still(&self) -> bool {
        version::validate(&self.index.step, self.step)
    }
}
