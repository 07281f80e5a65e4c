//! A pair of fences of unequal cost: [`light`] keeps the compiler from reordering, [`heavy`] makes all processors that
//! run threads of this process pass a full fence.
//!
//! Two threads that each store one word and then load the other's need a full fence between the two in both of them, or
//! both may miss what the other has stored. If one of the two is rare, it can pass the fence for both: then the
//! frequent one needs no instruction at all. Either its store comes before the fence that it is made to pass, and the
//! rare thread sees it; or its load comes after that fence, and sees the rare thread's store.

use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};
use std::time::Duration;

/// How long a thread pauses where the system has taken the call back.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether this system has the heavy fence. If not, both sides must pass a fence of their own.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    // A process must say once that it will use the call. A child that came by `fork` has said so, too.
    *AVAILABLE.get_or_init(|| !cfg!(miri) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

/// The side that is frequent.
#[inline(always)]
pub(crate) fn light() {
    compiler_fence(Ordering::SeqCst);
}

/// The side that is rare. Where [`is_available`] is false, a full fence of this thread alone.
#[cold]
pub(crate) fn heavy() {
    #[cfg(test)]
    PASSED.set(PASSED.get() + 1);
    fence(Ordering::SeqCst);
    if is_available() && membarrier(MembarrierCommand::PrivateExpedited).is_err() {
        // The process has forbidden itself the call since. No processor keeps a store to itself, or a load ahead of the
        // others, for nearly as long as this.
        std::thread::sleep(PAUSE);
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
thread_local!(static PASSED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

/// How many heavy fences this thread has passed.
#[cfg(test)]
pub(crate) fn passed() -> u64 {
    PASSED.get()
}
