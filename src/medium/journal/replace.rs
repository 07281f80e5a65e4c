//! Another ring for a pool that is open, whose ring has lost its name (J32).

use super::disk::Disk;
use super::engine::{Holes, Leading, Replaces};
use super::head;
use super::header::Epoch;
use super::memory::Memory;
use super::rule::{Rule, holds};
use crate::error::Fault;
use crate::random::random;

impl<F: Disk, R: Memory> Leading<'_, F, R> {
    /// Goes on with another ring if the next process would not find the one that is used. Then an epoch begins, as with
    /// an open.
    pub(super) fn replace_ring(&mut self, replaces: Replaces) -> Result<(), Fault> {
        let (engine, _) = self.parts();
        if replaces == Replaces::Not && holds(Rule::ReplacesAlone) {
            return Ok(());
        }
        // Of a pool that is gone itself nobody expects anything.
        if !engine.ring.memory().is_gone() || engine.pool.is_gone() {
            return Ok(());
        }
        let replacing = || Fault::io("replace the ring, which was removed");
        let (memory, seat) = match engine.ring.memory().another() {
            Ok(another) => another,
            // Nothing is lost: the process has all of it, and a close puts it into the pool's file.
            Err(error) => {
                engine.has_no_ring(Some(error));
                return Ok(());
            }
        };
        let shut = engine.shut_ring();
        // What the ring has that nobody finds is on the disk before another one is found.
        if holds(Rule::SyncedBeforeName) {
            self.write_out(shut, Holes::Wait)?;
            self.sync()?;
        }
        let (engine, lead) = self.parts();
        let before = *engine.header.lock();
        let life = Epoch { epoch: before.life.epoch + 1, nonce: random(), seat: Some(seat), ..before.life };
        let begun = head::begin(&memory, &before, life, lead.end.position);
        begun.and_then(|()| head::write_through(&memory)).map_err(replacing())?;
        engine.ring.replace(memory, life.nonce);
        // A failure that was not noted in this ring is seen here.
        engine.check().map_err(Fault::io("go on"))?;
        engine.ring.memory().name().map_err(replacing())?;
        let end = lead.end;
        engine.set_header(|header| (header.life, header.from) = (life, end))?;
        lead.header = *engine.header.lock();
        engine.has_no_ring(None);
        engine.open_ring();
        Ok(())
    }
}
