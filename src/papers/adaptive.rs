//! NV-Tree's workload-adaptive scheme: how many lines the leaves get that replace a full leaf.
//!
//! A leaf that is written more than read becomes larger, so that it is replaced less often. One that is read more than
//! written becomes smaller, so that a search in it is shorter. The strategy decides which leaves change and by how
//! much. A cost model decides where a change would no longer pay.

use crate::medium::Costs;
use crate::memory::Halves;
use crate::sync::{AtomicU64, Ordering};

/// How the size of leaves follows what happens to them.
///
/// # Source
///
/// NV-Tree (Yang et al., IEEE Transactions on Computers 2015), sections 5.3 and 5.4.
pub trait Strategy: Send + Sync + 'static {
    /// Tag of the layout with this strategy.
    const TAG: u16;
    /// Name of the layout with this strategy.
    const NAME: &'static str;
    /// Whether reads and writes are counted at all.
    const COUNTS: bool = true;
    /// Whether what is counted, and what it is compared with, is as printed in the paper.
    const PRINTED: bool = false;

    /// How the leaves that replace a full one differ from it in size.
    fn resize(leaf: LeafUse) -> Resize;
}

/// What was observed about a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafUse {
    /// It was written more than read.
    pub write_intensive: bool,
    /// It was written more than leaves are on average.
    pub hot_write: bool,
    /// It was read more than leaves are on average.
    pub hot_read: bool,
}

/// How a size changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resize {
    /// As many lines as before.
    Keep,
    /// One line less.
    Shrink,
    /// One line more.
    Grow,
    /// Twice as many lines.
    Double,
}

/// All leaves have the same size: NV-Tree without the scheme.
#[derive(Debug, Clone, Copy)]
pub struct Fixed;

/// Small steps, for leaves that are clearly of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Conservative;

/// Every leaf that is written more than read doubles.
#[derive(Debug, Clone, Copy)]
pub struct Aggressive;

/// Leaves with the most writes double; others change in small steps.
#[derive(Debug, Clone, Copy)]
pub struct Balanced;

/// The balanced strategy with the paper's own counters and equations.
///
/// # Source
///
/// NV-Tree, sections 5.2 to 5.5.
///
/// # As printed
///
/// - A leaf is hot if it was written, or read, more than the average of all leaves since the tree was opened. (The
///   other strategies compare with leaves that were replaced lately.)
/// - Equations 1 and 3 credit a leaf that changes by one line with a whole split, and Equations 2 and 4 count the
///   searches of readers only. If doubling does not pay, a leaf grows by one line as long as that pays (section 6.4.2;
///   Algorithm 3 does not have this step). Otherwise the size stays.
/// - A parent of leaves is hot if the writes of its leaves are more than the average of all parents. (The other
///   strategies count the leaves that were added.)
///
/// # What differs
///
/// A leaf has 3 lines at least and 32 times its first size at most, because blocks come in six sizes. Counters lie in
/// DRAM, and begin anew when the tree is opened. Inner nodes have 1 KiB whatever the size of the leaves: their size is
/// a constant of the index, so that the way through an inner node is found without a multiplication by a variable, and
/// an index for each size would be compiled into every tree.
#[derive(Debug, Clone, Copy)]
pub struct AsPrinted;

impl Strategy for Fixed {
    const TAG: u16 = 13;
    const NAME: &'static str = "append_fixed";
    const COUNTS: bool = false;

    fn resize(_leaf: LeafUse) -> Resize {
        Resize::Keep
    }
}

impl Strategy for Conservative {
    const TAG: u16 = 14;
    const NAME: &'static str = "append_conservative";

    fn resize(leaf: LeafUse) -> Resize {
        match (leaf.write_intensive, leaf.hot_write, leaf.hot_read) {
            (true, true, false) => Resize::Grow,
            (false, false, true) => Resize::Shrink,
            _ => Resize::Keep,
        }
    }
}

impl Strategy for Aggressive {
    const TAG: u16 = 15;
    const NAME: &'static str = "append_aggressive";

    fn resize(leaf: LeafUse) -> Resize {
        if leaf.write_intensive { Resize::Double } else { Resize::Keep }
    }
}

impl Strategy for Balanced {
    const TAG: u16 = 16;
    const NAME: &'static str = "append";

    fn resize(leaf: LeafUse) -> Resize {
        match (leaf.write_intensive, leaf.hot_write, leaf.hot_read) {
            (true, true, _) => Resize::Double,
            (true, false, _) => Resize::Grow,
            (false, _, true) => Resize::Shrink,
            _ => Resize::Keep,
        }
    }
}

impl Strategy for AsPrinted {
    const TAG: u16 = 17;
    const NAME: &'static str = "append_printed";
    const PRINTED: bool = true;

    fn resize(leaf: LeafUse) -> Resize {
        Balanced::resize(leaf)
    }
}

/// What was done with the leaves of a tree.
#[derive(Default)]
pub struct Workload {
    /// An average over the leaves that were replaced lately: 16 fractional bits.
    reads: AtomicU64,
    writes: AtomicU64,
    /// The paper's `nReads` and `nWrites`: of all leaves since the tree was opened.
    all_reads: AtomicU64,
    all_writes: AtomicU64,
}

/// Reads and writes.
fn words(tally: &Halves) -> (u64, u64) {
    let (reads, writes) = tally.get();
    (reads as u64, writes as u64)
}

/// One leaf counts this small a part of the average: one in `RECENT`.
const RECENT: u64 = 64;

impl Workload {
    /// Called when a leaf with this tally is replaced. Returns how the leaf compares with the average.
    pub(crate) fn compare(&self, tally: &Halves) -> LeafUse {
        let follow = |average: &AtomicU64, now: u64| {
            let (before, now) = (average.load(Ordering::Relaxed), now << 16);
            average.store(before - before / RECENT + now / RECENT, Ordering::Relaxed);
            now > before
        };
        let (reads, writes) = words(tally);
        LeafUse {
            write_intensive: reads < writes,
            hot_write: follow(&self.writes, writes),
            hot_read: follow(&self.reads, reads),
        }
    }

    /// Counts reads and writes of any leaf, for [`compare_with_all`](Self::compare_with_all).
    pub(crate) fn count(&self, reads: u64, writes: u64) {
        self.all_reads.fetch_add(reads, Ordering::Relaxed);
        self.all_writes.fetch_add(writes, Ordering::Relaxed);
    }

    /// How a leaf with this tally compares with the average of all leaves, given their number.
    fn compare_with_all(&self, tally: &Halves, leaves: u64) -> LeafUse {
        let (reads, writes) = words(tally);
        let is_hot = |of_leaf: u64, of_all: &AtomicU64| of_leaf * leaves > of_all.load(Ordering::Relaxed);
        LeafUse {
            write_intensive: reads < writes,
            hot_write: is_hot(writes, &self.all_writes),
            hot_read: is_hot(reads, &self.all_reads),
        }
    }
}

/// The model of section 5.4: nanoseconds to read and to write a leaf with a given number of lines.
///
/// Two terms differ from the paper's, unless the model is as printed. The paper counts only the searches of readers;
/// here a write counts as a search, too, because it begins with one. And the paper assumes that a leaf larger by one
/// line saves a whole split; here it saves its share of a split. With the paper's terms, leaves that are only written
/// to grow as far as they can, and searching them costs more than all splits.
struct CostModel {
    costs: Costs,
    /// Elements per line.
    per_line: u64,
    printed: bool,
}

impl CostModel {
    fn read(&self, lines: u64) -> u64 {
        lines * self.per_line * u64::from(self.costs.slot)
    }

    fn write(&self, lines: u64) -> u64 {
        u64::from(self.costs.round) + lines.saturating_sub(1) * u64::from(self.costs.line)
    }

    /// The cost of splitting a leaf with this many lines.
    fn split(&self, lines: u64) -> u64 {
        self.read(lines) + 2 * self.write(lines / 2)
    }

    /// The searches while `lines` lines of elements are written.
    fn searches(&self, lines: u64, tally: &Halves) -> u64 {
        let (reads, writes) = words(tally);
        let searches = if self.printed { reads } else { reads + writes };
        lines * self.per_line * searches / writes.max(1)
    }

    /// The share of a split that a leaf saves which grows from `old` to `new` lines, or loses which shrinks from `new`.
    fn share(&self, split: u64, old: u64, new: u64) -> u64 {
        if self.printed { split } else { split * (new - old) / old }
    }

    /// Equation 1 against 2: what growing saves in splits, against what the longer searches cost until the next split.
    fn growing_pays(&self, old: u64, new: u64, tally: &Halves) -> bool {
        self.share(self.split(old), old, new) > self.searches(new - old, tally) * self.read(old) * 2
    }

    /// Equation 3 against 4.
    fn shrinking_pays(&self, old: u64, new: u64, tally: &Halves) -> bool {
        self.searches(old - new, tally) * self.read(new) * 2 > self.share(self.split(new), new, old)
    }
}

/// The number of lines of the leaves that replace one with `old` lines: Algorithm 3, within `least..=most`. `leaves`
/// tells how many leaves there are.
pub(crate) fn lines<S: Strategy>(
    (old, least, most): (u64, u64, u64),
    per_line: u64,
    costs: Costs,
    tally: &Halves,
    workload: &Workload,
    leaves: impl Fn() -> u64,
) -> u64 {
    if !S::COUNTS {
        return old;
    }
    let model = CostModel { costs, per_line, printed: S::PRINTED };
    let seen = if S::PRINTED { workload.compare_with_all(tally, leaves()) } else { workload.compare(tally) };
    match S::resize(seen) {
        Resize::Keep => old,
        Resize::Shrink if old > least && model.shrinking_pays(old, old - 1, tally) => old - 1,
        Resize::Grow if old < most && model.growing_pays(old, old + 1, tally) => old + 1,
        Resize::Double if old * 2 <= most && model.growing_pays(old, old * 2, tally) => old * 2,
        Resize::Double if S::PRINTED && old < most && model.growing_pays(old, old + 1, tally) => old + 1,
        Resize::Shrink | Resize::Grow | Resize::Double => old,
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::memory::Zero;

    const COSTS: Costs = Costs::NOMINAL;

    fn seen(write_intensive: bool, hot_write: bool, hot_read: bool) -> LeafUse {
        LeafUse { write_intensive, hot_write, hot_read }
    }

    #[test]
    fn each_strategy_is_algorithm_3() {
        use Resize::{Double, Grow, Keep, Shrink};
        let all = [false, true]
            .into_iter()
            .flat_map(|w| [false, true].into_iter().flat_map(move |hw| [false, true].map(move |hr| seen(w, hw, hr))));
        // Read-intensive: cold, hot read, hot write, both; then write-intensive in the same order.
        let expected: [(Resize, Resize, Resize); 8] = [
            (Keep, Keep, Keep),
            (Shrink, Keep, Shrink),
            (Keep, Keep, Keep),
            (Keep, Keep, Shrink),
            (Keep, Double, Grow),
            (Keep, Double, Grow),
            (Grow, Double, Double),
            (Keep, Double, Double),
        ];
        for (leaf, expected) in all.zip(expected) {
            let found = (Conservative::resize(leaf), Aggressive::resize(leaf), Balanced::resize(leaf));
            assert_eq!((found, Fixed::resize(leaf)), (expected, Keep), "{leaf:?}");
            assert_eq!(AsPrinted::resize(leaf), expected.2, "{leaf:?}");
        }
    }

    #[test]
    fn sizes_follow_the_workload_as_far_as_it_pays() {
        let workload = Workload::default();
        let leaves = || 1;
        let (written, read) = (Halves::zero(), Halves::zero());
        written.add(0, 100);
        read.add(100_000, 10);
        // Searches cost more than splits, or less on slow memory; up to some size.
        assert_eq!(lines::<Aggressive>((16, 4, 512), 3, COSTS, &written, &workload, leaves), 16);
        assert_eq!(lines::<Aggressive>((4, 4, 512), 3, COSTS, &written, &workload, leaves), 8);
        let slow = Costs { round: 3000, line: 3000, ..COSTS };
        assert_eq!(lines::<Aggressive>((16, 4, 512), 3, slow, &written, &workload, leaves), 32);
        assert_eq!(lines::<Aggressive>((256, 4, 512), 3, slow, &written, &workload, leaves), 256);
        assert_eq!(lines::<Aggressive>((128, 4, 128), 3, slow, &written, &workload, leaves), 128);
        assert_eq!(lines::<Balanced>((16, 4, 512), 3, COSTS, &read, &workload, leaves), 15);
        assert_eq!(lines::<Balanced>((4, 4, 512), 3, COSTS, &read, &workload, leaves), 4);
        assert_eq!(lines::<Fixed>((16, 4, 512), 3, slow, &written, &workload, leaves), 16);
        // Read as often as written: the leaf grows half as far.
        let both = Halves::zero();
        both.add(99, 100);
        assert_eq!(lines::<Aggressive>((64, 4, 512), 3, slow, &both, &workload, leaves), 128);
        assert_eq!(lines::<Aggressive>((128, 4, 512), 3, slow, &both, &workload, leaves), 128);
        assert_eq!(lines::<Aggressive>((128, 4, 512), 3, slow, &written, &workload, leaves), 256);
    }

    /// What is only written doubles as far as it can; what is read as well grows until a search of the larger part
    /// costs more than a split.
    #[test]
    fn as_printed_only_reads_count_against_growing() {
        let (workload, leaves) = (Workload::default(), || 2);
        workload.count(50, 150);
        let lines = |old, tally| lines::<AsPrinted>((old, 4, 512), 3, COSTS, tally, &workload, leaves);
        let (hot, cold, both) = (Halves::zero(), Halves::zero(), Halves::zero());
        hot.add(0, 100);
        cold.add(0, 50);
        both.add(40, 100);
        assert_eq!((lines(4, &hot), lines(256, &hot), lines(512, &hot)), (8, 512, 512));
        // A whole split is saved by one more line.
        assert_eq!((lines(256, &cold), lines(511, &cold)), (257, 512));
        assert_eq!((lines(4, &both), lines(64, &both)), (8, 65));
        let slow = Costs { round: 3000, line: 3000, ..COSTS };
        assert_eq!(super::lines::<AsPrinted>((64, 4, 512), 3, slow, &both, &workload, leaves), 128);
    }
}
