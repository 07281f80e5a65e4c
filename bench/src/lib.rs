//! How long operations take, and what they ask of the medium: this crate's trees next to other maps and stores.
//!
//! Time and counts come from separate passes over the same operations: [`phases`] says what is done, [`clock`] times it
//! on a file, [`counts`] counts on a medium in memory, without noise. [`reopen`] measures something else. What is measured
//! is a [`subject`], one of the [`peers`] perhaps; which keys are used says [`keys`]. A [`figure`] is what a paper measured.

// The command line's. Not all of it is needed here.
#[allow(dead_code)]
#[path = "../../src/bin/bristlecone/common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../../src/bin/bristlecone/trees.rs"]
mod trees;

mod chart;
mod clock;
mod counts;
mod figure;
mod keys;
mod media;
mod mix;
#[cfg(feature = "peers")]
mod peers;
#[cfg(not(feature = "peers"))]
#[path = "no_peers.rs"]
mod peers;
mod phases;
mod reopen;
mod report;
mod subject;
mod worker;

use bristlecone::medium::Domain;
use clap::{Parser, ValueEnum};
use common::{numbers, out, parse, scratch};
use keys::Pattern;
use mix::Mix;
use out::Outcome;
use parse::{Index, Layout, Usage};
use peers::Peer;
use phases::Job;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use trees::{Shape, Values};

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "bristlecone-bench", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    args: Args,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    #[command(hide = true)]
    Worker(worker::Args),
}

/// Measure nanoseconds, lines, fences, order points and bytes per operation
///
/// Several layouts, sizes, indexes, peers and mixes can be given, separated by commas; the contestants take turns in every
/// repeat, so that a slow minute of the machine hits all of them.
#[derive(Debug, clap::Args)]
struct Args {
    /// Contestants
    #[arg(long, value_delimiter = ',', default_value = "one_line")]
    layout: Vec<Kind>,
    /// Bytes of a sorted node's slots: 512, 1K, 2K or 4K
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "512", value_parser = parse::slots)]
    node_bytes: Vec<u32>,
    /// Where the index lives
    #[arg(long, value_delimiter = ',', default_value = "volatile")]
    index: Vec<Index>,
    /// Keys, as in 1000000 or 1M
    #[arg(long, default_value = "1M", value_parser = parse::number)]
    n: u64,
    /// The order of inserts, and which keys are accessed; reopen and counts are always uniform
    #[arg(long, value_name = "PATTERN", default_value = "uniform")]
    keys: Pattern,
    /// What to measure
    #[arg(long, value_delimiter = ',', default_value = "insert,get")]
    mix: Vec<Mix>,
    /// Threads that do it at the same time, each its share; scan: each everything. Reopen and counts have one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// BTreeMap as a further contestant, with ratios
    #[arg(long)]
    vs_btreemap: bool,
    /// Other maps and stores as further contestants: names, volatile, stores or all (needs feature peers)
    ///
    /// Volatile: btreemap, rwlock-btreemap, brie-tree, congee, scc-treeindex, crossbeam-skiplist. Stores: redb, lmdb,
    /// fjall, sled, sqlite and, with feature peers-rocksdb, rocksdb; none waits for the disk. The same with -sync at the end
    /// sync after each batch, and after every 1000th write of others, which only costs something if --medium is a disk;
    /// these are not in `all` or `stores`, but in `synced`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Vec<String>,
    /// Where the pool is: dram, shm, or the path of a directory [default: shm, else the temporary directory]
    #[arg(long, value_name = "dram|shm|DIR")]
    medium: Option<media::Place>,
    /// Flush as persistent memory wants it (power), or not at all (none)
    #[arg(long, default_value = "none")]
    flush: Flush,
    /// Wait so long for each flushed line; the papers' number is 300 [default: 0, for figures 300]
    #[arg(long, value_name = "NS")]
    slow: Option<u64>,
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
    /// Draw the times as bars, one group per mix
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON object per line; with --figure, FILE takes them, and the tables are printed all the same
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Rerun figures of papers instead, as in circ:7b, or all of a paper, as in circ; `list` says what there is
    ///
    /// Each figure has its own contestants, sizes and mixes. Without --full its greatest number of keys is --n.
    #[arg(
        long,
        value_name = "PAPER:FIGURE",
        value_delimiter = ',',
        conflicts_with_all = [
            "layout", "node_bytes", "index", "keys", "mix", "threads", "vs_btreemap", "peers", "flush", "batch", "no_counts",
        ]
    )]
    figure: Vec<String>,
    /// Figures with as many keys as in the paper
    #[arg(long, requires = "figure")]
    full: bool,
}

/// Kinds of contestants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[value(name = "one_line", alias = "one-line")]
    OneLine,
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
    Peer(Peer),
}

impl Contestant {
    /// Layout or name.
    fn name(self) -> &'static str {
        match self {
            Self::Tree(shape) => shape.layout.name(),
            Self::BTreeMap => "btreemap",
            Self::Peer(peer) => peer.name(),
        }
    }

    /// All that tells it from the others.
    fn label(self) -> String {
        match self {
            Self::Tree(shape) => format!("{} {} {}", self.name(), shape.node_bytes(), shape.index.name()),
            Self::BTreeMap | Self::Peer(_) => self.name().to_owned(),
        }
    }

    /// Whether several threads can use it.
    fn is_shared(self) -> bool {
        match self {
            Self::Tree(_) => true,
            Self::BTreeMap => false,
            Self::Peer(peer) => peer.is_shared(),
        }
    }
}

/// What was asked, in the form that the measuring needs.
#[derive(Debug)]
pub(crate) struct Plan {
    contestants: Vec<Contestant>,
    /// Asked for, but not for so many threads.
    left_out: Vec<Contestant>,
    n: u64,
    pattern: Pattern,
    threads: u32,
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
    svg: Option<PathBuf>,
    json: bool,
}

impl Plan {
    /// These mixes of one repeat.
    fn job<'j>(&self, repeat: u32, mixes: &'j [Mix]) -> Job<'j> {
        let seed = self.seed.wrapping_add(repeat.into());
        Job { n: self.n, pattern: self.pattern, threads: self.threads, seed, mixes }
    }
}

impl Args {
    fn contestants(&self) -> Outcome<Vec<Contestant>> {
        let mut contestants = Vec::new();
        for &index in &self.index {
            if self.layout.contains(&Kind::OneLine) {
                contestants.push(Contestant::Tree(Shape::usual(Layout::OneLine, index)));
            }
            for &slots in &self.node_bytes {
                for kind in &self.layout {
                    let layout = match kind {
                        Kind::Linear => Layout::Linear,
                        Kind::Circular => Layout::Circular,
                        Kind::OneLine | Kind::BTreeMap => continue,
                    };
                    contestants.push(Contestant::Tree(Shape { layout, slots, index, values: Values::Numbers }));
                }
            }
        }
        let peers = if self.peers.is_empty() { Vec::new() } else { peers::chosen(&self.peers)? };
        let is_peer = peers.iter().any(|peer| peer.name() == Contestant::BTreeMap.name());
        if (self.vs_btreemap || self.layout.contains(&Kind::BTreeMap)) && !is_peer {
            contestants.push(Contestant::BTreeMap);
        }
        contestants.extend(peers.into_iter().map(Contestant::Peer));
        Ok(contestants)
    }

    fn plan(self) -> Outcome<Plan> {
        let fits = |contestant: &Contestant| self.threads == 1 || contestant.is_shared();
        let (contestants, left_out): (Vec<_>, Vec<_>) = self.contestants()?.into_iter().partition(fits);
        if contestants.is_empty() {
            let why = format!("nothing to measure: no contestant is for {} threads", self.threads);
            return Err(Usage(why).into());
        }
        let mut mixes = self.mix;
        mixes.sort_unstable();
        mixes.dedup();
        let place = self.medium.unwrap_or_default();
        let slow = self.slow.unwrap_or(0);
        if place == media::Place::Dram && (slow > 0 || self.flush == Flush::Power) {
            return Err(Usage("--medium dram has no lines to flush".to_owned()).into());
        }
        if self.n / u64::from(self.threads) < self.batch {
            return Err(Usage(format!("--n {} is less than a batch of {} per thread", self.n, self.batch)).into());
        }
        if self.json.as_deref().is_some_and(|file| file.as_os_str() != "-") {
            return Err(Usage("--json takes a file with --figure only".to_owned()).into());
        }
        Ok(Plan {
            contestants,
            left_out,
            n: self.n,
            pattern: self.keys,
            threads: self.threads,
            mixes,
            place,
            domain: (self.flush == Flush::Power).then_some(Domain::Power),
            slow: Duration::from_nanos(slow),
            repeat: self.repeat,
            batch: self.batch,
            seed: self.seed.unwrap_or_else(numbers::seed),
            count: !self.no_counts,
            svg: self.svg,
            json: self.json.is_some(),
        })
    }

    /// What was asked for with `--figure`.
    fn figures(self) -> Outcome<figure::Plan> {
        let media::Place::Directory(directory) = self.medium.unwrap_or_default() else {
            return Err(Usage("--medium dram has no lines to flush".to_owned()).into());
        };
        Ok(figure::Plan {
            figures: self.figure,
            n: self.n,
            full: self.full,
            slow: self.slow.unwrap_or(figure::SLOW),
            repeat: self.repeat,
            seed: self.seed.unwrap_or_else(numbers::seed),
            directory,
            svg: self.svg,
            json: self.json,
        })
    }
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let Cli { args, command } = Cli::parse();
    let ended = match command {
        Some(Command::Worker(args)) if args.peer.is_some() => reopen::worker(&args),
        Some(Command::Worker(args)) => worker::run(args),
        None => run(args),
    };
    match ended {
        Ok(code) => code,
        Err(error) if out::is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            out::aside(&format!("bristlecone: {}", out::shown(&error.to_string())));
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn run(args: Args) -> Outcome {
    if !args.figure.is_empty() {
        return figure::run(&args.figures()?);
    }
    let plan = args.plan()?;
    let timed: Vec<Mix> = plan.mixes.iter().copied().filter(|mix| mix.is_timed()).collect();
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
