//! The header of the log, in two twins. The diagram is in `docs/journal.md`.

use super::disk::Disk;
use super::frame::Mark;
use super::sealed::{seal, unseal};
use std::io;

/// "BRISLOG1".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISLOG1");
const WORDS: usize = 14;
const BYTES: usize = WORDS * 8;
const TWINS: [u64; 2] = [0, 4096];
/// Where the region begins.
pub(super) const REGION: u64 = 8192;
/// The epoch of a log that was never opened.
pub(super) const FIRST: u64 = 1;
/// The least length of a region.
const LEAST: u64 = 4096;
/// No place in a log, and no position, is as high as this, whatever a file says: so sums do not overflow.
const HIGHEST: u64 = 1 << 60;

/// Where places in the log lie in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    /// A place at the region's beginning.
    pub(super) base: u64,
    /// Its length in bytes.
    pub(super) len: u64,
}

impl Region {
    /// How far behind the region's beginning a place lies.
    pub(super) fn offset(self, at: u64) -> u64 {
        at.wrapping_sub(self.base) % self.len
    }

    /// A region with more room in which everything from `start` to `end` lies where it is, if that is in one piece.
    pub(super) fn grown(self, start: u64, end: u64, len: u64) -> Option<Self> {
        let used = end - start;
        let offset = self.offset(start);
        (offset + used <= self.len).then_some(Self { base: start.wrapping_sub(offset), len })
    }
}

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    sequence: u64,
    pub(super) uuid: [u64; 2],
    pub(super) epoch: u64,
    /// Where the epoch begins.
    pub(super) from: Mark,
    /// Everything before is in the pool file.
    pub(super) start: Mark,
    pub(super) region: Region,
    /// The number of the checkpoint that moved `start` last.
    pub(super) number: u64,
    /// Chosen at random for each log. It is part of each frame's checksum: so nobody who chooses what the pool holds can
    /// choose it such that it looks like a frame.
    pub(super) salt: u64,
}

impl Header {
    /// The header of an empty log.
    pub(super) fn new(uuid: [u64; 2], len: u64, number: u64, salt: u64) -> Self {
        let (from, start) = (Mark::default(), Mark::default());
        Self { sequence: 1, uuid, epoch: FIRST, from, start, region: Region { base: 0, len }, number, salt }
    }

    /// The newer valid twin.
    pub(super) fn read<F: Disk>(file: &F) -> io::Result<Option<Self>> {
        let mut newest: Option<Self> = None;
        for at in TWINS {
            let mut bytes = [0; BYTES];
            if at + BYTES as u64 <= file.len()? {
                file.read(at, &mut bytes)?;
            }
            let found = Self::decode(&bytes).filter(|found| newest.is_none_or(|other| found.sequence > other.sequence));
            newest = found.or(newest);
        }
        Ok(newest)
    }

    /// Writes the twin that was read once more. The cache may show what an error kept from the disk, and then only the
    /// other twin is there, which the next [`write`](Self::write) replaces.
    pub(super) fn write_again<F: Disk>(&self, file: &F) -> io::Result<()> {
        file.write(TWINS[(self.sequence % 2) as usize], &self.encode())
    }

    /// Replaces the older twin. The caller syncs.
    pub(super) fn write<F: Disk>(&mut self, file: &F) -> io::Result<()> {
        self.sequence += 1;
        self.write_again(file)
    }

    fn encode(&self) -> [u8; BYTES] {
        let words = [
            MAGIC,
            self.sequence,
            self.uuid[0],
            self.uuid[1],
            self.epoch,
            self.from.at,
            self.from.position,
            self.start.at,
            self.start.position,
            self.region.base,
            self.region.len,
            self.number,
            self.salt,
            0,
        ];
        seal(words)
    }

    fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let words: [u64; WORDS] = unseal(bytes)?;
        let found = Self {
            sequence: words[1],
            uuid: [words[2], words[3]],
            epoch: words[4],
            from: Mark { at: words[5], position: words[6] },
            start: Mark { at: words[7], position: words[8] },
            region: Region { base: words[9], len: words[10] },
            number: words[11],
            salt: words[12],
        };
        let sane =
            [found.from.at, found.from.position, found.start.at, found.start.position, found.number, found.epoch]
                .iter()
                .all(|&word| word < HIGHEST);
        let region = found.region.len.is_multiple_of(8) && (LEAST..HIGHEST).contains(&found.region.len);
        (words[0] == MAGIC && sane && region && found.sequence < HIGHEST).then_some(found)
    }
}
