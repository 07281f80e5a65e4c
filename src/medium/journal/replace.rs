//! Another ring for a pool that is open, whose ring has lost its name (J32), or is too small (J33).

use super::disk::Disk;
use super::engine::{Engine, Holes, Larger, Leading, Replaces};
use super::head;
use super::header::{Epoch, Seat};
use super::memory::Memory;
use super::ring::Cells;
use super::rule::{Rule, holds};
use crate::error::Fault;
use crate::medium::event::EventKind;
use crate::random::random;
use std::mem;
use std::sync::Arc;

impl<F: Disk, R: Memory> Leading<'_, F, R> {
    /// Goes on with another ring if there is a larger one, or if the next process would not find the one that is used.
    /// Then an epoch begins, as with an open.
    pub(super) fn replace_ring(&mut self, replaces: Replaces) -> Result<(), Fault> {
        let (engine, _) = self.parts();
        if replaces == Replaces::Not && holds(Rule::ReplacesAlone) {
            return Ok(());
        }
        let old = engine.ring.memory();
        // Then it has no name that the other one could take.
        let is_lost = old.is_gone();
        // A larger one that is being made is not waited for, unless it has the place of the one that is needed now.
        let larger = if is_lost { Some(engine.larger.lock()) } else { engine.larger.try_lock() };
        let Some(mut larger) = larger else { return Ok(()) };
        if matches!(*larger, Larger::Never) || !is_lost && matches!(*larger, Larger::No) {
            return Ok(());
        }
        // Nobody makes a larger one until this has its name.
        let meanwhile = if holds(Rule::OneReplacement) { Larger::Named } else { Larger::No };
        let made = mem::replace(&mut *larger, meanwhile);
        drop(larger);
        let replaced = self.replace_by(old, is_lost, made);
        if holds(Rule::OneReplacement) {
            *engine.larger.lock() = Larger::No;
        }
        replaced
    }

    fn replace_by(&mut self, old: Arc<Cells<R>>, is_lost: bool, larger: Larger<R>) -> Result<(), Fault> {
        let (engine, _) = self.parts();
        let Some((memory, seat)) = another(engine, &old, is_lost, larger) else { return Ok(()) };
        let from = engine.ring_bytes();
        let shut = engine.shut_ring();
        // What the ring has that nobody finds is on the disk before another one is found.
        if holds(Rule::SyncedBeforeName) {
            self.write_out(shut, Holes::Wait)?;
            self.sync()?;
        }
        let (engine, lead) = self.parts();
        let before = *engine.header.lock();
        let life = Epoch { epoch: before.life.epoch + 1, nonce: random(), seat: Some(seat), ..before.life };
        let replacing = || Fault::io("replace the ring");
        let begun = head::begin(&memory, &before, life, lead.end.position);
        begun.and_then(|()| head::write_through(&memory)).map_err(replacing())?;
        // Until the other one has its name, the next process may find this one, too.
        *engine.before.lock() = Some(Arc::clone(&old));
        engine.ring.replace(memory, life.nonce);
        // A failure that was not noted in this ring is seen here.
        engine.check().map_err(Fault::io("go on"))?;
        engine.ring.memory().name(!is_lost).map_err(replacing())?;
        *engine.before.lock() = None;
        let end = lead.end;
        engine.set_header(|header| (header.life, header.from) = (life, end))?;
        lead.header = *engine.header.lock();
        engine.has_no_ring(None);
        engine.open_ring();
        engine.vitals.tell(EventKind::RingReplaced { from, to: engine.ring_bytes(), was_lost: is_lost });
        old.remove();
        Ok(())
    }
}

/// The ring that takes the place of the one that is used, if there is to be one.
fn another<F: Disk, R: Memory>(
    engine: &Engine<F, R>,
    old: &Cells<R>,
    is_lost: bool,
    larger: Larger<R>,
) -> Option<(R, Seat)> {
    // A pool whose file is gone needs no ring.
    let is_gone = engine.pool.is_gone();
    if let Larger::Waits(memory, seat) = larger {
        if !is_gone && !is_lost && memory.is_nameable() {
            return Some((memory, seat));
        }
        // Somebody has removed it, or moved the pool; or the name that it was to take is somebody else's by now.
        memory.remove();
    }
    if is_gone || !is_lost {
        return None;
    }
    match old.another(engine.ring.cells()) {
        Ok(made) => Some(made),
        // Nothing is lost: the process has all of it, and a close puts it into the pool's file.
        Err(error) => {
            engine.has_no_ring(Some(error));
            None
        }
    }
}
