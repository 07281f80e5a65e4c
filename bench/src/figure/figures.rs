//! A figure of a paper, as data.

use super::claims::Claim;
use super::work::Step;
use crate::mix::Mix;

/// A figure, or a table, of a paper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    /// Paper and number.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What the paper found.
    pub(crate) claim: &'static str,
    /// What the paper found, in numbers.
    pub(crate) claims: &'static [Claim],
    /// What the paper means by the time of an operation.
    pub(crate) metric: Metric,
    /// The extra nanoseconds for a flushed line in the paper.
    pub(crate) papers_slow: u64,
    /// The instruction that wrote lines back in the paper, or the one nearest to it.
    pub(crate) papers_flush: &'static str,
    /// Whether a tree that flushes nothing waits for the lines all the same.
    pub(crate) volatile_waits: bool,
    /// Contestants by name, available or not.
    pub(crate) trees: &'static [&'static str],
    /// The one of them that the others are compared with.
    pub(crate) subject: &'static str,
    /// Bytes of a node's slots.
    pub(crate) bytes: &'static [u32],
    /// Keys in the paper, in millions, ascending.
    pub(crate) millions: &'static [u64],
    /// Whether every thread has this many keys of its own.
    pub(crate) each: bool,
    pub(crate) threads: &'static [u32],
    /// The extra nanoseconds for a flushed line; if empty, the number that was asked for, and 0.
    pub(crate) slow: &'static [u64],
    /// Steps that are run first and are not shown.
    pub(crate) before: &'static [Step],
    pub(crate) steps: &'static [Step],
    /// Whether every step has a tree of its own.
    pub(crate) apart: bool,
    pub(crate) show: Show,
}

/// The time of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// The arithmetic mean of CPU time.
    Cpu,
    /// The arithmetic mean by the clock.
    Clock,
    /// The geometric mean by the clock, of a sample of the operations.
    Geometric,
}

impl Metric {
    pub(crate) const ALL: [Self; 3] = [Self::Cpu, Self::Clock, Self::Geometric];

    /// The JSON key.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Cpu => "ns_per_op",
            Self::Clock => "wall_ns_per_op",
            Self::Geometric => "geometric_ns_per_op",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Clock => "by the clock",
            Self::Geometric => "geometric mean",
        }
    }
}

/// What a figure shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Time,
    Lines,
    /// Bytes flushed: whole lines.
    Flushed,
    /// Fences and order points: on some CPUs, both are instructions.
    Barriers,
    /// The share of lines that a persistent index costs: the lines that the first of a pair flushes beyond those of the
    /// second, which has the same leaves and its index in memory.
    Inner(&'static [(&'static str, &'static str)]),
    /// The share of lines that hold shifted entries, or a log of them, in leaves: the lines of the second of a pair,
    /// whose index is in memory, in those of the first, which has the same leaves.
    Sorting(&'static [(&'static str, &'static str)]),
    /// The share of lines that are flushed by inserts that copy a leaf (or split it).
    Copies,
    /// The time until a pool answers again: after a kill, and after an orderly close.
    Opening,
    /// The rebuilding of inner nodes.
    Rebuilds,
    /// The 99th percentile of the latencies of a key-value store behind the trees.
    Tail,
    /// The throughput of key-value stores in these mixes.
    Throughput(&'static [Mix]),
    Micro,
    /// What Cachegrind counts.
    Simulated(Misses),
    /// Nothing can be shown, for this reason.
    Nothing(&'static str),
}

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misses {
    /// Loads that are executed.
    Loads,
    /// Misses of the last cache, and one for each line that is flushed.
    LastCache,
}

impl Show {
    /// The JSON key of the figure's own number.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Time | Self::Micro | Self::Nothing(_) => "ns_per_op",
            Self::Lines => "lines_per_op",
            Self::Flushed => "flushed_bytes_per_op",
            Self::Barriers => "barriers_per_op",
            Self::Simulated(Misses::Loads) => "loads_per_op",
            Self::Simulated(Misses::LastCache) => "misses_per_op",
            Self::Inner(_) => "inner_percent",
            Self::Sorting(_) => "sorting_percent",
            Self::Copies => "copied_lines_percent",
            Self::Opening => "ms",
            Self::Rebuilds => "rebuild_ms",
            Self::Tail => "p99_us",
            Self::Throughput(_) => "kops",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Time | Self::Micro | Self::Nothing(_) => "ns/op",
            Self::Lines => "lines/op",
            Self::Flushed => "bytes/op",
            Self::Barriers => "barriers",
            Self::Inner(_) | Self::Sorting(_) | Self::Copies => "percent",
            Self::Opening | Self::Rebuilds => "ms",
            Self::Tail => "us",
            Self::Throughput(_) => "kop/s",
            Self::Simulated(Misses::Loads) => "loads/op",
            Self::Simulated(Misses::LastCache) => "misses/op",
        }
    }

    /// Whether the clock is needed. Other figures only count, and run once.
    pub(crate) fn is_timed(self) -> bool {
        matches!(self, Self::Time | Self::Rebuilds | Self::Tail | Self::Throughput(_))
    }
}

pub(crate) const SIZES: &[u32] = &[512, 1024, 2048, 4096];

/// The defaults, which most figures share.
pub(crate) const USUAL: Figure = Figure {
    id: "",
    title: "",
    claim: "",
    claims: &[],
    metric: Metric::Cpu,
    papers_slow: 0,
    papers_flush: "clwb",
    volatile_waits: false,
    trees: &[],
    subject: "",
    bytes: SIZES,
    millions: &[1],
    each: false,
    threads: &[1],
    slow: &[],
    before: &[],
    steps: &[Step::Insert],
    apart: false,
    show: Show::Time,
};

impl Figure {
    /// The numbers of keys, in ascending order. The greatest is `n`, and the others are in the same proportion to it as
    /// in the paper. Those below a million are left out, but at least two numbers are kept, because a figure of growth
    /// needs two.
    pub(crate) fn keys(&self, n: u64, full: bool) -> Vec<u64> {
        const MILLION: u64 = 1_000_000;
        let greatest = self.millions.iter().copied().max().unwrap_or(1);
        if full {
            return self.millions.iter().map(|millions| millions * MILLION).collect();
        }
        let keys: Vec<u64> = self.millions.iter().map(|millions| n * millions / greatest).collect();
        let small = keys.iter().filter(|&&keys| keys < MILLION).count();
        keys[small.min(keys.len().saturating_sub(2))..].to_vec()
    }

    /// Whether the word asks for this figure: its name, the name of the paper, or a name with one letter more or less
    /// at the end.
    pub(crate) fn is_meant(&self, word: &str) -> bool {
        let lettered = |long: &str, short: &str| {
            long.strip_prefix(short).is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_lowercase())
        };
        self.id == word || self.paper() == word || lettered(self.id, word) || lettered(word, self.id)
    }

    pub(crate) fn paper(&self) -> &'static str {
        self.id.split(':').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_paper_or_in_proportion() {
        let growth = Figure { millions: &[1, 10, 100], ..USUAL };
        assert_eq!(growth.keys(1_000_000, true), [1_000_000, 10_000_000, 100_000_000]);
        assert_eq!(growth.keys(100_000_000, false), [1_000_000, 10_000_000, 100_000_000]);
        assert_eq!(growth.keys(10_000_000, false), [1_000_000, 10_000_000]);
        assert_eq!(growth.keys(20_000, false), [2000, 20_000]);
        assert_eq!(USUAL.keys(20_000, false), [20_000]);
        assert_eq!(Figure { millions: &[10], ..USUAL }.keys(20_000, false), [20_000]);
    }
}
