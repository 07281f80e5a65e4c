//! How long a backup takes beside a writer, and what speed the writer keeps.
//!
//! Two threads slow each other down whatever they do: they share memory, and perhaps a core. So the writer is also
//! measured beside a thread that does nothing but copy memory.

use crate::clock::{self, Runs, Tick};
use crate::media;
use crate::mix::Mix;
use crate::out::{self, Outcome};
use crate::phases::{Trial, Workload};
use crate::plan::{Contestant, Plan};
use serde_json::{Value, json};
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Entries of the backup that the project makes a promise about.
const GOAL_ENTRIES: f64 = 1e7;
/// How many seconds that may take.
const GOAL_SECONDS: f64 = 3.0;
/// The share of its speed that a writer should keep.
const GOAL_KEPT: f64 = 2.0 / 3.0;

/// Parts of a phase: after each, the writer looks whether it should go on.
const PARTS: u64 = 1000;

/// Bytes that are copied at a time: more than any cache has.
const COPIED: usize = 64 << 20;

/// What was measured, of each repeat.
#[derive(Debug, Default)]
struct Found {
    seconds: Vec<f64>,
    /// Nanoseconds per update of a writer that is alone, beside a backup, and beside a thread that copies memory.
    alone: Vec<f64>,
    backup: Vec<f64>,
    copying: Vec<f64>,
    /// Bytes of the copy.
    bytes: u64,
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    if !plan.json {
        out::text(&format!(
            "A backup of {} {} beside a thread that updates {} ones, {}, seed {}\n\
             (seconds: the median and the most; ns: per update, alone and beside the backup, by the clock; kept: the speed that is\n\
             left, and next to it the speed beside a thread that copies memory)\n\n\
             contestant                  seconds     most    alone   backup    kept  copying",
            out::count(plan.n),
            plan.kind(),
            plan.pattern.name(),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in plan.contestants.iter().filter(|contestant| contestant.has_snapshots()) {
        print(plan, contestant, &measure(plan, contestant)?)?;
    }
    Ok(())
}

fn measure(plan: &Plan, contestant: Contestant) -> Outcome<Found> {
    let load = Workload { threads: 1, ..plan.workload(0) };
    let mut staged = media::timed(&plan.site, contestant, &load)?;
    let pool = staged.pool.clone().ok_or("no pool")?;
    let copy = staged.scratch.as_mut().ok_or("no directory")?.file("backup.pool");
    let trial = &mut *staged.trial;
    trial.fill();
    trial.divide(PARTS);
    let (from, mut to) = (vec![1u8; COPIED], vec![0u8; COPIED]);
    let mut found = Found::default();
    for _ in 0..plan.repeat {
        let (ns, (backup, took)) = beside(trial, || {
            let start = Instant::now();
            (pool.backup(&copy), start.elapsed())
        });
        let backup = backup?;
        fs::remove_file(&copy)?;
        if backup.entries != plan.n {
            return Err(format!("{} of {} entries are in the backup", backup.entries, plan.n).into());
        }
        found.bytes = backup.bytes;
        found.seconds.push(took.as_secs_f64());
        found.backup.push(ns);
        // As long, and right after.
        found.alone.push(beside(trial, || thread::sleep(took)).0);
        found.copying.push(beside(trial, || copy_for(took, &from, &mut to)).0);
    }
    staged.trial.fault()?;
    Ok(found)
}

/// Updates until another thread has done something; returns the nanoseconds per update by the clock, and what came of
/// the other.
fn beside<R: Send>(trial: &mut dyn Trial, other: impl FnOnce() -> R + Send) -> (f64, R) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let result = other();
            is_done.store(true, Ordering::Relaxed);
            result
        });
        let (mut updates, start) = (0, Instant::now());
        // If the other panics, it is not done, but finished.
        while !is_done.load(Ordering::Relaxed) && !other.is_finished() {
            for work in trial.work(Mix::Update) {
                let mut tick = Tick::idle();
                work(&mut tick);
                updates += tick.operations();
            }
        }
        let ns = start.elapsed().as_nanos() as f64 / updates as f64;
        (ns, other.join().expect("a thread beside a writer"))
    })
}

fn copy_for(time: Duration, from: &[u8], to: &mut [u8]) {
    let start = Instant::now();
    while start.elapsed() < time {
        black_box(&mut *to).copy_from_slice(black_box(from));
    }
}

fn print(plan: &Plan, contestant: Contestant, found: &Found) -> Outcome<()> {
    let [kept, copying] = [&found.backup, &found.copying].map(|beside| clock::ratio(&found.alone, beside));
    let seconds = Runs::of(&found.seconds);
    if plan.json {
        let ns = |values: &[f64]| -> Value {
            let Runs { median, min, max } = Runs::of(values);
            let [median, min, max] = [median, min, max].map(|ns| out::rounded(ns, 2));
            json!({ "median": median, "min": min, "max": max })
        };
        let goal_seconds = GOAL_SECONDS / GOAL_ENTRIES * plan.n as f64;
        let mut row = json!({
            "mix": Mix::Backup.name(),
            "keys": plan.pattern.name(),
            "threads": 1,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "seconds": {
                "median": out::rounded(seconds.median, 4),
                "min": out::rounded(seconds.min, 4),
                "max": out::rounded(seconds.max, 4),
            },
            "bytes": found.bytes,
            "update_ns": { "alone": ns(&found.alone), "backup": ns(&found.backup), "copying": ns(&found.copying) },
            "kept": out::rounded(kept, 4),
            "kept_beside_copying": out::rounded(copying, 4),
            "goal": { "seconds": out::rounded(goal_seconds, 4), "kept": out::rounded(GOAL_KEPT, 4) },
        });
        plan.describe(contestant, &mut row);
        return Ok(out::json(&row)?);
    }
    let [alone, backup] = [&found.alone, &found.backup].map(|ns| clock::median(ns));
    Ok(out::text(&format!(
        "{:26}  {:7.3}  {:7.3}  {alone:7.1}  {backup:7.1}  {kept:6.2}  {copying:7.2}",
        contestant.label(),
        seconds.median,
        seconds.max,
    ))?)
}
