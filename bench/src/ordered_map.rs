//! What is measured: an ordered map.

use crate::out::Outcome;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

/// An ordered map from `u64` to `u64`.
///
/// Errors are kept for [`fault`](Self::fault): in a measurement there should be none, and checking each time would be
/// measured.
pub(crate) trait OrderedMap: Sync {
    /// Whether several threads may use it at the same time. If not, its owner uses it in one thread only.
    fn is_shared(&self) -> bool {
        true
    }

    fn insert(&self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    /// Stores a new value for a key that is there.
    fn update(&self, key: u64, value: u64);
    fn remove(&self, key: u64);

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

    /// Passes the entries from a key on to `each`, in order, until `each` returns `false`.
    fn scan(&self, from: u64, each: impl FnMut(u64, u64) -> bool)
    where
        Self: Sized;

    /// The values of several keys.
    #[inline]
    fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>>
    where
        Self: Sized,
    {
        keys.iter().map(|&key| self.get(key)).collect()
    }

    /// Inserts several new keys.
    #[inline]
    fn insert_batch(&self, entries: &[(u64, u64)])
    where
        Self: Sized,
    {
        for &(key, value) in entries {
            self.insert(key, value);
        }
    }

    /// Reads up to `limit` entries from a key on, at most 100; returns how many there were.
    #[inline]
    fn scan_some(&self, from: u64, limit: u64) -> u64
    where
        Self: Sized,
    {
        let mut seen = 0;
        self.scan(from, |_, value| {
            black_box(value);
            seen += 1;
            seen < limit
        });
        seen
    }

    /// [`scan_some`](Self::scan_some) with a limit of 100.
    #[inline]
    fn scan100(&self, from: u64) -> u64
    where
        Self: Sized,
    {
        self.scan_some(from, 100)
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
