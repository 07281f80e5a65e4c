//! The volatile index as the models of trees use it: each access is one step. The [models](super::volatile) of the real
//! index show that its accesses appear to be one step, so the models of trees need not explore what happens inside it.

use super::volatile::{GROUP, RUN, Source, Top};
use crate::sync::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

/// Separators and their leaves.
pub(crate) struct VolatileIndex {
    leaves: Mutex<BTreeMap<u64, u64>>,
    /// What loom sees of an access: each one reads or writes this word.
    step: AtomicU64,
}

super::in_memory! { VolatileIndex }

impl VolatileIndex {
    pub(crate) fn new(_most: u64) -> io::Result<Self> {
        Ok(Self { leaves: Mutex::default(), step: AtomicU64::new(0) })
    }

    /// Acquire: a reader that sees a posted leaf also sees everything that was done before it was posted.
    fn read<R>(&self, read: impl FnOnce(&BTreeMap<u64, u64>) -> R) -> R {
        self.step.fetch_add(0, Ordering::Acquire);
        read(&self.leaves.lock().unwrap())
    }

    fn write<R>(&self, write: impl FnOnce(&mut BTreeMap<u64, u64>) -> R) -> R {
        self.step.fetch_add(1, Ordering::AcqRel);
        write(&mut self.leaves.lock().unwrap())
    }

    pub(crate) fn floor(&self, key: u64) -> Option<u64> {
        self.read(|leaves| leaves.range(..=key).next_back().map(|(_, &leaf)| leaf))
    }

    pub(crate) fn floor_at_once(&self, key: u64) -> Option<u64> {
        self.floor(key)
    }

    pub(crate) fn floors_at_once(&self, keys: &[u64]) -> [Option<u64>; GROUP] {
        std::array::from_fn(|i| keys.get(i).and_then(|&key| self.floor(key)))
    }

    pub(crate) fn run_at_once(&self, key: u64) -> Option<[u64; RUN]> {
        self.read(|leaves| {
            let (&low, _) = leaves.range(..=key).next_back()?;
            let mut run = leaves.range(low..).map(|(_, &leaf)| leaf);
            Some(std::array::from_fn(|_| run.next().unwrap_or(0)))
        })
    }

    pub(crate) fn post(&self, low: u64, leaf: u64) {
        self.write(|leaves| leaves.insert(low, leaf));
    }

    pub(crate) fn withdraw(&self, low: u64) -> Option<u64> {
        self.write(|leaves| leaves.remove(&low))
    }

    pub(crate) fn learn(&self, pairs: impl ExactSizeIterator<Item = (u64, u64)>) {
        self.write(|leaves| *leaves = pairs.collect());
    }

    pub(crate) fn for_each(&self, mut f: impl FnMut(u64, u64)) -> bool {
        self.read(|leaves| leaves.iter().for_each(|(&low, &leaf)| f(low, leaf)));
        true
    }

    pub(crate) fn restore(&self, top: Top, source: Source) -> bool {
        fn load_nodes(source: &Source, node: u64, height: u64) -> Option<BTreeMap<u64, u64>> {
            let entries = source(node, height)?;
            if height == 0 {
                return Some(entries.into_iter().collect());
            }
            let below = entries.into_iter().map(|(_, child)| load_nodes(source, child, height - 1));
            below.collect::<Option<Vec<_>>>().map(|below| below.into_iter().flatten().collect())
        }
        let loaded =
            if top.nodes == 0 { Some(BTreeMap::new()) } else { load_nodes(&source, top.nodes - 1, top.height) };
        loaded.map(|loaded| self.write(|leaves| *leaves = loaded)).is_some()
    }

    pub(crate) fn is_lost(&self) -> bool {
        false
    }

    pub(crate) fn bytes(&self) -> u64 {
        0
    }
}
