//! Which operations copy: this is recognised from what each of them asks of the medium.

use super::medium::Tallies;
use bristlecone::medium::Counts;
use std::sync::{Mutex, PoisonError};

/// Looks at the medium after each operation. An operation that has flushed lines together, in one call, has copied a
/// leaf (or split it); one that shifts flushes line by line.
pub(crate) struct Copies<'m> {
    tallies: &'m Tallies,
    seen: Mutex<Seen>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    counts: Counts,
    batched: u64,
    /// Counts of the operations that copied.
    lines: u64,
    fences: u64,
    operations: u64,
}

impl<'m> Copies<'m> {
    pub(crate) fn new(tallies: &'m Tallies) -> Self {
        Self { tallies, seen: Mutex::default() }
    }

    /// Starts counting here.
    pub(crate) fn start(&self) {
        let seen = Seen { counts: self.tallies.counts(), batched: self.tallies.batched(), ..Seen::default() };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Called after each operation.
    pub(crate) fn note(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (counts, batched) = (self.tallies.counts(), self.tallies.batched());
        if batched > seen.batched {
            let asked = counts - seen.counts;
            seen.lines += asked.lines;
            seen.fences += asked.fences;
            seen.operations += 1;
        }
        (seen.counts, seen.batched) = (counts, batched);
    }

    /// The shares of the operations that copied, in percent: of the lines, the fences and the operations.
    pub(crate) fn shares(&self, all: Counts, operations: u64) -> [f64; 3] {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let percent = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
        [percent(seen.lines, all.lines), percent(seen.fences, all.fences), percent(seen.operations, operations)]
    }
}
