use super::*;
use crate::memory::Zero;
use crate::node::shadow::{Leave, Shadow};
use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};
use std::thread;

/// Numbers under locks with one bias, to which threads add by loads and stores.
struct Sums {
    bias: Bias,
    locks: [Shadow<()>; 3],
    sums: [Plain; 3],
}

impl Sums {
    fn new(bias: Bias) -> Self {
        Self { bias, locks: [(); 3].map(|()| Shadow::zero()), sums: Default::default() }
    }

    fn add(&self, i: usize) {
        let was = self.locks[i].lock.lock(&self.bias);
        self.sums[i].store(self.sums[i].load(Relaxed) + 1, Relaxed);
        self.locks[i].lock.unlock(was, Leave::Ready);
    }

    fn owner(&self) -> u64 {
        self.bias.owner.load(Relaxed)
    }
}

/// Threads that lock all the time, for a while from one thread and for a while from all: no addition is lost.
#[test]
fn nothing_is_lost_while_the_bias_moves() {
    const THREADS: usize = 4;
    const TIMES: u64 = 3000;
    for round in 0..20 {
        let sums = Sums::new(Bias::default());
        thread::scope(|threads| {
            for thread in 0..THREADS {
                let sums = &sums;
                threads.spawn(move || {
                    for i in 0..TIMES {
                        sums.add((i as usize + thread) % 3);
                        if round % 2 == 0 && i % 500 == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
        let sum: u64 = sums.sums.iter().map(|sum| sum.load(Relaxed)).sum();
        assert_eq!(sum, THREADS as u64 * TIMES);
    }
}

/// Runs this on a thread that owns a shard. (The threads of other tests may have taken all of them for a while.)
fn on_an_owner<R: Send>(work: impl Fn() -> R + Sync) -> R {
    loop {
        let try_once = || {
            shard();
            (own_or_none() != NONE).then(&work)
        };
        if let Some(result) = thread::scope(|threads| threads.spawn(try_once).join().unwrap()) {
            return result;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn who_locks_first_is_the_owner_and_who_takes_turns_shares() {
    if !asymmetric::is_available() {
        return;
    }
    on_an_owner(|| {
        let sums = Sums::new(Bias::default());
        assert_eq!(sums.owner(), NOBODY);
        sums.add(0);
        let me = own_or_none() as u64;
        assert_eq!(sums.owner(), me);
        let other = || {
            on_an_owner(|| sums.add(0));
            sums.owner()
        };
        assert!(![NOBODY, MOVING, SHARED].contains(&other()) && sums.owner() != me);
        // If this takes long, another move is granted.
        let is_shared = (0..1000).any(|_| {
            *sums.bias.moves.lock() = Moves { left: 0, last: Some(Instant::now()) };
            sums.add(0);
            sums.owner() == SHARED || other() == SHARED
        });
        assert!(is_shared);
        sums.add(0);
        assert_eq!((sums.owner(), other()), (SHARED, SHARED));
    });
}

#[test]
fn moves_that_come_seldom_are_granted_for_ever() {
    let mut moves = Moves { left: MOVES, last: None };
    for _ in 0..3 * MOVES {
        moves.last = Instant::now().checked_sub(2 * EACH);
        assert!(!moves.are_too_many());
    }
    let hasty = (0..=MOVES + 1).position(|_| moves.are_too_many());
    assert!(hasty.is_some_and(|so_many| so_many as u32 >= MOVES - 1), "{hasty:?}");
}

#[test]
fn who_takes_over_waits_for_a_window_however_long_it_is_open() {
    if !asymmetric::is_available() {
        return;
    }
    on_an_owner(|| {
        let (sums, is_over) = (Sums::new(Bias::default()), std::sync::atomic::AtomicBool::new(false));
        sums.add(0);
        let window = sums.bias.window(own_or_none());
        window.store(1, Ordering::Relaxed);
        thread::scope(|threads| {
            threads.spawn(|| {
                sums.add(0);
                is_over.store(true, Relaxed);
            });
            thread::sleep(Duration::from_millis(20));
            assert!(!is_over.load(Relaxed));
            window.store(0, Ordering::Release);
        });
        assert_eq!((sums.sums[0].load(Relaxed), is_over.load(Relaxed)), (2, true));
    });
}
