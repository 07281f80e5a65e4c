//! Private pages go back to the page cache: those whose content a checkpoint has put into the pool file, and synced
//! (J34 to J37).
//!
//! A page that goes shows what the file holds, which is what it showed before. No thread has stored to it that has not
//! flushed (the gate of the windows is shut), no entry names it that is not in the file, on the disk (`private.rs`, and
//! the cells of the ring), and it is compared with the file besides. The next store makes it private again.

use super::budget::Share;
use super::disk::Disk;
use super::engine::Engine;
use super::memory::Memory;
use super::pages::Pages;
use super::private::PAGE;
use super::rule::{Rule, holds};
use crate::sync::delay::delay;
use crate::sync::sleep;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How many pages are looked at behind one shut gate, at least and at most: as many as go in the time for which it is
/// shut.
const PAGES: [usize; 2] = [16, 512];
/// The longest time for which pages go behind a shut gate.
const BEHIND: Duration = Duration::from_micros(200);
/// How long windows are waited for at first, and at most.
const PATIENCE: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(5)];
/// How often windows are waited for before the pages are left for later.
const TRIES: u32 = 8;
/// When they are looked at again then.
const LATER: Duration = Duration::from_millis(20);
/// For so long pages go before the job looks for something else to do.
const AT_ONCE: Duration = Duration::from_millis(10);
/// How much longer the gate is open than it was shut.
const OPEN: u32 = 10;
/// How many adjacent pages are compared at a time.
const RUN: u64 = 64;

/// What an attempt came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    /// Pages below this one have gone, or stay for now; for how long the gate was shut.
    Done { next: u64, shut: Duration },
    /// Windows stay open, or somebody changes the length.
    Busy,
    /// The system does not show the file again.
    Refused,
}

impl<F: Disk, R: Memory> Engine<F, R> {
    /// Lets pages go until half of the budget is free, as far as that can be. Returns when to look again. Called by one
    /// thread at a time, after a checkpoint; after a sync, too, if changes are slowed.
    pub(crate) fn evict(&self) -> Option<Instant> {
        let (Some(pages), Some(share)) = (self.pages.get(), self.private.share()) else { return None };
        // What may turn out to be of no use below has slowed changes before.
        let budget = share.limit();
        let later = if share.is_much() { self.evict_many(&**pages, share) } else { None };
        if self.check().is_err() {
            // Nothing goes any more, and the pool will be closed.
            share.is_of_no_use();
        }
        // Where nothing goes because windows stay open, nobody waits for that.
        let is_slowed = share.is_used_up() && !self.is_held.load(Relaxed);
        self.windows.set_full(is_slowed);
        self.vitals.slowed(self.windows.slowed(), budget);
        later.or_else(|| is_slowed.then(|| Instant::now() + LATER))
    }

    fn evict_many(&self, pages: &dyn Pages, share: &Share) -> Option<Instant> {
        let ([mut patience, longest], [mut count, most]) = (PATIENCE, PAGES);
        let (began, mut tries, mut has_wrapped) = (Instant::now(), 0, false);
        while share.is_half() && self.check().is_ok() {
            let from = self.hand.load(Relaxed);
            let candidates = self.private.shown_from(from, count);
            if candidates.is_empty() {
                if from == 0 || has_wrapped {
                    return None;
                }
                has_wrapped = true;
                self.hand.store(0, Relaxed);
                continue;
            }
            // As long as it is shut if nothing can go.
            let mut was_shut = patience;
            match self.evict_some(pages, candidates, patience) {
                Eviction::Done { next, shut } => {
                    (tries, patience, was_shut) = (0, PATIENCE[0], shut);
                    count = if shut < BEHIND { (count * 2).min(most) } else { (count / 2).max(PAGES[0]) };
                    self.is_held.store(false, Relaxed);
                    self.hand.store(next, Relaxed);
                }
                Eviction::Busy if tries < TRIES => {
                    tries += 1;
                    patience = (patience * 2).min(longest);
                }
                Eviction::Busy => {
                    self.is_held.store(true, Relaxed);
                    return Some(Instant::now() + LATER);
                }
                Eviction::Refused => {
                    share.is_of_no_use();
                    return None;
                }
            }
            if !share.is_used_up() {
                self.windows.set_full(false);
                sleep(was_shut * OPEN);
            }
            if began.elapsed() >= AT_ONCE {
                return Some(Instant::now());
            }
        }
        None
    }

    /// Lets those of the candidates go that the file shows, behind a shut gate.
    pub(super) fn evict_some(&self, pages: &dyn Pages, candidates: Vec<u64>, patience: Duration) -> Eviction {
        let (mut candidates, mut done, mut stays) = (candidates, Eviction::Busy, None);
        // Behind the gate, where others wait, nothing is to wait for the disk.
        let there = candidates.partition_point(|&page| page < self.len() / PAGE);
        for (run, ..) in runs(pages, &candidates[..there]) {
            if let Err(error) = self.pool.read(run.start, &mut vec![0; (run.end - run.start) as usize]) {
                self.vitals.pages_stay(&error);
                return Eviction::Done { next: run.end / PAGE, shut: Duration::ZERO };
            }
        }
        let is_done = pages.with_length(&mut || {
            // Locks: `growing`, then the gate, then nothing for which a thread in a window may wait (J35).
            let Some(_shut) = self.windows.shut(patience) else { return };
            let since = Instant::now();
            let next = self.evict_shown(pages, &mut candidates, &mut stays);
            done = next.map_or(Eviction::Refused, |next| Eviction::Done { next, shut: since.elapsed() });
        });
        stays.iter().for_each(|error| self.vitals.pages_stay(error));
        if is_done { done } else { Eviction::Busy }
    }

    /// The page behind those that were looked at; `None` if the system refuses. `stays`: why a page did not go.
    fn evict_shown(&self, pages: &dyn Pages, candidates: &mut Vec<u64>, stays: &mut Option<io::Error>) -> Option<u64> {
        let next = candidates.last().map_or(0, |last| last + 1);
        // First: what a sync takes out of the ring meanwhile is in the sets by then.
        let until = self.private.until();
        let mut is_named = vec![false; candidates.len()];
        // Nobody fills cells meanwhile.
        for at in self.ring.offsets(until) {
            if let Ok(index) = candidates.binary_search(&(at / PAGE)) {
                is_named[index] = holds(Rule::NamedInRing);
            }
        }
        let (mut is_named, whole) = (is_named.into_iter(), self.len() / PAGE);
        candidates.retain(|&page| is_named.next() == Some(false) && page < whole);
        self.private.keep_shown(candidates);
        // After a failure, nothing is known of what the file will show (J36).
        if self.check().is_err() && holds(Rule::EvictedAfterFailure) {
            return Some(next);
        }
        let since = Instant::now();
        for (run, these, keeps) in runs(pages, candidates) {
            match self.evict_run(pages, &run, these, keeps) {
                Err(error) => {
                    // The memory is locked, and cannot be let go. Otherwise the disk does not give what the file has,
                    // or the system has no memory for another mapping.
                    let is_refused = error.kind() == io::ErrorKind::InvalidInput;
                    *stays = Some(error);
                    return (!is_refused).then_some(next);
                }
                Ok(()) if since.elapsed() >= BEHIND => return Some(run.end / PAGE),
                Ok(()) => {}
            }
        }
        Some(next)
    }

    /// Lets pages of a run of units go that show what the file does. The others are not counted any more: they are few,
    /// and an entry that names them counts them again.
    fn evict_run(&self, pages: &dyn Pages, run: &Range<u64>, these: &[u64], keeps: bool) -> io::Result<()> {
        let mut bytes = vec![0; (run.end - run.start) as usize];
        self.pool.read(run.start, &mut bytes)?;
        let goes = |page: u64| {
            let bytes = &bytes[(page * PAGE - run.start) as usize..][..PAGE as usize];
            these.binary_search(&page).is_ok() && (pages.shows(page * PAGE, bytes) || !is_compared())
        };
        let all = || run.start / PAGE..run.end / PAGE;
        let gone = if keeps {
            let kept: Vec<u64> = all().filter(|&page| !goes(page)).map(|page| page * PAGE).collect();
            delay();
            pages.show_file(run.clone(), &kept)?;
            all().count() - kept.len()
        } else {
            let in_unit = |page: u64| {
                let (unit, _) = pages.unit(page * PAGE);
                unit.start / PAGE..unit.end / PAGE
            };
            let mut gone = 0;
            let mut from = all().start;
            while from < all().end {
                let mut to = from;
                while to < all().end && in_unit(to).all(goes) {
                    to = in_unit(to).end;
                }
                if to > from {
                    delay();
                    pages.show_file(from * PAGE..to * PAGE, &[])?;
                    self.is_shown(pages, from * PAGE, &bytes[(from * PAGE - run.start) as usize..][..PAGE as usize])?;
                }
                gone += (to - from) as usize;
                from = to.max(in_unit(from).end);
            }
            gone
        };
        self.counts.evicted.fetch_add(gone as u64, Relaxed);
        self.private.remove(these.iter().copied());
        Ok(())
    }

    /// Looks once at a page that has gone. There may be file systems whose mappings do not show what was written: then
    /// it is put back, and none goes any more.
    fn is_shown(&self, pages: &dyn Pages, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.counts.evicted.load(Relaxed) == 0 && !pages.shows(at, bytes) && is_compared() {
            pages.put(at, bytes);
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(())
    }
}

/// Whether a page that goes is compared with the file. Where a rule is left out, that would hide it.
fn is_compared() -> bool {
    [Rule::NamedInLog, Rule::NamedInRing, Rule::EvictedAfterFailure].into_iter().all(holds)
}

/// What of the candidates is compared at a time: the pages from first to last, which of them are candidates, and
/// whether the others of the unit are kept.
fn runs<'c>(pages: &dyn Pages, candidates: &'c [u64]) -> impl Iterator<Item = (Range<u64>, &'c [u64], bool)> {
    let mut rest = candidates;
    std::iter::from_fn(move || {
        let &first = rest.first()?;
        let (unit, keeps) = pages.unit(first * PAGE);
        let run = if keeps { unit } else { run(rest, unit, |at| pages.unit(at)) };
        let (these, others) = rest.split_at(rest.partition_point(|page| page * PAGE < run.end));
        rest = others;
        Some((run, these, keeps))
    })
}

/// The adjacent units that begin with this one, all of whose pages are wanted, as many as are compared at a time; or
/// that unit.
fn run(wanted: &[u64], first: Range<u64>, unit: impl Fn(u64) -> (Range<u64>, bool)) -> Range<u64> {
    let mut run = first;
    while run.end < run.start + RUN * PAGE
        && wanted.binary_search(&(run.end / PAGE)).is_ok()
        && let (next, false) = unit(run.end)
    {
        run.end = next.end;
    }
    run
}
