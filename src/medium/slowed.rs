//! Adds a delay per flushed line: persistent memory slower than the machine's own, as the papers emulate it.

use super::{Medium, lines};
use crate::delegate_medium;
use std::time::{Duration, Instant};

/// A medium that waits after each flushed line, and passes everything on.
pub struct Slowed<M> {
    medium: M,
    per_line: Duration,
}

impl<M: Medium> Slowed<M> {
    /// Waits `per_line` for each line; the papers' usual number is 300 ns.
    pub fn new(medium: M, per_line: Duration) -> Self {
        Self { medium, per_line }
    }
}

impl<M: Medium> Medium for Slowed<M> {
    delegate_medium!(this => this.medium; len name domain read_only reserve space load store store_pair cas order fence prefetch);

    fn writes_back(&self) -> bool {
        true
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
