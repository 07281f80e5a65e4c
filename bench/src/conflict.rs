//! Threads whose transactions read and write the same keys, here and in other stores; and how often a transaction is
//! run again.
//!
//! Each transaction reads two counters and adds one to both. So the sum of all counters tells whether one was lost.

use crate::clock::{self, Spent, Tick, Times, Work};
use crate::entry::{KeyArg, Kind};
use crate::keys::{Chooser, Space};
use crate::media;
use crate::mix::Mix;
use crate::numbers::Random;
use crate::nv_store::{Commit, NvStore};
use crate::ordered_map::Fault;
use crate::out::{self, Outcome};
use crate::peers;
use crate::plan::{Contestant, Plan};
use crate::report;
use crate::scratch::Scratch;
use crate::turns::{self, ROUNDS};
use bristlecone::medium::Medium;
use bristlecone::{IndexKind, OneLine, PTree, Pool};
use serde_json::{Value, json};

/// How many times as long a store should take.
const GOAL: f64 = 2.0;

/// Counters that several threads add to.
pub(crate) trait Counters: Sync {
    /// Sets new counters to 0.
    fn create(&self, keys: &[u64]) -> Outcome<()>;

    /// Adds one to two of them, in one transaction; returns how often that was tried.
    fn add(&self, keys: [u64; 2]) -> Outcome<u64>;

    /// The sum of all.
    fn sum(&self) -> Outcome<u64>;
}

/// A counter plus one. One that is not there is noticed in the sum.
#[inline]
pub(crate) fn plus_one(counter: Option<u64>) -> u64 {
    counter.map_or(0, |counter| counter + 1)
}

/// Counters in a tree of this crate.
struct Ours {
    pool: Pool,
    tree: PTree<OneLine>,
}

impl Ours {
    fn new(pool: Pool, index: IndexKind) -> Outcome<Self> {
        let tree = pool.tree_with("bench", index)?;
        Ok(Self { pool, tree })
    }
}

impl Counters for Ours {
    fn create(&self, keys: &[u64]) -> Outcome<()> {
        keys.iter().try_for_each(|&key| self.tree.insert(key, 0).map(drop))?;
        Ok(())
    }

    fn add(&self, [first, second]: [u64; 2]) -> Outcome<u64> {
        let mut tries = 0;
        self.pool.transaction(|transaction| -> bristlecone::Result<()> {
            tries += 1;
            let found = [transaction.get(&self.tree, first)?, transaction.get(&self.tree, second)?];
            transaction.insert(&self.tree, first, plus_one(found[0]))?;
            transaction.insert(&self.tree, second, plus_one(found[1]))
        })?;
        Ok(tries)
    }

    fn sum(&self) -> Outcome<u64> {
        Ok(self.tree.iter().map(|(_, counter)| counter).sum())
    }
}

/// Bytes of a counter, and of its key, where these are byte strings.
const COUNTER: usize = 8;

/// Counters of byte strings. Both of a transaction are written, so those of others that it does not see are conflicts.
impl<M: Medium> Counters for NvStore<M> {
    fn create(&self, keys: &[u64]) -> Outcome<()> {
        keys.iter().try_for_each(|key| self.put(&key.to_be_bytes(), &[0; COUNTER]))
    }

    fn add(&self, keys: [u64; 2]) -> Outcome<u64> {
        let keys = keys.map(u64::to_be_bytes);
        let mut tries = 0;
        loop {
            tries += 1;
            let mut transaction = self.begin();
            for key in keys {
                let counter = plus_one(transaction.get(&key, of_bytes));
                transaction.put(&key, &counter.to_le_bytes());
            }
            if transaction.commit()? == Commit::Done {
                return Ok(tries);
            }
        }
    }

    fn sum(&self) -> Outcome<u64> {
        let mut sum = 0;
        self.begin().scan(&[], |_, counter| {
            sum += of_bytes(counter);
            true
        });
        Ok(sum)
    }
}

fn of_bytes(counter: &[u8]) -> u64 {
    counter.try_into().map_or(0, u64::from_le_bytes)
}

/// How often transactions were repeated: the number of those that were repeated 0 times, once, twice, ...
#[derive(Debug, Clone, Default)]
struct Retries(Vec<u64>);

impl Retries {
    #[inline]
    fn note(&mut self, retries: u64) {
        let retries = retries as usize;
        if retries >= self.0.len() {
            self.0.resize(retries + 1, 0);
        }
        self.0[retries] += 1;
    }

    fn append(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(all, more)| *all += more);
    }

    fn transactions(&self) -> u64 {
        self.0.iter().sum()
    }

    fn per_transaction(&self) -> f64 {
        let retries = self.0.iter().zip(0u64..).map(|(count, retries)| count * retries).sum::<u64>();
        retries as f64 / self.transactions() as f64
    }

    /// The most among all but the last thousandth.
    fn p999(&self) -> u64 {
        let mut left = self.transactions() - self.transactions() / 1000;
        let is_enough = |&count: &u64| {
            left = left.saturating_sub(count);
            left == 0
        };
        self.0.iter().position(is_enough).unwrap_or_default() as u64
    }

    fn max(&self) -> u64 {
        self.0.len().saturating_sub(1) as u64
    }
}

/// A thread that adds to counters.
// In lines of its own: threads that write to one line slow each other down.
#[repr(align(128))]
struct Adder {
    space: Space,
    chooser: Chooser,
    n: u64,
    retries: Retries,
    fault: Fault,
}

impl Adder {
    fn new(plan: &Plan, number: u32, additions: u64) -> Self {
        let random = Random::new(!plan.seed.wrapping_add(u64::from(number) << 32));
        Self {
            space: Space::new(plan.pattern, plan.seed),
            chooser: Chooser::new(plan.pattern, plan.n, 2 * additions, random),
            n: plan.n,
            retries: Retries::default(),
            fault: Fault::default(),
        }
    }

    /// Two keys that differ.
    #[inline]
    fn keys(&mut self) -> [u64; 2] {
        let mut number = || self.chooser.below(self.n);
        let first = number();
        let mut second = number();
        while second == first {
            second = number();
        }
        [first, second].map(|number| self.space.key(number))
    }

    fn work(&mut self, counters: &dyn Counters, additions: u64, tick: &mut Tick) {
        for _ in 0..additions {
            let keys = self.keys();
            if let Some(tries) = self.fault.note(counters.add(keys)) {
                self.retries.note(tries - 1);
            }
            tick.done(1);
        }
    }
}

/// A contestant, and what was measured of it.
struct Side {
    contestant: Contestant,
    counters: Box<dyn Counters>,
    adders: Vec<Adder>,
    times: Times,
    // Removed when nothing has it open.
    _scratch: Scratch,
}

impl Side {
    /// Whether a contestant has transactions that both read and write.
    fn is_one(contestant: Contestant) -> bool {
        match contestant {
            Contestant::Tree(_) => contestant.has_snapshots(),
            Contestant::Peer(peer) => peer.has_transactions(),
            Contestant::NvStore => true,
            Contestant::ByteMap | Contestant::BTreeMap => false,
        }
    }

    /// Each thread makes so many additions in all.
    fn new(plan: &Plan, contestant: Contestant, additions: u64) -> Outcome<Self> {
        let mut scratch = Scratch::new(plan.site.place.directory())?;
        let counters: Box<dyn Counters> = match contestant {
            Contestant::Tree(shape) => {
                let pool = media::pool(&plan.site, &mut scratch, media::capacity(plan.n, Kind::Words))?;
                Box::new(Ours::new(pool, shape.index.kind())?)
            }
            Contestant::NvStore => {
                let (path, capacity) =
                    (scratch.file("store"), media::capacity(plan.n, Kind::new(KeyArg::User, COUNTER)));
                Box::new(media::nv_store(&path, Some(capacity), plan.site.domain, NvStore::open)?)
            }
            Contestant::Peer(peer) => peers::counters(peer, &scratch.file("store"))?,
            other => return Err(format!("{} has no transactions", other.name()).into()),
        };
        let space = Space::new(plan.pattern, plan.seed);
        counters.create(&(0..plan.n).map(|i| space.key(i)).collect::<Vec<_>>())?;
        let adders = (0..plan.threads).map(|number| Adder::new(plan, number, additions)).collect();
        Ok(Self { contestant, counters, adders, times: Times::default(), _scratch: scratch })
    }

    /// One round, in which each thread makes so many additions.
    fn round(&mut self, batch: u64, additions: u64) -> Spent {
        let counters = &*self.counters;
        let work = |adder| -> Work<'_> {
            let adder: &mut Adder = adder;
            Box::new(move |tick| adder.work(counters, additions, tick))
        };
        clock::spend(batch, self.adders.iter_mut().map(work).collect())
    }

    fn retries(&self) -> Retries {
        let mut all = Retries::default();
        self.adders.iter().for_each(|adder| all.append(&adder.retries));
        all
    }

    /// The first error that occurred; an addition that was lost counts as one.
    fn check(&self) -> Outcome<()> {
        self.adders.iter().try_for_each(|adder| adder.fault.get())?;
        let (sum, added) = (self.counters.sum()?, 2 * self.retries().transactions());
        let name = self.contestant.name();
        if sum == added { Ok(()) } else { Err(format!("{name}: {sum} of {added} additions are there").into()) }
    }
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let additions = turns::part(plan.n / u64::from(plan.threads));
    let mut sides = Vec::new();
    for &contestant in plan.contestants.iter().filter(|contestant| Side::is_one(**contestant)) {
        let all = additions * ROUNDS * u64::from(plan.repeat);
        sides.push(Side::new(plan, contestant, all)?);
    }
    for _ in 0..plan.repeat {
        let spent = turns::take(sides.len(), |side, _| sides[side].round(plan.batch, additions));
        // No round differs from the others, as the number of keys stays the same.
        sides
            .iter_mut()
            .zip(spent)
            .for_each(|(side, rounds)| rounds.into_iter().for_each(|round| side.times.add(round)));
    }
    sides.iter().try_for_each(Side::check)?;
    if !plan.json {
        out::text(&format!(
            "Transactions that add one to each of two counters, of {} with {} keys, {}; {} of {ROUNDS} rounds in\n\
             turn, seed {}\n\
             (ns: per transaction, of all threads together, by the clock, the median round; x: how many times as long as the first;\n\
             retries per transaction: the mean, that of the 999th of 1000, and the most)\n\n\
             contestant                  transactions       ns     (least greatest)        x      mean    p99.9     most",
            out::count(plan.n),
            plan.pattern.name(),
            out::counted(plan.threads.into(), "thread", "threads"),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    let Some(first) = sides.first() else { return Ok(()) };
    sides.iter().try_for_each(|side| print(plan, side, &first.times))
}

fn print(plan: &Plan, side: &Side, first: &Times) -> Outcome<()> {
    let (run, retries) = (side.times.clone().summary().run, side.retries());
    // By the clock: it is throughput that counts, and a thread that waits for a lock takes no CPU time.
    let ratio = clock::ratio(&side.times.runs, &first.runs);
    let per_transaction = retries.per_transaction();
    if plan.json {
        let goal = matches!(side.contestant, Contestant::Peer(_)).then_some(GOAL);
        let mut row: Value = json!({
            "mix": Mix::Conflict.name(),
            "keys": plan.pattern.name(),
            "threads": plan.threads,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "transactions": retries.transactions(),
            "ns_per_op": report::ns(&side.times),
            "per_second": (1e9 / run.median).round(),
            "ratio_to_first": out::rounded(ratio, 4),
            "goal": goal,
            "retries": { "mean": out::rounded(per_transaction, 6), "p999": retries.p999(), "max": retries.max() },
        });
        plan.describe(side.contestant, &mut row);
        return Ok(out::json(&row)?);
    }
    Ok(out::text(&format!(
        "{:26}  {:12}  {:7.1} ({:8.1} {:8.1})  {ratio:7.2}  {per_transaction:8.5}  {:7}  {:7}",
        side.contestant.label(),
        retries.transactions(),
        run.median,
        run.min,
        run.max,
        retries.p999(),
        retries.max(),
    ))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_of_few_and_many() {
        let mut retries = Retries::default();
        assert_eq!((retries.p999(), retries.max()), (0, 0));
        (0..1998).for_each(|_| retries.note(0));
        retries.note(3);
        assert_eq!((retries.p999(), retries.max()), (0, 3));
        let mut more = Retries::default();
        more.note(1);
        retries.append(&more);
        assert_eq!((retries.p999(), retries.max(), retries.transactions()), (0, 3, 2000));
        assert_eq!(retries.per_transaction(), 0.002);
        more.append(&more.clone());
        retries.append(&more);
        assert_eq!(retries.p999(), 1);
    }
}
