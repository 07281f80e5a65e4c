//! How long it takes until a pool answers again: after an orderly close, and after `SIGKILL`; with a journal, also
//! after a loss of power. That leaves what is on the disk, and may leave nothing of the ring: a process is killed, and
//! its ring removed. Everything else is still in the system's caches, so no disk is read.

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
use crate::scratch::{self, Scratch};
use crate::worker;
use bristlecone::{Journal, Pool, Recovery};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The limit that the project promises for ten million keys, after a close.
const CLEAN_LIMIT: Duration = Duration::from_millis(10);
/// The limits that the project promises for ten million keys after a kill: without a journal, and with one.
const DIRTY_LIMITS: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(250)];
/// The limit that the project promises for ten million keys after a loss of power.
const POWER_LIMIT: Duration = Duration::from_millis(600);

/// Keys that are looked up again after each reopen.
const SAMPLE: u64 = 1000;

/// Keys that a worker inserts, at least, before it is killed.
const BEFORE_THE_KILL: u64 = 1000;
/// The share of all keys that a worker inserts before it is killed if it has a journal, whose log should have something
/// to apply.
const BEFORE_THE_CUT: u64 = 20;

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
fn reopen<E: Held>(
    entry: E,
    process: &worker::Args,
    (durable, recovery): (u64, Recovery),
    random: &mut Random,
) -> Outcome<Reopen> {
    let contestant = process.subject.contestant()?;
    let keys = Keys::new(process.job.seed);
    let mut buffer = E::KeyBuffer::default();
    let place = random.below(durable);
    let start = Instant::now();
    let options = media::with(Pool::options(), None, process.subject.journal).recovery(recovery);
    let (subject, pool_open) = media::open::<E>(contestant, &process.subject.path, None, options)?;
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
    if missing > 0 {
        return Err(format!("LOST: {lost} of {durable} keys, and {missing} of those before them").into());
    }
    subject.close()?;
    Ok(Reopen { pool: pool_open - start, tree: tree_open - pool_open, get: answered - tree_open, lost })
}

fn reopened(process: &worker::Args, durable: (u64, Recovery), random: &mut Random) -> Outcome<Reopen> {
    with_entry!(process.subject.kind(), entry => reopen(entry, process, durable, random))
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let Place::Directory(directory) = &plan.site.place else {
        return Err(Usage("--medium dram does not outlive a process, so it cannot be opened again".to_owned()).into());
    };
    if !plan.json {
        out::text(&format!(
            "Until a pool of {} {} answers again, in milliseconds, {}, seed {}\n\
             (clean: after an orderly close; dirty: after SIGKILL during inserts; power: the same, and what is not on the disk\n\
             is gone; the limits are for 10 M u64 keys; lost: of what was acknowledged before the kill, at the most)\n\n\
             contestant                  after     pool     tree      get    total    worst    lost    limit",
            out::count(plan.n),
            plan.kind(),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in plan.contestants.iter().filter(|contestant| contestant.outlives()) {
        let mut scratch = Scratch::new(directory.as_deref())?;
        print(plan, contestant, &measure(plan, contestant, scratch.pool("reopened"))?)?;
    }
    Ok(())
}

/// The reopens of what another process has filled.
#[derive(Default)]
struct Found {
    clean: Vec<Reopen>,
    dirty: Vec<Reopen>,
    /// After a loss of power, with a journal.
    power: Vec<Reopen>,
}

fn measure(plan: &Plan, contestant: Contestant, path: PathBuf) -> Outcome<Found> {
    let mut process = worker::Args {
        subject: plan.subject(contestant, path),
        job: Job { seed: plan.seed, from: 0, to: plan.n, every: 100 },
    };
    let mut random = Random::new(plan.seed);
    let journal = process.subject.journal;
    // With each key on the disk, this would take hours.
    process.subject.journal = journal.map(|_| Journal::OnRequest);
    let mut durable = process.start()?.finish()?;
    process.subject.journal = journal;
    let mut found = Found::default();
    for _ in 0..plan.repeat {
        let clean = reopened(&process, (durable, Recovery::Whole), &mut random)?;
        if clean.lost > 0 {
            return Err(format!("{} keys are lost after an orderly close", clean.lost).into());
        }
        found.clean.push(clean);
    }
    let inserts = match journal {
        // More would take minutes.
        None | Some(Journal::Each) => BEFORE_THE_KILL,
        Some(_) => BEFORE_THE_KILL.max(plan.n / BEFORE_THE_CUT),
    };
    for is_cut in [false, true].into_iter().take(1 + usize::from(journal.is_some())) {
        for _ in 0..plan.repeat {
            (process.job.from, process.job.to) = (durable, u64::MAX);
            let acknowledged = process.start()?.kill_at(durable + inserts)?;
            let recovery = if is_cut {
                cut(&process.subject.path)?;
                Recovery::WithoutRing
            } else {
                Recovery::Whole
            };
            let reopen = reopened(&process, (acknowledged, recovery), &mut random)?;
            if reopen.lost > 0 && contestant.is_ours() && (!is_cut || journal == Some(Journal::Each)) {
                return Err(format!("LOST: {} of {acknowledged} keys", reopen.lost).into());
            }
            durable = acknowledged - reopen.lost;
            if is_cut { &mut found.power } else { &mut found.dirty }.push(reopen);
        }
    }
    Ok(found)
}

/// Removes the ring that a killed process has left: so what is not in the log is lost, as in a loss of power.
fn cut(pool: &Path) -> Outcome<()> {
    match &*scratch::rings(pool) {
        [] => Err("the killed process has left no ring".into()),
        rings => Ok(rings.iter().try_for_each(std::fs::remove_file)?),
    }
}

fn ms(t: Duration) -> f64 {
    t.as_secs_f64() * 1000.0
}

fn print(plan: &Plan, contestant: Contestant, found: &Found) -> Outcome<()> {
    let Found { clean, dirty, power } = found;
    let dirty_limit = DIRTY_LIMITS[usize::from(plan.site.journal.is_some())];
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
            "power_ms": (!power.is_empty()).then(|| object(power)),
            "lost": lost(dirty),
            "lost_power": (!power.is_empty()).then(|| lost(power)),
            "limit_ms": { "clean": ms(CLEAN_LIMIT), "dirty": ms(dirty_limit), "power": ms(POWER_LIMIT) },
        });
        plan.describe(contestant, &mut row);
        out::json(&row)?;
        return Ok(());
    }
    let tables = [("clean", clean, CLEAN_LIMIT), ("dirty", dirty, dirty_limit), ("power", power, POWER_LIMIT)];
    for (after, of, limit) in tables.into_iter().filter(|(_, of, _)| !of.is_empty()) {
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
