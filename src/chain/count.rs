//! How many entries there are, without a word that all threads write to.

use crate::shards::{SHARDS, Shard, shard};
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence, yield_now};

/// Looks after which a sum need not be exact any more.
const LOOKS: usize = if cfg!(loom) { 2 } else { 1000 };

/// What one shard counts. Both only grow.
#[derive(Default)]
struct Part {
    added: AtomicU64,
    removed: AtomicU64,
}

/// The number of entries of a chain, additions less removals, which each change adjusts under the lock of its node.
///
/// The shards are read one after the other, so a sum over them is of no instant. But both sums only grow. So additions less
/// removals, the removals read first, are not less than the number in between; with the additions read first, they are not
/// more. The number changes in steps of one (a batch is as good as its entries one after the other). So if a difference of
/// the first kind is not above one of the second kind, the tree had that number of entries between the two.
///
/// After a crash nobody knows the number. Then each node counts when it is first touched, before anything changes in it:
/// when all were touched, the sum is right.
#[derive(Default)]
pub(crate) struct Count {
    shards: [Shard<Part>; SHARDS],
    /// Odd while the number is set anew.
    era: AtomicU64,
    is_whole: AtomicBool,
}

impl Count {
    /// Counts so many more; under the lock of their node.
    #[inline]
    pub(crate) fn add(&self, entries: u64) {
        self.shards[shard()].0.added.fetch_add(entries, Ordering::Relaxed);
    }

    /// Counts one less; under the lock of its node.
    #[inline]
    pub(crate) fn sub_one(&self) {
        // Release: who sees the removal sees the addition.
        self.shards[shard()].0.removed.fetch_add(1, Ordering::Release);
    }

    /// A node was touched for the first time, and has so many entries. (When all have counted, none is left to be touched.)
    pub(crate) fn touched(&self, entries: u64) {
        if !self.is_whole() {
            self.add(entries);
        }
    }

    /// Knows the number. When nobody changes the chain.
    pub(crate) fn set(&self, entries: u64) {
        let era = self.era.load(Ordering::Relaxed);
        self.era.store(era + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for Shard(part) in &self.shards {
            part.added.store(0, Ordering::Relaxed);
            part.removed.store(0, Ordering::Relaxed);
        }
        self.add(entries);
        self.is_whole.store(true, Ordering::Release);
        self.era.store(era + 2, Ordering::Release);
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

    /// The number at some moment of the call; 0 only if it was 0 at one. If others count so fast that [`LOOKS`] looks do not
    /// tell, a number that is too great by at most what they added during the quietest look.
    pub(crate) fn sum(&self) -> u64 {
        loop {
            let era = self.era.load(Ordering::Acquire);
            if era.is_multiple_of(2) {
                let sum = self.sum_of_era();
                fence(Ordering::Acquire);
                if self.era.load(Ordering::Relaxed) == era {
                    return sum;
                }
            }
            yield_now();
        }
    }

    fn sum_of_era(&self) -> u64 {
        // Acquire: one sum is read after the other.
        let sum = |of: fn(&Part) -> &AtomicU64| -> u64 {
            self.shards.iter().map(|Shard(part)| of(part).load(Ordering::Acquire)).fold(0, u64::wrapping_add)
        };
        // Signed: of the additions of one moment and the removals of a later one, those may be more.
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

    /// Two threads pass an entry to and fro: now the one adds it and the other removes it, now the other way round.
    #[test]
    fn a_sum_is_a_number_that_there_was() {
        let (count, turn, done) = (Count::default(), AtomicU64::new(0), AtomicBool::new(false));
        let player = |number: u64| {
            let (count, turn, done) = (&count, &turn, &done);
            move || {
                while !done.load(Ordering::Relaxed) {
                    let now = turn.load(Ordering::Acquire);
                    // The turns of the four are: 0 adds, 1 removes, 1 adds, 0 removes.
                    if now.div_ceil(2) % 2 == number {
                        if now % 2 == 0 {
                            count.add(1)
                        } else {
                            count.sub_one()
                        }
                        turn.store(now + 1, Ordering::Release);
                    }
                    std::hint::spin_loop();
                }
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(player(0));
            threads.spawn(player(1));
            let stop = std::time::Instant::now() + std::time::Duration::from_millis(300);
            let mut sums = std::collections::BTreeSet::new();
            while std::time::Instant::now() < stop {
                sums.insert(count.sum());
            }
            done.store(true, Ordering::Relaxed);
            assert!(sums.iter().all(|&sum| sum < 2), "{sums:?}");
        });
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
