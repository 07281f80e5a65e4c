//! loom models of the bias, with all that weak memory may do: threads take two locks in turn, one by one, while the
//! bias moves from one to the other until the locks are shared.

use super::Bias;
use crate::memory::Zero;
use crate::node::shadow::{Leave, Shadow};
use crate::sync::delay::{Validation, leave_out};
use crate::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

struct State {
    bias: Bias,
    locks: [Shadow<()>; 2],
    /// Under the lock of the same number.
    sums: [AtomicU64; 2],
}

impl State {
    fn new() -> Self {
        let word = || AtomicU64::new(0);
        Self { bias: Bias::fresh(), locks: [Shadow::zero(), Shadow::zero()], sums: [word(), word()] }
    }

    /// Adds one, by a load and a store.
    fn add(&self, i: usize) {
        let was = self.locks[i].lock.lock(&self.bias);
        let sum = self.sums[i].load(Ordering::Relaxed);
        self.sums[i].store(sum + 1, Ordering::Relaxed);
        self.locks[i].lock.unlock(was, Leave::Ready);
    }

    /// Adds one, by a load and a store, if the lock is soon free. Returns how much it has added.
    fn try_add(&self, i: usize) -> u64 {
        let Some(was) = self.locks[i].lock.lock_soon(&self.bias) else { return 0 };
        let sum = self.sums[i].load(Ordering::Relaxed);
        self.sums[i].store(sum + 1, Ordering::Relaxed);
        self.locks[i].lock.unlock(was, Leave::Ready);
        1
    }
}

fn explored(preemptions: usize, left_out: Option<Validation>, model: impl Fn() + Sync + Send + 'static) {
    leave_out(left_out);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
    leave_out(None);
}

/// The second thread takes the locks over from the first one.
fn two_threads(left_out: Option<Validation>) {
    explored(3, left_out, || {
        let state = Arc::new(State::new());
        let first = Arc::clone(&state);
        let other = thread::spawn(move || first.add(0));
        state.add(0);
        other.join().unwrap();
        assert_eq!(state.sums[0].load(Ordering::Relaxed), 2, "found wrong");
    });
}

#[test]
fn loom_bias_of_two_threads() {
    two_threads(None);
}

#[test]
#[should_panic = "found wrong"]
fn loom_bias_without_the_heavy_fence_is_found_wrong() {
    two_threads(Some(Validation::Heavy));
}

/// The bias moves, moves on, and is gone: the locks are taken in both ways, one after the other.
#[test]
fn loom_bias_until_the_locks_are_shared() {
    explored(2, None, || {
        let state = Arc::new(State::new());
        let first = Arc::clone(&state);
        let other = thread::spawn(move || {
            first.add(0);
            first.add(1);
        });
        state.add(0);
        state.add(0);
        other.join().unwrap();
        state.add(1);
        assert_eq!(state.sums.each_ref().map(|sum| sum.load(Ordering::Relaxed)), [3, 2], "found wrong");
    });
}

/// A thread keeps what it has locked when the bias moves on.
#[test]
fn loom_bias_moves_while_a_lock_is_held() {
    explored(2, None, || {
        let state = Arc::new(State::new());
        let first = Arc::clone(&state);
        let other = thread::spawn(move || {
            let was = first.locks[0].lock.lock(&first.bias);
            let sum = first.sums[0].load(Ordering::Relaxed);
            first.add(1);
            first.sums[0].store(sum + 1, Ordering::Relaxed);
            first.locks[0].lock.unlock(was, Leave::Ready);
        });
        let added = state.try_add(0);
        state.add(1);
        other.join().unwrap();
        assert_eq!(state.sums.each_ref().map(|sum| sum.load(Ordering::Relaxed)), [1 + added, 2], "found wrong");
    });
}
