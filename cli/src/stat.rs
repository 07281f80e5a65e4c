//! `stat`: figures about a pool and its trees.

use crate::journal;
use crate::opening::Opening;
use crate::out::{self, Outcome};
use crate::parse;
use crate::words;
use bristlecone::medium::JournalStat;
use bristlecone::stat::{Stat, TreeInfo};
use bristlecone::{ByteLeaf, Error, ErrorKind, Node, Pool, Report};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// Show what a pool and its trees hold, without changing anything
///
/// While a process has the pool open for writing, nobody else can look into it: that process's locks are in its own
/// memory. It can tell by itself, through the library.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool file
    #[arg(value_parser = parse::pool())]
    pool: PathBuf,
    /// Print one JSON object
    ///
    /// `memory_bytes` of a tree is what it would take in memory just after an open.
    #[arg(long)]
    json: bool,
    /// Look again every so many seconds, and print what has changed, until interrupted
    ///
    /// There is news when a process has opened the pool for writing, when it has closed it, and when it was killed.
    /// While nothing changes, the pool is neither opened nor locked. A process that opens it for writing just while it
    /// is looked at is refused. What does not pass, such as damage, ends it: with --json, the last line has the error,
    /// too.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    watch: Option<Duration>,
    #[command(flatten)]
    opening: Opening,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|time| *time >= Duration::from_millis(10))
        .ok_or_else(|| "not a number of seconds from 0.01 on".to_owned())
}

/// A pool's figures.
struct Figures {
    pool: Stat,
    /// What there is of its journal, if it has one.
    journal: Option<JournalStat>,
    /// Bytes that the file system has allocated for the file.
    on_disk: Option<u64>,
    trees: Vec<Tree>,
}

/// A tree, and what a check of all its leaves found.
struct Tree {
    info: TreeInfo,
    found: Report,
}

impl Tree {
    /// Keys, leaves and height, if they are known and there is no damage.
    fn sound(&self) -> Option<&Report> {
        Some(&self.found).filter(|found| found.is_clean())
    }

    /// How full the leaves are. The last leaf of a chain of words holds at most the key MAX, so it is left out.
    fn fill(&self) -> Option<f64> {
        let found = self.sound()?;
        let of_bytes = self.info.layout.split('/').next() == Some(<ByteLeaf>::NAME);
        let leaves = if of_bytes { found.leaves } else { found.leaves.saturating_sub(1) }.max(1);
        Some(found.entries as f64 / (leaves * u64::from(self.info.slots)) as f64)
    }
}

impl Figures {
    fn keys(&self) -> u64 {
        self.trees.iter().map(|tree| tree.found.entries).sum()
    }

    fn leaves(&self) -> u64 {
        self.trees.iter().map(|tree| tree.found.leaves).sum()
    }

    fn problems(&self) -> usize {
        self.trees.iter().map(|tree| tree.found.violations.len()).sum()
    }

    fn bytes_per_key(&self) -> Option<f64> {
        let counted = self.trees.iter().filter(|tree| tree.found.unchecked.is_empty());
        let bytes: u64 = counted.map(|tree| tree.info.bytes).sum();
        (self.keys() > 0).then(|| bytes as f64 / self.keys() as f64)
    }

    /// Bytes of memory per key of an open tree.
    fn memory_per_key(&self) -> Option<f64> {
        let bytes: u64 = self.trees.iter().map(|tree| tree.found.memory).sum();
        (self.keys() > 0).then(|| bytes as f64 / self.keys() as f64)
    }

    fn last_shutdown(&self) -> &'static str {
        match (self.pool.power_loss, self.pool.was_clean) {
            (true, _) => "power loss",
            (false, true) => "clean",
            (false, false) => "crash",
        }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.watch {
        None => show(&args)?,
        Some(every) => watch(&args, every)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What tells that a pool has changed, as far as it can be seen without its lock: every open for writing and every
/// close changes the superblock.
fn trace(path: &Path) -> io::Result<(u64, SystemTime, Vec<u8>)> {
    const HEADER: u64 = 8192;
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let mut header = Vec::new();
    // A pipe or a device would not end, or wait.
    if meta.is_file() {
        file.take(HEADER).read_to_end(&mut header)?;
    }
    Ok((meta.len(), meta.modified()?, header))
}

/// Shows the pool whenever it has changed.
fn watch(args: &Args, every: Duration) -> Outcome<()> {
    let (mut shown, mut is_refused, mut told) = (None, false, String::new());
    loop {
        let found = trace(&args.pool).ok();
        // The process for which the pool was refused may have been killed, which changes nothing in the file.
        if is_refused || found.is_none() || found != shown {
            match show(args) {
                Ok(()) => {
                    // If the pool was changed while this was read, the next trace differs from `found`, and tells.
                    (shown, is_refused) = (found, false);
                    told.clear();
                }
                Err(error) => {
                    let Some(refusal) = error.downcast_ref::<Error>() else { return Err(error) };
                    if !passes(&refusal.kind) {
                        // The last line tells it, too, to a program that reads the lines.
                        if args.json {
                            absent(args, refusal)?;
                        }
                        return Err(error);
                    }
                    is_refused = true;
                    // Once.
                    if told != refusal.to_string() {
                        told = refusal.to_string();
                        absent(args, refusal)?;
                    }
                }
            }
        }
        sleep(every);
    }
}

/// Whether an error may pass: another process has the pool open, or has not made it yet, or is making it.
fn passes(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::InUse | ErrorKind::NotFound | ErrorKind::NotAPool { found: "an empty file" })
}

/// Says that there is nothing to be seen, and why.
fn absent(args: &Args, error: &Error) -> Outcome<()> {
    let is_in_use = matches!(error.kind, ErrorKind::InUse);
    if args.json {
        let pool = args.pool.to_string_lossy();
        out::json(&json!({ "pool": pool, "in_use": is_in_use, "error": words::of_kind(&error.kind) }))?;
    } else {
        let name = out::shown(&args.pool.to_string_lossy());
        let why = if is_in_use {
            "in use: its figures are with the process that has it open"
        } else {
            &*words::of_kind(&error.kind)
        };
        out::text(&format!("{name}: {why}"))?;
    }
    Ok(())
}

fn show(args: &Args) -> Outcome<()> {
    let pool = args.opening.open(Pool::options().read_only(true), &args.pool)?;
    let mut trees = Vec::new();
    for info in pool.trees()? {
        let found = pool.check_tree(&info.name)?;
        trees.push(Tree { info, found });
    }
    trees.sort_by(|a, b| a.info.name.cmp(&b.info.name));
    let on_disk = pool.medium().allocated().ok();
    let figures = Figures { pool: pool.stat(), journal: pool.journal(), on_disk, trees };
    if args.json {
        out::json(&object(&figures))?;
    } else {
        out::text(&text(&figures))?;
    }
    Ok(())
}

fn object(figures: &Figures) -> Value {
    let tree = |tree: &Tree| {
        let (info, found) = (&tree.info, tree.sound());
        json!({
            "name": info.name,
            "layout": info.layout,
            "index": info.index,
            "key_kind": info.keys,
            "value_kind": info.values,
            "stored_key_kind": info.stored_keys,
            "stored_value_kind": info.stored_values,
            "bytes": info.bytes,
            "keys": found.map(|found| found.entries),
            "leaves": found.map(|found| found.leaves),
            "fill": tree.fill().map(|fill| out::rounded(fill, 4)),
            "height": found.map(|found| found.height),
            "memory_bytes": found.map(|found| found.memory),
        })
    };
    let pool = &figures.pool;
    json!({
        "pool": pool.name,
        "uuid": format!("{:016x}{:016x}", pool.uuid[0], pool.uuid[1]),
        "format": pool.format,
        "pool_bytes": pool.capacity,
        "segment_bytes": pool.segment,
        "used_bytes": pool.used,
        "available_bytes": pool.available,
        "allocated_bytes": figures.on_disk,
        "boots": pool.boots,
        "last_shutdown": figures.last_shutdown(),
        "domain": pool.durability.name(),
        "journal": figures.journal.as_ref().map(journal::object),
        "keys": figures.keys(),
        "leaves": figures.leaves(),
        "bytes_per_key": figures.bytes_per_key().map(|bytes| out::rounded(bytes, 2)),
        "memory_bytes_per_key": figures.memory_per_key().map(|bytes| out::rounded(bytes, 2)),
        "problems": figures.problems(),
        "trees": figures.trees.iter().map(tree).collect::<Vec<_>>(),
    })
}

fn text(figures: &Figures) -> String {
    let pool = &figures.pool;
    let on_disk = figures.on_disk.map_or_else(String::new, |bytes| format!(", {} on disk", out::bytes(bytes)));
    let is_limited = pool.capacity < 1 << 47;
    let limit = if is_limited { format!(", of {} at most", out::bytes(pool.capacity)) } else { String::new() };
    let shutdown = match (pool.power_loss, pool.was_clean) {
        (true, _) => {
            "not all on the disk before the machine was started anew (a loss of power, a crash, an orderly reboot after a kill, a copy on another machine), or the disk failed: `check --after-power-loss` tells what it is worth"
        }
        (false, true) => "closed in order",
        (false, false) => "not closed: it crashed, or was killed",
    };
    let per_key = figures.bytes_per_key().zip(figures.memory_per_key());
    let per_key = per_key.map_or_else(String::new, |(pool, memory)| {
        format!(", {pool:.1} bytes each in the pool, {memory:.1} in memory while open")
    });
    let mut lines = vec![
        out::shown(&pool.name),
        format!("  space      {} in use{on_disk}{limit}", out::bytes(pool.used)),
        format!("  last time  {shutdown}; opened {}", out::counted(pool.boots, "time", "times")),
        format!("  domain     {}: {}", pool.durability.name(), pool.durability.promise()),
        format!("  content    {}{per_key}", out::counted(figures.keys(), "key", "keys")),
    ];
    lines.extend(figures.journal.as_ref().map(|figures| format!("  journal    {}", journal::state(figures))));
    lines.push(String::new());
    if figures.trees.is_empty() {
        lines.push("  no trees".to_owned());
    } else {
        let width =
            figures.trees.iter().map(|tree| out::shown(&tree.info.name).chars().count()).max().unwrap_or(0).max(4);
        let kinds = |tree: &Tree| out::shown(&format!("{} -> {}", tree.info.keys, tree.info.values));
        let kinds_width = figures.trees.iter().map(|tree| kinds(tree).len()).max().unwrap_or(0).max(12);
        let name = |name: &str| format!("{:width$}", out::shown(name));
        lines.push(format!(
            "  {}  layout         index       {:kinds_width$}  {:>13}  {:>11}  height   fill       bytes",
            name("tree"),
            "kinds",
            "keys",
            "leaves"
        ));
        for tree in &figures.trees {
            let dash = || "-".to_owned();
            let (info, found) = (&tree.info, tree.sound());
            lines.push(format!(
                "  {}  {:13}  {:10}  {:kinds_width$}  {:>13}  {:>11}  {:>6}  {:>5}  {:>10}",
                name(&info.name),
                info.layout,
                info.index,
                kinds(tree),
                found.map_or_else(dash, |found| out::count(found.entries)),
                found.map_or_else(dash, |found| out::count(found.leaves)),
                found.map_or_else(dash, |found| out::count(found.height)),
                tree.fill().map_or_else(dash, |fill| format!("{fill:.2}")),
                out::bytes(info.bytes),
            ));
        }
    }
    let unchecked = figures.trees.iter().filter(|tree| !tree.found.unchecked.is_empty()).count() as u64;
    if unchecked > 0 {
        let trees = out::counted(unchecked, "tree is", "trees are");
        lines.push(format!("\n  {trees} not counted: only the program that made them knows nodes of their size"));
    }
    if figures.problems() > 0 {
        let broken = out::counted(figures.problems() as u64, "broken invariant", "broken invariants");
        lines.push(format!("\n  {broken}: see `bristlecone check`"));
    }
    lines.join("\n")
}
