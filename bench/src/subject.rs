//! What is measured, behind one trait: the trees of this crate, and std's map.

use crate::out::Outcome;
use bristlecone::medium::Medium;
use bristlecone::{Error, Index, Node, PTree};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

/// An ordered map from `u64` to `u64`.
pub(crate) trait Subject: Sync {
    /// Whether several threads may use it at the same time. If not, whoever has it uses it in one thread only.
    const SHARED: bool = true;

    fn insert(&self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    /// A new value for a key that is there.
    fn update(&self, key: u64, value: u64);
    fn remove(&self, key: u64);
    /// Gives the entries from a key on to `each`, in order, until it says `false`.
    fn scan(&self, from: u64, each: impl FnMut(u64, u64) -> bool);
    /// The first error that came up.
    fn fault(self) -> Outcome<()>;

    /// The values of several keys.
    #[inline]
    fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>> {
        keys.iter().map(|&key| self.get(key)).collect()
    }

    /// Inserts several new keys.
    #[inline]
    fn insert_batch(&self, entries: &[(u64, u64)]) {
        for &(key, value) in entries {
            self.insert(key, value);
        }
    }

    /// Looks at up to `limit` entries from a key on, 100 at the most; returns how many there were.
    #[inline]
    fn scan_some(&self, from: u64, limit: u64) -> u64 {
        let mut seen = 0;
        self.scan(from, |_, value| {
            black_box(value);
            seen += 1;
            seen < limit
        });
        seen
    }

    /// [`scan_some`](Self::scan_some) of 100.
    #[inline]
    fn scan100(&self, from: u64) -> u64 {
        self.scan_some(from, 100)
    }
}

/// The first error. In a measurement there is none, and to look each time would be measured.
#[derive(Debug, Default)]
pub(crate) struct Fault(OnceLock<String>);

impl Fault {
    /// The value of a result; keeps its error.
    #[inline]
    pub(crate) fn note<T, E: ToString>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.set(&error)).ok()
    }

    #[cold]
    fn set(&self, error: &impl ToString) {
        let _ = self.0.set(error.to_string());
    }

    pub(crate) fn end(self) -> Outcome<()> {
        self.0.into_inner().map_or(Ok(()), |error| Err(error.into()))
    }
}

/// A tree of this crate.
pub(crate) struct Tree<N: Node, I: Index, M: Medium> {
    tree: PTree<N, I, M>,
    fault: Fault,
}

impl<N: Node, I: Index, M: Medium> Tree<N, I, M> {
    pub(crate) fn new(tree: PTree<N, I, M>) -> Self {
        Self { tree, fault: Fault::default() }
    }

    /// How many entries there are.
    pub(crate) fn entries(&self) -> u64 {
        self.tree.len()
    }

    /// What [`PTree::index_rebuilds`] says.
    pub(crate) fn index_rebuilds(&self) -> (u64, Duration) {
        self.tree.index_rebuilds()
    }

    #[inline]
    fn note(&self, result: Result<Option<u64>, Error>) {
        self.fault.note(result);
    }
}

impl<N: Node, I: Index, M: Medium> Subject for Tree<N, I, M> {
    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.note(self.tree.insert(key, value));
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.tree.get(key)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        self.note(self.tree.update(key, value));
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.note(self.tree.remove(key));
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

    fn fault(self) -> Outcome<()> {
        self.fault.end()?;
        self.tree.fault().map_or(Ok(()), |error| Err(error.into()))
    }
}

/// A map that changes through `&mut` only, in the hands of one thread: where the others take a lock, it costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Alone<T>(UnsafeCell<T>);

// SAFETY: it is used in one thread at a time, because a `Subject` made of it says that it is not `SHARED`, and `phases::run`
// starts no second thread with such a subject.
unsafe impl<T: Send> Sync for Alone<T> {}

impl<T> Alone<T> {
    #[inline]
    pub(crate) fn read(&self) -> &T {
        // SAFETY: nobody else has a reference, as in `write`; those of `read` may be many.
        unsafe { &*self.0.get() }
    }

    /// Changes the map. `change` must not reach the map but through its argument.
    #[inline]
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: one thread uses the map, and the subjects below neither keep a reference from `read` across a call, nor
        // come back here from within `change`.
        change(unsafe { &mut *self.0.get() })
    }
}

/// std's map.
#[derive(Debug, Default)]
pub(crate) struct Ordinary(Alone<BTreeMap<u64, u64>>);

impl Subject for Ordinary {
    const SHARED: bool = false;

    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.0.write(|map| map.insert(key, value));
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.read().get(&key).copied()
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        self.0.write(|map| {
            if let Some(old) = map.get_mut(&key) {
                *old = value;
            }
        });
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.0.write(|map| map.remove(&key));
    }

    #[inline]
    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) {
        for (&key, &value) in self.0.read().range(from..) {
            if !each(key, value) {
                break;
            }
        }
    }

    fn fault(self) -> Outcome<()> {
        Ok(())
    }
}
