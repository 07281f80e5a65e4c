//! Negative controls: with any one order, flush or fence left out, the checker must find a violation.

use super::campaign::Campaign;
use super::explore::Known;
use super::history::History;
use super::omission::{ControlKind, Omission};
use super::tree_type::{Checkable, TreeType};
use crate::medium::{Model, Step};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// One planted bug, and whether it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Control {
    /// What was left out.
    pub kind: ControlKind,
    /// The step from which it was left out.
    pub step: Step,
    /// The history that revealed it. `None` if none did: then it is not needed (as no order is under TSO), or not
    /// tested.
    pub caught_by: Option<String>,
}

impl Campaign {
    /// Plants every bug that leaves out all orders, flushes or fences of one [`Step`], one bug at a time.
    ///
    /// The steps are those that `histories` pass, or all short histories if none are given. With a `depth` of 1 or
    /// more, the steps that only recoveries pass are added, and recoveries are cut only for these. A history that fails
    /// without a bug reveals none. `progress` gets more to do when the steps that only recoveries pass are known.
    pub fn controls<N: Checkable>(
        &self,
        histories: &[History],
        progress: impl Fn(usize, usize) + Sync,
    ) -> Vec<Control> {
        let tree = self.tree_type::<N>();
        let all;
        let histories = if histories.is_empty() {
            all = tree.histories();
            &all
        } else {
            histories
        };
        let mut caught_by = self.planted_in_histories(tree, histories, &progress);
        if self.depth > 0 {
            let sound = Self { limit: 1, violations: usize::MAX, ..self.clone() };
            let mut passed = sound.all_of(tree, histories, &|_, _| ()).passed;
            passed.retain(|place| self.is_meant(*place) && !caught_by.contains_key(place));
            let rounds = 1 + passed.len();
            for (round, place) in (1..).zip(passed) {
                let faulty = Self { violations: 1, left_out: Some(place), ..self.clone() };
                let of = if self.is_harmless(place) { &[] } else { histories };
                let progress = |done, _| progress(round * histories.len() + done, rounds * histories.len());
                let mut violations = faulty.all_of(tree, of, &progress).violations;
                caught_by.insert(place, violations.pop().map(|violation| violation.history));
            }
        }
        let control =
            |(Omission { step, kind }, caught_by): (Omission, Option<String>)| Control { kind, step, caught_by };
        caught_by.into_iter().map(control).collect()
    }

    /// Plants bugs in what the histories themselves do. Recoveries are not cut, so they find the same with and without
    /// a bug: for each history, what was examined with one bug is known with the next.
    fn planted_in_histories(
        &self,
        tree: TreeType,
        histories: &[History],
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> BTreeMap<Omission, Option<String>> {
        // For each place, the first history that reveals the bug.
        let first: Mutex<BTreeMap<Omission, usize>> = Mutex::default();
        let start = Instant::now();
        self.each_of(histories, progress, |i, history| {
            let in_time = start.elapsed() < self.time;
            let Some(run) = in_time.then(|| self.run(tree, history).ok()).flatten() else { return };
            let mut known = Known::default();
            let passed: BTreeSet<Omission> = run.trace.iter().filter_map(Omission::of).collect();
            for place in passed.into_iter().filter(|&place| self.is_meant(place)) {
                let found = *first.lock().entry(place).or_insert(usize::MAX) <= i;
                if found || self.is_harmless(place) {
                    continue;
                }
                let faulty = Self { depth: 0, violations: 1, left_out: Some(place), ..self.clone() };
                if !faulty.cut(tree, history, &run, &known).violations.is_empty() {
                    first.lock().entry(place).and_modify(|first| *first = i.min(*first));
                    // The states that revealed this bug must be examined again with the next bug.
                    known = Known::default();
                }
            }
        });
        let first = first.into_inner().into_iter();
        first.map(|(place, i)| (place, histories.get(i).map(History::to_string))).collect()
    }

    pub(super) fn is_meant(&self, place: Omission) -> bool {
        self.steps.is_empty() || self.steps.contains(&place.step)
    }

    /// Under TSO stores are in order anyway, so the tree with the bug leaves no other states.
    fn is_harmless(&self, place: Omission) -> bool {
        self.model == Model::Tso && place.kind == ControlKind::Order
    }
}
