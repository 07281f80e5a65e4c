//! How long operations take, and what they ask of the medium: bristlecone's trees compared with other maps and stores.
//!
//! Time and counts come from separate passes over the same operations: `phases` says what is done, with which `keys`;
//! `clock` times it, `counts` counts it, `report` shows both. A subject is a `tree`, a `byte_map`, std's `btreemap` or
//! one of the `peers`, and holds one kind of `entry`; `media` gives it a pool, or a directory. `reopen` measures how
//! long an opening takes, and its `worker` is the process that is killed; `cold` measures a pool whose `pages` are not
//! in memory; `space` measures how many bytes an entry takes, and `limits` what the machine takes for the parts of an
//! operation. `transaction`, `conflict`, `snapshot` and `backup` measure what these cost next to doing without, in
//! `turns`, and `journal` what a journal costs; `pauses` looks for the slowest updates beside all that; `durable`
//! measures changes that are on the disk when they return. `against` compares two builds. A `figure` is what a paper
//! measured. `import` makes a pool from one of these stores.
//! `nv_store` is a paper's own store, on an `arena`.

mod against;
mod arena;
mod args;
mod backup;
mod btreemap;
mod byte_map;
mod chart;
mod clock;
mod cold;
mod conflict;
// The part that is shared with the command line. Not all of it is needed here.
#[allow(dead_code)]
#[path = "../../cli/src/common/mod.rs"]
mod common;
mod counts;
#[cfg(test)]
mod cuts;
mod durable;
mod entry;
mod figure;
#[cfg(feature = "import")]
mod import;
mod journal;
mod keys;
mod limits;
mod maps;
mod media;
mod mix;
mod nv_store;
mod ordered_map;
mod owned;
mod pages;
mod pauses;
#[cfg(feature = "peers")]
mod peers;
#[cfg(not(feature = "peers"))]
#[path = "no_peers.rs"]
mod peers;
mod phases;
mod place;
mod plan;
mod reopen;
mod report;
mod shape;
mod snapshot;
mod space;
mod transaction;
mod tree;
mod turns;
mod worker;

use clap::{Parser, Subcommand};
use common::{numbers, out, parse, pipe, scratch};
pub use figure::{Page, pictures};
pub use maps::{Map, maps};
pub use mix::Mix;
use out::Outcome;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "bristlecone-bench", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    args: args::Args,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "import")]
    Import(import::Args),
    #[command(hide = true)]
    Worker(worker::Args),
    #[command(hide = true)]
    Space(space::Args),
    #[command(hide = true)]
    Inserts(figure::simulated::Args),
}

/// Runs what the command line asks for.
pub fn main() -> ExitCode {
    let Cli { args, command } = Cli::parse();
    out::end(match command {
        #[cfg(feature = "import")]
        Some(Command::Import(args)) => import::run(&args),
        Some(Command::Worker(args)) => worker::run(&args),
        Some(Command::Space(args)) => space::run(&args),
        Some(Command::Inserts(args)) => figure::simulated::run(&args),
        None => run(args),
    })
}

fn run(args: args::Args) -> Outcome {
    if !args.figure.is_empty() {
        return figure::run(&args.figures()?);
    }
    let other = args.against.clone();
    let plan = args.plan()?;
    if let Some(other) = other {
        against::run(&plan, &other)?;
        return Ok(ExitCode::SUCCESS);
    }
    let timed: Vec<Mix> = plan.mixes.iter().copied().filter(|mix| mix.is_timed()).collect();
    if !timed.is_empty() {
        report::times(&plan, &timed)?;
    }
    if plan.mixes.contains(&Mix::Reopen) {
        reopen::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Cold) {
        cold::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Space) {
        space::table(&plan)?;
    }
    if plan.mixes.contains(&Mix::Limits) {
        limits::table(&plan)?;
    }
    if plan.mixes.contains(&Mix::Counts) {
        counts::table(&plan)?;
    }
    if plan.mixes.contains(&Mix::Transaction) {
        transaction::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Conflict) {
        conflict::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Snapshot) {
        snapshot::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Backup) {
        backup::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Pauses) {
        pauses::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Journal) {
        journal::run(&plan)?;
    }
    if plan.mixes.contains(&Mix::Durable) {
        durable::run(&plan)?;
    }
    Ok(ExitCode::SUCCESS)
}
