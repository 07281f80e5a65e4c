//! Space that the disk has written before the pool uses it (J31 in `docs/journal.md`).
//!
//! ext4 reserves space without writing it, and notes with each extent whether it was ever written. If the first write
//! to such a place fails, the note stays as it is, and the cache takes the place for written: what is written to it
//! later, and synced without an error, reads as zeros after the next mount. So on ext4, the pool file of a journal has
//! zeros, written back without an error, wherever an entry may name words. At the end of the file, a thread writes them
//! [ahead of need](super::ahead). A thread that takes space without zeros writes them: in what it takes, and in a
//! little of what follows.
//!
//! - Zeros go where the file has a hole, or a place that was never written, and nowhere else: `parts` has all other
//!   places. Content goes only where `parts` says so, or `parts` says so before. So no zeros are written over content.
//! - `working` is held by a thread that changes which places have space, or the length, until `known` says so. It is
//!   taken before `known`, which is held for no call of the system.

use super::{Disk, DiskFile, extents, is_room_missing};
use crate::medium::journal::zero;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

/// The unit of what is known.
pub(super) const PAGE: u64 = 4096;
/// The least that is written ahead of need.
pub(super) const LEAST: u64 = 64 << 10;
/// The most that a thread that takes space writes beyond what it takes.
const MOST: u64 = 1 << 20;

/// What was written of a file, if anybody wants to know that.
pub(super) struct WrittenSpace {
    pub(super) working: Mutex<()>,
    pub(super) known: Mutex<Option<KnownExtents>>,
    /// What writes ahead of need.
    pub(super) keeper: OnceLock<AheadJob>,
}

/// The job that writes ahead of need when it is woken, and the most that it writes, in bytes.
pub(super) struct AheadJob {
    pub(super) most: u64,
    pub(super) wake: Box<dyn Fn() + Send + Sync>,
}

impl Default for WrittenSpace {
    fn default() -> Self {
        Self { working: Mutex::new(()), known: Mutex::new(None), keeper: OnceLock::new() }
    }
}

pub(super) struct KnownExtents {
    pub(super) parts: ByteRanges,
    /// Nothing from here on was taken, or has content: there are zeros, or a hole.
    pub(super) used: u64,
    /// The length that the file is to have. It may be longer, ahead of need.
    pub(super) len: u64,
    /// The disk has this length, if it is more than `len`.
    pub(super) synced: u64,
    /// Zeros are wanted up to here.
    pub(super) wanted: u64,
    /// There was no room for them. Nobody tries again before the file becomes longer.
    pub(super) is_full: bool,
}

impl KnownExtents {
    fn new(parts: ByteRanges, len: u64) -> Self {
        let used = parts.end();
        Self { parts, used, len, synced: 0, wanted: 0, is_full: false }
    }

    /// Takes whole pages, if they were written.
    fn use_written(&mut self, pages: &Range<u64>) -> bool {
        let is_there = self.parts.has(pages);
        if is_there {
            self.used = self.used.max(pages.end);
        }
        is_there
    }
}

/// Ranges that neither overlap nor touch, by where they begin.
#[derive(Default)]
pub(super) struct ByteRanges {
    ranges: BTreeMap<u64, u64>,
    /// How much they are.
    pub(super) bytes: u64,
}

impl ByteRanges {
    fn insert(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.bytes += range.end - range.start;
            self.ranges.insert(range.start, range.end);
        }
    }

    fn take_out(&mut self, start: u64, end: u64) {
        self.bytes -= end - start;
        self.ranges.remove(&start);
    }

    /// The end of the last one.
    pub(super) fn end(&self) -> u64 {
        self.ranges.last_key_value().map_or(0, |(_, &end)| end)
    }

    fn add(&mut self, mut range: Range<u64>) {
        if range.is_empty() || self.has(&range) {
            return;
        }
        while let Some((&start, &end)) =
            self.ranges.range(..=range.end).next_back().filter(|&(_, &end)| end >= range.start)
        {
            self.take_out(start, end);
            range = range.start.min(start)..range.end.max(end);
        }
        self.insert(range);
    }

    pub(super) fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) =
            self.ranges.range(..range.end).next_back().filter(|&(_, &end)| end > range.start)
        {
            self.take_out(start, end);
            self.insert(start..range.start.min(end));
            self.insert(range.end.max(start)..end);
        }
    }

    /// The part in which, or at whose end, a place is.
    fn before(&self, at: u64) -> Range<u64> {
        let found = self.ranges.range(..=at).next_back().filter(|&(_, &end)| end >= at);
        found.map_or(at..at, |(&start, &end)| start..end)
    }

    fn has(&self, range: &Range<u64>) -> bool {
        self.before(range.start).end >= range.end
    }

    /// What is missing of a range.
    fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut missing, mut at) = (Vec::new(), self.before(range.start).end.min(range.end));
        for (&start, &end) in self.ranges.range(at..range.end) {
            if at < start {
                missing.push(at..start);
            }
            at = end;
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }
}

/// The whole pages that a range touches, and those that lie in it.
fn touched(at: u64, end: u64) -> Range<u64> {
    at / PAGE * PAGE..end.next_multiple_of(PAGE)
}

fn within(at: u64, end: u64) -> Range<u64> {
    at.next_multiple_of(PAGE)..end / PAGE * PAGE
}

/// Whether a file may be on ext4: as far as the system tells, or below an overlay.
fn may_be_ext(file: &std::fs::File) -> bool {
    const KINDS: [u64; 2] = [libc::EXT4_SUPER_MAGIC as u64, libc::OVERLAYFS_SUPER_MAGIC as u64];
    rustix::fs::fstatfs(file).is_ok_and(|found| KINDS.contains(&(found.f_type as u64)))
}

impl DiskFile {
    /// From now on, new space is written before it is used, on file systems where that matters. Nothing of the file is
    /// mapped.
    ///
    /// A place with space that was never written has nothing but zeros, or what a write that failed has left in the
    /// cache, which the log has, too: it is forgotten, and the place is written.
    ///
    /// # Errors
    ///
    /// Those of [`forget_cached`](Self::forget_cached), and of the disk.
    pub(crate) fn write_space_first(&self) -> io::Result<()> {
        let _working = self.0.written.working.lock();
        let file = self.as_file();
        let whole = 0..self.metadata()?.len();
        let Some(mut found) = may_be_ext(file).then(|| look(self, &whole).ok()).flatten() else { return Ok(()) };
        for attempt in 0..2 {
            if found.never.is_empty() {
                break;
            }
            if attempt == 0 {
                // What is on its way to the disk is written by now.
                self.sync()?;
                found = look(self, &whole)?;
            }
            let mut is_zero = true;
            for part in &found.never {
                is_zero = is_zero && extents::is_zero(file, part.clone())?;
            }
            if attempt > 0 || !is_zero {
                self.forget_cached()?;
            }
            found.never.iter().try_for_each(|part| self.write_zeros(part))?;
            self.sync()?;
            found = look(self, &whole)?;
        }
        *self.0.written.known.lock() = Some(KnownExtents::new(found.parts, whole.end));
        Ok(())
    }

    /// Makes sure that whole pages have space that was written, and that the next ones, up to `most`, are written ahead
    /// of need. False where that does not matter, and the space is to be reserved.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] and the like, and then the file has the space that it had, or less ahead of need;
    /// what the disk says, which is noted.
    pub(crate) fn take_written(&self, pages: &Range<u64>, most: u64) -> io::Result<bool> {
        let WrittenSpace { working, known, .. } = &self.0.written;
        let touched = touched(pages.start, pages.end);
        // What was taken before, and what is taken of a hole, say nothing of the end.
        let take = || known.lock().as_mut().map(|known| (known.used < touched.end, known.use_written(&touched)));
        let Some((is_further, is_there)) = take() else { return Ok(false) };
        if !is_there {
            let _working = working.lock();
            // Another thread may have been ahead.
            if take().is_some_and(|(_, is_there)| !is_there) {
                self.write_taken(pages)?;
                take();
            }
        }
        if is_further {
            self.look_ahead(most);
        }
        Ok(true)
    }

    /// Writes what is taken, and what follows it soon. The caller has locked `working`.
    fn write_taken(&self, pages: &Range<u64>) -> io::Result<()> {
        let Some((run, len)) =
            self.0.written.known.lock().as_ref().map(|known| (known.parts.before(pages.start), known.len))
        else {
            return Ok(());
        };
        // After a long run more, and after a short one, such as the first pages of a small tree, little.
        let more = ((run.end - run.start) / 2).clamp(LEAST, MOST);
        let piece = pages.start..pages.end.max(pages.start + more).min(len.max(pages.end));
        match self.write_missing(&piece) {
            Err(error) if is_room_missing(&error) => {
                // What is ahead of need is not needed.
                self.give_up_ahead()?;
                self.write_missing(pages)
            }
            other => other,
        }
    }

    /// Writes zeros where a range was never written, and waits for that. If there is no room for all of it, the file
    /// has the space that it had. The caller has locked `working`.
    pub(super) fn write_missing(&self, range: &Range<u64>) -> io::Result<()> {
        let known = &self.0.written.known;
        let touched_range = touched(range.start, range.end);
        let missing = known.lock().as_ref().map_or_else(Vec::new, |known| known.parts.missing(&touched_range));
        let missing: Vec<Range<u64>> = missing
            .into_iter()
            .map(|part| part.start..part.end.min(range.end))
            .filter(|part| !part.is_empty())
            .collect();
        let written = missing
            .iter()
            .try_for_each(|part| self.write_zeros(part))
            .and_then(|()| missing.iter().try_for_each(|part| self.write_back(part.start, part.end - part.start)));
        if written.is_err() {
            // They had no space before.
            missing.iter().for_each(|part| drop(self.punch_out(part.start, part.end - part.start)));
            return written;
        }
        if let Some(known) = known.lock().as_mut() {
            missing.iter().for_each(|part| known.parts.add(touched(part.start, part.end)));
        }
        Ok(())
    }

    fn write_zeros(&self, range: &Range<u64>) -> io::Result<()> {
        #[cfg(all(test, not(any(bristlecone_loom, miri))))]
        super::tests::stopping::here(range);
        zero(range.clone(), |at, zeros| self.call(super::Call::Write, |file| super::write_all_at(file, zeros, at)))
    }

    /// Notes that a range gets content. If it was not written before, this waits until nobody writes zeros.
    pub(super) fn has_content(&self, at: u64, len: u64) {
        let WrittenSpace { working, known, .. } = &self.0.written;
        let pages = touched(at, at + len);
        if known.lock().as_mut().is_none_or(|known| known.use_written(&pages)) {
            return;
        }
        let _working = working.lock();
        if let Some(known) = known.lock().as_mut() {
            known.parts.add(pages.clone());
            known.use_written(&pages);
        }
    }

    /// Gives space back by `punch`.
    pub(super) fn punched<T>(&self, at: u64, len: u64, punch: impl FnOnce() -> T) -> T {
        let _working = self.0.written.working.lock();
        self.loses(&within(at, at.saturating_add(len)));
        punch()
    }

    /// Notes that a range is to have no space. The caller has locked `working`.
    pub(super) fn loses(&self, range: &Range<u64>) {
        if let Some(known) = self.0.written.known.lock().as_mut() {
            known.parts.remove(range);
        }
    }

    /// Changes the length by `resize`. Nothing is ahead of need then, and nobody writes there, until more is taken.
    pub(super) fn resized(&self, len: u64, resize: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let WrittenSpace { working, known, .. } = &self.0.written;
        let _working = working.lock();
        let end = len.next_multiple_of(PAGE);
        self.loses(&(end..u64::MAX));
        if let Some(known) = known.lock().as_mut() {
            (known.synced, known.wanted) = (known.synced.min(len), 0);
        }
        resize()?;
        if let Some(known) = known.lock().as_mut() {
            (known.len, known.used) = (len, known.used.min(end));
        }
        Ok(())
    }
}

/// What there is in a file.
struct Look {
    /// What was written, or is about to be.
    parts: ByteRanges,
    /// What has space, and was never written.
    never: Vec<Range<u64>>,
}

fn look(file: &DiskFile, whole: &Range<u64>) -> io::Result<Look> {
    let mut look = Look { parts: ByteRanges::default(), never: Vec::new() };
    extents::each(file.as_file(), whole, |extent| {
        let bytes = extent.bytes.start..extent.bytes.end.min(whole.end);
        if extent.is_unwritten {
            look.never.push(bytes);
        } else {
            look.parts.add(bytes);
        }
        true
    })?;
    Ok(look)
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn parts_are_those_of_a_set_of_pages() {
        let mut parts = ByteRanges::default();
        let mut pages = [false; 40];
        let mut random = Random(1);
        for _ in 0..3000 {
            let start = random.below(40);
            let range = start..start + random.below(41 - start);
            let part = range.start as usize..range.end as usize;
            if !range.is_empty() {
                assert_eq!(parts.has(&range), !pages[part.clone()].contains(&false));
                let mut missing = [false; 40];
                parts
                    .missing(&range)
                    .into_iter()
                    .for_each(|part| missing[part.start as usize..part.end as usize].fill(true));
                assert!((0..40).all(|page| missing[page] == (part.contains(&page) && !pages[page])));
            }
            let run = parts.before(start);
            let len = (0..start as usize).rev().take_while(|&page| pages[page]).count() as u64;
            assert_eq!(run.start, start - len);
            if random.below(2) == 0 {
                parts.add(range);
                pages[part].fill(true);
            } else {
                parts.remove(&range);
                pages[part].fill(false);
            }
            assert_eq!(parts.bytes, pages.iter().filter(|&&page| page).count() as u64);
            assert_eq!(parts.end(), pages.iter().rposition(|&page| page).map_or(0, |page| page as u64 + 1));
            let all: Vec<(u64, u64)> = parts.ranges.iter().map(|(&start, &end)| (start, end)).collect();
            assert!(
                all.windows(2).all(|pair| pair[0].1 < pair[1].0) && all.iter().all(|&(start, end)| start < end),
                "{all:?}"
            );
        }
    }
}
