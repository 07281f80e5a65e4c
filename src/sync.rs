//! The only file that knows loom: atomics, fences, locks and spinning, from std or from the model checker.

#[cfg(not(loom))]
mod parking;

#[cfg(not(loom))]
mod imp {
    pub(crate) use super::parking::{Sleep, anyone_sleeps, hand_over};
    pub(crate) use core::hint::spin_loop;
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use parking_lot::{Mutex, MutexGuard};

    /// Where threads wait for what another one does under a mutex.
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

    /// A number that no other running thread has; not 0.
    pub(crate) fn thread_number() -> u64 {
        thread_local!(static HERE: u8 = const { 0 });
        HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
    }

    /// Gives the processor away: called by a spin that has gone on for long.
    pub(crate) fn yield_now() {
        std::thread::yield_now();
    }

    /// Waits, where giving the processor away did not help.
    pub(crate) fn sleep(time: std::time::Duration) {
        std::thread::sleep(time);
    }

    /// Between sequentially consistent accesses: they are in one order as it is.
    #[inline(always)]
    pub(crate) fn sequentially_consistent() {}
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{Ordering, fence};
    pub(crate) use loom::thread::yield_now;
    use std::cell::Cell;

    thread_local! {
        /// The threads of a model are one to the system, and each test has its own.
        static SEQUENTIAL: Cell<bool> = const { Cell::new(false) };
    }

    /// From now on, what this thread's models load is what was stored last: there are fewer executions of such a model by
    /// orders of magnitude, since any other load is as many branches as there are stores that it may see.
    ///
    /// A load is then an exchange that fails. So loom also takes it for something that depends on the loads before it; of those
    /// it remembers one for each word, and would forget a reader's when a writer loads the word before it stores.
    #[cfg(test)]
    pub(crate) fn set_sequential(sequential: bool) {
        SEQUENTIAL.set(sequential);
    }

    /// No number has this value. (If a flag has the value that stands for it, it keeps it.)
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
        AtomicU64: u64, NEVER, fetch_add fetch_sub;
        AtomicUsize: usize, NEVER as usize, fetch_add fetch_sub;
    }

    /// A number that no other running thread has; not 0.
    pub(crate) fn thread_number() -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(loom::thread::current().id()) | 1
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

    /// There is no time in a model.
    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }

    /// Between sequentially consistent accesses: loom takes them for acquiring and releasing ones, and knows this order
    /// from fences only.
    pub(crate) fn sequentially_consistent() {
        fence(Ordering::SeqCst);
    }

    /// Sleeping is giving the processor away.
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

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect("a loom model does not poison")
        }

        pub(crate) fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

pub(crate) use imp::*;
