//! The threads that look after a journal: one syncs when that is due, the other makes checkpoints, and writes space of
//! the pool file ahead of need, and larger rings, out of the way of others. They sleep until there is something to do.

use super::Journal;
use super::disk::Disk;
use super::engine::{Engine, Threads};
use super::memory::Memory;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// After so long without a change, what the ring says of the log is written through.
const QUIET: Duration = Duration::from_millis(100);

pub(super) struct Keeper {
    ends: Arc<AtomicBool>,
    period: Arc<Period>,
    threads: Vec<JoinHandle<()>>,
}

/// The time between two syncs, in nanoseconds.
struct Period(AtomicU64);

impl Period {
    /// Nothing is synced for the sake of time.
    const NEVER: u64 = u64::MAX;

    fn set(&self, mode: Journal) {
        let nanos = match mode {
            Journal::Every(period) => period.max(Duration::from_millis(1)).as_nanos().try_into().unwrap_or(Self::NEVER),
            Journal::None | Journal::Each | Journal::OnRequest => Self::NEVER,
        };
        self.0.store(nanos, Ordering::Release);
    }

    fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Acquire);
        (nanos != Self::NEVER).then(|| Duration::from_nanos(nanos))
    }
}

impl Keeper {
    /// `write_ahead` writes a piece of space, and tells whether there may be more to do.
    pub(super) fn new<F: Disk, R: Memory>(
        engine: &Arc<Engine<F, R>>,
        write_ahead: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let period = Arc::new(Period(AtomicU64::new(Period::NEVER)));
        let mut keeper = Self { ends: Arc::default(), period, threads: Vec::new() };
        // Errors close the journal, and are reported to every thread that wants to change something.
        let (engine_of_sync, period) = (Arc::clone(engine), Arc::clone(&keeper.period));
        let (quiet, last) = (Cell::new(None::<(u64, Instant)>), Cell::new(Instant::now()));
        let sync = move || {
            let period = period.get();
            let left = period.map(|period| period.saturating_sub(last.get().elapsed()));
            let pause = left.into_iter().chain(quiet.get().map(|_| QUIET)).min();
            pause.map_or_else(thread::park, thread::park_timeout);
            // What is synced is vouched for when nothing has come for a while (J28).
            if engine_of_sync.was_synced() || quiet.get().is_some() {
                let (now, before) = (engine_of_sync.unvouched(), quiet.get());
                match (now, before) {
                    (Some(now), Some((position, since))) if now == position => {
                        if since.elapsed() >= QUIET {
                            let _ = engine_of_sync.vouch();
                            quiet.set(None);
                        }
                    }
                    (Some(now), _) => quiet.set(Some((now, Instant::now()))),
                    // More was flushed: the next sync wakes this thread, or the next look does.
                    (None, _) => quiet.set(None),
                }
            }
            // A thread that sets the mode wakes this thread, too: nothing is due then.
            if period.is_some_and(|period| last.get().elapsed() >= period) || engine_of_sync.is_filling() {
                let _ = engine_of_sync.sync();
                last.set(Instant::now());
            }
        };
        let engine_of_checkpoint = Arc::clone(engine);
        let is_ahead = Cell::new(true);
        let checkpoint = move || {
            if is_ahead.get() {
                thread::park();
            }
            // First: others may have to wait for it.
            if engine_of_checkpoint.wants_checkpoint() {
                let _ = engine_of_checkpoint.checkpoint();
            }
            // What fails is reported to every thread that wants to change something.
            let _ = engine_of_checkpoint.widen();
            is_ahead.set(!write_ahead());
        };
        let made = keeper.spawn("bristlecone-sync", sync).and_then(|()| keeper.spawn("bristlecone-ckpt", checkpoint));
        if let Err(error) = made {
            keeper.stop();
            return Err(error);
        }
        let [sync, checkpoint] = [0, 1].map(|i| keeper.threads[i].thread().clone());
        engine.is_kept_by(Threads { sync, checkpoint });
        Ok(keeper)
    }

    /// The thread that makes checkpoints, and writes ahead.
    pub(super) fn checkpoints(&self) -> &Thread {
        self.threads[1].thread()
    }

    /// Starts a thread that waits, and then works, again and again.
    fn spawn(&mut self, name: &str, work: impl Fn() + Send + 'static) -> io::Result<()> {
        let ends = Arc::clone(&self.ends);
        let all = move || {
            while !ends.load(Ordering::Acquire) {
                work();
            }
        };
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(all)?);
        Ok(())
    }

    /// Syncs as often as this says, from now on.
    pub(super) fn set_mode(&self, mode: Journal) {
        self.period.set(mode);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Ends the threads, and waits for that.
    pub(super) fn stop(self) {
        self.ends.store(true, Ordering::Release);
        for thread in self.threads {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
