//! Pauses between the tries of a transaction.

use crate::random::Random;
use crate::sync::{sleep, spin_loop, thread_number, yield_now};
use std::time::Duration;

/// Pauses that grow, and differ from thread to thread.
pub(super) struct Backoff {
    tries: u32,
    /// Seeded by the first pause.
    random: Random,
}

impl Backoff {
    /// A thread spins for so many tries, then yields up to [`YIELDS`](Self::YIELDS), then sleeps.
    const SPINS: u32 = 6;
    const YIELDS: u32 = 24;
    const NAP: Duration = Duration::from_micros(50);

    pub(super) fn new() -> Self {
        Self { tries: 0, random: Random(0) }
    }

    /// How often it has waited.
    pub(super) fn tries(&self) -> u32 {
        self.tries
    }

    /// Waits for a while, longer each time.
    pub(super) fn wait(&mut self) {
        if self.tries == 0 {
            self.random = Random(thread_number());
        }
        self.tries += 1;
        let random = self.random.next();
        if self.tries > Self::YIELDS {
            sleep(Self::NAP * (1 + random as u32 % self.tries.min(20)));
        } else if self.tries > Self::SPINS || cfg!(bristlecone_loom) {
            yield_now();
        } else {
            (0..random % (16 << self.tries)).for_each(|_| spin_loop());
        }
    }
}
