//! Images of trees: when one is made, and what an open finds of the one that counts (`docs/images.md`).
//!
//! ```text
//! head     | "BRISIMAG" | uuid | uuid | number | words | CRC-32 of the words |
//! words    what the maker of images has made
//! ```

use super::disk::Disk;
use super::engine::Engine;
use super::frame::{Mark, entries};
use super::header::{Header, ImageOfTrees};
use super::log::Frames;
use super::memory::Memory;
use super::rule::{Rule, holds};
use super::sealed::word;
use crate::medium::LINE;
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// "BRISIMAG".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISIMAG");
/// Words, and bytes, before what the maker has made.
const HEAD: usize = 6;
pub(super) const HEAD_BYTES: u64 = HEAD as u64 * 8;
/// An image is made when the log since the one before has at least so many bytes; few in tests.
const LEAST: u64 = if cfg!(test) { 256 } else { 4 << 20 };
/// An image is made if trees have so many leaves together: a walk of fewer takes a millisecond.
const WORTH: u64 = if cfg!(test) { 0 } else { 1000 };
/// After how many bytes of the log an image is made; 0: after four times its own bytes. Without it, none is made.
const VARIABLE: &str = "BRISTLECONE_IMAGE_EVERY";
/// An image takes at most one in so many bytes of what is written anyway.
const SHARE: u64 = 4;
/// How much longer it takes to the next image, if there could be none.
const LATER: u64 = if cfg!(test) { 1 } else { 8 };
/// How long windows are waited for at first, how often, and how much longer the gate is open in between.
const PATIENCE: Duration = Duration::from_micros(500);
const TRIES: u32 = 4;
const OPEN: u32 = 10;
/// How many lines are noted of a log at most.
pub(super) const MOST: usize = 8 << 20;

/// What makes images of the trees of a pool.
pub trait ImageMaker: Send + Sync {
    /// Makes one, if the trees have as many leaves together as are `worth` it. `at_rest` calls what it is given while
    /// no thread stores to the pool; it returns false if one always does.
    fn make(&self, worth: u64, at_rest: &dyn Fn(&mut dyn FnMut()) -> bool) -> Made;
}

/// What an attempt to make an image came to.
#[derive(Debug)]
pub enum Made {
    /// Its words.
    Image(Vec<u64>),
    /// The trees are small, or there can be none of them at the moment.
    NotWorthIt,
    /// Some thread stores all the time.
    NeverAtRest,
}

/// Where the image of a pool is kept.
pub(super) trait ImagePlace: Send + Sync {
    /// Puts an image into the place of the one before. On the disk when it returns.
    fn replace(&self, bytes: &[u8]) -> io::Result<()>;

    /// What is there, if `len` tells its length from its first [`HEAD_BYTES`] bytes.
    fn read(&self, len: &dyn Fn(&[u8]) -> Option<u64>) -> io::Result<Option<Vec<u8>>>;

    /// Removes the image of the pool, if there is one.
    fn remove(&self);
}

/// What images need of a journal.
#[derive(Default)]
pub(super) struct Images {
    maker: Mutex<Option<Box<dyn ImageMaker>>>,
    /// No image is wanted any more.
    is_over: AtomicBool,
    place: OnceLock<Box<dyn ImagePlace>>,
    /// Where the log has to end for the next one to be made.
    due: AtomicU64,
    /// The bytes of the one that was made last.
    bytes: AtomicU64,
    /// How many were made.
    made: AtomicU64,
    /// The number that [`VARIABLE`] names.
    every: OnceLock<u64>,
    found: Mutex<Option<FoundImage>>,
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
    (place, most): (&dyn ImagePlace, usize),
    len: u64,
) -> Option<FoundImage> {
    let known = |head: &[u8]| decode_head(head, header.uuid, image.number).map(|(words, _)| HEAD_BYTES + words * 8);
    let bytes = place.read(&known).ok()??;
    let words = decode(&bytes, header.uuid, image.number)?;
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

impl<F: Disk, R: Memory> Engine<F, R> {
    /// Has images made by this from now on, or by nobody. Waits for one that is being made.
    pub(crate) fn set_image_maker(&self, maker: Option<Box<dyn ImageMaker>>) {
        self.images.is_over.store(maker.is_none(), Ordering::Release);
        *self.images.maker.lock() = maker;
    }

    /// Keeps images there from now on.
    pub(super) fn keeps_images(&self, place: Box<dyn ImagePlace>) {
        let _ = self.images.place.set(place);
        // Without one that counts, soon.
        let next = self.images.bytes.load(Ordering::Relaxed).saturating_mul(SHARE).max(LEAST);
        let due = self.header.lock().image.map_or(0, |image| image.kept.at + next);
        self.images.due.store(due, Ordering::Relaxed);
    }

    /// Has images made as the environment says.
    pub(super) fn makes_images_as_forced(&self) -> io::Result<()> {
        let Some(said) = std::env::var_os(VARIABLE) else { return Ok(()) };
        let bytes = said.to_str().and_then(|said| said.parse().ok());
        let wrong = || format!("{VARIABLE} is '{}', and must be a number of bytes", said.display());
        let every = bytes.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, wrong()))?;
        let _ = self.images.every.set(every);
        self.images.due.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Notes what an open has found of the image that counts.
    pub(super) fn has_found(&self, image: Option<FoundImage>) {
        let bytes = image.as_ref().map_or(0, |image| image.words.len() as u64 * 8);
        self.images.bytes.store(bytes, Ordering::Relaxed);
        *self.images.found.lock() = image;
    }

    /// What was found of the image that counts. Once.
    pub(crate) fn take_image(&self) -> Option<FoundImage> {
        self.images.found.lock().take()
    }

    /// Removes the image, which nobody needs any more.
    pub(super) fn remove_image(&self) {
        self.images.place.get().iter().for_each(|place| place.remove());
    }

    /// How many bytes of the log are wanted, so that it has room for what is named between two images.
    pub(super) fn wanted_for_images(&self) -> u64 {
        self.images.bytes.load(Ordering::Relaxed) * SHARE * 2
    }

    /// Whether an image should be made where the log ends at a place.
    pub(super) fn wants_image(&self, end: u64) -> bool {
        let is_asked_for = cfg!(test) || self.images.every.get().is_some();
        is_asked_for && end >= self.images.due.load(Ordering::Relaxed) && self.images.place.get().is_some()
    }

    /// Makes an image of the trees, if it is time for that. Called by one thread at a time. What fails leaves the image
    /// before, or none.
    pub(crate) fn make_image(&self) -> io::Result<()> {
        let Images { maker, is_over, place, due, bytes, made, every, .. } = &self.images;
        let Some(place) = place.get() else { return Ok(()) };
        let maker = maker.lock();
        let Some(maker) = &*maker else { return Ok(()) };
        // What lies before is in the log, on the disk, and was stored before the image begins.
        let kept = *self.durable.lock();
        if !self.wants_image(kept.at) || self.check().is_err() {
            return Ok(());
        }
        let forced = every.get().copied().filter(|&every| every > 0);
        let next = || forced.unwrap_or((bytes.load(Ordering::Relaxed) * SHARE).max(LEAST));
        let later = |times: u64| due.store(kept.at + next() * times, Ordering::Relaxed);
        later(LATER);
        let worth = if forced.is_some() { 0 } else { WORTH };
        let words = match maker.make(worth, &|work| self.at_rest(work)) {
            Made::Image(words) => words,
            Made::NotWorthIt => {
                later(1);
                return Ok(());
            }
            Made::NeverAtRest => return Ok(()),
        };
        if holds(Rule::ImageAfterLog) {
            // All that was stored before the image ends.
            self.sync()?;
        }
        if is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let end = self.durable.lock().at;
        let Header { uuid, life, sequence, .. } = *self.header.lock();
        // There is no other one of this number in this epoch, and epochs have nonces.
        let tries = made.fetch_add(1, Ordering::Relaxed);
        let number = (life.nonce ^ (sequence + 1).rotate_left(32) ^ tries.rotate_left(56)).max(1);
        let image = encode(uuid, number, &words);
        place.replace(&image)?;
        bytes.store(image.len() as u64, Ordering::Relaxed);
        later(1);
        // If the log needed the room meanwhile, what was named since is not there any more.
        self.set_header(|header| {
            if header.oldest() <= kept.at {
                header.image = Some(ImageOfTrees { number, kept, end });
            }
        })
        .map_err(|fault| self.fail(fault))
    }

    /// Does this while no thread stores to the pool. False if one always does, or if nobody wants it any more.
    fn at_rest(&self, work: &mut dyn FnMut()) -> bool {
        let mut patience = PATIENCE;
        for _ in 0..TRIES {
            if self.images.is_over.load(Ordering::Acquire) {
                return false;
            }
            if let Some(_shut) = self.windows.shut(patience) {
                work();
                return true;
            }
            crate::sync::sleep(patience * OPEN);
            patience *= 2;
        }
        false
    }
}

fn encode(uuid: [u64; 2], number: u64, words: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; (HEAD + words.len()) * 8];
    let (head, body) = bytes.split_at_mut(HEAD * 8);
    body.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    let head_words = [MAGIC, uuid[0], uuid[1], number, words.len() as u64, crc(body)];
    head.chunks_exact_mut(8).zip(head_words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    bytes
}

/// A checksum of the words. Zeros have another one.
fn crc(body: &[u8]) -> u64 {
    u64::from(crc32fast::hash(body)) | 1 << 32
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
    let is_whole = decode_head(head, uuid, number) == Some((body.len() as u64 / 8, crc(body)));
    is_whole.then(|| body.chunks_exact(8).map(word).collect())
}
