//! How long it takes until a pool answers again: after an orderly close, and after `SIGKILL`.

use crate::clock;
use crate::entry::with_entry;
use crate::media::{self, Held};
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
fn reopen<E: Held>(entry: E, process: &worker::Args, durable: u64, random: &mut Random) -> Outcome<Reopen> {
    let contestant = process.subject.contestant()?;
    let keys = Keys::new(process.job.seed);
    let mut buffer = E::KeyBuffer::default();
    let place = random.below(durable);
    let start = Instant::now();
    let (subject, pool_open) = media::open::<E>(contestant, &process.subject.path, None)?;
    let tree_open = Instant::now();
    let value = subject.get(entry.key(keys.key(place), &mut buffer));
    let answered = Instant::now();
    let mut is_there = |i: u64| {
        let number = keys.key(i);
        subject.get(entry.key(number, &mut buffer)) == Some(Keys::value(number))
    };
    // A store may lose the latest of its acknowledged keys, and nothing else.
    let lost = (0..durable).rev().take_while(|&i| !is_there(i)).count() as u64;
    let rest = durable - lost;
    let sample = (0..SAMPLE.min(rest)).map(|_| random.below(rest));
    let missing = sample.filter(|&i| !is_there(i)).count() + usize::from(value.is_none() && place < rest);
    subject.fault()?;
    if missing > 0 || (lost > 0 && contestant.is_ours()) {
        return Err(format!("LOST: {lost} of {durable} keys, and {missing} of those before them").into());
    }
    subject.close()?;
    Ok(Reopen { pool: pool_open - start, tree: tree_open - pool_open, get: answered - tree_open, lost })
}

fn reopened(process: &worker::Args, durable: u64, random: &mut Random) -> Outcome<Reopen> {
    with_entry!(process.subject.kind(), entry => reopen(entry, process, durable, random))
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let Place::Directory(directory) = &plan.site.place else {
        return Err(Usage("--medium dram does not outlive a process, so it cannot be opened again".to_owned()).into());
    };
    if !plan.json {
        out::text(&format!(
            "Until a pool of {} {} answers again, in milliseconds, {}, seed {}\n\
             (clean: after an orderly close; dirty: after SIGKILL during inserts; the limits are for 10 M u64 keys;\n\
             lost: of what was acknowledged before the kill, at the most)\n\n\
             contestant                  after     pool     tree      get    total    worst    lost    limit",
            out::count(plan.n),
            plan.kind(),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in plan.contestants.iter().filter(|contestant| contestant.outlives()) {
        let mut scratch = Scratch::new(directory.as_deref())?;
        let (clean, dirty) = measure(plan, contestant, scratch.file("reopened"))?;
        print(plan, contestant, &clean, &dirty)?;
    }
    Ok(())
}

/// Clean and dirty reopens of what another process has filled.
fn measure(plan: &Plan, contestant: Contestant, path: PathBuf) -> Outcome<(Vec<Reopen>, Vec<Reopen>)> {
    let mut process = worker::Args {
        subject: plan.subject(contestant, path),
        job: Job { seed: plan.seed, from: 0, to: plan.n, every: 100 },
    };
    let mut random = Random::new(plan.seed);
    let mut durable = process.start()?.finish()?;
    let (mut clean, mut dirty) = (Vec::new(), Vec::new());
    for _ in 0..plan.repeat {
        let found = reopened(&process, durable, &mut random)?;
        if found.lost > 0 {
            return Err(format!("{} keys are lost after an orderly close", found.lost).into());
        }
        clean.push(found);
    }
    for _ in 0..plan.repeat {
        (process.job.from, process.job.to) = (durable, u64::MAX);
        let acknowledged = process.start()?.kill_at(durable + BEFORE_THE_KILL)?;
        let found = reopened(&process, acknowledged, &mut random)?;
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
            "threads": 1,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "clean_ms": object(clean),
            "dirty_ms": object(dirty),
            "lost": lost(dirty),
            "limit_ms": { "clean": ms(CLEAN_LIMIT), "dirty": ms(DIRTY_LIMIT) },
        });
        plan.describe(contestant, &mut row);
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
