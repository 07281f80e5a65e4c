//! Adds a delay to flushes, to emulate slower persistent memory.

use super::{Costs, Facts, Layer, Medium, Step, lines};
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A medium that waits at a fence for the lines that the thread has flushed since the one before, for each of them or
/// for all together, and passes everything on to the medium below.
///
/// The wait follows the fence, so that it is added to what the flushes take: a thread that waits between a flush and
/// the fence waits at the same time as the processor writes the line back. The lines before a fence are a *round*. The
/// papers wait for each line. Real memory takes the lines of a round side by side: there, a round takes hardly longer
/// than a line.
///
/// A medium below that has nothing to write back, and so asks for no flushes, is asked for all of them: they are waited
/// for, and nothing else is done.
pub struct Slowed<M> {
    medium: M,
    per_line: Duration,
    per_round: Duration,
    wait: fn(Duration),
    costs: OnceLock<Costs>,
}

thread_local! {
    /// How many lines this thread has flushed since its last fence, on whichever slowed medium.
    static FLUSHED: Cell<u32> = const { Cell::new(0) };
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl<M: Medium> Slowed<M> {
    /// Waits `per_line` for each line; the papers' usual number is 300 ns.
    pub fn new(medium: M, per_line: Duration) -> Self {
        Self { medium, per_line, per_round: Duration::ZERO, wait: spin, costs: OnceLock::new() }
    }

    /// Waits `per_round` at each fence before which the thread has flushed lines, however many.
    pub fn by_round(medium: M, per_round: Duration) -> Self {
        Self { per_round, ..Self::new(medium, Duration::ZERO) }
    }

    #[inline]
    fn waits(&self) -> bool {
        !(self.per_line.is_zero() && self.per_round.is_zero())
    }
}

impl<M: Medium> Layer for Slowed<M> {
    type Below = M;

    #[inline]
    fn below(&self) -> &M {
        &self.medium
    }

    fn facts(&self) -> Facts<'_> {
        let facts = self.medium.facts();
        Facts { writes_back: facts.writes_back || self.waits(), ..facts }
    }

    fn costs(&self) -> Costs {
        *self.costs.get_or_init(|| Costs::measure(self))
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        self.medium.swap_pair(at, pair);
    }

    #[inline]
    fn flush(&self, at: u64, len: u64, step: Step) {
        self.medium.flush(at, len, step);
        if self.waits() {
            FLUSHED.set(FLUSHED.get() + lines(at, len).count() as u32);
        }
    }

    #[inline]
    fn fence(&self, step: Step) {
        self.medium.fence(step);
        if self.waits() {
            match FLUSHED.take() {
                0 => {}
                lines => (self.wait)(self.per_round + self.per_line * lines),
            }
        }
    }
}

#[cfg(all(test, not(any(bristlecone_loom, miri))))]
mod tests {
    use super::*;
    use crate::medium::Dram;

    const WAIT: Duration = Duration::from_nanos(300);

    thread_local! {
        /// The waits that were asked for.
        static ASKED: Cell<Vec<Duration>> = const { Cell::new(Vec::new()) };
    }

    /// A clock that does not go by itself.
    fn ask(time: Duration) {
        let mut asked = ASKED.take();
        asked.push(time);
        ASKED.set(asked);
    }

    fn slowed(new: fn(Dram, Duration) -> Slowed<Dram>) -> Slowed<Dram> {
        Slowed { wait: ask, ..new(Dram::zeroed(4096), WAIT) }
    }

    #[test]
    fn the_waits_are_those_of_the_lines_and_follow_the_fence() {
        for (new, expected) in [(Slowed::new as fn(Dram, Duration) -> _, [5, 1]), (Slowed::by_round, [1, 1])] {
            let m = slowed(new);
            Medium::flush(&m, 0, 4 * 64, Step::BatchLines);
            Medium::flush(&m, 8 * 64 + 8, 8, Step::BatchLines);
            assert!(ASKED.take().is_empty(), "a flush does not wait");
            Medium::fence(&m, Step::BatchLines);
            Medium::fence(&m, Step::BatchLines);
            Medium::flush(&m, 0, 8, Step::BatchLines);
            Medium::fence(&m, Step::BatchLines);
            assert_eq!(ASKED.take(), expected.map(|times| WAIT * times));
        }
    }

    #[test]
    fn what_asks_for_no_flushes_is_asked_for_them_if_it_waits() {
        assert!(Medium::facts(&slowed(Slowed::new)).writes_back);
        assert!(!Medium::facts(&Slowed::new(Dram::zeroed(4096), Duration::ZERO)).writes_back);
    }

    #[test]
    fn a_wait_takes_as_long_as_it_says() {
        let start = Instant::now();
        spin(Duration::from_millis(2));
        assert!(start.elapsed() >= Duration::from_millis(2));
    }
}
