//! What scans find in a transaction that writes, what they look at, and what of it is in conflict.

use super::Scan;
use crate::error::{Error, ErrorKind, Result};
use crate::map::Map;
use crate::map::table::Table;
use crate::medium::any::{Any, zeroed};
use crate::node::{ByteLeaf, IndexKind, OneLine};
use crate::pool::Pool;
use crate::transaction::Transaction;
use crate::transaction::commit::PASSES;
use crate::tree::PTree;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

/// A table whose keys and values stand for numbers.
trait Numbers: Table<Any, Key: Debug, Value: Debug> {
    fn create(pool: &Pool<Any>) -> Self;
    fn put(&self, key: u64, value: Option<u64>);
    fn get_in<'t>(&'t self, tx: &mut Transaction<'t, Any>, key: u64) -> Result<Option<u64>>;
    fn put_in<'t>(&'t self, tx: &mut Transaction<'t, Any>, key: u64, value: Option<u64>);
    fn scan<'x, 't>(
        &'t self,
        tx: &'x mut Transaction<'t, Any>,
        bounds: (Bound<u64>, Bound<u64>),
    ) -> Result<Scan<'x, 't, Self, Any>>
    where
        Self: Sized;
    fn numbers(entry: (Self::Key, Self::Value)) -> (u64, u64);
}

macro_rules! numbers {
    ($table:ty, $create:expr, $key:expr, $borrow:expr, $value:expr, $view:expr, $number:expr) => {
        impl Numbers for $table {
            fn create(pool: &Pool<Any>) -> Self {
                $create(pool)
            }

            fn put(&self, key: u64, value: Option<u64>) {
                let key = $key(key);
                match value {
                    Some(value) => drop(self.insert($borrow(&key), $view(&$value(value))).unwrap()),
                    None => drop(self.remove($borrow(&key)).unwrap()),
                }
            }

            fn get_in<'t>(&'t self, tx: &mut Transaction<'t, Any>, key: u64) -> Result<Option<u64>> {
                let key = $key(key);
                Ok(tx.get(self, $borrow(&key))?.map(|value| value.to_string().parse().unwrap()))
            }

            fn put_in<'t>(&'t self, tx: &mut Transaction<'t, Any>, key: u64, value: Option<u64>) {
                let key = $key(key);
                match value {
                    Some(value) => tx.insert(self, $borrow(&key), $view(&$value(value))).unwrap(),
                    None => tx.remove(self, $borrow(&key)).unwrap(),
                }
            }

            fn scan<'x, 't>(
                &'t self,
                tx: &'x mut Transaction<'t, Any>,
                (from, to): (Bound<u64>, Bound<u64>),
            ) -> Result<Scan<'x, 't, Self, Any>> {
                let (from, to) = (from.map($key), to.map($key));
                tx.range(self, (from.as_ref().map($borrow), to.as_ref().map($borrow)))
            }

            fn numbers((key, value): (Self::Key, Self::Value)) -> (u64, u64) {
                ($number(key), value.to_string().parse().unwrap())
            }
        }
    };
}

/// The last keys are the greatest of all, `u64::MAX` among them.
const KEYS: u64 = 64;
const GREAT: u64 = KEYS - 8;

fn word(key: u64) -> u64 {
    if (GREAT..KEYS).contains(&key) { u64::MAX - (KEYS - 1 - key) } else { key }
}

fn number(word: u64) -> u64 {
    if word < u64::MAX - KEYS { word } else { KEYS - 1 - (u64::MAX - word) }
}

fn text(key: u64) -> String {
    format!("{key:06}")
}

type Texts = Map<String, u64, ByteLeaf<8>, Any>;
type Records = Map<u64, String, OneLine<7>, Any>;

numbers!(
    PTree<OneLine<7>, Any>,
    |pool: &Pool<Any>| pool.tree_with("t", IndexKind::Volatile).unwrap(),
    word,
    u64::clone,
    |value: u64| value,
    u64::clone,
    number
);
numbers!(
    Records,
    |pool: &Pool<Any>| pool.map_with("t", IndexKind::Volatile).unwrap(),
    word,
    u64::clone,
    |value: u64| value.to_string(),
    String::as_str,
    number
);
numbers!(
    Texts,
    |pool: &Pool<Any>| pool.map_with("t", IndexKind::Volatile).unwrap(),
    text,
    String::as_str,
    |value: u64| value,
    u64::clone,
    |key: String| key.parse::<u64>().unwrap()
);

fn pool(len: u64) -> Pool<Any> {
    Pool::options().segment_size(4096).create_on(zeroed(len)).unwrap()
}

fn looks(tx: &Transaction<'_, Any>) -> usize {
    tx.parts.iter().map(|part| part.part().looks()).sum()
}

/// Calls `step` so many times in one transaction on a table with as many entries. Returns how much each looks at, and
/// how many reads are kept.
fn costs<T: Numbers>(count: u64, step: impl for<'t> Fn(&mut Transaction<'t, Any>, &'t T, u64)) -> (usize, usize) {
    let pool = pool(4 << 20);
    let table = T::create(&pool);
    (0..count).for_each(|i| table.put(1000 + i, Some(i)));
    let mut tx = pool.begin();
    (0..count).for_each(|i| step(&mut tx, &table, i));
    let costs = (looks(&tx) / count as usize, tx.reads());
    tx.commit().unwrap();
    assert!(pool.check().unwrap().violations.is_empty());
    costs
}

fn first<'t, T: Numbers>(tx: &mut Transaction<'t, Any>, table: &'t T) -> Option<(u64, u64)> {
    table.scan(tx, ALL).unwrap().next().transpose().unwrap().map(T::numbers)
}

fn last<'t, T: Numbers>(tx: &mut Transaction<'t, Any>, table: &'t T) -> Option<(u64, u64)> {
    table.scan(tx, ALL).unwrap().next_back().transpose().unwrap().map(T::numbers)
}

const ALL: (Bound<u64>, Bound<u64>) = (Bound::Unbounded, Bound::Unbounded);

/// However many writes and reads came before, a step looks at the entries of a leaf or two, and what was read is kept
/// once.
fn steps_cost_the_same<T: Numbers>() {
    const COUNT: u64 = if cfg!(miri) { 60 } else { 1200 };
    const LOOKS: usize = 30;
    // As many as there are of the least leaves, half full, and the tail.
    let leaves = COUNT as usize / 3 + 2;
    let at_most = |(looks, reads): (usize, usize), leaves: usize, what: &str| {
        assert!(looks <= LOOKS && reads <= leaves, "{what}: {looks} looks each, {reads} reads");
    };
    let appends = costs::<T>(COUNT, |tx, table, i| {
        let (key, _) = last(tx, table).unwrap();
        assert_eq!(key, 1000 + COUNT - 1 + i);
        table.put_in(tx, key + 1, Some(i));
    });
    at_most(appends, 3, "append");
    let prepends = costs::<T>(if COUNT < 1000 { COUNT } else { 900 }, |tx, table, i| {
        let (key, _) = first(tx, table).unwrap();
        assert_eq!(key, 1000 - i);
        table.put_in(tx, key - 1, Some(i));
    });
    at_most(prepends, 3, "prepend");
    let pops = costs::<T>(COUNT, |tx, table, i| {
        assert_eq!(first(tx, table), Some((1000 + i, i)));
        table.put_in(tx, 1000 + i, None);
    });
    at_most(pops, leaves, "pop");
    let pops_back = costs::<T>(COUNT, |tx, table, i| {
        let i = COUNT - 1 - i;
        assert_eq!(last(tx, table), Some((1000 + i, i)));
        table.put_in(tx, 1000 + i, None);
    });
    at_most(pops_back, leaves, "pop back");
    // What is put comes first, and goes again, and so does one more.
    let both = costs::<T>(COUNT, |tx, table, i| {
        table.put_in(tx, 500 + i / 4, Some(i));
        assert_eq!(first(tx, table), Some((500 + i / 4, i)));
        table.put_in(tx, 500 + i / 4, None);
        let (key, _) = first(tx, table).unwrap();
        assert_eq!(key, 1000 + i);
        table.put_in(tx, key, None);
    });
    at_most(both, leaves, "put and pop");
    let look = costs::<T>(COUNT, |tx, table, _| assert_eq!(first(tx, table), Some((1000, 0))));
    at_most(look, 1, "look");
    let near = costs::<T>(COUNT, |tx, table, i| {
        let key = 1000 + i * 7 % COUNT;
        let near = (Bound::Included(key), Bound::Excluded(key + 1));
        assert_eq!(table.scan(tx, near).unwrap().count(), 1);
    });
    at_most(near, leaves, "short ranges of all keys");
}

#[test]
fn a_step_of_a_scan_costs_the_same_whatever_was_read_and_written() {
    steps_cost_the_same::<PTree<OneLine<7>, Any>>();
    steps_cost_the_same::<Records>();
    steps_cost_the_same::<Texts>();
}

/// A scan looks up more than one entry at a time. One that is damaged is none that hides those before it.
#[test]
fn what_lies_before_a_damaged_entry_comes_first() {
    let pool = pool(512 << 10);
    let table = Records::create(&pool);
    (0..40).for_each(|key| table.put(key, Some(key)));
    let (word, _) = table.state().get_seen(20).unwrap();
    pool.state.medium.store(word.unwrap(), u64::MAX);
    for writes in [false, true] {
        for from_left in [true, false] {
            let mut tx = pool.begin();
            if writes {
                table.put_in(&mut tx, 39, Some(39));
            }
            let mut scan = table.scan(&mut tx, ALL).unwrap();
            let mut next = || if from_left { scan.next() } else { scan.next_back() };
            for i in 0..if from_left { 20 } else { 19 } {
                let key = if from_left { i } else { 39 - i };
                assert_eq!(Records::numbers(next().unwrap().unwrap()), (key, key));
            }
            assert!(matches!(next(), Some(Err(Error { kind: ErrorKind::Corrupt { .. }, .. }))));
            assert!(next().is_none());
        }
    }
}

/// What was read in many leaves is looked for in one of them each, while all of them are locked.
fn leaves_are_looked_at_once<T: Numbers>() {
    const COUNT: u64 = if cfg!(miri) { 60 } else { 1200 };
    let pool = pool(4 << 20);
    let table = T::create(&pool);
    (0..COUNT).for_each(|i| table.put(1000 + i, Some(i)));
    let mut tx = pool.begin();
    assert_eq!(table.scan(&mut tx, ALL).unwrap().count(), COUNT as usize);
    (0..COUNT / 2).for_each(|i| assert_eq!(table.get_in(&mut tx, 1000 + 2 * i).unwrap(), Some(2 * i)));
    let (reads, before) = (tx.reads(), looks(&tx));
    let part = tx.parts[0].part_mut();
    let is_same = part.guard().unwrap() && part.is_same().unwrap();
    part.unlock(false);
    let looked = looks(&tx) - before;
    assert!(is_same && looked <= 2 * reads, "{looked} looks for {reads} reads");
}

#[test]
fn what_was_read_is_looked_for_in_one_leaf() {
    leaves_are_looked_at_once::<PTree<OneLine<7>, Any>>();
    leaves_are_looked_at_once::<Records>();
    leaves_are_looked_at_once::<Texts>();
}

/// A transaction that removes without looking passes over what it has removed, once.
#[test]
fn what_was_removed_is_passed_once() {
    const COUNT: u64 = if cfg!(miri) { 60 } else { 1000 };
    let pool = pool(4 << 20);
    let table = Texts::create(&pool);
    (0..COUNT).for_each(|i| table.put(i, Some(i)));
    let mut tx = pool.begin();
    (0..COUNT - 1).for_each(|i| table.put_in(&mut tx, i, None));
    assert_eq!(first(&mut tx, &table), Some((COUNT - 1, COUNT - 1)));
    let once = looks(&tx);
    assert!(once >= COUNT as usize);
    for _ in 0..100 {
        assert_eq!(first(&mut tx, &table), Some((COUNT - 1, COUNT - 1)));
        assert_eq!(last(&mut tx, &table), Some((COUNT - 1, COUNT - 1)));
        let middle = (Bound::Excluded(COUNT / 2), Bound::Unbounded);
        assert_eq!(table.scan(&mut tx, middle).unwrap().count(), 1);
    }
    assert!(looks(&tx) - once <= 300 * 12, "{}", looks(&tx) - once);
}

/// A transaction that finds nothing, again and again, comes to see that there is something now: also where it has
/// removed all that there was.
#[test]
fn what_has_come_since_is_a_conflict_where_all_was_removed() {
    let pool = pool(4 << 20);
    let table = Texts::create(&pool);
    (0..200).for_each(|i| table.put(i, Some(i)));
    for (has_moment, key) in [(false, 100), (false, 300), (true, 7), (true, 300)] {
        let mut tx = pool.begin();
        (0..200).for_each(|i| table.put_in(&mut tx, i, None));
        if has_moment {
            tx.has_expired = false;
            tx.lost = PASSES;
        }
        assert_eq!((first(&mut tx, &table), last(&mut tx, &table)), (None, None));
        table.put(key, Some(1000));
        let mut rounds = 0;
        while let Ok(None) = table.scan(&mut tx, ALL).unwrap().next().transpose() {
            rounds += 1;
            assert!(rounds <= tx.reads(), "it does not come to see the change");
        }
        assert!(matches!(tx.commit(), Err(Error { kind: ErrorKind::Conflict, .. })));
        (0..200).for_each(|i| table.put(i, Some(i)));
        table.put(300, None);
    }
}

/// A transaction that waits sees the change, too, if it reads other keys in between, and each of them is one more to be
/// compared.
#[test]
fn what_has_come_since_is_a_conflict_however_much_is_read() {
    let pool = pool(4 << 20);
    let table = Texts::create(&pool);
    (0..200).for_each(|i| table.put(i, Some(i)));
    let mut tx = pool.begin();
    (0..100).for_each(|i| table.put_in(&mut tx, i, None));
    let taken = (Bound::Unbounded, Bound::Excluded(100));
    assert!(table.scan(&mut tx, taken).unwrap().next().is_none());
    tx.lost = PASSES;
    assert_eq!(table.get_in(&mut tx, 150).unwrap(), Some(150));
    assert!(tx.moment.is_some());
    table.put(50, Some(1000));
    let mut rounds = 0;
    let error = loop {
        rounds += 1;
        assert!(rounds < 1000, "it does not come to see the change");
        assert_eq!(table.get_in(&mut tx, 150).unwrap(), Some(150));
        assert_eq!(table.get_in(&mut tx, 160).unwrap(), Some(160));
        match table.scan(&mut tx, taken).unwrap().next().transpose() {
            Ok(found) => assert_eq!(found, None),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind, ErrorKind::Conflict));
}

/// Reads twenty of two hundred entries in some way.
type ReadTwenty<T> = for<'t> fn(&mut Transaction<'t, Any>, &'t T);

/// One transaction reads a part of a range, another one changes a key: that is a conflict if the key lies in this part,
/// also where the first one has removed what it has read, and none if it lies far from it.
fn changes_of_what_was_passed<T: Numbers>() {
    fn take<'t, T: Numbers>(tx: &mut Transaction<'t, Any>, table: &'t T, from_left: bool) {
        let mut scan = table.scan(tx, ALL).unwrap();
        (0..20).for_each(|_| drop(if from_left { scan.next() } else { scan.next_back() }.unwrap().unwrap()));
    }
    fn pop<'t, T: Numbers>(tx: &mut Transaction<'t, Any>, table: &'t T, from_left: bool) {
        for _ in 0..20 {
            let (key, _) = if from_left { first(tx, table) } else { last(tx, table) }.unwrap();
            table.put_in(tx, key, None);
        }
    }
    let ways: [ReadTwenty<T>; 6] = [
        |tx, table| take(tx, table, true),
        |tx, table| take(tx, table, false),
        |tx, table| (0..3).for_each(|_| take(tx, table, true)),
        |tx, table| (0..3).for_each(|_| take(tx, table, false)),
        |tx, table| pop(tx, table, true),
        |tx, table| pop(tx, table, false),
    ];
    let pool = pool(4 << 20);
    let table = T::create(&pool);
    let key = |i: u64| 1000 + 2 * i;
    for (number, read) in ways.into_iter().enumerate() {
        let is_mirrored = number % 2 == 1;
        for (i, value, is_far) in [
            (3, Some(1), false),
            (3, None, false),
            (19, None, false),
            // Between two entries.
            (5, Some(2), false),
            (180, Some(3), true),
            (180, None, true),
        ] {
            for writes in 0..3 {
                (0..200).for_each(|i| table.put(key(i), Some(i)));
                let between = u64::from(value == Some(2));
                let changed = if is_mirrored { key(199 - i) - between } else { key(i) + between };
                table.put(key(5) + 1, None);
                table.put(key(194) - 1, None);
                let middle = |i: u64| key(90 + i) + 1;
                (0..writes).for_each(|i| table.put(middle(i), None));
                let (mut one, mut other) = (pool.begin(), pool.begin());
                read(&mut one, &table);
                (0..writes).for_each(|i| table.put_in(&mut one, middle(i), Some(i)));
                table.put_in(&mut other, changed, value);
                other.commit().unwrap();
                let is_writing = one.writes() > 0;
                match one.commit() {
                    Ok(()) => assert!(is_far || !is_writing, "{number} {i} {value:?} {writes}"),
                    Err(Error { kind: ErrorKind::Conflict, .. }) => {
                        assert!(!is_far && is_writing, "{number} {i} {value:?} {writes}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[test]
fn a_change_of_what_a_scan_has_passed_is_a_conflict() {
    changes_of_what_was_passed::<PTree<OneLine<7>, Any>>();
    changes_of_what_was_passed::<Records>();
    changes_of_what_was_passed::<Texts>();
}

/// What is done in a transaction, and beside it.
#[derive(Debug, Clone)]
enum Op {
    Get(u64),
    Put(u64, Option<u64>),
    /// Steps of one scan, true for those from the left; all that are left, if there are none.
    Scan((Bound<u64>, Bound<u64>), Vec<bool>),
    /// Takes entries from an end of all keys.
    Pop(bool, usize),
    /// Somebody else changes a key.
    Other(u64),
}

fn bounds() -> impl Strategy<Value = (Bound<u64>, Bound<u64>)> {
    let bound = |key: u64, how: u8| match how {
        0 => Bound::Unbounded,
        1..4 => Bound::Excluded(key),
        _ => Bound::Included(key),
    };
    // Not backward, and not twice the same excluded key.
    (0..KEYS - 1, 1..KEYS, 0..8u8, 0..8u8)
        .prop_map(move |(from, width, one, other)| (bound(from, one), bound((from + width).min(KEYS - 1), other)))
}

fn op(others: bool) -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..KEYS).prop_map(Op::Get),
        4 => (0..KEYS, any::<u64>()).prop_map(|(key, value)| Op::Put(key, Some(value))),
        4 => (0..KEYS).prop_map(|key| Op::Put(key, None)),
        3 => (bounds(), prop::collection::vec(any::<bool>(), 0..20)).prop_map(|(range, steps)| Op::Scan(range, steps)),
        2 => bounds().prop_map(|range| Op::Scan(range, Vec::new())),
        3 => (any::<bool>(), 1..8usize).prop_map(|(from_left, count)| Op::Pop(from_left, count)),
        if others { 2 } else { 0 } => (0..KEYS).prop_map(Op::Other),
    ]
}

/// What a transaction must find.
struct Model {
    /// What is there now, whatever the transaction has done.
    now: BTreeMap<u64, u64>,
    /// What it has found there.
    read: BTreeMap<u64, Option<u64>>,
    own: BTreeMap<u64, Option<u64>>,
    /// The ranges in which it may have read more than it was told.
    ranges: Vec<(Bound<u64>, Bound<u64>)>,
    /// Whether somebody else has changed what it may have read.
    may_conflict: bool,
}

impl Model {
    fn read(&mut self, key: u64) -> Option<u64> {
        *self.read.entry(key).or_insert_with(|| self.now.get(&key).copied())
    }

    fn see(&mut self, key: u64) -> Option<u64> {
        let of_tree = self.read(key);
        self.own.get(&key).copied().unwrap_or(of_tree)
    }

    /// The next entry of keys that no step has passed, which are passed up to there.
    fn step(&mut self, left: &mut std::ops::Range<u64>, from_left: bool) -> Option<(u64, u64)> {
        while let Some(key) = if from_left { left.next() } else { left.next_back() } {
            if let Some(value) = self.see(key) {
                return Some((key, value));
            }
        }
        None
    }

    fn change(&mut self, key: u64, value: Option<u64>) {
        use std::ops::RangeBounds;
        match value {
            Some(value) => drop(self.now.insert(key, value)),
            None => drop(self.now.remove(&key)),
        }
        self.may_conflict |= self.read.contains_key(&key) || self.ranges.iter().any(|range| range.contains(&key));
    }
}

/// Runs operations in a transaction. What it finds is what the model says, up to a conflict, and there is one if and
/// only if somebody else has changed what it has read.
fn run<T: Numbers>(stored: &[(u64, u64)], ops: &[Op]) {
    let pool = pool(512 << 10);
    let table = T::create(&pool);
    stored.iter().for_each(|&(key, value)| table.put(key, Some(value)));
    let mut model = Model {
        now: stored.iter().copied().collect(),
        read: BTreeMap::new(),
        own: BTreeMap::new(),
        ranges: Vec::new(),
        may_conflict: false,
    };
    let mut tx = pool.begin();
    let mut is_conflict = false;
    for (i, op) in ops.iter().enumerate() {
        let result = apply(&mut tx, &table, &mut model, i as u64, op);
        if let Err(error) = result {
            assert!(matches!(error.kind, ErrorKind::Conflict) && model.may_conflict, "{op:?}: {error}");
            is_conflict = true;
            break;
        }
    }
    let has_changed = model.read.iter().any(|(key, value)| model.now.get(key) != value.as_ref());
    match tx.commit() {
        Err(Error { kind: ErrorKind::Conflict, .. }) => assert!(model.may_conflict),
        Err(error) => panic!("{error}"),
        Ok(()) => {
            assert!(!is_conflict && (!has_changed || model.own.is_empty()), "what was read has changed");
            std::mem::take(&mut model.own).into_iter().for_each(|(key, value)| model.change(key, value));
        }
    }
    let mut tx = pool.begin();
    let all: Vec<_> = table.scan(&mut tx, ALL).unwrap().map(|entry| T::numbers(entry.unwrap())).collect();
    assert!(all.into_iter().eq(model.now));
}

fn apply<'t, T: Numbers>(
    tx: &mut Transaction<'t, Any>,
    table: &'t T,
    model: &mut Model,
    i: u64,
    op: &Op,
) -> Result<()> {
    match op {
        Op::Get(key) => {
            let found = table.get_in(tx, *key)?;
            // Own writes are not read.
            let expected = model.own.get(key).copied().unwrap_or_else(|| model.read(*key));
            assert_eq!(found, expected, "{key}");
        }
        Op::Put(key, value) => {
            table.put_in(tx, *key, *value);
            model.own.insert(*key, *value);
        }
        Op::Scan(range, steps) => {
            let first = match range.0 {
                Bound::Unbounded => 0,
                Bound::Included(key) => key,
                Bound::Excluded(key) => key + 1,
            };
            let end = match range.1 {
                Bound::Unbounded => KEYS,
                Bound::Included(key) => key + 1,
                Bound::Excluded(key) => key,
            };
            let mut left = first..end.max(first);
            model.ranges.push(*range);
            let mut scan = table.scan(tx, *range)?;
            let mut step = |from_left: bool| {
                let found = if from_left { scan.next() } else { scan.next_back() };
                let found = found.transpose()?.map(T::numbers);
                assert_eq!(found, model.step(&mut left, from_left));
                Ok::<_, Error>(found.is_some())
            };
            for &from_left in steps {
                step(from_left)?;
            }
            while steps.is_empty() && step(i.is_multiple_of(2))? {}
        }
        Op::Pop(from_left, count) => {
            model.ranges.push(ALL);
            for _ in 0..*count {
                let mut scan = table.scan(tx, ALL)?;
                let found = if *from_left { scan.next() } else { scan.next_back() };
                let found = found.transpose()?.map(T::numbers);
                assert_eq!(found, model.step(&mut (0..KEYS), *from_left));
                if let Some((key, _)) = found {
                    table.put_in(tx, key, None);
                    model.own.insert(key, None);
                }
            }
        }
        Op::Other(key) => {
            // A value that was never there.
            let value = if i.is_multiple_of(3) { None } else { Some(1 << 32 | i) };
            if value != model.now.get(key).copied() {
                table.put(*key, value);
                model.change(*key, value);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 100 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scans_find_what_a_model_finds(
        stored in prop::collection::btree_map(0..KEYS, any::<u64>(), 0..KEYS as usize),
        alone in prop::collection::vec(op(false), 0..60),
        beside in prop::collection::vec(op(true), 0..40),
    ) {
        let stored: Vec<_> = stored.into_iter().collect();
        for ops in [&alone, &beside] {
            run::<PTree<OneLine<7>, Any>>(&stored, ops);
            run::<Records>(&stored, ops);
            run::<Texts>(&stored, ops);
        }
    }
}
