//! What threads need of each other. In this file: atomics, fences, locks and spinning, either from std or from the
//! model checker loom. No other file chooses between them, but for models and for what costs the checker too much. In
//! the folder: what is built on them and knows nothing of pools.
//!
//! The checker is chosen by `--cfg bristlecone_loom`, and by the feature `loom`, which makes it a dependency.
//! `--cfg loom` belongs to the crates that use this one, and means nothing here.

#[cfg(all(bristlecone_loom, not(feature = "loom")))]
compile_error!("`--cfg bristlecone_loom` needs the feature `loom`");

#[cfg(not(bristlecone_loom))]
#[cfg_attr(not(target_os = "linux"), path = "sync/no_asymmetric.rs")]
pub(crate) mod asymmetric;
pub(crate) mod bias;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
pub(crate) mod crew;
pub(crate) mod delay;
pub(crate) mod histogram;
pub(crate) mod of_process;
#[cfg(not(bristlecone_loom))]
mod parking;
pub(crate) mod process;
pub(crate) mod several;
pub(crate) mod shards;
pub(crate) mod tally;
pub(crate) mod version;
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only Linux has journals; what they are made of is compiled everywhere")
)]
pub(crate) mod windows;

#[cfg(not(bristlecone_loom))]
mod imp {
    pub(crate) use super::parking::{Sleep, anyone_sleeps, hand_over};
    pub(crate) use core::hint::spin_loop;
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use crossbeam_utils::Backoff;
    pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};

    /// A condition variable that is used with the mutexes of this module.
    #[derive(Debug)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(parking_lot::Condvar::new())
        }

        pub(crate) fn wait<'m, T>(&self, mut guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A number that no other running thread has. It is not 0.
    pub(crate) fn thread_number() -> u64 {
        thread_local!(static HERE: u8 = const { 0 });
        HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
    }

    /// Yields the processor. Called by a spin that has gone on for long.
    pub(crate) fn yield_now() {
        std::thread::yield_now();
    }

    /// Sleeps, when yielding the processor did not help.
    pub(crate) fn sleep(time: std::time::Duration) {
        std::thread::sleep(time);
    }

    /// Goes between sequentially consistent accesses. Nothing is needed here: they already have one total order.
    #[inline(always)]
    pub(crate) fn sequentially_consistent() {}
}

#[cfg(bristlecone_loom)]
mod imp {
    /// Pointers change seldom, and the words around them order that: so a model does not branch at them.
    pub(crate) use core::sync::atomic::AtomicPtr;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{Ordering, fence};
    pub(crate) use loom::thread::yield_now;
    use std::cell::Cell;

    thread_local! {
        /// To the system, all threads of a model are one thread, and each test has its own.
        static SEQUENTIAL: Cell<bool> = const { Cell::new(false) };
    }

    /// From now on, each load of this thread's models sees the store that came last. Such a model has orders of
    /// magnitude fewer executions, since otherwise a load branches into as many executions as there are stores that it
    /// may see.
    ///
    /// A load is then a compare-exchange that fails, so loom also treats it as dependent on the loads before it. Of
    /// these, loom remembers only one for each word: with plain loads, it would forget a reader's load when a writer
    /// loads the word before it stores.
    #[cfg(test)]
    pub(crate) fn set_sequential(sequential: bool) {
        SEQUENTIAL.set(sequential);
    }

    /// A value that no number has. (If a flag has the value used here, the exchange keeps it.)
    const NEVER: u64 = 0x6c6f_6f6d_6c6f_6f6d;

    macro_rules! atomics {
        ($($atomic:ident: $number:ty, $never:expr, $($fetch:ident)*;)*) => {
            $(
                #[derive(Debug, Default)]
                #[allow(unreachable_pub, reason = "layouts, whose trait is public, name it")]
                pub struct $atomic(loom::sync::atomic::$atomic);

                #[allow(dead_code, reason = "each has what the others have")]
                impl $atomic {
                    pub(crate) fn new(value: $number) -> Self {
                        Self(loom::sync::atomic::$atomic::new(value))
                    }

                    pub(crate) fn load(&self, ordering: Ordering) -> $number {
                        if !SEQUENTIAL.get() {
                            return self.0.load(ordering);
                        }
                        let (Ok(value) | Err(value)) = self.0.compare_exchange($never, $never, ordering, ordering);
                        value
                    }

                    pub(crate) fn store(&self, value: $number, ordering: Ordering) {
                        self.0.store(value, ordering);
                    }

                    pub(crate) fn swap(&self, value: $number, ordering: Ordering) -> $number {
                        self.0.swap(value, ordering)
                    }

                    pub(crate) fn compare_exchange(
                        &self,
                        current: $number,
                        new: $number,
                        success: Ordering,
                        failure: Ordering,
                    ) -> Result<$number, $number> {
                        self.0.compare_exchange(current, new, success, failure)
                    }

                    pub(crate) fn compare_exchange_weak(
                        &self,
                        current: $number,
                        new: $number,
                        success: Ordering,
                        failure: Ordering,
                    ) -> Result<$number, $number> {
                        self.0.compare_exchange_weak(current, new, success, failure)
                    }

                    $(pub(crate) fn $fetch(&self, value: $number, ordering: Ordering) -> $number {
                        self.0.$fetch(value, ordering)
                    })*
                }
            )*
        };
    }

    atomics! {
        AtomicBool: bool, false, fetch_or;
        AtomicU32: u32, NEVER as u32, fetch_add fetch_sub;
        AtomicU64: u64, NEVER, fetch_add fetch_sub fetch_and fetch_max fetch_or;
        AtomicUsize: usize, NEVER as usize, fetch_add fetch_sub;
    }

    /// A number that no other running thread has. It is not 0.
    pub(crate) fn thread_number() -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(loom::thread::current().id()) | 1
    }

    /// In a model, both fences of an asymmetric pair are full ones: that is what the pair amounts to for its two
    /// threads. (A third one can tell: see `pool/openings.rs`.)
    pub(crate) mod asymmetric {
        use super::{Ordering, fence};

        pub(crate) fn is_available() -> bool {
            true
        }

        pub(crate) fn light() {
            fence(Ordering::SeqCst);
        }

        pub(crate) fn heavy() {
            fence(Ordering::SeqCst);
        }
    }

    /// loom's condition variable behind the same signature.
    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
            self.0.wait(guard).expect("a loom model does not poison")
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A wait of a model yields at once: nothing goes on while it spins.
    pub(crate) struct Backoff;

    impl Backoff {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn snooze(&self) {
            yield_now();
        }
    }

    /// There is no time in a model.
    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }

    /// Goes between sequentially consistent accesses. Loom treats these as acquire and release accesses, and takes
    /// their total order from fences only.
    pub(crate) fn sequentially_consistent() {
        fence(Ordering::SeqCst);
    }

    /// In a model, to sleep is to yield the processor.
    #[derive(Default)]
    pub(crate) struct Sleep;

    impl Sleep {
        pub(crate) fn sleep(&mut self, _: usize, _: impl FnOnce() -> bool) -> bool {
            yield_now();
            false
        }
    }

    pub(crate) fn anyone_sleeps() -> bool {
        false
    }

    pub(crate) fn hand_over(_: usize) -> bool {
        false
    }

    /// A lock that readers share; in models, they do not.
    #[derive(Debug)]
    pub(crate) struct RwLock<T>(Mutex<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn read(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock()
        }

        pub(crate) fn write(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock()
        }
    }

    /// loom's mutex behind `parking_lot`'s signature (no poisoning).
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("a loom model does not poison")
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().expect("a loom model does not poison")
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect("a loom model does not poison")
        }

        pub(crate) fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

pub(crate) use imp::*;
