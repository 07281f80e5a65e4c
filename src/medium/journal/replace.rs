//! Another ring for a pool that is open, whose ring has lost its name (J32).

use super::disk::Disk;
use super::engine::{Holes, Leading, Replaces};
use super::head;
use super::header::Epoch;
use super::ring::Memory;
use super::rule::{Rule, holds};
use crate::error::Fault;
use crate::random::random;
use crate::sync::{Ordering, fence};

impl<F: Disk, R: Memory> Leading<'_, F, R> {
    /// Goes on with another ring if the next process would not find the one that is used. Then an epoch begins, as with an open.
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
        let (memory, seat) = engine.ring.memory().another().map_err(replacing())?;
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
        // A thread that notes a failure finds this ring, or is seen here.
        fence(Ordering::SeqCst);
        engine.check().map_err(Fault::io("go on"))?;
        engine.ring.memory().name().map_err(replacing())?;
        let end = lead.end;
        engine.set_header(|header| (header.life, header.from) = (life, end))?;
        lead.header = *engine.header.lock();
        engine.open_ring();
        Ok(())
    }
}
