//! What a model has in place of the shards and the windows of the process, which outlive it.

use crate::sync::AtomicU64;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most threads of a model.
const THREADS: usize = 3;

/// See the [module](self).
pub(super) struct StandIn {
    windows: Option<[AtomicU64; THREADS]>,
    numbers: AtomicUsize,
}

loom::thread_local!(static THREAD: Cell<usize> = Cell::new(usize::MAX));

impl StandIn {
    pub(super) fn new(is_biased: bool) -> Self {
        let windows = is_biased.then(|| std::array::from_fn(|_| AtomicU64::new(0)));
        Self { windows, numbers: Default::default() }
    }

    /// Whether this is a model of something else: a look at the owner would make each lock into several executions.
    pub(super) fn is_shared(&self) -> bool {
        self.windows.is_none()
    }

    pub(super) fn window(&self, thread: usize) -> &AtomicU64 {
        &self.windows.as_ref().expect("a bias that is not shared")[thread]
    }

    pub(super) fn thread(&self) -> Option<usize> {
        let new = || self.numbers.fetch_add(1, Ordering::Relaxed);
        let number = THREAD.with(|thread| {
            if thread.get() == usize::MAX {
                thread.set(new());
            }
            thread.get()
        });
        (number < THREADS).then_some(number)
    }
}
