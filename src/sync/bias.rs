//! Which thread takes locks by a plain store.
//!
//! On many processors, a compare-and-swap waits until all earlier stores are done, and no later load begins before it.
//! Most trees have one writer at a time. So the locks of a chain are *biased*: one thread owns them, and takes each
//! with a load and a store. (To unlock is a plain store in any case.) Two words:
//!
//! ```text
//! owner, of each chain:    NOBODY -> thread -> MOVING -> thread -> ... -> MOVING -> SHARED
//! window, of each thread:  1 while it takes a lock as the owner
//! ```
//!
//! - **B1** While the owner is a thread, only this thread takes locks, each within its window: it stores 1 to the
//!   window, passes a light fence, finds that it is still the owner, and only then looks at the lock. It waits for
//!   nothing in there. Nobody else stores to the window: a thread that backs out late would close the window of the
//!   next owner.
//! - **B2** Another thread that wants a lock first moves the bias, under the mutex: it stores MOVING, passes a heavy
//!   fence, and waits until the window of the owner is 0. The owner has then either finished what it did, and its lock
//!   is visible; or it will find that it is not the owner any more. Then the thread itself becomes the owner.
//! - **B3** Threads that take turns too often share the locks: from then on all of them use compare-and-swap, as long
//!   as the chain is open. Nobody is the owner again, because a thread may be just about to compare and swap.
//!
//! A thread is known by the shard that it owns. When it ends, the next owner of the shard owns its chains, too, and has
//! seen all that it did. A thread without a shard is never an owner: it makes the locks shared.
//!
//! The bias says nothing about locks that are held: a thread keeps what it has locked when the bias moves on. Readers
//! do not know of it. It is volatile: nothing of it is stored, and a crash leaves nothing to repair.
//!
//! Where there is no heavy fence, all chains are shared.

#[cfg(all(test, bristlecone_loom))]
mod models;
#[cfg(bristlecone_loom)]
mod stand_in;
#[cfg(all(test, not(any(bristlecone_loom, miri))))]
mod tests;

use crate::sync::delay::{Validation, delay, is_left_out};
use crate::sync::shards::{NONE, shard};
#[cfg(not(bristlecone_loom))]
use crate::sync::shards::{SHARDS, own_or_none};
use crate::sync::{AtomicU64, Mutex, Ordering, asymmetric, sleep, yield_now};
use crossbeam_utils::CachePadded;
use std::time::{Duration, Instant};

// The owner word is the number of a thread, or one of these. None of them is `NONE`.
const NOBODY: u64 = u64::MAX - 1;
/// The bias is between two threads, or on its way to all of them.
const MOVING: u64 = u64::MAX - 2;
const SHARED: u64 = u64::MAX - 3;

/// How many moves may follow each other at once. After one more, the locks are shared.
const MOVES: u32 = if cfg!(bristlecone_loom) { 1 } else { 8 };
/// In this time, one more move may follow. It costs some microseconds.
const EACH: Duration = Duration::from_millis(20);

/// How often a thread yields its processor to one in its window, and how long it sleeps after that.
const YIELDS: u32 = 100;
const NAP: Duration = Duration::from_micros(50);

/// How a lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// By a load and a store: no other thread takes a lock meanwhile.
    Store,
    /// By compare-and-swap.
    Swap,
}

/// The bias of the locks of one chain. See the [module](self).
pub(crate) struct Bias {
    /// In a line of its own: as long as the locks are shared, all threads read it and nobody writes to it.
    owner: CachePadded<AtomicU64>,
    moves: Mutex<Moves>,
    #[cfg(bristlecone_loom)]
    stand_in: stand_in::StandIn,
}

/// How often the bias may still move.
struct Moves {
    left: u32,
    last: Option<Instant>,
}

impl Default for Bias {
    /// The bias of locks that no thread has taken yet.
    fn default() -> Self {
        if asymmetric::is_available() && !cfg!(bristlecone_loom) { Self::fresh() } else { Self::shared() }
    }
}

impl Bias {
    /// The bias of locks that all threads take by compare-and-swap.
    pub(crate) fn shared() -> Self {
        Self::new(SHARED)
    }

    /// The bias of locks that no thread has taken yet, where there is a heavy fence.
    pub(crate) fn fresh() -> Self {
        Self::new(NOBODY)
    }

    fn new(owner: u64) -> Self {
        Self {
            owner: CachePadded::new(AtomicU64::new(owner)),
            moves: Mutex::new(Moves { left: MOVES, last: None }),
            #[cfg(bristlecone_loom)]
            stand_in: stand_in::StandIn::new(owner != SHARED),
        }
    }

    /// The window of a thread that can be an owner.
    #[cfg(not(bristlecone_loom))]
    #[inline(always)]
    fn window(&self, thread: usize) -> &AtomicU64 {
        static WINDOWS: [CachePadded<AtomicU64>; SHARDS] = [const { CachePadded::new(AtomicU64::new(0)) }; SHARDS];
        // The remainder is the number itself, and spares the check.
        &WINDOWS[thread % SHARDS]
    }

    #[cfg(bristlecone_loom)]
    fn window(&self, thread: usize) -> &AtomicU64 {
        self.stand_in.window(thread)
    }

    /// The number of this thread; [`NONE`] if it cannot be an owner.
    #[cfg(not(bristlecone_loom))]
    #[inline(always)]
    fn thread(&self) -> usize {
        own_or_none()
    }

    #[cfg(bristlecone_loom)]
    fn thread(&self) -> usize {
        self.stand_in.thread().unwrap_or(NONE)
    }

    /// Takes a lock by `take`, or tries to. `take` looks at the lock itself, and waits for nothing.
    #[inline(always)]
    pub(crate) fn with<R>(&self, mut take: impl FnMut(Acquired) -> R) -> R {
        #[cfg(bristlecone_loom)]
        if self.stand_in.is_shared() {
            return take(Acquired::Swap);
        }
        let owner = &*self.owner;
        loop {
            // Acquire: what the last owner has locked is seen as locked (B2).
            let seen = owner.load(Ordering::Acquire);
            let thread = self.thread();
            if seen == thread as u64 {
                let window = self.window(thread);
                window.store(1, Ordering::Relaxed);
                asymmetric::light();
                delay();
                let taken = (owner.load(Ordering::Relaxed) == seen).then(|| take(Acquired::Store));
                window.store(0, Ordering::Release);
                if let Some(taken) = taken {
                    return taken;
                }
            } else if seen == SHARED {
                return take(Acquired::Swap);
            }
            self.take_over();
        }
    }

    /// Makes this thread the owner, or the locks shared.
    #[cold]
    #[inline(never)]
    fn take_over(&self) {
        let owner = &*self.owner;
        // From now on this thread knows whether it owns one.
        shard();
        // The thread that holds this mutex waits for nothing but a window.
        let mut moves = self.moves.lock();
        let next = match self.thread() {
            NONE => SHARED,
            thread => thread as u64,
        };
        match owner.load(Ordering::Relaxed) {
            NOBODY => owner.store(next, Ordering::Release),
            SHARED => {}
            last if last == next => {}
            last => {
                owner.store(MOVING, Ordering::Relaxed);
                if !is_left_out(Validation::Heavy) {
                    asymmetric::heavy();
                }
                let window = self.window(last as usize);
                // A thread in its window needs a processor to leave it. One of a higher priority does not yield that.
                let mut looks = 0;
                while window.load(Ordering::Acquire) != 0 {
                    looks += 1;
                    if looks < YIELDS { yield_now() } else { sleep(NAP) }
                }
                owner.store(if moves.are_too_many() { SHARED } else { next }, Ordering::Release);
            }
        }
    }
}

impl Moves {
    /// Notes a move. Returns whether it is one too many.
    fn are_too_many(&mut self) -> bool {
        let since = self.last.map_or(Duration::ZERO, |last| last.elapsed());
        // In a model, there is no time.
        if since >= EACH && !cfg!(bristlecone_loom) {
            let more = (since.as_nanos() / EACH.as_nanos()).min(MOVES.into()) as u32;
            self.left = (self.left + more).min(MOVES);
            self.last = None;
        }
        self.last.get_or_insert_with(Instant::now);
        let is_too_many = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_too_many
    }
}
