//! The histories of a campaign, on all threads.

use super::campaign::Campaign;
use super::explore::{Cut, Execution, Known};
use super::history::{History, Op};
use super::outcome::{Outcome, Violation};
use super::pending::Pending;
use super::record::Repeated;
use super::tree_type::{Checkable, TreeType};
use super::verify::{self, Run};
use crate::medium::Sim;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

impl Campaign {
    /// The kind of tree that the campaign is about.
    pub(super) fn tree_type<N: Checkable>(&self) -> TreeType {
        N::tree_type::<Repeated>(self.index, self.values, self.keys)
    }

    /// All short histories, or the [part](Campaign::part) of them that is asked for.
    pub fn exhaustive<N: Checkable>(&self, progress: impl Fn(usize, usize) + Sync) -> Outcome {
        let histories: Vec<History> = self.part.of(self.tree_type::<N>().histories()).collect();
        self.histories::<N>(&histories, progress)
    }

    /// `count` random histories of `len` operations; the last operation of each is cut. In every third of them, a
    /// process is killed before that.
    pub fn random<N: Checkable>(&self, count: usize, len: usize, progress: impl Fn(usize, usize) + Sync) -> Outcome {
        let of_seed = |seed: u64| {
            let mut history = self.tree_type::<N>().random(seed, len);
            if seed.is_multiple_of(3) && len > 1 {
                // Most operations have fewer events, and then it is killed while it closes the tree.
                history.0.insert(len / 2 + seed as usize % (len / 2), Op::Kill(seed / 3 % 24));
            }
            history
        };
        let histories: Vec<History> = (0..count as u64).map(|i| of_seed(self.seed.wrapping_add(i))).collect();
        self.histories::<N>(&histories, progress)
    }

    /// Runs these histories.
    pub fn histories<N: Checkable>(&self, histories: &[History], progress: impl Fn(usize, usize) + Sync) -> Outcome {
        self.all_of(self.tree_type::<N>(), histories, &progress)
    }

    pub(super) fn all_of(
        &self,
        tree_type: TreeType,
        histories: &[History],
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Outcome {
        let outcome = Mutex::new(Outcome::default());
        let start = Instant::now();
        self.each_of(histories, progress, |_, history| {
            if outcome.lock().violations.len() < self.violations && start.elapsed() < self.time {
                let one = self.one_of(tree_type, history);
                outcome.lock().merge(one);
            }
        });
        let mut outcome = outcome.into_inner();
        outcome.complete = outcome.histories == histories.len() as u64;
        outcome
    }

    /// Calls a function with every history and its number, on all threads.
    pub(super) fn each_of(
        &self,
        histories: &[History],
        progress: &(dyn Fn(usize, usize) + Sync),
        work: impl Fn(usize, &History) + Sync,
    ) {
        // Told under the lock, so that no thread tells less than another one has told.
        let (next, done) = (AtomicUsize::new(0), Mutex::new(0));
        let worker = || {
            while let i = next.fetch_add(1, Ordering::Relaxed)
                && let Some(history) = histories.get(i)
            {
                work(i, history);
                let mut done = done.lock();
                *done += 1;
                progress(*done, histories.len());
            }
        };
        std::thread::scope(|scope| (0..self.threads.max(1)).for_each(|_| drop(scope.spawn(worker))));
    }

    /// Runs one history: its last operation is cut at every point, unless it has [crashes](Op::Crash) of its own.
    pub fn history<N: Checkable>(&self, history: &History) -> Outcome {
        self.one_of(self.tree_type::<N>(), history)
    }

    pub(super) fn one_of(&self, tree_type: TreeType, history: &History) -> Outcome {
        let has = |wanted: fn(&Op) -> bool| history.0.iter().any(wanted);
        let (crashes, kills) = (has(|op| matches!(op, Op::Crash(_))), has(|op| matches!(op, Op::Kill(_))));
        let run = match (crashes, kills) {
            (true, true) => Err("a history has either crashes or kills".to_owned()),
            (true, false) => return self.row(tree_type, history),
            (false, _) => self.run(tree_type, history),
        };
        match run {
            Ok(run) => self.cut(tree_type, history, &run, &Known::default()),
            // The history fails without the bug, too.
            Err(_) if self.left_out.is_some() => Outcome::default(),
            Err(what) => {
                let (cuts, kept) = (Vec::new(), String::new());
                let violations = vec![Violation { history: history.to_string(), cuts, kept, what }];
                Outcome { histories: 1, complete: true, violations, ..Outcome::default() }
            }
        }
    }

    pub(super) fn run(&self, tree_type: TreeType, history: &History) -> Result<Run, String> {
        verify::run(tree_type, history, Sim::zeroed(verify::POOL).with_whole_pairs(self.whole_pairs))
    }

    /// Cuts the last operation of a history that was run before.
    pub(super) fn cut(&self, tree_type: TreeType, history: &History, run: &Run, known: &Known) -> Outcome {
        let mut outcome = Outcome { histories: 1, complete: true, ..Outcome::default() };
        let Run { trace, from, in_flight, returned } = run;
        let mut pending = Pending::new(vec![0; verify::POOL as usize / 8]);
        trace[..*from].iter().filter(|event| self.happens(event)).for_each(|event| pending.apply(event));
        let cut = Cut { campaign: self, tree_type, known, history, cuts: Vec::new(), depth: self.depth };
        let execution = Execution { trace, from: *from, in_flight, then: None, returned };
        cut.every_point(pending, &[], &execution, &mut outcome);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Model;

    #[test]
    fn progress_never_goes_back() {
        let campaign = Campaign { threads: 4, ..Campaign::new(Model::Tso) };
        let histories: Vec<History> = (0..100_000).map(|_| History(Vec::new())).collect();
        let told = Mutex::new(Vec::new());
        campaign.each_of(&histories, &|done, of| told.lock().push((done, of)), |_, _| ());
        assert!(told.into_inner().into_iter().eq((1..=100_000).map(|done| (done, 100_000))));
    }
}
