//! Which times live snapshots are of.

use super::clock::Clock;
use crate::arena::{SHARDS, home};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The times of live snapshots, in shards: threads that begin snapshots do not wait for each other.
pub(super) struct Live([Shard; SHARDS]);

#[repr(align(64))]
struct Shard(Mutex<Vec<u64>>);

impl Shard {
    fn times(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A live snapshot.
pub(super) struct Ticket<'l> {
    pub(super) time: u64,
    shard: &'l Shard,
}

impl Live {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Shard(Mutex::default())))
    }

    /// A snapshot of the time that the clock shows.
    ///
    /// The clock is read under the lock of the shard. So a thread that misses the snapshot in [`times`](Self::times)
    /// has looked before: the snapshot is of no earlier time than any that this thread knew then.
    pub(super) fn begin(&self, clock: &Clock) -> Ticket<'_> {
        let shard = &self.0[home()];
        let mut times = shard.times();
        let time = clock.now();
        times.push(time);
        Ticket { time, shard }
    }

    /// The times of all live snapshots, ascending.
    pub(super) fn times(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.0.iter().flat_map(|shard| shard.times().clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut times = self.shard.times();
        if let Some(i) = times.iter().position(|&time| time == self.time) {
            times.swap_remove(i);
        }
    }
}
