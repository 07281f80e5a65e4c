//! Frames: what a sync writes to the log. Which frames count is in `docs/journal.md`, J6 and J24 to J26.
//!
//! ```text
//! frame    | at 8 | position 8 | positions 32, bytes 32 | epoch 8 | synced 8 | sequence 8 |
//!          | CRC-32 of the salt, of these and of the body 8 | body |
//! body     | where 8, words |  for each entry
//! ```

use super::marker::PLACE;
use super::sealed::word;
use crate::error::{ErrorKind, Fault};
use std::ops::Range;

/// The words that one flush names of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogEntry {
    at: u64,
    /// From 1 to 8.
    count: u64,
}

impl LogEntry {
    /// The `count` words from offset `at` on, which are in one line.
    #[inline]
    pub(super) fn new(at: u64, count: u64) -> Self {
        Self { at, count }
    }

    #[inline]
    pub(super) fn encode(self) -> u64 {
        self.at >> 3 | self.count << 48
    }

    /// The entry that a word of a log or a ring names, if it lies in `len` bytes and in one line.
    pub(super) fn decode(word: u64, len: u64) -> Option<Self> {
        let entry = Self { at: (word & ((1 << 48) - 1)) << 3, count: word >> 48 };
        let within = entry.at / 8 % 8 + entry.count <= 8 && entry.count > 0 && !PLACE.contains(&entry.at);
        (within && entry.at + entry.count * 8 <= len).then_some(entry)
    }

    /// How many words an entry has that is encoded so, whatever it is.
    pub(super) fn count_of(word: u64) -> usize {
        (word >> 48) as usize
    }

    /// The offsets of the words.
    #[inline]
    pub(super) fn words(self) -> impl Iterator<Item = u64> {
        (self.at..).step_by(8).take(self.count as usize)
    }

    /// Calls `store` for each word, whose bytes these are.
    pub(super) fn store(self, words: &[u8], mut store: impl FnMut(u64, u64)) {
        self.words().zip(words.chunks_exact(8).map(word)).for_each(|(at, word)| store(at, word));
    }

    /// The bytes of the pool that it names.
    pub(super) fn bytes(self) -> Range<u64> {
        self.at..self.at + self.count * 8
    }
}

/// A place in the log, and the position of the first entry behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) at: u64,
    pub(super) position: u64,
}

/// Which form a log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogForm {
    /// That of builds before this one, which is read and given up.
    First,
    /// That which is written.
    Second,
}

impl LogForm {
    /// Bytes of a frame before its body.
    pub(super) fn head(self) -> usize {
        match self {
            Self::First => 40,
            Self::Second => HEAD,
        }
    }
}

/// Bytes of a frame before its body.
pub(super) const HEAD: usize = 56;
/// Bytes that an entry takes at most.
pub(super) const ENTRY: usize = 72;
/// How many positions a frame has at most; few in tests, so that a sync writes several frames.
pub(super) const POSITIONS: u64 = if cfg!(test) { 4 } else { 8192 };

/// What is known to be on the disk: each is a lower bound (J24, J25).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OnDisk {
    /// All positions below this one are in the log.
    pub(super) synced: u64,
    /// The sequence of the header.
    pub(super) sequence: u64,
}

/// A frame that is being made.
#[derive(Default)]
pub(super) struct Body {
    bytes: Vec<u8>,
}

impl Body {
    /// Starts anew.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEAD, 0);
    }

    /// Adds an entry, as a ring has it. What names no words of one line of a pool of `len` bytes is left out: it is
    /// damage, and would be damage of the log.
    pub(super) fn push(&mut self, entry: u64, len: u64, words: impl Iterator<Item = u64>) {
        if let Some(known) = LogEntry::decode(entry, len) {
            self.bytes.extend_from_slice(&entry.to_le_bytes());
            words.take(known.count as usize).for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
        }
    }

    /// Adds any word.
    #[cfg(all(test, not(bristlecone_loom)))]
    pub(super) fn push_word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// Completes a frame that begins at a mark and has so many positions, in an epoch, when so much was on the disk.
    pub(super) fn frame(&mut self, mark: Mark, positions: u32, epoch: u64, known: OnDisk, salt: u64) -> &[u8] {
        let body = (self.bytes.len() - HEAD) as u64;
        let head = [mark.at, mark.position, u64::from(positions) | body << 32, epoch, known.synced, known.sequence];
        for (bytes, word) in self.bytes.chunks_exact_mut(8).zip(head) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc(&self.bytes, HEAD, salt);
        self.bytes[HEAD - 8..HEAD].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }

    /// The entries so far.
    pub(super) fn entries(&self) -> &[u8] {
        &self.bytes[HEAD..]
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// What the head of a frame says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    form: LogForm,
    pub(super) mark: Mark,
    pub(super) positions: u32,
    /// Bytes of the body.
    pub(super) body: u32,
    pub(super) epoch: u64,
    /// What was on the disk when it was written; nothing is known in the first form.
    pub(super) known: OnDisk,
}

impl Head {
    /// From the first bytes of a frame, as many as its form has.
    pub(super) fn decode(bytes: &[u8], form: LogForm) -> Self {
        let word = |i: usize| word(&bytes[i * 8..]);
        let known = match form {
            LogForm::First => OnDisk::default(),
            LogForm::Second => OnDisk { synced: word(4), sequence: word(5) },
        };
        Self {
            form,
            mark: Mark { at: word(0), position: word(1) },
            positions: word(2) as u32,
            body: (word(2) >> 32) as u32,
            epoch: word(3),
            known,
        }
    }

    /// Bytes of the frame.
    pub(super) fn len(&self) -> u64 {
        self.form.head() as u64 + u64::from(self.body)
    }

    /// Where the frame ends.
    pub(super) fn end(&self) -> Mark {
        Mark { at: self.mark.at + self.len(), position: self.mark.position + u64::from(self.positions) }
    }

    /// Whether the frame may be one: it has positions, and no more than a sync gives it, so that nobody can ask for
    /// more memory than that takes.
    pub(super) fn is_sane(&self) -> bool {
        let body = u64::from(self.body);
        self.positions > 0 && body.is_multiple_of(8) && body <= POSITIONS * ENTRY as u64
    }
}

/// A frame that was read.
pub(super) struct Frame<'f> {
    pub(super) head: Head,
    pub(super) bytes: &'f [u8],
}

impl<'f> Frame<'f> {
    /// Its entries; see [`entries`].
    pub(super) fn body(&self) -> &'f [u8] {
        &self.bytes[self.head.form.head()..]
    }

    /// Whether it has the checksum that it says.
    pub(super) fn is_whole(&self, salt: u64) -> bool {
        let head = self.head.form.head();
        crc(self.bytes, head, salt) == word(&self.bytes[head - 8..])
    }
}

/// The entries of a frame's body, of a pool of `len` bytes, with the bytes of their words. What is no entry is an
/// error, and the last item.
pub(super) fn entries(mut body: &[u8], len: u64) -> impl Iterator<Item = Result<(LogEntry, &[u8]), Fault>> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        let next = (|| {
            let (head, rest) = body.split_at_checked(8)?;
            let entry = LogEntry::decode(word(head), len)?;
            let (words, rest) = rest.split_at_checked(entry.count as usize * 8)?;
            Some(((entry, words), rest))
        })();
        let item;
        (item, body) = next.map_or((None, &[][..]), |(item, rest)| (Some(item), rest));
        Some(item.ok_or_else(|| damaged("it has an entry of no words of the pool")))
    })
}

/// The error of a log that has what no log has. Its path is known where it was found.
pub(super) fn damaged(found: &'static str) -> Fault {
    ErrorKind::Log { path: String::new(), found }.into()
}

/// A checksum of a frame with a head of so many bytes, without the word that holds it. Zeros have another one.
fn crc(frame: &[u8], head: usize, salt: u64) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&frame[..head - 8]);
    hasher.update(&frame[head..]);
    u64::from(hasher.finalize()) | 1 << 32
}
