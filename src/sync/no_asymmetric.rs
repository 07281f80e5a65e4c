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
    fence(Ordering::SeqCst);
}
