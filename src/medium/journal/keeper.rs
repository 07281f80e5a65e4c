//! The threads that look after a journal: one syncs when that is due, the other makes checkpoints, out of the way of others.

use super::Journal;
use super::disk::Disk;
use super::engine::Engine;
use super::ring::Memory;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long they sleep while others change something, and while nobody does.
const BUSY: Duration = Duration::from_millis(10);
const IDLE: Duration = Duration::from_millis(100);

pub(super) struct Keeper {
    bell: Arc<Bell>,
    threads: Vec<JoinHandle<()>>,
}

/// Wakes the threads when they shall end.
#[derive(Default)]
struct Bell {
    ends: Mutex<bool>,
    rings: Condvar,
}

impl Keeper {
    pub(super) fn new<F: Disk, R: Memory>(engine: &Arc<Engine<F, R>>, mode: Journal) -> io::Result<Self> {
        let mut keeper = Self { bell: Arc::default(), threads: Vec::new() };
        let period = match mode {
            Journal::Every(period) => Some(period.max(Duration::from_millis(1))),
            Journal::Each | Journal::OnRequest => None,
        };
        // Errors close the journal, and are reported to whoever wants to change something.
        let sync = move |engine: &Engine<F, R>| {
            if period.is_some() || engine.is_filling() {
                let _ = engine.sync();
            }
        };
        let checkpoint = |engine: &Engine<F, R>| {
            if engine.wants_checkpoint() {
                let _ = engine.checkpoint();
            }
        };
        let spawned = keeper.spawn("bristlecone-sync", Arc::clone(engine), period, sync);
        let spawned = spawned.and_then(|()| keeper.spawn("bristlecone-ckpt", Arc::clone(engine), None, checkpoint));
        if spawned.is_err() {
            keeper.stop();
            return spawned.map(|()| unreachable!("it is an error"));
        }
        Ok(keeper)
    }

    fn spawn<F: Disk, R: Memory>(
        &mut self,
        name: &str,
        engine: Arc<Engine<F, R>>,
        period: Option<Duration>,
        work: impl Fn(&Engine<F, R>) + Send + 'static,
    ) -> io::Result<()> {
        let bell = Arc::clone(&self.bell);
        let all = move || {
            let mut last = engine.position();
            let mut ends = bell.ends.lock();
            while !*ends {
                let pause = period.unwrap_or(if engine.position() == last { IDLE } else { BUSY });
                last = engine.position();
                bell.rings.wait_for(&mut ends, pause);
                if !*ends {
                    MutexGuard::unlocked(&mut ends, || work(&engine));
                }
            }
        };
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(all)?);
        Ok(())
    }

    /// Ends the threads, and waits for that.
    pub(super) fn stop(self) {
        *self.bell.ends.lock() = true;
        self.bell.rings.notify_all();
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
