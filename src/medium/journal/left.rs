//! What a process has left: where the log ends, and which cells of the ring count (J21, J23, J26).

use super::Journal;
use super::damage::{Beyond, behind, is_missing};
use super::disk::Disk;
use super::frame::{Frame, Mark};
use super::head::{Belongs, RingOwner, known};
use super::header::{FIRST, Header, Seat};
use super::log::Frames;
use super::memory::{self, Memory};
use super::ring::{Content, content};
use super::rule::{Rule, holds};
use crate::error::{ErrorKind, Fault};
use std::io;

/// How a pool with a journal is opened when what the last process left is not all there. See
/// [`Options::recovery`](crate::Options::recovery).
///
/// Each way on but the first gives something up for good: the pool is then as it was at one moment, and what came later
/// is gone. Nothing is given up that a way does not name, and [`JournalStat::recovered`](super::JournalStat::recovered)
/// says what was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Recovery {
    /// Everything that was acknowledged is there, or the open is refused.
    #[default]
    Whole,
    /// The ring is not there, or is another one's: the pool as it was at the last sync, or later. For
    /// [`ErrorKind::RingLost`](crate::ErrorKind::RingLost) and [`ErrorKind::Ring`](crate::ErrorKind::Ring).
    WithoutRing,
    /// The disk of the ring was away: what the ring has without a gap. For
    /// [`ErrorKind::RingUncertain`](crate::ErrorKind::RingUncertain).
    RingPrefix,
    /// The disk of the ring was there all the time, and what the ring lacks are changes that were under way: all that
    /// the ring has. For [`ErrorKind::RingUncertain`](crate::ErrorKind::RingUncertain).
    RingAll,
    /// The log ends where it is damaged, and the ring may be missing, too. For
    /// [`ErrorKind::LogDamaged`](crate::ErrorKind::LogDamaged); keep a copy of the log first.
    ShortLog,
}

/// Where the ring of a journal is. See [`Options::ring`](crate::Options::ring).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingPlace {
    /// A file beside the pool's, `NAME.ring`, which goes with it wherever it goes.
    Beside,
    /// A file in memory, in `/dev/shm`: the disk has nothing to write for it. It is lost with the machine, and with a
    /// container whose memory it is.
    InMemory,
}

/// How the journal of a pool is opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) recovery: Recovery,
    /// Where the ring is from now on; as before if nothing is said.
    pub(crate) ring: Option<RingPlace>,
    /// How the pool waits for the disk from now on; as before if nothing is said.
    pub(crate) mode: Option<Journal>,
    /// Whether opens and closes are not to wait for the disk, which a journal needs.
    pub(crate) is_unsynced: bool,
    /// What an earlier step of this open has done with the log of a pool that was here before.
    pub(crate) old_log: Option<OldLog>,
    /// How much memory private pages of the pool may take; a share of what the process has, if nothing is said.
    pub(crate) private_memory: Option<u64>,
}

impl Wanted {
    /// Whether a pool with a journal can be opened so.
    pub(crate) fn fits_a_journal(&self) -> Result<(), Fault> {
        if self.mode == Some(Journal::None) {
            return Err(ErrorKind::JournalThere { has: true }.into());
        }
        if self.is_unsynced {
            let what = "a pool with a journal waits for the disk when it is opened and closed, so it has Options::sync \
                        (without it: Journal::None), which is 1";
            return Err(ErrorKind::InvalidOption { what, given: 0 }.into());
        }
        Ok(())
    }
}

/// What an open found of a process that did not close the pool in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Entries that only the ring had, and that are in the pool now.
    pub from_ring: u64,
    /// Entries that threads had not completed when they were killed: of changes that never returned.
    pub incomplete: u64,
    /// Entries of the ring that do not count, because others before them did not reach the disk before a loss of power;
    /// or because they were given up.
    pub given_up: u64,
    /// The ring was not there, or was given up: what was flushed and not synced is lost.
    pub without_ring: bool,
    /// Entries that the log is known to have had, and that were given up with [`Recovery::ShortLog`].
    pub lost: u64,
    /// The offset, in the log, of a copy of its header that was damaged. The other one was whole. An open for writing
    /// has written it anew.
    pub damaged_twin: Option<u64>,
    /// What was done with the log of another pool that lay where the pool's log is to be: of the one that was here
    /// before this one took its place.
    pub old_log: Option<OldLog>,
}

/// What an open has done with the log of a pool that was here before, and with its ring. See
/// [`Recovered::old_log`](Recovered::old_log).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldLog {
    /// Both were removed: their pool was closed in order, or never opened with them, so it needs neither.
    Removed,
    /// Both were renamed, because their pool may need them: `.old-` and this number are behind their names. If that
    /// pool was moved away, they belong beside it; if it is gone, they can be removed.
    Kept {
        /// The number.
        number: u32,
    },
}

/// What is known of the machine, and what the caller wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// The boot of the machine; 0 where the system does not tell.
    pub(super) boot: u64,
    pub(super) recovery: Recovery,
}

/// What log and ring come to.
pub(super) struct Left {
    /// Where the log ends.
    pub(super) end: Mark,
    /// The positions of the ring from there on count up to here.
    pub(super) next: u64,
    /// No frame of a later epoch is in the log.
    pub(super) epoch: u64,
    /// Whether the ring belongs to the epoch, so that its cells may count.
    pub(super) is_ring: bool,
    pub(super) recovered: Recovered,
}

pub(super) fn reading() -> impl FnOnce(io::Error) -> Fault {
    Fault::io("read the log")
}

/// Reads a log, with `each` frame of it, and the ring that goes with it, if there is one.
pub(super) fn survey<F: Disk, R: Memory>(
    log: &F,
    header: &Header,
    (ring, path): (Option<&R>, &str),
    terms: Terms,
    mut each: impl FnMut(&Frame<'_>) -> Result<(), Fault>,
) -> Result<Left, Fault> {
    let mut frames = Frames::new(log, *header, header.start);
    while let Some(frame) = frames.next().map_err(reading())? {
        each(&frame)?;
    }
    let end = frames.end();
    let is_short = terms.recovery == Recovery::ShortLog;
    if end.at < header.from.at && !is_short {
        // Before it, all frames were on the disk.
        let lost = Beyond { position: header.from.position };
        return Err(lost.fault(header, end));
    }
    let mut left =
        Left { end, next: end.position, epoch: header.life.epoch, is_ring: false, recovered: Recovered::default() };
    // Where the log is damaged, the ring need not be there either.
    let (ring, refused) = match find_ring(header, (ring, path), terms) {
        Err(fault) if is_short => (None, Some(fault)),
        found => (found?, None),
    };
    left.recovered.without_ring = ring.is_none() && header.life.seat.is_some();
    let mut beyond = None;
    let (mut cells, mut is_witnessed) = (LEAST, false);
    if let Some((ring, owner, belongs)) = ring {
        let words = ring.words();
        (cells, is_witnessed) = (memory::cells(words.len()), ring.is_witnessed());
        let known = match known(words, header.salt) {
            // A disk may have none of it yet.
            None if is_witnessed => return Err(unusable(path, "what it says of the log is damaged")),
            known => known.unwrap_or_default(),
        };
        left.epoch = left.epoch.max(owner.epoch);
        beyond = is_missing(known, header, end);
        if belongs == Belongs::Next {
            // Nothing of it counts, because the header that names it comes after it, and changes after that.
            let filled = |&position: &u64| content(words, owner.nonce, position) == Content::Filled;
            let last = (end.position..end.position + cells).rfind(filled);
            beyond = beyond.or(last.map(|last| Beyond { position: last + 1 }));
        } else if beyond.is_none() || is_short {
            count(words, (owner, path), terms, is_witnessed, &mut left)?;
        }
    }
    // A ring whose pages the last process left says what was synced, and not less.
    if beyond.is_none() && !is_witnessed || is_short {
        let frame = behind(log, header, end, cells).map_err(reading())?;
        if let Some((_, epoch)) = frame {
            left.epoch = left.epoch.max(epoch);
        }
        beyond = beyond.or(frame.map(|(beyond, _)| beyond));
    }
    match beyond {
        Some(beyond) if !is_short => Err(beyond.fault(header, end)),
        Some(beyond) => {
            left.recovered.lost = beyond.position.saturating_sub(left.next);
            Ok(left)
        }
        // The first open of a log writes another header before the marker is taken back: so there was one.
        None if header.life.epoch == FIRST && !is_short => Err(Beyond { position: end.position }.fault(header, end)),
        None => refused.map_or(Ok(left), Err),
    }
}

/// The least cells of a ring that there may have been.
const LEAST: u64 = 1 << 16;

fn unusable(path: &str, found: &'static str) -> Fault {
    ErrorKind::Ring { path: path.to_owned(), found }.into()
}

/// The ring that goes with a log, if there is one.
fn find_ring<'r, R: Memory>(
    header: &Header,
    (ring, path): (Option<&'r R>, &str),
    terms: Terms,
) -> Result<Option<(&'r R, RingOwner, Belongs)>, Fault> {
    let Some(seat) = header.life.seat.filter(|_| terms.recovery != Recovery::WithoutRing) else { return Ok(None) };
    let Some(ring) = ring else {
        let is_other_boot = terms.boot != header.life.boot || terms.boot == 0;
        // What lies in memory ends with the boot. The name of a file beside the pool was on the disk.
        let Seat { in_memory, .. } = seat;
        return if in_memory && is_other_boot || !holds(Rule::RingLost) {
            Ok(None)
        } else {
            Err(ErrorKind::RingLost { path: path.to_owned() }.into())
        };
    };
    let Some(owner) = RingOwner::read(ring.words()) else {
        return Err(unusable(path, "it does not say whose it is: it is damaged, or something else"));
    };
    match owner.belongs(header) {
        Belongs::Foreign => Err(unusable(path, "it is the ring of another pool")),
        Belongs::OtherTime => {
            Err(unusable(path, "it is of another time than the log: one of the two, or the pool, is an old copy"))
        }
        belongs => Ok(Some((ring, owner, belongs))),
    }
}

/// Counts the cells behind the end of the log, of the ring that is its own (J23).
fn count(
    words: &[crate::sync::AtomicU64],
    (owner, path): (RingOwner, &str),
    terms: Terms,
    is_witnessed: bool,
    left: &mut Left,
) -> Result<(), Fault> {
    let first = left.end.position;
    let contents: Vec<Content> =
        (first..first + memory::cells(words.len())).map(|position| content(words, owner.nonce, position)).collect();
    let filled = |contents: &[Content]| contents.iter().filter(|&&content| content == Content::Filled).count() as u64;
    let prefix = contents.iter().position(|&content| content != Content::Filled).unwrap_or(contents.len());
    let all = contents.iter().rposition(|&content| content == Content::Filled).map_or(0, |last| last + 1);
    let holes = &contents[prefix..all];
    let is_same_boot = terms.boot != 0 && owner.boot == terms.boot;
    let uncertain = || {
        Err(ErrorKind::RingUncertain { path: path.to_owned(), certain: prefix as u64, behind: filled(holes) }.into())
    };
    let counted = match terms.recovery {
        Recovery::RingAll => all,
        Recovery::RingPrefix | Recovery::ShortLog => prefix,
        // Each cell is one that a thread has left.
        _ if is_witnessed && holds(Rule::Witness) => {
            if contents.contains(&Content::Damaged) {
                return uncertain();
            }
            all
        }
        // A cell that lacks may be that of a thread that was killed, or one that a disk which was taken out does not
        // have.
        _ if is_same_boot && !holes.is_empty() && holds(Rule::Gap) => return uncertain(),
        _ if is_same_boot || !holds(Rule::Prefix) => all,
        // After a loss of power, any of the cells may lack: what has no gap is a moment of the pool.
        _ => prefix,
    };
    let is_counted = &contents[..counted];
    left.next = first + counted as u64;
    left.is_ring = true;
    left.recovered.from_ring = filled(is_counted);
    left.recovered.incomplete = counted as u64 - filled(is_counted);
    left.recovered.given_up = filled(&contents[counted..]);
    Ok(())
}
