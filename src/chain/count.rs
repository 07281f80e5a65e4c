//! The number of entries, kept without a word that all threads write to.

use crate::sync::delay::delay;
use crate::sync::shards::{SHARDS, Sharded, own_shard, shard};
use crate::sync::{AtomicBool, AtomicU64, Backoff, Ordering, fence};

/// After this many looks, a sum need no longer be exact.
const LOOKS: usize = if cfg!(bristlecone_loom) { 2 } else { 1000 };

/// The counters of one shard.
#[derive(Default)]
struct ShardCounts {
    added: GrowingCount,
    removed: GrowingCount,
}

/// A number that only grows: the sum of two.
#[derive(Default)]
struct GrowingCount {
    /// Only the owner of the shard adds to it.
    own: AtomicU64,
    /// All threads add to it.
    common: AtomicU64,
}

impl GrowingCount {
    /// Adds to the owner's part. Only the owner of the shard calls this. A thread that sees what `order` publishes sees
    /// the addition.
    #[inline(always)]
    fn add_to_own(&self, more: u64, order: Ordering) {
        // A load and a store: nobody else stores, but for `set`, while nobody may add.
        self.own.store(self.own.load(Ordering::Relaxed).wrapping_add(more), order);
    }

    /// Adds to the common part, as any thread may. A thread that sees what `order` publishes sees the addition.
    fn add(&self, more: u64, order: Ordering) {
        self.common.fetch_add(more, order);
    }

    fn get(&self) -> u64 {
        // Acquire: sums must be read one after the other.
        self.own.load(Ordering::Acquire).wrapping_add(self.common.load(Ordering::Acquire))
    }

    fn clear(&self) {
        self.own.store(0, Ordering::Relaxed);
        self.common.store(0, Ordering::Relaxed);
    }
}

/// The number of entries of a chain: additions minus removals. Each change adjusts it under the lock of its node.
///
/// The shards are read one after the other, so a sum over them does not belong to a single instant. But both sums only
/// grow. If the removals are read first, additions minus removals is an upper bound of the number at any moment between
/// the two reads. If the additions are read first, it is a lower bound. The number changes in steps of one (a batch
/// counts like its entries one after the other). So if an upper bound is not above a lower bound, the tree had that
/// number of entries at some moment between the two.
///
/// After a crash the number is unknown. Each node then adds its entries when it is first touched, before anything
/// changes in it. Once all nodes were touched, the sum is right.
#[derive(Default)]
pub(crate) struct Count {
    shards: Sharded<ShardCounts>,
    /// Odd while the number is being set.
    era: AtomicU64,
    is_whole: AtomicBool,
}

impl Count {
    /// Bytes of memory that the counters take.
    pub(crate) fn memory(&self) -> u64 {
        self.shards.memory()
    }

    /// Adds `entries` to the number. The caller holds the lock of their node.
    #[inline]
    pub(crate) fn add(&self, entries: u64) {
        self.add_to(|part| &part.added, entries, Ordering::Relaxed);
    }

    /// Subtracts one. The caller holds the lock of the entry's node.
    #[inline]
    pub(crate) fn sub_one(&self) {
        self.sub(1);
    }

    /// Subtracts `entries` from the number. The caller holds the lock of their node.
    #[inline]
    pub(crate) fn sub(&self, entries: u64) {
        // Release: a thread that sees the removal also sees the addition.
        self.add_to(|part| &part.removed, entries, Ordering::Release);
    }

    #[inline(always)]
    fn add_to(&self, counter: fn(&ShardCounts) -> &GrowingCount, more: u64, order: Ordering) {
        match own_shard() {
            Some(own) => counter(self.shards.get(own)).add_to_own(more, order),
            None => counter(self.shards.get(shard())).add(more, order),
        }
    }

    /// Adds the entries of a node that was touched for the first time. (Once the count is whole, every node has been
    /// touched.)
    pub(crate) fn touched(&self, entries: u64) {
        if !self.is_whole() {
            self.add(entries);
        }
    }

    /// Sets the number. Nobody may change the chain meanwhile.
    pub(crate) fn set(&self, entries: u64) {
        let era = self.era.load(Ordering::Relaxed);
        self.era.store(era + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for part in self.shards.iter() {
            part.added.clear();
            part.removed.clear();
        }
        self.add(entries);
        self.is_whole.store(true, Ordering::Release);
        self.era.store(era + 2, Ordering::Release);
    }

    /// Forgets the number, so that each node counts when it is first touched. Must be called before any node is
    /// touched.
    pub(crate) fn forget(&self) {
        self.set(0);
        self.is_whole.store(false, Ordering::Release);
    }

    /// Whether all nodes have counted.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    /// Notes that all nodes were touched.
    pub(crate) fn complete(&self) {
        self.is_whole.store(true, Ordering::Release);
    }

    /// The number at some moment during the call. It is 0 only if the number was 0 at some moment. If other threads
    /// count so fast that [`LOOKS`] looks do not settle it, the result is too high by at most what they added during
    /// the quietest look.
    pub(crate) fn sum(&self) -> u64 {
        let backoff = Backoff::new();
        loop {
            let era = self.era.load(Ordering::Acquire);
            if era.is_multiple_of(2) {
                let sum = self.sum_of_era(delay);
                fence(Ordering::Acquire);
                if self.era.load(Ordering::Relaxed) == era {
                    return sum;
                }
            }
            backoff.snooze();
        }
    }

    /// `between` is called before each look at a shard.
    fn sum_of_era(&self, between: impl Fn()) -> u64 {
        let sum = |of: fn(&ShardCounts) -> &GrowingCount| -> u64 {
            let look = |shard| {
                between();
                self.shards.made(shard).map_or(0, |part| of(part).get())
            };
            (0..SHARDS).map(look).fold(0, u64::wrapping_add)
        };
        // Signed: removals that are read later than the additions may exceed them.
        let (mut most, mut least) = (i64::MAX, i64::MIN);
        let mut removed = sum(|part| &part.removed);
        for _ in 0..LOOKS {
            let added = sum(|part| &part.added);
            most = most.min(added.wrapping_sub(removed) as i64);
            removed = sum(|part| &part.removed);
            least = least.max(added.wrapping_sub(removed) as i64);
            if most <= least {
                break;
            }
        }
        most as u64
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

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

    /// While the shards are read, an entry is added in one shard and removed in another, before each possible look at a
    /// shard.
    #[test]
    fn a_sum_is_a_number_that_there_was() {
        for (of, (to, from)) in (0..2).flat_map(|of| (0..SHARDS * SHARDS).map(move |i| (of, (i / SHARDS, i % SHARDS))))
        {
            for at in 0..3 * SHARDS {
                let (count, looks) = (Count::default(), Cell::new(0));
                count.set(of);
                let sum = count.sum_of_era(|| {
                    if looks.replace(looks.get() + 1) == at {
                        count.shards.get(to).added.add(1, Ordering::Relaxed);
                        count.shards.get(from).removed.add(1, Ordering::Relaxed);
                    }
                });
                assert!([of, of + 1].contains(&sum), "{sum} of {of}, from {from} to {to} before look {at}");
            }
        }
    }

    /// Before every look at a shard, an entry is added in one shard and removed in another. No exact number can be
    /// told, but no sum wraps.
    #[test]
    fn a_sum_never_wraps() {
        for (to, from) in (0..SHARDS * SHARDS).map(|i| (i / SHARDS, i % SHARDS)) {
            let count = Count::default();
            count.set(1);
            let sum = count.sum_of_era(|| {
                count.shards.get(to).added.add(1, Ordering::Relaxed);
                count.shards.get(from).removed.add(1, Ordering::Relaxed);
            });
            assert!((1..=1 + 2 * SHARDS as u64).contains(&sum), "{sum}, from {from} to {to}");
        }
    }

    #[test]
    fn a_sum_over_an_era_is_of_one_of_them() {
        let (count, done) = (Count::default(), AtomicBool::new(false));
        count.set(5);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    count.set(1000);
                    count.set(5);
                }
            });
            assert!((0..2000).all(|_| [5, 1000].contains(&count.sum())));
            done.store(true, Ordering::Relaxed);
        });
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
