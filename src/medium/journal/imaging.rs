//! Making images of trees, beside the threads that change them (`docs/images.md`).

use super::disk::Disk;
use super::engine::Engine;
use super::frame::Mark;
use super::header::{Header, ImageOfTrees};
use super::images::{FoundImage, ImageMaker, ImagePlace, Images, Made, NewImage, most_bytes};
use super::memory::Memory;
use super::rule::{Rule, holds};
use crate::medium::event::EventKind;
use crate::sync::of_process::OfProcess;
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// An image is made when the log since the one before has at least so many bytes; few in tests.
const LEAST: u64 = if cfg!(test) { 256 } else { 4 << 20 };
/// After so many bytes of the log it is asked again whether there is to be an image, if all trees were small.
const SOON: u64 = 64 << 10;
/// After so many bytes of the log the first one is made, where none counts.
const FIRST: u64 = if cfg!(test) { 1 } else { 1 << 20 };
/// For the sake of images, a log grows to so many bytes at most; few in tests.
const MOST_OF_LOG: u64 = if cfg!(test) { 16 << 10 } else { 128 << 20 };
/// An image is made if trees have so many leaves together: a walk of fewer takes a millisecond.
const WORTH: u64 = if cfg!(test) { 0 } else { 1000 };
/// After how many bytes of the log an image is made, also of small trees: for tests.
const VARIABLE: &str = "BRISTLECONE_IMAGE_EVERY";
/// An image takes at most one in so many bytes of what is written anyway.
const SHARE: u64 = 4;
/// Bytes that a leaf takes in an image, without its records.
const LEAF: u64 = 16;
/// How much longer it takes to the next image, if there could be none.
const LATER: u64 = if cfg!(test) { 1 } else { 8 };
/// How long windows are waited for at first, how often, and how much longer the gate is open in between.
const PATIENCE: Duration = Duration::from_micros(500);
const TRIES: u32 = 4;
const OPEN: u32 = 10;

/// For the one thread of this process that makes an image; `None` if there is another one. Tests wait for that.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ONE: OfProcess<Mutex<()>> = OfProcess::new();
    let one = ONE.get();
    if cfg!(test) { Some(one.lock()) } else { one.try_lock() }
}

/// The place in the log of what it names while an image is made. Checkpoints leave it alone; a log that needs it takes
/// it (J42).
struct Held<'i> {
    images: &'i Images,
    from: Mark,
}

impl Held<'_> {
    /// Whether the log has not used it. Called while the header is locked.
    fn is_kept(&self) -> bool {
        self.images.held.lock().is_some() || !holds(Rule::ImageHeld)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.images.held.lock() = None;
    }
}

impl Images {
    /// How many bytes the log has from one image to the next.
    fn interval(&self) -> u64 {
        self.every.get().copied().unwrap_or_else(|| self.share().max(LEAST))
    }

    /// How many bytes of the log one image is worth.
    fn share(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).saturating_mul(SHARE)
    }
}

impl<F: Disk, R: Memory> Engine<F, R> {
    /// Has images made by this from now on, or by nobody. Waits for one that is being made.
    pub(crate) fn set_image_maker(&self, maker: Option<Box<dyn ImageMaker>>) {
        self.images.is_over.store(maker.is_none(), Ordering::Release);
        *self.images.maker.lock() = maker;
    }

    /// Keeps images there from now on.
    pub(super) fn keeps_images(&self, place: Box<dyn ImagePlace>, budget: u64) {
        let _ = self.images.place.set((place, budget));
        let interval = self.images.interval();
        let first = self.durable.lock().at + FIRST.min(interval);
        let due = self.header.lock().image.map_or(first, |image| image.kept.at.saturating_add(interval));
        self.images.due.store(due, Ordering::Relaxed);
    }

    /// Has images made as the environment says.
    pub(super) fn makes_images_as_forced(&self) -> io::Result<()> {
        let Some(said) = std::env::var_os(VARIABLE) else { return Ok(()) };
        let bytes = said.to_str().and_then(|said| said.parse().ok()).filter(|&every| every > 0);
        let wrong = || format!("{VARIABLE} is '{}', and must be a number of bytes, 1 or more", said.display());
        let every = bytes.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, wrong()))?;
        let _ = self.images.every.set(every);
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
        self.images.place.get().iter().for_each(|(place, _)| place.remove());
    }

    /// Notes that the log has used the place of an image, so that another one is made as soon as it would take no more
    /// than its share.
    pub(super) fn has_lost_image(&self, image: Option<ImageOfTrees>) {
        let images = &self.images;
        if let Some(ImageOfTrees { kept, .. }) = image.filter(|_| images.every.get().is_none()) {
            images.due.fetch_min(kept.at + images.share(), Ordering::Relaxed);
        }
    }

    /// How many bytes of the log are wanted, so that it has room for what is named between two images.
    pub(super) fn wanted_for_images(&self) -> u64 {
        (self.images.share() * 2).min(MOST_OF_LOG)
    }

    /// Tells that no image could be made, once until one is.
    pub(super) fn tell_of_no_image(&self, error: &io::Error) {
        if !self.images.is_told.swap(true, Ordering::Relaxed) {
            self.vitals.tell(EventKind::NoImage { error: error.to_string() });
        }
    }

    /// Whether an image should be made where the log ends at a place.
    pub(super) fn wants_image(&self, end: u64) -> bool {
        end >= self.images.due.load(Ordering::Relaxed) && self.images.place.get().is_some()
    }

    /// Makes an image of the trees, if it is time for that. Called by one thread at a time. What fails leaves the image
    /// before, or none.
    pub(crate) fn make_image(&self) -> io::Result<()> {
        let Images { maker, is_over, place, due, bytes, made, every, is_told, .. } = &self.images;
        let Some((place, budget)) = place.get() else { return Ok(()) };
        // They take memory, and threads.
        let Some(_alone) = alone() else { return Ok(()) };
        let maker = maker.lock();
        let Some(maker) = &*maker else { return Ok(()) };
        let held = self.hold_log();
        let kept = held.from;
        if !self.wants_image(kept.at) || self.check().is_err() {
            return Ok(());
        }
        let later = |times: u64| {
            let bytes = self.images.interval().saturating_mul(times);
            due.store(kept.at.saturating_add(bytes), Ordering::Relaxed);
        };
        later(LATER);
        let least = if every.get().is_some() { 0 } else { WORTH };
        let most = most_bytes(*budget);
        let words = match maker.make(least..most / LEAF, &|work| self.at_rest(work)) {
            Made::Image(words) => words,
            Made::NotWorthIt => {
                due.store(kept.at + SOON.min(self.images.interval()), Ordering::Relaxed);
                return Ok(());
            }
            Made::NotNow => return Ok(()),
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
        let image = NewImage::new(uuid, number, words);
        bytes.store(image.len(), Ordering::Relaxed);
        // Whether it can be written, or read again, or not: not much is tried in vain.
        later(LATER);
        if image.len() > most {
            return Ok(());
        }
        place.replace(&image)?;
        is_told.store(false, Ordering::Relaxed);
        later(1);
        let made = ImageOfTrees { number, kept, end };
        self.set_header(|header| {
            if held.is_kept() {
                header.image = Some(made);
            } else {
                self.has_lost_image(Some(made));
            }
        })
        .map_err(|fault| self.fail(fault))
    }

    /// Keeps the place of what the log names from now on. What it had before was stored before the image begins.
    fn hold_log(&self) -> Held<'_> {
        // The end of the log is not before the header's `start`, which does not move meanwhile.
        let _header = self.header.lock();
        let from = *self.durable.lock();
        *self.images.held.lock() = Some(from.at);
        Held { images: &self.images, from }
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
