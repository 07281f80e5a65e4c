//! The volatile companion of a block: version lock, owned range, and what its layout wants to know. Never stored, always
//! rebuildable.

use crate::delay::{Validation, delay, is_left_out};
use crate::memory::Zero;
use crate::node::Span;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, yield_now};

const LOCKED: u64 = 1;
/// The shadow's fields describe the node.
const READY: u64 = 2;
/// The block is in no chain any more.
const DEAD: u64 = 4;
/// The node began with a key beyond all of its left neighbour's: if it fills up in the same way, the keys ascend.
const APPENDED: u64 = 8;
const VERSION: u64 = 16;

/// The version lock, one word:
///
/// ```text
/// | version 60 | appended 1 | dead 1 | ready 1 | locked 1 |
/// ```
///
/// | from | to | by |
/// |---|---|---|
/// | unlocked, any | locked, the rest unchanged | `lock` |
/// | locked | unlocked: as it was before `lock`; or with the next version, ready (appended as before) or dead | `unlock` |
///
/// A reader notes the word when it is unlocked, reads, and accepts what it read if the word is still the same. A writer
/// unlocks only after its fence, so no reader returns what a crash could take back.
#[derive(Debug)]
pub(crate) struct VersionLock(AtomicU64);

/// What the lock word was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    /// The shadow's fields describe the node.
    pub(crate) fn is_ready(self) -> bool {
        self.0 & READY != 0
    }

    /// Ready, and nobody writes to it.
    #[inline]
    pub(crate) fn is_quiet(self) -> bool {
        self.0 & (READY | LOCKED) == READY
    }

    /// The block left its chain.
    pub(crate) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// The node was begun by a split for an ascending key.
    pub(crate) fn is_appended(self) -> bool {
        self.0 & APPENDED != 0
    }

    /// The same, of a node that is begun in this way: what its first writer unlocks it with.
    pub(crate) fn appended(self) -> Self {
        Self(self.0 | APPENDED)
    }
}

/// In what state a writer leaves a shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Its fields describe the node.
    Ready,
    /// The block left its chain.
    Dead,
    /// As it was.
    Unchanged,
}

/// Spins a little, then gives the processor away.
struct Backoff(u32);

impl Backoff {
    fn wait(&mut self) {
        self.0 += 1;
        if cfg!(loom) || self.0 > 64 {
            yield_now();
        } else {
            spin_loop();
        }
    }
}

impl VersionLock {
    /// The word as it is, locked or not.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Version {
        Version(self.0.load(Ordering::Acquire))
    }

    /// The version to read under; waits while a writer is at work.
    #[inline]
    pub(crate) fn begin(&self) -> Version {
        let word = self.0.load(Ordering::Acquire);
        delay();
        if word & LOCKED == 0 { Version(word) } else { self.begin_slowly() }
    }

    #[cold]
    fn begin_slowly(&self) -> Version {
        let mut backoff = Backoff(0);
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return Version(word);
            }
            backoff.wait();
        }
    }

    /// Whether everything read since `begin` belongs to one version.
    #[inline]
    #[must_use]
    pub(crate) fn is_still(&self, version: Version) -> bool {
        delay();
        // Pairs with the fence in `lock`: a load above that saw a writer's store makes the load below see its lock.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version.0 || is_left_out(Validation::Version)
    }

    /// Waits for the lock and takes it; tells what the word was.
    #[inline]
    pub(crate) fn lock(&self) -> Version {
        let mut backoff = Backoff(0);
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & LOCKED == 0 && self.try_lock(Version(word)) {
                return Version(word);
            }
            backoff.wait();
        }
    }

    /// Takes the lock if the word, which was not locked, is still the same.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_lock(&self, was: Version) -> bool {
        delay();
        let locked = self.0.compare_exchange_weak(was.0, was.0 | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if locked {
            // The lock is seen before any store that follows (see `is_still`).
            fence(Ordering::Release);
            delay();
        }
        locked
    }

    /// Releases the lock under a new version, if anything changed.
    #[inline]
    pub(crate) fn unlock(&self, was: Version, leave: Leave) {
        delay();
        let flags = match leave {
            Leave::Ready => READY | was.0 & APPENDED,
            Leave::Dead => DEAD,
            Leave::Unchanged => return self.0.store(was.0, Ordering::Release),
        };
        let version = (was.0 & !(VERSION - 1)).wrapping_add(VERSION);
        self.0.store(version | flags, Ordering::Release);
    }
}

/// A block's shadow: half a line, or a line, with what the layout adds. All zeros: nobody has looked at the block.
#[derive(Debug)]
#[cfg_attr(not(loom), repr(C, align(32)))]
pub(crate) struct Shadow<A> {
    pub(crate) lock: VersionLock,
    low: AtomicU64,
    width: AtomicU64,
    pub(crate) aid: A,
}

// SAFETY: atomics and, by its own promise, an aid: all of them may be zero.
unsafe impl<A: Zero> Zero for Shadow<A> {
    fn zero() -> Self {
        let word = || AtomicU64::new(0);
        Self { lock: VersionLock(word()), low: word(), width: word(), aid: A::zero() }
    }
}

impl<A> Shadow<A> {
    #[inline]
    pub(crate) fn span(&self) -> Span {
        Span::from_parts(self.low.load(Ordering::Relaxed), self.width.load(Ordering::Relaxed))
    }

    /// Under the lock only.
    pub(crate) fn set_span(&self, span: Span) {
        self.low.store(span.low(), Ordering::Relaxed);
        self.width.store(span.width(), Ordering::Relaxed);
    }
}
