//! How many bytes an entry takes: of the pool, or of a store's files, and of memory.
//!
//! Each contestant is filled by a process of its own, which has used no memory before.

use crate::entry::with_entry;
use crate::media::{self, Held};
use crate::mix::Mix;
use crate::numbers::Keys;
use crate::out::{self, Outcome};
use crate::parse::Usage;
use crate::place::Place;
use crate::plan::Plan;
use crate::scratch::Scratch;
use crate::worker::Subject;
use bristlecone::{Journal, Pool};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The subcommand of the process that fills a contestant.
const SUBCOMMAND: &str = "space";

/// Fill a contestant, and print what it takes
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// Seed of the series of keys
    #[arg(long)]
    seed: u64,
    /// Keys to insert
    #[arg(long)]
    n: u64,
}

/// Bytes per entry. What is unknown is `null`.
const COLUMNS: [&str; 4] = ["pool", "files", "memory", "tree_memory"];

/// What a process that fills a contestant prints.
pub(crate) fn run(args: &Args) -> Outcome {
    with_entry!(args.subject.kind(), entry => fill(entry, args))
}

fn fill<E: Held>(entry: E, args: &Args) -> Outcome {
    let Subject { path, capacity, .. } = &args.subject;
    let (subject, _) =
        media::open::<E>(args.subject.contestant()?, path, Some(*capacity), Pool::options().journal(Journal::None))?;
    let before = memory();
    let keys = Keys::new(args.seed);
    let (mut key, mut value) = (E::KeyBuffer::default(), E::ValueBuffer::default());
    for number in (0..args.n).map(|i| keys.key(i)) {
        subject.insert(entry.key(number, &mut key), entry.value(Keys::value(number), &mut value));
    }
    let grown = memory().zip(before).map(|(after, before)| after.saturating_sub(before));
    let space = subject.space()?;
    subject.close()?;
    let files = if args.subject.contestant()?.outlives() { Some(allocated(path)?) } else { None };
    let per_entry = |bytes: Option<u64>| bytes.map(|bytes| out::rounded(bytes as f64 / args.n as f64, 2));
    let [pool, told] = [space.map(|space| space.pool), space.map(|space| space.memory)];
    let row = COLUMNS.into_iter().zip([pool, files, grown, told].map(per_entry));
    out::json(&row.map(|(column, bytes)| (column.to_owned(), json!(bytes))).collect())?;
    Ok(ExitCode::SUCCESS)
}

/// The memory of this process that no file backs, where the system reports it.
fn memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Bytes of the disk that a file takes, or that all files in a directory take.
fn allocated(path: &Path) -> Outcome<u64> {
    let found = fs::metadata(path)?;
    if !found.is_dir() {
        return Ok(on_disk(&found));
    }
    fs::read_dir(path)?.map(|entry| allocated(&entry?.path())).sum()
}

#[cfg(unix)]
fn on_disk(file: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(file) * 512
}

#[cfg(not(unix))]
fn on_disk(file: &Metadata) -> u64 {
    file.len()
}

/// Measures all contestants.
pub(crate) fn table(plan: &Plan) -> Outcome<()> {
    let Place::Directory(directory) = &plan.site.place else {
        return Err(Usage("--mix space takes a directory".to_owned()).into());
    };
    if !plan.json {
        let (key, value) = plan.kind().lens();
        out::text(&format!(
            "Bytes per entry, {} {}, of which {} are key and value, seed {}\n\
             (pool: what the tree has of its pool; files: on the disk, after an orderly close; memory: by how much that of a\n\
             process grew that no file backs; tree: of that, its shadows and its index)\n\n\
             contestant                     pool    files   memory     tree",
            out::count(plan.n),
            plan.kind(),
            key + value,
            plan.seed,
        ))?;
    }
    for &contestant in &plan.contestants {
        let mut scratch = Scratch::new(directory.as_deref())?;
        let mut row = measure(plan, &plan.subject(contestant, scratch.file("space")))?;
        if plan.json {
            row["mix"] = Mix::Space.name().into();
            row["seed"] = plan.seed.into();
            plan.describe(contestant, &mut row);
            out::json(&row)?;
        } else {
            let columns =
                COLUMNS.map(|column| row[column].as_f64().map_or("-".to_owned(), |bytes| format!("{bytes:.1}")));
            let [pool, files, memory, tree] = columns;
            out::text(&format!("{:26}  {pool:>7}  {files:>7}  {memory:>7}  {tree:>7}", contestant.label()))?;
        }
    }
    Ok(())
}

/// What a process of its own tells about a contestant.
fn measure(plan: &Plan, subject: &Subject) -> Outcome<Value> {
    let numbers: [OsString; 4] =
        ["--seed".into(), plan.seed.to_string().into(), "--n".into(), plan.n.to_string().into()];
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SUBCOMMAND).args(subject.arguments()).args(numbers).stdin(Stdio::null()).stderr(Stdio::inherit());
    let ended = command.output()?;
    if !ended.status.success() {
        return Err(format!("{}: {}", subject.label, ended.status).into());
    }
    Ok(serde_json::from_slice(&ended.stdout)?)
}
