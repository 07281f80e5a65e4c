//! Adds a delay per flushed line: persistent memory slower than the machine's own, as the papers emulate it.

use super::{Domain, Medium, lines};
use std::io;
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
    fn len(&self) -> u64 {
        self.medium.len()
    }

    fn name(&self) -> &str {
        self.medium.name()
    }

    fn domain(&self) -> Domain {
        self.medium.domain()
    }

    fn writes_back(&self) -> bool {
        true
    }

    fn read_only(&self) -> bool {
        self.medium.read_only()
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        self.medium.reserve(at, len)
    }

    fn space(&self) -> u64 {
        self.medium.space()
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.medium.load(at)
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        self.medium.store(at, value);
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        self.medium.store_pair(at, pair);
    }

    fn cas(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.medium.cas(at, current, new)
    }

    #[inline]
    fn order(&self) {
        self.medium.order();
    }

    fn flush(&self, at: u64, len: u64) {
        self.medium.flush(at, len);
        let wait = self.per_line * lines(at, len).count() as u32;
        let start = Instant::now();
        while start.elapsed() < wait {
            std::hint::spin_loop();
        }
    }

    #[inline]
    fn fence(&self) {
        self.medium.fence();
    }

    #[inline]
    fn prefetch(&self, at: u64, len: u64) {
        self.medium.prefetch(at, len);
    }
}
