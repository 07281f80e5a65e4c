//! Adds a delay to flushes, to emulate slower persistent memory.

use super::{Costs, Facts, Layer, Medium, Step, lines};
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A medium that waits after each flushed line, or after each round of them, and passes everything on to the medium
/// below.
///
/// A *round* is what a thread flushes before a fence. The papers wait for each line. Real memory takes the lines of a
/// round side by side: there, a round takes hardly longer than a line.
pub struct Slowed<M> {
    medium: M,
    per_line: Duration,
    per_round: Duration,
    costs: OnceLock<Costs>,
}

thread_local! {
    /// Whether this thread has flushed a line since its last fence, on whichever medium.
    static HAS_FLUSHED: Cell<bool> = const { Cell::new(false) };
}

fn wait(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl<M: Medium> Slowed<M> {
    /// Waits `per_line` for each line; the papers' usual number is 300 ns.
    pub fn new(medium: M, per_line: Duration) -> Self {
        Self { medium, per_line, per_round: Duration::ZERO, costs: OnceLock::new() }
    }

    /// Waits `per_round` at each fence before which the thread has flushed lines, however many.
    pub fn by_round(medium: M, per_round: Duration) -> Self {
        Self { medium, per_line: Duration::ZERO, per_round, costs: OnceLock::new() }
    }
}

impl<M: Medium> Layer for Slowed<M> {
    type Below = M;

    #[inline]
    fn below(&self) -> &M {
        &self.medium
    }

    fn facts(&self) -> Facts<'_> {
        Facts { writes_back: true, ..self.medium.facts() }
    }

    fn costs(&self) -> Costs {
        *self.costs.get_or_init(|| Costs::measure(self))
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        self.medium.swap_pair(at, pair);
    }

    fn flush(&self, at: u64, len: u64, step: Step) {
        self.medium.flush(at, len, step);
        if self.per_round.is_zero() {
            wait(self.per_line * lines(at, len).count() as u32);
        } else {
            HAS_FLUSHED.set(true);
        }
    }

    fn fence(&self, step: Step) {
        self.medium.fence(step);
        if HAS_FLUSHED.take() {
            wait(self.per_round);
        }
    }
}

#[cfg(all(test, not(any(bristlecone_loom, miri))))]
mod tests {
    use super::*;
    use crate::medium::Dram;

    fn took(m: &Slowed<Dram>, work: impl Fn(&Slowed<Dram>)) -> Duration {
        let start = Instant::now();
        work(m);
        start.elapsed()
    }

    #[test]
    fn lines_wait_each_and_rounds_as_a_whole() {
        const WAIT: Duration = Duration::from_millis(20);
        let round = |m: &Slowed<Dram>| {
            Medium::flush(m, 0, 4 * 64, Step::BatchLines);
            Medium::fence(m, Step::BatchLines);
        };
        assert!(took(&Slowed::new(Dram::zeroed(4096), WAIT), round) >= 4 * WAIT);
        let by_round = Slowed::by_round(Dram::zeroed(4096), WAIT);
        let took_by_round = || took(&by_round, |m| (0..2).for_each(|_| round(m)));
        assert!(took_by_round() >= 2 * WAIT);
        // A busy machine may stop a thread for long, but not each time.
        assert!((0..20).any(|_| took_by_round() < 4 * WAIT));
        assert!((0..20).any(|_| took(&by_round, |m| Medium::fence(m, Step::BatchLines)) < WAIT));
    }
}
