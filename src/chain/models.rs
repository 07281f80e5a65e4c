//! loom models of the order on which snapshots rely, with all that weak memory may do: a writer locks a leaf and then
//! looks for the newest snapshot; a snapshot is opened and then looks at the lock.

use crate::memory::Zero;
use crate::node::shadow::{Leave, Shadow};
use crate::pool::instants::Instants;
use crate::sync::bias::Bias;
use crate::sync::delay::{Validation, leave_out};
use crate::sync::{AtomicU64, Mutex, Ordering};
use loom::sync::Arc;
use loom::thread;

/// A leaf with one value.
struct Leaf {
    shadow: Shadow<()>,
    value: AtomicU64,
    stamp: AtomicU64,
    frozen: Mutex<u64>,
}

impl Leaf {
    fn new() -> Self {
        let leaf =
            Self { shadow: Shadow::zero(), value: AtomicU64::new(0), stamp: AtomicU64::new(0), frozen: Mutex::new(9) };
        let was = leaf.shadow.lock.lock(&Bias::shared());
        leaf.shadow.lock.unlock(was, Leave::Ready);
        leaf
    }

    fn freeze(&self, newest: u64) {
        if newest > self.stamp.load(Ordering::Relaxed) {
            *self.frozen.lock() = self.value.load(Ordering::Relaxed);
            self.stamp.store(newest, Ordering::Relaxed);
        }
    }

    fn read(&self, instant: u64) -> u64 {
        loop {
            let version = self.shadow.lock.optimistic_read();
            let (value, stamp) = (self.value.load(Ordering::Relaxed), self.stamp.load(Ordering::Relaxed));
            if self.shadow.lock.validate(version) {
                return if stamp < instant { value } else { *self.frozen.lock() };
            }
        }
    }
}

struct State {
    instants: Instants,
    bias: Bias,
    leaves: [Leaf; 2],
}

/// Runs a writer of both leaves against a snapshot of both.
fn against(bias: fn() -> Bias, write: fn(&State), left_out: Option<Validation>) {
    leave_out(left_out);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        let leaves = [Leaf::new(), Leaf::new()];
        let state = Arc::new(State { instants: Instants::new(u64::MAX), bias: bias(), leaves });
        let writing = Arc::clone(&state);
        let writer = thread::spawn(move || write(&writing));
        let (instant, _) = state.instants.open(std::iter::empty());
        let [one, other] = &state.leaves;
        let seen = (other.read(instant), one.read(instant));
        assert!([(0, 0), (0, 1), (1, 1)].contains(&seen), "found wrong: {seen:?}");
        assert_eq!((other.read(instant), one.read(instant)), seen, "found wrong");
        writer.join().unwrap();
    });
}

fn one_after_the_other(state: &State) {
    for leaf in &state.leaves {
        let was = leaf.shadow.lock.lock(&state.bias);
        leaf.freeze(state.instants.newest());
        leaf.value.store(1, Ordering::Relaxed);
        leaf.shadow.lock.unlock(was, Leave::Ready);
    }
}

fn together(state: &State) {
    let held = [&state.leaves[0], &state.leaves[1]].map(|leaf| (leaf, leaf.shadow.lock.lock(&state.bias)));
    let newest = state.instants.newest();
    for (leaf, was) in held {
        leaf.freeze(newest);
        leaf.value.store(1, Ordering::Relaxed);
        leaf.shadow.lock.unlock(was, Leave::Ready);
    }
}

#[test]
fn loom_chain_snapshot_against_changes() {
    against(Bias::shared, one_after_the_other, None);
}

#[test]
fn loom_chain_snapshot_against_a_change_of_two_leaves() {
    against(Bias::shared, together, None);
}

#[test]
#[should_panic = "found wrong"]
fn loom_chain_snapshot_and_a_writer_that_looks_in_no_order_is_found_wrong() {
    against(Bias::shared, one_after_the_other, Some(Validation::Newest));
}

#[test]
fn loom_chain_snapshot_against_changes_under_a_bias() {
    against(Bias::fresh, one_after_the_other, None);
}

#[test]
#[should_panic = "found wrong"]
fn loom_chain_snapshot_without_the_heavy_fence_is_found_wrong() {
    against(Bias::fresh, one_after_the_other, Some(Validation::Heavy));
}
