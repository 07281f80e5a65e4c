//! The clock of a round.

use crate::medium::Sim;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells when something happened; no two times are the same.
#[derive(Default)]
pub(super) struct Clock {
    next: AtomicU64,
    traced: Option<(Sim, Mutex<Vec<usize>>)>,
}

impl Clock {
    /// A clock that knows for each time how many events the trace of a medium had.
    pub(super) fn of(sim: Sim) -> Self {
        Self { next: AtomicU64::new(0), traced: Some((sim, Mutex::default())) }
    }

    /// A clock that begins after a time.
    pub(super) fn after(time: u64) -> Self {
        Self { next: AtomicU64::new(time + 1), traced: None }
    }

    pub(super) fn now(&self) -> u64 {
        match &self.traced {
            None => self.next.fetch_add(1, Ordering::SeqCst),
            Some((sim, positions)) => {
                let mut positions = positions.lock();
                positions.push(sim.now());
                positions.len() as u64 - 1
            }
        }
    }

    /// How many events the trace had at a time of this clock.
    pub(super) fn position(&self, time: u64) -> usize {
        self.traced.as_ref().map_or(0, |(_, positions)| positions.lock()[time as usize])
    }
}
