#![doc = include_str!("../README.md")]

// There is one file per subcommand; each has its `Args` and a `run`. They share `trees` (the trees of a pool), `place`
// (the options that name one), `opening` (how pools are opened), `keys` and `format` (how entries are read and shown),
// `words` (what the library's errors are called here), `worker` (the process that `tour` and `bench` kill). With the
// benchmarks they share `out` (figures for people and for programs), `parse` (arguments), `shape` (types that are
// chosen at run time), `numbers` (reproducible randomness), `scratch` (temporary pools), `pipe` (how a worker is
// started, heard and killed). `tools` is for work on the library itself.
//
// It is a library so that its tests can ask for the feature `tools`, which a package of binaries alone cannot do.

mod backup;
mod check;
// The tools and the benchmarks need all of it.
#[cfg_attr(not(feature = "tools"), allow(dead_code))]
mod common;
mod compact;
mod del;
mod dump;
mod escape;
mod format;
mod get;
mod info;
mod journal;
mod json_entry;
mod keys;
mod lines;
mod load;
mod maps;
mod opening;
mod place;
mod put;
#[cfg(target_os = "linux")]
mod rings;
mod scan;
mod stat;
mod stop;
#[cfg(feature = "tools")]
mod tools;
mod tour;
mod trees;
mod values;
mod words;
mod worker;

use bristlecone::Pool;
use clap::{Parser, Subcommand};
use common::{numbers, out, parse, pipe, scratch, shape};
use out::Outcome;
use std::process::ExitCode;

/// Persistent B+-trees that outlive crashes
///
/// Start with `bristlecone tour`: it inserts, kills the inserting process, and shows that nothing was lost.
///
/// Exit codes: 0 it is done; 1 an error, or the answer of `get`, `del`, `check` and the checkers is no; 2 wrong
/// arguments; 3 `check` has found nothing broken, and could not check everything.
#[derive(Debug, Parser)]
#[command(name = "bristlecone", version, max_term_width = 100)]
#[cfg_attr(
    not(feature = "tools"),
    command(
        after_help = "bench, crash, kill and lin are in a binary with them: cargo install bristlecone-cli --features tools"
    )
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Tour(tour::Args),
    Load(load::Args),
    Get(get::Args),
    Put(put::Args),
    Del(del::Args),
    Scan(scan::Args),
    Dump(dump::Args),
    Stat(stat::Args),
    Check(check::Args),
    /// Copy all trees of a pool to a new one, which is checked and takes no more space than it needs
    ///
    /// A pool that another process has open can only be copied by that process, through the library. The copy is a file
    /// alone. If the pool has a journal, so has the copy: its log is made where it is opened. Log and ring of a pool
    /// whose place it takes are removed if that was closed in order, and else get the ending .old-1.
    Backup(backup::Args),
    /// Make a pool of a backup: the same as `backup`
    Restore(backup::Args),
    Compact(compact::Args),
    Journal(journal::Args),
    #[cfg(target_os = "linux")]
    Rings(rings::Args),
    Info(info::Args),
    #[cfg(feature = "tools")]
    #[command(flatten)]
    Tools(tools::Command),
    #[command(hide = true)]
    Worker(worker::Args),
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Tour(args) => tour::run(args),
        Command::Load(args) => load::run(args),
        Command::Get(args) => get::run(args),
        Command::Put(args) => put::run(args),
        Command::Del(args) => del::run(args),
        Command::Scan(args) => scan::run(args),
        Command::Dump(args) => dump::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Check(args) => check::run(args),
        Command::Backup(args) | Command::Restore(args) => backup::run(args),
        Command::Compact(args) => compact::run(args),
        Command::Journal(args) => journal::run(args),
        #[cfg(target_os = "linux")]
        Command::Rings(args) => rings::run(args),
        Command::Info(args) => info::run(args),
        #[cfg(feature = "tools")]
        Command::Tools(command) => tools::run(command),
        Command::Worker(args) => worker::run(args),
    }
}

/// Makes a limit on the size of files (`ulimit -f`) an error like any other, instead of ending the process.
#[cfg(unix)]
fn outlive_file_size_limits() {
    // SAFETY: the signal is ignored, so no handler is ever called.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

#[cfg(not(unix))]
fn outlive_file_size_limits() {}

/// Runs the command that the arguments of this process name.
pub fn main() -> ExitCode {
    outlive_file_size_limits();
    // A pool may be any program's.
    <Pool>::name_all_layouts();
    out::end(run(Cli::parse().command).map_err(words::of_the_shell))
}
