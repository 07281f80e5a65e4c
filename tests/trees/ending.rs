//! A flag that ends the threads of a scope.

use std::sync::atomic::{AtomicBool, Ordering};

/// Raises the flag when it is dropped. A scope waits for its threads, so a test that fails must end them, too.
pub(crate) struct Ending<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
