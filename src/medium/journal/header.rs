//! The header of the log, in two twins: the valid one with the higher sequence counts.
//!
//! ```text
//! 0        header, twin A
//! 4096     header, twin B
//! 8192     the region: frames, one after the other, around the end of the region to its beginning
//!
//! header   | "BRISLOG2" | sequence | uuid | uuid | epoch | from: at, position | start: at, position |
//!          | base | length of the region | number of the checkpoint | salt | nonce | seat of the ring | boot |
//!          | what an open must know: 0 | number of the image | kept: at, position | its end | CRC-32 |
//! ```

use super::disk::Disk;
use super::frame::{LogForm, Mark};
use super::sealed::{seal, unseal};
use std::io;

/// "BRISLOG2".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISLOG2");
/// That of the first form, "BRISLOG1".
const MAGIC_FIRST: u64 = u64::from_le_bytes(*b"BRISLOG1");
const WORDS: usize = 22;
/// The words that the two forms have in common.
const COMMON: usize = 13;
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

/// Where the ring of a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    /// In memory, not beside the pool.
    pub(crate) in_memory: bool,
    /// Tells it from files of others that had its name.
    pub(crate) number: u8,
}

impl Seat {
    /// 0: there is no ring yet.
    pub(super) fn encode(seat: Option<Self>) -> u64 {
        seat.map_or(0, |Self { in_memory, number }| 1 | u64::from(in_memory) << 1 | u64::from(number) << 8)
    }

    pub(super) fn decode(word: u64) -> Option<Option<Self>> {
        let seat = Self { in_memory: word & 2 != 0, number: (word >> 8) as u8 };
        if word == 0 { Some(None) } else { (Self::encode(Some(seat)) == word).then_some(Some(seat)) }
    }
}

/// An epoch: the life of one process that had the pool open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch {
    /// They are counted.
    pub(super) epoch: u64,
    /// Chosen at random, so that a ring and a log of different times are told apart (J20).
    pub(super) nonce: u64,
    /// Where its ring is.
    pub(super) seat: Option<Seat>,
    /// The boot of the machine; 0 where the system does not tell.
    pub(super) boot: u64,
}

/// The image of trees that counts (`docs/images.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImageOfTrees {
    /// Chosen at random, and never 0. The image has the same.
    pub(super) number: u64,
    /// Everything behind is in the log, as far as it was flushed since the image was begun.
    pub(super) kept: Mark,
    /// Everything that was flushed before the image ended lies before this place of the log.
    pub(super) end: u64,
}

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) form: LogForm,
    /// Each header has a higher one than the header before it.
    pub(super) sequence: u64,
    pub(super) uuid: [u64; 2],
    pub(super) life: Epoch,
    /// Where the epoch begins.
    pub(super) from: Mark,
    /// Everything before is in the pool file.
    pub(super) start: Mark,
    pub(super) region: Region,
    /// The number of the checkpoint that moved `start` last.
    pub(super) number: u64,
    /// Chosen at random for each log. It is part of each frame's checksum: so content of the pool cannot be chosen such
    /// that it looks like a frame.
    pub(super) salt: u64,
    pub(super) image: Option<ImageOfTrees>,
}

impl Header {
    /// The header of an empty log.
    pub(super) fn new(uuid: [u64; 2], len: u64, number: u64, salt: u64) -> Self {
        let (from, start) = (Mark::default(), Mark::default());
        let life = Epoch { epoch: FIRST, nonce: salt, seat: None, boot: 0 };
        Self {
            form: LogForm::Second,
            sequence: 1,
            uuid,
            life,
            from,
            start,
            region: Region { base: 0, len },
            number,
            salt,
            image: None,
        }
    }

    /// The place before which the log has nothing that anybody reads.
    pub(super) fn oldest(&self) -> u64 {
        self.image.map_or(self.start.at, |image| image.kept.at.min(self.start.at))
    }

    /// The newer valid twin.
    pub(super) fn read<F: Disk>(file: &F) -> io::Result<Option<Self>> {
        Self::newer(file, Self::decode)
    }

    /// The newer valid twin of a log of the first form.
    pub(super) fn read_first<F: Disk>(file: &F) -> io::Result<Option<Self>> {
        Self::newer(file, Self::decode_first)
    }

    fn newer<F: Disk, const BYTES: usize>(
        file: &F,
        decode: impl Fn(&[u8; BYTES]) -> Option<Self>,
    ) -> io::Result<Option<Self>> {
        let mut newest: Option<Self> = None;
        for at in TWINS {
            let mut bytes = [0; BYTES];
            if at + BYTES as u64 <= file.len()? {
                file.read(at, &mut bytes)?;
            }
            let found = decode(&bytes).filter(|found| newest.is_none_or(|other| found.sequence > other.sequence));
            newest = found.or(newest);
        }
        Ok(newest)
    }

    /// The offset of the other twin, if it is damaged. Before its first open, a log has one twin only.
    pub(super) fn damaged_twin<F: Disk>(&self, file: &F) -> io::Result<Option<u64>> {
        let at = TWINS[((self.sequence + 1) % 2) as usize];
        let mut bytes = [0; BYTES];
        file.read(at, &mut bytes)?;
        let is_new = self.life.epoch == FIRST && bytes == [0; BYTES];
        Ok((!is_new && Self::decode(&bytes).is_none()).then_some(at))
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
        // What an open must know is for builds to come.
        let mut words = [0; WORDS];
        words[..COMMON].copy_from_slice(&self.words(MAGIC));
        words[COMMON..][..3].copy_from_slice(&[self.life.nonce, Seat::encode(self.life.seat), self.life.boot]);
        if let Some(ImageOfTrees { number, kept, end }) = self.image {
            words[COMMON + 4..][..4].copy_from_slice(&[number, kept.at, kept.position, end]);
        }
        seal(words)
    }

    /// The words that the two forms have in common, as [`of`](Self::of) takes them.
    fn words(&self, magic: u64) -> [u64; COMMON] {
        let Self { form: _, sequence, uuid, life, from, start, region, number, salt, image: _ } = *self;
        [
            magic,
            sequence,
            uuid[0],
            uuid[1],
            life.epoch,
            from.at,
            from.position,
            start.at,
            start.position,
            region.base,
            region.len,
            number,
            salt,
        ]
    }

    fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let words: [u64; WORDS] = unseal(bytes)?;
        let life = Epoch { epoch: words[4], nonce: words[13], seat: Seat::decode(words[14])?, boot: words[15] };
        // A build that knows more says here what an open must know.
        let is_known = words[16] == 0;
        let found = Self::from_words(MAGIC, LogForm::Second, &words, life).filter(|_| is_known)?;
        let kept = Mark { at: words[18], position: words[19] };
        let image = ImageOfTrees { number: words[17], kept, end: words[20] };
        let lies_in_log = |at: u64| at < HIGHEST && at.abs_diff(found.start.at) <= found.region.len;
        let is_one = image.number != 0 && lies_in_log(kept.at) && kept.position < HIGHEST && image.end >= kept.at;
        Some(Self { image: Some(image).filter(|_| is_one), ..found })
    }

    fn decode_first(bytes: &[u8; 112]) -> Option<Self> {
        let words: [u64; 14] = unseal(bytes)?;
        let life = Epoch { epoch: words[4], nonce: 0, seat: None, boot: 0 };
        Self::from_words(MAGIC_FIRST, LogForm::First, &words, life)
    }

    /// What the two forms have in common.
    fn from_words(magic: u64, form: LogForm, words: &[u64], life: Epoch) -> Option<Self> {
        let found = Self {
            form,
            sequence: words[1],
            uuid: [words[2], words[3]],
            life,
            from: Mark { at: words[5], position: words[6] },
            start: Mark { at: words[7], position: words[8] },
            region: Region { base: words[9], len: words[10] },
            number: words[11],
            salt: words[12],
            image: None,
        };
        let sane = [found.from.at, found.from.position, found.start.at, found.start.position, found.number, life.epoch]
            .iter()
            .all(|&word| word < HIGHEST);
        let region = found.region.len.is_multiple_of(8) && (LEAST..HIGHEST).contains(&found.region.len);
        (words[0] == magic && sane && region && found.sequence < HIGHEST).then_some(found)
    }

    /// A header of the first form.
    #[cfg(all(test, not(bristlecone_loom)))]
    pub(super) fn encode_first(&self) -> [u8; 112] {
        let mut words = [0; COMMON + 1];
        words[..COMMON].copy_from_slice(&self.words(MAGIC_FIRST));
        seal(words)
    }
}
