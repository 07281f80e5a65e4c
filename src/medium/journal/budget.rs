//! How much memory the private pages of the pools of this process may take.
//!
//! A pool that is given a budget of its own has that. All others share the budget of the process: what the environment
//! says, or an eighth of the memory that the process may use.

#[cfg(target_os = "linux")]
use crate::medium::limit;
use crate::sync::Mutex;
use crate::sync::of_process::OfProcess;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The budget of the process, in bytes.
const VARIABLE: &str = "BRISTLECONE_PRIVATE_MEMORY";

/// The budget that [`VARIABLE`] names.
fn forced() -> io::Result<Option<u64>> {
    let Some(said) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let bytes = said.to_str().and_then(|said| said.parse().ok());
    let wrong = || format!("{VARIABLE} is '{}', and must be a number of bytes", said.display());
    bytes.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, wrong()))
}

/// The budget of the process.
#[cfg(target_os = "linux")]
pub(super) fn of_process() -> io::Result<u64> {
    Ok(forced()?.map_or_else(|| (limit::memory() / PART).max(LEAST), |bytes| bytes.max(LEAST_OF_ITS_OWN)))
}

/// The least that pools share, in bytes, if nobody says otherwise.
const LEAST: u64 = 4 << 20;
/// The least that a pool of its own has: a page.
const LEAST_OF_ITS_OWN: u64 = 4096;
/// How long what was found of the process's memory is taken for true.
const AGAIN: Duration = Duration::from_secs(5);
/// A pool shares one in so many bytes of memory.
const PART: u64 = 8;

/// Those of this process.
static HERE: OfProcess<Pools> = OfProcess::new();

/// The pools of a process that share its budget.
struct Pools {
    limit: AtomicU64,
    /// When the memory was looked at that the process may use.
    looked: Mutex<Instant>,
    /// Bytes of all of them.
    used: AtomicU64,
    pools: Mutex<Vec<Weak<Taken>>>,
    /// How many there are.
    count: AtomicU64,
}

impl Default for Pools {
    fn default() -> Self {
        let (limit, used, count) = (AtomicU64::new(u64::MAX), AtomicU64::new(0), AtomicU64::new(0));
        Self { limit, looked: Mutex::new(Instant::now()), used, pools: Mutex::new(Vec::new()), count }
    }
}

impl Pools {
    fn wake(&self) {
        let pools: Vec<Arc<Taken>> = self.pools.lock().iter().filter_map(Weak::upgrade).collect();
        pools.iter().for_each(|taken| taken.wake());
    }
}

/// What a pool takes.
#[derive(Default)]
struct Taken {
    bytes: AtomicU64,
    /// Has the pool make a checkpoint, or give pages back.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Taken {
    fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }
}

/// What one pool takes, and may take.
pub(super) struct Share {
    taken: Arc<Taken>,
    of: Budget,
    /// Pages of the pool cannot be given back, so nothing waits for that, and it takes nothing of what others share.
    is_void: AtomicBool,
}

enum Budget {
    /// That of the pool alone.
    Own(u64),
    Shared(&'static Pools),
}

impl Share {
    /// The limit of a pool whose pages cannot be given back.
    pub(super) const NO_LIMIT: u64 = u64::MAX;

    /// The share of a pool that is given a budget, or shares that of the process, of so many bytes.
    pub(super) fn new(own: Option<u64>, of_process: u64) -> Self {
        let taken = Arc::default();
        let of = match own {
            Some(bytes) => Budget::Own(bytes.max(LEAST_OF_ITS_OWN)),
            None => {
                let shared = HERE.get();
                shared.limit.store(of_process, Ordering::Relaxed);
                shared.count.fetch_add(1, Ordering::Relaxed);
                let mut pools = shared.pools.lock();
                pools.retain(|taken| taken.strong_count() > 0);
                pools.push(Arc::downgrade(&taken));
                Budget::Shared(shared)
            }
        };
        Self { taken, of, is_void: AtomicBool::new(false) }
    }

    /// What wakes the job that makes checkpoints, from now on.
    pub(super) fn is_kept_by(&self, waker: Box<dyn Fn() + Send + Sync>) {
        let _ = self.taken.waker.set(waker);
    }

    /// Has the pool make a checkpoint, or give pages back.
    pub(super) fn wake(&self) {
        self.taken.wake();
    }

    /// Asks now and then what the budget of the process is: somebody may have changed how much memory it may use.
    #[cfg(target_os = "linux")]
    pub(super) fn look_again(&self) {
        if let Budget::Shared(pools) = &self.of
            && let Some(mut looked) = pools.looked.try_lock()
            && looked.elapsed() >= AGAIN
        {
            *looked = Instant::now();
            of_process().into_iter().for_each(|bytes| pools.limit.store(bytes, Ordering::Relaxed));
        }
    }

    /// Bytes that the pool, or all that share with it, may take.
    pub(super) fn limit(&self) -> u64 {
        match &self.of {
            _ if self.is_void.load(Ordering::Relaxed) => Self::NO_LIMIT,
            Budget::Own(bytes) => *bytes,
            Budget::Shared(pools) => pools.limit.load(Ordering::Relaxed),
        }
    }

    /// Bytes of that for this pool alone, if all that share it take as much.
    pub(super) fn part(&self) -> u64 {
        match &self.of {
            Budget::Own(bytes) => *bytes,
            Budget::Shared(pools) => self.limit() / pools.count.load(Ordering::Relaxed).max(1),
        }
    }

    /// Bytes that they take.
    pub(super) fn used(&self) -> u64 {
        match &self.of {
            Budget::Own(_) => self.bytes(),
            Budget::Shared(pools) => pools.used.load(Ordering::Relaxed),
        }
    }

    /// Bytes that this pool takes.
    pub(super) fn bytes(&self) -> u64 {
        self.taken.bytes.load(Ordering::Relaxed)
    }

    /// Says how many bytes the pool takes.
    pub(super) fn set(&self, bytes: u64) {
        let bytes = if self.is_void.load(Ordering::Relaxed) { 0 } else { bytes };
        let was_full = self.is_full();
        let before = self.taken.bytes.swap(bytes, Ordering::Relaxed);
        match &self.of {
            Budget::Own(_) if self.is_much() && bytes > before => self.wake(),
            Budget::Own(_) => {}
            Budget::Shared(pools) => {
                pools.used.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
                // Others are to give pages back, too, or may go on.
                if self.is_much() && bytes > before || was_full && !self.is_full() {
                    pools.wake();
                }
            }
        }
    }

    /// Whether so much is taken that pages should go.
    pub(super) fn is_much(&self) -> bool {
        self.used() > self.limit() / 4 * 3
    }

    /// Whether pages should go on going.
    pub(super) fn is_half(&self) -> bool {
        self.used() > self.limit() / 2
    }

    fn is_full(&self) -> bool {
        self.used() >= self.limit()
    }

    /// Whether changes of this pool should be slowed: the budget is used up, and not by others alone.
    pub(super) fn is_used_up(&self) -> bool {
        self.is_full() && self.bytes() >= self.part()
    }

    /// Says that pages of the pool cannot be given back.
    pub(super) fn is_of_no_use(&self) {
        self.is_void.store(true, Ordering::Relaxed);
        self.set(0);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
        if let Budget::Shared(pools) = &self.of {
            pools.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_its_own_knows_how_full_its_budget_is() {
        let share = Share::new(Some(1 << 20), 0);
        let states = [0, 600 << 10, 900 << 10, 1 << 20].map(|bytes| {
            share.set(bytes);
            [share.is_half(), share.is_much(), share.is_used_up()]
        });
        assert_eq!(states, [[false; 3], [true, false, false], [true, true, false], [true; 3]]);
        share.is_of_no_use();
        assert!(!share.is_half() && share.bytes() == 0);
        assert_eq!(Share::new(Some(1), 0).limit(), LEAST_OF_ITS_OWN);
    }

    #[test]
    fn a_pool_is_slowed_for_what_it_takes_itself() {
        static THESE: OfProcess<Pools> = OfProcess::new();
        let pools = THESE.get();
        pools.limit.store(8 << 20, Ordering::Relaxed);
        pools.count.store(2, Ordering::Relaxed);
        let of_these = || Share { taken: Arc::default(), of: Budget::Shared(pools), is_void: AtomicBool::new(false) };
        let (one, other) = (of_these(), of_these());
        one.set(16 << 20);
        other.set(4096);
        assert!(one.is_used_up() && !other.is_used_up() && other.is_much());
        one.is_of_no_use();
        assert!(!other.is_half() && !one.is_used_up());
    }
}
