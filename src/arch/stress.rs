//! Looks for torn pairs and lost swaps. Shared by the unit tests of each method and by `tests/arch.rs`.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a test looks: long enough to find the tearing of plain stores, on two busy cores.
const TIME: Duration = Duration::from_millis(300);

/// Operations between two reads of the clock.
const ROUNDS: u64 = if cfg!(miri) { 20 } else { 50_000 };

/// Held by the running test: two at once would take the cores from each other.
static CORES: Mutex<()> = Mutex::new(());

/// A pair in memory, aligned as pair operations require.
#[repr(C, align(16))]
pub(crate) struct Pair(UnsafeCell<[u64; 2]>);

// SAFETY: the tests access the bytes only by the pair operations and by atomics.
unsafe impl Sync for Pair {}

impl Pair {
    pub(crate) const fn new(pair: [u64; 2]) -> Self {
        Self(UnsafeCell::new(pair))
    }

    pub(crate) const fn at(&self) -> *mut [u64; 2] {
        self.0.get()
    }
}

/// The `n`-th of the pairs that are written: each half determines the other.
pub(crate) const fn whole(n: u64) -> [u64; 2] {
    [n, !n]
}

/// Whether the halves were written by two different stores.
pub(crate) const fn is_torn([low, high]: [u64; 2]) -> bool {
    high != !low
}

/// Two threads store while this one loads, for a while: no load may be torn.
pub(crate) fn does_not_tear(
    load: impl Fn(*const [u64; 2]) -> [u64; 2],
    store: impl Fn(*mut [u64; 2], [u64; 2]) + Sync,
) {
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = Pair::new(whole(0));
    let start = Barrier::new(3);
    let stop = AtomicBool::new(false);
    let torn = thread::scope(|scope| {
        for writer in 0..2 {
            let (pair, store, start, stop) = (&pair, &store, &start, &stop);
            scope.spawn(move || {
                start.wait();
                let mut n = writer;
                while !stop.load(Ordering::Relaxed) {
                    store(pair.at(), whole(n));
                    n += 2;
                }
            });
        }
        start.wait();
        let end = Instant::now() + TIME;
        let torn = loop {
            let torn = (0..ROUNDS).map(|_| load(pair.at())).find(|seen| is_torn(*seen));
            if torn.is_some() || cfg!(miri) || Instant::now() > end {
                break torn;
            }
        };
        stop.store(true, Ordering::Relaxed);
        torn
    });
    assert_eq!(torn, None, "a torn pair");
}

/// Two threads count in one pair for a while, by swaps that return the old value: none may be lost, none may be torn.
pub(crate) fn swaps_lose_nothing(swap: impl Fn(*mut [u64; 2], [u64; 2], [u64; 2]) -> [u64; 2] + Sync) {
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = Pair::new(whole(0));
    let start = Barrier::new(2);
    let count = || {
        start.wait();
        let end = Instant::now() + TIME;
        let (mut current, mut swapped) = (whole(0), 0);
        loop {
            for _ in 0..ROUNDS {
                let next = whole(current[0] + 1);
                let found = swap(pair.at(), current, next);
                assert!(!is_torn(found), "a torn pair: {found:#x?}");
                swapped += u64::from(found == current);
                current = if found == current { next } else { found };
            }
            if cfg!(miri) || Instant::now() > end {
                break swapped;
            }
        }
    };
    let swapped = thread::scope(|scope| {
        let other = scope.spawn(count);
        count() + other.join().expect("the other thread counts too")
    });
    let end = swap(pair.at(), whole(0), whole(0));
    assert_eq!(end, whole(swapped), "swaps were lost");
}
