//! The crash checker: every state that a crash may leave, opened, compared with a model, used, and crashed again.
//!
//! For each [`History`] the last operation is cut at every fence and at its return. Between two fences the states a crash
//! may leave only become more, so these points cover all others. At each point every combination of line contents that
//! the [`Model`] allows is tried, except for lines that recovery does not read.
//!
//! Every state is opened, which recovers it; its entries must be those of the model before or after the operation (after
//! it, once it has returned); all invariants must hold; more inserts and removals must work; and it must close and open
//! again. Recovery itself is cut in the same way, to the depth asked for. A crash point that leaves what another one left is
//! passed over, and a state that was there before is opened, but neither used nor cut again.
//!
//! # Examples
//!
//! ```
//! use bristlecone::crash::Campaign;
//! use bristlecone::medium::Model;
//! use bristlecone::{Circular, Volatile};
//!
//! let campaign = Campaign::new(Model::Weak);
//! let outcome = campaign.history::<Circular<4>>(&"i2=1 i4=2 i3=7".parse().unwrap());
//! assert!(outcome.violations.is_empty());
//! assert!(outcome.states > 10);
//! ```

#[cfg(all(test, not(loom)))]
mod cases;
mod controls;
mod history;
pub(crate) mod pending;
mod row;
mod subject;
mod verify;

pub use controls::{Control, Kind as ControlKind};
pub use history::{History, NoOp, Op};

use crate::medium::{Choice, Event, Line, Model, Sim};
use crate::node::{IndexKind, Node};
use controls::Place;
use parking_lot::Mutex;
use pending::Pending;
use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use subject::Kind;
use verify::{Allowed, Recovery, Run};

/// What the values of the tree under test are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Numbers, in the slots.
    Numbers,
    /// Byte strings, in records of all sizes.
    Records,
}

/// What is checked, and how far.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Campaign {
    /// The memory model.
    pub model: Model,
    /// The kind of index.
    pub index: IndexKind,
    /// What the values are.
    pub values: Values,
    /// Whether a crash leaves pairs whole ([`Medium::pairs_are_whole`](crate::medium::Medium::pairs_are_whole)).
    pub whole_pairs: bool,
    /// How often recovery is cut in turn: 0 not at all, 1 once, ...
    pub depth: u32,
    /// States per crash point beyond which the rest is sampled.
    pub limit: usize,
    /// Seed of what is sampled.
    pub seed: u64,
    /// Stop after so many violations.
    pub violations: usize,
    /// Stop after this time.
    pub time: Duration,
    /// Threads to use.
    pub threads: usize,
    /// Where [`controls`](Self::controls) plants bugs: in source files whose paths begin with one of these; in all if there
    /// are none.
    pub places: Vec<&'static str>,
    /// A planted bug: what is asked for here does not happen.
    left_out: Option<Place>,
}

/// What a campaign found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Histories run.
    pub histories: u64,
    /// Crash points that differ: fences and returns, those inside recovery included.
    pub points: u64,
    /// Crash states opened, and compared with the model.
    pub states: u64,
    /// Those of them that differ from each other, or in what may be found: each of these was used further, closed and opened
    /// again, and its recovery cut.
    pub distinct: u64,
    /// How many of `states` are crashes inside recovery.
    pub in_recovery: u64,
    /// Crash points at which only a sample was tried.
    pub sampled: u64,
    /// Whether all histories asked for were run: neither time nor violations put an end to it.
    pub complete: bool,
    /// What went wrong.
    pub violations: Vec<Violation>,
    /// What was passed on the way.
    passed: BTreeSet<Place>,
}

/// A crash state that was not recovered from as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// What was done; the last operation was cut.
    pub history: String,
    /// After how many events (stores, orders, flushes, fences) of the history, and then of each recovery.
    pub cuts: Vec<usize>,
    /// Which of its possible contents each line had: "offset:content/contents".
    pub kept: String,
    /// What was wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n  history: {}\n  cut after events: {:?}\n  lines kept: {}",
            self.what,
            if self.history.is_empty() { "(creation)" } else { &self.history },
            self.cuts,
            if self.kept.is_empty() { "(all durable)" } else { &self.kept }
        )
    }
}

impl Outcome {
    fn merge(&mut self, other: Self) {
        self.histories += other.histories;
        self.points += other.points;
        self.states += other.states;
        self.in_recovery += other.in_recovery;
        self.sampled += other.sampled;
        self.violations.extend(other.violations);
        self.distinct += other.distinct;
        self.passed.extend(other.passed);
    }
}

/// Where a crash happens: how the state came to be, for messages and for going on from it.
struct Cut<'a> {
    campaign: &'a Campaign,
    kind: Kind,
    known: &'a Known,
    history: &'a History,
    cuts: Vec<usize>,
    /// Recoveries that may still be cut.
    depth: u32,
}

/// What was looked at of a history. What a crash leaves, and what a recovery does, is a function of what is in the pool, so
/// it need not be looked at again.
#[derive(Default)]
struct Known {
    /// Crash points, with all that a crash may leave there.
    points: Looked,
    /// States that a crash left.
    states: Looked,
}

/// Hashes of what there is in the pool, and of what may be found; and how often recovery was cut.
#[derive(Default)]
struct Looked(RefCell<HashMap<(u64, u64), u32>>);

impl Looked {
    /// Whether this was not looked at so far, or recovery was cut less often.
    fn is_new(&self, pool: u64, allowed: u64, depth: u32) -> bool {
        match self.0.borrow_mut().entry((pool, allowed)) {
            Entry::Occupied(entry) if *entry.get() >= depth => false,
            entry => {
                entry.insert_entry(depth);
                true
            }
        }
    }
}

impl Campaign {
    /// A campaign without a planted bug, with recovery cut once, on all cores.
    pub fn new(model: Model) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            model,
            index: IndexKind::Volatile,
            values: Values::Numbers,
            whole_pairs: false,
            depth: 1,
            limit: 20_000,
            seed: 1,
            violations: 1,
            time: Duration::from_secs(3600),
            threads,
            places: Vec::new(),
            left_out: None,
        }
    }

    /// All short histories.
    pub fn exhaustive<N: Node>(&self, progress: impl Fn(usize, usize) + Sync) -> Outcome {
        self.histories::<N>(&history::all(N::SLOTS as u64), progress)
    }

    /// `count` random histories of `len` operations; the last operation of each is cut.
    pub fn random<N: Node>(&self, count: usize, len: usize, progress: impl Fn(usize, usize) + Sync) -> Outcome {
        let histories: Vec<History> =
            (0..count as u64).map(|i| history::random(self.seed.wrapping_add(i), len, N::SLOTS as u64)).collect();
        self.histories::<N>(&histories, progress)
    }

    /// These histories.
    pub fn histories<N: Node>(&self, histories: &[History], progress: impl Fn(usize, usize) + Sync) -> Outcome {
        self.all_of(Kind::of::<N>(self.index, self.values), histories, &progress)
    }

    fn all_of(&self, kind: Kind, histories: &[History], progress: &(dyn Fn(usize, usize) + Sync)) -> Outcome {
        let outcome = Mutex::new(Outcome::default());
        let start = Instant::now();
        self.each_of(histories, progress, |_, history| {
            if outcome.lock().violations.len() < self.violations && start.elapsed() < self.time {
                let one = self.one_of(kind, history);
                outcome.lock().merge(one);
            }
        });
        let mut outcome = outcome.into_inner();
        outcome.complete = outcome.histories == histories.len() as u64;
        outcome
    }

    /// Does this with every history and its number, on all threads.
    fn each_of(
        &self,
        histories: &[History],
        progress: &(dyn Fn(usize, usize) + Sync),
        work: impl Fn(usize, &History) + Sync,
    ) {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let worker = || {
            while let i = next.fetch_add(1, Ordering::Relaxed)
                && let Some(history) = histories.get(i)
            {
                work(i, history);
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, histories.len());
            }
        };
        std::thread::scope(|scope| (0..self.threads.max(1)).for_each(|_| drop(scope.spawn(worker))));
    }

    /// One history: its last operation is cut at every point, unless it has [crashes](Op::Crash) of its own.
    pub fn history<N: Node>(&self, history: &History) -> Outcome {
        self.one_of(Kind::of::<N>(self.index, self.values), history)
    }

    fn one_of(&self, kind: Kind, history: &History) -> Outcome {
        if history.0.iter().any(|op| matches!(op, Op::Crash(_))) {
            return self.row(kind, history);
        }
        match self.run(kind, history) {
            Ok(run) => self.cut(kind, history, &run, &Known::default()),
            // So it does without the bug.
            Err(_) if self.left_out.is_some() => Outcome::default(),
            Err(what) => {
                let (cuts, kept) = (Vec::new(), String::new());
                let violations = vec![Violation { history: history.to_string(), cuts, kept, what }];
                Outcome { histories: 1, complete: true, violations, ..Outcome::default() }
            }
        }
    }

    fn run(&self, kind: Kind, history: &History) -> Result<Run, String> {
        verify::run(kind, history, Sim::zeroed(verify::POOL).with_whole_pairs(self.whole_pairs))
    }

    /// Cuts the last operation of a history that was run.
    fn cut(&self, kind: Kind, history: &History, run: &Run, known: &Known) -> Outcome {
        let mut outcome = Outcome { histories: 1, complete: true, ..Outcome::default() };
        let Run { trace, from, in_flight, returned } = run;
        let mut pending = Pending::new(vec![0; verify::POOL as usize / 8]);
        trace[..*from].iter().filter(|event| self.happens(event)).for_each(|event| pending.apply(event));
        let cut = Cut { campaign: self, kind, known, history, cuts: Vec::new(), depth: self.depth };
        let execution = Execution { trace, from: *from, in_flight, then: None, returned };
        cut.every_point(pending, &[], &execution, &mut outcome);
        outcome
    }

    /// Whether the event is not the one that a planted bug leaves out.
    fn happens(&self, event: &Event) -> bool {
        self.left_out.is_none() || self.left_out != Place::of(event)
    }
}

/// Something that is to be cut: the last operation of a history, or a recovery.
struct Execution<'a> {
    trace: &'a [Event],
    /// Where in the trace it begins.
    from: usize,
    /// What may be found if it is cut.
    in_flight: &'a Allowed,
    /// An operation that follows: where in the trace it begins, and what may be found if it is cut.
    then: Option<(usize, &'a Allowed)>,
    /// What must be found after all of it.
    returned: &'a Allowed,
}

/// A line that an execution found undecided: what it took, when, and what it could have taken.
struct Decided {
    choice: Choice,
    before: Line,
    contents: Arc<[Line]>,
}

/// The next path in depth-first order; false if there is none.
fn next_path(path: &mut Vec<Choice>) -> bool {
    while let Some(last) = path.last_mut() {
        last.taken += 1;
        if last.taken < last.of {
            return true;
        }
        path.pop();
    }
    false
}

impl Cut<'_> {
    /// Explores the crash points of an execution.
    ///
    /// `pending` is what was durable, or not yet, when the trace began, with all of `decided` in place.
    fn every_point(&self, mut pending: Pending, decided: &[Decided], execution: &Execution<'_>, outcome: &mut Outcome) {
        let Execution { trace, from, in_flight, then: next, returned } = *execution;
        for (i, event) in trace.iter().enumerate().skip(from).filter(|(_, event)| self.campaign.happens(event)) {
            outcome.passed.extend(Place::of(event));
            if let Event::Fence(_) = event {
                // What was decided later is open again. Nothing was stored to those lines yet.
                let mut then = pending.clone();
                let mut open = Vec::new();
                for line in decided.iter().filter(|line| line.choice.when > i) {
                    then.set(line.choice.line, line.before);
                    open.push((line.choice.line, Arc::clone(&line.contents)));
                }
                let allowed = next.filter(|&(from, _)| i >= from).map_or(in_flight, |(_, allowed)| allowed);
                self.point(&then, open, i, allowed, outcome);
            }
            if outcome.violations.len() >= self.campaign.violations {
                return;
            }
            pending.apply(event);
        }
        self.point(&pending, Vec::new(), trace.len(), returned, outcome);
    }

    /// Explores the states of one crash point. `open` are lines that an earlier crash left undecided.
    fn point(
        &self,
        pending: &Pending,
        open: Vec<(u64, Arc<[Line]>)>,
        event: usize,
        allowed: &Allowed,
        outcome: &mut Outcome,
    ) {
        let mut options = pending.options(self.campaign.model);
        options.0.extend(open);
        let mut meaning = DefaultHasher::new();
        allowed.hash(&mut meaning);
        let meaning = meaning.finish();
        if !self.known.points.is_new(pending.hash_of(&options, &[]), meaning, self.depth) {
            return;
        }
        outcome.points += 1;
        let mut cuts = self.cuts.clone();
        cuts.push(event);
        let mut path: Vec<Choice> = Vec::new();
        let mut tried = 0;
        let mut seed = 0;
        loop {
            tried += 1;
            let sim =
                Sim::crashed(&pending.image, options.clone(), path, seed).with_whole_pairs(self.campaign.whole_pairs);
            outcome.states += 1;
            outcome.in_recovery += u64::from(!self.cuts.is_empty());
            let seed_of_rest = outcome.states;
            let is_known = |path: &[Choice]| {
                let new = self.known.states.is_new(pending.hash_of(&options, path), meaning, self.depth);
                outcome.distinct += u64::from(new);
                !new
            };
            let verified = verify::state(self.kind, &sim, allowed, seed_of_rest, self.depth > 0, is_known);
            path = sim.path();
            let decide = |&choice: &Choice| {
                let (_, contents) = options.0.iter().find(|(line, _)| *line == choice.line)?;
                Some(Decided { choice, before: pending.line(choice.line), contents: Arc::clone(contents) })
            };
            let mut decided: Vec<Decided> = path.iter().filter_map(decide).collect();
            let taken = |line: &Decided| (line.choice.line, line.contents[line.choice.taken]);
            decided.extend(sim.settled().iter().filter_map(decide));
            match verified {
                Err(what) => {
                    let kept: Vec<String> =
                        path.iter().map(|c| format!("{:#x}:{}/{}", c.line, c.taken, c.of)).collect();
                    let (history, cuts) = (self.history.to_string(), cuts.clone());
                    outcome.violations.push(Violation { history, cuts, kept: kept.join(" "), what });
                }
                Ok(Some(recovery)) if self.depth > 0 => {
                    let mut image = pending.after_crash();
                    decided.iter().map(taken).for_each(|(line, content)| image.set(line, content));
                    let deeper = Cut { cuts: cuts.clone(), depth: self.depth - 1, ..*self };
                    let Recovery { trace, then, returned } = &recovery;
                    let then = then.as_ref().map(|(from, allowed)| (*from, allowed));
                    let execution = Execution { trace, from: 0, in_flight: allowed, then, returned };
                    deeper.every_point(image, &decided, &execution, outcome);
                }
                Ok(_) => {}
            }
            if outcome.violations.len() >= self.campaign.violations {
                return;
            }
            if tried < self.campaign.limit {
                if !next_path(&mut path) {
                    return;
                }
            } else {
                // Too many: as many again at random.
                outcome.sampled += u64::from(tried == self.campaign.limit);
                if tried == 2 * self.campaign.limit {
                    return;
                }
                path.clear();
                seed = self.campaign.seed.wrapping_add(tried as u64) | 1;
            }
        }
    }
}
