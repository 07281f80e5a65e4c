//! What the threads of a killed process do. It follows from the seed, so the process that watches them knows it.

use crate::numbers::{Random, mix};
use crate::shape::{Shape, with_type};
use bristlecone::{Error, ErrorKind, IndexKind, Map, PTree, Pool, Result, Transaction, WordNode};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Keys per thread in each of the trees that all threads share.
pub(crate) const KEYS: u64 = 400;
/// Keys of the tree that only one thread uses.
const OWN_KEYS: u64 = 150;

pub(crate) type Entries = BTreeMap<u64, u64>;

/// A change by one thread of its own keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    /// After a kill, any part of it may be there.
    Batch(Vec<(u64, u64)>),
    Put(u64, u64),
    Delete(u64),
    /// A transaction: the same entries of a tree and of a map of texts are set or removed, all at once.
    Both(Vec<(u64, Option<u64>)>),
    OwnInsert(u64, u64),
    OwnClear,
    OwnLoad(u64),
    /// The thread's own tree is deleted, and created again when it is next used.
    OwnDrop,
    /// A new tree with so many entries takes the place of the thread's own tree, and in the same transaction an entry
    /// is set as by `Both`.
    OwnNew(u64, u64, u64),
}

/// The endless changes of one thread in one life of the process.
pub(crate) struct Series {
    random: Random,
    thread: u64,
    threads: u64,
}

impl Series {
    pub(crate) fn new(seed: u64, life: u64, thread: u64, threads: u64) -> Self {
        Self { random: Random::new(mix(seed ^ mix(life << 16 | thread))), thread, threads }
    }

    /// Neighbours belong to different threads. Half of all keys lie close together, the others far apart.
    fn key(&mut self) -> u64 {
        key(self.random.below(KEYS), self.thread, self.threads)
    }
}

/// A thread's `n`-th key.
pub(crate) fn key(n: u64, thread: u64, threads: u64) -> u64 {
    let number = n * threads + thread;
    if n.is_multiple_of(2) { number } else { mix(number) | 1 << 63 }
}

impl Iterator for Series {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let value = self.random.word();
        Some(match self.random.below(100) {
            0..35 => Op::Insert(self.key(), value),
            35..40 => Op::Update(self.key(), value),
            40..57 => Op::Remove(self.key()),
            57..61 => {
                let count = 1 + self.random.below(if value.is_multiple_of(8) { 40 } else { 6 });
                let write =
                    |i: u64| (self.key(), (!(value >> (i % 32)).is_multiple_of(3)).then(|| value.wrapping_add(i)));
                Op::Both((0..count).map(write).collect())
            }
            61..65 => {
                let count = 1 + self.random.below(16);
                Op::Batch((0..count).map(|i| (self.key(), value.wrapping_add(i))).collect())
            }
            65..80 => Op::Put(self.key(), value),
            80..89 => Op::Delete(self.key()),
            89..98 => Op::OwnInsert(self.random.below(OWN_KEYS), value),
            98 if value.is_multiple_of(2) => Op::OwnClear,
            98 => Op::OwnNew(value % OWN_KEYS, self.key(), value),
            _ if value.is_multiple_of(4) => Op::OwnDrop,
            _ => Op::OwnLoad(value % OWN_KEYS),
        })
    }
}

/// What the trees hold for one thread's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) numbers: Entries,
    /// The numbers that the records encode.
    pub(crate) records: Entries,
    /// The entries of each of the two trees that are changed together.
    pub(crate) both: Entries,
    pub(crate) own: Entries,
}

impl Op {
    pub(crate) fn apply(&self, content: &mut Content) {
        match self {
            Self::Insert(key, value) => drop(content.numbers.insert(*key, *value)),
            Self::Update(key, value) => {
                content.numbers.entry(*key).and_modify(|old| *old = *value);
            }
            Self::Remove(key) => drop(content.numbers.remove(key)),
            Self::Batch(entries) => content.numbers.extend(entries.iter().copied()),
            Self::Put(key, value) => drop(content.records.insert(*key, *value)),
            Self::Delete(key) => drop(content.records.remove(key)),
            Self::Both(writes) => writes.iter().for_each(|&(key, value)| {
                match value {
                    Some(value) => content.both.insert(key, value),
                    None => content.both.remove(&key),
                };
            }),
            Self::OwnInsert(key, value) => drop(content.own.insert(*key, *value)),
            Self::OwnClear | Self::OwnDrop => content.own.clear(),
            Self::OwnLoad(n) => {
                if content.own.is_empty() {
                    content.own.extend(loaded(*n));
                }
            }
            Self::OwnNew(n, key, value) => {
                content.own = loaded(*n).collect();
                content.both.insert(*key, *value);
            }
        }
    }
}

fn loaded(n: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..n).map(|key| (key, !key))
}

/// A record for a number. Every byte follows from the number; a few records are long.
pub(crate) fn record(value: u64) -> Vec<u8> {
    let len = if value.is_multiple_of(64) { 8 + value / 64 % 6000 } else { 8 + value / 64 % 120 };
    mix(value).to_le_bytes().into_iter().cycle().take(len as usize).collect::<Vec<_>>()
}

/// The trees of a pool, whatever their types are.
pub(crate) trait Trees: Sync {
    fn perform(&self, thread: usize, op: &Op) -> Result<()>;
    fn numbers(&self) -> Entries;
    fn records(&self) -> Result<BTreeMap<u64, Vec<u8>>>;
    /// The entries of the two trees that are changed together.
    fn both(&self) -> Result<[Entries; 2]>;
    /// The entries of the thread's own tree.
    fn own(&self, thread: usize) -> Result<Entries>;
    /// The broken invariants of all trees.
    fn broken(&self) -> Vec<String>;
}

struct Of<N: WordNode> {
    pool: Pool,
    index: IndexKind,
    numbers: PTree<N>,
    records: Map<u64, Vec<u8>, N>,
    words: PTree,
    texts: Map<String, String>,
    own: Vec<Mutex<Option<PTree<N>>>>,
}

/// Opens the trees of a pool for this many threads, or creates them.
pub(crate) fn open(pool: &Pool, shape: Shape, threads: usize) -> Result<Box<dyn Trees>> {
    fn of<N: WordNode>(pool: &Pool, index: IndexKind, threads: usize) -> Result<Box<dyn Trees>> {
        let (numbers, records) = (pool.tree_with("numbers", index)?, pool.map_with("records", index)?);
        let (words, texts) = (pool.tree("words")?, pool.map("texts")?);
        let own = (0..threads).map(|_| Mutex::new(None)).collect();
        // What a kill left of trees that did not get to their place.
        (0..threads).try_for_each(|thread| drop_if_there(pool, &new_name(thread)))?;
        Ok(Box::new(Of::<N> { pool: pool.clone(), index, numbers, records, words, texts, own }))
    }
    let opened = with_type!(shape, [32], N => of::<N>(pool, shape.index.kind(), threads));
    let unusual = || ErrorKind::InvalidOption { what: "slots must be the usual ones", given: shape.slots.into() };
    opened.unwrap_or_else(|| Err(Error::new(pool.stat().name, unusual())))
}

/// A number as a text, long enough that a leaf has lows of its own.
fn text(number: u64) -> String {
    format!("{number:020}")
}

fn own_name(thread: usize) -> String {
    format!("own-{thread}")
}

/// The name of a tree that is being filled.
fn new_name(thread: usize) -> String {
    format!("new-{thread}")
}

fn drop_if_there(pool: &Pool, name: &str) -> Result<()> {
    match pool.drop_tree(name) {
        Err(Error { kind: ErrorKind::NoSuchTree { .. }, .. }) => Ok(()),
        other => other,
    }
}

impl<N: WordNode> Of<N> {
    /// Sets or removes an entry in both trees.
    fn write_both<'t>(&'t self, transaction: &mut Transaction<'t>, key: u64, value: Option<u64>) -> Result<()> {
        match value {
            Some(value) => {
                transaction.insert(&self.words, key, value)?;
                transaction.insert(&self.texts, &text(key), &text(value))
            }
            None => {
                transaction.remove(&self.words, key)?;
                transaction.remove(&self.texts, &text(key))
            }
        }
    }

    fn with_own<T>(&self, thread: usize, work: impl FnOnce(&PTree<N>) -> Result<T>) -> Result<T> {
        let mut own = self.own[thread].lock();
        if own.is_none() {
            *own = Some(self.pool.tree_with(&own_name(thread), self.index)?);
        }
        work(own.as_ref().expect("opened"))
    }
}

impl<N: WordNode> Trees for Of<N> {
    fn perform(&self, thread: usize, op: &Op) -> Result<()> {
        match op {
            Op::Insert(key, value) => self.numbers.insert(*key, *value).map(drop),
            Op::Update(key, value) => self.numbers.update(*key, *value).map(drop),
            Op::Remove(key) => self.numbers.remove(*key).map(drop),
            Op::Batch(entries) => self.numbers.insert_batch(entries).map(drop),
            Op::Put(key, value) => self.records.insert(*key, &record(*value)).map(drop),
            Op::Delete(key) => self.records.remove(*key).map(drop),
            // What was read before decides nothing, but it is compared at the commit.
            Op::Both(writes) => self.pool.transaction(|transaction| {
                writes.iter().try_for_each(|&(key, value)| {
                    transaction.get(&self.words, key)?;
                    self.write_both(transaction, key, value)
                })
            }),
            Op::OwnInsert(key, value) => self.with_own(thread, |own| own.insert(*key, *value).map(drop)),
            Op::OwnClear => self.with_own(thread, PTree::clear),
            Op::OwnLoad(n) => self.with_own(thread, |own| match own.bulk_load(loaded(*n)) {
                Err(Error { kind: ErrorKind::NotEmpty { .. }, .. }) => Ok(()),
                other => other.map(drop),
            }),
            Op::OwnDrop => {
                *self.own[thread].lock() = None;
                drop_if_there(&self.pool, &own_name(thread))
            }
            Op::OwnNew(n, key, value) => {
                let new = self.pool.tree_with(&new_name(thread), self.index)?;
                new.bulk_load(loaded(*n))?;
                // There is one to exchange names with.
                self.with_own(thread, |_| Ok(()))?;
                self.pool.transaction(|transaction| {
                    self.write_both(transaction, *key, Some(*value))?;
                    transaction.swap_trees(&new_name(thread), &own_name(thread))
                })?;
                *self.own[thread].lock() = Some(new);
                self.pool.drop_tree(&new_name(thread))
            }
        }
    }

    fn numbers(&self) -> Entries {
        self.numbers.iter().collect()
    }

    fn records(&self) -> Result<BTreeMap<u64, Vec<u8>>> {
        self.records.iter().collect()
    }

    fn both(&self) -> Result<[Entries; 2]> {
        let number = |text: String| text.parse().unwrap_or(u64::MAX);
        let texts = self.texts.iter().map(|entry| entry.map(|(key, value)| (number(key), number(value))));
        Ok([self.words.iter().collect(), texts.collect::<Result<_>>()?])
    }

    fn own(&self, thread: usize) -> Result<Entries> {
        self.with_own(thread, |own| Ok(own.iter().collect()))
    }

    fn broken(&self) -> Vec<String> {
        let own = self.own.iter().filter_map(|own| own.lock().as_ref().map(PTree::check));
        let shared = [self.numbers.check(), self.records.check(), self.words.check(), self.texts.check()];
        let reports = shared.into_iter().chain(own);
        reports.flat_map(|report| report.violations).map(|broken| broken.to_string()).collect()
    }
}
