//! The time of changes, and which changes are in flight.

use std::sync::atomic::{AtomicU64, Ordering};

/// Changes that may be in flight at the same time. More wait.
pub(super) const SLOTS: usize = 64;

/// Nobody is in the slot: no time is later.
const IDLE: u64 = u64::MAX;

/// Counts changes.
pub(super) struct Clock {
    now: AtomicU64,
    /// In each, a [`State`] as a word, or [`IDLE`].
    slots: [Slot; SLOTS],
}

/// What a change in a slot has said of itself.
#[derive(Debug, Clone, Copy)]
enum State {
    /// It is about to take a time after this one. It may have slept since the clock showed it, so by now another change
    /// may have taken the next time, in this very slot, and have returned. So this does not say that one is in flight.
    Entered(u64),
    /// It has taken the time after this one.
    InFlight(u64),
}

impl State {
    /// Ascends with the times.
    fn word(self) -> u64 {
        match self {
            Self::Entered(before) => before << 1,
            Self::InFlight(before) => before << 1 | 1,
        }
    }
}

/// A slot with lines of its own: each change stores to one.
#[repr(align(64))]
struct Slot(AtomicU64);

/// A change that has its time and is not published everywhere.
pub(super) struct InFlight<'c> {
    /// Later than all times that were taken before.
    pub(super) time: u64,
    /// From 1.
    pub(super) slot: usize,
    clock: &'c Clock,
}

impl Clock {
    /// A clock after the time `now`.
    pub(super) fn new(now: u64) -> Self {
        Self { now: AtomicU64::new(now), slots: [const { Slot(AtomicU64::new(IDLE)) }; SLOTS] }
    }

    /// The time of the last change that has one.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    /// Takes a time for a change. The caller holds the locks of all its leaves, so it waits for nobody from now on.
    ///
    /// The change enters its slot before it takes the time: a thread that then sees that time on the clock finds the
    /// change in its slot.
    pub(super) fn start(&self) -> InFlight<'_> {
        let slot = self.enter(self.now());
        let before = self.now.fetch_add(1, Ordering::SeqCst);
        self.slots[slot - 1].0.store(State::InFlight(before).word(), Ordering::Release);
        InFlight { time: before + 1, slot, clock: self }
    }

    /// Enters a slot that nobody is in, where this thread was last if possible.
    fn enter(&self, before: u64) -> usize {
        let home = crate::arena::home();
        let entered = State::Entered(before).word();
        let mut tries = (home..).map(|i| i % SLOTS);
        let free = tries.find(|&i| {
            let slot = &self.slots[i].0;
            slot.load(Ordering::Relaxed) == IDLE
                && slot.compare_exchange(IDLE, entered, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        });
        free.expect("there is always a next try") + 1
    }

    /// Waits until all changes up to a time that the clock has shown are published.
    pub(super) fn wait(&self, time: u64) {
        let later = State::Entered(time).word();
        for slot in &self.slots {
            let mut spins = 0;
            while slot.0.load(Ordering::SeqCst) < later {
                spins += 1;
                if spins % 64 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        }
    }

    /// Whether a change with this time is in flight, in this slot.
    pub(super) fn is_in_flight(&self, slot: usize, time: u64) -> bool {
        self.slots[slot - 1].0.load(Ordering::Acquire) == State::InFlight(time - 1).word()
    }
}

/// The change is published, or has not changed anything.
impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.clock.slots[self.slot - 1].0.store(IDLE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_enters_late_does_not_hide_what_has_returned() {
        let clock = Clock::new(9);
        let seen = clock.now();
        let returned = clock.start();
        let (slot, time) = (returned.slot, returned.time);
        assert!(clock.is_in_flight(slot, time));
        drop(returned);
        assert_eq!(clock.enter(seen), slot);
        assert!(!clock.is_in_flight(slot, time));
    }
}
