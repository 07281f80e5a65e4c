//! The basic verbs: how long they take, and what they ask of the medium.

use super::Plan;
use super::spread::Spread;
use crate::numbers::{Keys, Random};
use crate::out::Outcome;
use crate::scratch::Scratch;
use crate::worker;
use bristlecone::medium::{Counted, Counts, Domain, Dram, JournalStat, Medium};
use bristlecone::{Journal, OneLine, PTree, Pool};
use std::collections::BTreeMap;
use std::time::Instant;

/// An operation, which is done once for each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Get,
    Update,
    Scan,
    Remove,
}

/// The number of verbs.
const VERBS: usize = Verb::ALL.len();

impl Verb {
    /// In the order in which they are done.
    pub(super) const ALL: [Self; 5] = [Self::Insert, Self::Get, Self::Update, Self::Scan, Self::Remove];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Get => "get",
            Self::Update => "update",
            Self::Scan => "scan",
            Self::Remove => "remove",
        }
    }
}

/// An ordered map.
trait OrderedMap {
    fn insert(&mut self, key: u64, value: u64) -> Outcome<()>;
    fn get(&self, key: u64) -> Option<u64>;
    fn update(&mut self, key: u64, value: u64) -> Outcome<()>;
    /// Goes through all entries in order; returns how many have the value that belongs to their key.
    fn scan(&self) -> u64;
    fn remove(&mut self, key: u64) -> Outcome<()>;
}

fn right(entries: impl Iterator<Item = (u64, u64)>) -> u64 {
    entries.filter(|&(key, value)| value == Keys::value(key)).count() as u64
}

impl<M: Medium> OrderedMap for PTree<OneLine, M> {
    fn insert(&mut self, key: u64, value: u64) -> Outcome<()> {
        PTree::insert(self, key, value)?;
        Ok(())
    }

    fn get(&self, key: u64) -> Option<u64> {
        PTree::get(self, key)
    }

    fn update(&mut self, key: u64, value: u64) -> Outcome<()> {
        PTree::update(self, key, value)?;
        Ok(())
    }

    fn scan(&self) -> u64 {
        right(self.iter())
    }

    fn remove(&mut self, key: u64) -> Outcome<()> {
        PTree::remove(self, key)?;
        Ok(())
    }
}

impl OrderedMap for BTreeMap<u64, u64> {
    fn insert(&mut self, key: u64, value: u64) -> Outcome<()> {
        BTreeMap::insert(self, key, value);
        Ok(())
    }

    fn get(&self, key: u64) -> Option<u64> {
        BTreeMap::get(self, &key).copied()
    }

    fn update(&mut self, key: u64, value: u64) -> Outcome<()> {
        if let Some(old) = self.get_mut(&key) {
            *old = value;
        }
        Ok(())
    }

    fn scan(&self) -> u64 {
        right(self.iter().map(|(&key, &value)| (key, value)))
    }

    fn remove(&mut self, key: u64) -> Outcome<()> {
        BTreeMap::remove(self, &key);
        Ok(())
    }
}

/// A map and the keys that it holds, or will hold.
struct Trial<M> {
    map: M,
    keys: Keys,
    n: u64,
    random: Random,
}

impl<M: OrderedMap> Trial<M> {
    fn new(map: M, n: u64, seed: u64) -> Self {
        Self { map, keys: Keys::new(seed), n, random: Random::new(!seed) }
    }

    fn perform(&mut self, verb: Verb) -> Outcome<()> {
        let Self { map, keys, n, random } = self;
        let n = *n;
        match verb {
            Verb::Insert => {
                for key in (0..n).map(|i| keys.key(i)) {
                    map.insert(key, Keys::value(key))?;
                }
            }
            Verb::Get => {
                let keys = (0..n).map(|_| keys.key(random.below(n)));
                all(keys.filter(|&key| map.get(key) == Some(Keys::value(key))).count() as u64, n)?;
            }
            Verb::Update => {
                for key in (0..n).map(|_| keys.key(random.below(n))) {
                    map.update(key, Keys::value(key))?;
                }
            }
            Verb::Scan => all(map.scan(), n)?,
            Verb::Remove => {
                // In a different order from the inserts.
                for key in (0..n).rev().map(|i| keys.key(i)) {
                    map.remove(key)?;
                }
            }
        }
        Ok(())
    }
}

fn all(found: u64, n: u64) -> Outcome<()> {
    if found == n { Ok(()) } else { Err(format!("{found} of {n} keys were found with their values").into()) }
}

/// The measurements.
pub(super) struct Found {
    /// Nanoseconds per operation of the tree and of `BTreeMap`, for each verb and repeat.
    times: [Vec<[f64; 2]>; VERBS],
    /// What each verb of the tree asks of its medium.
    counts: [Counts; VERBS],
    keys: u64,
    /// What the pools of the timed trees survive.
    pub(super) domain: Domain,
    /// The figures of the journal of the last one, if it has one.
    pub(super) journal: Option<JournalStat>,
}

impl Found {
    pub(super) fn tree(&self, verb: Verb) -> Spread {
        Spread::of(self.times[verb as usize].iter().map(|[tree, _]| *tree))
    }

    pub(super) fn map(&self, verb: Verb) -> Spread {
        Spread::of(self.times[verb as usize].iter().map(|[_, map]| *map))
    }

    /// The tree's time divided by that of the map in the same repeat.
    pub(super) fn ratio(&self, verb: Verb) -> f64 {
        Spread::of(self.times[verb as usize].iter().map(|[tree, map]| tree / map)).median
    }

    pub(super) fn lines(&self, verb: Verb) -> f64 {
        self.counts[verb as usize].lines as f64 / self.keys as f64
    }

    pub(super) fn fences(&self, verb: Verb) -> f64 {
        self.counts[verb as usize].fences as f64 / self.keys as f64
    }
}

/// Passes over the keys: those on the tree whose operations are counted, and in each repeat those on two maps that are
/// timed.
pub(super) fn steps(repeats: u32) -> u64 {
    VERBS as u64 * (1 + 2 * u64::from(repeats))
}

/// Counts what each verb asks of a medium.
fn counted(plan: &Plan) -> Outcome<[Counts; VERBS]> {
    let pool = Pool::options().create_on(Counted::new(Dram::zeroed(worker::capacity(plan.keys))))?;
    let tree: PTree<OneLine, _> = pool.tree("bench")?;
    let mut trial = Trial::new(tree, plan.keys, plan.seed);
    let mut counts = [Counts::default(); VERBS];
    for verb in Verb::ALL {
        let before = pool.medium().counts();
        trial.perform(verb)?;
        counts[verb as usize] = pool.medium().counts() - before;
        plan.bar.inc(1);
    }
    Ok(counts)
}

/// Nanoseconds per operation of each verb.
fn timed(plan: &Plan, map: impl OrderedMap, repeat: u32) -> Outcome<[f64; VERBS]> {
    let mut trial = Trial::new(map, plan.keys, plan.seed.wrapping_add(repeat.into()));
    let mut times = [0.0; VERBS];
    for verb in Verb::ALL {
        let start = Instant::now();
        trial.perform(verb)?;
        times[verb as usize] = start.elapsed().as_nanos() as f64 / plan.keys as f64;
        plan.bar.inc(1);
    }
    Ok(times)
}

/// Counts first, and then measures the two maps in turns.
pub(super) fn measure(plan: &Plan) -> Outcome<Found> {
    let counts = counted(plan)?;
    let mut found =
        Found { times: Default::default(), counts, keys: plan.keys, domain: Domain::Process, journal: None };
    for repeat in 0..plan.repeat {
        let mut scratch = Scratch::new(plan.dir.as_deref())?;
        let options = Pool::options().capacity(worker::capacity(plan.keys));
        let pool = options.journal(plan.journal.unwrap_or(Journal::None)).open(scratch.pool("bench.pool"))?;
        found.domain = pool.durability();
        let tree: PTree = pool.tree("bench")?;
        let tree = timed(plan, tree, repeat)?;
        found.journal = pool.journal();
        let map = timed(plan, BTreeMap::new(), repeat)?;
        for verb in 0..VERBS {
            found.times[verb].push([tree[verb], map[verb]]);
        }
    }
    Ok(found)
}
