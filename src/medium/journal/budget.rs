//! How much memory the private pages of the pools of this process may take.
//!
//! A pool that is given a budget of its own has that. All others share the budget of the process: an eighth of the
//! memory that it may use.

use crate::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The budget of each pool that is given none, in bytes: for tests, and for programs that cannot be changed.
const VARIABLE: &str = "BRISTLECONE_PRIVATE_MEMORY";

/// The budget that [`VARIABLE`] names.
pub(super) fn forced() -> Option<u64> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// The least that pools share, in bytes.
const LEAST: u64 = 4 << 20;
/// The least that a pool of its own has: a page.
const LEAST_OF_ITS_OWN: u64 = 4096;
/// A pool shares one in so many bytes of memory.
const PART: u64 = 8;

/// The pools that share the budget of the process.
static SHARED: Pools =
    Pools { limit: AtomicU64::new(u64::MAX), used: AtomicU64::new(0), pools: Mutex::new(Vec::new()) };

struct Pools {
    limit: AtomicU64,
    /// Bytes of all of them.
    used: AtomicU64,
    pools: Mutex<Vec<Weak<Taken>>>,
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
    /// The budget of this pool, if it is given one.
    own: Option<u64>,
    /// Pages cannot be given back, so nothing waits for that.
    is_void: AtomicU64,
}

impl Share {
    /// The share of a pool that is given a budget, or shares that of the process, which may use so many bytes of
    /// memory.
    pub(super) fn new(own: Option<u64>, memory: impl FnOnce() -> u64) -> Self {
        let taken = Arc::default();
        if own.is_none() {
            SHARED.limit.store((memory() / PART).max(LEAST), Ordering::Relaxed);
            let mut pools = SHARED.pools.lock();
            pools.retain(|taken| taken.strong_count() > 0);
            pools.push(Arc::downgrade(&taken));
        }
        Self { taken, own: own.map(|bytes| bytes.max(LEAST_OF_ITS_OWN)), is_void: AtomicU64::new(0) }
    }

    /// What wakes the job that makes checkpoints, from now on.
    pub(super) fn is_kept_by(&self, waker: Box<dyn Fn() + Send + Sync>) {
        let _ = self.taken.waker.set(waker);
    }

    /// Bytes that the pool, or all that share with it, may take.
    pub(super) fn limit(&self) -> u64 {
        match self.own {
            _ if self.is_void.load(Ordering::Relaxed) != 0 => u64::MAX,
            Some(bytes) => bytes,
            None => SHARED.limit.load(Ordering::Relaxed),
        }
    }

    /// Bytes that they take.
    pub(super) fn used(&self) -> u64 {
        if self.own.is_some() { self.bytes() } else { SHARED.used.load(Ordering::Relaxed) }
    }

    /// Bytes that this pool takes.
    pub(super) fn bytes(&self) -> u64 {
        self.taken.bytes.load(Ordering::Relaxed)
    }

    /// Says how many bytes the pool takes.
    pub(super) fn set(&self, bytes: u64) {
        let was_full = self.is_full();
        let before = self.taken.bytes.swap(bytes, Ordering::Relaxed);
        if self.own.is_none() {
            SHARED.used.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
            // Others are to give pages back, too, or may go on.
            if self.is_much() && bytes > before || was_full && !self.is_full() {
                SHARED.wake();
            }
        } else if self.is_much() && bytes > before {
            self.taken.wake();
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

    /// Whether the budget is used up.
    pub(super) fn is_full(&self) -> bool {
        self.used() >= self.limit()
    }

    /// Says that pages cannot be given back.
    pub(super) fn is_of_no_use(&self) {
        self.is_void.store(1, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_its_own_knows_how_full_its_budget_is() {
        let share = Share::new(Some(1 << 20), || unreachable!());
        let states = [0, 600 << 10, 900 << 10, 1 << 20].map(|bytes| {
            share.set(bytes);
            [share.is_half(), share.is_much(), share.is_full()]
        });
        assert_eq!(states, [[false; 3], [true, false, false], [true, true, false], [true; 3]]);
        share.is_of_no_use();
        assert!(!share.is_half());
        assert_eq!(Share::new(Some(1), || unreachable!()).limit(), LEAST_OF_ITS_OWN);
    }
}
