//! Where threads that wait for a lock word sleep: one queue for each address, outside of the words.
//!
//! A thread that unlocks does nothing for the sleepers, so unlocking stays a plain store. A thread that locks first
//! looks at one counter. If a thread has slept for the word for longer than a [slice](SLICE) of time, the locking
//! thread hands the lock that it has just taken over to the thread that has slept longest, and waits itself. So no
//! reader or writer starves, however often other threads lock. (The handover is not immediate, because waking a thread
//! costs as much as dozens of changes of a leaf.)
//!
//! If nobody locks the word again, the sleepers find that out by themselves: each sleep is limited to a time that is
//! never much longer than the thread has already waited.

use crossbeam_utils::CachePadded;
use parking_lot_core::{DEFAULT_PARK_TOKEN, ParkResult, UnparkToken, park, unpark_one};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long other threads may lock a word over and over while a thread sleeps for it.
const SLICE: Duration = Duration::from_micros(250);
/// The longest duration of the first sleep. Each sleep may last twice as long as the one before, up to [`LONGEST`]. A
/// thread that sleeps again has lost its place in the queue.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(4);
/// The number of groups into which words are hashed by address.
const GROUPS: usize = 64;

/// Tells a sleeper that it was handed the lock.
const HANDED_OVER: UnparkToken = UnparkToken(1);

/// The number of threads that sleep or are about to. In lines of its own: every thread that locks reads it, and nobody
/// writes to it as long as nobody waits long.
static SLEEPERS: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));

/// Words that share one clock.
struct ClockGroup {
    sleepers: AtomicU32,
    /// When the next sleeper is to be woken, in nanoseconds of [`now`].
    due: AtomicU64,
}

static WORDS: [ClockGroup; GROUPS] =
    [const { ClockGroup { sleepers: AtomicU32::new(0), due: AtomicU64::new(0) } }; GROUPS];

fn group(word: usize) -> &'static ClockGroup {
    &WORDS[(word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 32 & (GROUPS - 1)]
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Whether any thread sleeps for any word. A thread that is just about to sleep may be missed.
#[inline(always)]
pub(crate) fn anyone_sleeps() -> bool {
    SLEEPERS.load(Ordering::Relaxed) != 0
}

/// A thread that waits for a word.
#[derive(Default)]
pub(crate) struct Sleep {
    /// The number of times it has slept.
    times: u32,
}

impl Sleep {
    /// Sleeps for a while if the word at this address is locked. Returns true if the lock was handed over to this
    /// thread.
    #[cold]
    pub(crate) fn sleep(&mut self, word: usize, is_locked: impl FnOnce() -> bool) -> bool {
        let group = group(word);
        let longest = SHORTEST.saturating_mul(1 << self.times.min(16)).min(LONGEST);
        self.times += 1;
        if group.sleepers.fetch_add(1, Ordering::Relaxed) == 0 {
            group.due.store(now() + SLICE.as_nanos() as u64, Ordering::Relaxed);
        }
        SLEEPERS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the address is that of the caller's word, which nobody else uses as a key. The callbacks that run
        // under the queue's lock neither panic nor park.
        let result =
            unsafe { park(word, is_locked, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, Some(Instant::now() + longest)) };
        SLEEPERS.fetch_sub(1, Ordering::Relaxed);
        group.sleepers.fetch_sub(1, Ordering::Relaxed);
        result == ParkResult::Unparked(HANDED_OVER)
    }
}

/// If it is time, hands the lock of this word, which this thread holds, over to the thread that has slept longest for
/// it. Returns false if it did not.
pub(crate) fn hand_over(word: usize) -> bool {
    let group = group(word);
    if group.sleepers.load(Ordering::Relaxed) == 0 || now() < group.due.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: as in `sleep`.
    let woken = unsafe { unpark_one(word, |_| HANDED_OVER) }.unparked_threads > 0;
    if woken {
        // The next sleeper waits for a whole slice again. The clock is not reset if nobody slept for this word but for
        // another one of the group, because that one may be locked less often.
        group.due.store(now() + SLICE.as_nanos() as u64, Ordering::Relaxed);
    }
    woken
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// This holds however often other words of its group are locked for which nobody sleeps.
    #[test]
    fn who_sleeps_long_is_handed_the_lock() {
        let words: Vec<AtomicU32> = (0..1000).map(|_| AtomicU32::new(0)).collect();
        let address = |word: &AtomicU32| std::ptr::from_ref(word).addr();
        let wanted = address(&words[0]);
        let other = words[1..].iter().map(address).find(|&other| std::ptr::eq(group(other), group(wanted))).unwrap();
        let done = AtomicBool::new(false);
        let is_handed_over = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sleep = Sleep::default();
                while !sleep.sleep(wanted, || true) && !done.load(Ordering::Relaxed) {}
            });
            let group = group(wanted);
            let is_due = || group.sleepers.load(Ordering::Relaxed) > 0 && now() >= group.due.load(Ordering::Relaxed);
            let handed_over = || {
                while !is_due() {
                    std::thread::yield_now();
                }
                let handed_over = !hand_over(other) && hand_over(wanted);
                if !handed_over {
                    // The sleeper was awake, or still needs a processor to start sleeping.
                    std::thread::sleep(SLICE);
                }
                handed_over
            };
            let is_handed_over = (0..1000).any(|_| handed_over());
            done.store(true, Ordering::Relaxed);
            is_handed_over
        });
        assert!(is_handed_over);
    }
}
