//! Counts what a medium is asked to do: the part of a measurement that has no noise.

use super::{Facts, Layer, Medium, Step, lines};
use crate::sync::{AtomicU64, Ordering};

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
    lines: AtomicU64,
    fences: AtomicU64,
    orders: AtomicU64,
    bytes: AtomicU64,
}

impl<M: Medium> Counted<M> {
    /// Wraps a medium; the counts begin at zero.
    pub fn new(medium: M) -> Self {
        let zero = || AtomicU64::new(0);
        Self { medium, lines: zero(), fences: zero(), orders: zero(), bytes: zero() }
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            lines: self.lines.load(Ordering::Relaxed),
            fences: self.fences.load(Ordering::Relaxed),
            orders: self.orders.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
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
        add(&self.bytes, 8);
        self.medium.store(at, value);
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        add(&self.bytes, 16);
        self.medium.store_pair(at, pair);
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        add(&self.bytes, 16);
        self.medium.swap_pair(at, pair);
    }

    #[inline]
    fn order(&self, step: Step) {
        add(&self.orders, 1);
        self.medium.order(step);
    }

    #[inline]
    fn flush(&self, at: u64, len: u64, step: Step) {
        add(&self.lines, lines(at, len).count() as u64);
        self.medium.flush(at, len, step);
    }

    #[inline]
    fn fence(&self, step: Step) {
        add(&self.fences, 1);
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
