//! The recovery cases of the papers, one by one, with the keys of their figures.
//!
//! The checker tries every state that short histories leave, whatever the states look like. Here the states have names.
//! A tree is brought into the state of a figure, one operation is cut before each of its fences and at its return, and
//! the content of the pool is compared with what the paper says a crash leaves. The result of recovery is compared in
//! the same way. Recovery is cut in turn, and so is the operation after it: a repair that is not durable by then would
//! get in the way of the next shift.
//!
//! Leaves are written as words, one for each slot:
//!
//! - `15f`: an entry with the key 15 and the value `&f` of the figures (values that no figure has are 0, and left out);
//! - `-`, `-f`: an empty slot that holds the marker or zeros as its key, with the rest of a value;
//! - `(57c)`: also an empty slot, by N2, but the key in it is one that another leaf owns: a split left it behind, or a
//!   merge has prefilled it.
//!
//! Leaves are separated by `|`, and the tail, which owns only MAX, is left out. If the index is in the pool, the list
//! of its topmost node comes first, as `[0 8 57]`.
//!
//! Both papers recognise an interrupted change by a count of the entries that does not match the array, and by equal
//! *values*. Here there is no count, and equal values are legal: the owned range tells how many slots are in use, and
//! equal *keys* are the trace of a shift.

mod circ_tree;
mod crab_tree;

use super::explore::next_path;
use super::history::{History, Op};
use super::key_shape::KeyShape;
use super::pending::Pending;
use super::record::Repeated;
use super::tree_type::{Checkable, TreeType, Values};
use super::verify::{self, Allowed, Run};
use crate::medium::{Choice, Event, LINE, LineOptions, Medium, Model, Sim};
use crate::node::{IndexKind, KeyRange, LOW, NEXT, SLOT, WordNode};
use std::collections::{BTreeMap, BTreeSet};

/// Offsets in the entry of the first tree: the leftmost leaf, and the topmost node of an index in the pool.
const HEAD: u64 = 8192 + 24;
const INDEX: u64 = 8192 + 32;

/// A tree in the state of a figure, and the operation that is cut, which is the last one of the history.
struct Scene {
    history: History,
    whole_pairs: bool,
}

/// What crashes during an operation leave.
#[derive(Debug)]
struct Told {
    /// How many states recovery can tell apart at each point: before the fences, and at the return.
    states: Vec<usize>,
    /// What the leaves hold before and after recovery: each pair once, in the order in which they were found.
    rows: Vec<(String, String)>,
}

/// Entries in the notation above.
fn entries(text: &str) -> impl Iterator<Item = (u64, u64)> {
    text.split_whitespace().map(|word| match word.find(|c: char| c.is_ascii_lowercase()) {
        Some(letter) => (word[..letter].parse().unwrap(), word.as_bytes()[letter].into()),
        None => (word.parse().unwrap(), 0),
    })
}

fn numbers<N: WordNode>(index: IndexKind) -> TreeType {
    N::tree_type::<Repeated>(index, Values::Numbers, KeyShape::Bytes)
}

/// The insertion of one entry.
const fn put(key: u64, letter: char) -> Op {
    Op::Insert(key, letter as u64)
}

fn inserts(text: &str) -> impl Iterator<Item = Op> {
    entries(text).map(|(key, value)| Op::Insert(key, value))
}

fn removals(keys: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Op> {
    keys.into_iter().map(Op::Remove)
}

/// Ascending inserts leave full leaves of eight entries.
fn three_full_leaves() -> impl Iterator<Item = Op> {
    (1..=8).chain(11..=18).chain(21..=28).map(|key| Op::Insert(key, 0))
}

impl Scene {
    fn new(before: impl IntoIterator<Item = Op>, cut: Op) -> Self {
        Self { history: History(before.into_iter().chain([cut]).collect()), whole_pairs: false }
    }

    /// Cuts the operation at every point, and recovers from every state. Panics unless the entries are those before or
    /// after the operation, every invariant holds, and further changes work. The same must hold if recovery is cut in
    /// turn, and if the next operation is cut.
    fn tell<N: WordNode>(&self, index: IndexKind, model: Model) -> Told {
        let run = verify::run(numbers::<N>(index), &self.history, self.medium(None)).unwrap();
        let mut told = Told { states: Vec::new(), rows: Vec::new() };
        for (pending, allowed) in points(Pending::new(vec![0; verify::POOL as usize / 8]), &run) {
            let mut states = 0;
            self.states::<N>(index, &pending, allowed, model, |seen, image, recovery| {
                states += 1;
                let cut = |run: &Run| {
                    for (pending, allowed) in points(Pending::new(image.clone()), run) {
                        self.states::<N>(index, &pending, allowed, model, |_, _, _| ());
                    }
                };
                let found = recovery.returned;
                cut(&Run { trace: recovery.trace, from: 0, in_flight: found.clone(), returned: found.clone() });
                let mut made = String::new();
                // The operation that was cut, once more; and an insertion at either end.
                for next in [*self.history.0.last().unwrap(), Op::Insert(9, 0), Op::Insert(85, 0)] {
                    let run;
                    (made, run) = self.next::<N>(index, image.clone(), &found.contents[0], next);
                    cut(&run);
                }
                let row = (seen, made);
                if !told.rows.contains(&row) {
                    told.rows.push(row);
                }
            });
            told.states.push(states);
        }
        told
    }

    /// A medium with what a crash left, or an empty one.
    fn medium(&self, image: Option<Vec<u64>>) -> Sim {
        let sim = match image {
            Some(image) => Sim::crashed(&image, LineOptions::default(), Vec::new(), 0),
            None => Sim::zeroed(verify::POOL),
        };
        sim.with_whole_pairs(self.whole_pairs)
    }

    /// Opens every state of one point that recovery can tell from others: the content of a line is chosen when the line
    /// is read.
    fn states<N: WordNode>(
        &self,
        index: IndexKind,
        pending: &Pending,
        allowed: &Allowed,
        model: Model,
        mut visit: impl FnMut(String, Vec<u64>, verify::Recovery),
    ) {
        let options = pending.options(model);
        let mut path: Vec<Choice> = Vec::new();
        loop {
            let sim = Sim::crashed(&pending.image, options.clone(), path, 0);
            let sim = sim.with_whole_pairs(self.whole_pairs);
            let seen = leaves::<N>(index, &sim);
            let recovery = verify::state(numbers::<N>(index), &sim, allowed, 1, false, |_| false);
            let recovery = recovery.unwrap_or_else(|what| panic!("{}, at {seen}: {what}", self.history));
            path = sim.path();
            let mut state = pending.after_crash();
            for choice in &path {
                let (line, contents) = options.0.iter().find(|(line, _)| *line == choice.line).unwrap();
                state.set(*line, contents[choice.taken]);
            }
            visit(seen, state.image, recovery.expect("the pool was there before the operation"));
            if !next_path(&mut path) {
                return;
            }
        }
    }

    /// What recovery makes of the leaves; and the run of the next operation, which is then cut.
    fn next<N: WordNode>(
        &self,
        index: IndexKind,
        image: Vec<u64>,
        found: &BTreeMap<u64, u64>,
        op: Op,
    ) -> (String, Run) {
        let sim = self.medium(Some(image));
        let pool = verify::options().open_on(sim.handle()).unwrap();
        let tree = numbers::<N>(index).open(&pool).unwrap();
        // A leaf is repaired when it is first touched.
        tree.entries().unwrap();
        let made = leaves::<N>(index, &sim);
        assert_eq!(tree.check().unfinished, 0, "{made}");
        let from = sim.now();
        verify::of_tree(op, &*tree).expect("an operation of trees").unwrap();
        let trace = sim.trace();
        let mut model = found.clone();
        op.apply(&mut model);
        assert_eq!(tree.entries().unwrap(), Vec::from_iter(model.clone()), "{made}");
        let in_flight = Allowed { contents: op.in_flight(found), may_miss: op.may_miss() };
        (made, Run { trace, from, in_flight, returned: Allowed::only(model) })
    }

    /// A change of one leaf leaves exactly the states on the left of `rows`, and recovery makes of each what stands
    /// beside it.
    fn leaves<N: WordNode>(&self, index: IndexKind, rows: &[(&str, &str)]) {
        for model in [Model::Tso, Model::Weak] {
            let mut told = self.tell::<N>(index, model).rows;
            told.sort();
            let mut rows: Vec<(String, String)> =
                rows.iter().map(|&(seen, made)| (seen.to_owned(), made.to_owned())).collect();
            rows.sort();
            assert_eq!(told, rows, "{model:?}");
        }
    }

    /// A change of the chain leaves this many states at each point, among them those in `seen`, and nothing in the
    /// leaves to repair.
    fn needs_no_repair<N: WordNode>(&self, index: IndexKind, tso: &[usize], weak: &[usize], seen: &[&str]) {
        for (model, states) in [(Model::Tso, tso), (Model::Weak, weak)] {
            let told = self.tell::<N>(index, model);
            for state in seen {
                assert!(told.rows.iter().any(|(found, _)| found == state), "{model:?}: {state}\nfound: {told:#?}");
            }
            assert_eq!(told.states, states, "{model:?}: {told:#?}");
            assert!(told.rows.iter().all(|(seen, made)| seen == made), "{told:#?}");
        }
    }

    /// A change of the chain leaves these entries, and no others, in whatever slots; recovery leaves them as they are.
    fn leads_through<N: WordNode>(&self, chains: &[&str]) {
        for model in [Model::Tso, Model::Weak] {
            let told = self.tell::<N>(IndexKind::Volatile, model);
            let found: BTreeSet<String> = told.rows.iter().map(|(_, made)| in_use(made)).collect();
            assert_eq!(found, chains.iter().map(|chain| (*chain).to_owned()).collect(), "{model:?}");
        }
    }
}

/// Leaves without their empty slots.
fn in_use(leaves: &str) -> String {
    let is_used = |word: &&str| !word.starts_with(['-', '(']);
    leaves.split_whitespace().filter(is_used).collect::<Vec<_>>().join(" ")
}

/// The points at which a run is cut, with what may be found there. `pending` is the state where the trace begins.
fn points(mut pending: Pending, run: &Run) -> Vec<(Pending, &Allowed)> {
    run.trace[..run.from].iter().for_each(|event| pending.apply(event));
    let mut points = Vec::new();
    for event in &run.trace[run.from..] {
        if let Event::Fence(_) = event {
            points.push((pending.clone(), &run.in_flight));
        }
        pending.apply(event);
    }
    points.push((pending, &run.returned));
    points
}

/// The chain of leaves, and what the index lists if it is in the pool.
fn leaves<N: WordNode>(index: IndexKind, m: &Sim) -> String {
    let mut text = String::new();
    let top = m.load(INDEX);
    if index == IndexKind::Persistent && top > 0 {
        let mut listed: Vec<u64> = (0..N::SLOTS as u64).map(|i| m.load(top + LINE + i * SLOT)).collect();
        listed.retain(|&low| range_of(m, top).contains(low));
        listed.sort_unstable();
        let listed: Vec<String> = listed.iter().map(u64::to_string).collect();
        text = format!("[{}] ", listed.join(" "));
    }
    let mut leaves = Vec::new();
    let mut at = m.load(HEAD);
    while m.load(at + NEXT) != 0 {
        assert!(leaves.len() < 16, "in circles: {leaves:?}");
        leaves.push(slots::<N>(m, at));
        at = m.load(at + NEXT);
    }
    text + &leaves.join(" | ")
}

fn range_of(m: &Sim, at: u64) -> KeyRange {
    let high = match m.load(at + NEXT) {
        0 => u64::MAX,
        next => m.load(next + LOW),
    };
    KeyRange::new(m.load(at + LOW), high)
}

/// The slots of a leaf in the notation above.
fn slots<N: WordNode>(m: &Sim, at: u64) -> String {
    let range = range_of(m, at);
    let slot = |i: u64| {
        let (key, value) = (m.load(at + LINE + i * SLOT), m.load(at + LINE + i * SLOT + 8));
        let letter = if value == 0 { String::new() } else { char::from(value as u8).to_string() };
        if range.contains(key) {
            format!("{key}{letter}")
        } else if key == range.marker() || key == 0 {
            format!("-{letter}")
        } else {
            format!("({key}{letter})")
        }
    };
    (0..N::SLOTS as u64).map(slot).collect::<Vec<_>>().join(" ")
}
