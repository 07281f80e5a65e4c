//! The commit of a transaction.

use super::backoff::Backoff;
use super::{End, Transaction};
use crate::error::{ErrorKind, Fault, Result};
use crate::medium::{Medium, Step};
use crate::node::shadow::Version;
use crate::pool::lists::Room;
use crate::pool::naming::Naming;
use crate::pool::patience::Patience;
use crate::sync::delay::{Validation, is_left_out};
use crate::sync::{Ordering, fence};
use crate::tree::AnyPart;
use std::cell::Cell;

/// After so many lost rounds, the leaves that were read are locked, too.
const PATIENCE: u32 = if cfg!(bristlecone_loom) { 1 } else { 12 };

/// How many times in all a transaction that reads compares leaves once more because one has changed.
pub(super) const PASSES: u32 = if cfg!(any(bristlecone_loom, bristlecone_delays)) { 1 } else { 12 };

/// The most reads that are compared at each further read. With more, a transaction takes a snapshot instead.
pub(super) const MANY: usize = 1000;

impl<'t, M: Medium> Transaction<'t, M> {
    /// Makes all writes at once, if everything that was read is still as it was read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`], [`ErrorKind::OutOfSpace`], [`ErrorKind::ReadOnly`], [`ErrorKind::Forked`],
    /// [`ErrorKind::Corrupt`]; those of [changes of names](Self::rename_tree). In these cases no entry has changed. If
    /// there was no space, leaves may have been split: they stay so, and take space until keys of theirs are removed,
    /// or the tree is dropped. [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// In a full pool, this waits for readers, for some seconds at most; as long as another reader exists that has
    /// begun on this thread, for milliseconds. Meanwhile, any change of a leaf that it has read is a conflict, in trees
    /// with records. What other changes have taken that are under way counts as used, and so does what open snapshots
    /// see.
    ///
    /// # Complexity
    ///
    /// Without writes, nothing. With a single write, as the plain change. With more, whatever their number: three
    /// fences, one more if there are records, and one more beyond 24 words; a word takes a third of a line in the list
    /// and its own line. A new entry has two words, another value or a removal one. Leaves without room are split
    /// first, as for plain inserts. Beyond 24 words, there must be free segments of 16 bytes for each word, next to
    /// each other: so even many removals at once may fail for want of space.
    ///
    /// A name that changes has two words, and one for each eight bytes of it; a tree that is dropped has one.
    /// Meanwhile, no tree is opened, created or closed, and no snapshot is opened.
    ///
    /// The leaves that are written to are locked from before the first fence until after the last one.
    ///
    /// With [`Journal::Each`](crate::Journal::Each), one `fdatasync` more, which all threads that wait share; also
    /// without writes, if what others have changed is not on the disk yet.
    ///
    /// # Crash consistency
    ///
    /// Durable when it returns. In flight at a crash: all writes, or none.
    pub fn commit(mut self) -> Result<()> {
        self.commit_within(&mut Patience::default())
    }

    /// Commits; `patience` says how long the transaction has waited for space before.
    pub(super) fn commit_within(&mut self, patience: &mut Patience) -> Result<()> {
        let pool = self.pool;
        pool.durably(|| self.commit_all(patience))
    }

    fn commit_all(&mut self, patience: &mut Patience) -> Result<(), Fault> {
        self.goes_on()?;
        let writes = self.writes();
        if writes == 0 && self.names.is_empty() {
            // X1: the reads were true at the moment of the last one.
            return Ok(());
        }
        self.pool.writable()?;
        if self.moment.take().is_some() {
            // Since then, the leaves have hardly been looked at.
            self.pass()?;
        }
        self.pool.limit_snapshots();
        self.parts.sort_by_key(|part| part.part().slot());
        let mut again = false;
        loop {
            match self.write_all(writes, again) {
                Err(fault) if fault.is_out_of_space() => self.wait_for_space(patience, fault)?,
                done => return done,
            }
            again = true;
        }
    }

    /// Makes all writes, if there is space for them now; `again` says that the thread has waited for it.
    fn write_all(&mut self, writes: usize, again: bool) -> Result<(), Fault> {
        if self.write_records(again)? {
            // A slot that becomes durable must not point to a record that is not.
            self.pool.medium.fence(Step::RecordWrite);
        }
        if writes == 1 && self.names.is_empty() { self.change() } else { self.change_together(Backoff::new()) }
    }

    fn write_records(&mut self, again: bool) -> Result<bool, Fault> {
        let mut any = false;
        for part in &mut self.parts {
            any |= part.part_mut().write_records(again)?;
        }
        Ok(any)
    }

    /// Waits for space. Two transactions that wait for what the other one keeps would both wait in vain, and one that
    /// keeps what it waits for would, too. So this one keeps nothing meanwhile.
    ///
    /// # Errors
    ///
    /// `fault`, if there is nothing to hope for. [`Conflict`](ErrorKind::Conflict) if something else was found, or if a
    /// leaf has changed meanwhile: the same word may name another record then.
    #[cold]
    fn wait_for_space(&mut self, patience: &mut Patience, fault: Fault) -> Result<(), Fault> {
        // What has changed before is compared while that is known.
        self.pass()?;
        self.parts.iter_mut().for_each(|part| part.part_mut().let_go_of_space());
        self.pool.wait_for_space(patience, fault)?;
        if self.parts.iter_mut().all(|part| part.part_mut().hold_again()) {
            Ok(())
        } else {
            Err(self.ends(ErrorKind::Conflict.into()))
        }
    }

    /// Reads again what was read in leaves that have changed since. Returns true if there were any: then what was read
    /// was still there, but perhaps not all of it at once.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if something else was found.
    pub(super) fn pass(&mut self) -> Result<bool, Fault> {
        let mut any = false;
        for part in &mut self.parts {
            match part.part_mut().refresh() {
                Ok(found) => any |= found,
                Err(fault) => return Err(self.ends(fault)),
            }
        }
        Ok(any)
    }

    /// Makes sure that all that was read was true at one moment of this call (X1): that of a pass that finds no leaf
    /// changed; or, if there are many, or others write to these leaves all the time, the instant of a snapshot.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if something else was found, and if there is no memory for such a snapshot.
    pub(super) fn refresh(&mut self) -> Result<(), Fault> {
        if !self.has_expired && self.reads() > MANY {
            self.lost = PASSES;
        }
        for _ in 0..2 {
            while self.lost < PASSES {
                if !self.pass()? {
                    return Ok(());
                }
                self.lost += 1;
            }
            if self.stand_still()? {
                return Ok(());
            }
            (self.lost, self.has_expired) = (0, true);
        }
        Err(self.ends(ErrorKind::Conflict.into()))
    }

    /// Compares all that was read with a snapshot, and keeps that for the reads to come. Returns false if it expired
    /// meanwhile.
    fn stand_still(&mut self) -> Result<bool, Fault> {
        let moment = self.pool.moment()?;
        // Only now: what was just read may be about to change again.
        self.moment = None;
        for part in &self.parts {
            match part.part().was_so_at(moment.instant, true) {
                _ if moment.is_expired() => return Ok(false),
                Ok(true) => {}
                Ok(false) => return Err(self.ends(ErrorKind::Conflict.into())),
                Err(fault) => return Err(self.ends(fault)),
            }
        }
        self.moment = Some(moment);
        Ok(true)
    }

    /// Whether what was read last, in the part with this number, was the same at the moment at which all earlier reads
    /// were true.
    pub(super) fn was_so(&mut self, number: usize) -> Result<bool, Fault> {
        let Some(moment) = &self.moment else { return Ok(false) };
        // A forked child must not wait for a lock.
        self.pool.owned()?;
        let was_so = self.parts[number].part().was_so_at(moment.instant, false);
        let was_so = if is_left_out(Validation::Moment) { Ok(true) } else { was_so };
        if moment.is_expired() {
            self.has_expired = true;
            return Ok(false);
        }
        was_so.map_err(|fault| self.ends(fault))
    }

    /// From here on, what was read may not fit together.
    pub(super) fn ends(&mut self, fault: Fault) -> Fault {
        self.end = Some(End::after(&fault));
        fault
    }

    fn is_valid(parts: &[AnyPart<'_>], held: &[(u64, Version)]) -> bool {
        let is_fenced = Cell::new(false);
        let others = || {
            if !is_fenced.replace(true) {
                // X2: between locking and the look at what others may have locked.
                fence(Ordering::SeqCst);
            }
        };
        parts.iter().all(|part| part.part().is_valid(held, &others)) || is_left_out(Validation::Reads)
    }

    /// The only write.
    fn change(&mut self) -> Result<(), Fault> {
        let number = self.parts.iter().position(|part| part.part().writes() > 0).expect("there is a write");
        let has_read = self.reads() > 0;
        let mut backoff = Backoff::new();
        for _ in 0..PATIENCE {
            let parts = &self.parts[..];
            if let Some(old) = parts[number].part().change(&|leaf| !has_read || Self::is_valid(parts, &[leaf]))? {
                self.parts[number].part_mut().changed(old);
                return Ok(());
            }
            backoff.wait();
            self.pass()?;
        }
        self.change_together(backoff)
    }

    fn change_together(&mut self, mut backoff: Backoff) -> Result<(), Fault> {
        let (mut room, newest, naming) = loop {
            // Before any leaf is locked, and before the look for the newest snapshot: none is opened until the names
            // have changed.
            let naming = if self.names.is_empty() { None } else { Some(self.naming()?) };
            match self.lock(naming.as_ref(), backoff.tries() >= PATIENCE) {
                Ok(Some((room, newest))) => break (room, newest, naming),
                Ok(None) => self.unlock(false),
                Err(fault) => {
                    self.unlock(false);
                    return Err(fault);
                }
            }
            drop(naming);
            self.parts.iter_mut().try_for_each(|part| part.part_mut().wait())?;
            backoff.wait();
            self.pass()?;
        };
        // Before anything changes, and before the commit: it allocates.
        self.parts.iter().for_each(|part| part.part().freeze(newest));
        for part in &mut self.parts {
            part.part_mut().defer(&mut room.words);
        }
        room.words.extend(naming.iter().flat_map(Naming::words));
        room.commit();
        self.unlock(true);
        naming.into_iter().for_each(Naming::done);
        Ok(())
    }

    /// Locks the names that are to change.
    fn naming(&mut self) -> Result<Naming<'t, M>, Fault> {
        self.pool.naming(&self.names).or_else(|fault| {
            // A name that is not there may follow from something that was read and has changed since: that is a
            // conflict.
            self.refresh()?;
            Err(fault)
        })
    }

    /// Locks all leaves that are to be written to, validates what was read, and finds room for the words that change.
    /// Returns that room, and the instant of the newest snapshot, which does not see this transaction. `None` if a leaf
    /// is not to be had, or if one has changed: then, as after an error, nothing may stay locked.
    ///
    /// If `reads`, the leaves that were read are locked, too. Then it does not matter whether others write to them all
    /// the time, as long as they write other keys.
    fn lock(&mut self, naming: Option<&Naming<'_, M>>, reads: bool) -> Result<Option<(Room<'t, M>, u64)>, Fault> {
        // With the names locked, nothing is waited for.
        let mut may_wait = naming.is_none();
        for part in self.parts.iter_mut().filter(|part| part.part().writes() > 0) {
            if !part.part_mut().lock(may_wait)? {
                return Ok(None);
            }
            may_wait = false;
        }
        // Before the look at what was read: what changes there after it is seen by no snapshot that does not see this.
        let mut newest = self.pool.instants.newest();
        let mut is_valid = true;
        if self.reads() > 0 {
            let mut held = Vec::new();
            self.parts.iter().for_each(|part| part.part().held(&mut held));
            held.sort_unstable_by_key(|&(at, _)| at);
            is_valid = Self::is_valid(&self.parts, &held);
        }
        if !is_valid && reads {
            is_valid = true;
            for part in &mut self.parts {
                is_valid = is_valid && part.part_mut().guard()?;
            }
            // What was read may have changed, and changed back, until it was locked.
            newest = self.pool.instants.newest();
            for part in &self.parts {
                is_valid = is_valid && part.part().is_same()?;
            }
        }
        if !is_valid {
            return Ok(None);
        }
        let words: usize = self.parts.iter().map(|part| part.part().words()).sum();
        let names = naming.map_or(0, |naming| naming.words().count());
        Ok(Some((self.pool.room_for(words + names)?, newest)))
    }

    /// Unlocks all leaves, and only then does what may wait for one.
    fn unlock(&mut self, done: bool) {
        self.parts.iter_mut().for_each(|part| part.part_mut().unlock(done));
        self.parts.iter_mut().for_each(|part| part.part_mut().tidy());
    }
}
