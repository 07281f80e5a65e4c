//! Counts what a medium is asked to do: the part of a measurement that has no noise.

use super::{Facts, Layer, Medium, Step, lines};
use crate::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// How often each operation of a medium was called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines flushed.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
    /// Order points.
    pub orders: u64,
    /// Bytes stored.
    pub bytes: u64,
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            lines: self.lines - earlier.lines,
            fences: self.fences - earlier.fences,
            orders: self.orders - earlier.orders,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// A medium that counts, and passes everything on to the medium below.
pub struct Counted<M> {
    medium: M,
    counter: Counter,
}

/// The counts of a [`Counted`] medium, also when that is a part of another medium, or of a pool.
#[derive(Clone)]
pub struct Counter(Arc<Counters>);

struct Counters {
    lines: AtomicU64,
    fences: AtomicU64,
    orders: AtomicU64,
    bytes: AtomicU64,
}

impl<M: Medium> Counted<M> {
    /// Wraps a medium; the counts begin at zero.
    pub fn new(medium: M) -> Self {
        let zero = || AtomicU64::new(0);
        let counters = Counters { lines: zero(), fences: zero(), orders: zero(), bytes: zero() };
        Self { medium, counter: Counter(Arc::new(counters)) }
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counter.counts()
    }

    /// A handle to the counts, for a medium that is about to become a part of another one, or of a pool.
    pub fn counter(&self) -> Counter {
        self.counter.clone()
    }

    fn add(&self, counter: fn(&Counters) -> &AtomicU64, n: u64) {
        counter(&self.counter.0).fetch_add(n, Ordering::Relaxed);
    }
}

impl Counter {
    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let Counters { lines, fences, orders, bytes } = &*self.0;
        let [lines, fences, orders, bytes] = [lines, fences, orders, bytes].map(|n| n.load(Ordering::Relaxed));
        Counts { lines, fences, orders, bytes }
    }
}

impl<M: Medium> Layer for Counted<M> {
    type Below = M;

    #[inline]
    fn below(&self) -> &M {
        &self.medium
    }

    /// Counts what the medium below would have to do if it had to write lines back.
    fn facts(&self) -> Facts<'_> {
        Facts { writes_back: true, ..self.medium.facts() }
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        self.add(|counters| &counters.bytes, 8);
        self.medium.store(at, value);
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        self.add(|counters| &counters.bytes, 16);
        self.medium.store_pair(at, pair);
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        self.add(|counters| &counters.bytes, 16);
        self.medium.swap_pair(at, pair);
    }

    #[inline]
    fn order(&self, step: Step) {
        self.add(|counters| &counters.orders, 1);
        self.medium.order(step);
    }

    #[inline]
    fn flush(&self, at: u64, len: u64, step: Step) {
        self.add(|counters| &counters.lines, lines(at, len).count() as u64);
        self.medium.flush(at, len, step);
    }

    #[inline]
    fn fence(&self, step: Step) {
        self.add(|counters| &counters.fences, 1);
        self.medium.fence(step);
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::medium::{Dram, Slowed};
    use std::time::Duration;

    #[test]
    fn what_is_counted_costs_what_it_costs_below() {
        let m = Counted::new(Slowed::new(Dram::zeroed(4096), Duration::from_micros(20)));
        let costs = Medium::costs(&m);
        assert!(costs.round >= 20_000, "{costs:?}");
        assert_eq!(m.counts(), Counts::default());
    }
}
