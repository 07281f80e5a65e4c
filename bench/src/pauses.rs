//! How long single updates take beside what else goes on in a pool, without a journal and with one.
//!
//! One thread updates as fast as it can, and each update is timed by itself, the reading of the clock included. What
//! is slow for it is slow for a program that waits for its changes.

use crate::clock::{self, Runs, Spent, Times};
use crate::journal::{name, row};
use crate::media::{self, Staged};
use crate::mix::Mix;
use crate::ordered_map::{Fault, NAME};
use crate::out::{self, Outcome};
use crate::phases::Workload;
use crate::place::Site;
use crate::plan::{Contestant, Plan};
use bristlecone::{Journal, Pool};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The sides: without a journal, and with the one that a pool on a disk has by default.
const SIDES: [Option<Journal>; 2] = [None, Some(Journal::Every(Duration::from_millis(10)))];

/// How many times as long as without a journal the 999th of 1000 updates may take.
const GOAL: f64 = 2.0;

/// How long a repeat takes; less if there are so few keys that nothing can be said.
const TIME: Duration = Duration::from_secs(4);
const FEW: u64 = 100_000;

/// Parts of a phase: after each, it is looked whether the time is over.
const PARTS: u64 = 100;

/// What goes on beside the updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// A snapshot is opened every second, and closed half a second later.
    Snapshot,
    /// One backup after the other.
    Backup,
    /// One compacting of the tree after the other.
    Compact,
    /// One sync after the other.
    Sync,
}

impl Beside {
    const ALL: [Self; 5] = [Self::Nothing, Self::Snapshot, Self::Backup, Self::Compact, Self::Sync];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "idle",
            Self::Snapshot => "snapshot",
            Self::Backup => "backup",
            Self::Compact => "compact",
            Self::Sync => "sync",
        }
    }

    /// Does it once.
    fn once(self, pool: &Pool, contestant: Contestant, copy: &Path) -> Outcome<()> {
        match self {
            Self::Nothing => thread::sleep(Duration::from_millis(1)),
            Self::Snapshot => {
                let snapshot = pool.snapshot();
                thread::sleep(Duration::from_millis(500));
                drop(snapshot);
                thread::sleep(Duration::from_millis(500));
            }
            Self::Backup => {
                pool.backup(copy)?;
                fs::remove_file(copy)?;
            }
            Self::Compact => {
                match contestant {
                    Contestant::ByteMap => pool.map::<Vec<u8>, Vec<u8>>(NAME)?.compact()?,
                    _ => pool.tree(NAME)?.compact()?,
                };
            }
            Self::Sync => pool.sync()?,
        }
        Ok(())
    }
}

/// Nanoseconds that single updates took, of each repeat.
#[derive(Default)]
struct Singles {
    median: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    max: Vec<f64>,
}

impl Singles {
    fn add(&mut self, rounds: Vec<Spent>) {
        let mut times = Times::default();
        times.add(Spent::together(rounds));
        let times = times.summary();
        self.median.push(times.median);
        self.p99.push(times.p99);
        self.p999.push(times.p999);
        self.max.push(times.max);
    }
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    if !plan.json {
        out::text(&format!(
            "Single updates of {} {} beside what else goes on, with and without a journal, in {}; {} of {} s each, seed {}\n\
             (ns by the clock: the median one, the 99th of 100, the 999th of 1000, and the slowest of all; ratio: of the 999th, to\n\
             that without a journal)\n\n\
             contestant                  beside    journal   median      p99    p99.9         max   ratio  goal",
            out::count(plan.n),
            plan.kind(),
            plan.site.place.name(),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            TIME.as_secs(),
            plan.seed,
        ))?;
    }
    for &contestant in plan.contestants.iter().filter(|contestant| contestant.has_snapshots()) {
        let mut sides = Vec::new();
        let load = Workload { threads: 1, ..plan.workload(0) };
        for journal in SIDES {
            let mut side = media::timed(&Site { journal, ..plan.site.clone() }, contestant, &load)?;
            side.trial.fill();
            side.trial.divide(PARTS);
            sides.push(side);
        }
        for beside in Beside::ALL {
            print(plan, contestant, beside, &measure(plan, contestant, beside, &mut sides)?)?;
        }
        sides.iter().try_for_each(|side| side.trial.fault())?;
    }
    Ok(())
}

/// What was found, in the order of [`SIDES`].
fn measure(plan: &Plan, contestant: Contestant, beside: Beside, sides: &mut [Staged]) -> Outcome<[Singles; 2]> {
    let mut found: [Singles; 2] = Default::default();
    for repeat in 0..plan.repeat as usize {
        // The side that comes first alternates.
        for turn in 0..sides.len() {
            let side = (turn + repeat) % sides.len();
            found[side].add(updates(plan, contestant, beside, &mut sides[side])?);
        }
    }
    Ok(found)
}

/// Says that it is over when it is dropped.
struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Updates for a while.
fn updates(plan: &Plan, contestant: Contestant, beside: Beside, side: &mut Staged) -> Outcome<Vec<Spent>> {
    let pool = side.pool.clone().ok_or("no pool")?;
    let copy = side.scratch.as_mut().ok_or("no directory")?.file("copy.pool");
    // Nothing is left of what was done before.
    pool.sync()?;
    let (is_over, fault) = (AtomicBool::new(false), Fault::default());
    let spent = thread::scope(|scope| {
        // Also if an update panics.
        let _ends = Ends(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = fault.note(beside.once(&pool, contestant, &copy));
            }
        });
        let (mut spent, start) = (Vec::new(), Instant::now());
        let time = if plan.n < FEW { TIME / 40 } else { TIME };
        while start.elapsed() < time {
            spent.push(clock::spend(1, side.trial.work(Mix::Update)));
        }
        spent
    });
    fault.get()?;
    Ok(spent)
}

fn print(plan: &Plan, contestant: Contestant, beside: Beside, found: &[Singles; 2]) -> Outcome<()> {
    for (journal, of) in SIDES.into_iter().zip(found) {
        let ratio = journal.map(|_| clock::ratio(&of.p999, &found[0].p999));
        let [median, p99, p999, max] = [&of.median, &of.p99, &of.p999, &of.max].map(|ns| Runs::of(ns));
        if plan.json {
            let ns = |ns: f64| out::rounded(ns, 1);
            let single = json!({
                "threads": 1,
                "beside": beside.name(),
                "single_ns": {
                    "median": ns(median.median),
                    "p99": ns(p99.median),
                    "p999": ns(p999.median),
                    "p999_min": ns(p999.min),
                    "p999_max": ns(p999.max),
                    "max": ns(max.max),
                },
                "ratio": ratio.map(|ratio| out::rounded(ratio, 4)),
                "goal": ratio.map(|_| GOAL),
            });
            row((plan, Mix::Pauses), contestant, journal, single)?;
            continue;
        }
        let compared = ratio.map_or_else(String::new, |ratio| format!("{ratio:8.2}  {GOAL:4.1}"));
        out::text(&format!(
            "{:26}  {:8}  {:7}  {:7.1}  {:7.1}  {:7.1}  {:10.1}{compared}",
            contestant.label(),
            beside.name(),
            name(journal),
            median.median,
            p99.median,
            p999.median,
            max.max,
        ))?;
    }
    Ok(())
}
