//! The volatile companion of a block: version lock, owned range, and the search hints of its layout. It is never
//! stored, and can always be rebuilt.

use crate::memory::Zero;
use crate::node::Keys;
use crate::sync::bias::{Acquired, Bias};
use crate::sync::delay::{Validation, delay, is_left_out};
use crate::sync::tally::Rare;
use crate::sync::version;
use crate::sync::{AtomicU64, Ordering, Sleep, anyone_sleeps, asymmetric, fence, hand_over, spin_loop};

const LOCKED: u64 = 1;
/// The shadow's fields describe the node.
const READY: u64 = 2;
/// The block is no longer in a chain.
const DEAD: u64 = 4;
/// The node began with a key beyond all keys of its left neighbour. If it fills up in the same way, the keys ascend.
const APPENDED: u64 = 8;
const VERSION: u64 = 16;
/// How often a thread looks for a lock for which it does not wait.
const SOON: usize = if cfg!(bristlecone_loom) { 1 } else { 256 };

/// The version lock, one word:
///
/// ```text
/// | version 60 | appended 1 | dead 1 | ready 1 | locked 1 |
/// ```
///
/// | from | to | by |
/// |---|---|---|
/// | unlocked, any | locked, the rest unchanged | `lock`, for this thread or for one that sleeps for it |
/// | locked | locked, with the next version, ready (appended as before) | `make_ready` |
/// | locked | unlocked: as before `lock`; or with the next version, ready (appended as before) or dead | `unlock` |
///
/// A reader notes the word while it is unlocked, reads, and accepts what it read if the word is still the same. A
/// writer unlocks only after its fence, so no reader returns what a crash could take back.
#[derive(Debug)]
pub(crate) struct VersionLock(AtomicU64);

/// The value of the lock word while it was unlocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    /// The shadow's fields describe the node.
    pub(crate) fn is_ready(self) -> bool {
        self.0 & READY != 0
    }

    /// The node is ready, and no thread writes to it.
    #[inline]
    pub(crate) fn is_quiet(self) -> bool {
        self.0 & (READY | LOCKED) == READY
    }

    /// The block left its chain.
    pub(crate) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// The node was created by a split for ascending keys.
    pub(crate) fn is_appended(self) -> bool {
        self.0 & APPENDED != 0
    }

    /// This version with the mark for a node that a split for ascending keys created: the value with which the node's
    /// first writer unlocks it.
    pub(crate) fn appended(self) -> Self {
        Self(self.0 | APPENDED)
    }

    /// The next version, with these flags.
    fn next(self, flags: u64) -> Self {
        Self((self.0 & !(VERSION - 1)).wrapping_add(VERSION) | flags)
    }
}

/// In what state a writer leaves a shadow. As long as a word: a shorter one would bring padding into locked nodes,
/// which is copied in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Leave {
    /// Its fields describe the node.
    Ready,
    /// The block left its chain.
    Dead,
    /// As it was.
    Unchanged,
}

/// Waiting for a lock. The thread spins, longer each time, for as long as some changes of a leaf take; then it sleeps.
#[derive(Default)]
struct Wait {
    spins: u32,
    sleep: Sleep,
}

impl Wait {
    /// At most this many pauses before the word is looked at again; and how often a thread spins.
    const PAUSES: u32 = 64;
    const SPINS: u32 = if cfg!(bristlecone_loom) { 0 } else { 12 };

    /// True if the lock was handed over to this thread.
    fn wait(&mut self, lock: &VersionLock) -> bool {
        if self.spins < Self::SPINS {
            self.spins += 1;
            (0..Self::PAUSES.min(1 << self.spins)).for_each(|_| spin_loop());
            return false;
        }
        self.sleep.sleep(lock.address(), || lock.0.load(Ordering::Relaxed) & LOCKED != 0)
    }
}

impl VersionLock {
    /// The word as it is, locked or not.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Version {
        Version(self.0.load(Ordering::Acquire))
    }

    /// The version under which to read; waits while the word is locked.
    #[inline]
    pub(crate) fn optimistic_read(&self) -> Version {
        let word = version::optimistic_read(&self.0);
        if word & LOCKED == 0 { Version(word) } else { self.read_in_the_end() }
    }

    #[cold]
    fn read_in_the_end(&self) -> Version {
        let mut wait = Wait::default();
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return Version(word);
            }
            if wait.wait(self) {
                let was = self.taken_over();
                self.unlock(was, Leave::Unchanged);
                return was;
            }
        }
    }

    /// Whether everything read since `optimistic_read` belongs to this version.
    #[inline]
    #[must_use]
    pub(crate) fn validate(&self, version: Version) -> bool {
        version::validate(&self.0, version.0) || is_left_out(Validation::Version)
    }

    /// Waits for the lock and takes it; returns what the word was. All locks of a chain have one bias.
    #[inline]
    pub(crate) fn lock(&self, bias: &Bias) -> Version {
        self.lock_fast(bias).unwrap_or_else(|| self.lock_slowly(bias, None))
    }

    /// Waits for the lock and takes it; returns what the word was. Counts in `waits` if it had to wait.
    #[inline]
    pub(crate) fn lock_counted(&self, bias: &Bias, waits: &Rare) -> Version {
        self.lock_fast(bias).unwrap_or_else(|| self.lock_slowly(bias, Some(waits)))
    }

    #[inline]
    fn lock_fast(&self, bias: &Bias) -> Option<Version> {
        self.take_if(bias, |was| was.0 & LOCKED == 0 && !anyone_sleeps())
    }

    #[cold]
    fn lock_slowly(&self, bias: &Bias, mut waits: Option<&Rare>) -> Version {
        let mut wait = Wait::default();
        loop {
            // A thread that has slept for the lock for too long comes first.
            if let Some(was) = self.take_if(bias, |was| was.0 & LOCKED == 0)
                && !hand_over(self.address())
            {
                return was;
            }
            waits.take().into_iter().for_each(Rare::add_one);
            if wait.wait(self) {
                return self.taken_over();
            }
        }
    }

    /// Takes the lock at once, if the word is ready and not locked, and no sleeping thread might come first.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self, bias: &Bias) -> Option<Version> {
        self.take_if(bias, |was| was.is_quiet() && !anyone_sleeps())
    }

    /// Takes the lock if it becomes free within the time that some changes of a leaf take. Never sleeps for it: the
    /// caller may hold a lock for which its holder waits.
    pub(crate) fn lock_soon(&self, bias: &Bias) -> Option<Version> {
        for _ in 0..SOON {
            if let Some(was) = self.take_if(bias, |was| was.0 & LOCKED == 0) {
                // A thread that has slept for the lock for too long comes first.
                return (!anyone_sleeps() || !hand_over(self.address())).then_some(was);
            }
            spin_loop();
        }
        None
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.0).addr()
    }

    /// The value of the word before another thread locked it for this one.
    fn taken_over(&self) -> Version {
        let word = self.0.load(Ordering::Acquire);
        // As in `try_lock`.
        fence(Ordering::SeqCst);
        version::announce();
        Version(word & !LOCKED)
    }

    /// Takes the lock if the word is still `was`, which is not locked.
    #[must_use]
    pub(crate) fn try_lock(&self, bias: &Bias, was: Version) -> bool {
        self.take_if(bias, |now| now == was).is_some()
    }

    /// Takes the lock if `allows` accepts the word, which must not be a locked one. Never takes a held lock; may fail
    /// spuriously.
    #[inline(always)]
    #[must_use]
    fn take_if(&self, bias: &Bias, allows: impl Fn(Version) -> bool) -> Option<Version> {
        delay();
        bias.with(|how| {
            let was = self.peek();
            if !allows(was) {
                return None;
            }
            // Goes with the writer's look at the newest snapshot (see `Chain::newest`), either way.
            let is_taken = match how {
                Acquired::Store => {
                    self.0.store(was.0 | LOCKED, Ordering::Relaxed);
                    asymmetric::light();
                    true
                }
                Acquired::Swap => {
                    let (old, new) = (was.0, was.0 | LOCKED);
                    self.0.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed).is_ok()
                }
            };
            version::announce();
            is_taken.then_some(was)
        })
    }

    /// Marks the block as a node; the caller holds the lock. Returns the value with which to unlock if nothing else
    /// changes.
    pub(crate) fn make_ready(&self, was: Version) -> Version {
        let ready = was.next(READY | was.0 & APPENDED);
        self.0.store(ready.0 | LOCKED, Ordering::Release);
        ready
    }

    /// Releases the lock, under a new version if anything changed.
    #[inline]
    pub(crate) fn unlock(&self, was: Version, leave: Leave) {
        delay();
        let word = match leave {
            Leave::Ready => was.next(READY | was.0 & APPENDED),
            Leave::Dead => was.next(DEAD),
            Leave::Unchanged => was,
        };
        self.0.store(word.0, Ordering::Release);
    }
}

/// A block's shadow: half a line, or a line, with the hints of the layout. All zeros: the block was not touched yet.
#[derive(Debug)]
#[cfg_attr(not(bristlecone_loom), repr(C, align(32)))]
pub(crate) struct Shadow<H> {
    pub(crate) lock: VersionLock,
    range: [AtomicU64; 2],
    pub(crate) hints: H,
}

// SAFETY: the type consists of numbers, for which zero bytes are the value 0, and of hints that are `Zero`.
unsafe impl<H: Zero> Zero for Shadow<H> {
    fn zero() -> Self {
        let word = || AtomicU64::new(0);
        Self { lock: VersionLock(word()), range: [word(), word()], hints: H::zero() }
    }
}

impl<H> Shadow<H> {
    #[inline]
    pub(crate) fn range<K: Keys>(&self) -> K::Range {
        let [one, other] = &self.range;
        K::range([one.load(Ordering::Relaxed), other.load(Ordering::Relaxed)])
    }

    /// Only under the lock.
    pub(crate) fn set_range<K: Keys>(&self, range: K::Range) {
        let ([one, other], words) = (&self.range, K::words(range));
        one.store(words[0], Ordering::Relaxed);
        other.store(words[1], Ordering::Relaxed);
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::time::{Duration, Instant};

    /// Returns how often one thread locks and unlocks, with nearly no time in between, until another thread gets
    /// through.
    fn waits(get_through: fn(&VersionLock, &Bias)) -> usize {
        let (lock, bias) = (VersionLock(AtomicU64::new(READY)), Bias::default());
        let (waits, through) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let mut was = lock.lock(&bias);
            threads.spawn(|| {
                waits.store(true, Ordering::Release);
                get_through(&lock, &bias);
                through.store(true, Ordering::Release);
            });
            while !waits.load(Ordering::Acquire) {
                spin_loop();
            }
            let mut times = 0;
            while !through.load(Ordering::Acquire) && times < 2000 {
                times += 1;
                let until = Instant::now() + Duration::from_micros(100);
                while Instant::now() < until {
                    spin_loop();
                }
                lock.unlock(was, Leave::Ready);
                was = lock.lock(&bias);
            }
            lock.unlock(was, Leave::Unchanged);
            times
        })
    }

    fn nobody_starves(get_through: fn(&VersionLock, &Bias)) {
        let mut times: Vec<usize> = (0..11).map(|_| waits(get_through)).collect();
        times.sort_unstable();
        // In some of the runs the processor may have been busy with something else.
        assert!(times[5] < 200, "{times:?}");
    }

    /// A number that is not atomic.
    struct Guarded(VersionLock, UnsafeCell<u64>, Bias);

    // SAFETY: the number is accessed under the lock, or by a planted bug.
    unsafe impl Sync for Guarded {}

    impl Guarded {
        fn add_one(&self) {
            // SAFETY: no other thread accesses the number: the caller holds the lock, or plants a race that must be
            // found.
            unsafe { *self.1.get() += 1 }
        }

        fn add_one_locked(&self) {
            let was = self.0.lock(&self.2);
            self.add_one();
            self.0.unlock(was, Leave::Ready);
        }
    }

    const TURNS: usize = 40;

    /// The sum after two threads add to a number in turns, one of them under the lock. The word that says whose turn it
    /// is orders nothing else. (Both threads exist until the end: ThreadSanitizer may forget what an ended thread did.)
    fn sum_of_two(other: fn(&Guarded)) -> u64 {
        let number = Guarded(VersionLock(AtomicU64::new(READY)), UnsafeCell::new(0), Bias::default());
        let turn = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for (first, add_one) in [(0, Guarded::add_one_locked as fn(&Guarded)), (1, other)] {
                let (number, turn) = (&number, &turn);
                threads.spawn(move || {
                    for mine in (first..TURNS).step_by(2) {
                        while turn.load(Ordering::Relaxed) != mine {
                            std::thread::yield_now();
                        }
                        add_one(number);
                        turn.store(mine + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        number.1.into_inner()
    }

    #[test]
    fn what_was_done_under_the_lock_is_seen_under_it() {
        assert_eq!(sum_of_two(Guarded::add_one_locked), TURNS as u64);
    }

    #[cfg(bristlecone_watched)]
    #[test]
    #[ignore = "a planted race, which `scripts/check tsan` and `miri` run"]
    fn planted_race_past_the_lock() {
        sum_of_two(Guarded::add_one);
    }

    #[test]
    fn a_waiting_writer_is_handed_the_lock() {
        nobody_starves(|lock, bias| {
            let was = lock.lock(bias);
            assert!(was.is_ready() && lock.peek().0 & LOCKED != 0);
            lock.unlock(was, Leave::Ready);
        });
    }

    #[test]
    fn a_waiting_reader_is_let_through() {
        nobody_starves(|lock, _| assert!(lock.optimistic_read().is_quiet()));
    }
}
