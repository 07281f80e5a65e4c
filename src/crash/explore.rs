//! Every state that a crash may leave, at every crash point of an execution.

use super::campaign::Campaign;
use super::history::History;
use super::omission::Omission;
use super::outcome::{Outcome, Violation};
use super::pending::Pending;
use super::tree_type::TreeType;
use super::verify::{self, Allowed, Recovery};
use crate::medium::{Choice, Event, Line, Sim};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Where a crash happens: how the state was reached, for messages and for continuing from it.
pub(super) struct Cut<'a> {
    pub(super) campaign: &'a Campaign,
    pub(super) tree_type: TreeType,
    pub(super) known: &'a Known,
    pub(super) history: &'a History,
    pub(super) cuts: Vec<usize>,
    /// How many recoveries may still be cut.
    pub(super) depth: u32,
}

/// What has been examined for a history. What a crash leaves and what a recovery does are functions of what is in the
/// pool, so the same content need not be examined again.
#[derive(Default)]
pub(super) struct Known {
    /// Crash points, by everything that a crash may leave there.
    points: Looked,
    /// States that a crash left.
    states: Looked,
}

/// Hashes of the content of the pool and of what may be found; and how often recovery was cut.
#[derive(Default)]
struct Looked(RefCell<HashMap<(u64, u64), u32>>);

impl Looked {
    /// Whether this was not examined before, or only with fewer cuts of recovery.
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

/// An execution that is cut: the last operation of a history, or a recovery.
pub(super) struct Execution<'a> {
    pub(super) trace: &'a [Event],
    /// Its first event in the trace.
    pub(super) from: usize,
    /// What may be found after a cut.
    pub(super) in_flight: &'a Allowed,
    /// An operation that follows: its first event in the trace, and what may be found after a cut.
    pub(super) then: Option<(usize, &'a Allowed)>,
    /// What must be found at the end.
    pub(super) returned: &'a Allowed,
}

/// A line that an execution found undecided: the content it took, when, and the contents it could have taken.
pub(super) struct Decided {
    choice: Choice,
    before: Line,
    contents: Arc<[Line]>,
}

/// The next path in depth-first order; false if there is none.
pub(crate) fn next_path(path: &mut Vec<Choice>) -> bool {
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
    /// `pending` is what was durable, or not yet durable, when the trace began, with all of `decided` in place.
    pub(super) fn every_point(
        &self,
        mut pending: Pending,
        decided: &[Decided],
        execution: &Execution<'_>,
        outcome: &mut Outcome,
    ) {
        let Execution { trace, from, in_flight, then: next, returned } = *execution;
        for (i, event) in trace.iter().enumerate().skip(from).filter(|(_, event)| self.campaign.happens(event)) {
            outcome.passed.extend(Omission::of(event));
            if let Event::Fence(_) = event {
                // Lines that were decided later are open again. Nothing was stored to them yet.
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

    /// Explores the states of one crash point. `open` are the lines that an earlier crash left undecided.
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
            let verified = verify::state(self.tree_type, &sim, allowed, seed_of_rest, self.depth > 0, is_known);
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
                // Too many states: as many more are tried at random.
                outcome.sampled += u64::from(tried == self.campaign.limit);
                if tried == 2 * self.campaign.limit {
                    return;
                }
                path.clear();
                seed = self.campaign.seed.wrapping_add(tried as u64).wrapping_mul(2) | 1;
            }
        }
    }
}
