//! The linearizability checker: threads work on few keys, and the checker decides whether what they saw can be
//! explained by one operation after the other.
//!
//! Rounds are short: some threads do some hundred operations each on a tree of small leaves, and note when each one was
//! called and when it returned. Then the history of each key must be
//! [linearizable](https://doi.org/10.1145/78969.78972). A range, a batch and a `multi_get` count as one operation on
//! each of their keys, at any moment of the call. In rounds of few keys, the history of all keys together must be
//! linearizable, with `clear` and `bulk_load` as one operation each.
//!
//! The seed of a round determines what the round does, but not how its threads interleave. Built with `--cfg
//! bristlecone_delays`, threads are delayed where they race, at points that the seed chooses: a round that goes wrong
//! once goes wrong again within some hundred tries.
//!
//! # Examples
//!
//! ```no_run
//! use bristlecone::OneLine;
//! use bristlecone::lin::Campaign;
//!
//! let outcome = Campaign { rounds: 4, ..Campaign::default() }.run::<OneLine<7>>(&|_| ());
//! assert!(outcome.violations.is_empty(), "{}", outcome.violations[0]);
//! assert!(outcome.operations > 100);
//! ```

mod check;
mod clock;
mod durable;
mod explain;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod journaled;
mod op;
mod perform;
mod plan;
mod record;
mod round;
#[cfg(all(test, not(bristlecone_loom)))]
mod tests;

use crate::crash::tree_type::TreeType;
use crate::crash::{Checkable, KeyShape, Values};
use crate::medium::Step;
use crate::node::IndexKind;
use crate::sync::several::processors;
use parking_lot::Mutex;
use record::Signed;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The fences before a leaf is unlocked.
const OF_CHANGES: &[Step] = &[Step::Insert, Step::Update, Step::Remove];

/// What is checked, and for how long.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The name in messages.
    pub name: String,
    /// The kind of index.
    pub index: IndexKind,
    /// The kind of the values.
    pub values: Values,
    /// What the keys of a tree of byte strings look like.
    pub keys: KeyShape,
    /// Threads per round; 0: a different number in each round.
    pub threads: usize,
    /// The seed of the campaign.
    pub seed: u64,
    /// Whether `seed` is the seed of a single round, which is then repeated.
    pub repeat: bool,
    /// Stop after this many rounds.
    pub rounds: u64,
    /// Stop after this time.
    pub time: Duration,
    /// A round that takes longer than this is stuck: the process ends with a message.
    pub patience: Duration,
    /// How many rounds run in parallel.
    pub lanes: usize,
}

impl Default for Campaign {
    /// Trees of numbers, without a limit on rounds or time.
    fn default() -> Self {
        Self {
            name: "a tree".to_owned(),
            index: IndexKind::Volatile,
            values: Values::Numbers,
            keys: KeyShape::Bytes,
            threads: 0,
            seed: 1,
            repeat: false,
            rounds: u64::MAX,
            time: Duration::MAX,
            patience: Duration::from_secs(180),
            lanes: processors(),
        }
    }
}

/// What a campaign found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Rounds that were run.
    pub rounds: u64,
    /// Operations whose answers were checked.
    pub operations: u64,
    /// What went wrong; the campaign ends with the first round that goes wrong.
    pub violations: Vec<Violation>,
}

/// A round that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The seed of the round: with [`repeat`](Campaign::repeat) the round is run again and again.
    pub seed: u64,
    /// What was wrong: for a history, the smallest part that shows it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)
    }
}

/// A validation that a negative control leaves out.
#[cfg(bristlecone_delays)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Readers do not notice that a node was written to meanwhile.
    Version,
    /// Readers do not notice that the leaf to which the index leads does not own the key.
    Span,
    /// In trees of byte strings: nobody notices that the index may not know the leaf's right neighbour yet.
    Lag,
    /// In trees of byte strings: nobody asks the index a second time for which keys it names the leaf.
    Still,
    /// In transactions: nobody notices at the commit that what was read has changed.
    Reads,
    /// Leaves are not frozen for snapshots before they change.
    Frozen,
}

impl Campaign {
    /// Runs rounds until one goes wrong, or time is up. `progress` is called after each round with what was found so
    /// far.
    pub fn run<N: Checkable>(&self, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
        let tree_type = self.tree_type::<N>();
        self.rounds_of(progress, &|seed| round::run(tree_type, seed, self.threads))
    }

    /// As [`run`](Self::run) on a pool in a file with a [journal](crate::Journal), of whose private memory one page may
    /// be used, in the directory for temporary files.
    #[cfg(all(target_os = "linux", not(bristlecone_loom)))]
    pub fn journaled<N: Checkable>(&self, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
        let tree_type = self.tree_type::<N>();
        self.rounds_of(progress, &|seed| journaled::run(tree_type, seed, self.threads))
    }

    /// As [`run`](Self::run) on a [simulated medium](crate::medium::Sim) that is cut at random moments: what is found
    /// after recovery must be explained by the operations that had returned, and by any of those under way.
    pub fn durable<N: Checkable>(&self, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
        let tree_type = self.tree_type::<N>();
        self.rounds_of(progress, &|seed| durable::run(tree_type, seed, self.threads, &[]))
    }

    /// As [`durable`](Self::durable) with a planted bug: writers unlock before their writes are durable. A violation
    /// must be found.
    pub fn durable_control<N: Checkable>(&self, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
        let tree_type = self.tree_type::<N>();
        self.rounds_of(progress, &|seed| durable::run(tree_type, seed, self.threads, OF_CHANGES))
    }

    /// [`run`](Self::run) without one validation: a violation must be found.
    #[cfg(bristlecone_delays)]
    pub fn control<N: Checkable>(&self, control: Control, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
        crate::sync::delay::leave_out(Some(match control {
            Control::Version => crate::sync::delay::Validation::Version,
            Control::Span => crate::sync::delay::Validation::Range,
            Control::Lag => crate::sync::delay::Validation::Lag,
            Control::Still => crate::sync::delay::Validation::Still,
            Control::Reads => crate::sync::delay::Validation::Reads,
            Control::Frozen => crate::sync::delay::Validation::Frozen,
        }));
        let outcome = self.run::<N>(progress);
        crate::sync::delay::leave_out(None);
        outcome
    }

    fn tree_type<N: Checkable>(&self) -> TreeType {
        N::tree_type::<Signed>(self.index, self.values, self.keys)
    }

    fn rounds_of(
        &self,
        progress: &(dyn Fn(&Outcome) + Sync),
        round: &(dyn Fn(u64) -> Result<u64, String> + Sync),
    ) -> Outcome {
        let (outcome, next, ended) = (Mutex::new(Outcome::default()), AtomicU64::new(0), AtomicBool::new(false));
        let start = Instant::now();
        // The round of each lane, and when it began.
        let at_work: Vec<Mutex<Option<(u64, Instant)>>> = (0..self.lanes.max(1)).map(|_| Mutex::new(None)).collect();
        let lane = |at: &Mutex<Option<(u64, Instant)>>| {
            while !ended.load(Ordering::Relaxed) && start.elapsed() < self.time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.rounds {
                    break;
                }
                let seed = if self.repeat { self.seed } else { plan::random(self.seed, number).next() };
                *at.lock() = Some((seed, Instant::now()));
                let found = catch_unwind(AssertUnwindSafe(|| round(seed)));
                let found = found.unwrap_or_else(|_| Err("panic".to_owned()));
                *at.lock() = None;
                let mut outcome = outcome.lock();
                outcome.rounds += 1;
                match found {
                    Ok(operations) => outcome.operations += operations,
                    Err(what) => {
                        outcome.violations.push(Violation { seed, what });
                        ended.store(true, Ordering::Relaxed);
                    }
                }
                progress(&outcome);
            }
        };
        std::thread::scope(|scope| {
            let lanes: Vec<_> = at_work.iter().map(|at| scope.spawn(move || lane(at))).collect();
            while lanes.iter().any(|lane| !lane.is_finished()) {
                std::thread::park_timeout(Duration::from_millis(2));
                self.watch(&at_work);
            }
        });
        outcome.into_inner()
    }

    /// Ends the process if a round is stuck, because a stuck round cannot be ended from outside.
    fn watch(&self, at_work: &[Mutex<Option<(u64, Instant)>>]) {
        let stuck = at_work.iter().find_map(|at| at.lock().filter(|(_, since)| since.elapsed() > self.patience));
        if let Some((seed, _)) = stuck {
            eprintln!("{}: the round of seed {seed} does not end: a deadlock, or an endless loop", self.name);
            std::process::exit(1);
        }
    }
}
