//! Adds a delay per flushed line, to emulate slower persistent memory, as the papers do.

use super::{Costs, Facts, Layer, Medium, Step, lines};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A medium that waits after each flushed line, and passes everything on to the medium below.
pub struct Slowed<M> {
    medium: M,
    per_line: Duration,
    costs: OnceLock<Costs>,
}

impl<M: Medium> Slowed<M> {
    /// Waits `per_line` for each line; the papers' usual number is 300 ns.
    pub fn new(medium: M, per_line: Duration) -> Self {
        Self { medium, per_line, costs: OnceLock::new() }
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
        let wait = self.per_line * lines(at, len).count() as u32;
        let start = Instant::now();
        while start.elapsed() < wait {
            std::hint::spin_loop();
        }
    }
}
