//! Another ring for a pool that is open, whose ring has lost its name (J32), or is too small (J33).

use super::disk::Disk;
use super::engine::{Engine, Holes, Leading, Replaces};
use super::head;
use super::header::{Epoch, Seat};
use super::memory::Memory;
use super::rule::{Rule, holds};
use crate::error::Fault;
use crate::random::random;

/// The ring that is about to take the place of another one.
enum Another<R> {
    /// A larger one, for a ring that the next process would find.
    Larger(R, Seat),
    /// One for a ring that the next process would not find.
    ForLost(R, Seat),
}

impl<F: Disk, R: Memory> Leading<'_, F, R> {
    /// Goes on with another ring if there is a larger one, or if the next process would not find the one that is used.
    /// Then an epoch begins, as with an open.
    pub(super) fn replace_ring(&mut self, replaces: Replaces) -> Result<(), Fault> {
        let (engine, _) = self.parts();
        if replaces == Replaces::Not && holds(Rule::ReplacesAlone) {
            return Ok(());
        }
        let Some(another) = another(engine) else { return Ok(()) };
        let is_lost = matches!(another, Another::ForLost(..));
        let (Another::Larger(memory, seat) | Another::ForLost(memory, seat)) = another;
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
        let old = engine.ring.memory();
        *engine.before.lock() = Some(std::sync::Arc::clone(&old));
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
        old.remove();
        Ok(())
    }
}

/// The ring that takes the place of the one that is used, if there is to be one.
fn another<F: Disk, R: Memory>(engine: &Engine<F, R>) -> Option<Another<R>> {
    let now = engine.ring.memory();
    let is_lost = now.is_gone();
    // Of a pool that is gone itself nobody expects anything.
    if engine.pool.is_gone() {
        return None;
    }
    // Nobody makes a larger one meanwhile.
    let mut larger = engine.larger.lock();
    match larger.take() {
        Some((memory, seat)) if memory.is_nameable() && is_lost => return Some(Another::ForLost(memory, seat)),
        Some((memory, seat)) if memory.is_nameable() => return Some(Another::Larger(memory, seat)),
        // Somebody has removed it, or moved the pool.
        Some((memory, _)) => memory.remove(),
        None => {}
    }
    if !is_lost {
        return None;
    }
    match now.another(engine.ring.cells()) {
        Ok((memory, seat)) => Some(Another::ForLost(memory, seat)),
        // Nothing is lost: the process has all of it, and a close puts it into the pool's file.
        Err(error) => {
            engine.has_no_ring(Some(error));
            None
        }
    }
}
