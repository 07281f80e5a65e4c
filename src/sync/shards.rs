//! Words that many threads write to without disturbing each other, because each thread writes to its own shard.
//!
//! The first threads that come own a shard each until they end: no other thread writes what only the owner may write.
//! The others are distributed over all shards.

use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::ptr::NonNull;
// As in `memory::rows`.
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The number of threads that can write without disturbing each other.
pub(crate) const SHARDS: usize = if cfg!(bristlecone_loom) { 2 } else { 16 };

// Two lines, because these CPUs fetch lines in pairs.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const _: () = assert!(align_of::<CachePadded<u8>>() == 128);

/// A value for each shard, made when a thread of that shard first asks for it: most have a few threads at most.
pub(crate) struct Sharded<T> {
    shards: [AtomicPtr<CachePadded<T>>; SHARDS],
}

impl<T: Default> Default for Sharded<T> {
    fn default() -> Self {
        let sharded = Self { shards: Default::default() };
        if cfg!(bristlecone_loom) {
            // In models, they are made before there are threads.
            (0..SHARDS).for_each(|shard| _ = sharded.get(shard));
        }
        sharded
    }
}

impl<T: Default> Sharded<T> {
    /// The value of a shard.
    #[inline(always)]
    pub(crate) fn get(&self, shard: usize) -> &T {
        let made = self.shards[shard].load(Ordering::Acquire);
        // SAFETY: it is null, or was published with its content, and lives as long as `self`.
        match unsafe { made.as_ref() } {
            Some(value) => value,
            None => self.make(shard),
        }
    }

    #[cold]
    #[inline(never)]
    fn make(&self, shard: usize) -> &T {
        let new = Box::into_raw(Box::<CachePadded<T>>::default());
        // Sequentially consistent, as what is done with the value may be: a thread that finds nothing here came before
        // all of that.
        let published =
            self.shards[shard].compare_exchange(std::ptr::null_mut(), new, Ordering::SeqCst, Ordering::SeqCst);
        let made = match published {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: it comes from a box, and nobody else has it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: it was published just now, or by another thread, and lives as long as `self`.
        unsafe { &*made }
    }

    /// The value of a shard, if it was made. Else it is as it begins.
    #[inline]
    pub(crate) fn made(&self, shard: usize) -> Option<&T> {
        let made = self.shards[shard].load(Ordering::SeqCst);
        // SAFETY: as in `get`.
        unsafe { made.as_ref() }.map(|value| &**value)
    }

    /// The values that were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..SHARDS).filter_map(|shard| self.made(shard))
    }

    /// Bytes of memory that the values take, with what it costs to align them.
    pub(crate) fn memory(&self) -> u64 {
        (self.iter().count() * (size_of::<CachePadded<T>>() + align_of::<CachePadded<T>>())) as u64
    }
}

impl<T> Drop for Sharded<T> {
    fn drop(&mut self) {
        for made in self.shards.iter_mut().filter_map(|shard| NonNull::new(*shard.get_mut())) {
            // SAFETY: it comes from a box, and nobody has it any more.
            drop(unsafe { Box::from_raw(made.as_ptr()) });
        }
    }
}

// SAFETY: it owns its values, as boxes do.
unsafe impl<T: Send> Send for Sharded<T> {}
// SAFETY: as for `Send`; threads that share it share its values, and each may make one that another one drops.
unsafe impl<T: Send + Sync> Sync for Sharded<T> {}

thread_local! {
    /// The shard of this thread; [`NONE`] until it asks.
    static SHARD: Cell<usize> = const { Cell::new(NONE) };
    /// The shard of this thread if the thread owns it, or else [`NONE`].
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

/// The shard that this thread owns if it owns one and has asked for its [`shard`] before, or else [`NONE`]: for a
/// caller that only compares it with something.
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

    #[test]
    fn each_shard_has_one_value_from_when_it_is_asked_for() {
        let sharded = Sharded::<AtomicUsize>::default();
        assert_eq!((sharded.iter().count(), sharded.memory()), (0, 0));
        let all = Barrier::new(2);
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for shard in 0..SHARDS / 2 {
                        all.wait();
                        sharded.get(shard).fetch_add(shard, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(sharded.iter().map(|value| value.load(Ordering::Relaxed)).eq((0..SHARDS / 2).map(|shard| 2 * shard)));
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
