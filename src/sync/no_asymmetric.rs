//! The pair of fences for systems that have no heavy one: see the file for Linux. Nobody may rely on the light one.

use std::sync::atomic::{Ordering, compiler_fence, fence};

pub(crate) fn is_available() -> bool {
    false
}

#[inline(always)]
pub(crate) fn light() {
    compiler_fence(Ordering::SeqCst);
}

pub(crate) fn heavy() {
    #[cfg(test)]
    PASSED.set(PASSED.get() + 1);
    fence(Ordering::SeqCst);
}

#[cfg(test)]
thread_local!(static PASSED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

/// How many heavy fences this thread has passed.
#[cfg(test)]
pub(crate) fn passed() -> u64 {
    PASSED.get()
}
