//! Opening a journal: finding what a crash left, and beginning a new epoch (J6 to J8, J12).

use super::apply::damaged;
use super::disk::Disk;
use super::engine::{Engine, Holes, JournalStat};
use super::frame::{Body, HEAD, Mark, entries};
use super::header::{FIRST, Header, REGION};
use super::log::{self, Frames};
use super::marker::Marker;
use super::ring::{Memory, Owner, Ring};
use super::rule::{Rule, holds};
use crate::error::Fault;
use std::io;

/// Zeros are written in pieces of this size.
const PIECE: u64 = 1 << 20;

/// Makes the log of a closed pool that has none. The region has `len` bytes. Durable when it returns; the pool has no
/// journal before [`adopt`] says so.
pub(crate) fn create<F: Disk>(log: &F, uuid: [u64; 2], len: u64, salt: u64) -> io::Result<()> {
    zero(log, 0, REGION + len)?;
    log.sync()?;
    // A header is what makes a log of a file. Its number is not that of an earlier log.
    Header::new(uuid, len, salt >> 8, salt).write(log)?;
    log.sync()
}

/// Whether a file is the log of the pool with this uuid.
pub(crate) fn is_log_of<F: Disk>(log: &F, uuid: [u64; 2]) -> bool {
    header(log, uuid).is_ok()
}

/// Whether a file is the log of some pool.
pub(crate) fn is_log<F: Disk>(log: &F) -> bool {
    Header::read(log).is_ok_and(|header| header.is_some())
}

/// Whether a file is the log of the pool with this uuid, and no pool was ever opened with it.
pub(crate) fn is_new_log_of<F: Disk>(log: &F, uuid: [u64; 2]) -> bool {
    header(log, uuid).is_ok_and(|header| header.epoch == FIRST)
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

/// Says in a closed pool that it has a journal, whose log is empty. Durable when it returns.
pub(crate) fn adopt<F: Disk>(pool: &F, log: &F, uuid: [u64; 2]) -> Result<(), Fault> {
    let header = header(log, uuid)?;
    if Frames::new(log, header, header.start).next().map_err(reading())?.is_some() {
        return Err(damaged("it is not empty, though the pool has no journal yet"));
    }
    let marker = Marker::new(uuid, header.number, header.start.position);
    marker.write_through(pool).map_err(Fault::io("write to the pool"))
}

/// The marker of a pool, for its log. A pool that was closed in order takes any log that was never used: the one that it had was
/// removed, and this one was made in its place.
pub(crate) fn fitting<F: Disk>(pool: &F, log: &F, marker: Marker) -> Result<Marker, Fault> {
    let header = header(log, marker.uuid)?;
    if !marker.settled || header.epoch > FIRST {
        return Ok(marker);
    }
    let marker = Marker { settled: true, ..Marker::new(marker.uuid, header.number, header.start.position) };
    marker.write_through(pool).map_err(Fault::io("write to the pool"))?;
    Ok(marker)
}

/// Writes zeros, so that a sync need not tell the file system which bytes are in use.
pub(super) fn zero<F: Disk>(file: &F, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; PIECE.min(to - from) as usize];
    (from..to).step_by(PIECE as usize).try_for_each(|at| file.write(at, &zeros[..PIECE.min(to - at) as usize]))
}

/// The header of a log, if it is that of the pool with this uuid.
fn header<F: Disk>(log: &F, uuid: [u64; 2]) -> Result<Header, Fault> {
    let header = Header::read(log).map_err(reading())?.ok_or_else(|| damaged("it has no valid header"))?;
    if header.uuid != uuid {
        return Err(damaged("it is the log of another pool"));
    }
    if log.len().map_err(reading())? < REGION + header.region.len {
        return Err(damaged("it is shorter than its header says"));
    }
    Ok(header)
}

/// Whether a log, whose last position is known, goes with a pool file.
///
/// The number of a new log is random: one that was made for the same pool elsewhere may seem older or newer.
fn goes_with(header: &Header, marker: &Marker, end: u64) -> Result<(), Fault> {
    let is_other = !(header.number..=header.number + 1).contains(&marker.number);
    if !is_other && marker.applied <= end {
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

fn reading() -> impl FnOnce(io::Error) -> Fault {
    Fault::io("read the log")
}

/// Opens the journal of a pool. `ring` has what the last process left, or zeros.
///
/// When it returns, the pool file shows what counts, and no later open will take back any of it.
pub(crate) fn open<F: Disk, R: Memory>(
    (pool, mut marker): (F, Marker),
    log: F,
    ring: R,
    owner: Owner,
) -> Result<Engine<F, R>, Fault> {
    let writing = || Fault::io("write to the log");
    let found = header(&log, owner.uuid)?;
    let len = pool.len().map_err(Fault::io("inspect"))?;
    if holds(Rule::HeaderAgain) {
        // The cache may show what an error, or a kill, kept from the disk. Then only the other twin is there, and frames
        // must not be written to a place that it says is in use.
        found.write_again(&log).and_then(|()| log.sync()).map_err(writing())?;
    }
    let mut frames = Frames::new(&log, found, found.start);
    while let Some((head, frame)) = frames.next().map_err(reading())? {
        if entries(&frame[HEAD..], len).any(|entry| entry.is_none()) {
            return Err(damaged("it has an entry of no words of the pool"));
        }
        if head.mark.at >= found.from.at && holds(Rule::WriteAgain) {
            // The cache may show these, too, and they may not be on the disk.
            log::write(&log, found.region, head.mark.at, frame).map_err(writing())?;
        }
    }
    let end = frames.end();
    if end.at < found.from.at {
        return Err(damaged("a frame that was synced is damaged"));
    }
    let last = Ring::left(&ring, owner, found.epoch, end.position);
    let next = last.unwrap_or(end.position);
    goes_with(&found, &marker, next)?;
    if holds(Rule::Unsettled) {
        // From now on the log has what the pool file lacks. Whatever the marker shows: it may not be what the disk has.
        marker.settled = false;
        marker.write_through(&pool).map_err(Fault::io("write to the pool"))?;
    }
    if last.is_none() {
        Ring::clear(&ring);
    }
    marker.number = marker.number.max(found.number);
    let ring = Ring::new(ring, end.position, next);
    let old = Engine::new((pool, len, marker), (log, found, end), found.start, ring);
    let end = old.lead(|leading| {
        leading.write_out(next, Holes::Skip)?;
        if holds(Rule::LogBeforePool) { leading.sync() } else { Ok(()) }
    })?;
    // Not before the sync (J12).
    old.apply(&mut old.applied.lock(), false)?;
    old.renew(owner, end)
}

impl<F: Disk, R: Memory> Engine<F, R> {
    /// The same journal in a new epoch, which begins at the end of the log (J7).
    fn renew(mut self, owner: Owner, end: Mark) -> Result<Self, Fault> {
        if holds(Rule::NewEpoch) {
            self.set_header(|header| (header.epoch, header.from) = (header.epoch + 1, end))?;
        }
        let (header, marker, len) = (*self.header.get_mut(), self.applied.lock().marker, self.len());
        let Self { log, pool, ring, .. } = self;
        let ring = Ring::new(ring.into_memory(), end.position, end.position);
        // Cut before this: the ring is of an epoch that has ended, and all of it is in the log.
        ring.belongs_to(owner, header.epoch);
        Ok(Self::new((pool, len, marker), (log, header, end), end, ring))
    }
}

/// Calls `store` for each word that a closed pool's file lacks, and changes nothing: for looking at it. Tells how much of the
/// journal is in use.
pub(crate) fn look<F: Disk, R: Memory>(
    (pool, marker): (&F, &Marker),
    log: &F,
    ring: Option<&R>,
    owner: Owner,
    mut store: impl FnMut(u64, u64),
) -> Result<JournalStat, Fault> {
    let found = header(log, owner.uuid)?;
    if marker.settled {
        let entries = found.start.position;
        return Ok(JournalStat { log: found.region.len, entries, ..JournalStat::default() });
    }
    let len = pool.len().map_err(Fault::io("inspect"))?;
    let mut apply = |body: &[u8]| {
        entries(body, len).try_for_each(|entry| {
            let (entry, words) = entry.ok_or_else(|| damaged("it has an entry of no words of the pool"))?;
            let words = words.chunks_exact(8).map(super::frame::word);
            entry.words().zip(words).for_each(|(at, word)| store(at, word));
            Ok::<(), Fault>(())
        })
    };
    let mut frames = Frames::new(log, found, found.start);
    while let Some((_, frame)) = frames.next().map_err(reading())? {
        apply(&frame[HEAD..])?;
    }
    let end = frames.end();
    if end.at < found.from.at {
        return Err(damaged("a frame that was synced is damaged"));
    }
    let left = ring.and_then(|ring| Some((ring, Ring::left(ring, owner, found.epoch, end.position)?)));
    let next = left.map_or(end.position, |(_, next)| next);
    goes_with(&found, marker, next)?;
    if let Some((ring, next)) = left {
        let mut body = Body::default();
        (end.position..next).try_for_each(|position| {
            body.clear();
            Ring::look(ring, position, len, &mut body);
            apply(body.entries())
        })?;
    }
    let ring = left.map_or(0, |(ring, _)| ring.words().len() as u64 * 8);
    Ok(JournalStat {
        log: found.region.len,
        used: end.at - found.start.at,
        ring,
        pending: next - end.position,
        entries: next,
        ..JournalStat::default()
    })
}
