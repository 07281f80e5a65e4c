//! The work in the background for a journal: syncs when they are due, and, out of the way of these, checkpoints, larger
//! rings, space of the pool file ahead of need, and images of trees. The threads that do it are the process's
//! (`crew.rs`). Nothing is done, and nobody looks at the time, while nothing is changed.

use super::Journal;
use super::disk::Disk;
use super::engine::{Engine, Wakers};
use super::memory::Memory;
use crate::sync::crew::Job;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time without a change after which what the ring says of the log is written through.
const QUIET: Duration = Duration::from_millis(100);

/// A ring that fills so often before it is time to sync is too small.
const FILLS: u32 = 8;

/// Ends the work when it is dropped, and waits for what is being done.
pub(super) struct Keeper {
    period: Arc<Period>,
    syncs: Job,
    checkpoints: Job,
    _images: Job,
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

/// What the job that syncs remembers of its last run.
struct Syncs {
    /// When it has synced last.
    last: Instant,
    /// How often it has synced since then because the ring was filling, and not because it was time.
    fills: u32,
    /// Up to where the log was synced when nothing more had come, and since when.
    quiet: Option<(u64, Instant)>,
}

impl Syncs {
    /// Does what is due, and tells when something will be.
    fn tend<F: Disk, R: Memory>(&mut self, engine: &Engine<F, R>, period: Option<Duration>) -> Option<Instant> {
        if let Some(share) = engine.private.share() {
            share.look_again();
        }
        let due = period.and_then(|period| self.last.checked_add(period));
        let is_due = due.is_some_and(|due| due <= Instant::now()) && engine.has_more();
        // Errors close the journal, and are reported to every thread that wants to change something.
        if is_due || engine.is_filling() {
            self.fills = if is_due { 0 } else { self.fills + 1 };
            if self.fills >= FILLS {
                engine.want_larger_ring();
            }
            let _ = engine.sync();
            self.last = Instant::now();
        }
        let quiet = self.vouch(engine);
        let sync = period.and_then(|period| {
            if engine.has_more() {
                engine.is_watched();
            } else if engine.is_unwatched() {
                // What came before others could see that is seen in this second look. What comes later wakes the job.
                return None;
            }
            (self.last.max(Instant::now())).checked_add(period)
        });
        [quiet, sync].into_iter().flatten().min()
    }

    /// What is synced is vouched for when nothing has come for a while (J28).
    fn vouch<F: Disk, R: Memory>(&mut self, engine: &Engine<F, R>) -> Option<Instant> {
        if let Some((before, _)) = self.quiet.take_if(|(_, since)| since.elapsed() >= QUIET)
            && engine.unvouched() == Some(before)
        {
            let _ = engine.vouch();
        }
        // If more was flushed, the next sync wakes the job. As long as there is a time to look again, none need to.
        let position = engine.unvouched().or_else(|| {
            engine.awaits_sync();
            engine.unvouched()
        });
        let now = Instant::now();
        let since = |position| self.quiet.filter(|(before, _)| *before == position).map_or(now, |(_, since)| since);
        self.quiet = position.map(|position| (position, since(position)));
        self.quiet.map(|(_, since)| since + QUIET)
    }
}

impl Keeper {
    /// `write_ahead` writes a piece of space, and tells whether there may be more to do.
    pub(super) fn new<F: Disk, R: Memory>(
        engine: &Arc<Engine<F, R>>,
        write_ahead: impl Fn() -> bool + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let period = Arc::new(Period(AtomicU64::new(Period::NEVER)));
        let syncs = Mutex::new(Syncs { last: Instant::now(), fills: 0, quiet: None });
        let (engine_of_sync, of_sync) = (Arc::clone(engine), Arc::clone(&period));
        let syncs = Job::new(move || syncs.lock().tend(&*engine_of_sync, of_sync.get()))?;
        let engine_of_checkpoint = Arc::clone(engine);
        let checkpoint = move || {
            // First: others may have to wait for it. What fails is reported to every thread that wants to change
            // something.
            if engine_of_checkpoint.windows.is_full() {
                let _ = engine_of_checkpoint.sync();
            }
            if engine_of_checkpoint.wants_checkpoint() {
                let _ = engine_of_checkpoint.checkpoint();
            }
            let _ = engine_of_checkpoint.widen();
            let evictions = engine_of_checkpoint.evict();
            write_ahead().then(Instant::now).into_iter().chain(evictions).min()
        };
        let checkpoints = Job::new(checkpoint)?;
        let engine_of_image = Arc::clone(engine);
        let image = move || {
            if let Err(error) = engine_of_image.make_image() {
                engine_of_image.tell_of_no_image(&error);
            }
            None
        };
        let images = Job::new(image)?;
        let (sync, checkpoint) = (Box::new(syncs.waker()), Box::new(checkpoints.waker()));
        engine.is_kept_by(Wakers { sync, checkpoint, image: Box::new(images.waker()) });
        Ok(Self { period, syncs, checkpoints, _images: images })
    }

    /// What has checkpoints made, and space written ahead of need.
    pub(super) fn checkpoints(&self) -> impl Fn() + Send + Sync + 'static {
        self.checkpoints.waker()
    }

    /// Syncs as often as this says, from now on.
    pub(super) fn set_mode(&self, mode: Journal) {
        self.period.set(mode);
        self.syncs.waker()();
    }
}
