//! Histograms of times: recorded by any thread without a lock and without memory of its own, and read at any time.
//!
//! A bucket is a quarter of a power of two of nanoseconds. So a time is known to a quarter, and 110 buckets reach from
//! a microsecond to two minutes.

// Not those of a model checker: no thread decides anything by them.
use core::sync::atomic::{AtomicU64, Ordering};
use std::array;
use std::fmt;
use std::time::Duration;

/// The first bucket has all times below this power of two of nanoseconds, and the last one all from the other one on.
const POWERS: [u32; 2] = [10, 37];
/// A power of two has so many buckets, as a power of two.
const PARTS: u32 = 2;
const BUCKETS: usize = 2 + ((POWERS[1] - POWERS[0]) << PARTS) as usize;

/// What times are recorded in.
#[derive(Debug)]
pub(crate) struct Recorder {
    buckets: [AtomicU64; BUCKETS],
    /// In nanoseconds, as `max`.
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { buckets: array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }
}

impl Recorder {
    pub(crate) fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
        self.max.fetch_max(nanos, Ordering::Relaxed);
        // A reader that counts it knows of its maximum.
        self.buckets[bucket(nanos)].fetch_add(1, Ordering::Release);
    }

    /// How many times were recorded.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn read(&self) -> Histogram {
        let buckets = array::from_fn(|i| self.buckets[i].load(Ordering::Acquire));
        let [sum, max] = [&self.sum, &self.max].map(|nanos| Duration::from_nanos(nanos.load(Ordering::Relaxed)));
        Histogram { buckets, sum, max }
    }
}

/// The bucket of a time.
fn bucket(nanos: u64) -> usize {
    let power = nanos.checked_ilog2().unwrap_or(0);
    if power < POWERS[0] {
        return 0;
    }
    let part = (nanos >> (power - PARTS)) as usize & ((1 << PARTS) - 1);
    (1 + ((power - POWERS[0]) << PARTS) as usize + part).min(BUCKETS - 1)
}

/// The first time behind a bucket; there is none behind the last one.
fn end(bucket: usize) -> u64 {
    let (power, part) = (POWERS[0] + (bucket as u32 >> PARTS), bucket as u64 & ((1 << PARTS) - 1));
    if bucket == BUCKETS - 1 { u64::MAX } else { ((1 << PARTS) + part) << (power - PARTS) }
}

/// How long something took, each time since a pool was opened: a copy of the numbers, which does not change any more.
/// See [`Pool::metrics`](crate::Pool::metrics).
///
/// A time is known to a quarter: from 1 µs to 2 minutes, a [quantile](Self::quantile) is at least what it is exactly,
/// and at most 1.25 times as much. Count, sum, mean and maximum are exact. While other threads record, the numbers are
/// of moments that are close to each other.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use bristlecone::{Journal, Pool};
///
/// let options = Pool::options().capacity(16 << 20);
/// # if cfg!(target_os = "linux") {
/// let pool = options.journal(Journal::Each).open(dir.path().join("a.pool"))?;
/// pool.tree("t")?.insert(1, 2)?;
/// let commits = pool.metrics().commits;
/// assert!(commits.count() > 0 && commits.quantile(0.99) <= commits.max());
/// // As systems that collect metrics want them: how many took at most so long.
/// let mut so_far = 0;
/// for (end, count) in commits.buckets() {
///     so_far += count;
///     # if count > 0 {
///     println!("{end:?}: {so_far}");
///     # }
/// }
/// assert_eq!(so_far, commits.count());
/// # }
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    sum: Duration,
    max: Duration,
}

impl Histogram {
    /// How many times were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All times together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The mean; zero if there is none.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos((self.sum.as_nanos() / u128::from(self.count().max(1))) as u64)
    }

    /// The longest time; zero if there is none.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// A time that this part of all times do not exceed: 0.5 for the median, 0.99 for what one in a hundred exceeds. It
    /// is at most 1.25 times as long as the least one that is so, and never longer than the longest one. Zero if there
    /// is none; below 0 and above 1 it is as at 0 and 1.
    pub fn quantile(&self, part: f64) -> Duration {
        let count = self.count();
        // At least one of them.
        let rank = ((part * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut so_far = 0;
        let found = self.buckets().find(|&(_, count)| {
            so_far += count;
            so_far >= rank
        });
        found.map_or(Duration::ZERO, |(end, _)| end.min(self.max))
    }

    /// Where each bucket ends, and how many times are in it, from the shortest on. The ends are those of every
    /// histogram; the last one is [`Duration::MAX`].
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let last = |bucket| if bucket == BUCKETS - 1 { Duration::MAX } else { Duration::from_nanos(end(bucket) - 1) };
        (0..).map(last).zip(self.buckets)
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Histogram");
        shown.field("count", &self.count()).field("mean", &self.mean()).field("p50", &self.quantile(0.5));
        shown.field("p99", &self.quantile(0.99)).field("max", &self.max).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!((bucket(0), bucket(1023), bucket(1024), end(0)), (0, 0, 1, 1024));
        for i in 0..BUCKETS - 1 {
            assert_eq!((bucket(end(i) - 1), bucket(end(i))), (i, i + 1));
            // A quarter more at most.
            assert!(i == 0 || (end(i) - end(i - 1)) * 4 <= end(i - 1), "bucket {i}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!(end(BUCKETS - 2) > 100_000_000_000);
    }

    #[test]
    fn nothing_recorded_is_zero() {
        let none = Recorder::default().read();
        assert_eq!((none.count(), none.mean(), none.max()), (0, Duration::ZERO, Duration::ZERO));
        assert_eq!(none.quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn what_threads_record_at_once_is_all_there() {
        let recorder = Recorder::default();
        let each = if cfg!(miri) { 20 } else { 10_000 };
        thread::scope(|scope| {
            for thread in 1..=4u64 {
                let recorder = &recorder;
                scope.spawn(move || (0..each).for_each(|_| recorder.record(Duration::from_micros(thread))));
            }
            let now = recorder.read();
            assert!(now.quantile(1.0) <= now.max() && now.count() <= 4 * each);
        });
        let all = recorder.read();
        assert_eq!((all.count(), recorder.count()), (4 * each, 4 * each));
        assert_eq!((all.sum(), all.max()), (Duration::from_micros(10 * each), Duration::from_micros(4)));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Against the times themselves, in order.
        #[test]
        fn quantiles_are_those_of_the_times_to_a_quarter(
            powers in prop::collection::vec((0..37u32, any::<u64>()), 1..200),
            part in 0.0..=1.0f64,
        ) {
            let mut times: Vec<u64> = powers.iter().map(|&(power, bits)| (1 << power) | (bits & ((1 << power) - 1))).collect();
            let recorder = Recorder::default();
            times.iter().for_each(|&nanos| recorder.record(Duration::from_nanos(nanos)));
            times.sort_unstable();
            let (found, count) = (recorder.read(), times.len());
            let sum = times.iter().sum::<u64>();
            prop_assert_eq!((found.count(), found.sum()), (count as u64, Duration::from_nanos(sum)));
            prop_assert_eq!(found.max(), Duration::from_nanos(times[count - 1]));
            prop_assert_eq!(found.mean(), Duration::from_nanos(sum / count as u64));
            for part in [part, 0.0, 0.5, 0.99, 1.0] {
                let rank = ((part * count as f64).ceil() as usize).clamp(1, count);
                let (exact, quantile) = (times[rank - 1], found.quantile(part).as_nanos() as u64);
                prop_assert!(exact <= quantile && quantile <= (exact + exact / 4).max(1023), "{exact} {quantile}");
            }
        }
    }
}
