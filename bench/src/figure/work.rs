//! The workloads: what is done to a tree, and by how many threads.

use crate::clock::{Tick, Work};
use crate::keys::{Pattern, Shuffled, Space};
use crate::numbers::{Keys, Random};
use crate::ordered_map::OrderedMap;
use crate::phases::{CHANGING, wrong_bits};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// One kind of operation, done once for each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Every key is new.
    Insert,
    /// New keys, from the smallest to the greatest.
    Ascending,
    /// Every key once, in a different order from the inserts; the same for the next two.
    Get,
    Update,
    Remove,
    /// Updates in this many percent of the cases, and searches in the others, of any keys.
    Mixed(u32),
    /// Updates of keys in one zone.
    Hot(Zone),
    /// New keys in one zone.
    Crowd(Zone),
}

/// A share of the keys, adjacent to each other, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    Least(u32),
    Greatest(u32),
}

impl Step {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Ascending => "insert-ascending",
            Self::Get => "get",
            Self::Update => "update",
            Self::Remove => "remove",
            Self::Mixed(_) => "mixed",
            Self::Hot(Zone::Least(_)) => "update-least",
            Self::Hot(Zone::Greatest(_)) => "update-greatest",
            Self::Crowd(_) => "insert-crowd",
        }
    }

    /// What distinguishes the step from others with the same name: a JSON key and a percentage.
    pub(crate) fn percent(self) -> Option<(&'static str, f64)> {
        match self {
            Self::Mixed(updates) => Some(("updates_percent", updates.into())),
            Self::Hot(zone) | Self::Crowd(zone) => Some(("locality_percent", f64::from(zone.thousandths()) / 10.0)),
            Self::Insert | Self::Ascending | Self::Get | Self::Update | Self::Remove => None,
        }
    }
}

impl Zone {
    fn thousandths(self) -> u32 {
        let (Self::Least(share) | Self::Greatest(share)) = self;
        share
    }

    /// The range of uniform keys in which such a share of them lies.
    fn range(self) -> RangeInclusive<u64> {
        let width = (u128::from(u64::MAX) * u128::from(self.thousandths()) / 1000) as u64;
        match self {
            Self::Least(_) => 0..=width,
            Self::Greatest(_) => u64::MAX - width..=u64::MAX,
        }
    }
}

/// A tree, its keys, and the threads that work on it. Keys have numbers; with `t` threads, thread `i` has the numbers
/// `i`, `i + t`, `i + 2 t`, ...
pub(crate) struct Crew<'t> {
    tree: &'t dyn OrderedMap,
    space: Space,
    n: u64,
    threads: u32,
    seed: u64,
    wrong: AtomicU64,
    watch: Option<&'t (dyn Fn() + Sync)>,
}

impl<'t> Crew<'t> {
    pub(crate) fn new(tree: &'t dyn OrderedMap, n: u64, threads: u32, seed: u64) -> Self {
        assert!(tree.is_shared() || threads == 1, "for one thread only");
        let space = Space::new(Pattern::Uniform, seed);
        Self { tree, space, n, threads, seed, wrong: AtomicU64::new(0), watch: None }
    }

    /// Calls `watch` after each operation.
    pub(crate) fn watched(self, watch: &'t (dyn Fn() + Sync)) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// The work of each thread in a step, which is number `part` of all steps. Everything that can be computed before
    /// is.
    pub(crate) fn work(&self, step: Step, part: usize) -> Vec<Work<'_>> {
        let zone = match step {
            Step::Hot(zone) => {
                let mut keys: Vec<u64> = (0..self.n).map(|i| self.space.key(i)).collect();
                keys.retain(|key| zone.range().contains(key));
                // With few keys, a small zone may have none.
                if keys.is_empty() { vec![self.space.key(0)] } else { keys }
            }
            _ => Vec::new(),
        };
        let of = |thread: u32| -> Work<'_> {
            let random =
                Random::new(!self.seed.wrapping_add(u64::from(thread) << 32).wrapping_add((part as u64) << 48));
            let zone = zone.clone();
            Box::new(move |tick| self.run(step, thread.into(), random, &zone, tick))
        };
        (0..self.threads).map(of).collect()
    }

    /// How many searches did not find what they should; it must be 0.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    fn run(&self, step: Step, thread: u64, mut random: Random, zone: &[u64], tick: &mut Tick) {
        let threads = u64::from(self.threads);
        let share = (self.n + threads - 1 - thread) / threads;
        let own = |i: u64| self.space.key(thread + i * threads);
        let mut order = Shuffled::new(share);
        let mut wrong = 0;
        let mut get = |key| wrong += u64::from(wrong_bits(self.tree.get(key), key) != 0);
        let insert = |key| self.tree.insert(key, Keys::value(key));
        let update = |key, i| self.tree.update(key, Keys::value(key) ^ (i & CHANGING));
        // The step is matched outside of the loops, because what is inside them is measured.
        let mut each = |operation: &mut dyn FnMut(u64)| {
            (0..share).for_each(|i| {
                tick.time(|| operation(i));
                if let Some(watch) = self.watch {
                    watch();
                }
            });
        };
        match step {
            Step::Insert => each(&mut |i| insert(own(i))),
            Step::Ascending => {
                let ascending = Space::new(Pattern::Ascending, self.seed);
                each(&mut |i| insert(ascending.key(thread + i * threads)));
            }
            Step::Get => each(&mut |_| get(own(order.next()))),
            Step::Update => each(&mut |i| update(own(order.next()), i)),
            Step::Remove => each(&mut |_| self.tree.remove(own(order.next()))),
            Step::Mixed(percent) => each(&mut |i| {
                let key = self.space.key(random.below(self.n));
                if random.below(100) < percent.into() { update(key, i) } else { get(key) }
            }),
            Step::Hot(_) => each(&mut |i| update(zone[random.below(zone.len() as u64) as usize], i)),
            Step::Crowd(zone) => {
                let (low, high) = zone.range().into_inner();
                // A few of these keys may be there already, but no figure that inserts them searches for them.
                each(&mut |_| insert(low + random.below((high - low).max(1))));
            }
        }
        self.wrong.fetch_add(wrong, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_their_share() {
        for (zone, share) in [(Zone::Least(5), 0.005), (Zone::Greatest(50), 0.05), (Zone::Greatest(1000), 1.0)] {
            let range = zone.range();
            let found = (range.end() - range.start()) as f64 / u64::MAX as f64;
            assert!((found - share).abs() < 1e-6, "{zone:?}");
            let space = Space::new(Pattern::Uniform, 3);
            let inside = (0..20_000).filter(|&i| range.contains(&space.key(i))).count();
            assert!((inside as f64 / 20_000.0 - share).abs() < 0.01, "{zone:?}");
        }
    }
}
