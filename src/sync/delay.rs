//! Delay points. In a build with `--cfg bristlecone_delays`, a [seeded](seed) thread sometimes waits where threads
//! race, so that a race that would happen once in a billion times happens once in a thousand. In any other build they
//! do nothing, and no [validation](Validation) is left out.
//!
//! Most points do nothing most of the time. For each seed, some of them are hot and delay threads often. A point that a
//! thread has seldom passed delays it more often than one that it passes all the time.

/// A check that readers rely on. A negative control of the linearizability checker leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    /// That a node's version is the one it was read under.
    Version = 1,
    /// That the leaf to which the index leads owns the key.
    Range = 2,
    /// That a leaf which a writer locked owns the key.
    Owner = 3,
    /// That a leaf that is posted to the index is still the one that a split made.
    Posted = 4,
    /// That a leaf which a writer locked is still in the chain.
    Dead = 5,
    /// That a leaf which is not yet in a chain is not read.
    Hidden = 6,
    /// That a tree is not opened while it is being closed.
    Settled = 7,
    /// That a leaf of byte strings does not lag.
    Lag = 8,
    /// That the index still names a leaf of byte strings for the keys for which it did.
    Still = 9,
    /// That what a transaction has read is still as it was, when it is committed.
    Reads = 10,
    /// That a leaf which changes is first frozen for the newest snapshot.
    Frozen = 11,
    /// That a change looks for the newest snapshot after it has locked its leaves, in the one order of all such
    /// accesses.
    Newest = 12,
    /// That what a transaction reads was the same at the instant at which all that it has read before was true.
    Moment = 13,
    /// That a thread which relies on the locks that another thread takes by plain stores passes the heavy fence for
    /// that thread.
    Heavy = 14,
}

#[cfg(not(any(bristlecone_delays, bristlecone_loom)))]
mod points {
    /// Does nothing.
    #[inline(always)]
    pub(crate) fn delay() {}

    /// Always false: no validation is left out.
    #[inline(always)]
    pub(crate) fn is_left_out(_: super::Validation) -> bool {
        false
    }
}

/// The models do not need delays.
#[cfg(bristlecone_loom)]
mod points {
    use super::Validation;
    use std::cell::Cell;

    thread_local! {
        /// The validation that is left out. To the system, all threads of a model are one thread, and each test has its
        /// own.
        static LEFT_OUT: Cell<Option<Validation>> = const { Cell::new(None) };
    }

    /// Does nothing.
    #[inline(always)]
    pub(crate) fn delay() {}

    /// Leaves out a validation, in all threads of the model.
    #[cfg(test)]
    pub(crate) fn leave_out(validation: Option<Validation>) {
        LEFT_OUT.set(validation);
    }

    /// Whether a validation is left out.
    pub(crate) fn is_left_out(validation: Validation) -> bool {
        LEFT_OUT.get() == Some(validation)
    }
}

#[cfg(all(bristlecone_delays, not(bristlecone_loom)))]
mod points {
    use super::Validation;
    pub(crate) use super::waits::pause as delay;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// The validation that is left out; 0 means none.
    static LEFT_OUT: AtomicU8 = AtomicU8::new(0);

    /// Leaves out a validation, in all threads.
    #[cfg(feature = "crash")]
    pub(crate) fn leave_out(validation: Option<Validation>) {
        LEFT_OUT.store(validation.map_or(0, |validation| validation as u8), Ordering::Relaxed);
    }

    /// Whether this validation is left out now. It is left out every other time, so that a loop that relies on it still
    /// ends.
    #[inline]
    pub(crate) fn is_left_out(validation: Validation) -> bool {
        LEFT_OUT.load(Ordering::Relaxed) == validation as u8 && super::waits::draw() & 1 != 0
    }
}

#[cfg(any(feature = "crash", all(bristlecone_delays, not(bristlecone_loom))))]
mod waits {
    use std::cell::Cell;
    use std::panic::Location;
    use std::thread;
    use std::time::Duration;

    /// One in this many points is hot.
    const HOT: u64 = 8;
    /// A point counts as seldom passed up to `SELDOM` passes, and as new up to `FIRST` passes.
    const SELDOM: u16 = 24;
    const FIRST: u16 = 4;
    /// Points are told apart by this many hashes.
    const PLACES: usize = 1024;

    thread_local! {
        /// Which points are hot, and the state of the thread's random numbers. The state is 0 for a thread that never
        /// waits.
        static THREAD: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
        /// How often the thread has passed each point, by the point's hash.
        static PASSED: [Cell<u16>; PLACES] = const { [const { Cell::new(0) }; PLACES] };
    }

    /// From now on, this thread sometimes waits: in its own way for each `thread`, at points that `round` chooses.
    #[cfg(feature = "crash")]
    pub(crate) fn seed(round: u64, thread: u64) {
        THREAD.set((mix(round), mix(round ^ thread.rotate_left(32)) | 1));
        PASSED.with(|passed| passed.iter().for_each(|of_place| of_place.set(0)));
    }

    /// Sometimes lets other threads go ahead here.
    #[inline]
    #[track_caller]
    pub(crate) fn pause() {
        let (round, random) = THREAD.get();
        if random != 0 {
            wait(round, Location::caller());
        }
    }

    /// This thread's next random number; 0 if it was not seeded.
    pub(super) fn draw() -> u64 {
        let (round, mut random) = THREAD.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        THREAD.set((round, random));
        random.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }

    fn wait(round: u64, site: &Location<'_>) {
        let chance = draw();
        let place = mix(u64::from(site.line()) << 32 ^ site.file().len() as u64);
        let passed = PASSED.with(|passed| {
            let of_place = &passed[place as usize % PLACES];
            of_place.set(of_place.get().saturating_add(1));
            of_place.get()
        });
        if passed > SELDOM && chance & 63 != 0 {
            return;
        }
        let is_hot = mix(round ^ place).is_multiple_of(HOT);
        let one_in = match (is_hot, passed) {
            (true, _) => 16,
            (false, ..=FIRST) => 64,
            (false, _) => 1024,
        };
        let amount = chance >> 16;
        match (chance >> 6) % one_in {
            0 if amount & 7 == 0 => thread::sleep(Duration::from_nanos(amount >> 4 & 0xf_ffff)),
            0..6 => thread::yield_now(),
            6..24 => (0..amount & 255).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    fn mix(word: u64) -> u64 {
        let word = (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (word ^ word >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

pub(crate) use points::*;
#[cfg(feature = "crash")]
pub(crate) use waits::{pause, seed};
