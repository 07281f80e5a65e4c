//! Crashes in a row: after each crash, a history continues from one of the states that the crash may leave.
//!
//! The exhaustive checker tries every state of one crash. This checker tries one state of each of many crashes, so it
//! also covers what a crash leaves after it was used, and crashed, again.

use super::campaign::Campaign;
use super::history::{History, Missing, Op};
use super::outcome::{Outcome, Violation};
use super::pending::Pending;
use super::tree_type::TreeType;
use super::verify::{self, Entries, Failure, guarded, may_be_refused, of_pool, of_tree, options, same};
use crate::error::{Error, ErrorKind, Result};
use crate::medium::{LineOptions, Sim};
use crate::random::Random;

/// What a crash left, and what may be found in it.
struct Left {
    image: Vec<u64>,
    before: Entries,
    /// The operation in flight. `None`: exactly `before` is there.
    in_flight: Option<Op>,
    may_miss: Missing,
    /// The cut, and what the lines kept, for messages.
    cut: usize,
    kept: Vec<String>,
}

impl Left {
    fn allows(&self, found: &Entries) -> bool {
        match self.in_flight {
            None => *found == self.before,
            // Any part of the batch.
            Some(Op::Batch(n)) => {
                let is_of_batch = |key: u64| key % 4 == 3 && key / 4 < n;
                let others = |entries: &Entries| -> Entries {
                    entries.iter().filter(|&(&key, _)| !is_of_batch(key)).map(|(&k, &v)| (k, v)).collect()
                };
                let mut whole = self.before.clone();
                Op::Batch(n).apply(&mut whole);
                let entry = |key: &u64| found.get(key) == self.before.get(key) || found.get(key) == whole.get(key);
                others(found) == others(&self.before) && whole.keys().all(entry)
            }
            // Any part of what is cut.
            Some(Op::Cut(from, to)) => {
                let is_cut = |key: &u64| (from..=to).contains(key);
                let stays = |(key, value): (&u64, &u64)| found.get(key).map_or(is_cut(key), |found| found == value);
                self.before.iter().all(stays) && found.keys().all(|key| self.before.contains_key(key))
            }
            Some(op) => op.in_flight(&self.before).contains(found),
        }
    }
}

impl Campaign {
    /// Runs a history with crashes in it. Stops at the first wrong state.
    pub(super) fn row(&self, tree_type: TreeType, history: &History) -> Outcome {
        let mut outcome = Outcome { histories: 1, complete: true, ..Outcome::default() };
        let nothing = vec![0; verify::POOL as usize / 8];
        let (before, kept) = (Entries::new(), Vec::new());
        let mut left = Left { image: nothing, before, in_flight: None, may_miss: Missing::Pool, cut: 0, kept };
        let mut cuts = Vec::new();
        let mut rest = &history.0[..];
        loop {
            let crash = rest.iter().position(|op| matches!(op, Op::Crash(_)));
            let (ops, after) = rest.split_at(crash.unwrap_or(rest.len()));
            outcome.points += u64::from(crash.is_some());
            outcome.states += 1;
            match guarded(|| self.life(tree_type, &left, ops, after.first().copied())) {
                Ok(next) => left = next,
                Err(what) => {
                    let (history, kept) = (history.to_string(), left.kept.join(" "));
                    outcome.violations.push(Violation { history, cuts, kept, what });
                    return outcome;
                }
            }
            let Some((_, after)) = after.split_first() else { return outcome };
            cuts.push(left.cut);
            rest = after;
        }
    }

    /// Opens what a crash left, checks it, continues the history, and then crashes again, or closes and opens orderly.
    fn life(&self, tree_type: TreeType, left: &Left, ops: &[Op], crash: Option<Op>) -> Result<Left, Failure> {
        let sim = Sim::crashed(&left.image, LineOptions::default(), Vec::new(), 0).with_whole_pairs(self.whole_pairs);
        let mut pool = match options().open_on(sim.handle()) {
            Err(error) if may_be_refused(&error, left.may_miss) => options().create_on(sim.handle())?,
            other => other?,
        };
        if left.may_miss < Missing::Tree && pool.trees()?.is_empty() {
            return Err("the tree is gone".to_owned().into());
        }
        let mut tree = tree_type.open(&pool)?;
        let mut model: Entries = tree.entries()?.into_iter().collect();
        if !left.allows(&model) {
            let (before, op) = (&left.before, left.in_flight);
            let op = op.map_or_else(String::new, |op| format!(", or what '{op}' in flight may leave of it"));
            return Err(format!("found {model:?}, allowed is {before:?}{op}").into());
        }
        same("after recovery", &*tree, &model)?;
        // Until the first operation, a crash cuts recovery.
        let (mut from, mut before, mut in_flight) = (0, model.clone(), None);
        for &op in ops {
            from = sim.now();
            before.clone_from(&model);
            in_flight = Some(op);
            let Some(done) = of_tree(op, &*tree) else {
                drop(tree);
                pool = of_pool(op, pool, &sim)?;
                tree = tree_type.open(&pool)?;
                op.apply(&mut model);
                continue;
            };
            match done {
                Ok(()) => op.apply(&mut model),
                // Nothing is done, or only a part of a batch or of a range.
                Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => {
                    let found: Entries = tree.entries()?.into_iter().collect();
                    in_flight = in_flight.filter(|op| matches!(op, Op::Batch(_) | Op::Cut(..)));
                    let failed =
                        Left { before: before.clone(), in_flight, image: Vec::new(), kept: Vec::new(), ..*left };
                    if !failed.allows(&found) {
                        return Err(format!("'{op}' found no space, and left {found:?} of {before:?}").into());
                    }
                    model = found;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let Some(Op::Crash(seed)) = crash else {
            same("at the end", &*tree, &model)?;
            drop(tree);
            drop(pool);
            pool = options().open_on(sim.handle())?;
            tree = tree_type.open(&pool)?;
            same("after closing and opening", &*tree, &model)?;
            return Ok(Left {
                image: Vec::new(),
                before: model,
                in_flight: None,
                may_miss: Missing::Nothing,
                cut: 0,
                kept: Vec::new(),
            });
        };
        // Before the handles are dropped, which is not part of the history.
        let trace = sim.trace();
        let mut random = Random(seed ^ self.seed.rotate_left(32));
        let cut = from + choice(&mut random, trace.len() - from + 1);
        let mut pending = Pending::new(left.image.clone());
        trace[..cut].iter().filter(|event| self.happens(event)).for_each(|event| pending.apply(event));
        let (image, kept) = pending.crash(self.model, |limit| choice(&mut random, limit));
        // Without an operation, the one in flight is still the one that was cut before.
        let mut may_miss = in_flight.map_or(left.may_miss, Op::may_miss);
        if cut == trace.len() {
            (before, in_flight, may_miss) = (model, None, Missing::Nothing);
        }
        Ok(Left { image, before, in_flight, may_miss, cut, kept })
    }
}

/// A choice below `limit`: a crash is determined by its number.
fn choice(random: &mut Random, limit: usize) -> usize {
    (random.next() >> 16) as usize % limit
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::crash::history;
    use crate::crash::omission::Omission;
    use crate::medium::{Event, Model, Step};
    use crate::node::{Circular, IndexKind, Linear};
    use std::collections::BTreeSet;

    /// Random histories with a crash after every `every` operations.
    fn histories(count: u64, every: usize) -> Vec<History> {
        let of_seed = |seed| {
            let ops = history::random(seed, 40, 4).0;
            let crashed = |(i, part): (usize, &[Op])| [part, &[Op::Crash(seed + i as u64)]].concat();
            History(ops.chunks(every).enumerate().flat_map(crashed).collect())
        };
        (0..count).map(of_seed).collect()
    }

    fn campaign() -> Campaign {
        Campaign { threads: 1, ..Campaign::new(Model::Weak) }
    }

    #[test]
    fn crashes_in_a_row_lose_nothing() {
        for every in [1, 3, 7] {
            let histories = histories(30, every);
            let found =
                Campaign { index: IndexKind::Persistent, ..campaign() }.histories::<Circular<4>>(&histories, |_, _| ());
            assert_eq!(found.violations, []);
            assert!(found.points > 30 * 5);
        }
    }

    /// The negative control: with any flush of a node left out, a row of crashes reveals it.
    #[test]
    fn crashes_in_a_row_find_what_was_left_out() {
        let histories = histories(60, 2);
        let tree_type = campaign().tree_type::<Linear<4>>();
        let run = campaign().run(tree_type, &history::random(1, 40, 4)).unwrap();
        let of_nodes = ["Sorted layouts: shifting", "Changing a chain"];
        let steps = Step::ALL.iter().copied().filter(|step| of_nodes.contains(&step.protocol())).collect();
        let in_nodes = Campaign { steps, ..campaign() };
        let flushes = run.trace.iter().filter(|event| matches!(event, Event::Flush { .. }));
        let places: BTreeSet<Omission> =
            flushes.filter_map(Omission::of).filter(|&place| in_nodes.is_meant(place)).collect();
        assert!(places.len() > 2);
        for place in places {
            let faulty = Campaign { left_out: Some(place), ..campaign() };
            let found = faulty.histories::<Linear<4>>(&histories, |_, _| ());
            assert_eq!(found.violations.len(), 1, "{place:?} is not found");
        }
    }
}
