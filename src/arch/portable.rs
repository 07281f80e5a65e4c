//! For every other CPU and system, and for the checkers: no write-back, standard fences, and pairs behind spin locks.

use super::flush::foreign;
use super::{Flush, LINE, PairWords};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence, fence as atomic_fence};
use crossbeam_utils::{Backoff, CachePadded};

/// No instruction is known to write a line back.
pub(super) fn available(_flush: Flush) -> bool {
    false
}

/// Never called, because no instruction is available.
///
/// # Safety
///
/// None is needed: it panics.
#[inline]
pub(super) unsafe fn flush_lines(flush: Flush, _start: *const u8, _len: usize) {
    foreign(flush)
}

/// The line size is unknown, so this is the one that the layouts are designed for.
pub(super) fn line_size() -> usize {
    LINE
}

/// Nothing was flushed, so there is nothing to wait for; this is the strongest order there is.
#[inline]
pub(super) fn fence() {
    atomic_fence(Ordering::SeqCst);
}

/// Orders earlier stores before later stores.
#[inline]
pub(super) fn order() {
    atomic_fence(Ordering::Release);
}

/// A barrier for the compiler only.
#[inline]
pub(super) fn compiler_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Does nothing: there is no portable prefetch.
///
/// # Safety
///
/// None is needed: it does nothing.
#[inline]
pub(super) unsafe fn prefetch(_at: *const u8) {}

/// Does nothing: there is no portable prefetch.
///
/// # Safety
///
/// None is needed: it does nothing.
#[inline]
pub(super) unsafe fn prefetch_to_store(_at: *const u8) {}

/// # Safety
///
/// That of [`super::load_pair`].
pub(super) unsafe fn load_pair(at: *const [u64; 2]) -> PairWords {
    // SAFETY: `at` is mapped, writable and aligned to 16 bytes, as the caller promises.
    let words = unsafe { words(at.cast_mut()) };
    let _held = PairLock::acquire(at);
    load(words)
}

/// # Safety
///
/// That of [`super::store_pair`].
pub(super) unsafe fn store_pair(at: *mut [u64; 2], pair: PairWords) {
    // SAFETY: `at` is mapped, writable and aligned to 16 bytes, as the caller promises.
    let words = unsafe { words(at) };
    let _held = PairLock::acquire(at);
    store(words, pair);
}

/// Returns the old value.
///
/// # Safety
///
/// That of [`super::cas_pair`].
pub(super) unsafe fn cas_pair(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords {
    // SAFETY: `at` is mapped, writable and aligned to 16 bytes, as the caller promises.
    let words = unsafe { words(at) };
    let _held = PairLock::acquire(at);
    let found = load(words);
    if found == current {
        store(words, new);
    }
    found
}

pub(super) fn pair_method() -> &'static str {
    "locks"
}

/// The two words at `at`, as atomics, so that other threads may load one of them meanwhile.
///
/// # Safety
///
/// `at` is mapped, writable and aligned to 16 bytes for as long as the result is used.
unsafe fn words<'a>(at: *mut [u64; 2]) -> [&'a AtomicU64; 2] {
    let low = at.cast::<u64>();
    let high = low.wrapping_add(1);
    // SAFETY: the first eight bytes are mapped and aligned, as the caller promises; all accesses to them are atomic.
    let low = unsafe { AtomicU64::from_ptr(low) };
    // SAFETY: as for `low`, for the second eight bytes.
    let high = unsafe { AtomicU64::from_ptr(high) };
    [low, high]
}

fn load([low, high]: [&AtomicU64; 2]) -> PairWords {
    PairWords { low: low.load(Ordering::Relaxed), high: high.load(Ordering::Relaxed) }
}

fn store([low, high]: [&AtomicU64; 2], pair: PairWords) {
    low.store(pair.low, Ordering::Relaxed);
    high.store(pair.high, Ordering::Relaxed);
}

/// One lock for all pairs whose addresses are equal modulo 1 KiB. That is less than a page, so two mappings of one file
/// agree on the lock.
static LOCKS: [CachePadded<AtomicBool>; 64] = [const { CachePadded::new(AtomicBool::new(false)) }; 64];

/// A lock that is held until it is dropped.
struct PairLock(&'static AtomicBool);

impl PairLock {
    fn acquire(at: *const [u64; 2]) -> Self {
        let lock = &LOCKS[at.addr() / 16 % LOCKS.len()];
        let backoff = Backoff::new();
        while lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // The holder may have been descheduled.
            backoff.snooze();
        }
        Self(lock)
    }
}

impl Drop for PairLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::stress;
    use super::*;

    #[test]
    fn locks_do_not_tear() {
        stress::does_not_tear(
            // SAFETY: `stress` gives its own aligned pair.
            |at| unsafe { load_pair(at) }.into(),
            // SAFETY: as above.
            |at, pair| unsafe { store_pair(at, pair.into()) },
        );
        // SAFETY: as above.
        stress::swaps_lose_nothing(|at, current, new| unsafe { cas_pair(at, current.into(), new.into()) }.into());
    }

    #[test]
    fn two_mappings_of_one_page_share_their_locks() {
        let lock = |addr: usize| PairLock::acquire(core::ptr::without_provenance(addr)).0.as_ptr();
        assert_eq!(lock(0x1230), lock(0x7_f230));
        assert_ne!(lock(0x1230), lock(0x1240));
    }
}
