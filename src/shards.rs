//! Words that many threads write to without disturbing each other, because each thread writes to its own shard.

use std::cell::Cell;

/// The number of threads that can write without disturbing each other.
pub(crate) const SHARDS: usize = if cfg!(loom) { 2 } else { 16 };

/// A shard in a line of its own (in two lines, for CPUs that fetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Shard<T>(pub(crate) T);

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The shard of this thread.
#[inline]
pub(crate) fn shard() -> usize {
    let shard = SHARD.get();
    if shard < SHARDS { shard } else { new_shard() }
}

#[cold]
fn new_shard() -> usize {
    static THREADS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let shard = THREADS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % SHARDS;
    SHARD.set(shard);
    shard
}
