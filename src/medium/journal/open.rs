//! Opening a journal: applying what a crash left, and beginning a new epoch (J6 to J8, J12, J20).

use super::Journal;
use super::budget::Share;
use super::disk::{self, Disk};
use super::engine::{Engine, Holes, JournalStat};
use super::frame::{Body, Frame, Mark, OnDisk, damaged, entries};
use super::head::{self, Belongs, RingOwner, note_failed};
use super::header::{Epoch, FIRST, Header, REGION, Seat};
use super::images::{ImagePlace, find};
use super::left::{Left, Recovered, Terms, reading, survey};
use super::log::{self, Frames};
use super::marker::{Marker, said};
use super::memory::Memory;
use super::ring::{Ring, take_left};
use super::rule::{Rule, holds};
use crate::error::{ErrorKind, Fault};
use std::io;

/// Makes the log of a closed pool that has none. The region has `len` bytes. Durable when it returns; the pool has no
/// journal before [`adopt`] says so.
pub(crate) fn create<F: Disk>(log: &F, uuid: [u64; 2], len: u64, salt: u64) -> io::Result<()> {
    disk::zero(0..REGION + len, |at, zeros| log.write(at, zeros))?;
    log.sync()?;
    // A header is what makes a log of a file. No earlier log had its number.
    Header::new(uuid, len, salt >> 8, salt).write(log)?;
    log.sync()
}

/// Whether a file is the log of the pool with this uuid.
pub(crate) fn is_log_of<F: Disk>(log: &F, uuid: [u64; 2]) -> bool {
    header(log, uuid).is_ok() || matches!(super::first::header(log, uuid), Ok(Some(_)))
}

/// Where the last process had its ring, if the log of the pool with this uuid was ever opened.
pub(super) fn seat<F: Disk>(log: &F, uuid: [u64; 2]) -> Result<Option<Seat>, Fault> {
    Ok(header(log, uuid)?.life.seat)
}

/// Whether a ring is the one that the log of the pool with this uuid asks for.
pub(super) fn is_ring_of<F: Disk, R: Memory>(ring: &R, log: &F, uuid: [u64; 2]) -> bool {
    let belongs =
        header(log, uuid).ok().zip(RingOwner::read(ring.words())).map(|(header, owner)| owner.belongs(&header));
    matches!(belongs, Some(Belongs::Now | Belongs::Next))
}

/// The offset of a copy of a log's header that is damaged, while the other one is whole.
pub(super) fn damaged_twin<F: Disk>(log: &F) -> io::Result<Option<u64>> {
    Header::read(log)?.map_or(Ok(None), |header| header.damaged_twin(log))
}

/// Whether a file is the log of some pool.
pub(crate) fn is_log<F: Disk>(log: &F) -> bool {
    let is_one = |header: io::Result<Option<Header>>| header.is_ok_and(|header| header.is_some());
    is_one(Header::read(log)) || is_one(Header::read_first(log))
}

/// Whether a file has no header yet, nor anything else in its place: it is left from a creation that was cut.
pub(crate) fn is_blank<F: Disk>(log: &F) -> io::Result<bool> {
    let mut head = vec![0; log.len()?.min(REGION) as usize];
    log.read(0, &mut head)?;
    Ok(head.iter().all(|&byte| byte == 0))
}

/// Whether a file is the log of the pool with this uuid, and has nothing that the pool's file could lack.
pub(crate) fn is_empty_log_of<F: Disk>(log: &F, uuid: [u64; 2]) -> bool {
    header(log, uuid).is_ok_and(|found| matches!(Frames::new(log, found, found.start).next(), Ok(None)))
}

/// Says in a closed pool that it has a journal, whose log is empty, and how it waits for the disk. Durable when it
/// returns.
pub(crate) fn adopt<F: Disk>(pool: &F, log: &F, uuid: [u64; 2], mode: Journal) -> Result<(), Fault> {
    let header = header(log, uuid)?;
    if Frames::new(log, header, header.start).next().map_err(reading())?.is_some() {
        return Err(damaged("it is not empty, though the pool has no journal yet"));
    }
    // All that the pool holds is in its file, so it needs neither this log nor any.
    let marker = Marker { settled: true, mode: said(mode), ..Marker::new(uuid, header.number, header.start.position) };
    marker.write_through(pool).map_err(Fault::io("write to the pool"))
}

/// The marker of a pool, for its log. A pool that was closed in order takes any log that was never used: the one that
/// it had was removed, and this one was made in its place.
pub(crate) fn fitting<F: Disk>(pool: &F, log: &F, marker: Marker) -> Result<Marker, Fault> {
    let header = header(log, marker.uuid)?;
    if !marker.settled || header.life.epoch > FIRST {
        return Ok(marker);
    }
    let fresh = Marker::new(marker.uuid, header.number, header.start.position);
    let marker = Marker { settled: true, mode: marker.mode, ..fresh };
    marker.write_through(pool).map_err(Fault::io("write to the pool"))?;
    Ok(marker)
}

/// What to do about a log that is not the pool's, or is none.
macro_rules! way_on {
    () => {
        ": bring the right one back, or restore a copy of pool and log; only if the pool was closed in order, it needs none: then move this \
         one away"
    };
}

/// The header of a log, if it belongs to the pool with this uuid.
fn header<F: Disk>(log: &F, uuid: [u64; 2]) -> Result<Header, Fault> {
    let header =
        Header::read(log).map_err(reading())?.ok_or_else(|| damaged(concat!("it has no valid header", way_on!())))?;
    if header.uuid != uuid {
        return Err(damaged(concat!("it is the log of another pool", way_on!())));
    }
    if log.len().map_err(reading())? < REGION + header.region.len {
        return Err(damaged(concat!("it is shorter than its header says", way_on!())));
    }
    Ok(header)
}

/// Whether a log, whose last position is known, goes with a pool file.
///
/// The number of a new log is random: one that was made for the same pool elsewhere may seem older or newer.
fn goes_with(header: &Header, marker: &Marker, end: u64) -> Result<(), Fault> {
    let is_other = !(header.number..=header.number + 1).contains(&marker.number);
    // A close writes the marker last, so both say the same, unless the newer header is damaged.
    let is_settled = marker.number == header.number && marker.applied == header.start.position;
    if if marker.settled { is_settled } else { !is_other && marker.applied <= end } {
        return Ok(());
    }
    Err(damaged(if marker.settled {
        "it does not go with the pool: it is damaged, or one of them is an old copy, or the pool was used under another name (a \
         hard link, or moved away and back) with another log; the pool was closed in order and needs no log, so if it is the one \
         that counts, move the log away"
    } else if is_other {
        "it does not go with the pool: one of them is an old copy, or the pool was used under another name (a hard link, or moved \
         away and back) with another log; the pool was not closed in order and needs the log that it was last used with, which \
         is beside that name"
    } else {
        "it lacks what the pool already has: it is damaged, or an old copy"
    }))
}

/// What an open needs to know, apart from the files.
pub(super) struct Opening<'o> {
    pub(super) terms: Terms,
    /// Tells the epoch that begins from all others: a number at random.
    pub(super) nonce: u64,
    /// What messages call the ring.
    pub(super) path: String,
    /// Where images are, and the budget of the private pages, of which an image and what was named since take a part.
    pub(super) images: Option<(&'o dyn ImagePlace, u64)>,
}

/// Opens the journal of a pool. `left` is the ring that the last process has left, if there is one. `renew` makes of it
/// the one that is used from now on, of which it tells the seat, when all that it has is in the log.
///
/// When it returns, the pool file shows what counts, and no later open will take back any of it.
pub(super) fn open<F: Disk, R: Memory>(
    (pool, mut marker): (F, Marker),
    log: F,
    left: Option<R>,
    opening: &Opening<'_>,
    renew: impl FnOnce(Option<R>) -> Result<(R, Seat), Fault>,
) -> Result<(Engine<F, R>, Recovered), Fault> {
    let writing = || Fault::io("write to the log");
    let found = header(&log, marker.uuid)?;
    let len = pool.len().map_err(Fault::io("inspect"))?;
    if holds(Rule::HeaderAgain) {
        // The cache may show what an error, or a kill, kept from the disk. Then only the other twin is there, and
        // frames must not be written to a place that it says is in use.
        noting(left.as_ref(), || found.write_again(&log).and_then(|()| log.sync()).map_err(writing()))?;
    }
    let again = |frame: &Frame<'_>| {
        has_entries(frame, len)?;
        if frame.head.mark.at >= found.from.at && holds(Rule::WriteAgain) {
            // The cache may show these, too, and they may not be on the disk.
            log::write(&log, found.region, frame.head.mark.at, frame.bytes).map_err(writing())?;
        }
        Ok(())
    };
    let survey = if marker.settled {
        settled(&found)
    } else {
        noting(left.as_ref(), || survey(&log, &found, (left.as_ref(), &opening.path), opening.terms, again))?
    };
    let Left { end, next, epoch, is_ring, recovered } = survey;
    goes_with(&found, &marker, next)?;
    let Terms { boot, .. } = opening.terms;
    let life = Epoch { epoch: epoch + 1, nonce: opening.nonce, seat: None, boot };
    let mut renew = Some(renew);
    let mut renewed = |left| renew.take().map_or(Err(ErrorKind::NotFound.into()), |renew| renew(left));
    // A ring that has nothing is made anew before, and any other one when the log has what it has.
    let (memory, seat) = match left {
        Some(ring) if is_ring => (ring, None),
        other => renewed(other).map(|(ring, seat)| (ring, Some(seat)))?,
    };
    // A pool that was closed in order asks for no ring until its marker is taken back, and then for the one that the
    // header names.
    let was_settled = marker.settled;
    let is_last = was_settled && holds(Rule::RingBeforeMarker);
    if holds(Rule::Unsettled) {
        // From now on the log has what the pool file lacks. Whatever the marker shows: it may not be what the disk has.
        marker.settled = false;
    }
    let take_back = |pool: &F, memory: &R| {
        noting(Some(memory), || marker.write_through(pool).map_err(Fault::io("write to the pool")))
    };
    if !is_last {
        take_back(&pool, &memory)?;
    }
    let marker = Marker { number: marker.number.max(found.number), ..marker };
    let ring = Ring::new(memory, found.life.nonce, end.position, next);
    let old = Engine::new((pool, len, marker), (log, found, end), found.start, ring);
    if let Some((_, budget)) = opening.images {
        old.private.is_within(Share::new(Some(budget), 0));
    }
    let end = old.lead(|leading| {
        leading.write_out(next, Holes::Skip)?;
        if holds(Rule::LogBeforePool) { leading.sync() } else { Ok(()) }
    })?;
    // Not before the sync (J12).
    old.apply(&mut old.applied.lock(), false)?;
    // A pool that was closed in order has close records, and what was named before counts for nothing.
    // Nor does an image count of what the log has lost.
    let image = found.image.filter(|image| !was_settled && (image.end <= end.at || !holds(Rule::ImageEnd)));
    let found_image = image.zip(opening.images).and_then(|(image, of)| find((&old.log, &found, end), image, of, len));
    old.header.lock().image = image.filter(|_| found_image.is_some());
    let engine = old.renew(end, life, |ring| match seat {
        Some(seat) => Ok((ring, seat)),
        None => renewed(Some(ring)),
    })?;
    engine.has_found(found_image);
    if is_last {
        take_back(&engine.pool, &engine.ring.memory())?;
    }
    Ok((engine, recovered))
}

/// What is left of a pool that was closed in order: nothing is asked of the log and of the ring.
fn settled(header: &Header) -> Left {
    let (end, epoch) = (header.start, header.life.epoch);
    Left { end, next: end.position, epoch, is_ring: false, recovered: Recovered::default() }
}

fn has_entries(frame: &Frame<'_>, len: u64) -> Result<(), Fault> {
    entries(frame.body(), len).try_for_each(|entry| entry.map(drop))
}

impl<F: Disk, R: Memory> Engine<F, R> {
    /// The journal in a new epoch, which begins at the end of the log (J7, J20).
    fn renew(
        mut self,
        end: Mark,
        life: Epoch,
        ring: impl FnOnce(R) -> Result<(R, Seat), Fault>,
    ) -> Result<Self, Fault> {
        let (before, marker, len) = (*self.header.get_mut(), self.applied.lock().marker, self.len());
        let Self { log, pool, ring: old, .. } = self;
        if !holds(Rule::NewEpoch) {
            let ring = Ring::new(old.into_memory(), before.life.nonce, end.position, end.position);
            return Ok(Self::new((pool, len, marker), (log, before, end), end, ring));
        }
        let (memory, seat) = ring(old.into_memory())?;
        let life = Epoch { seat: Some(seat), ..life };
        Ring::clear(&memory);
        let mut header = Header { life, from: end, ..before };
        // The ring before the header that names it, and changes after both.
        let said = || {
            let begin = || head::begin(&memory, &before, life, end.position).map_err(Fault::io("write to the ring"));
            if holds(Rule::RingBeforeHeader) {
                begin()?;
            }
            header.write(&log).map_err(Fault::io("write the log's header"))?;
            if holds(Rule::NewEpochSync) {
                log.sync().map_err(Fault::io("sync the log"))?;
            }
            if !holds(Rule::RingBeforeHeader) {
                begin()?;
            }
            Ok(())
        };
        noting(Some(&memory), said)?;
        // What the system shows was read from the disk, or written to it, since something failed (J30).
        note_failed(memory.words(), false);
        let ring = Ring::new(memory, life.nonce, end.position, end.position);
        ring.note(header.salt, OnDisk { synced: end.position, sequence: header.sequence });
        Ok(Self::new((pool, len, marker), (log, header, end), end, ring))
    }
}

/// Notes in the ring that the disk has failed, before anybody is told (J29).
fn noting<R: Memory, T>(ring: Option<&R>, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    work().inspect_err(|fault| {
        if let (Some(ring), ErrorKind::Io { .. }) = (ring, fault.kind()) {
            note_failed(ring.words(), true);
        }
    })
}

/// Calls `store` for each word that a closed pool's file lacks, and changes nothing: for looking at it. Tells how much
/// of the journal is in use.
pub(super) fn look<F: Disk, R: Memory>(
    (pool, marker): (&F, &Marker),
    log: &F,
    ring: Option<&R>,
    opening: &Opening<'_>,
    mut store: impl FnMut(u64, u64),
) -> Result<JournalStat, Fault> {
    let found = header(log, marker.uuid)?;
    if marker.settled {
        goes_with(&found, marker, found.start.position)?;
        let entries = found.start.position;
        return Ok(JournalStat { log: found.region.len, mode: marker.mode(), entries, ..JournalStat::default() });
    }
    let len = pool.len().map_err(Fault::io("inspect"))?;
    // Nothing is stored before it is known that all of it counts.
    let survey = survey(log, &found, (ring, &opening.path), opening.terms, |frame| has_entries(frame, len))?;
    goes_with(&found, marker, survey.next)?;
    let mut apply = |body: &[u8]| {
        entries(body, len).flatten().for_each(|(entry, words)| entry.store(words, &mut store));
    };
    let mut frames = Frames::new(log, found, found.start);
    while let Some(frame) = frames.next().map_err(reading())? {
        apply(frame.body());
    }
    let left = ring.filter(|_| survey.is_ring);
    if let Some(ring) = left {
        let mut body = Body::default();
        for position in survey.end.position..survey.next {
            body.clear();
            take_left(ring.words(), found.life.nonce, position, len, &mut body);
            apply(body.entries());
        }
    }
    Ok(JournalStat {
        log: found.region.len,
        mode: marker.mode(),
        used: survey.end.at - found.start.at,
        ring: left.map_or(0, |ring| ring.words().len() as u64 * 8),
        pending: survey.next - survey.end.position,
        entries: survey.next,
        recovered: survey.recovered,
        ..JournalStat::default()
    })
}
