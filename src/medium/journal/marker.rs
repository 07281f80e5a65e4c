//! The marker: what the pool file says about its journal. It is no part of the pool's content, so it can be read before
//! the log is applied. Its invariants, J14 to J16, are in `docs/journal.md`.
//!
//! ```text
//! 1024   | "BRISMARK" | uuid | uuid | number of the checkpoint | applied | settled 1, 0: 7, mode 56 | CRC-32 |
//! mode     | 0: nothing was said 1: each 2: on request 3: every so many µs, 48 bits |
//! ```

use super::Journal;
use super::disk::Disk;
use super::sealed::{seal, unseal};
use crate::error::Fault;
use std::io;
use std::ops::Range;
use std::time::Duration;

/// "BRISMARK".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISMARK");
const WORDS: usize = 7;
const BYTES: usize = WORDS * 8;
/// The sector of the marker; no entry of a log names a word in it.
pub(super) const PLACE: Range<u64> = 1024..1536;
/// Where it begins: a word other than zero, if there is one.
pub(crate) const MARKER: u64 = PLACE.start;

const EACH: u64 = 1;
const ON_REQUEST: u64 = 2;
const EVERY: u64 = 3;

/// What a marker says of how a pool waits for the disk.
pub(super) fn said(mode: Journal) -> u64 {
    // The longest time is nine years.
    let micros = |time: Duration| time.as_micros().clamp(1, (1 << 48) - 1) as u64;
    match mode {
        Journal::None => 0,
        Journal::Each => EACH,
        Journal::OnRequest => ON_REQUEST,
        Journal::Every(time) => EVERY | micros(time) << 8,
    }
}

/// What the pool file says about its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) uuid: [u64; 2],
    /// The number of the last checkpoint that was begun.
    pub(super) number: u64,
    /// Nothing at this position, or behind it, was ever applied to the pool file.
    pub(super) applied: u64,
    /// The pool file has everything, so the pool needs no log.
    pub(super) settled: bool,
    /// How the pool waits for the disk, as [`said`] writes it.
    pub(super) mode: u64,
}

impl Marker {
    /// A marker for a pool that has a journal from now on.
    pub(super) fn new(uuid: [u64; 2], number: u64, applied: u64) -> Self {
        Self { uuid, number, applied, settled: false, mode: 0 }
    }

    /// A marker for a pool that is whole in its file, and gets its log when it is opened, as a backup.
    pub(crate) fn without_log(uuid: [u64; 2], mode: Journal) -> Self {
        Self { settled: true, mode: said(mode), ..Self::new(uuid, 0, 0) }
    }

    /// Whether the pool file has everything.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Whether no log was ever made for the pool: the number of each log is random.
    pub(super) fn had_no_log(&self) -> bool {
        self.settled && self.number == 0 && self.applied == 0
    }

    /// How the pool waits for the disk, if nobody says otherwise.
    pub(super) fn mode(&self) -> Journal {
        match self.mode & 0xff {
            ON_REQUEST => Journal::OnRequest,
            EVERY => Journal::Every(Duration::from_micros(self.mode >> 8)),
            // Builds that remembered nothing waited for each change; and so does a build that does not know the mode.
            _ => Journal::Each,
        }
    }

    /// The marker, if the file has one.
    pub(crate) fn read<F: Disk>(pool: &F) -> io::Result<Option<Self>> {
        if pool.len()? < PLACE.end {
            return Ok(None);
        }
        let mut bytes = [0; BYTES];
        pool.read(PLACE.start, &mut bytes)?;
        Ok(Self::decode(&bytes))
    }

    /// Replaces the marker: it is in one sector, so a cut leaves the old one or the new one. The caller syncs.
    pub(super) fn write<F: Disk>(&self, pool: &F) -> io::Result<()> {
        pool.write(PLACE.start, &self.encode())
    }

    /// Replaces the marker on the disk.
    pub(crate) fn write_through<F: Disk>(&self, pool: &F) -> io::Result<()> {
        pool.write_through(PLACE.start, &self.encode())
    }

    /// Makes sure that the disk says what the marker shows, of a pool that was closed: its process may have been killed
    /// before that. From then on no log is needed.
    pub(super) fn confirm<F: Disk>(&self, pool: &F) -> Result<(), Fault> {
        self.write_through(pool).map_err(Fault::io("write to the pool"))
    }

    /// Removes the marker. The caller syncs.
    pub(crate) fn remove<F: Disk>(pool: &F) -> io::Result<()> {
        pool.write(PLACE.start, &[0; BYTES])
    }

    fn encode(&self) -> [u8; BYTES] {
        let settled = u64::from(self.settled) | self.mode << 8;
        let words = [MAGIC, self.uuid[0], self.uuid[1], self.number, self.applied, settled, 0];
        seal(words)
    }

    fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let words: [u64; WORDS] = unseal(bytes)?;
        let (settled, mode) = (words[5] & 1 == 1, words[5] >> 8);
        let found = Self { uuid: [words[1], words[2]], number: words[3], applied: words[4], settled, mode };
        (words[0] == MAGIC).then_some(found)
    }
}
