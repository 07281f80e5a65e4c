//! What threads do in a round. Everything follows from the round's seed, except for the order in which the threads get
//! to it.

use super::op::{Named, Op, Scan, Transaction, Way};
use crate::crash::tree_type::TreeType;
use crate::random::Random;
use std::collections::BTreeMap;

/// A different sequence for each pair.
pub(super) fn random(seed: u64, of: u64) -> Random {
    let mut random = Random(seed ^ of.rotate_left(40));
    random.next();
    random
}

/// How the tree was opened before the threads begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opened {
    /// It was just created.
    New,
    /// It was closed and opened: no leaf has been touched yet.
    Closed,
    /// It was not closed in order.
    Crashed,
}

/// The initial entries of a round, and what its threads do.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    seed: u64,
    /// Whether there are two trees: these have transactions, and no operations on all keys.
    is_two: bool,
    pub(super) threads: usize,
    /// Operations per thread.
    pub(super) ops: usize,
    /// All keys of the round, in order.
    pub(super) keys: Vec<u64>,
    pub(super) before: BTreeMap<u64, u64>,
    pub(super) opened: Opened,
    /// Whether lines must be written back: some layouts behave differently then.
    pub(super) writes_back: bool,
    /// Whether operations that change all keys at once are checked as one operation: in rounds of few keys and short
    /// operations.
    pub(super) atomic: bool,
    /// Threads insert more, and then remove more, for this many operations each.
    wave: usize,
    /// One in this many operations clears or loads the tree.
    clears: u64,
}

/// The thread that the initial values are attributed to.
const BEFORE: usize = 99;

impl Plan {
    /// A plan for leaves of `slots` slots; with 0 `threads`, there are two to eight.
    pub(super) fn new(seed: u64, threads: usize, of: TreeType) -> Self {
        let TreeType { slots, is_two, .. } = of;
        let mut random = random(seed, 0);
        let atomic = random.one_in(if is_two { 2 } else { 6 });
        let count = if atomic { 3 + random.below(2 * slots) } else { slots * random.one_of(&[1, 3, 8, 16]) };
        let keys = keys(&mut random, count.clamp(3, if atomic { 12 } else { 200 }));
        let share = random.below(5);
        let before = keys.iter().enumerate().filter(|_| random.below(4) < share);
        let before = before.map(|(i, &key)| (key, Named::value(BEFORE, i as u64))).collect();
        let (usual, fewer) = (2 + random.below(7) as usize, 2 + random.below(3) as usize);
        let plan = Self {
            seed,
            is_two,
            threads: if threads > 0 {
                threads
            } else if atomic {
                fewer
            } else {
                usual
            },
            ops: if atomic { 120 } else { random.one_of(&[60, 200, 500, 1000]) },
            before,
            opened: random.one_of(&[Opened::New, Opened::Closed, Opened::Crashed]),
            writes_back: random.one_in(2),
            atomic,
            wave: random.one_of(&[20, 60, 200]),
            clears: if is_two {
                u64::MAX
            } else if atomic {
                12
            } else {
                random.one_of(&[100, 400, u64::MAX])
            },
            keys,
        };
        plan.or_opening(&mut random)
    }

    /// One round in four is only a beginning: a large tree that was just opened is touched, and grows at once.
    fn or_opening(mut self, random: &mut Random) -> Self {
        if !self.atomic && random.one_in(4) {
            self.opened = random.one_of(&[Opened::Closed, Opened::Closed, Opened::Crashed]);
            self.keys = (1..=200).map(|i| i * 5).collect();
            self.before = self.keys.iter().step_by(2).map(|&key| (key, Named::value(BEFORE, key))).collect();
            (self.ops, self.wave, self.clears) = (12, 12, u64::MAX);
        }
        self
    }

    /// A short round of few threads, after which crashes are simulated.
    pub(super) fn short(seed: u64, threads: usize, of: TreeType) -> Self {
        let mut plan = Self::new(seed, threads, of);
        let mut random = random(seed, 1);
        plan.threads = if threads > 0 { threads } else { 2 + random.below(3) as usize };
        plan.ops = 40;
        plan.keys.truncate(24);
        plan.before.retain(|key, _| plan.keys.binary_search(key).is_ok());
        plan.wave = 10;
        plan
    }

    /// The operations of one thread; what the thread saw last helps it to exchange values.
    pub(super) fn script(&self, thread: usize) -> Script<'_> {
        let random = random(self.seed, thread as u64 + 2);
        Script { plan: self, thread, random, done: 0, writes: 0, seen: vec![None; self.keys.len()], focus: 0 }
    }
}

/// Keys of all kinds: neighbours, far apart, and sometimes the smallest and the greatest.
fn keys(random: &mut Random, count: u64) -> Vec<u64> {
    let (first, step) = (random.one_of(&[0, 1, 1000, u64::MAX / 2]), random.one_of(&[1, 1, 3, 1 << 32]));
    let mut keys: Vec<u64> = (0..count).map(|i| first + i * step).collect();
    if random.one_in(2) {
        keys.push(u64::MAX);
    }
    keys
}

/// The operations of one thread, one after the other.
pub(super) struct Script<'p> {
    plan: &'p Plan,
    thread: usize,
    random: Random,
    done: usize,
    writes: u64,
    /// The value that each key had when this thread last learned of it.
    seen: Vec<Option<u64>>,
    /// The key around which the thread works.
    focus: u64,
}

impl Script<'_> {
    /// A new value.
    fn value(&mut self) -> u64 {
        self.writes += 1;
        Named::value(self.thread, self.writes)
    }

    /// The position of a key: near others that were used lately, or anywhere.
    fn position(&mut self) -> usize {
        let keys = self.plan.keys.len() as u64;
        if self.random.one_in(16) {
            self.focus = self.random.below(keys);
        }
        let at = if self.random.one_in(3) { self.random.next() } else { self.focus + self.random.below(4) };
        (at % keys) as usize
    }

    fn key(&mut self) -> u64 {
        let position = self.position();
        self.plan.keys[position]
    }

    /// At most `most` keys, neighbours or any.
    fn some_keys(&mut self, most: u64) -> Vec<u64> {
        let count = 1 + self.random.below(most);
        let (from, together) = (self.position(), self.random.one_in(2));
        let keys = &self.plan.keys;
        let any = |random: &mut Random| random.below(keys.len() as u64) as usize;
        let at = (0..count as usize).map(|i| if together { from + i } else { any(&mut self.random) });
        at.map(|i| keys[i % keys.len()]).collect()
    }

    /// Records the value that was seen last at a key that an operation asked for alone.
    pub(super) fn saw(&mut self, key: u64, value: Option<u64>) {
        if let Ok(i) = self.plan.keys.binary_search(&key) {
            self.seen[i] = value;
        }
    }

    fn scan(&mut self) -> Op {
        let (a, b) = (self.key(), self.key());
        let whole = self.random.one_in(4);
        let keys = if whole { (0, u64::MAX) } else { (a.min(b), a.max(b)) };
        let way = self.random.one_of(&[Way::Up, Way::Up, Way::Down, Way::Both]);
        let limit = if way != Way::Both && self.random.one_in(3) { 1 + self.random.below(4) } else { u64::MAX };
        Op::Range(Scan { keys, way, limit: limit as usize })
    }

    fn all(&mut self) -> Op {
        if self.random.one_in(2) {
            return Op::Clear;
        }
        let mut entries = Vec::new();
        for &key in &self.plan.keys {
            if self.random.one_in(2) {
                entries.push((key, self.value()));
            }
        }
        Op::Load(entries)
    }

    fn transaction(&mut self) -> Op {
        let mut keys = if self.random.one_in(6) { Vec::new() } else { self.some_keys(4) };
        keys.sort_unstable();
        keys.dedup();
        let range = self.random.one_in(3);
        if range && let (Some(&first), Some(&last)) = (keys.first(), keys.last()) {
            // Whatever else lies there is read, too.
            keys = self.plan.keys.iter().copied().filter(|key| (first..=last).contains(key)).collect();
        }
        // Often of what was read.
        let written = match self.random.below(4) {
            0 if !keys.is_empty() => Vec::new(),
            1 | 2 if !keys.is_empty() => keys.iter().copied().filter(|_| self.random.one_in(2)).collect(),
            _ => self.some_keys(5),
        };
        let writes = written.into_iter().map(|key| (key, (!self.random.one_in(3)).then(|| self.value()))).collect();
        Op::Transaction(Transaction { keys, range, writes })
    }

    fn longer(&mut self) -> Op {
        let atomic = self.plan.atomic;
        if self.random.one_in(10) {
            return Op::Compact;
        }
        if self.plan.is_two && (atomic || self.random.one_in(2)) {
            return self.transaction();
        }
        match self.random.below(6) {
            0 if !atomic => Op::MultiGet(self.some_keys(20)),
            1 if !atomic && self.random.one_in(2) => {
                let i = self.position();
                let last = (i + self.random.below(20) as usize).min(self.plan.keys.len() - 1);
                Op::Cut(self.plan.keys[i], self.plan.keys[last])
            }
            1 | 2 if !atomic => {
                let keys = self.some_keys(12);
                Op::Batch(keys.into_iter().map(|key| (key, self.value())).collect())
            }
            0..5 if !atomic => self.scan(),
            _ if self.plan.is_two => self.transaction(),
            _ if self.random.one_in(2) => Op::IsEmpty,
            _ => Op::Len,
        }
    }
}

impl Iterator for Script<'_> {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        if self.done == self.plan.ops {
            return None;
        }
        let grows = (self.done / self.plan.wave).is_multiple_of(2);
        self.done += 1;
        if self.random.one_in(self.plan.clears) {
            return Some(self.all());
        }
        let i = self.position();
        let key = self.plan.keys[i];
        let inserts = if grows { 30 } else { 10 };
        Some(match self.random.below(100) {
            0..25 => Op::Get(key),
            25..32 => Op::Update(key, self.value()),
            32..36 => Op::InsertNew(key, self.value()),
            36..44 => {
                let new = (!self.random.one_in(3)).then(|| self.value());
                Op::Exchange(key, self.seen[i], new)
            }
            44..54 => self.longer(),
            n if n < 54 + inserts => Op::Insert(key, self.value()),
            n if n < 94 => Op::Remove(key),
            _ => Op::Get(key),
        })
    }
}
