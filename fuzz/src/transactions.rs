//! Transactions and batches of the target `ops`, with changes of others in between.

use crate::data::Data;
use crate::ops::{Model, Tested, bounds, done};
use crate::snapshots::Snapshots;
use crate::tables::Tabled;
use crate::trees::{Any, Bounds};
use bristlecone::{Error, ErrorKind, Pool, Result, Transaction};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// The names that trees may get.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// The most steps of a transaction.
const STEPS: u8 = 12;

/// Writes, by the number of the tree and the key.
type Writes = BTreeMap<(usize, u64), Option<u64>>;

/// Something that a transaction has read.
struct Read {
    tree: usize,
    bounds: Bounds,
    /// `None` if it was answered from what was read or written before. Then a change of it may be a conflict, and need
    /// not be.
    found: Option<Vec<(u64, u64)>>,
    /// Whether others have written to it since, be it the same again.
    is_touched: bool,
}

impl Read {
    fn is_as_found(&self, models: &[Model; 2]) -> bool {
        let is_same = |found: &Vec<_>| entries(&models[self.tree], self.bounds).eq(found.iter().copied());
        self.found.as_ref().is_none_or(is_same)
    }
}

fn entries(model: &Model, bounds: Bounds) -> impl Iterator<Item = (u64, u64)> {
    model.range(bounds).map(|(&key, &value)| (key, value))
}

/// The first and the last number between the bounds; `None` if there is none.
fn ends((from, to): Bounds) -> Option<(u64, u64)> {
    let first = match from {
        Bound::Included(key) => Some(key),
        Bound::Excluded(key) => key.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let last = match to {
        Bound::Included(key) => Some(key),
        Bound::Excluded(key) => key.checked_sub(1),
        Bound::Unbounded => Some(u64::MAX),
    };
    first.zip(last).filter(|(first, last)| first <= last)
}

/// Why names cannot change as they should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    NoSuchTree,
    TreeExists,
    StillOpen,
}

/// What the trees are called, and what they will be called; `None` is one that is not there.
struct Names {
    /// The names of trees that are not there, but that somebody may create.
    reserved: Vec<&'static str>,
    after: [Option<&'static str>; 2],
    is_open: [bool; 2],
    refusal: Option<Refusal>,
    are_changed: bool,
}

impl Names {
    fn new(subjects: &[Tested], pool: &Pool<Any>) -> Self {
        let there: Vec<String> = pool.trees().unwrap().into_iter().map(|tree| tree.name).collect();
        let is_there = |i: usize| there.iter().any(|name| name == subjects[i].name);
        let after = [0, 1].map(|i| is_there(i).then_some(subjects[i].name));
        let reserved = (0..2).filter(|&i| !is_there(i)).map(|i| subjects[i].name).collect();
        let is_open = [0, 1].map(|i| subjects[i].tree.is_some());
        Self { reserved, after, is_open, refusal: None, are_changed: false }
    }

    /// Gives the trees their names. One that is not there gets one that nobody has.
    fn give(&self, subjects: &mut [Tested]) {
        for tree in 0..2 {
            let is_free = |name: &&str| !self.after.contains(&Some(name)) && *name != subjects[1 - tree].name;
            let free = || [subjects[tree].name].into_iter().chain(NAMES).find(is_free);
            subjects[tree].name = self.after[tree].or_else(free).expect("there are more names than trees");
        }
    }

    fn find(&mut self, name: &str) -> Option<usize> {
        let found = self.after.iter().position(|&other| other == Some(name));
        if found.is_none() {
            self.refusal = Some(Refusal::NoSuchTree);
        }
        found
    }

    /// Asks the transaction for another name, and notes what is to come of it.
    fn change(&mut self, transaction: &mut Transaction<'_, Any>, data: &mut Data<'_>) {
        let how = data.byte();
        let [one, other] = [how / 4, how / 16].map(|name| NAMES[usize::from(name) % NAMES.len()]);
        if self.reserved.contains(&other) {
            return;
        }
        self.are_changed = true;
        let wanted = match how % 4 {
            0 | 1 => transaction.rename_tree(one, other),
            2 => transaction.swap_trees(one, other),
            _ => transaction.drop_tree(one),
        };
        wanted.unwrap();
        if self.refusal.is_some() {
            return;
        }
        let Some(i) = self.find(one) else { return };
        match how % 4 {
            0 | 1 if self.after.contains(&Some(other)) => self.refusal = Some(Refusal::TreeExists),
            0 | 1 => self.after[i] = Some(other),
            2 => {
                if let Some(j) = self.find(other) {
                    (self.after[i], self.after[j]) = (Some(other), Some(one));
                }
            }
            _ if self.is_open[i] => self.refusal = Some(Refusal::StillOpen),
            _ => self.after[i] = None,
        }
    }
}

/// Writes to any of the trees that happen together.
pub(crate) fn batch(subjects: &mut [Tested], data: &mut Data<'_>, pool: &Pool<Any>) {
    let tables = [0, 1].map(|i| subjects[i].table());
    let (mut batch, mut writes) = (pool.batch(), Writes::new());
    for ((tree, key), value) in data.list(STEPS, writes_of).into_iter().flatten() {
        if let Some(table) = tables[tree] {
            table.put_in_batch(&mut batch, key, value).unwrap();
            writes.insert((tree, key), value);
        }
    }
    assert_eq!(batch.len(), writes.len());
    if done(batch.commit()) {
        subjects.iter_mut().enumerate().for_each(|(tree, subject)| write(&mut subject.model, tree, &writes));
    }
}

/// A write, or a run of them.
fn writes_of(data: &mut Data<'_>) -> Vec<((usize, u64), Option<u64>)> {
    let (how, key) = (data.byte(), data.key());
    let tree = usize::from(how >> 7);
    let count = if how % 8 == 7 { u64::from(data.byte() % 16) } else { 1 };
    let value = |i| (how % 4 != 0).then_some(u64::from(how) + i);
    (0..count).map(|i| ((tree, key.saturating_add(i)), value(i))).collect()
}

fn write(model: &mut Model, tree: usize, writes: &Writes) {
    for (&(_, key), &value) in writes.range((tree, 0)..=(tree, u64::MAX)) {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

/// A transaction whose end is a commit, or not.
pub(crate) fn transaction(subjects: &mut [Tested], data: &mut Data<'_>, pool: &Pool<Any>, snapshots: &mut Snapshots) {
    let mut names = Names::new(subjects, pool);
    let mut models = [0, 1].map(|i| subjects[i].model.clone());
    let tables = [0, 1].map(|i| subjects[i].table());
    let mut running = Running { transaction: pool.begin(), tables, reads: Vec::new(), writes: Writes::new() };
    let (steps, mut is_over) = (data.byte() % (STEPS + 1), false);
    for _ in 0..steps {
        let how = data.byte();
        match how % 16 {
            14 => snapshots.open(pool, [&models[0], &models[1]]),
            15 => names.change(&mut running.transaction, data),
            step => {
                is_over = !running.step(step, usize::from(how >> 7), data, &mut models);
                if is_over {
                    break;
                }
            }
        }
    }
    let (committed, reads, writes) = running.end(!data.byte().is_multiple_of(8));
    let changes = !writes.is_empty() || names.are_changed;
    let is_valid = reads.iter().all(|read| read.is_as_found(&models));
    let is_touched = reads.iter().any(|read| read.is_touched);
    let refusal = match committed {
        None => None,
        Some(Ok(())) => {
            assert!(!is_over && (is_valid || !changes), "what was read has changed");
            assert_eq!(names.refusal, None);
            for (tree, model) in models.iter_mut().enumerate() {
                write(model, tree, &writes);
                if names.are_changed && names.after[tree].is_none() {
                    model.clear();
                    snapshots.forget(tree);
                }
            }
            names.give(subjects);
            None
        }
        Some(Err(Error { kind: ErrorKind::Conflict, .. })) => {
            assert!(is_over || is_touched && changes, "a conflict with nobody");
            None
        }
        Some(Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. })) => None,
        Some(Err(Error { kind: ErrorKind::NoSuchTree { .. }, .. })) => Some(Refusal::NoSuchTree),
        Some(Err(Error { kind: ErrorKind::TreeExists { .. }, .. })) => Some(Refusal::TreeExists),
        // A snapshot keeps trees open.
        Some(Err(Error { kind: ErrorKind::StillOpen { .. }, .. })) if !snapshots.is_empty() => None,
        Some(Err(Error { kind: ErrorKind::StillOpen { .. }, .. })) => Some(Refusal::StillOpen),
        Some(Err(error)) => panic!("{error}"),
    };
    if refusal.is_some() {
        assert_eq!(names.refusal, refusal);
        assert!(is_valid, "a name may follow from what has changed");
    }
    for (subject, model) in subjects.iter_mut().zip(models) {
        subject.model = model;
    }
}

/// A transaction that is under way.
struct Running<'t> {
    transaction: Transaction<'t, Any>,
    tables: [Option<&'t dyn Tabled>; 2],
    reads: Vec<Read>,
    writes: Writes,
}

impl<'t> Running<'t> {
    /// Commits the transaction, or gives it up. Returns what came of that, what was read, and what was written.
    fn end(self, commits: bool) -> (Option<Result<()>>, Vec<Read>, Writes) {
        (commits.then(|| self.transaction.commit()), self.reads, self.writes)
    }

    /// What the transaction must see of a tree.
    fn view(&self, tree: usize, models: &[Model; 2]) -> Model {
        let mut view = models[tree].clone();
        write(&mut view, tree, &self.writes);
        view
    }

    /// False: there is a conflict.
    fn step(&mut self, step: u8, tree: usize, data: &mut Data<'_>, models: &mut [Model; 2]) -> bool {
        let Some(table) = self.tables[tree] else { return true };
        match step {
            0..=3 => {
                for ((_, key), value) in writes_of(data) {
                    table.put_in(&mut self.transaction, key, value).unwrap();
                    self.writes.insert((tree, key), value);
                }
                true
            }
            4..=6 => {
                let key = data.key();
                let expected = self.view(tree, models).get(&key).copied();
                let is_own = self.writes.contains_key(&(tree, key));
                let found = if step == 6 {
                    let found = table.contains_in(&mut self.transaction, key);
                    found.map(|found| assert_eq!(found, expected.is_some()))
                } else {
                    let found = table.get_in(&mut self.transaction, key);
                    found.map(|found| assert_eq!(found, expected))
                };
                let bounds = (Bound::Included(key), Bound::Included(key));
                self.note(tree, bounds, is_own, found, models)
            }
            7..=9 => {
                let (from, to, how) = (data.key(), data.key(), data.byte());
                let bounds = bounds(from.min(to), from.max(to), how);
                let expected = self.view(tree, models);
                let found = table.range_in(&mut self.transaction, bounds, how & 128 == 0);
                let found = found.map(|found| assert!(found.into_iter().eq(entries(&expected, bounds))));
                self.note(tree, bounds, false, found, models)
            }
            // Changes of others.
            _ => {
                let (key, count) = (data.key(), if step == 13 { 12 } else { 1 });
                for key in (0..count).map(|i| key.saturating_add(i)) {
                    let changed = if step == 10 {
                        done(table.remove(key)) && models[tree].remove(&key).is_some()
                    } else {
                        let value = key % 7;
                        done(table.insert(key, value)) && {
                            models[tree].insert(key, value);
                            true
                        }
                    };
                    let meets = |read: &&mut Read| changed && read.tree == tree && read.bounds.contains(&key);
                    self.reads.iter_mut().filter(meets).for_each(|read| read.is_touched = true);
                }
                true
            }
        }
    }

    /// Whether all that lies between the bounds was read, or written, before.
    fn has_read(&self, tree: usize, bounds: Bounds) -> bool {
        let read = self.reads.iter().filter(|read| read.tree == tree).filter_map(|read| ends(read.bounds));
        let written = self.writes.keys().filter(|(of, _)| *of == tree).map(|&(_, key)| (key, key));
        let mut known: Vec<(u64, u64)> = read.chain(written).collect();
        known.sort_unstable();
        let Some((mut from, to)) = ends(bounds) else { return true };
        for (first, last) in known {
            if first <= from && last >= from {
                if last >= to {
                    return true;
                }
                from = last + 1;
            }
        }
        false
    }

    /// Notes what was read, unless it was something of its own. False: there is a conflict.
    fn note(&mut self, tree: usize, bounds: Bounds, is_own: bool, read: Result<()>, models: &[Model; 2]) -> bool {
        match read {
            // Nothing of the tree was read, so nothing is compared.
            Ok(()) if is_own || ends(bounds).is_none() => true,
            Ok(()) => {
                // With what was read before it is of one moment.
                let is_known = self.has_read(tree, bounds);
                if !is_known {
                    assert!(self.reads.iter().all(|read| read.is_as_found(models)), "reads of different moments");
                }
                let found = (!is_known).then(|| entries(&models[tree], bounds).collect());
                self.reads.push(Read { tree, bounds, found, is_touched: false });
                true
            }
            Err(Error { kind: ErrorKind::Conflict, .. }) => {
                assert!(self.reads.iter().any(|read| read.is_touched), "a conflict with nobody");
                false
            }
            Err(error) => panic!("{error}"),
        }
    }
}
