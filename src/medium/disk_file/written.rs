//! Space that the disk has written before the pool uses it (J31 in `docs/journal.md`).
//!
//! ext4 reserves space without writing it, and notes with each extent whether it was ever written. If the first write to such a place
//! fails, the note stays as it is, and the cache takes the place for written: what is written to it later, and synced without an
//! error, reads as zeros after the next mount. So on ext4, the pool file of a journal has zeros, written back without an error,
//! wherever an entry may name words. They are written ahead of need: of a long run more, and of a short one, such
//! as the first pages of a small tree, little.
//!
//! - Zeros go where the file has a hole, or a place that was never written, and nowhere else: `parts` has all other places. A
//!   checkpoint only writes where `parts` says that there is content, or that zeros were.
//! - `working` is held by whoever changes which places have space, until `parts` says so. It is taken before that of `parts`.

use super::{Disk, DiskFile, extents, is_room_missing};
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// The unit of what is known.
const PAGE: u64 = 4096;
/// The least and the most that are written at a time.
const LEAST: u64 = 64 << 10;
const MOST: u64 = 64 << 20;
/// How many zeros there are in memory.
const ZEROS: u64 = 1 << 20;

/// The parts of a file that were written, if anybody wants to know that.
pub(super) struct Written {
    working: Mutex<()>,
    parts: Mutex<Option<Parts>>,
}

impl Default for Written {
    fn default() -> Self {
        Self { working: Mutex::new(()), parts: Mutex::new(None) }
    }
}

/// Ranges that neither overlap nor touch, by where they begin.
#[derive(Default)]
struct Parts(BTreeMap<u64, u64>);

impl Parts {
    fn add(&mut self, mut range: Range<u64>) {
        if range.is_empty() || self.has(&range) {
            return;
        }
        while let Some((&start, &end)) = self.0.range(..=range.end).next_back().filter(|&(_, &end)| end >= range.start)
        {
            self.0.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.0.insert(range.start, range.end);
    }

    fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.0.range(..range.end).next_back().filter(|&(_, &end)| end > range.start) {
            self.0.remove(&start);
            for rest in [start..range.start.min(end), range.end.max(start)..end] {
                if !rest.is_empty() {
                    self.0.insert(rest.start, rest.end);
                }
            }
        }
    }

    /// The part in which, or at whose end, a place is.
    fn before(&self, at: u64) -> Range<u64> {
        let found = self.0.range(..=at).next_back().filter(|&(_, &end)| end >= at);
        found.map_or(at..at, |(&start, &end)| start..end)
    }

    fn has(&self, range: &Range<u64>) -> bool {
        self.before(range.start).end >= range.end
    }

    /// What is missing of a range.
    fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut missing, mut at) = (Vec::new(), self.before(range.start).end.min(range.end));
        for (&start, &end) in self.0.range(at..range.end) {
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
    /// From now on, new space is written before it is used, on file systems where that matters. Nothing of the file is mapped.
    ///
    /// A place with space that was never written has nothing but zeros, or what a write that failed has left in the cache, which
    /// the log has, too: it is forgotten, and the place is written.
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
        *self.0.written.parts.lock() = Some(found.parts);
        Ok(())
    }

    /// Makes sure that whole pages, and what follows them soon up to `end`, have space that was written. False where that does not
    /// matter, and the space is to be reserved.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] and the like, and then the file has the space that it had; what the disk says, which is noted.
    pub(crate) fn take_written(&self, pages: &Range<u64>, end: u64) -> io::Result<bool> {
        let Written { working, parts } = &self.0.written;
        let is_there = || parts.lock().as_ref().map(|parts| parts.has(&touched(pages.start, pages.end)));
        match is_there() {
            None => return Ok(false),
            Some(true) => return Ok(true),
            Some(false) => {}
        }
        let _working = working.lock();
        // Another thread may have been ahead.
        if is_there() == Some(true) {
            return Ok(true);
        }
        let run = parts.lock().as_ref().map_or(0..0, |parts| parts.before(pages.start));
        let ahead = ((run.end - run.start) / 2).clamp(LEAST, MOST);
        let piece = pages.start..pages.end.max(pages.start + ahead).min(end.max(pages.end));
        match self.write_missing(&piece) {
            // What is ahead of need is not needed.
            Err(error) if is_room_missing(&error) && piece.end > pages.end => self.write_missing(pages)?,
            other => other?,
        }
        Ok(true)
    }

    /// Writes zeros where a range was never written, and waits for that.
    fn write_missing(&self, range: &Range<u64>) -> io::Result<()> {
        let parts = &self.0.written.parts;
        let missing =
            parts.lock().as_ref().map_or_else(Vec::new, |parts| parts.missing(&touched(range.start, range.end)));
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
        if let Some(parts) = parts.lock().as_mut() {
            missing.iter().for_each(|part| parts.add(touched(part.start, part.end)));
        }
        Ok(())
    }

    fn write_zeros(&self, range: &Range<u64>) -> io::Result<()> {
        let zeros = vec![0; ZEROS.min(range.end - range.start) as usize];
        (range.start..range.end).step_by(ZEROS as usize).try_for_each(|at| {
            let zeros = &zeros[..ZEROS.min(range.end - at) as usize];
            self.call(super::Call::Write, |file| super::write_all_at(file, zeros, at))
        })
    }

    /// Notes that a range gets content, so that nobody writes zeros there.
    pub(super) fn has_content(&self, at: u64, len: u64) {
        if let Some(parts) = self.0.written.parts.lock().as_mut() {
            parts.add(touched(at, at + len));
        }
    }

    /// Gives space back by `punch`.
    pub(super) fn punched<T>(&self, at: u64, len: u64, punch: impl FnOnce() -> T) -> T {
        self.loses(within(at, at.saturating_add(len)), punch)
    }

    /// Changes the length by `resize`.
    pub(super) fn resized<T>(&self, len: u64, resize: impl FnOnce() -> T) -> T {
        self.loses(len.next_multiple_of(PAGE)..u64::MAX, resize)
    }

    fn loses<T>(&self, range: Range<u64>, change: impl FnOnce() -> T) -> T {
        let Written { working, parts } = &self.0.written;
        let _working = working.lock();
        if let Some(parts) = parts.lock().as_mut() {
            parts.remove(&range);
        }
        change()
    }
}

/// What there is in a file.
struct Look {
    /// What was written, or is about to be.
    parts: Parts,
    /// What has space, and was never written.
    never: Vec<Range<u64>>,
}

fn look(file: &DiskFile, whole: &Range<u64>) -> io::Result<Look> {
    let mut look = Look { parts: Parts::default(), never: Vec::new() };
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

    #[test]
    fn parts_are_those_of_a_set_of_pages() {
        let mut parts = Parts::default();
        let mut pages = [false; 40];
        let mut seed = 1u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..3000 {
            let start = next(40);
            let range = start..start + next(41 - start);
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
            if next(2) == 0 {
                parts.add(range);
                pages[part].fill(true);
            } else {
                parts.remove(&range);
                pages[part].fill(false);
            }
            let all: Vec<(u64, u64)> = parts.0.iter().map(|(&start, &end)| (start, end)).collect();
            assert!(
                all.windows(2).all(|pair| pair[0].1 < pair[1].0) && all.iter().all(|&(start, end)| start < end),
                "{all:?}"
            );
        }
    }
}
