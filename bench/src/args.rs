//! The arguments, and what they ask for.

use crate::entry::{Bytes, KeyArg};
use crate::figure;
use crate::keys::Pattern;
use crate::mix::Mix;
use crate::numbers;
use crate::out::Outcome;
use crate::parse::{self, Index, Layout, Usage};
use crate::peers;
use crate::place::{Place, Site, SlowPer};
use crate::plan::{Contestant, Plan};
use crate::shape::Shape;
use bristlecone::medium::Domain;
use bristlecone::{Access, Journal};
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;

/// Measure nanoseconds, lines, fences, order points and bytes per operation
///
/// Several layouts, sizes, indexes, peers and mixes can be given, separated by commas; the contestants take turns in
/// every repeat, so that a slow minute of the machine hits all of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Contestants; with keys that are texts, `one_line` is the map of byte strings; nv_store is for these, and for
    /// conflict
    #[arg(long, value_delimiter = ',', default_value = "one_line")]
    layout: Vec<LayoutArg>,
    /// Bytes of a sorted node's slots: 512, 1K, 2K or 4K
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "512", value_parser = parse::slots)]
    node_bytes: Vec<u32>,
    /// Where the index lives
    #[arg(long, value_delimiter = ',', default_value = "volatile")]
    index: Vec<Index>,
    /// What keys are
    #[arg(long, default_value = "u64")]
    key: KeyArg,
    /// Bytes of a value; if keys are not texts, 8
    #[arg(long, value_name = "BYTES", default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=1 << 20))]
    value: u32,
    /// Keys, as in 1000000 or 1M
    #[arg(long, default_value = "1M", value_parser = parse::number)]
    n: u64,
    /// Operations of a phase that neither inserts nor removes all keys [default: as many as there are keys]
    #[arg(long, value_name = "N", value_parser = parse::number)]
    operations: Option<u64>,
    /// The order of inserts, and which keys are accessed; reopen, space, counts and transaction are always uniform
    #[arg(long, value_name = "PATTERN", default_value = "uniform")]
    keys: Pattern,
    /// What to measure
    #[arg(long, value_delimiter = ',', default_value = "insert,get")]
    mix: Vec<Mix>,
    /// Threads that do it at the same time, each its share; scan: each everything. Of reopen and those after it, only
    /// conflict has several
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// BTreeMap as a further contestant, with ratios
    #[arg(long)]
    vs_btreemap: bool,
    /// Other maps and stores as further contestants: names, volatile, stores or all (needs feature peers)
    ///
    /// Volatile: btreemap, rwlock-btreemap, scc-treeindex, crossbeam-skiplist; of u64 keys brie-tree, congee; of texts
    /// blart and, with feature peers-masstree, masstree. Stores: redb, lmdb, lmdb-txn (a transaction for each read;
    /// lmdb keeps one), canopydb, fjall, sled, sqlite, redis (a process of its own, which needs redis-server; without a
    /// log) and, with feature peers-rocksdb, rocksdb; none waits for the disk. With -sync at the end, they sync
    /// after each batch, and after every 1000th write of others (redis: each second), which only costs something if
    /// --medium is a disk; these are not in `all` or `stores`, but in `synced`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Vec<String>,
    /// Give the pools a journal, and wait for the disk so: each, request, or a time, as in 10ms
    #[arg(long, value_name = "WHEN", value_parser = parse::journal)]
    journal: Option<Journal>,
    /// Where the pool is: dram, shm, or the path of a directory [default: shm, else the temporary directory; with a
    /// journal, and for what waits for the disk, a directory on a disk]
    #[arg(long, value_name = "dram|shm|DIR")]
    medium: Option<Place>,
    /// How much is read where a pool is not in memory, of --mix cold
    #[arg(long, default_value = "auto")]
    access: AccessArg,
    /// Flush as persistent memory requires it (power), or not at all (none)
    #[arg(long, default_value = "none")]
    flush: Flush,
    /// Nanoseconds to wait for each flushed line; the papers' number is 300 [default: 0, for figures 300]
    #[arg(long, value_name = "NS")]
    slow: Option<u64>,
    /// What --slow waits for
    #[arg(long, value_enum, default_value_t = SlowPer::Line, requires = "slow", conflicts_with = "figure")]
    slow_per: SlowPer,
    /// Repeats
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Operations between two readings of the clock
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Seed of the keys [default: a different one each time]
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
    /// Compare with another build of this program: both do the same in processes that take turns, one for each repeat
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["figure", "svg"])]
    pub(crate) against: Option<PathBuf>,
    /// Rerun figures of papers instead, as in circ:7b, or all of a paper, as in circ; `list` says what there is
    ///
    /// Each figure has its own contestants, sizes and mixes. Without --full its greatest number of keys is --n.
    #[arg(
        long,
        value_name = "PAPER:FIGURE",
        value_delimiter = ',',
        conflicts_with_all = [
            "layout", "node_bytes", "index", "key", "value", "operations", "keys", "mix", "threads", "vs_btreemap", "peers", "flush",
            "batch", "no_counts", "journal",
        ]
    )]
    pub(crate) figure: Vec<String>,
    /// Figures with as many keys as in the paper
    #[arg(long, requires = "figure")]
    full: bool,
    /// Figures in which no tree requests memory before it reads it, as the papers' trees do not
    #[arg(long, requires = "figure")]
    no_prefetch: bool,
}

/// Kinds of contestants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutArg {
    #[value(name = "one_line", alias = "one-line")]
    OneLine,
    Linear,
    Circular,
    /// The store of NV-Tree's paper, of byte strings
    #[value(name = "nv_store", alias = "nv-store")]
    NvStore,
    /// std's, which outlives nothing
    #[value(name = "btreemap")]
    BTreeMap,
}

/// How much is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessArg {
    /// As the pool decides, by its length and the memory
    Auto,
    /// A page
    Random,
    /// Much of what follows
    Sequential,
}

impl AccessArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Random => "random",
            Self::Sequential => "sequential",
        }
    }

    pub(crate) fn access(self) -> Access {
        match self {
            Self::Auto => Access::Auto,
            Self::Random => Access::Random,
            Self::Sequential => Access::Sequential,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flush {
    None,
    Power,
}

impl Args {
    fn contestants(&self) -> Outcome<Vec<Contestant>> {
        let mut contestants = Vec::new();
        let words = self.key == KeyArg::U64;
        let is_of_words = |layout: &LayoutArg| matches!(layout, LayoutArg::Linear | LayoutArg::Circular);
        if !words && (self.index != [Index::Volatile] || self.layout.iter().any(is_of_words)) {
            return Err(Usage("keys that are texts have one layout, with a volatile index".to_owned()).into());
        }
        if !words && self.layout.contains(&LayoutArg::OneLine) {
            contestants.push(Contestant::ByteMap);
        }
        for &index in self.index.iter().filter(|_| words) {
            if self.layout.contains(&LayoutArg::OneLine) {
                contestants.push(Contestant::Tree(Shape::usual(Layout::OneLine, index)));
            }
            for &slots in &self.node_bytes {
                for kind in &self.layout {
                    let layout = match kind {
                        LayoutArg::Linear => Layout::Linear,
                        LayoutArg::Circular => Layout::Circular,
                        LayoutArg::OneLine | LayoutArg::NvStore | LayoutArg::BTreeMap => continue,
                    };
                    contestants.push(Contestant::Tree(Shape { layout, slots, index }));
                }
            }
        }
        if self.layout.contains(&LayoutArg::NvStore) {
            if words && self.mix.iter().any(|mix| *mix != Mix::Conflict) {
                return Err(Usage("nv_store is for keys that are texts, and for --mix conflict".to_owned()).into());
            }
            contestants.push(Contestant::NvStore);
        }
        let peers = if self.peers.is_empty() { Vec::new() } else { peers::chosen(&self.peers, self.key)? };
        let is_peer = peers.iter().any(|peer| peer.name() == Contestant::BTreeMap.name());
        if (self.vs_btreemap || self.layout.contains(&LayoutArg::BTreeMap)) && !is_peer {
            contestants.push(Contestant::BTreeMap);
        }
        contestants.extend(peers.into_iter().map(Contestant::Peer));
        Ok(contestants)
    }

    pub(crate) fn plan(self) -> Outcome<Plan> {
        let fits = |contestant: &Contestant| self.threads == 1 || contestant.is_shared();
        let (contestants, left_out): (Vec<_>, Vec<_>) = self.contestants()?.into_iter().partition(fits);
        if contestants.is_empty() {
            let why = format!("nothing to measure: no contestant is for {} threads", self.threads);
            return Err(Usage(why).into());
        }
        let mut mixes = self.mix;
        mixes.sort_unstable();
        mixes.dedup();
        if self.key == KeyArg::U64 && self.value as usize != Bytes::WORD {
            return Err(Usage("u64 keys have values of 8 bytes".to_owned()).into());
        }
        let words_only = |mix: &&Mix| matches!(mix, Mix::Limits | Mix::Counts | Mix::Transaction | Mix::Conflict);
        if let Some(mix) = mixes.iter().find(words_only).filter(|_| self.key != KeyArg::U64) {
            return Err(Usage(format!("--mix {} is for u64 keys", mix.name())).into());
        }
        let for_disks: Vec<Mix> = mixes.iter().copied().filter(|mix| mix.is_for_disks()).collect();
        let is_cold = mixes.contains(&Mix::Cold);
        let place = match self.medium {
            Some(place) => place,
            None if self.journal.is_some() || !for_disks.is_empty() || is_cold => Place::disk()?,
            None => Place::default(),
        };
        if is_cold && place.is_memory() {
            return Err(Usage("--mix cold takes a directory on a disk".to_owned()).into());
        }
        let slow = self.slow.unwrap_or(0);
        if self.journal.is_some() || !for_disks.is_empty() {
            if place == Place::Dram || slow > 0 || self.flush == Flush::Power {
                let why = "a journal takes a directory, and neither --slow nor --flush power";
                return Err(Usage(why.to_owned()).into());
            }
            let has_own = |mix: &&Mix| mix.is_for_disks() || matches!(mix, Mix::Space | Mix::Limits | Mix::Counts);
            if let Some(mix) = mixes.iter().find(has_own).filter(|_| self.journal.is_some()) {
                return Err(Usage(format!("--journal is not for --mix {}", mix.name())).into());
            }
        }
        if for_disks.contains(&Mix::Journal) && !contestants.iter().any(|contestant| contestant.is_ours()) {
            return Err(Usage("--mix journal is for trees".to_owned()).into());
        }
        if for_disks.contains(&Mix::Durable) {
            if place.is_memory() {
                let why =
                    "--mix durable waits for a disk, and what is in memory has none: --medium takes a directory on one";
                return Err(Usage(why.to_owned()).into());
            }
            if !contestants.iter().any(|contestant| contestant.waits_for_disk()) {
                return Err(
                    Usage("--mix durable is for trees, and for stores that wait for the disk".to_owned()).into()
                );
            }
        }
        if place == Place::Dram && (slow > 0 || self.flush == Flush::Power) {
            return Err(Usage("--medium dram has no lines to flush".to_owned()).into());
        }
        if let Some(mix) = mixes.iter().find(|mix| mix.takes_turns()) {
            if place == Place::Dram || slow > 0 {
                return Err(Usage(format!("--mix {} takes a directory, and no --slow", mix.name())).into());
            }
            if !contestants.iter().any(|contestant| contestant.has_snapshots()) {
                return Err(Usage(format!("--mix {} is for one_line", mix.name())).into());
            }
        }
        if self.against.is_some()
            && let Some(mix) = mixes.iter().find(|mix| !mix.is_timed())
        {
            return Err(Usage(format!("--against is not for --mix {}", mix.name())).into());
        }
        if self.operations.is_some()
            && let Some(mix) = mixes.iter().find(|mix| !mix.is_timed())
        {
            return Err(Usage(format!("--operations is not for --mix {}", mix.name())).into());
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
            key: self.key,
            value: self.value as usize,
            n: self.n,
            operations: self.operations,
            pattern: self.keys,
            threads: self.threads,
            mixes,
            site: Site {
                place,
                domain: (self.flush == Flush::Power).then_some(Domain::Power),
                journal: self.journal,
                slow: Duration::from_nanos(slow),
                slow_per: self.slow_per,
            },
            access: self.access,
            repeat: self.repeat,
            batch: self.batch,
            seed: self.seed.unwrap_or_else(numbers::seed),
            count: !self.no_counts,
            svg: self.svg,
            json: self.json.is_some(),
        })
    }

    /// The plan for `--figure`.
    pub(crate) fn figures(self) -> Outcome<figure::Plan> {
        let Place::Directory(directory) = self.medium.unwrap_or_default() else {
            return Err(Usage("--medium dram has no lines to flush".to_owned()).into());
        };
        Ok(figure::Plan {
            figures: self.figure,
            n: self.n,
            full: self.full,
            slow: self.slow.unwrap_or(figure::SLOW),
            no_prefetch: self.no_prefetch,
            repeat: self.repeat,
            seed: self.seed.unwrap_or_else(numbers::seed),
            directory,
            svg: self.svg,
            json: self.json,
        })
    }
}
