//! `bench`: how long operations take, and what they ask of the medium.
//!
//! Time and counts come from separate passes over the same operations: [`phases`] says what is done, [`clock`] times it
//! on a file, [`counts`] counts on a medium in memory, without noise. [`reopen`] measures something else.

mod clock;
mod counts;
mod media;
mod phases;
mod reopen;
mod report;

use crate::numbers;
use crate::out::Outcome;
use crate::parse::{self, Index, Layout, Usage};
use crate::trees::{Shape, Values};
use bristlecone::medium::Domain;
use clap::ValueEnum;
use std::process::ExitCode;
use std::time::Duration;

/// Measure nanoseconds, lines, fences, order points and bytes per operation
///
/// Keys are uniform u64. Several layouts, sizes, indexes and mixes can be given, separated by commas; the contestants
/// take turns in every repeat, so that a slow minute of the machine hits all of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Contestants
    #[arg(long, value_delimiter = ',', default_value = "circular")]
    layout: Vec<Kind>,
    /// Bytes of a node's slots: 512, 1K, 2K or 4K
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "512", value_parser = parse::slots)]
    node_bytes: Vec<u32>,
    /// Where the index lives
    #[arg(long, value_delimiter = ',', default_value = "volatile")]
    index: Vec<Index>,
    /// Keys, as in 1000000 or 1M
    #[arg(long, default_value = "1M", value_parser = parse::number)]
    n: u64,
    /// What to measure
    #[arg(long, value_delimiter = ',', default_value = "insert,get")]
    mix: Vec<Mix>,
    /// BTreeMap as a further contestant, with ratios
    #[arg(long)]
    vs_btreemap: bool,
    /// Where the pool is: dram, shm, or the path of a directory [default: shm, else the temporary directory]
    #[arg(long, value_name = "dram|shm|DIR")]
    medium: Option<media::Place>,
    /// Flush as persistent memory wants it (power), or not at all (none)
    #[arg(long, default_value = "none")]
    flush: Flush,
    /// Wait so long for each flushed line; the papers' number is 300
    #[arg(long, value_name = "NS", default_value_t = 0, hide_default_value = true)]
    slow: u64,
    /// Repeats
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Operations between two readings of the clock
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Of the keys [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Leave out the pass that counts lines and fences
    #[arg(long)]
    no_counts: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Mix {
    /// New keys into an empty tree
    Insert,
    /// Random keys that are there
    Get,
    /// New values for random keys that are there
    Update,
    /// All entries in order; per entry
    Scan,
    /// Half gets, a quarter inserts of new keys, a quarter removals
    Mixed,
    /// Every key, in random order
    Remove,
    /// Opening after an orderly close, and after SIGKILL
    Reopen,
    /// Lines and fences per insert next to the expectation, for both layouts and all sizes
    Counts,
}

impl Mix {
    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Get => "get",
            Self::Update => "update",
            Self::Scan => "scan",
            Self::Mixed => "mixed",
            Self::Remove => "remove",
            Self::Reopen => "reopen",
            Self::Counts => "counts",
        }
    }
}

/// Kinds of contestants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Linear,
    Circular,
    /// std's, which outlives nothing
    #[value(name = "btreemap")]
    BTreeMap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flush {
    None,
    Power,
}

/// One that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Contestant {
    Tree(Shape),
    BTreeMap,
}

/// What was asked, in the form that the measuring needs.
#[derive(Debug)]
pub(crate) struct Plan {
    contestants: Vec<Contestant>,
    n: u64,
    /// In the order in which they are run.
    mixes: Vec<Mix>,
    place: media::Place,
    /// As if the pools were on such a medium.
    domain: Option<Domain>,
    slow: Duration,
    repeat: u32,
    batch: u64,
    seed: u64,
    count: bool,
    json: bool,
}

impl Args {
    fn plan(self) -> Outcome<Plan> {
        let mut contestants = Vec::new();
        for &index in &self.index {
            for &slots in &self.node_bytes {
                for kind in &self.layout {
                    let layout = match kind {
                        Kind::Linear => Layout::Linear,
                        Kind::Circular => Layout::Circular,
                        Kind::BTreeMap => continue,
                    };
                    contestants.push(Contestant::Tree(Shape { layout, slots, index, values: Values::Numbers }));
                }
            }
        }
        if self.vs_btreemap || self.layout.contains(&Kind::BTreeMap) {
            contestants.push(Contestant::BTreeMap);
        }
        let mut mixes = self.mix;
        mixes.sort_unstable();
        mixes.dedup();
        let place = self.medium.unwrap_or_default();
        if place == media::Place::Dram && (self.slow > 0 || self.flush == Flush::Power) {
            return Err(Usage("--medium dram has no lines to flush".to_owned()).into());
        }
        if self.n < self.batch {
            return Err(Usage(format!("--n {} is less than a batch of {}", self.n, self.batch)).into());
        }
        Ok(Plan {
            contestants,
            n: self.n,
            mixes,
            place,
            domain: (self.flush == Flush::Power).then_some(Domain::Power),
            slow: Duration::from_nanos(self.slow),
            repeat: self.repeat,
            batch: self.batch,
            seed: self.seed.unwrap_or_else(numbers::seed),
            count: !self.no_counts,
            json: self.json,
        })
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let plan = args.plan()?;
    let timed: Vec<Mix> = plan.mixes.iter().copied().filter(|mix| *mix < Mix::Reopen).collect();
    if !timed.is_empty() {
        report::times(&plan, &timed)?;
    }
    if plan.mixes.contains(&Mix::Reopen) {
        reopen::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Counts) {
        counts::table(&plan)?;
    }
    Ok(ExitCode::SUCCESS)
}
