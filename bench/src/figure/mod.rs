//! `bench --figure PAPER:FIGURE`: the papers' figures, as far as they can be rerun without the papers' hardware.
//!
//! A figure is data: one table per paper ([`circ`], [`sentinel`], [`nv`], [`crab`]). What is measured is a [`tree`] by name,
//! on a [`medium`] with switches; how, a [`work`] step; the [`engine`] lets the contestants take turns, and [`row`] prints.
//! [`micro`] is for the one figure that is about no tree.
//!
//! Two things differ from the papers throughout. The figures tell CPU time per operation, which other processes lengthen
//! less, where the papers tell time. And a volatile tree does not wait for lines, because it flushes none.

mod circ;
mod copies;
mod crab;
mod engine;
mod medium;
mod micro;
mod nv;
mod row;
mod sentinel;
mod stage;
mod tree;
mod work;

use crate::out::Outcome;
use crate::parse::Usage;
use row::Sink;
use std::path::PathBuf;
use std::process::ExitCode;
use work::Step;

/// A figure, or a table, of a paper.
#[derive(Debug, Clone, Copy)]
struct Figure {
    /// Paper and number.
    id: &'static str,
    title: &'static str,
    /// What the paper found.
    claim: &'static str,
    /// Contestants by name, available or not.
    trees: &'static [&'static str],
    /// The one of them that the others are compared with.
    subject: &'static str,
    /// Bytes of a node's slots.
    bytes: &'static [u32],
    /// Keys in the paper, in millions, ascending.
    millions: &'static [u64],
    /// Whether every thread has so many keys of its own.
    each: bool,
    threads: &'static [u32],
    /// Nanoseconds that a flushed line takes longer; if none, those that are asked for, and 0.
    slow: &'static [u64],
    /// What is done before, and is not shown.
    before: &'static [Step],
    steps: &'static [Step],
    /// Whether every step has a tree of its own.
    apart: bool,
    show: Show,
}

/// What a figure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Time,
    Lines,
    /// Bytes flushed: whole lines.
    Flushed,
    /// Fences and order points: on some CPUs, both are instructions.
    Barriers,
    /// The share of lines that a persistent index costs: what the first of a pair flushes more than the second, which has
    /// the same leaves and its index in memory.
    Inner(&'static [(&'static str, &'static str)]),
    /// The share of lines that are flushed by inserts that copy a leaf (or split it).
    Copies,
    /// Until a pool answers again: after a kill, and after an orderly close.
    Opening,
    /// Rebuilding of inner nodes.
    Rebuilds,
    Micro,
    /// Nothing can be shown, for this reason.
    Nothing(&'static str),
}

impl Show {
    /// The key of JSON of the figure's own number.
    fn key(self) -> &'static str {
        match self {
            Self::Time | Self::Micro | Self::Nothing(_) => "ns_per_op",
            Self::Lines => "lines_per_op",
            Self::Flushed => "flushed_bytes_per_op",
            Self::Barriers => "barriers_per_op",
            Self::Inner(_) => "inner_percent",
            Self::Copies => "copied_lines_percent",
            Self::Opening => "ms",
            Self::Rebuilds => "rebuild_ms",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Time | Self::Micro | Self::Nothing(_) => "ns/op",
            Self::Lines => "lines/op",
            Self::Flushed => "bytes/op",
            Self::Barriers => "barriers",
            Self::Inner(_) | Self::Copies => "percent",
            Self::Opening | Self::Rebuilds => "ms",
        }
    }

    /// Whether the clock is needed: what is only counted is counted once.
    fn is_timed(self) -> bool {
        matches!(self, Self::Time | Self::Rebuilds)
    }
}

/// Nanoseconds that a flushed line takes longer in most of the papers.
pub(crate) const SLOW: u64 = 300;

const SIZES: &[u32] = &[512, 1024, 2048, 4096];

/// What most figures have in common.
const USUAL: Figure = Figure {
    id: "",
    title: "",
    claim: "",
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
    /// The numbers of keys, in ascending order. The greatest is `n`, and the others are to it as in the paper. Those that come
    /// to less than a million are left out, but for one: a figure of growth needs two.
    fn keys(&self, n: u64, full: bool) -> Vec<u64> {
        const MILLION: u64 = 1_000_000;
        let greatest = self.millions.iter().copied().max().unwrap_or(1);
        if full {
            return self.millions.iter().map(|millions| millions * MILLION).collect();
        }
        let keys: Vec<u64> = self.millions.iter().map(|millions| n * millions / greatest).collect();
        let small = keys.iter().filter(|&&keys| keys < MILLION).count();
        keys[small.min(keys.len().saturating_sub(2))..].to_vec()
    }

    /// Whether it is asked for by this word: its name, that of the paper, or one that has letters more or less.
    fn is_meant(&self, word: &str) -> bool {
        let lettered = |long: &str, short: &str| {
            long.strip_prefix(short).is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_lowercase())
        };
        self.id == word || self.paper() == word || lettered(self.id, word) || lettered(word, self.id)
    }

    fn paper(&self) -> &'static str {
        self.id.split(':').next().unwrap_or_default()
    }
}

/// What was asked.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Names of figures or papers, or `list`.
    pub(crate) figures: Vec<String>,
    pub(crate) n: u64,
    /// As many keys as in the paper.
    pub(crate) full: bool,
    /// Nanoseconds per flushed line, unless the figure says others.
    pub(crate) slow: u64,
    pub(crate) repeat: u32,
    pub(crate) seed: u64,
    /// Where the pools are.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    /// Where JSON goes, if it is wanted; `-`: to the standard output, and the tables nowhere.
    pub(crate) json: Option<PathBuf>,
}

/// Keys that a figure needs at least: the smallest zone is half a percent of them.
const LEAST: u64 = 1000;

fn all() -> impl Iterator<Item = &'static Figure> {
    [circ::FIGURES, sentinel::FIGURES, nv::FIGURES, crab::FIGURES].into_iter().flatten()
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let mut sink = Sink::new(plan)?;
    if plan.figures.iter().any(|name| name == "list") {
        all().try_for_each(|figure| sink.list(figure))?;
        return Ok(ExitCode::SUCCESS);
    }
    for name in &plan.figures {
        if !all().any(|figure| figure.is_meant(name)) {
            return Err(Usage(format!("no figure is named '{name}'; --figure list names them")).into());
        }
    }
    let asked: Vec<_> = all().filter(|figure| plan.figures.iter().any(|name| figure.is_meant(name))).collect();
    if plan.svg.is_some() && asked.len() > 1 {
        return Err(Usage(format!("--svg draws one figure, not {}", asked.len())).into());
    }
    if plan.n < LEAST {
        return Err(Usage(format!("--n {}: a figure needs {LEAST} keys", plan.n)).into());
    }
    for figure in asked {
        sink.head(figure)?;
        let rows = engine::run(figure, plan, &mut sink)?;
        if let Some(path) = &plan.svg {
            let picture = row::picture(figure, &rows);
            std::fs::write(path, picture).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn figures_are_well_formed() {
        let ids: HashSet<&str> = all().map(|figure| figure.id).collect();
        assert_eq!(ids.len(), all().count());
        for figure in all() {
            assert!(!figure.title.is_empty() && !figure.claim.is_empty(), "{}", figure.id);
            let measures_trees = !matches!(figure.show, Show::Micro | Show::Nothing(_));
            assert!(!measures_trees || figure.trees.contains(&figure.subject), "{}", figure.id);
            let names: HashSet<_> = figure.trees.iter().collect();
            assert_eq!(names.len(), figure.trees.len(), "{}", figure.id);
        }
    }

    #[test]
    fn every_contestant_is_in_some_figure() {
        for contestant in tree::TABLE {
            assert!(all().any(|figure| figure.trees.contains(&contestant.name)), "{}", contestant.name);
        }
    }

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

    #[test]
    fn names_have_letters_more_or_less() {
        let meant = |name: &str| all().filter(|figure| figure.is_meant(name)).map(|f| f.id).collect::<Vec<_>>();
        assert_eq!(meant("circ:7b"), ["circ:7b"]);
        assert_eq!(meant("circ:7"), ["circ:7a", "circ:7b", "circ:7c", "circ:7d"]);
        assert_eq!(meant("nv:11c"), ["nv:11"]);
        assert_eq!(meant("nv:1"), [""; 0]);
        assert!(meant("crab").len() > 5 && meant("circ:7e") == [""; 0]);
    }
}
