//! `tour`: shows what the crate is for, in a few seconds.

mod second;

use crate::numbers::{self, Keys, Random};
use crate::out::{self, Outcome};
use crate::parse::{self, Usage};
use crate::pipe::{End, Job};
use crate::scratch::Scratch;
use crate::worker::{self, Reopened};
use bristlecone::{Journal, Map, Pool};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Kill a process that inserts, again and again, and show that nothing is lost
///
/// In the first act, the pool has no journal. In a second one, it has one, as a new pool on a disk has, and loses its
/// ring, too, as a loss of power may: all that was synced is there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keys to insert, as in 1000000 or 1M
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse::number)]
    keys: u64,
    /// How often to kill
    #[arg(long, value_name = "N", default_value_t = 5)]
    kills: u32,
    /// Where to put the scratch pool [default: shared memory, else the temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Seed of the keys and of the moments to kill at [default: a different one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found after one life of the worker.
struct Round {
    end: End,
    /// Keys acknowledged since the pool was created.
    acknowledged: u64,
    /// Acknowledged keys that are missing or have another value, and anything else that should not be there.
    lost: u64,
    /// The time to open pool and tree, and to read the first key.
    reopen: Duration,
    /// Broken invariants.
    broken: Vec<String>,
    /// The time from the worker's start to its end.
    life: Duration,
}

impl Round {
    fn is_good(&self) -> bool {
        self.lost == 0 && self.broken.is_empty()
    }
}

/// Opens the pool that a worker left, and checks every key.
fn look(worker: &worker::Args, (end, acknowledged): (End, u64), life: Duration) -> Outcome<Round> {
    let keys = Keys::new(worker.job.seed);
    let has = |value: Option<u64>, key: u64| value == Some(Keys::value(key));

    let Reopened { pool, tree, value: first, took: reopen } = worker.reopen(keys.key(0))?;
    let mut lost = u64::from(acknowledged > 0 && !has(first, keys.key(0)));
    lost += (1..acknowledged).filter(|&i| !has(tree.get(keys.key(i)), keys.key(i))).count() as u64;
    // The insert in flight is there whole, or not at all, and there is nothing else.
    let in_flight = tree.get(keys.key(acknowledged));
    lost += u64::from(in_flight.is_some() && !has(in_flight, keys.key(acknowledged)));
    lost += u64::from(tree.len() != acknowledged + u64::from(in_flight.is_some()));
    let broken = tree.check().violations.iter().map(ToString::to_string).collect();
    drop(tree);
    pool.close()?;
    Ok(Round { end, acknowledged, lost, reopen, broken, life })
}

pub(crate) fn run(args: Args) -> Outcome {
    // Each life of the worker gets a share of the keys; the last life ends orderly.
    let half_share = args.keys / (u64::from(args.kills) + 1) / 2;
    if half_share == 0 {
        return Err(Usage(format!("--keys {} is too few for --kills {}", args.keys, args.kills)).into());
    }
    let mut scratch = Scratch::new(args.dir.as_deref())?;
    let seed = args.seed.unwrap_or_else(numbers::seed);
    let mut process = worker::Args {
        pool: scratch.file("tour.pool"),
        journal: Journal::None,
        sync_every: 0,
        capacity: worker::capacity(args.keys),
        job: Job { seed, from: 0, to: args.keys, every: 1 },
    };
    if !args.json {
        out::text(&header(&args, &process.pool))?;
    }
    let mut rounds = Vec::new();
    let mut random = Random::new(seed);
    for life in 0..=args.kills {
        let start = Instant::now();
        let mut worker = process.start()?;
        let ended = if life < args.kills {
            // At a random moment, whatever the worker is doing.
            worker.wait_for(process.job.from + half_share + random.below(half_share))?;
            std::thread::sleep(Duration::from_micros(random.below(500)));
            worker.kill()?
        } else {
            (End::Done, worker.finish()?)
        };
        rounds.push(look(&process, ended, start.elapsed())?);
        process.job.from = show(&args, &rounds)?;
        if ended.0 == End::Done {
            break;
        }
    }

    // On a disk, if there is one.
    let mut disk = Scratch::new(Some(args.dir.as_deref().unwrap_or(&std::env::temp_dir())))?;
    let has_journals = cfg!(target_os = "linux");
    let second = has_journals.then(|| second::play(&mut disk, (args.keys, seed), &mut random)).transpose()?;
    let good = rounds.iter().all(Round::is_good);
    let second_is_good = second.as_ref().is_none_or(second::Found::is_good);
    if args.json {
        out::json(&object(&args, seed, (&rounds, second.as_ref())))?;
    } else {
        out::text(&summary(&rounds))?;
        second.iter().try_for_each(|found| out::text(&found.text()))?;
        out::text(&strings(&mut scratch)?)?;
        out::text(NEXT)?;
    }
    if !good || !second_is_good {
        let kept = if good { &mut disk } else { &mut scratch }.keep().display();
        return Err(format!("LOST: look at the pools in {kept}; repeat with --seed {seed}").into());
    }
    Ok(ExitCode::SUCCESS)
}

fn header(args: &Args, pool: &Path) -> String {
    format!(
        "A process inserts {} into {}\n\
         and acknowledges each. It is killed (SIGKILL) {} at random moments. After\n\
         each, the pool is opened again and every acknowledged key is looked for.\n\n  \
         ended by    acknowledged      lost   reopened in   check",
        out::counted(args.keys, "key", "keys"),
        pool.display(),
        out::counted(args.kills.into(), "time", "times"),
    )
}

/// Prints the last round; returns how many keys are durable.
fn show(args: &Args, rounds: &[Round]) -> Outcome<u64> {
    let Some(round) = rounds.last() else { return Ok(0) };
    if !args.json {
        let end = match round.end {
            End::Killed => "SIGKILL",
            End::Done => "close",
        };
        let check = if round.broken.is_empty() { "clean" } else { &round.broken.join("; ") };
        let (acknowledged, lost) = (out::count(round.acknowledged), out::count(round.lost));
        out::text(&format!("  {end:8}  {acknowledged:>14}  {lost:>8}  {:>12}   {check}", out::time(round.reopen)))?;
    }
    Ok(round.acknowledged)
}

/// The slowest reopen after lives that ended in this way.
fn slowest(rounds: &[Round], end: End) -> Option<Duration> {
    rounds.iter().filter(|round| round.end == end).map(|round| round.reopen).max()
}

/// Keys acknowledged per second of the workers' lives.
fn rate(rounds: &[Round]) -> f64 {
    let lives: Duration = rounds.iter().map(|round| round.life).sum();
    rounds.last().map_or(0.0, |round| round.acknowledged as f64) / lives.as_secs_f64()
}

fn summary(rounds: &[Round]) -> String {
    let lost: u64 = rounds.iter().map(|round| round.lost).sum();
    let acknowledged = rounds.last().map_or(0, |round| round.acknowledged);
    let kills = rounds.iter().filter(|round| round.end == End::Killed).count() as u64;
    let nothing = if lost == 0 { "nothing".to_owned() } else { out::count(lost) };
    let reopened = |end| slowest(rounds, end).map_or_else(|| "-".to_owned(), out::time);
    format!(
        "\nLost: {nothing}, of {} acknowledged inserts and {}.\n\
         Reopened within {} after a kill, {} after an orderly close.\n\
         Inserted and acknowledged over a pipe: {} keys per second.",
        out::count(acknowledged),
        out::counted(kills, "kill", "kills"),
        reopened(End::Killed),
        reopened(End::Done),
        out::count(rate(rounds) as u64),
    )
}

/// Keys that are strings: some paths, and those that begin with one directory.
fn strings(scratch: &mut Scratch) -> Outcome<String> {
    let pool = Pool::options().capacity(64 << 20).open(scratch.pool("strings.pool"))?;
    let sizes: Map<String, u64> = pool.map("sizes")?;
    for (path, size) in [("home/ada/plan.txt", 99), ("home/bob/todo.txt", 7), ("home/ada/notes.txt", 512)] {
        sizes.insert(path, size)?;
    }
    let mut text = "\nKeys may be strings, too. Of a Map<String, u64>, what begins with home/ada/:".to_owned();
    for entry in sizes.prefix("home/ada/") {
        let (path, size) = entry?;
        text.push_str(&format!("\n  {path:18}  {size:>4}"));
    }
    drop(sizes);
    pool.close()?;
    Ok(text)
}

/// What to do after the tour.
const NEXT: &str = "\nNext:\n  \
     bristlecone load my.pool FILE     your lines of key<TAB>value; then get, scan\n  \
     bristlecone load --journal each   the same, each line on the disk at once\n  \
     bristlecone info                  what survives on this machine\n  \
     bristlecone bench, crash          with --features tools: speed; crash states\n\
     README.md has the library in 15 lines; docs/design.md says why it holds.";

fn object(args: &Args, seed: u64, (rounds, second): (&[Round], Option<&second::Found>)) -> serde_json::Value {
    let each = |round: &Round| {
        json!({
            "ended_by": if round.end == End::Killed { "kill" } else { "close" },
            "acknowledged": round.acknowledged,
            "lost": round.lost,
            "reopen_ms": out::ms(round.reopen),
            "problems": round.broken,
        })
    };
    json!({
        "keys": args.keys,
        "kills": rounds.iter().filter(|round| round.end == End::Killed).count(),
        "seed": seed,
        "acknowledged": rounds.last().map_or(0, |round| round.acknowledged),
        "lost": rounds.iter().map(|round| round.lost).sum::<u64>(),
        "problems": rounds.iter().map(|round| round.broken.len()).sum::<usize>(),
        "dirty_reopen_ms": slowest(rounds, End::Killed).map(out::ms),
        "clean_reopen_ms": slowest(rounds, End::Done).map(out::ms),
        "acknowledged_per_second": rate(rounds).round(),
        "rounds": rounds.iter().map(each).collect::<Vec<_>>(),
        "power": second.map(second::Found::object),
    })
}
