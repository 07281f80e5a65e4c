//! How long it takes until a pool answers again: after an orderly close, and after `SIGKILL`.

use crate::clock;
use crate::media;
use crate::mix::Mix;
use crate::numbers::{Keys, Random};
use crate::out::{self, Outcome};
use crate::parse::Usage;
use crate::pipe::Job;
use crate::place::Place;
use crate::plan::{Contestant, Plan};
use crate::scratch::Scratch;
use crate::worker;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The limit that the project promises for ten million keys.
const CLEAN_LIMIT: Duration = Duration::from_millis(10);
/// The same limit after a kill.
const DIRTY_LIMIT: Duration = Duration::from_millis(300);

/// Keys that are looked up again after each reopen.
const SAMPLE: u64 = 1000;

/// Keys that a worker inserts, at least, before it is killed.
const BEFORE_THE_KILL: u64 = 1000;

/// The times of one reopen.
#[derive(Debug, Clone, Copy)]
struct Reopen {
    pool: Duration,
    tree: Duration,
    get: Duration,
    /// Keys that were acknowledged but are missing.
    lost: u64,
}

impl Reopen {
    fn total(self) -> Duration {
        self.pool + self.tree + self.get
    }
}

/// Opens what a worker has left and looks up one of the keys, timed; then counts what is lost, and closes it orderly.
fn reopen(process: &worker::Args, durable: u64, random: &mut Random) -> Outcome<Reopen> {
    let keys = Keys::new(process.job.seed);
    let place = random.below(durable);
    let start = Instant::now();
    let (subject, pool_open) = media::open(process.contestant, &process.path, None)?;
    let tree_open = Instant::now();
    let value = subject.get(keys.key(place));
    let answered = Instant::now();
    let is_there = |i: u64| subject.get(keys.key(i)) == Some(Keys::value(keys.key(i)));
    // A store may lose the latest of its acknowledged keys, and nothing else.
    let lost = (0..durable).rev().take_while(|&i| !is_there(i)).count() as u64;
    let rest = durable - lost;
    let sample = (0..SAMPLE.min(rest)).map(|_| random.below(rest));
    let missing = sample.filter(|&i| !is_there(i)).count() + usize::from(value.is_none() && place < rest);
    subject.fault()?;
    if missing > 0 || (lost > 0 && matches!(process.contestant, Contestant::Tree(_))) {
        return Err(format!("LOST: {lost} of {durable} keys, and {missing} of those before them").into());
    }
    subject.close()?;
    Ok(Reopen { pool: pool_open - start, tree: tree_open - pool_open, get: answered - tree_open, lost })
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let Place::Directory(directory) = &plan.site.place else {
        return Err(Usage("--medium dram does not outlive a process, so it cannot be opened again".to_owned()).into());
    };
    if !plan.json {
        out::text(&format!(
            "Until a pool of {} keys answers again, in milliseconds, {}, seed {}\n\
             (clean: after an orderly close; dirty: after SIGKILL during inserts; the limits are for 10 M keys;\n\
             lost: of what was acknowledged before the kill, at the most)\n\n\
             contestant                  after     pool     tree      get    total    worst    lost    limit",
            out::count(plan.n),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in &plan.contestants {
        let outlives = match contestant {
            Contestant::Tree(_) => true,
            Contestant::Peer(peer) => peer.is_store(),
            Contestant::BTreeMap => false,
        };
        if outlives {
            let mut scratch = Scratch::new(directory.as_deref())?;
            let (clean, dirty) = measure(plan, contestant, scratch.file("reopened"))?;
            print(plan, contestant, &clean, &dirty)?;
        }
    }
    Ok(())
}

/// Clean and dirty reopens of what another process has filled.
fn measure(plan: &Plan, contestant: Contestant, path: PathBuf) -> Outcome<(Vec<Reopen>, Vec<Reopen>)> {
    let mut process = worker::Args {
        contestant,
        path,
        capacity: media::capacity(plan.n) * 2,
        job: Job { seed: plan.seed, from: 0, to: plan.n, every: 100 },
    };
    let mut random = Random::new(plan.seed);
    let mut durable = process.start()?.finish()?;
    let (mut clean, mut dirty) = (Vec::new(), Vec::new());
    for _ in 0..plan.repeat {
        let found = reopen(&process, durable, &mut random)?;
        if found.lost > 0 {
            return Err(format!("{} keys are lost after an orderly close", found.lost).into());
        }
        clean.push(found);
    }
    for _ in 0..plan.repeat {
        (process.job.from, process.job.to) = (durable, u64::MAX);
        let acknowledged = process.start()?.kill_at(durable + BEFORE_THE_KILL)?;
        let found = reopen(&process, acknowledged, &mut random)?;
        durable = acknowledged - found.lost;
        dirty.push(found);
    }
    Ok((clean, dirty))
}

fn ms(t: Duration) -> f64 {
    t.as_secs_f64() * 1000.0
}

fn print(plan: &Plan, contestant: Contestant, clean: &[Reopen], dirty: &[Reopen]) -> Outcome<()> {
    let part = |of: &[Reopen], part: fn(Reopen) -> Duration| {
        clock::median(&of.iter().map(|&reopen| ms(part(reopen))).collect::<Vec<_>>())
    };
    let worst = |of: &[Reopen]| of.iter().map(|reopen| ms(reopen.total())).fold(0.0, f64::max);
    let lost = |of: &[Reopen]| of.iter().map(|reopen| reopen.lost).max().unwrap_or_default();
    if plan.json {
        let object = |of: &[Reopen]| -> Value {
            json!({
                "median": out::rounded(part(of, Reopen::total), 3),
                "max": out::rounded(worst(of), 3),
                "pool": out::rounded(part(of, |r| r.pool), 3),
                "tree": out::rounded(part(of, |r| r.tree), 3),
                "get": out::rounded(part(of, |r| r.get), 3),
            })
        };
        let mut row = json!({
            "mix": Mix::Reopen.name(),
            "n": plan.n,
            "threads": 1,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "clean_ms": object(clean),
            "dirty_ms": object(dirty),
            "lost": lost(dirty),
            "limit_ms": { "clean": ms(CLEAN_LIMIT), "dirty": ms(DIRTY_LIMIT) },
        });
        match contestant {
            Contestant::Tree(shape) => {
                row["layout"] = shape.layout.name().into();
                row["index"] = shape.index.name().into();
                row["node_bytes"] = shape.node_bytes().into();
            }
            other => row["peer"] = other.name().into(),
        }
        out::json(&row)?;
        return Ok(());
    }
    for (after, of, limit) in [("clean", clean, CLEAN_LIMIT), ("dirty", dirty, DIRTY_LIMIT)] {
        let verdict = match contestant {
            Contestant::Tree(_) if part(of, Reopen::total) <= ms(limit) => "kept",
            Contestant::Tree(_) => "BROKEN",
            _ => "",
        };
        out::text(&format!(
            "{:26}  {after:5}  {:7.2}  {:7.2}  {:7.3}  {:7.2}  {:7.2}  {:6}  {:7} {verdict}",
            contestant.label(),
            part(of, |r| r.pool),
            part(of, |r| r.tree),
            part(of, |r| r.get),
            part(of, Reopen::total),
            worst(of),
            lost(of),
            ms(limit),
        ))?;
    }
    Ok(())
}
