//! Windows: a thread has one open while it stores to a pool, so that another thread can wait until none is open, and
//! keep them closed for a moment.
//!
//! ```text
//! gate, one:                      0, or SHUT while no window may be opened, and FULL while openers are slowed
//! own, of each shard:             how many windows the thread has open that owns the shard
//! others, of each shard:          how many windows all other threads of the shard have open
//! ```
//!
//! - **W1** A thread opens its window before its first store, and closes it after the last one that belongs together.
//!   It adds 1 to its count, passes a light fence, and looks at the gate. If that is shut, the thread takes the 1 back,
//!   having stored nothing, and waits for the gate with its window closed. Where the system has no heavy fence, all
//!   threads count by a locked instruction, and need no light one.
//! - **W2** The thread that shuts the gate passes a heavy fence, and then waits until it has seen each count at 0. A
//!   window that was opened without seeing the gate shut was counted before the fence, so it is waited for.
//! - **W3** Windows nest: a thread that has one open, by its own count, opens another one without a look at the gate,
//!   because it could wait there for itself. A thread that shares its count with others cannot tell. It may wait at a
//!   gate while it has a window open, so the thread that shuts the gate waits for windows only for a limited time, and
//!   opens the gate again.
//! - **W4** A gate that is full slows changes only. It lets a thread pass after [`SLOWED`]: it may be this very thread
//!   that others wait for.
//!
//! Nothing of this is stored. A child that came by `fork` has the gate of its parent, which nobody opens there; it
//! passes.

#[cfg(all(test, bristlecone_loom))]
mod models;

use crate::sync::delay::{Validation, delay, is_left_out};
use crate::sync::process::Process;
use crate::sync::shards::{SHARDS, own_or_none, shard};
use crate::sync::{AtomicU64, Ordering, sequentially_consistent, sleep, spin_loop, yield_now};
use crossbeam_utils::CachePadded;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// No window may be opened.
const SHUT: u64 = 1;
/// Openers are slowed.
const FULL: u64 = 2;

/// For so long an opener is slowed at most.
pub(crate) const SLOWED: Duration = Duration::from_secs(1);

/// How often a thread yields its processor before it sleeps.
const YIELDS: u32 = 100;
const NAP: Duration = Duration::from_micros(20);
/// How long it sleeps where a disk is waited for.
const LONG_NAP: Duration = Duration::from_millis(1);

/// The windows of one pool, and their gate. See the [module](self).
pub(crate) struct Windows {
    /// In a line of its own: all openers read it.
    gate: CachePadded<AtomicU64>,
    counts: [CachePadded<Counts>; SHARDS],
    /// Whether threads that own a shard count by stores, which needs a heavy fence of the other side.
    by_store: bool,
    /// The process whose threads shut the gate.
    process: Process,
    /// How often an opener was slowed.
    slowed: AtomicU64,
}

#[derive(Default)]
struct Counts {
    own: AtomicU64,
    others: AtomicU64,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            gate: CachePadded::new(AtomicU64::new(0)),
            counts: Default::default(),
            by_store: has_heavy_fence(),
            process: Process::this(),
            slowed: AtomicU64::new(0),
        }
    }
}

/// An open window; it closes when it is dropped. See [`Medium::window`](crate::medium::Medium::window).
#[must_use]
pub struct Window<'w> {
    count: Option<&'w AtomicU64>,
    /// Whether only this thread changes the count.
    by_store: bool,
    /// It stays with its thread.
    thread: PhantomData<*const ()>,
}

impl<'w> Window<'w> {
    /// That of a medium whose stores nobody waits for.
    pub(crate) const NONE: Self = Self { count: None, by_store: false, thread: PhantomData };

    /// Counts a window, before a look at the gate.
    #[inline(always)]
    fn counted(count: &'w AtomicU64, by_store: bool) -> Self {
        if by_store {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            light();
            delay();
        } else {
            count.fetch_add(1, Ordering::SeqCst);
            sequentially_consistent();
        }
        Self { count: Some(count), by_store, thread: PhantomData }
    }
}

impl Drop for Window<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: what was stored is seen by the thread that finds the window closed.
        match self.count {
            None => {}
            Some(count) if self.by_store => count.store(count.load(Ordering::Relaxed) - 1, Ordering::Release),
            Some(count) => _ = count.fetch_sub(1, Ordering::Release),
        }
    }
}

/// A gate that is shut, while no window is open; it opens when this is dropped.
#[must_use]
pub(crate) struct Shut<'w>(&'w Windows);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.gate.fetch_and(!SHUT, Ordering::Release);
    }
}

impl Windows {
    /// Opens a window of this thread. Waits while the gate has one of these bits: [`SHUT`], for as long as W3 says, and
    /// [`FULL`], for as long as W4 does. The caller has locked nothing, or has a window open.
    #[inline(always)]
    fn open_unless(&self, bits: u64) -> Window<'_> {
        let own = own_or_none();
        if own >= SHARDS {
            return self.open_among_others(bits);
        }
        let count = &self.counts[own].own;
        let window = Window::counted(count, self.by_store);
        // Sequentially consistent, for the threads that count by a locked instruction.
        if self.gate.load(Ordering::SeqCst) & bits == 0 || count.load(Ordering::Relaxed) > 1 {
            window
        } else {
            self.open_later(window, bits)
        }
    }

    /// Opens a window that is not slowed: of a reader that stores, say.
    pub(crate) fn open(&self) -> Window<'_> {
        self.open_unless(SHUT)
    }

    /// Opens a window for a change. The caller has locked nothing.
    #[inline(always)]
    pub(crate) fn open_for_change(&self) -> Window<'_> {
        self.open_unless(SHUT | FULL)
    }

    #[cold]
    #[inline(never)]
    fn open_among_others(&self, bits: u64) -> Window<'_> {
        // From the next time on, this thread knows whether it owns one.
        let window = Window::counted(&self.counts[shard()].others, false);
        if self.gate.load(Ordering::SeqCst) & bits == 0 { window } else { self.open_later(window, bits) }
    }

    /// Closes the window of this thread while the gate is shut, and opens it again; if it is the only one, as
    /// far as can be told. For changes that take long, where nothing that was stored is not flushed.
    #[inline]
    pub(crate) fn pause(&self) {
        if self.gate.load(Ordering::Relaxed) & SHUT != 0 {
            self.pause_at_gate();
        }
    }

    #[cold]
    #[inline(never)]
    fn pause_at_gate(&self) {
        let own = own_or_none();
        if own < SHARDS && self.counts[own].own.load(Ordering::Relaxed) == 1 {
            self.counts[own].own.store(0, Ordering::Release);
            // The caller's window counts as this one from here on.
            std::mem::forget(self.open());
        }
    }

    /// Opens a window that was opened while the gate had one of these bits, as soon as that allows it.
    #[cold]
    #[inline(never)]
    fn open_later<'w>(&'w self, mut window: Window<'w>, bits: u64) -> Window<'w> {
        let since = Instant::now();
        loop {
            let Window { count: Some(count), by_store, .. } = window else { return window };
            drop(window);
            self.wait(since, bits);
            window = Window::counted(count, by_store);
            if self.lets_pass(self.gate.load(Ordering::SeqCst) & bits, since) {
                return window;
            }
        }
    }

    /// Whether a thread passes that waits since then, if the gate has these bits of those that it looks for.
    fn lets_pass(&self, gate: u64, since: Instant) -> bool {
        gate & SHUT == 0 && (gate & FULL == 0 || is_over(since)) || !self.is_of_this_process()
    }

    /// Waits until the gate lets this thread pass, which waits since then.
    fn wait(&self, since: Instant, bits: u64) {
        let mut looks = 0;
        let mut is_slowed = false;
        loop {
            let gate = self.gate.load(Ordering::Acquire) & bits;
            is_slowed |= gate & FULL != 0;
            if self.lets_pass(gate, since) {
                break;
            }
            looks += 1;
            match gate {
                FULL if looks >= YIELDS => sleep(LONG_NAP),
                _ if looks >= YIELDS => sleep(NAP),
                _ => yield_now(),
            }
        }
        if is_slowed {
            self.slowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.process.is_this()
    }

    /// Shuts the gate, and waits for so long until no window is open. `None` if one still is, or if the gate is shut
    /// already; then it is as it was.
    pub(crate) fn shut(&self, patience: Duration) -> Option<Shut<'_>> {
        if self.gate.fetch_or(SHUT, Ordering::SeqCst) & SHUT != 0 {
            return None;
        }
        let shut = Shut(self);
        if !is_left_out(Validation::Heavy) {
            heavy();
        }
        let since = Instant::now();
        let mut looks = 0;
        for count in self.counts.iter().flat_map(|counts| [&counts.own, &counts.others]) {
            while count.load(Ordering::Acquire) != 0 {
                looks += 1;
                if is_too_long(since, patience, looks) {
                    return None;
                }
                if looks < YIELDS { spin_loop() } else { yield_now() }
            }
        }
        Some(shut)
    }

    /// Slows openers from now on, or does not.
    pub(crate) fn set_full(&self, is_full: bool) {
        if is_full {
            self.gate.fetch_or(FULL, Ordering::Relaxed);
        } else if self.is_full() {
            self.gate.fetch_and(!FULL, Ordering::Relaxed);
        }
    }

    /// Whether openers are slowed.
    pub(crate) fn is_full(&self) -> bool {
        self.gate.load(Ordering::Relaxed) & FULL != 0
    }

    /// How often an opener was slowed.
    pub(crate) fn slowed(&self) -> u64 {
        self.slowed.load(Ordering::Relaxed)
    }

    /// Whether this thread has a window open, or one that shares its count.
    #[cfg(debug_assertions)]
    pub(crate) fn is_open_here(&self) -> bool {
        let counts = &self.counts[shard()];
        [&counts.own, &counts.others].into_iter().any(|count| count.load(Ordering::Relaxed) != 0)
    }
}

/// Whether a thread has been slowed for long enough.
fn is_over(since: Instant) -> bool {
    !cfg!(bristlecone_loom) && since.elapsed() >= SLOWED
}

/// Whether a thread that has shut the gate has waited for long enough. In a model, there is no time.
fn is_too_long(since: Instant, patience: Duration, looks: u32) -> bool {
    if cfg!(bristlecone_loom) { looks > 3 } else { since.elapsed() >= patience }
}

#[cfg(not(bristlecone_loom))]
use crate::sync::asymmetric::{heavy, is_available as has_heavy_fence, light};

#[cfg(bristlecone_loom)]
use in_models::{has_heavy_fence, heavy, light};

/// In models, all threads share counts.
#[cfg(bristlecone_loom)]
mod in_models {
    use crate::sync::{Ordering, fence};

    pub(super) fn has_heavy_fence() -> bool {
        false
    }

    pub(super) fn light() {}

    pub(super) fn heavy() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(any(bristlecone_loom, miri))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Two words that are equal while no window is open. Threads store to both within a window each; one more looks at
    /// them behind the shut gate.
    fn differ(by_store: bool, threads: u64, rounds: u64) -> (u64, u64) {
        let windows = Windows { by_store, ..Windows::default() };
        let words: [[AtomicU64; 2]; SHARDS + 4] = Default::default();
        let is_done = AtomicBool::new(false);
        let mut found = (0, 0);
        std::thread::scope(|scope| {
            for words in &words[..threads as usize] {
                let (windows, is_done) = (&windows, &is_done);
                scope.spawn(move || {
                    let mut round = 0;
                    while !is_done.load(Ordering::Relaxed) {
                        round += 1;
                        let _window = windows.open();
                        words[0].store(round, Ordering::Relaxed);
                        if round.is_multiple_of(64) {
                            yield_now();
                        }
                        // A thread that shares its count may wait at the gate here, with a window open, until the
                        // other one gives up. So it nests seldom.
                        let nests = own_or_none() < SHARDS || round.is_multiple_of(50);
                        let _nested = nests.then(|| windows.open());
                        words[1].store(round, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..rounds {
                // With more threads than processors, one that has a window open may not run for long.
                let Some(shut) = windows.shut(Duration::from_secs(1)) else { continue };
                for _ in 0..3 {
                    found.0 += 1;
                    let differs =
                        |words: &[AtomicU64; 2]| words[0].load(Ordering::Relaxed) != words[1].load(Ordering::Relaxed);
                    found.1 += u64::from(words.iter().any(differs));
                }
                drop(shut);
                sleep(Duration::from_micros(30));
            }
            is_done.store(true, Ordering::Relaxed);
        });
        found
    }

    #[test]
    fn nobody_stores_behind_a_shut_gate() {
        // Of many threads, one that is not running nearly always has a window open.
        for (threads, rounds) in [(1, 200), (3, 100), (SHARDS as u64 + 4, 2)] {
            for by_store in [has_heavy_fence(), false] {
                let (looks, differences) = differ(by_store, threads, rounds);
                assert_eq!(differences, 0, "of {looks} looks, at {threads} threads, by store: {by_store}");
                assert!(
                    looks > 0 || threads > 3,
                    "the gate was never shut for {threads} threads, by store: {by_store}"
                );
            }
        }
    }

    #[test]
    fn a_window_that_stays_open_is_not_waited_for_for_long_and_nests() {
        let windows = Windows::default();
        shard();
        let first = windows.open();
        std::thread::scope(|scope| {
            let shuts = scope.spawn(|| windows.shut(Duration::from_millis(20)).is_none());
            // Another window of this thread opens at once, or when the other one has given up.
            let second = windows.open();
            assert!(shuts.join().unwrap());
            drop(second);
        });
        drop(first);
        let shut = windows.shut(Duration::ZERO).expect("no window is open");
        assert!(windows.shut(Duration::ZERO).is_none());
        drop(shut);
        drop(windows.open());
    }

    #[test]
    fn a_change_that_takes_long_lets_others_shut_the_gate() {
        let windows = Windows::default();
        shard();
        if own_or_none() >= SHARDS {
            eprintln!("skipped: this thread shares its count");
            return;
        }
        let is_shut = AtomicBool::new(false);
        let window = windows.open();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let shut = windows.shut(Duration::from_secs(60)).expect("the other thread pauses");
                is_shut.store(true, Ordering::Relaxed);
                drop(shut);
            });
            while !is_shut.load(Ordering::Relaxed) {
                windows.pause();
            }
            // It is open again.
            assert!(windows.shut(Duration::ZERO).is_none());
            let nested = windows.open();
            windows.gate.fetch_or(SHUT, Ordering::Relaxed);
            windows.pause();
            windows.gate.fetch_and(!SHUT, Ordering::Relaxed);
            drop(nested);
        });
        drop(window);
        assert!(windows.shut(Duration::ZERO).is_some());
    }

    #[test]
    fn a_full_gate_slows_and_lets_pass() {
        let windows = Windows::default();
        // This thread knows its shard, if there is one for it.
        shard();
        let has_own_count = own_or_none() < SHARDS;
        windows.set_full(true);
        drop(windows.open());
        assert_eq!(windows.slowed(), 0);
        let since = Instant::now();
        let window = windows.open_for_change();
        assert!(since.elapsed() >= SLOWED && windows.slowed() == 1);
        let nested = windows.open_for_change();
        assert_eq!(windows.slowed(), if has_own_count { 1 } else { 2 });
        drop((nested, window));
        windows.set_full(false);
        drop(windows.open());
    }
}
