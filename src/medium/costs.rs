//! What persisting costs on a medium: for layouts that choose between ways to make a change.

use super::{LINE, Medium};
use std::time::Instant;

/// Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Costs {
    /// A line flushed, and the fence that waits for it.
    pub round: u32,
    /// A further line in the same round.
    pub line: u32,
    /// An order point.
    pub order: u32,
    /// A slot read or written.
    pub slot: u32,
}

impl Costs {
    /// Costs of nowhere in particular, near those of persistent memory: for media on which time does not pass as it does
    /// on the machine.
    pub const NOMINAL: Self = Self { round: 300, line: 30, order: 1, slot: 1 };

    /// Measures, in about 100 microseconds.
    ///
    /// Words are replaced by themselves: nothing changes, whoever else writes to them.
    pub fn measure<M: Medium>(m: &M) -> Self {
        const LINES: u64 = 8;
        const REPEATS: u32 = 8;
        if m.len() < LINES * LINE || m.read_only() {
            return Self::NOMINAL;
        }
        let touch = |line: u64| {
            let word = m.load(line * LINE);
            let _ = m.cas(line * LINE, word, word);
        };
        // Of several times the least: whatever disturbs a measurement makes it longer.
        let time = |work: &dyn Fn()| {
            let once = |_| {
                let start = Instant::now();
                work();
                start.elapsed().as_nanos() as u32
            };
            (0..REPEATS).map(once).min().unwrap_or(0)
        };
        let lines = LINES as u32;
        let touching = time(&|| (0..LINES).for_each(touch));
        let rounds = time(&|| {
            (0..LINES).for_each(|line| {
                touch(line);
                m.flush(line * LINE, 1);
                m.fence();
            })
        });
        let batch = time(&|| {
            (0..LINES).for_each(touch);
            m.flush(0, LINES * LINE);
            m.fence();
        });
        let orders = time(&|| (0..1000).for_each(|_| m.order()));
        let loads = time(&|| {
            let sum = (0..1000).fold(0, |sum, i| sum ^ m.load(i % (LINES * LINE)));
            std::hint::black_box(sum);
        });
        let round = rounds.saturating_sub(touching) / lines;
        let line = batch.saturating_sub(touching).saturating_sub(round) / (lines - 1);
        // A slot is two words, each loaded and stored.
        Self { round, line, order: orders / 1000, slot: (loads * 4).div_ceil(1000).max(1) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::medium::{Dram, Slowed};
    use std::time::Duration;

    #[test]
    fn a_slow_medium_is_measured_as_slow() {
        let m = Slowed::new(Dram::zeroed(4096), Duration::from_micros(20));
        m.store(64, 7);
        let costs = Costs::measure(&m);
        assert!(costs.round >= 20_000 && costs.line >= 15_000, "{costs:?}");
        assert!(costs.order < 1000 && costs.slot < 1000, "{costs:?}");
        assert_eq!(m.load(64), 7);
    }
}
