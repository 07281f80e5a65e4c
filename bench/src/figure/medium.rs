//! The medium of all figures: a mapped file. Switches at run time say what else a store and a flush do.
//!
//! There is one type for all figures, because each further type of medium compiles every tree once more. Loads go
//! straight to the mapping, so a search costs the same as without switches. A store and a flush cost one more branch,
//! for every contestant.

use bristlecone::medium::{Costs, Counts, Domain, Hint, LINE, Layer, Mapped, Medium, Slowed, Step};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What is done in addition to storing and loading.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Switches {
    /// Write lines back with the instructions for persistent memory; otherwise flush and fence do nothing.
    pub(crate) durable: bool,
    /// Count. Not used while it is timed.
    pub(crate) count: bool,
    /// Wait so long for each line that is flushed, or would be, after the fence that follows.
    pub(crate) slow: Duration,
    /// Request no memory before it is read.
    pub(crate) no_prefetch: bool,
}

/// See the [module](self).
pub(crate) struct Switched {
    slowed: Slowed<Mapped>,
    switches: Switches,
    costs: OnceLock<Costs>,
    tallies: Arc<Tallies>,
}

/// What a medium has counted, for the code that made it: a pool shows no more of its medium than any medium has.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    lines: AtomicU64,
    batched: AtomicU64,
    fences: AtomicU64,
    orders: AtomicU64,
    bytes: AtomicU64,
    requested: AtomicU64,
    sorting: AtomicU64,
}

/// The steps that write entries of a node that is there: those that are shifted, and logs of them.
const SORTING: &[&str] = &["Shift", "Log", "VersionedStart", "VersionedEntry", "VersionedBegin", "VersionedEnd"];

impl Tallies {
    /// The bytes that flushes named. A line is written back for each of them all the same.
    pub(crate) fn requested(&self) -> u64 {
        self.requested.load(Ordering::Relaxed)
    }

    /// How many of the lines were those of entries that were shifted, or of a log of them.
    pub(crate) fn sorting(&self) -> u64 {
        self.sorting.load(Ordering::Relaxed)
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            lines: self.lines.load(Ordering::Relaxed),
            fences: self.fences.load(Ordering::Relaxed),
            orders: self.orders.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// How many of the lines were flushed together with others, as a copy or a split does. A shift flushes line by
    /// line.
    pub(crate) fn batched(&self) -> u64 {
        self.batched.load(Ordering::Relaxed)
    }
}

impl Switched {
    pub(crate) fn new(mapped: Mapped, switches: Switches) -> Self {
        let mapped = mapped.with_domain(if switches.durable { Domain::Power } else { Domain::Process });
        Self { slowed: Slowed::new(mapped, switches.slow), switches, costs: OnceLock::new(), tallies: Arc::default() }
    }

    /// What it counts, if it does.
    pub(crate) fn tallies(&self) -> Arc<Tallies> {
        Arc::clone(&self.tallies)
    }

    #[inline]
    fn count(&self, counter: fn(&Tallies) -> &AtomicU64, n: u64) {
        if self.switches.count {
            counter(&self.tallies).fetch_add(n, Ordering::Relaxed);
        }
    }
}

impl Layer for Switched {
    type Below = Slowed<Mapped>;

    #[inline]
    fn below(&self) -> &Slowed<Mapped> {
        &self.slowed
    }

    /// Measured, waits included. But while it counts, the costs are always the same, so that the counts are, too.
    fn costs(&self) -> Costs {
        if self.switches.count { Costs::NOMINAL } else { *self.costs.get_or_init(|| Costs::measure(self)) }
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        self.count(|tallies| &tallies.bytes, 8);
        Medium::store(&self.slowed, at, value);
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        self.count(|tallies| &tallies.bytes, 16);
        Medium::store_pair(&self.slowed, at, pair);
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        self.count(|tallies| &tallies.bytes, 16);
        Medium::swap_pair(&self.slowed, at, pair);
    }

    #[inline]
    fn order(&self, step: Step) {
        self.count(|tallies| &tallies.orders, 1);
        Medium::order(&self.slowed, step);
    }

    #[inline]
    fn flush(&self, at: u64, len: u64, step: Step) {
        Medium::flush(&self.slowed, at, len, step);
        if self.switches.count && len > 0 && Layer::facts(self).writes_back {
            let lines = (at + len - 1) / LINE - at / LINE + 1;
            self.count(|tallies| &tallies.lines, lines);
            self.count(|tallies| &tallies.requested, len);
            self.count(|tallies| &tallies.batched, if lines > 1 { lines } else { 0 });
            let sorts = SORTING.iter().any(|name| step.name().starts_with(name));
            self.count(|tallies| &tallies.sorting, if sorts { lines } else { 0 });
        }
    }

    #[inline]
    fn fence(&self, step: Step) {
        if self.switches.durable {
            self.count(|tallies| &tallies.fences, 1);
        }
        Medium::fence(&self.slowed, step);
    }

    #[inline]
    fn hint(&self, at: u64, len: u64, hint: Hint) {
        if !self.switches.no_prefetch {
            Medium::hint(&self.slowed, at, len, hint);
        }
    }
}
