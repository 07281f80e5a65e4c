//! The mutex that serialises changes of the index and everything that takes nodes out of a chain.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, thread_number};

/// The mutex, which knows its holder: a search that must stop all changes of the chain may itself be part of one.
pub(super) struct Restructuring {
    mutex: Mutex<()>,
    /// The thread that holds the mutex; 0 means none.
    holder: AtomicU64,
}

/// Proof that this thread holds the mutex.
pub(super) struct RestructuringGuard<'r> {
    holder: &'r AtomicU64,
    _guard: MutexGuard<'r, ()>,
}

impl Restructuring {
    pub(super) fn new() -> Self {
        Self { mutex: Mutex::new(()), holder: AtomicU64::new(0) }
    }

    /// Waits for the mutex. This thread must not hold it, and must not have locked a leaf.
    pub(super) fn lock(&self) -> RestructuringGuard<'_> {
        self.held(self.mutex.lock())
    }

    /// Takes the mutex if nobody holds it.
    pub(super) fn try_lock(&self) -> Option<RestructuringGuard<'_>> {
        self.mutex.try_lock().map(|guard| self.held(guard))
    }

    /// Whether this thread holds the mutex.
    pub(super) fn is_mine(&self) -> bool {
        // Only this thread stores its own number, so any memory order will do.
        self.holder.load(Ordering::Relaxed) == thread_number()
    }

    fn held<'r>(&'r self, guard: MutexGuard<'r, ()>) -> RestructuringGuard<'r> {
        self.holder.store(thread_number(), Ordering::Relaxed);
        RestructuringGuard { holder: &self.holder, _guard: guard }
    }
}

impl Drop for RestructuringGuard<'_> {
    fn drop(&mut self) {
        self.holder.store(0, Ordering::Relaxed);
    }
}
