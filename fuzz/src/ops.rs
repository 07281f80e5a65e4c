//! Any operations on two trees of one pool, compared with `BTreeMap`: every layout with every index, numbers and
//! records, and byte strings as keys; and transactions, batches and snapshots of both, if their layouts take part. In
//! between, the pool is closed or torn down and opened again, and it is full now and then.
//!
//! ```text
//! 0      the kind of the first tree
//! 1      that of the second; bits 6 and 7: whether the first, the second holds records
//! 2      the pool: 16 KiB, and a KiB more for each 1; bit 6: snapshots may expire; bit 7: 512 KiB, for long keys
//! ...    if there are keys that are byte strings: some of these
//! ...    operations: a verb (bit 7: on the second tree; bit 5: on both; then bit 6: that tree is closed before),
//!        and what it takes
//! ```

use crate::Seeds;
use crate::data::Data;
use crate::snapshots::Snapshots;
use crate::strings::Strings;
use crate::tables::Tabled;
use crate::transactions;
use crate::trees::{self, Any, AnyTree, Bounds, TreeType, holding, options, options_of_long_keys, words_of, zeroed};
use bristlecone::{Error, ErrorKind, Pool, Result};
use std::collections::BTreeMap;
use std::ops::Bound;

pub(crate) type Model = BTreeMap<u64, u64>;

/// More than the number of keys.
const ALL: usize = 200;
const OPS: usize = 60;
/// Keys are less than this, or the greatest ones.
const FEW_KEYS: usize = 200;
/// Memory for some frozen leaves.
const FEW_BYTES: u64 = 1 << 10;
const NAMES: [&str; 2] = ["a", "b"];

/// A tree and its expected content.
pub(crate) struct Tested {
    /// The number of the tree: 0 or 1.
    number: usize,
    kind: &'static TreeType,
    records: bool,
    /// The keys, if they are byte strings.
    strings: Strings,
    pub(crate) name: &'static str,
    pub(crate) tree: Option<AnyTree>,
    pub(crate) model: Model,
}

pub fn run(data: &[u8]) {
    let mut data = Data(data);
    let (first, second, size) = (data.byte(), data.byte(), data.byte());
    let small = (options(), trees::HEADER + (16 << 10) + (u64::from(size % 64) << 10));
    let (options, len) = if size & 128 == 0 { small } else { (options_of_long_keys(), 512 << 10) };
    let may_expire = size & 64 != 0;
    let options = if may_expire { options.snapshot_memory(FEW_BYTES) } else { options };
    let mut pool = options.create_on(zeroed(len)).unwrap();
    let mut snapshots = Snapshots::new(may_expire);
    let all = pool.stat().available;
    let kinds = [(first, second & 64 != 0), (second & 63, second & 128 != 0)];
    let has_strings = kinds.iter().any(|&(kind, _)| trees::kind(kind).has_strings);
    let strings = if has_strings { Strings::read(&mut data, FEW_KEYS) } else { Strings::default() };
    let subject = |(number, (kind, records))| {
        let (kind, strings) = (trees::kind(kind), strings.clone());
        Tested { number, kind, records, strings, name: NAMES[number], tree: None, model: Model::new() }
    };
    let mut subjects: Vec<Tested> = kinds.into_iter().enumerate().map(subject).collect();
    for _ in 0..OPS {
        if data.is_empty() {
            break;
        }
        let verb = data.byte();
        match verb % 32 {
            verb_of_both if verb & 32 != 0 => {
                for subject in &mut subjects {
                    subject.open(&pool);
                }
                if verb & 64 != 0 {
                    subjects[usize::from(verb >> 7)].tree = None;
                }
                both(verb_of_both, &mut subjects, &mut data, &pool, &mut snapshots);
            }
            // Close orderly, or crash by dropping the memory, and open again.
            how @ (30 | 31) => {
                let crash = how == 31;
                let in_use = crash.then(|| words_of(&pool));
                subjects.iter_mut().for_each(|subject| subject.tree = None);
                snapshots.close();
                let closed = words_of(&pool);
                drop(pool);
                pool = options.open_on(holding(in_use.unwrap_or(closed))).unwrap();
            }
            verb_of_tree => {
                let subject = &mut subjects[usize::from(verb >> 7)];
                if subject.open(&pool) {
                    subject.step(verb_of_tree, &mut data, &pool, &mut snapshots);
                }
            }
        }
    }
    for subject in &mut subjects {
        if subject.open(&pool) {
            subject.compare();
        }
    }
    snapshots.compare(&subjects);
    snapshots.close();
    subjects.iter_mut().for_each(|subject| subject.tree = None);
    let report = pool.check().unwrap();
    assert_eq!(report.violations.first(), None);
    // Removing everything gives its space back.
    let left = pool.stat().available;
    for subject in &subjects {
        match pool.drop_tree(subject.name) {
            Ok(()) => {}
            Err(Error { kind: ErrorKind::NoSuchTree { .. }, .. }) => assert!(subject.model.is_empty()),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(pool.stat().available >= left);
    assert_eq!(pool.stat().available, all, "segments are lost");
}

/// An operation on both trees.
fn both(verb: u8, subjects: &mut [Tested], data: &mut Data<'_>, pool: &Pool<Any>, snapshots: &mut Snapshots) {
    match verb {
        0..=13 => transactions::transaction(subjects, data, pool, snapshots),
        14..=17 => transactions::batch(subjects, data, pool),
        18..=22 => snapshots.open(pool, [&subjects[0].model, &subjects[1].model]),
        23 | 24 => snapshots.close_one(data),
        25..=29 => snapshots.look(subjects, data),
        _ => snapshots.compare(subjects),
    }
}

impl Tested {
    /// The tree, if it is open and takes part in transactions and snapshots.
    pub(crate) fn table(&self) -> Option<&dyn Tabled> {
        self.tree.as_ref()?.table()
    }

    /// Opens the tree if it is not open. False: there is no room to create it. An existing tree can always be opened.
    fn open(&mut self, pool: &Pool<Any>) -> bool {
        if self.tree.is_none() {
            match self.kind.open(pool, self.name, self.records, &self.strings) {
                Ok(tree) => self.tree = Some(tree),
                Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. })
                    if !pool.trees().unwrap().iter().any(|tree| tree.name == self.name) =>
                {
                    assert!(self.model.is_empty(), "the tree is gone");
                    return false;
                }
                Err(error) => panic!("open: {error}"),
            }
        }
        true
    }

    fn step(&mut self, verb: u8, data: &mut Data<'_>, pool: &Pool<Any>, snapshots: &mut Snapshots) {
        let Self { tree: Some(tree), model, .. } = self else { return };
        let value = |data: &mut Data<'_>| u64::from(data.byte());
        let what_was = |old: Option<u64>| if tree.tells_values() { old } else { old.map(|_| 0) };
        match verb {
            0..=6 => {
                let (key, value) = (data.key(), value(data));
                if done(tree.insert(key, value).map(|old| assert_eq!(old, what_was(model.get(&key).copied())))) {
                    model.insert(key, value);
                }
            }
            7 => {
                let (key, value) = (data.key(), value(data));
                let old = model.get(&key).copied();
                if done(tree.update(key, value).map(|was| assert_eq!(was, what_was(old)))) && old.is_some() {
                    model.insert(key, value);
                }
            }
            8..=12 => {
                let key = data.key();
                if done(tree.remove(key).map(|old| assert_eq!(old, what_was(model.get(&key).copied())))) {
                    model.remove(&key);
                }
            }
            13 => {
                let (key, how, value) = (data.key(), data.byte(), value(data));
                let old = model.get(&key).copied();
                let numbers = tree.tells_values();
                // A map only inserts a key that is not there.
                let current = if numbers && how % 4 > 0 { old } else { None };
                let new = (!numbers || how % 8 < 6).then_some(value);
                let found = tree.compare_exchange(key, current, new);
                if done(found.map(|found| assert_eq!(found, what_was(old)))) && old == current {
                    match new {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
            }
            14 => {
                let key = data.key();
                assert_eq!(tree.get(key).unwrap(), model.get(&key).copied());
            }
            15 => {
                let keys = data.list(20, Data::key);
                let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
                assert_eq!(tree.multi_get(&keys).unwrap(), expected);
            }
            16 | 17 => {
                let entries = data.list(20, |data| (data.key(), u64::from(data.byte())));
                let mut after = model.clone();
                after.extend(entries.iter().copied());
                let new = (after.len() - model.len()) as u64;
                if done(tree.insert_batch(&entries).map(|found| assert_eq!(found, new))) {
                    *model = after;
                } else {
                    // Any part of the batch may be there.
                    let found: Model = tree.range(EVERYTHING, ALL).unwrap().into_iter().collect();
                    let is_right = |(key, value): (&u64, &u64)| {
                        model.get(key) == Some(value) || entries.iter().any(|entry| entry == &(*key, *value))
                    };
                    assert!(found.iter().all(is_right) && model.keys().all(|key| found.contains_key(key)));
                    *model = found;
                }
            }
            // A run of keys, up or down: leaves fill and split, or become sparse and merge.
            18..=21 => {
                let (from, count, value) = (data.key(), u64::from(data.byte() % 32), value(data));
                for i in 0..count {
                    let key = if verb % 2 == 0 { from.saturating_add(i) } else { from.saturating_sub(i) };
                    if verb < 20 {
                        if done(tree.insert(key, value + i)) {
                            model.insert(key, value + i);
                        }
                    } else if done(tree.remove(key)) {
                        model.remove(&key);
                    }
                }
            }
            22..=24 => {
                let (from, to, how) = (data.key(), data.key(), data.byte());
                let bounds = bounds(from.min(to), from.max(to), how);
                let expected: Vec<_> = model.range(bounds).map(|(&key, &value)| (key, value)).collect();
                match verb {
                    22 => {
                        assert_eq!(tree.range(bounds, ALL).unwrap(), expected);
                        let keys: Vec<u64> = expected.iter().map(|entry| entry.0).collect();
                        assert_eq!(tree.keys(bounds, ALL), keys);
                    }
                    _ if how & 128 != 0 && self.kind.has_strings => self.compare_prefix(from, to),
                    23 => assert!(tree.backwards(bounds, ALL).unwrap().iter().eq(expected.iter().rev())),
                    _ => assert_eq!(tree.from_both_ends(bounds, ALL).unwrap(), expected),
                }
            }
            25 => {
                assert_eq!(tree.len(), model.len() as u64);
                assert_eq!(tree.is_empty(), model.is_empty());
            }
            26 => {
                let entry = |(&key, &value): (&u64, &u64)| (key, value);
                assert_eq!(tree.first().unwrap(), model.first_key_value().map(entry));
                assert_eq!(tree.last().unwrap(), model.last_key_value().map(entry));
            }
            27 => {
                if done(tree.clear()) {
                    model.clear();
                }
            }
            28 => {
                let (step, count) = (1 + u64::from(data.byte() % 3), u64::from(data.byte() % 64));
                let entries: Vec<_> = (0..count).map(|i| (i * step, i)).collect();
                match tree.bulk_load(&entries) {
                    Err(Error { kind: ErrorKind::NotEmpty { .. }, .. }) => assert!(!model.is_empty()),
                    other => {
                        if done(other.map(|loaded| assert_eq!(loaded, count))) {
                            assert!(model.is_empty());
                            model.extend(entries);
                        }
                    }
                }
            }
            _ => {
                self.compare();
                // Dropped, and perhaps created again by the next verb; or only closed.
                self.tree = None;
                if data.byte() % 2 == 0 {
                    match pool.drop_tree(self.name) {
                        Ok(()) => {
                            self.model.clear();
                            snapshots.forget(self.number);
                        }
                        // A snapshot keeps it open.
                        Err(Error { kind: ErrorKind::StillOpen { .. }, .. }) => assert!(!snapshots.is_empty()),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }

    /// Compares the entries whose keys begin like one of the keys.
    fn compare_prefix(&self, key: u64, len: u64) {
        let Some(tree) = &self.tree else { return };
        let string = self.strings.string(key);
        let prefix = &string[..len as usize % (string.len() + 1)];
        let has_prefix = |key: &u64| self.strings.string(*key).starts_with(prefix);
        let expected: Vec<_> = self.model.iter().filter(|(key, _)| has_prefix(key)).collect();
        let found = tree.with_prefix(key, prefix.len()).expect("keys are strings").unwrap();
        assert!(found.iter().map(|(key, value)| (key, value)).eq(expected));
    }

    /// Compares the whole content.
    fn compare(&self) {
        let Some(tree) = &self.tree else { return };
        let expected: Vec<_> = self.model.iter().map(|(&key, &value)| (key, value)).collect();
        assert_eq!(tree.range(EVERYTHING, ALL).unwrap(), expected);
        assert!(tree.backwards(EVERYTHING, ALL).unwrap().iter().eq(expected.iter().rev()));
        assert!(expected.iter().all(|&(key, value)| tree.get(key).unwrap() == Some(value)));
        assert_eq!(tree.len(), expected.len() as u64);
        let report = tree.check();
        assert!(report.is_clean(), "{report:?}");
    }
}

pub(crate) const EVERYTHING: Bounds = (Bound::Unbounded, Bound::Unbounded);

pub(crate) fn bounds(from: u64, to: u64, how: u8) -> Bounds {
    let bound = |how: u8, key| match how % 3 {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    // `BTreeMap` panics for a range from a key to the same key with both ends excluded.
    if from == to { (Bound::Included(from), Bound::Included(to)) } else { (bound(how, from), bound(how / 3, to)) }
}

/// False where there was no room; then nothing was done.
pub(crate) fn done<T>(result: Result<T>) -> bool {
    match result {
        Ok(_) => true,
        Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Each kind is filled, thinned out, cleared and loaded, closed and torn down in between, with its neighbour beside it.
/// Those that take part in transactions and snapshots are changed together, while snapshots look on.
pub fn seeds() -> Seeds {
    let start = |kind: u32, neighbour: u32, size: u32| {
        let records = (kind % 4) << 6;
        let mut bytes = vec![kind, neighbour % 64 | records, size];
        if [bytes[0], bytes[1] & 63].iter().any(|&kind| trees::kind(kind as u8).has_strings) {
            let strings = crate::strings::SEEDS[kind as usize % crate::strings::SEEDS.len()];
            bytes.extend(strings.iter().map(|&byte| u32::from(byte)));
        }
        bytes
    };
    let fill = |bytes: &mut Vec<u32>, kind: u32| {
        for n in 0..24 {
            let second = if n % 5 == 4 { 128 } else { 0 };
            bytes.extend([second, n * 37 + kind, n * 11]);
        }
    };
    let named = |name: &str, kind: u32, bytes: Vec<u32>| {
        (format!("{name}-{kind}"), bytes.into_iter().map(|word| word as u8).collect())
    };
    let alone = |kind: u32| {
        let mut bytes = start(kind, kind * 7 + 1, kind * 5 % 128);
        fill(&mut bytes, 0);
        bytes.extend([18, 40, 25, 1, 30, 22, 0, 127, 0, 16, 3, 1, 1, 2, 2, 200, 3, 31, 23, 3, 90, 1]);
        bytes.extend((0..16).flat_map(|n| [8, n * 23]));
        bytes.extend([20, 40, 20, 0, 25, 26, 24, 0, 127, 4, 13, 5, 0, 1, 27, 28, 0, 40, 31, 25, 128 + 29, 0, 29, 0]);
        bytes.extend([148, 0, 30, 9, 30, 146, 3, 20, 9, 15, 2, 1, 2, 7, 1, 5]);
        named("kind", kind, bytes)
    };
    // The first kinds and the last one are those of tables.
    let together = |n: u32| {
        let table = |n: u32| if n % 5 < 4 { n % 5 } else { trees::KIND_COUNT as u32 - 1 };
        // A large pool takes long, so there is one.
        let size = if n == 24 { 148 } else { 20 + n % 2 * 64 };
        let mut bytes = start(table(n), table(n / 5 + n), size);
        fill(&mut bytes, n);
        // A transaction that reads, writes runs, is overtaken where it has not read, and gives one of the trees another
        // name.
        let calm = [32, 8, 4, 3, 135, 0, 90, 6, 0, 3, n, 7, 128, 7, 9, 15, 11, 120, 14, 15, 2, 4, n * 3, 1];
        // One that is overtaken where it has read.
        let conflict = [32, 4, 4, n * 37, 132, n * 37, 0, 1, 4, 11, n * 37, 1];
        let batch = [46, 3, 7, n, 15, 135, n * 2, 15, 4, 3];
        bytes.extend([50].iter().chain(&calm).chain(&[57, 0, n, 40, 0]).chain(&conflict).chain(&[50]).chain(&batch));
        bytes.extend([62, 20, n * 7, 20, 27, 62, 55, n, 28, 0, 30, 62, 50, 29, 1, 29, 0, 62, 31, 50]);
        bytes.extend(calm.iter().chain(&batch).chain(&[31]).chain(&conflict).chain(&[62]));
        named("together", n, bytes)
    };
    // The last kind has byte strings, and an input describes them.
    (0..trees::KIND_COUNT as u32 + 9).map(alone).chain((0..25).map(together)).collect()
}
