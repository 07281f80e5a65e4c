//! How many entries there are, without a word that all threads write to.

use crate::shards::{SHARDS, Shard, shard};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// The number of entries of a chain, which each change adjusts under the lock of its node.
///
/// After a crash nobody knows the number. Then each node counts when it is first touched, before anything changes in it:
/// when all were touched, the sum is right.
#[derive(Default)]
pub(crate) struct Count {
    shards: [Shard<AtomicU64>; SHARDS],
    is_whole: AtomicBool,
}

impl Count {
    /// Counts so many more; under the lock of their node.
    #[inline]
    pub(crate) fn add(&self, entries: u64) {
        self.shards[shard()].0.fetch_add(entries, Ordering::Relaxed);
    }

    /// Counts one less; under the lock of its node.
    #[inline]
    pub(crate) fn sub_one(&self) {
        self.shards[shard()].0.fetch_sub(1, Ordering::Relaxed);
    }

    /// A node was touched for the first time, and has so many entries. (When all have counted, none is left to be touched.)
    pub(crate) fn touched(&self, entries: u64) {
        if !self.is_whole() {
            self.add(entries);
        }
    }

    /// Knows the number. When nobody changes the chain.
    pub(crate) fn set(&self, entries: u64) {
        self.shards.iter().for_each(|shard| shard.0.store(0, Ordering::Relaxed));
        self.add(entries);
        self.is_whole.store(true, Ordering::Release);
    }

    /// Forgets the number: each node counts when it is touched. Before any is.
    pub(crate) fn forget(&self) {
        self.set(0);
        self.is_whole.store(false, Ordering::Release);
    }

    /// Whether all nodes have counted.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    /// All nodes were touched.
    pub(crate) fn complete(&self) {
        self.is_whole.store(true, Ordering::Release);
    }

    /// The sum as it is.
    pub(crate) fn sum(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together() {
        let count = Count::default();
        count.set(5);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    (0..1000).for_each(|_| count.add(2));
                    (0..1000).for_each(|_| count.sub_one());
                });
            }
        });
        assert_eq!((count.sum(), count.is_whole()), (4005, true));
    }

    #[test]
    fn touches_count_after_a_crash_only() {
        let count = Count::default();
        count.set(7);
        count.touched(3);
        assert_eq!(count.sum(), 7);
        count.forget();
        assert!(!count.is_whole());
        count.touched(3);
        count.add(1);
        count.complete();
        assert_eq!((count.sum(), count.is_whole()), (4, true));
    }
}
