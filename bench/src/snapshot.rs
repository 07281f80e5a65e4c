//! What operations cost beside an open snapshot.
//!
//! The first change of a leaf after a snapshot was opened copies the leaf, so a snapshot costs most when it is young.

use crate::clock::{self, Spent, Times};
use crate::media;
use crate::mix::Mix;
use crate::out::{self, Outcome};
use crate::phases::Workload;
use crate::plan::{Contestant, Plan};
use crate::report;
use crate::turns::{self, ROUNDS};
use serde_json::json;

/// What is done, and how many times as long as without a snapshot it may take.
const OPERATIONS: [(Mix, Option<f64>); 3] = [(Mix::Get, Some(1.2)), (Mix::Insert, Some(1.5)), (Mix::Update, None)];

/// The times of one operation, without a snapshot and beside one.
#[derive(Default)]
struct Found {
    times: [Times; 2],
    /// The times of the first round, in which most of the leaves that are changed are copied.
    first: [Times; 2],
}

impl Found {
    fn ratio([without, beside]: &[Times; 2]) -> f64 {
        beside.ratio(without)
    }
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    if !plan.json {
        out::text(&format!(
            "{} operations in a tree of as many {}, without and beside a snapshot that was opened\n\
             before; {} of {ROUNDS} rounds in turn, seed {}\n\
             (ns of CPU time per operation, the median repeat; ratio: beside to without; young: that of the first round)\n\n\
             contestant                  operation   without    beside    ratio    young   goal",
            out::count(plan.n),
            plan.kind(),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in plan.contestants.iter().filter(|contestant| contestant.has_snapshots()) {
        let found = measure(plan, contestant)?;
        for ((mix, goal), found) in OPERATIONS.into_iter().zip(&found) {
            print(plan, contestant, mix, goal, found)?;
        }
    }
    Ok(())
}

/// The times, in the order of [`OPERATIONS`].
fn measure(plan: &Plan, contestant: Contestant) -> Outcome<[Found; 3]> {
    let mut found: [Found; 3] = Default::default();
    for repeat in 0..plan.repeat {
        let load = Workload { threads: 1, ..plan.workload(repeat) };
        let new = || media::timed(&plan.site, contestant, &load);
        let mut sides = [new()?, new()?];
        for side in &mut sides {
            side.trial.fill();
            side.trial.divide(ROUNDS);
        }
        for (&(mix, _), found) in OPERATIONS.iter().zip(&mut found) {
            // Each operation has a snapshot of its own, for which nothing is copied yet.
            let pool = sides[1].pool.clone().ok_or("no pool")?;
            let snapshot = pool.snapshot();
            let spent = turns::take(2, |side, _| clock::spend(plan.batch, sides[side].trial.work(mix)));
            if pool.snapshots().expired > 0 {
                return Err("the snapshot was given up: too many keys".into());
            }
            drop(snapshot);
            for (side, rounds) in spent.into_iter().enumerate() {
                found.first[side].add(rounds[0].clone());
                found.times[side].add(Spent::together(rounds));
            }
        }
        sides.iter().try_for_each(|side| side.trial.fault())?;
    }
    Ok(found)
}

fn print(plan: &Plan, contestant: Contestant, mix: Mix, goal: Option<f64>, found: &Found) -> Outcome<()> {
    let [without, beside] = &found.times;
    let [ratio, young] = [&found.times, &found.first].map(Found::ratio);
    if plan.json {
        let mut row = json!({
            "mix": Mix::Snapshot.name(),
            "operation": mix.name(),
            "keys": plan.pattern.name(),
            "threads": 1,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "without": { "ns_per_op": report::ns(without) },
            "beside": { "ns_per_op": report::ns(beside) },
            "ratio": out::rounded(ratio, 4),
            "ratio_young": out::rounded(young, 4),
            "goal": goal,
        });
        plan.describe(contestant, &mut row);
        return Ok(out::json(&row)?);
    }
    let cpu = |times: &Times| times.clone().summary().cpu.median;
    let goal = goal.map_or_else(String::new, |goal| format!("{goal:.1}"));
    Ok(out::text(&format!(
        "{:26}  {:9}  {:8.1}  {:8.1}  {ratio:7.2}  {young:7.2}  {goal:>5}",
        contestant.label(),
        mix.name(),
        cpu(without),
        cpu(beside),
    ))?)
}
