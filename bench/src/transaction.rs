//! What a transaction costs next to plain inserts of the same keys.

use crate::clock::{self, Tick, Times};
use crate::counts::PerOp;
use crate::entry::Kind;
use crate::media;
use crate::mix::Mix;
use crate::numbers::Keys;
use crate::ordered_map::Fault;
use crate::out::{self, Outcome};
use crate::plan::{Contestant, Plan};
use crate::report;
use crate::scratch::Scratch;
use crate::turns::{self, ROUNDS};
use bristlecone::medium::{Domain, Medium};
use bristlecone::{IndexKind, OneLine, PTree, Pool};
use serde_json::json;

/// What is done at a time. The keys are new, and nothing is read.
#[derive(Debug, Clone, Copy)]
struct Case {
    inserts: u64,
    /// The keys go to each of these in turn.
    trees: usize,
    /// How many times as long as plain inserts it may take in a transaction.
    goal: f64,
}

const CASES: [Case; 2] = [Case { inserts: 1, trees: 1, goal: 1.5 }, Case { inserts: 10, trees: 2, goal: 1.4 }];

/// How the inserts are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Plain,
    Transaction,
}

impl How {
    const ALL: [Self; 2] = [Self::Plain, Self::Transaction];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Transaction => "transaction",
        }
    }
}

/// Empty trees in a pool, and the keys that go there.
struct Side<M: Medium> {
    pool: Pool<M>,
    trees: Vec<PTree<OneLine, M>>,
    keys: Keys,
    case: Case,
    how: How,
    fault: Fault,
}

impl<M: Medium> Side<M> {
    fn new(pool: Pool<M>, index: IndexKind, seed: u64, case: Case, how: How) -> Outcome<Self> {
        let tree = |name| Ok(pool.tree_with(name, index)?);
        let trees = ["a", "b"].into_iter().take(case.trees).map(tree).collect::<Outcome<_>>()?;
        Ok(Self { pool, trees, keys: Keys::new(seed), case, how, fault: Fault::default() })
    }

    /// Inserts the keys of the operations from this one on.
    fn work(&self, first: u64, operations: u64, tick: &mut Tick) {
        for operation in first..first + operations {
            self.fault.note(match self.how {
                How::Plain => self.plainly(operation),
                How::Transaction => self.in_a_transaction(operation),
            });
            tick.done(1);
        }
    }

    /// The keys of an operation, with the trees that they are for.
    #[inline]
    fn entries(&self, operation: u64) -> impl Iterator<Item = (&PTree<OneLine, M>, u64)> {
        let first = operation * self.case.inserts;
        (0..self.case.inserts).map(move |i| (&self.trees[i as usize % self.case.trees], self.keys.key(first + i)))
    }

    fn plainly(&self, operation: u64) -> bristlecone::Result<()> {
        self.entries(operation).try_for_each(|(tree, key)| tree.insert(key, Keys::value(key)).map(drop))
    }

    fn in_a_transaction(&self, operation: u64) -> bristlecone::Result<()> {
        self.pool.transaction(|transaction| {
            self.entries(operation).try_for_each(|(tree, key)| transaction.insert(tree, key, Keys::value(key)))
        })
    }

    /// The first error that occurred; keys that are not there count as one.
    fn check(&self, operations: u64) -> Outcome<()> {
        self.fault.get()?;
        let (there, inserted) = (self.trees.iter().map(PTree::len).sum::<u64>(), operations * self.case.inserts);
        if there == inserted { Ok(()) } else { Err(format!("{there} of {inserted} keys are there").into()) }
    }
}

/// What was measured of one way to insert.
#[derive(Default)]
struct Found {
    times: Times,
    counts: Option<PerOp>,
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    if !plan.json {
        out::text(&format!(
            "Inserts of {} new u64 keys, plain and in transactions, {}; {} of {ROUNDS} rounds in turn, seed {}\n\
             (cpu: ns of CPU time for all inserts of a transaction, or as many plain ones, the median repeat, the least\n\
             and the greatest; ratio: to the plain ones; lines and fences: counted apart)\n\n\
             inserts  trees  how               cpu     (least greatest)    ratio   goal    lines  fences",
            out::count(plan.n),
            if plan.site.domain.is_some() { "flushed and fenced" } else { "nothing flushed" },
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in &plan.contestants {
        let Contestant::Tree(shape) = contestant else { continue };
        for case in CASES.into_iter().filter(|_| contestant.has_snapshots()) {
            let (found, domain) = measure(plan, shape.index.kind(), case)?;
            print(plan, contestant, case, &found, domain)?;
        }
    }
    Ok(())
}

/// Times both ways to insert, in the order of [`How::ALL`], and counts them. Also says what the pools survive.
fn measure(plan: &Plan, index: IndexKind, case: Case) -> Outcome<([Found; 2], Option<Domain>)> {
    let capacity = media::capacity(plan.n, Kind::Words);
    let part = turns::part(plan.n / case.inserts);
    let mut found: [Found; 2] = Default::default();
    let mut domain = None;
    for repeat in 0..plan.repeat {
        let seed = plan.seed.wrapping_add(repeat.into());
        // One directory for each side. The pools are closed before their files are removed.
        let mut places = [Scratch::new(plan.site.place.directory())?, Scratch::new(plan.site.place.directory())?];
        let mut sides = Vec::new();
        for (how, place) in How::ALL.into_iter().zip(&mut places) {
            let pool = media::pool(&plan.site, place, capacity)?;
            domain = Some(pool.durability());
            sides.push(Side::new(pool, index, seed, case, how)?);
        }
        let spent = turns::take(sides.len(), |side, round| {
            let side = &sides[side];
            clock::spend(plan.batch, vec![Box::new(move |tick| side.work(round * part, part, tick))])
        });
        for ((found, side), rounds) in found.iter_mut().zip(&sides).zip(spent) {
            side.check(part * ROUNDS)?;
            found.times.add(clock::Spent::together(rounds));
        }
    }
    for (found, how) in found.iter_mut().zip(How::ALL).filter(|_| plan.count) {
        let (pool, counter) = media::counted_pool(capacity)?;
        let side = Side::new(pool, index, plan.seed, case, how)?;
        let before = counter.counts();
        side.work(0, part * ROUNDS, &mut Tick::idle());
        found.counts = Some(PerOp::new(counter.counts() - before, part * ROUNDS));
        side.check(part * ROUNDS)?;
    }
    Ok((found, domain))
}

fn print(plan: &Plan, contestant: Contestant, case: Case, found: &[Found; 2], domain: Option<Domain>) -> Outcome<()> {
    for (how, of) in How::ALL.into_iter().zip(found) {
        let compared = (how == How::Transaction).then(|| (of.times.ratio(&found[0].times), case.goal));
        if plan.json {
            let per_op = |count: fn(&PerOp) -> f64| of.counts.map(|counts| out::rounded(count(&counts), 4));
            let mut row = json!({
                "mix": Mix::Transaction.name(),
                "how": how.name(),
                "inserts": case.inserts,
                "trees": case.trees,
                "threads": 1,
                "domain": domain.map(Domain::name),
                "repeat": plan.repeat,
                "seed": plan.seed,
                "ns_per_op": report::ns(&of.times),
                "ratio_to_plain": compared.map(|(ratio, _)| out::rounded(ratio, 4)),
                "goal": compared.map(|(_, goal)| goal),
                "lines_per_op": per_op(|counts| counts.lines),
                "fences_per_op": per_op(|counts| counts.fences),
            });
            plan.describe(contestant, &mut row);
            out::json(&row)?;
            continue;
        }
        let cpu = of.times.clone().summary().cpu;
        let compared = compared.map_or_else(|| " ".repeat(13), |(ratio, goal)| format!("{ratio:7.2} {goal:5.1}"));
        let counts =
            of.counts.map_or_else(String::new, |counts| format!("  {:7.2} {:7.2}", counts.lines, counts.fences));
        out::text(&format!(
            "{:7}  {:5}  {:11}  {:8.1} ({:8.1} {:8.1})  {compared}{counts}",
            case.inserts,
            case.trees,
            how.name(),
            cpu.median,
            cpu.min,
            cpu.max,
        ))?;
    }
    Ok(())
}
