//! Loads and misses, which a processor counts and its guests may not read: Cachegrind simulates them.
//!
//! A process of its own inserts under Cachegrind, and another one only makes the tree; the difference is what the
//! inserts take. The last cache is as large as the paper's in proportion to the keys. Nothing is flushed there, because
//! a simulated flush evicts nothing; each line that is flushed is counted as one more miss, which is what an evicting
//! flush leads to.

use super::figures::Misses;
use super::medium::Switches;
use super::plan::Plan;
use super::stage::Stage;
use super::tree::{self, Contestant};
use super::work::{Crew, Step};
use crate::clock::Tick;
use crate::out::Outcome;
use crate::scratch::Scratch;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// The subcommand of the process that is simulated.
const SUBCOMMAND: &str = "inserts";
/// The sets of the paper's last cache, for a million keys.
const SETS: u64 = 16_384;
const WAYS: u64 = 20;

/// Insert keys into a contestant of the figures
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The contestant
    tree: String,
    /// Bytes of a node's slots
    bytes: u32,
    /// Keys that there is room for
    n: u64,
    /// Whether they are inserted
    #[arg(long)]
    inserts: bool,
    #[arg(long)]
    seed: u64,
    /// Where the pool is
    #[arg(long)]
    directory: Option<PathBuf>,
}

/// What the process does.
pub(crate) fn run(args: &Args) -> Outcome {
    let found = tree::find(&args.tree).ok_or_else(|| format!("no contestant is named {}", args.tree))?;
    // The simulator does not know all instructions that flush.
    let contestant = Contestant { durable: false, ..*found };
    let stage = Stage::new(args.directory.as_deref(), &contestant, (args.bytes, args.n), Switches::default())?;
    if args.inserts {
        let crew = Crew::new(&*stage.tree, args.n, 1, args.seed);
        crew.work(Step::Insert, 0).into_iter().for_each(|work| work(&mut Tick::idle()));
    }
    stage.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Whether there is a simulator.
pub(crate) fn is_there() -> bool {
    Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// What an insert takes, given the lines that it flushes.
pub(crate) fn per_insert(
    misses: Misses,
    plan: &Plan,
    contestant: &Contestant,
    (bytes, n): (u32, u64),
    lines: f64,
) -> Outcome<f64> {
    let events = |inserts| simulate(plan, contestant, (bytes, n), inserts);
    let (all, none) = (events(true)?, events(false)?);
    let count = |names: &[&str]| {
        let sum = |events: &[(String, u64)]| {
            events.iter().filter(|(name, _)| names.contains(&name.as_str())).map(|(_, count)| *count).sum::<u64>()
        };
        (sum(&all) as f64 - sum(&none) as f64) / n as f64
    };
    Ok(match misses {
        Misses::Loads => count(&["Dr"]),
        Misses::LastCache => count(&["DLmr", "DLmw"]) + lines,
    })
}

/// Cachegrind's events, by name.
fn simulate(
    plan: &Plan,
    contestant: &Contestant,
    (bytes, n): (u32, u64),
    inserts: bool,
) -> Outcome<Vec<(String, u64)>> {
    let mut scratch = Scratch::new(plan.directory.as_deref())?;
    let file = scratch.file("cachegrind.out");
    let sets = (SETS * n / 1_000_000).max(1).next_power_of_two();
    let mut into = OsString::from("--cachegrind-out-file=");
    into.push(&file);
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64"]);
    command.arg(format!("--LL={},{WAYS},64", sets * WAYS * 64)).arg(into);
    command.arg(std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?);
    command.args([SUBCOMMAND, contestant.name, &bytes.to_string(), &n.to_string(), "--seed", &plan.seed.to_string()]);
    command.args(inserts.then_some("--inserts"));
    if let Some(directory) = &plan.directory {
        command.arg("--directory").arg(directory);
    }
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: valgrind: {}: {said}", contestant.name, output.status).into());
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default();
    let counts = line("summary:").split_whitespace().filter_map(|count| count.parse().ok());
    Ok(line("events:").split_whitespace().map(str::to_owned).zip(counts).collect())
}
