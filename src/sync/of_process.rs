//! A value that each process has of its own.

use super::process::Process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that is made when a process first asks for it, and stays until the process ends.
///
/// A child that came by `fork` leaves its parent's alone, because a lock in it may never be free, and makes another
/// one.
pub(crate) struct OfProcess<T>(AtomicPtr<Owned<T>>);

struct Owned<T> {
    process: Process,
    value: T,
}

impl<T: Default + Send + Sync + 'static> OfProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value of this process.
    pub(crate) fn get(&'static self) -> &'static T {
        loop {
            let found = self.0.load(Ordering::Acquire);
            // SAFETY: it is null, or was leaked below.
            match unsafe { found.as_ref() } {
                Some(owned) if owned.process.is_this() => return &owned.value,
                _ => {}
            }
            let new = Box::into_raw(Box::new(Owned { process: Process::this(), value: T::default() }));
            if self.0.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn all_threads_find_the_same_one() {
        static NUMBER: OfProcess<AtomicPtr<u8>> = OfProcess::new();
        let barrier = Barrier::new(4);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        ptr::from_ref(NUMBER.get()).addr()
                    })
                })
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), ptr::from_ref(NUMBER.get()).addr());
            }
        });
    }
}
