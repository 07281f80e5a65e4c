//! `bench`: the default tree compared with `BTreeMap`, and how long a pool takes until it answers again.
//!
//! Other layouts, indexes, threads, maps and stores are measured by `bristlecone-bench`, a separate package in the
//! repository.

mod reopen;
mod spread;
mod verbs;

use crate::journal;
use crate::numbers;
use crate::out::{self, Outcome};
use crate::parse::{self, Usage};
use bristlecone::Journal;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use spread::Spread;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use verbs::{Found, Verb};

/// Measure the default tree next to BTreeMap: time, lines and fences per operation, and how long opening takes
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keys, as in 1000000 or 1M
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse::number)]
    keys: u64,
    /// Repeats
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Where to put the scratch pools [default: shared memory, else the temporary directory, which it is with
    /// --journal]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Give the pools a journal; and when to wait for the disk: each, request, or a time, as in 10ms
    #[arg(long, value_name = "WHEN", value_parser = parse::journal)]
    journal: Option<Journal>,
    /// Seed of the keys [default: a different one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The most keys that are measured: the tree whose operations are counted takes 64 bytes of memory for each key.
const MOST: u64 = 100_000_000;

/// What is measured, and how often.
struct Plan {
    keys: u64,
    repeat: u32,
    seed: u64,
    dir: Option<PathBuf>,
    journal: Option<Journal>,
    /// One step for each pass over the keys, and for each time that a pool is opened.
    bar: ProgressBar,
}

/// The spread of these times in milliseconds.
fn ms(times: &[Duration]) -> Spread {
    Spread::of(times.iter().map(|time| time.as_secs_f64() * 1000.0))
}

pub(crate) fn run(args: Args) -> Outcome {
    if args.keys == 0 || args.keys > MOST {
        return Err(Usage(format!("--keys {}: it takes 1 to {}", args.keys, out::count(MOST))).into());
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta}").unwrap_or(ProgressStyle::default_bar());
    let plan = Plan {
        keys: args.keys,
        repeat: args.repeat,
        seed: args.seed.unwrap_or_else(numbers::seed),
        // A file in memory would not show what a journal costs.
        dir: args.dir.or_else(|| args.journal.map(|_| std::env::temp_dir())),
        journal: args.journal,
        bar: ProgressBar::new(verbs::steps(args.repeat) + reopen::steps(args.repeat)).with_style(style),
    };
    let found = verbs::measure(&plan)?;
    let [closed, killed] = reopen::measure(&plan)?;
    plan.bar.finish_and_clear();
    if args.json {
        let row = |verb: Verb| {
            json!({
                "verb": verb.name(),
                "ns_per_op": found.tree(verb).json(),
                "btreemap_ns_per_op": found.map(verb).json(),
                "ratio_to_btreemap": out::rounded(found.ratio(verb), 4),
                "lines_per_op": out::rounded(found.lines(verb), 4),
                "fences_per_op": out::rounded(found.fences(verb), 4),
            })
        };
        out::json(&json!({
            "keys": plan.keys,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "domain": found.domain.name(),
            "journal_mode": plan.journal.map(parse::journal_name),
            "journal": found.journal.as_ref().map(journal::object),
            "verbs": Verb::ALL.map(row),
            "reopen_ms": { "closed": ms(&closed).json(), "killed": ms(&killed).json() },
        }))?;
    } else {
        out::text(&table(&plan, &found))?;
        if let (Some(figures), Some(mode)) = (&found.journal, plan.journal) {
            let (mode, done) = (parse::journal_name(mode), journal::done(figures));
            out::text(&format!("\nWith --journal {mode}, in the last repeat: {done}."))?;
        }
        let time = |times: &[Duration]| out::time(Duration::from_secs_f64(ms(times).median / 1000.0));
        out::text(&format!(
            "\nThe pool answers again after {} if it was closed, after {} if its process was killed.\n\
             Other trees, maps and stores: cargo run --release -p bristlecone-bench, in the repository.",
            time(&closed),
            time(&killed),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(plan: &Plan, found: &Found) -> String {
    let mut table = format!(
        "{}, one thread, {} in turn, seed {}\n\
         ns per operation (scan: per entry), the median; below a ratio of 1 the tree is faster. Pools of domain\n\
         {} (see `bristlecone info`); lines flushed and fences are counted as on persistent memory.\n\n\
         verb        PTree  BTreeMap   ratio    lines   fences",
        out::counted(plan.keys, "uniform key", "uniform keys"),
        out::counted(plan.repeat.into(), "repeat", "repeats"),
        plan.seed,
        found.domain.name(),
    );
    for verb in Verb::ALL {
        let (tree, map) = (found.tree(verb).median, found.map(verb).median);
        let (ratio, lines, fences) = (found.ratio(verb), found.lines(verb), found.fences(verb));
        table.push_str(&format!("\n{:8} {tree:8.1}  {map:8.1}  {ratio:6.2}  {lines:7.2}  {fences:7.2}", verb.name()));
    }
    table
}
