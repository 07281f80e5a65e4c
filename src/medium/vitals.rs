//! How an open pool is doing: how long threads wait for the disk, and what operators are told.
//!
//! Nothing here is called where nothing is waited for.

use super::event::EventKind;
use super::herald::{Herald, Listener};
use crate::sync::histogram::{Histogram, Recorder};
use crate::sync::process::Process;
// Not those of a model checker: no thread of a pool waits for another one because of them.
use parking_lot::Mutex;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// After an event that may come often, the next one of its kind waits for so long.
const PAUSE: Duration = Duration::from_secs(10);
/// The most events that an open can find.
const MOST: usize = 64;

/// How long a sync and a checkpoint may take before they are slow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slow {
    pub(crate) sync: Duration,
    pub(crate) checkpoint: Duration,
}

impl Default for Slow {
    fn default() -> Self {
        Self { sync: Duration::from_millis(100), checkpoint: Duration::from_secs(1) }
    }
}

/// How an open pool is doing.
pub(crate) struct Vitals {
    /// Waits of threads that are told then that their changes survive the machine.
    commits: Recorder,
    syncs: Recorder,
    checkpoints: Recorder,
    waits: Recorder,
    slow_syncs: Burst,
    slow_checkpoints: Burst,
    long_waits: Burst,
    slowed: Burst,
    /// How many changes were slowed until it was looked at last.
    slowed_before: AtomicU64,
    /// Whether [`pages_stay`](Self::pages_stay) has told it.
    pages_stay: AtomicBool,
    slow: OnceLock<Slow>,
    has_failed: AtomicBool,
    told: Mutex<Told>,
    /// The process that has the pool. In a child, a thread of the parent may have any of these locks.
    process: Process,
}

#[derive(Default)]
struct Told {
    herald: Option<Arc<Herald>>,
    is_open: bool,
    /// What has happened before the pool was open.
    early: Vec<EventKind>,
    /// What is told last.
    closed: Option<EventKind>,
}

impl Default for Vitals {
    fn default() -> Self {
        Self {
            commits: Recorder::default(),
            syncs: Recorder::default(),
            checkpoints: Recorder::default(),
            waits: Recorder::default(),
            slow_syncs: Burst::default(),
            slow_checkpoints: Burst::default(),
            long_waits: Burst::default(),
            slowed: Burst::default(),
            slowed_before: AtomicU64::new(0),
            pages_stay: AtomicBool::new(false),
            slow: OnceLock::new(),
            has_failed: AtomicBool::new(false),
            told: Mutex::default(),
            process: Process::this(),
        }
    }
}

impl Vitals {
    /// The pool is open: its events are told from now on, and before them what the open has `found`.
    pub(crate) fn open(&self, pool: &str, listener: Option<&Listener>, slow: Slow, found: Vec<EventKind>) {
        let _ = self.slow.set(slow);
        let mut told = self.told.lock();
        (told.herald, told.is_open) = (Herald::new(pool, listener), true);
        let early = std::mem::take(&mut told.early);
        if let Some(herald) = &told.herald {
            found.into_iter().chain(early).for_each(|kind| herald.tell(kind));
        }
    }

    /// Tells an event. It waits for no thread that waits for anything.
    #[cold]
    pub(crate) fn tell(&self, kind: EventKind) {
        if !self.process.is_this() {
            return;
        }
        let mut told = self.told.lock();
        match &told.herald {
            Some(herald) => herald.tell(kind),
            None if !told.is_open && told.early.len() < MOST => told.early.push(kind),
            None => {}
        }
    }

    /// Tells the first failure of the disk.
    pub(crate) fn failed(&self, error: impl ToString) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            self.tell(EventKind::DiskFailed { error: error.to_string() });
        }
    }

    /// The log was synced; or the pool's file, if there is no journal.
    pub(crate) fn synced(&self, took: Duration) {
        self.syncs.record(took);
        if let Some(slow) = self.slow.get().filter(|slow| took >= slow.sync)
            && let Some(Since { times, longest, .. }) = self.slow_syncs.add(1, took, slow.sync)
        {
            self.tell(EventKind::SlowSync { took: longest, times });
        }
    }

    /// The log was applied to the pool's file, which was synced.
    pub(crate) fn checkpointed(&self, took: Duration) {
        self.checkpoints.record(took);
        if let Some(slow) = self.slow.get().filter(|slow| took >= slow.checkpoint)
            && let Some(Since { times, longest, .. }) = self.slow_checkpoints.add(1, took, slow.checkpoint)
        {
            self.tell(EventKind::SlowCheckpoint { took: longest, times });
        }
    }

    /// A change has waited for room in the ring. A few short waits are nothing to tell.
    pub(crate) fn waited(&self, took: Duration) {
        self.waits.record(took);
        if let Some(slow) = self.slow.get()
            && let Some(Since { times, longest, sum, .. }) = self.long_waits.add(1, took, slow.sync)
        {
            self.tell(EventKind::Waited { took: longest, times, together: sum });
        }
    }

    /// So many changes were slowed in all, because private memory takes more than its budget. Called by one thread at a
    /// time.
    pub(crate) fn slowed(&self, all: u64, budget: u64) {
        let times = all - self.slowed_before.swap(all, Ordering::Relaxed);
        if times > 0
            && let Some(Since { times, .. }) = self.slowed.add(times, Duration::ZERO, Duration::ZERO)
        {
            self.tell(EventKind::Slowed { times, budget });
        }
    }

    /// Pages do not go back to the page cache, so that private memory may take more than its budget. Told once.
    pub(crate) fn pages_stay(&self, error: &io::Error) {
        if !self.pages_stay.swap(true, Ordering::Relaxed) {
            self.tell(EventKind::PagesStay { error: error.to_string() });
        }
    }

    /// A wait for the disk, of a thread that is told then that its changes survive the machine.
    pub(crate) fn committed<T>(&self, wait: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let waited = wait();
        self.commits.record(began.elapsed());
        waited
    }

    /// How often the log was synced, checkpoints were made, and changes waited for room in the ring.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.syncs, &self.checkpoints, &self.waits].map(Recorder::count)
    }

    /// Commits, syncs, checkpoints and waits.
    pub(crate) fn times(&self) -> [Histogram; 4] {
        [&self.commits, &self.syncs, &self.checkpoints, &self.waits].map(Recorder::read)
    }

    /// The pool is being closed. That is told when its file is free.
    pub(crate) fn closing(&self, took: Duration, error: Option<String>) {
        self.told.lock().closed = Some(EventKind::Closed { took, error });
    }

    /// Nobody is told anything after this.
    fn end(&self) {
        if !self.process.is_this() {
            return;
        }
        let mut told = self.told.lock();
        let (herald, closed) = (told.herald.take(), told.closed.take());
        drop(told);
        // Without the lock: what drops the function may drop pools. It is not left to the threads of the journal, which
        // may have locks of theirs when they drop the rest.
        herald.iter().zip(closed).for_each(|(herald, closed)| herald.tell(closed));
    }
}

/// The vitals of an open pool, which has nothing else left when this is dropped.
pub(crate) struct VitalsOfPool(pub(crate) Arc<Vitals>);

impl Deref for VitalsOfPool {
    type Target = Vitals;

    fn deref(&self) -> &Vitals {
        &self.0
    }
}

impl Drop for VitalsOfPool {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What may come often, and is told now and then.
#[derive(Default)]
struct Burst(Mutex<Since>);

/// What has come since it was told last.
#[derive(Default)]
struct Since {
    told: Option<Instant>,
    times: u64,
    longest: Duration,
    sum: Duration,
}

impl Burst {
    /// It has come so many times more, and took so long. What is to be told now, if that took at least so long
    /// together, and nothing was told a moment ago.
    fn add(&self, times: u64, took: Duration, least: Duration) -> Option<Since> {
        let mut since = self.0.lock();
        since.times += times;
        since.longest = since.longest.max(took);
        since.sum = since.sum.saturating_add(took);
        let is_due = since.sum >= least && since.told.is_none_or(|told| told.elapsed() >= PAUSE);
        is_due.then(|| std::mem::replace(&mut *since, Since { told: Some(Instant::now()), ..Since::default() }))
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_told_once_and_then_with_all_that_has_come_since() {
        let (burst, ms) = (Burst::default(), Duration::from_millis);
        // Together they are long.
        assert!(burst.add(1, ms(4), ms(10)).is_none() && burst.add(1, ms(5), ms(10)).is_none());
        let Since { times, longest, sum, .. } = burst.add(1, ms(1), ms(10)).unwrap();
        assert_eq!((times, longest, sum), (3, ms(5), ms(10)));
        assert!((0..100).all(|i| burst.add(1, ms(i), ms(10)).is_none()));
        // Its time has come.
        burst.0.lock().told = Instant::now().checked_sub(PAUSE);
        let Since { times, longest, sum, .. } = burst.add(1, ms(7), ms(10)).unwrap();
        assert_eq!((times, longest, sum), (101, ms(99), ms(4957)));
    }

    #[test]
    fn changes_that_are_slowed_are_told_with_how_many() {
        let (sender, told) = std::sync::mpsc::channel();
        let listener = Listener::new(move |event| drop(sender.send(event.kind.clone())));
        let vitals = Vitals::default();
        vitals.open("a", Some(&listener), Slow::default(), Vec::new());
        drop(listener);
        [0, 3, 3, 5].into_iter().for_each(|all| vitals.slowed(all, 4096));
        vitals.slowed.0.lock().told = Instant::now().checked_sub(PAUSE);
        [5, 6, 9].into_iter().for_each(|all| vitals.slowed(all, 4096));
        drop(VitalsOfPool(Arc::new(vitals)));
        let slowed = |times| EventKind::Slowed { times, budget: 4096 };
        assert_eq!(told.iter().collect::<Vec<_>>(), [slowed(3), slowed(3)]);
    }
}
