//! The threads that look after a journal: one syncs when that is due, the other makes checkpoints, out of the way of others.
//! They sleep until there is something to do.

use super::Journal;
use super::disk::Disk;
use super::engine::{Engine, Threads};
use super::ring::Memory;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[derive(Default)]
pub(super) struct Keeper {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn new<F: Disk, R: Memory>(engine: &Arc<Engine<F, R>>, mode: Journal) -> io::Result<Self> {
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
        let mut keeper = Self::default();
        let made = keeper.spawn("bristlecone-sync", Arc::clone(engine), period, sync);
        let made = made.and_then(|()| keeper.spawn("bristlecone-ckpt", Arc::clone(engine), None, checkpoint));
        if let Err(error) = made {
            keeper.stop();
            return Err(error);
        }
        let [sync, checkpoint] = [0, 1].map(|i| keeper.threads[i].thread().clone());
        engine.is_kept_by(Threads { sync, checkpoint });
        Ok(keeper)
    }

    /// Starts a thread that does its work whenever it is woken, and at least that often.
    fn spawn<F: Disk, R: Memory>(
        &mut self,
        name: &str,
        engine: Arc<Engine<F, R>>,
        period: Option<Duration>,
        work: impl Fn(&Engine<F, R>) + Send + 'static,
    ) -> io::Result<()> {
        let ends = Arc::clone(&self.ends);
        let all = move || {
            while !ends.load(Ordering::Acquire) {
                period.map_or_else(thread::park, thread::park_timeout);
                work(&engine);
            }
        };
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(all)?);
        Ok(())
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
