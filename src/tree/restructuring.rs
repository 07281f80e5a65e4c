//! The mutex that serialises changes of the index and everything that takes nodes out of a chain.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, thread_number};

/// The mutex, which knows whose it is: a search that stops the changes of the chain may be part of one.
pub(super) struct Restructuring {
    mutex: Mutex<()>,
    /// The thread that holds it; 0: none.
    holder: AtomicU64,
}

/// Holds it.
pub(super) struct Held<'r> {
    holder: &'r AtomicU64,
    _guard: MutexGuard<'r, ()>,
}

impl Restructuring {
    pub(super) fn new() -> Self {
        Self { mutex: Mutex::new(()), holder: AtomicU64::new(0) }
    }

    /// Waits for it. Not while this thread holds it, or has locked a leaf.
    pub(super) fn lock(&self) -> Held<'_> {
        self.held(self.mutex.lock())
    }

    /// Takes it, if nobody holds it.
    pub(super) fn try_lock(&self) -> Option<Held<'_>> {
        self.mutex.try_lock().map(|guard| self.held(guard))
    }

    /// Whether this thread holds it.
    pub(super) fn is_mine(&self) -> bool {
        // Only this thread stores its number: any order will do.
        self.holder.load(Ordering::Relaxed) == thread_number()
    }

    fn held<'r>(&'r self, guard: MutexGuard<'r, ()>) -> Held<'r> {
        self.holder.store(thread_number(), Ordering::Relaxed);
        Held { holder: &self.holder, _guard: guard }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.holder.store(0, Ordering::Relaxed);
    }
}
