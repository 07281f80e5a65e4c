//! What is measured: an ordered map.

use crate::entry::{Entry, Words};
use crate::out::Outcome;
use bristlecone::medium::Medium;
use bristlecone::{Pool, Report};
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

/// The name of a tree or map of this crate in its pool, which has nothing else.
pub(crate) const NAME: &str = "bench";

/// An ordered map of entries of one kind.
///
/// A value that is looked up is read: what is returned is the word that it was made of ([`Entry::read`]).
///
/// Errors are kept for [`fault`](Self::fault): in a measurement there should be none, and checking each time would be
/// measured.
pub(crate) trait OrderedMap<E: Entry = Words>: Sync {
    /// Whether several threads may use it at the same time. If not, its owner uses it in one thread only.
    fn is_shared(&self) -> bool {
        true
    }

    fn insert(&self, key: E::Key<'_>, value: E::Value<'_>);
    fn get(&self, key: E::Key<'_>) -> Option<u64>;
    /// Stores a new value for a key that is there.
    fn update(&self, key: E::Key<'_>, value: E::Value<'_>);
    fn remove(&self, key: E::Key<'_>);

    /// Inserts new keys, and returns when they are on the disk. What is in memory only has nothing to wait for.
    fn insert_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) {
        entries.iter().for_each(|&(key, value)| self.insert(key, value));
    }

    /// The first error that occurred.
    fn fault(&self) -> Outcome<()> {
        Ok(())
    }

    /// Closes it orderly, so that what should outlive the process does.
    fn close(self: Box<Self>) -> Outcome<()> {
        self.fault()
    }

    /// How often it has rebuilt its inner nodes so far, and how long that took; `None` if it never does.
    fn rebuilds(&self) -> Option<(u64, Duration)> {
        None
    }

    /// What it takes, if it knows that itself.
    fn space(&self) -> Outcome<Option<Space>> {
        Ok(None)
    }

    /// Passes the entries from a key on to `each`, in order, until `each` returns `false`.
    fn scan(&self, from: E::Key<'_>, each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool)
    where
        Self: Sized;

    /// The values of several keys.
    #[inline]
    fn multi_get(&self, keys: &[E::Key<'_>]) -> Vec<Option<u64>>
    where
        Self: Sized,
    {
        keys.iter().map(|&key| self.get(key)).collect()
    }

    /// Inserts several new keys.
    #[inline]
    fn insert_batch(&self, entries: &[(E::Key<'_>, E::Value<'_>)])
    where
        Self: Sized,
    {
        for &(key, value) in entries {
            self.insert(key, value);
        }
    }

    /// Reads up to `limit` entries from a key on, at most 100; returns how many there were.
    #[inline]
    fn scan_some(&self, from: E::Key<'_>, limit: u64) -> u64
    where
        Self: Sized,
    {
        let mut seen = 0;
        self.scan(from, |key, value| {
            black_box(E::read_entry(key, value));
            seen += 1;
            seen < limit
        });
        seen
    }

    /// [`scan_some`](Self::scan_some) with a limit of 100.
    #[inline]
    fn scan100(&self, from: E::Key<'_>) -> u64
    where
        Self: Sized,
    {
        self.scan_some(from, 100)
    }
}

/// Bytes that a tree of this crate takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    /// Bytes of its pool.
    pub(crate) pool: u64,
    /// Bytes of memory, for the shadows of leaves and the index.
    pub(crate) memory: u64,
}

impl Space {
    /// What the only tree of a pool takes, when a check of it has found this.
    pub(crate) fn of<M: Medium>(pool: &Pool<M>, found: &Report) -> Outcome<Self> {
        Ok(Self { pool: pool.trees()?.iter().map(|tree| tree.bytes).sum(), memory: found.memory })
    }
}

/// The first error of a subject.
#[derive(Debug, Default)]
pub(crate) struct Fault(OnceLock<String>);

impl Fault {
    /// Returns the value of a result, and keeps its error.
    #[inline]
    pub(crate) fn note<T, E: ToString>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.set(&error)).ok()
    }

    #[cold]
    fn set(&self, error: &impl ToString) {
        let _ = self.0.set(error.to_string());
    }

    pub(crate) fn get(&self) -> Outcome<()> {
        self.0.get().map_or(Ok(()), |error| Err(error.clone().into()))
    }
}
