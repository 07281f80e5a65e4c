//! What a journal costs, next to a pool without one: the time of operations, the bytes that are written, and how long
//! the slowest gets take while a thread updates, and its changes are written to the disk.

use crate::clock::{self, Runs, Spent, Tick, Times};
use crate::media::{self, Staged};
use crate::mix::Mix;
use crate::ordered_map::Fault;
use crate::out::{self, Outcome};
use crate::parse;
use crate::phases::Workload;
use crate::place::Site;
use crate::plan::{Contestant, Plan};
use crate::report;
use crate::turns::{self, ROUNDS};
use bristlecone::medium::Domain;
use bristlecone::stat::JournalStat;
use bristlecone::{Journal, Pool};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// The sides. With `Each`, the disk is measured: see [`durable`](crate::durable).
const SIDES: [Option<Journal>; 3] = [None, Some(Journal::OnRequest), Some(Journal::Every(Duration::from_millis(10)))];

/// What is done, and how many times as long as without a journal it may take.
const OPERATIONS: [(Mix, f64); 3] = [(Mix::Insert, 1.25), (Mix::Get, 1.03), (Mix::Update, 1.2)];

/// How many times as long as without a journal the 999th of 1000 gets may take, beside a thread that updates.
const TAIL_GOAL: f64 = 1.5;

/// What the threads do while slow gets are looked for. Updates take up to twice as long as gets; there are more of
/// them, so that they do not end first.
const BESIDE: [Mix; 3] = [Mix::Get, Mix::Update, Mix::Update];

/// Gets in a round, at most. They take much longer than the time between two syncs.
const GETS: u64 = 300_000;

/// What was measured of one side.
#[derive(Default)]
struct Found {
    /// In the order of [`OPERATIONS`].
    times: [Times; 3],
    /// What the journal says, of each repeat: once all keys are inserted and synced, and in the end.
    inserted: Vec<JournalStat>,
    ended: Vec<JournalStat>,
    /// Nanoseconds that single gets beside updates took, of each repeat.
    tails: Tails,
}

#[derive(Default)]
struct Tails {
    median: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    if !plan.json {
        out::text(&format!(
            "{} {} with and without a journal, in {}; {} of {ROUNDS} rounds in turn, seed {}\n\
             (own: ns of CPU time per operation of the thread that does it, the median repeat; all: of all threads, with a sync\n\
             after each round; clock: of the clock, without it; ratio: of own, to the pool without a journal; log, pool: bytes\n\
             written to each per insert; gets beside updates: the median one, the 99th of 100, and the 999th of 1000)\n\n\
             contestant                  operation  journal      own      all    clock   ratio  goal      log     pool  syncs  checkpoints  waits",
            out::count(plan.n),
            plan.kind(),
            plan.site.place.name(),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in plan.contestants.iter().filter(|contestant| contestant.is_ours()) {
        print(plan, contestant, &measure(plan, contestant)?)?;
    }
    Ok(())
}

/// What was found, in the order of [`SIDES`].
fn measure(plan: &Plan, contestant: Contestant) -> Outcome<[Found; 3]> {
    let mut found: [Found; 3] = Default::default();
    for repeat in 0..plan.repeat {
        let load = Workload { threads: 1, n: turns::part(plan.n) * ROUNDS, ..plan.workload(repeat) };
        operations(plan, contestant, &load, &mut found)?;
        tails(plan, contestant, &Workload { threads: BESIDE.len() as u32, ..load }, &mut found)?;
    }
    Ok(found)
}

/// An empty contestant for each side.
fn sides(plan: &Plan, contestant: Contestant, load: &Workload) -> Outcome<Vec<Staged>> {
    let new = |journal| media::timed(&Site { journal, ..plan.site.clone() }, contestant, load);
    SIDES.into_iter().map(new).collect()
}

/// Waits until all that a side has done is on the disk, if it has a journal. So no side works while it is another one's
/// turn.
fn settle(pool: &Option<Pool>, fault: &Fault) {
    if let Some(pool) = pool.as_ref().filter(|pool| pool.durability() == Domain::Journal) {
        fault.note(pool.sync());
    }
}

fn stat(side: &Staged) -> Option<JournalStat> {
    side.pool.as_ref().and_then(Pool::journal)
}

fn operations(plan: &Plan, contestant: Contestant, load: &Workload, found: &mut [Found; 3]) -> Outcome<()> {
    let (mut sides, fault) = (sides(plan, contestant, load)?, Fault::default());
    sides.iter_mut().for_each(|side| side.trial.divide(ROUNDS));
    for (number, &(mix, _)) in OPERATIONS.iter().enumerate() {
        let spent = turns::take(sides.len(), |side, _| {
            let Staged { trial, pool, .. } = &mut sides[side];
            clock::spend_and(plan.batch, trial.work(mix), || settle(pool, &fault))
        });
        for ((found, side), rounds) in found.iter_mut().zip(&sides).zip(spent) {
            found.times[number].add(Spent::together(rounds));
            if mix == Mix::Insert {
                found.inserted.extend(stat(side));
            }
        }
    }
    found.iter_mut().zip(&sides).for_each(|(found, side)| found.ended.extend(stat(side)));
    sides.iter().try_for_each(|side| side.trial.fault())?;
    fault.get()
}

/// Times gets one by one, while another thread updates.
fn tails(plan: &Plan, contestant: Contestant, load: &Workload, found: &mut [Found; 3]) -> Outcome<()> {
    let (mut sides, fault) = (sides(plan, contestant, load)?, Fault::default());
    for side in &mut sides {
        side.trial.fill();
        side.trial.divide((load.n / u64::from(load.threads) / GETS).max(1));
        settle(&side.pool, &fault);
    }
    let spent = turns::take(sides.len(), |side, _| {
        let mut work = sides[side].trial.each(&BESIDE);
        let gets = work.remove(0);
        let spent = thread::scope(|scope| {
            scope.spawn(|| work.into_iter().for_each(|update| update(&mut Tick::idle())));
            clock::spend(1, vec![gets])
        });
        settle(&sides[side].pool, &fault);
        spent
    });
    for (found, rounds) in found.iter_mut().zip(spent) {
        let mut times = Times::default();
        times.add(Spent::together(rounds));
        let times = times.summary();
        found.tails.median.push(times.median);
        found.tails.p99.push(times.p99);
        found.tails.p999.push(times.p999);
    }
    sides.iter().try_for_each(|side| side.trial.fault())?;
    fault.get()
}

/// Bytes per insert, the median repeat.
fn per_insert(plan: &Plan, found: &Found, bytes: fn(&JournalStat) -> u64) -> f64 {
    let inserts = (turns::part(plan.n) * ROUNDS) as f64;
    clock::median(&found.inserted.iter().map(|stat| bytes(stat) as f64 / inserts).collect::<Vec<_>>())
}

/// A count at the end, the median repeat.
fn counted(found: &Found, count: fn(&JournalStat) -> u64) -> f64 {
    clock::median(&found.ended.iter().map(|stat| count(stat) as f64).collect::<Vec<_>>())
}

fn print(plan: &Plan, contestant: Contestant, found: &[Found; 3]) -> Outcome<()> {
    for (number, &(mix, goal)) in OPERATIONS.iter().enumerate() {
        for (journal, of) in SIDES.into_iter().zip(found) {
            let (times, without) = (&of.times[number], &found[0].times[number]);
            let compared = journal.map(|_| (clock::ratio(&times.own, &without.own), goal));
            let written = (journal.is_some() && mix == Mix::Insert).then(|| {
                let bytes = [|stat: &JournalStat| stat.log_written, |stat: &JournalStat| stat.pool_written];
                let counts = [
                    |stat: &JournalStat| stat.syncs,
                    |stat: &JournalStat| stat.checkpoints,
                    |stat: &JournalStat| stat.waits,
                ];
                (bytes.map(|bytes| per_insert(plan, of, bytes)), counts.map(|count| counted(of, count)))
            });
            operation(plan, contestant, mix, (journal, times), compared, written)?;
        }
    }
    for (journal, of) in SIDES.into_iter().zip(found) {
        let ratio = journal.map(|_| clock::ratio(&of.tails.p999, &found[0].tails.p999));
        tail(plan, contestant, journal, &of.tails, ratio)?;
    }
    Ok(())
}

/// What a side is called.
pub(crate) fn name(journal: Option<Journal>) -> String {
    journal.map_or_else(|| "none".to_owned(), parse::journal_name)
}

/// Prints a row of JSON of a mix whose sides have journals, with what all of them say.
pub(crate) fn row(
    (plan, mix): (&Plan, Mix),
    contestant: Contestant,
    journal: Option<Journal>,
    mut row: Value,
) -> Outcome<()> {
    row["mix"] = mix.name().into();
    row["keys"] = plan.pattern.name().into();
    row["repeat"] = plan.repeat.into();
    row["seed"] = plan.seed.into();
    row["medium"] = plan.site.place.name().into();
    plan.describe(contestant, &mut row);
    row["journal"] = name(journal).into();
    Ok(out::json(&row)?)
}

fn operation(
    plan: &Plan,
    contestant: Contestant,
    mix: Mix,
    (journal, times): (Option<Journal>, &Times),
    compared: Option<(f64, f64)>,
    written: Option<([f64; 2], [f64; 3])>,
) -> Outcome<()> {
    let own = times.clone().summary().own;
    if plan.json {
        let written = written.map(|([log, pool], [syncs, checkpoints, waits])| {
            json!({
                "log_bytes_per_op": out::rounded(log, 2),
                "pool_bytes_per_op": out::rounded(pool, 2),
                "syncs": syncs,
                "checkpoints": checkpoints,
                "waits": waits,
            })
        });
        let ns = |ns: f64| out::rounded(ns, 2);
        return row(
            (plan, Mix::Journal),
            contestant,
            journal,
            json!({
                "operation": mix.name(),
                "threads": 1,
                "ns_per_op": report::ns(times),
                "own_ns_per_op": { "median": ns(own.median), "min": ns(own.min), "max": ns(own.max) },
                "ratio": compared.map(|(ratio, _)| out::rounded(ratio, 4)),
                "goal": compared.map(|(_, goal)| goal),
                "written": written,
            }),
        );
    }
    let summary = times.clone().summary();
    let compared = compared.map_or_else(|| " ".repeat(12), |(ratio, goal)| format!("{ratio:6.2}  {goal:4.2}"));
    let written = written.map_or_else(String::new, |([log, pool], [syncs, checkpoints, waits])| {
        format!("  {log:7.1}  {pool:7.1}  {syncs:5.0}  {checkpoints:11.0}  {waits:5.0}")
    });
    Ok(out::text(&format!(
        "{:26}  {:9}  {:7}  {:7.1}  {:7.1}  {:7.1}  {compared}{written}",
        contestant.label(),
        mix.name(),
        name(journal),
        own.median,
        summary.cpu.median,
        summary.run.median,
    ))?)
}

fn tail(
    plan: &Plan,
    contestant: Contestant,
    journal: Option<Journal>,
    tails: &Tails,
    ratio: Option<f64>,
) -> Outcome<()> {
    let [median, p99, p999] = [&tails.median, &tails.p99, &tails.p999].map(|ns| Runs::of(ns));
    if plan.json {
        let ns = |ns: f64| out::rounded(ns, 1);
        return row(
            (plan, Mix::Journal),
            contestant,
            journal,
            json!({
                "operation": "get beside updates",
                "threads": 2,
                "single_ns": {
                    "median": ns(median.median),
                    "p99": ns(p99.median),
                    "p999": ns(p999.median),
                    "p999_min": ns(p999.min),
                    "p999_max": ns(p999.max),
                },
                "ratio": ratio.map(|ratio| out::rounded(ratio, 4)),
                "goal": ratio.map(|_| TAIL_GOAL),
            }),
        );
    }
    let compared = ratio.map_or_else(String::new, |ratio| format!("{ratio:6.2}  {TAIL_GOAL:4.2}"));
    Ok(out::text(&format!(
        "{:26}  gets beside updates  {:7}  {:7.1}  {:7.1}  {:7.1}  {compared}",
        contestant.label(),
        name(journal),
        median.median,
        p99.median,
        p999.median,
    ))?)
}
