//! What persisting costs on a medium: for layouts that choose between several ways to make a change.

use super::{LINE, Medium, Step};
use std::time::Instant;

/// Where costs are measured: lines that a pool keeps for this purpose (see the diagram in `pool/format.rs`).
pub(crate) const MEASURED: std::ops::Range<u64> = 2048..2048 + LINES * LINE;

/// Bytes of a slot: a key and a value.
const SLOT: u64 = 16;
const PER_LINE: u64 = LINE / SLOT;

/// How many lines there are for measuring.
const LINES: u64 = 32;

/// Costs, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Costs {
    /// A line flushed, and the fence that waits for it.
    pub round: u32,
    /// Each further line in the same round.
    pub line: u32,
    /// Each line of a node that is copied, beyond the round and what the slots of the line take. The original was
    /// flushed some time ago: where a flush takes a line out of the caches, the copy must read it from memory.
    pub copied: u32,
    /// An order point.
    pub order: u32,
    /// A slot read or written.
    pub slot: u32,
}

impl Costs {
    /// Nominal costs, close to what persistent memory takes, for media on which time does not pass as it does on the
    /// machine.
    pub const NOMINAL: Self = Self { round: 300, line: 30, copied: 30, order: 1, slot: 1 };

    /// The costs of a journal, into which each line that is flushed is copied, and where nothing is waited for.
    pub(super) const JOURNAL: Self = Self { round: 25, line: 25, copied: 25, order: 1, slot: 1 };

    /// Measures the costs, in about 100 microseconds, on lines in which a pool keeps nothing.
    ///
    /// Rounds and copies are measured as shifts and copies of large nodes make them: one after the other. A processor
    /// takes some flushes at once, and writes them back later, so the first rounds after a pause cost a fraction of
    /// those that follow.
    ///
    /// Words are replaced by themselves, so nothing changes. Nothing else stores to these lines.
    pub fn measure<M: Medium>(m: &M) -> Self {
        const REPEATS: usize = 9;
        /// Lines that are flushed in one round.
        const BATCH: u64 = 8;
        const HALF: u64 = LINES / 2;
        const SLOTS: u64 = HALF * PER_LINE;
        let facts = m.facts();
        if m.accessible() < MEASURED.end || facts.read_only {
            return Self::NOMINAL;
        }
        let at = |line: u64| MEASURED.start + line * LINE;
        let touch = |line: u64| m.store(at(line), m.load(at(line)));
        // The median: the shortest time comes after a pause, and the longest one from a disturbance.
        let time = |work: &dyn Fn()| {
            let mut times = [(); REPEATS].map(|()| {
                let start = Instant::now();
                work();
                start.elapsed().as_nanos() as u32
            });
            times.sort_unstable();
            times[REPEATS / 2]
        };
        let touching = time(&|| (0..LINES).for_each(touch)) / LINES as u32;
        let rounds = time(&|| {
            (0..LINES).for_each(|line| {
                touch(line);
                m.flush(at(line), 1, Step::Measure);
                m.fence(Step::Measure);
            })
        });
        let batch = time(&|| {
            (0..BATCH).for_each(touch);
            m.flush(at(0), BATCH * LINE, Step::Measure);
            m.fence(Step::Measure);
        });
        // What a copy does: one half is read, and all of the other one is stored and flushed. The next copy reads what
        // this one has flushed.
        let copy = |from: u64, to: u64| {
            let pair = |at: u64| [m.load(at), m.load(at + 8)];
            std::hint::black_box((0..SLOTS).map(|i| pair(at(from) + i * SLOT)).collect::<Vec<_>>());
            (0..SLOTS).map(|i| at(to) + i * SLOT).for_each(|at| m.store_pair(at, pair(at)));
            m.flush(at(to), HALF * LINE, Step::Measure);
            m.fence(Step::Measure);
        };
        let copies = time(&|| {
            copy(0, HALF);
            copy(HALF, 0);
        });
        let orders = time(&|| (0..1000).for_each(|_| m.order(Step::Measure)));
        let loads = time(&|| {
            let sum = (0..1000).fold(0, |sum, i| sum ^ m.load(at(0) + i % (LINES * LINE)));
            std::hint::black_box(sum);
        });
        let round = (rounds / LINES as u32).saturating_sub(touching);
        let line = batch.saturating_sub(touching * BATCH as u32).saturating_sub(round) / (BATCH as u32 - 1);
        // A slot is two words, each loaded and stored.
        let slot = (loads * 4).div_ceil(1000).max(1);
        let copied = (copies / 2).saturating_sub(round) / HALF as u32;
        Self { round, line, copied: copied.saturating_sub(slot * PER_LINE as u32), order: orders / 1000, slot }
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::medium::{Dram, Layer, Slowed};
    use std::sync::Mutex;
    use std::time::Duration;

    #[test]
    fn a_slow_medium_is_measured_as_slow() {
        let m = Slowed::new(Dram::zeroed(4096), Duration::from_micros(20));
        Medium::store(&m, MEASURED.start + 64, 7);
        let costs = Costs::measure(&m);
        assert!(costs.round >= 20_000 && costs.line >= 15_000 && costs.copied >= 15_000, "{costs:?}");
        // What does not wait for the medium takes a part of that, however busy the machine is.
        assert!(costs.order < costs.line / 2 && costs.slot < costs.line / 2, "{costs:?}");
        assert_eq!(Medium::load(&m, MEASURED.start + 64), 7);
    }

    /// Records where stores go, and what is flushed.
    struct Noting(Dram, Mutex<Vec<std::ops::Range<u64>>>);

    impl Noting {
        fn note(&self, at: u64, len: u64) {
            self.1.lock().unwrap().push(at..at + len);
        }
    }

    impl Layer for Noting {
        type Below = Dram;

        fn below(&self) -> &Dram {
            &self.0
        }

        fn store(&self, at: u64, value: u64) {
            self.note(at, 8);
            self.0.store(at, value);
        }

        fn store_pair(&self, at: u64, pair: [u64; 2]) {
            self.note(at, 16);
            self.0.store_pair(at, pair);
        }

        fn flush(&self, at: u64, len: u64, step: Step) {
            self.note(at, len);
            self.0.flush(at, len, step);
        }
    }

    #[test]
    fn measuring_leaves_the_superblock_alone() {
        let m = Noting(Dram::zeroed(1 << 16), Mutex::default());
        Costs::measure(&m);
        let touched = m.1.lock().unwrap();
        assert!(!touched.is_empty());
        for range in touched.iter() {
            assert!(range.start >= 128 && range.end <= 4096, "touched {range:?}");
        }
    }
}
