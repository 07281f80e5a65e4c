//! Images of trees: what they are, and what an open finds of the one that counts (`docs/images.md`). When one is made
//! is in `imaging.rs`.
//!
//! ```text
//! head     | "BRISIMAG" | uuid | uuid | number | words | CRC-32 of the words |
//! words    what the maker of images has made
//! ```

use super::disk::Disk;
use super::frame::{Mark, entries};
use super::header::{Header, ImageOfTrees};
use super::log::Frames;
use super::sealed::word;
use crate::medium::LINE;
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// "BRISIMAG".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISIMAG");
/// Words, and bytes, before what the maker has made.
const HEAD: usize = 6;
pub(super) const HEAD_BYTES: u64 = HEAD as u64 * 8;
/// How many lines are noted of a log at most.
const MOST: usize = 8 << 20;
/// How many words are written at a time.
const PIECE: usize = 16 << 10;

/// How many bytes an image may have, where private pages have such a budget. There are several copies of its parts
/// while it is made, or read (IM14).
pub(super) fn most_bytes(budget: u64) -> u64 {
    budget / 4
}

/// What makes images of the trees of a pool.
pub trait ImageMaker: Send + Sync {
    /// Makes one, if so many leaves as the trees have together are `worth` it. `at_rest` calls what it is given while
    /// no thread stores to the pool; it returns false if one always does.
    fn make(&self, worth: Range<u64>, at_rest: &dyn Fn(&mut dyn FnMut()) -> bool) -> Made;
}

/// What an attempt to make an image came to.
#[derive(Debug)]
pub enum Made {
    /// Its words.
    Image(Vec<u64>),
    /// The trees are small, or too large.
    NotWorthIt,
    /// There can be none at the moment: some thread stores all the time, say.
    NotNow,
}

/// An image that is to be written.
pub(super) struct NewImage {
    head: [u64; HEAD],
    words: Vec<u64>,
}

impl NewImage {
    pub(super) fn new(uuid: [u64; 2], number: u64, words: Vec<u64>) -> Self {
        let mut sum = crc32fast::Hasher::new();
        let added = each_piece(&words, |bytes| {
            sum.update(bytes);
            Ok(())
        });
        added.expect("adding does not fail");
        Self { head: [MAGIC, uuid[0], uuid[1], number, words.len() as u64, sealing(sum.finalize())], words }
    }

    /// Its bytes.
    pub(super) fn len(&self) -> u64 {
        HEAD_BYTES + self.words.len() as u64 * 8
    }

    /// Calls `write` with one piece after the other, and the offset of each.
    pub(super) fn write(&self, mut write: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut at = 0;
        each_piece(&self.head, |bytes| write(0, bytes))?;
        each_piece(&self.words, |bytes| {
            write(HEAD_BYTES + at, bytes)?;
            at += bytes.len() as u64;
            Ok(())
        })
    }
}

/// Calls `each` with the bytes of some words after the other.
fn each_piece(words: &[u64], mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(PIECE.min(words.len()) * 8);
    words.chunks(PIECE).try_for_each(|words| {
        bytes.clear();
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        each(&bytes)
    })
}

/// Where the image of a pool is kept.
pub(super) trait ImagePlace: Send + Sync {
    /// Puts an image into the place of the one before. On the disk when it returns.
    fn replace(&self, image: &NewImage) -> io::Result<()>;

    /// What is there, if `len` tells its length from its first [`HEAD_BYTES`] bytes.
    fn read(&self, len: &dyn Fn(&[u8]) -> Option<u64>) -> io::Result<Option<Vec<u8>>>;

    /// Removes the image of the pool, if there is one.
    fn remove(&self);
}

/// What images need of a journal.
#[derive(Default)]
pub(super) struct Images {
    pub(super) maker: Mutex<Option<Box<dyn ImageMaker>>>,
    /// No image is wanted any more.
    pub(super) is_over: AtomicBool,
    /// Where they are, and the budget of which they take a part.
    pub(super) place: OnceLock<(Box<dyn ImagePlace>, u64)>,
    /// Somebody was told that none can be made, and none was made since.
    pub(super) is_told: AtomicBool,
    /// Where the image was begun that is being made, as long as the log keeps that place (J42). It is set, and given up
    /// by the log, while the header is locked.
    pub(super) held: Mutex<Option<u64>>,
    /// Where the log has to end for the next one to be made.
    pub(super) due: AtomicU64,
    /// The bytes of the one that was made last.
    pub(super) bytes: AtomicU64,
    /// How many were made.
    pub(super) made: AtomicU64,
    /// After how many bytes of the log there is to be another one, if that was said.
    pub(super) every: OnceLock<u64>,
    pub(super) found: Mutex<Option<FoundImage>>,
}

/// The lines of the pool that were flushed since an image was begun, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct NamedLines(Vec<u64>);

impl NamedLines {
    fn new(mut offsets: Vec<u64>) -> Self {
        offsets.iter_mut().for_each(|at| *at = *at / LINE * LINE);
        offsets.sort_unstable();
        offsets.dedup();
        Self(offsets)
    }

    /// Adds lines by offsets in them.
    pub(crate) fn add(&mut self, offsets: impl Iterator<Item = u64>) {
        let mut all = std::mem::take(&mut self.0);
        all.extend(offsets);
        *self = Self::new(all);
    }

    /// The offsets of those that overlap some bytes.
    pub(crate) fn within(&self, bytes: Range<u64>) -> &[u64] {
        let first = self.0.partition_point(|&at| at + LINE <= bytes.start);
        let behind = self.0.partition_point(|&at| at < bytes.end);
        &self.0[first..behind.max(first)]
    }
}

/// An image that counts, and what was flushed since it was begun.
#[derive(Debug)]
pub struct FoundImage {
    pub(crate) words: Vec<u64>,
    pub(crate) named: NamedLines,
}

/// The image that a log with this header names, and what the log has named since, up to its end; `None` if that is more
/// than so many lines, or not all there.
pub(super) fn find<F: Disk>(
    (log, header, end): (&F, &Header, Mark),
    image: ImageOfTrees,
    (place, budget): (&dyn ImagePlace, u64),
    len: u64,
) -> Option<FoundImage> {
    let known = |head: &[u8]| {
        let (words, _) = decode_head(head, header.uuid, image.number)?;
        Some(HEAD_BYTES + words * 8).filter(|&bytes| bytes <= most_bytes(budget))
    };
    let words = decode(&place.read(&known).ok()??, header.uuid, image.number)?;
    // Lines are noted in eight bytes, and sorted.
    let most = usize::try_from(budget / 64).map_or(MOST, |lines| lines.min(MOST));
    let named = named_since(log, header, (image.kept, end), len, most)?;
    Some(FoundImage { words, named })
}

fn named_since<F: Disk>(
    log: &F,
    header: &Header,
    (from, end): (Mark, Mark),
    len: u64,
    most: usize,
) -> Option<NamedLines> {
    let mut frames = Frames::new(log, *header, from);
    let mut named = Vec::new();
    while frames.end().at < end.at {
        let frame = frames.next().ok()??;
        for entry in entries(frame.body(), len) {
            named.push(entry.ok()?.0.bytes().start / LINE * LINE);
        }
        if named.len() > most {
            named.sort_unstable();
            named.dedup();
            if named.len() > most / 2 {
                return None;
            }
        }
    }
    Some(NamedLines::new(named))
}

/// What an image says of the checksum of its words. Zeros say something else.
fn sealing(sum: u32) -> u64 {
    u64::from(sum) | 1 << 32
}

/// Whether these are the first bytes of an image of some pool, or of the one with this uuid.
pub(super) fn is_image(bytes: &[u8], uuid: Option<[u64; 2]>) -> bool {
    let is_of = |uuid: [u64; 2]| bytes.len() >= 24 && [word(&bytes[8..]), word(&bytes[16..])] == uuid;
    bytes.starts_with(&MAGIC.to_le_bytes()) && uuid.is_none_or(is_of)
}

/// How many words the image with this number has, and their checksum, from its first bytes.
fn decode_head(head: &[u8], uuid: [u64; 2], number: u64) -> Option<(u64, u64)> {
    let words: [u64; HEAD] = std::array::from_fn(|i| head.get(i * 8..i * 8 + 8).map_or(0, word));
    let is_it = words[..4] == [MAGIC, uuid[0], uuid[1], number] && words[4] < 1 << 48;
    is_it.then_some((words[4], words[5]))
}

/// The words of the image with this number.
fn decode(bytes: &[u8], uuid: [u64; 2], number: u64) -> Option<Vec<u64>> {
    let (head, body) = bytes.split_at_checked(HEAD_BYTES as usize)?;
    let is_whole = decode_head(head, uuid, number) == Some((body.len() as u64 / 8, sealing(crc32fast::hash(body))));
    is_whole.then(|| body.chunks_exact(8).map(word).collect())
}
