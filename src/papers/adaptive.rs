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

    /// How the leaves that replace a full one differ from it in size.
    fn resize(leaf: Seen) -> Resize;
}

/// What was observed about a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
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
    /// The same number of lines.
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

impl Strategy for Fixed {
    const TAG: u16 = 13;
    const NAME: &'static str = "append_fixed";
    const COUNTS: bool = false;

    fn resize(_leaf: Seen) -> Resize {
        Resize::Keep
    }
}

impl Strategy for Conservative {
    const TAG: u16 = 14;
    const NAME: &'static str = "append_conservative";

    fn resize(leaf: Seen) -> Resize {
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

    fn resize(leaf: Seen) -> Resize {
        if leaf.write_intensive { Resize::Double } else { Resize::Keep }
    }
}

impl Strategy for Balanced {
    const TAG: u16 = 16;
    const NAME: &'static str = "append";

    fn resize(leaf: Seen) -> Resize {
        match (leaf.write_intensive, leaf.hot_write, leaf.hot_read) {
            (true, true, _) => Resize::Double,
            (true, false, _) => Resize::Grow,
            (false, _, true) => Resize::Shrink,
            _ => Resize::Keep,
        }
    }
}

/// What was done with the leaves that were replaced lately.
#[derive(Default)]
pub struct Workload {
    /// An average over the leaves that were replaced lately: 16 fractional bits.
    reads: AtomicU64,
    writes: AtomicU64,
}

/// Reads and writes.
fn words(tally: &Halves) -> (u64, u64) {
    let (reads, writes) = tally.get();
    (reads as u64, writes as u64)
}

/// The searches during which this many elements are written.
fn searches(elements: u64, tally: &Halves) -> u64 {
    let (reads, writes) = words(tally);
    elements * (reads + writes) / writes.max(1)
}

/// One leaf counts this small a part of the average: one in `RECENT`.
const RECENT: u64 = 64;

impl Workload {
    /// Called when a leaf with this tally is replaced. Returns how the leaf compares with the average.
    pub(crate) fn compare(&self, tally: &Halves) -> Seen {
        let follow = |average: &AtomicU64, now: u64| {
            let (before, now) = (average.load(Ordering::Relaxed), now << 16);
            average.store(before - before / RECENT + now / RECENT, Ordering::Relaxed);
            now > before
        };
        let (reads, writes) = words(tally);
        Seen {
            write_intensive: reads < writes,
            hot_write: follow(&self.writes, writes),
            hot_read: follow(&self.reads, reads),
        }
    }
}

/// The model of section 5.4: nanoseconds to read and to write a leaf with a given number of lines.
///
/// Two terms differ from the paper's. The paper counts only the searches of readers; here a write counts as a search,
/// too, because it begins with one. And the paper assumes that a leaf larger by one line saves a whole split; here it
/// saves its share of a split. With the paper's terms, leaves that are only written to grow as far as they can, and
/// searching them costs more than all splits.
struct Model {
    costs: Costs,
    /// Elements per line.
    per_line: u64,
}

impl Model {
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

    /// Equation 1 against 2: what growing saves in splits, against what the longer searches cost until the next split.
    fn growing_pays(&self, old: u64, new: u64, tally: &Halves) -> bool {
        let searched = searches((new - old) * self.per_line, tally);
        self.split(old) * (new - old) / old > searched * self.read(old) * 2
    }

    /// Equation 3 against 4.
    fn shrinking_pays(&self, old: u64, new: u64, tally: &Halves) -> bool {
        let searched = searches((old - new) * self.per_line, tally);
        searched * self.read(new) * 2 > self.split(new) * (old - new) / new
    }
}

/// The number of lines of the leaves that replace one with `old` lines: Algorithm 3, within `least..=most`.
pub(crate) fn lines<S: Strategy>(
    (old, least, most): (u64, u64, u64),
    per_line: u64,
    costs: Costs,
    tally: &Halves,
    workload: &Workload,
) -> u64 {
    if !S::COUNTS {
        return old;
    }
    let model = Model { costs, per_line };
    match S::resize(workload.compare(tally)) {
        Resize::Keep => old,
        Resize::Shrink if old > least && model.shrinking_pays(old, old - 1, tally) => old - 1,
        Resize::Grow if old < most && model.growing_pays(old, old + 1, tally) => old + 1,
        Resize::Double if old * 2 <= most && model.growing_pays(old, old * 2, tally) => old * 2,
        Resize::Shrink | Resize::Grow | Resize::Double => old,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::Zero;

    const COSTS: Costs = Costs::NOMINAL;

    fn seen(write_intensive: bool, hot_write: bool, hot_read: bool) -> Seen {
        Seen { write_intensive, hot_write, hot_read }
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
        }
    }

    #[test]
    fn sizes_follow_the_workload_as_far_as_it_pays() {
        let workload = Workload::default();
        let (written, read) = (Halves::zero(), Halves::zero());
        written.add(0, 100);
        read.add(100_000, 10);
        // Searches cost more than splits, or less on slow memory; up to some size.
        assert_eq!(lines::<Aggressive>((16, 4, 512), 3, COSTS, &written, &workload), 16);
        assert_eq!(lines::<Aggressive>((4, 4, 512), 3, COSTS, &written, &workload), 8);
        let slow = Costs { round: 3000, line: 3000, ..COSTS };
        assert_eq!(lines::<Aggressive>((16, 4, 512), 3, slow, &written, &workload), 32);
        assert_eq!(lines::<Aggressive>((256, 4, 512), 3, slow, &written, &workload), 256);
        assert_eq!(lines::<Aggressive>((128, 4, 128), 3, slow, &written, &workload), 128);
        assert_eq!(lines::<Balanced>((16, 4, 512), 3, COSTS, &read, &workload), 15);
        assert_eq!(lines::<Balanced>((4, 4, 512), 3, COSTS, &read, &workload), 4);
        assert_eq!(lines::<Fixed>((16, 4, 512), 3, slow, &written, &workload), 16);
        // Read as often as written: the leaf grows half as far.
        let both = Halves::zero();
        both.add(99, 100);
        assert_eq!(lines::<Aggressive>((64, 4, 512), 3, slow, &both, &workload), 128);
        assert_eq!(lines::<Aggressive>((128, 4, 512), 3, slow, &both, &workload), 128);
        assert_eq!(lines::<Aggressive>((128, 4, 512), 3, slow, &written, &workload), 256);
    }
}
