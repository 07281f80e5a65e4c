//! What ordering and write-back cost, without a tree: one shift in one node, a flush of a region, a search of a node.

use super::figures::Figure;
use super::medium::{Switched, Switches};
use super::plan::Plan;
use super::row::{Row, Setting, compare};
use crate::clock::{self, Tick};
use crate::counts::PerOp;
use crate::numbers::Random;
use crate::out::Outcome;
use crate::scratch::Scratch;
use bristlecone::medium::{LINE, Mapped, Medium, Step};
use std::hint::black_box;
use std::time::Duration;

/// Bytes of the node that is shifted.
const NODE: u32 = 2048;
/// Entries that are shifted.
const ENTRIES: u64 = 63;
/// One in this many operations is a shift: the paper has a million keys and ten thousand shifts.
const SHIFTS: u64 = 100;

type Way = (&'static str, &'static str, bool, fn(&Switched, u64));

/// Mix, name, whether it writes back, and what is done how often. The first of each mix is the baseline.
const WAYS: &[Way] = &[
    ("shift", "volatile", false, |m, times| (0..times).for_each(|i| shift(m, i, false))),
    ("shift", "flush", true, |m, times| (0..times).for_each(|i| shift(m, i, false))),
    ("shift", "flush-order", true, |m, times| (0..times).for_each(|i| shift(m, i, true))),
    ("shift", "copy", true, |m, times| (0..times).for_each(|i| copy(m, i))),
    ("flush", "together", true, |m, times| {
        dirty(m, times);
        m.flush(0, times * LINE, Step::Measure);
        m.fence(Step::Measure);
    }),
    ("flush", "each", true, |m, times| {
        dirty(m, times);
        for i in 0..times {
            m.flush(i * LINE, LINE, Step::Measure);
            m.fence(Step::Measure);
        }
    }),
];

/// Makes room for a new smallest entry, line by line and in order; `ordered` for a CPU that reorders stores.
fn shift(m: &Switched, new: u64, ordered: bool) {
    let order = || {
        if ordered {
            m.order(Step::Measure)
        }
    };
    let mut line = ENTRIES * 16 / LINE;
    for slot in (0..=ENTRIES).rev() {
        let at = slot * 16;
        if at / LINE != line {
            m.flush(line * LINE, LINE, Step::Measure);
            m.fence(Step::Measure);
            line = at / LINE;
        }
        let [key, value] = if slot == 0 { [new, new] } else { [m.load(at - 16), m.load(at - 8)] };
        m.store(at + 8, value);
        order();
        m.store(at, key);
        order();
    }
    m.flush(0, LINE, Step::Measure);
    m.fence(Step::Measure);
}

/// Makes room for a new smallest entry in a copy of the node: one flush of all lines, and then one of the word that
/// points to the copy.
fn copy(m: &Switched, new: u64) {
    let (pointer, from) = (2 * u64::from(NODE), u64::from(NODE) * (new % 2));
    let to = u64::from(NODE) - from;
    m.store_pair(to, [new, new]);
    for slot in 0..ENTRIES {
        let at = slot * 16;
        m.store_pair(to + at + 16, [m.load(from + at), m.load(from + at + 8)]);
    }
    m.flush(to, (ENTRIES + 1) * 16, Step::Measure);
    m.fence(Step::Measure);
    m.store(pointer, to);
    m.flush(pointer, 8, Step::Measure);
    m.fence(Step::Measure);
}

fn dirty(m: &Switched, lines: u64) {
    (0..lines).for_each(|i| m.store(i * LINE, i));
}

pub(crate) fn run(figure: &Figure, plan: &Plan) -> Outcome<Vec<Row>> {
    let mut all = Vec::new();
    let slows = if plan.slow == 0 { vec![0] } else { vec![plan.slow, 0] };
    for slow in slows {
        let times = |mix| if mix == "shift" { (plan.n / SHIFTS).max(1) } else { plan.n };
        let row = |&(mix, name, ..): &Way| {
            let setting = Setting { bytes: NODE, n: times(mix), threads: 1, slow: Some(slow) };
            Row::new(name, setting, mix, None)
        };
        let mut rows: Vec<Row> = WAYS.iter().map(row).collect();
        for (&(mix, _, durable, way), row) in WAYS.iter().zip(&mut rows) {
            let switches = Switches { durable, count: true, ..Switches::default() };
            on_medium(plan, switches, |m| {
                way(m, times(mix));
                row.counts = Some(PerOp::new(m.tallies().counts(), times(mix)));
            })?;
        }
        for _ in 0..plan.repeat {
            for (&(mix, _, durable, way), row) in WAYS.iter().zip(&mut rows) {
                let slow = Duration::from_nanos(if durable { slow } else { 0 });
                on_medium(plan, Switches { durable, slow, ..Switches::default() }, |m| {
                    let work = Box::new(|tick: &mut Tick| {
                        way(m, times(mix));
                        tick.done(times(mix));
                    });
                    took(row, &clock::spend(u64::MAX, vec![work]));
                })?;
            }
        }
        compare(&mut rows, "volatile");
        compare(&mut rows, "together");
        all.extend(rows);
    }
    for &bytes in figure.bytes {
        let mut rows = searches(plan, bytes);
        compare(&mut rows, "binary");
        all.extend(rows);
    }
    Ok(all)
}

fn on_medium(plan: &Plan, switches: Switches, with: impl FnOnce(&Switched)) -> Outcome<()> {
    let mut scratch = Scratch::new(plan.directory.as_deref())?;
    let len = (plan.n * LINE).max(u64::from(NODE) * 3);
    let medium = Switched::new(Mapped::create(&scratch.file("figure.words"), len, 0)?, switches);
    medium.reserve(0, len)?;
    with(&medium);
    Ok(())
}

fn took(row: &mut Row, spent: &clock::Spent) {
    row.series.push(spent.cpu.unwrap_or(spent.run));
    row.wall.push(spent.run);
}

/// Searches of random nodes of sorted keys, by both methods.
fn searches(plan: &Plan, bytes: u32) -> Vec<Row> {
    let slots = bytes as usize / 16;
    let entries: Vec<[u64; 2]> = (0..plan.n).map(|key| [key, !key]).collect();
    let nodes: Vec<&[[u64; 2]]> = entries.chunks_exact(slots).collect();
    let setting = Setting { bytes, n: plan.n, threads: 1, slow: None };
    type Find = fn(&[[u64; 2]], u64) -> usize;
    let ways: [(&'static str, Find); 2] = [
        ("binary", |node, wanted| node.partition_point(|[key, _]| *key < wanted)),
        ("linear", |node, wanted| node.iter().position(|[key, _]| *key >= wanted).unwrap_or(node.len())),
    ];
    let mut rows = ways.map(|(name, _)| Row::new(name, setting, "get", None));
    for repeat in 0..plan.repeat {
        for (row, (_, find)) in rows.iter_mut().zip(ways) {
            let mut random = Random::new(plan.seed.wrapping_add(repeat.into()));
            let nodes = &nodes;
            let work = Box::new(move |tick: &mut Tick| {
                for _ in 0..plan.n {
                    let key = random.below((nodes.len() * slots) as u64);
                    let node = nodes[key as usize / slots];
                    black_box(node[find(node, key)][1]);
                }
                tick.done(plan.n);
            });
            took(row, &clock::spend(u64::MAX, vec![work]));
        }
    }
    rows.into()
}
