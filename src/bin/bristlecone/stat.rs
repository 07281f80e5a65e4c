//! `stat`: figures about a pool and its trees.

use crate::out::{self, Outcome};
use bristlecone::{Pool, Report, Stat, TreeInfo};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what a pool and its trees hold, without changing anything
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool file
    pool: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A pool's figures.
struct Figures {
    pool: Stat,
    /// Bytes of the file that its file system has allocated.
    on_disk: Option<u64>,
    /// What a look at all leaves found.
    found: Report,
    trees: Vec<TreeInfo>,
}

impl Figures {
    /// Keys and leaves of a tree. A report is of the whole pool, so only where there is one tree it is that tree's.
    fn of_tree(&self) -> Option<&Report> {
        Some(&self.found).filter(|found| found.trees == 1 && found.is_clean())
    }

    /// How full the leaves of a tree are. The last leaf of a chain holds at most the key MAX: it is left out.
    fn fill(&self, tree: &TreeInfo) -> Option<f64> {
        let found = self.of_tree()?;
        let leaves = found.leaves.saturating_sub(1).max(1);
        Some(found.entries as f64 / (leaves * u64::from(tree.slots)) as f64)
    }

    fn used(&self) -> u64 {
        self.pool.capacity - self.pool.available
    }

    fn bytes_per_key(&self) -> Option<f64> {
        let bytes: u64 = self.trees.iter().map(|tree| tree.bytes).sum();
        (self.found.entries > 0).then(|| bytes as f64 / self.found.entries as f64)
    }

    fn last_shutdown(&self) -> &'static str {
        if self.pool.was_clean { "clean" } else { "crash" }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let pool = Pool::options().read_only(true).open(&args.pool)?;
    let mut trees = pool.trees()?;
    trees.sort_by(|a, b| a.name.cmp(&b.name));
    let on_disk = pool.medium().allocated().ok();
    let figures = Figures { pool: pool.stat(), on_disk, found: pool.check()?, trees };
    if args.json {
        out::json(&object(&figures))?;
    } else {
        out::text(&text(&figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn object(figures: &Figures) -> Value {
    let tree = |tree: &TreeInfo| {
        let found = figures.of_tree();
        json!({
            "name": tree.name,
            "layout": tree.layout,
            "index": tree.index,
            "key_kind": tree.keys,
            "value_kind": tree.values,
            "bytes": tree.bytes,
            "keys": found.map(|found| found.entries),
            "leaves": found.map(|found| found.leaves),
            "fill": figures.fill(tree).map(|fill| out::rounded(fill, 4)),
            "height": Value::Null,
        })
    };
    let pool = &figures.pool;
    json!({
        "pool": pool.name,
        "uuid": format!("{:016x}{:016x}", pool.uuid[0], pool.uuid[1]),
        "format": pool.format,
        "pool_bytes": pool.capacity,
        "segment_bytes": pool.segment,
        "used_bytes": figures.used(),
        "available_bytes": pool.available,
        "allocated_bytes": figures.on_disk,
        "boots": pool.boots,
        "last_shutdown": figures.last_shutdown(),
        "domain": pool.durability.name(),
        "keys": figures.found.entries,
        "leaves": figures.found.leaves,
        "bytes_per_key": figures.bytes_per_key().map(|bytes| out::rounded(bytes, 2)),
        "problems": figures.found.violations.len(),
        "trees": figures.trees.iter().map(tree).collect::<Vec<_>>(),
    })
}

fn text(figures: &Figures) -> String {
    let pool = &figures.pool;
    let on_disk = figures.on_disk.map_or_else(String::new, |bytes| format!(", {} on disk", out::bytes(bytes)));
    let shutdown = if pool.was_clean { "closed in order" } else { "not closed: it crashed, or was killed" };
    let per_key = figures.bytes_per_key().map_or_else(String::new, |bytes| format!(", {bytes:.1} bytes each"));
    let mut lines = vec![
        pool.name.clone(),
        format!("  capacity   {}, {} in use{on_disk}", out::bytes(pool.capacity), out::bytes(figures.used())),
        format!("  last time  {shutdown}; opened {}", out::counted(pool.boots, "time", "times")),
        format!("  domain     {}: {}", pool.durability.name(), pool.durability.promise()),
        format!("  content    {}{per_key}", out::counted(figures.found.entries, "key", "keys")),
        String::new(),
    ];
    if figures.trees.is_empty() {
        lines.push("  no trees".to_owned());
    } else {
        let width = figures.trees.iter().map(|tree| tree.name.chars().count()).max().unwrap_or(0).max(4);
        let name = |name: &str| format!("{name:width$}");
        lines.push(format!(
            "  {}  layout         index       kinds         {:>13}  {:>11}   fill       bytes",
            name("tree"),
            "keys",
            "leaves"
        ));
        for tree in &figures.trees {
            let dash = || "-".to_owned();
            let found = figures.of_tree();
            lines.push(format!(
                "  {}  {:13}  {:10}  {:12}  {:>13}  {:>11}  {:>5}  {:>10}",
                name(&tree.name),
                tree.layout,
                tree.index,
                format!("{} -> {}", tree.keys, tree.values),
                found.map_or_else(dash, |found| out::count(found.entries)),
                found.map_or_else(dash, |found| out::count(found.leaves)),
                figures.fill(tree).map_or_else(dash, |fill| format!("{fill:.2}")),
                out::bytes(tree.bytes),
            ));
        }
    }
    if !figures.found.is_clean() {
        let broken = out::counted(figures.found.violations.len() as u64, "broken invariant", "broken invariants");
        lines.push(format!("\n  {broken}: see `bristlecone check`"));
    }
    lines.join("\n")
}
