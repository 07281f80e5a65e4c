//! Words that many threads write to without disturbing each other, because each thread writes to its own shard.
//!
//! The first threads that come own a shard each until they end: no other thread writes what only the owner may write. The
//! others are distributed over all shards.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of threads that can write without disturbing each other.
pub(crate) const SHARDS: usize = if cfg!(bristlecone_loom) { 2 } else { 16 };

/// A shard in a line of its own (in two lines, for CPUs that fetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Shard<T>(pub(crate) T);

thread_local! {
    /// The shard of this thread; [`NONE`] until it asks.
    static SHARD: Cell<usize> = const { Cell::new(NONE) };
    /// The same if this thread owns it, or else [`NONE`].
    static OWN: Cell<usize> = const { Cell::new(NONE) };
    /// Gives the shard of a thread back when the thread ends.
    static LEASE: Cell<Option<Lease>> = const { Cell::new(None) };
}

/// The number of no shard.
pub(crate) const NONE: usize = usize::MAX;

/// The shards that have no owner, as bits.
static FREE: AtomicUsize = AtomicUsize::new((1 << SHARDS) - 1);

/// A shard that this thread owns.
struct Lease(usize);

impl Drop for Lease {
    fn drop(&mut self) {
        // What else is dropped when the thread ends may still write to the shard.
        OWN.set(NONE);
        // Release: the next owner sees all that this one has written.
        FREE.fetch_or(1 << self.0, Ordering::Release);
    }
}

/// The shard of this thread.
#[inline]
pub(crate) fn shard() -> usize {
    let shard = SHARD.get();
    if shard < SHARDS { shard } else { new_shard() }
}

/// The shard that this thread owns, if it owns one and has asked for its [`shard`] before.
#[inline(always)]
pub(crate) fn own_shard() -> Option<usize> {
    let own = own_or_none();
    (own < SHARDS).then_some(own)
}

/// The same, or [`NONE`], for who only compares it with something.
#[inline(always)]
pub(crate) fn own_or_none() -> usize {
    OWN.get()
}

#[cold]
#[inline(never)]
fn new_shard() -> usize {
    static OTHERS: AtomicUsize = AtomicUsize::new(0);
    // To the system, all threads of a model are one thread.
    let owned = if cfg!(bristlecone_loom) { None } else { own() };
    let shard = owned.unwrap_or_else(|| OTHERS.fetch_add(1, Ordering::Relaxed) % SHARDS);
    OWN.set(owned.unwrap_or(NONE));
    SHARD.set(shard);
    shard
}

/// Takes a shard that has no owner. `None` if there is none, or if this thread is just ending.
fn own() -> Option<usize> {
    let lowest = |free: usize| (free != 0).then(|| free & (free - 1));
    // Acquire: this thread sees all that the owner before it has written.
    let free = FREE.fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest).ok()?;
    let lease = Lease(free.trailing_zeros() as usize);
    let shard = lease.0;
    // If this thread is just ending, the lease is dropped here.
    LEASE.try_with(|own| own.set(Some(lease))).ok().map(|()| shard)
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn no_shard_has_two_owners() {
        const THREADS: usize = 2 * SHARDS;
        for _ in 0..if cfg!(miri) { 2 } else { 50 } {
            let all = Barrier::new(THREADS);
            let shards: Vec<(usize, Option<usize>)> = thread::scope(|threads| {
                let each = || {
                    let both = (shard(), own_shard());
                    // None of them has ended before all have their shards.
                    all.wait();
                    assert_eq!((shard(), own_shard()), both);
                    both
                };
                let started: Vec<_> = (0..THREADS).map(|_| threads.spawn(each)).collect();
                started.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(shards.iter().all(|&(shard, own)| shard < SHARDS && own.is_none_or(|own| own == shard)));
            let mut owned: Vec<usize> = shards.iter().filter_map(|&(_, own)| own).collect();
            let owners = owned.len();
            owned.sort_unstable();
            owned.dedup();
            assert_eq!(owned.len(), owners);
        }
    }

    /// Something that asks for its shard when its thread ends, after the shard was given back or before.
    struct Last;

    impl Drop for Last {
        fn drop(&mut self) {
            assert!(shard() < SHARDS);
        }
    }

    thread_local!(static LAST: Cell<Option<Last>> = const { Cell::new(None) });

    #[test]
    fn a_thread_that_ends_still_has_a_shard() {
        for first in [false, true] {
            let last = || LAST.set(Some(Last));
            let thread = thread::spawn(move || {
                if first {
                    last();
                }
                shard();
                if !first {
                    last();
                }
            });
            thread.join().unwrap();
        }
    }
}
