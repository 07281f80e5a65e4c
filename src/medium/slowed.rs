//! Adds a delay per flushed line: persistent memory slower than the machine's own, as the papers emulate it.

use super::{Costs, Medium, lines};
use crate::delegate_medium;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A medium that waits after each flushed line, and passes everything on.
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

impl<M: Medium> Medium for Slowed<M> {
    delegate_medium!(this => this.medium; len name domain pairs_are_whole read_only forked boot sync reserve space);
    delegate_medium!(this => this.medium; load load_words store store_pair cas order fence will_read prefetch);

    fn writes_back(&self) -> bool {
        true
    }

    fn costs(&self) -> Costs {
        *self.costs.get_or_init(|| Costs::measure(self))
    }

    fn flush(&self, at: u64, len: u64) {
        self.medium.flush(at, len);
        let wait = self.per_line * lines(at, len).count() as u32;
        let start = Instant::now();
        while start.elapsed() < wait {
            std::hint::spin_loop();
        }
    }
}
