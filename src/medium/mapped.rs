//! A file mapped into memory.
//!
//! On a direct-access (DAX) file system the mapping is made with `MAP_SYNC`: then flushed lines are durable without any
//! system call, and the domain is `Power`. Everywhere else the words live in the page cache (or in tmpfs), which
//! outlives the process but not the machine. There flush and fence cost nothing, because they would achieve nothing.

mod anew;
#[cfg(target_os = "linux")]
mod covered;
mod file;
#[cfg(target_os = "linux")]
mod pages;
#[cfg(target_os = "linux")]
mod places;
mod reach;
#[cfg(target_os = "linux")]
mod storable;
#[cfg(all(test, target_os = "linux", not(any(bristlecone_loom, miri))))]
mod tests;

#[cfg(target_os = "linux")]
use super::disk_file;
use super::journal::{self, Attached, Disk, Journal, JournalStat, Marker, Wanted};
use super::{Costs, Domain, Facts, Hint, LINE, Medium, Step};
use crate::arch::{self, Flush};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(target_os = "linux")]
use covered::Covered;
pub use file::Mapping;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
pub(super) use file::write_in_place;
use file::{Locked, Remains};
pub(crate) use file::{is_unborn, sync_name};
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
pub(super) use pages::FileMap;
#[cfg(target_os = "linux")]
use pages::{HUGE_PAGE, How, MADV_COLLAPSE};
#[cfg(target_os = "linux")]
use parking_lot::Mutex;
pub(crate) use reach::Reach;
#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Forces the domain of every mapping, whatever the file system: `process`, `power` or `power-with-caches`.
///
/// For tests and measurements, as [`Options::domain`](crate::Options::domain).
const FORCE_DOMAIN: &str = "BRISTLECONE_DOMAIN";

/// What keeps the pages mapped.
#[cfg(target_os = "linux")]
type Map = pages::FileMap;
#[cfg(not(target_os = "linux"))]
type Map = memmap2::MmapRaw;

/// How far a mapping may grow if nobody says how far it should.
#[cfg(target_os = "linux")]
const REACH: u64 = 64 << 30;
/// Elsewhere a file has its final length when it is mapped.
#[cfg(not(target_os = "linux"))]
const REACH: u64 = 0;

/// The unit in which a file grows.
#[cfg(target_os = "linux")]
const STEP: u64 = 2 << 20;
/// The most by which a file grows at once if nobody needs more. With a journal, each growth waits for the disk.
#[cfg(target_os = "linux")]
const STRIDE: u64 = 64 << 20;

/// A mapped pool file, locked against other openers.
pub struct Mapped {
    /// The first word of the mapping.
    base: NonNull<AtomicU64>,
    /// How many words may be accessed. They are mapped as long as `map` is there.
    words: AtomicUsize,
    map: Map,
    /// The greatest length, in bytes.
    reach: u64,
    /// Held by a thread that changes the length. No other lock is taken meanwhile, but for those of the journal, whose
    /// holders wait for no lock of a pool.
    #[cfg(target_os = "linux")]
    growing: Mutex<()>,
    /// What was given back of a file in memory.
    #[cfg(target_os = "linux")]
    covered: Covered,
    file: Locked,
    /// Whether the file is in memory only (tmpfs).
    #[cfg(target_os = "linux")]
    in_memory: bool,
    name: String,
    domain: Domain,
    /// What the mapping itself promises.
    detected: Domain,
    flush: Flush,
    mapping: Mapping,
    /// Measured on first use.
    costs: OnceLock<Costs>,
    whole_pairs: bool,
    boot: u64,
    /// What is flushed goes here, if the pool has a journal. Then the mapping is private to this process.
    journal: Option<Box<Attached>>,
    /// What there was of a journal, if the pool has one and is only looked at.
    looked_at: Option<Box<JournalStat>>,
    was_settled: bool,
    /// What to remove if the creation is not completed.
    remains: Option<Remains>,
}

// SAFETY: `base` points to a mapping that lives as long as `self`; it is only accessed atomically.
unsafe impl Send for Mapped {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Creates the file with `len` bytes (sparse), or takes an existing empty one, and maps it. As with
    /// [`open`](Self::open), it may grow.
    ///
    /// `birth` is written to the first word before the file gets its length, so that a file left over from an
    /// interrupted creation can be told from a foreign one. If the creation fails, there is no file, or an empty one,
    /// as before.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InUse`], [`ErrorKind::NotAFile`], [`ErrorKind::ReadOnly`], [`ErrorKind::NotAPool`] (the file has
    /// content), [`ErrorKind::OutOfSpace`], [`ErrorKind::Io`].
    pub fn create(path: &Path, len: u64, birth: u64) -> Result<Self> {
        let created =
            Self::conceive(path, (len, REACH), true, birth, |_| false).map_err(|fault| fault.of(named(path)))?;
        created.is_born();
        Ok(created)
    }

    /// As [`create`](Self::create), but also takes a file that is left over from an interrupted creation, which
    /// `unborn` decides from its first bytes. Until [`is_born`](Self::is_born) is called, dropping the result removes
    /// what was made.
    ///
    /// The file has `len` bytes, and may grow as far as `reach` says, if the system has so many addresses. `in_place`:
    /// it gets no journal, so stores go to the file itself, and are to take no new space where a file system copies on
    /// write.
    pub(crate) fn conceive(
        path: &Path,
        (len, reach): (u64, impl Into<Reach>),
        in_place: bool,
        birth: u64,
        unborn: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, Fault> {
        let reach = reach.into();
        // Elsewhere a file has its final length when it is mapped.
        let len = if cfg!(target_os = "linux") { len } else { len.max(reach.most) };
        let (file, remains) = file::create(path, len, in_place, birth, unborn)?;
        let map = Mapping::Write.map(file.as_file(), len, reach, false);
        let map = map.map_err(Fault::io("map")).inspect_err(|_| remains.remove(&file))?;
        let mut made = Self::of(named(path), file, map, Mapping::Write);
        made.remains = Some(remains);
        Ok(made)
    }

    /// Marks the creation as complete.
    pub(crate) fn is_born(&self) {
        if let Some(remains) = &self.remains {
            remains.keep();
        }
    }

    /// Whether dropping this removes the file, because its creation is not complete.
    pub(crate) fn is_new(&self) -> bool {
        self.remains.as_ref().is_some_and(Remains::are_removed)
    }

    /// Opens and maps an existing file.
    ///
    /// On Linux, its mapping may [grow](Medium::reserve) up to 64 GiB, if the system has so many addresses; for
    /// [`Mapping::Copy`] in memory, and for [`Mapping::Read`] not at all. (It grows in memory if it is opened by
    /// [`Options::read_only`](crate::Options::read_only).)
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::InUse`], [`ErrorKind::NotAFile`], [`ErrorKind::ReadOnly`],
    /// [`ErrorKind::NotAPool`] (empty), [`ErrorKind::Io`].
    pub fn open(path: &Path, mapping: Mapping) -> Result<Self> {
        let reach = if mapping == Mapping::Read { 0 } else { REACH };
        Self::existing(path, mapping, reach).map_err(|fault| fault.of(named(path)))
    }

    /// As [`open`](Self::open), with a mapping that may grow as far as `reach` says, if the system has so many
    /// addresses.
    pub(crate) fn existing(path: &Path, mapping: Mapping, reach: impl Into<Reach>) -> Result<Self, Fault> {
        Self::existing_with(path, mapping, reach, Wanted::default())
    }

    /// As [`existing`](Self::existing), with a journal that is opened as `wanted` says.
    pub(crate) fn existing_with(
        path: &Path,
        mapping: Mapping,
        reach: impl Into<Reach>,
        wanted: Wanted,
    ) -> Result<Self, Fault> {
        let reach = reach.into();
        let file = file::open(path, mapping)?;
        #[allow(unused_mut, reason = "elsewhere a file has its final length when it is mapped")]
        let mut len = file.metadata().map_err(Fault::io("inspect"))?.len();
        #[cfg(not(target_os = "linux"))]
        if mapping == Mapping::Write && reach.most > len {
            file.resize(reach.most).map_err(Fault::space(reach.most - len, reach.most))?;
            len = reach.most;
        }
        let marker = Marker::read(&*file).map_err(Fault::io("read"))?;
        #[cfg(target_os = "linux")]
        let marker = if marker.is_some() && mapping == Mapping::Write {
            file.write_space_first().map_err(Fault::io("make sure of what the disk has"))?;
            // As the disk has it.
            Marker::read(&*file).map_err(Fault::io("read"))?
        } else {
            marker
        };
        let was_settled = marker.as_ref().map_or(Ok(true), |marker| journal::was_settled(path, marker))?;
        let journal = match marker.filter(|_| mapping == Mapping::Write) {
            // Before the file is mapped: the mapping shows what the journal has applied.
            Some(marker) => Some(Box::new(Attached::open(path, &file, marker, boot(), wanted)?)),
            None => None,
        };
        let map = mapping.map(file.as_file(), len, reach, journal.is_some()).map_err(Fault::io("map"))?;
        let mut made = Self::of(named(path), file, map, mapping);
        if marker.is_some() {
            (made.domain, made.detected) = (Domain::Journal, Domain::Journal);
        }
        if let Some(marker) = marker.filter(|_| journal.is_none()) {
            // The mapping is private: what the file lacks is stored to the memory of this process only.
            let found = Attached::look(path, &made.file, marker, (made.boot, wanted), |at, word| {
                made.word(at).store(word, Ordering::Relaxed);
            })?;
            made.looked_at = Some(Box::new(found));
        }
        (made.journal, made.was_settled) = (journal, was_settled);
        Ok(made)
    }

    /// Makes the log of a closed pool that has none, durably, with so many bytes for frames.
    pub(crate) fn create_log(&self, path: &Path, uuid: [u64; 2], len: u64) -> Result<(), Fault> {
        journal::create_log(path, &self.file, uuid, len)
    }

    /// Says in the file of a closed pool that it has a journal from now on, for which there is a log.
    pub(crate) fn adopt_journal(&self, path: &Path, uuid: [u64; 2]) -> Result<(), Fault> {
        journal::adopt(path, &self.file, uuid)
    }

    /// Says in the file of a pool, which was closed in order, that it has no journal any more.
    pub(crate) fn drop_journal(&self) -> Result<(), Fault> {
        Marker::remove(&*self.file).and_then(|()| self.file.sync()).map_err(Fault::io("write to the pool"))
    }

    /// Numbers about the journal, if there is one.
    pub(crate) fn journal(&self) -> Option<JournalStat> {
        self.journal.as_ref().map_or(self.looked_at.as_deref().copied(), |journal| journal.stat())
    }

    fn of(
        name: String,
        file: Locked,
        Made { map, base, len, reach, domain: detected }: Made,
        mapping: Mapping,
    ) -> Self {
        Self {
            base,
            words: AtomicUsize::new((len / 8) as usize),
            map,
            reach: reach & !7,
            #[cfg(target_os = "linux")]
            growing: Mutex::new(()),
            #[cfg(target_os = "linux")]
            covered: Covered::default(),
            #[cfg(target_os = "linux")]
            in_memory: rustix::fs::fstatfs(file.as_file()).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC),
            file,
            name,
            domain: forced().unwrap_or(detected),
            detected,
            flush: Flush::chosen(),
            mapping,
            costs: OnceLock::new(),
            whole_pairs: arch::pair_method() != "locks",
            boot: boot(),
            journal: None,
            looked_at: None,
            was_settled: true,
            remains: None,
        }
    }

    /// This mapping, used as if it had this domain.
    ///
    /// For tests and measurements: `Power` on an ordinary file costs what persistent memory would cost, but gives no
    /// durability beyond the process. A mapping with a journal keeps its domain, and none without one becomes
    /// [`Journal`](Domain::Journal).
    #[must_use]
    pub fn with_domain(mut self, domain: Domain) -> Self {
        if self.detected != Domain::Journal && domain != Domain::Journal {
            self.domain = domain;
        }
        self
    }

    /// Bytes of the file that its file system has really allocated.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn allocated(&self) -> io::Result<u64> {
        #[cfg(unix)]
        return std::os::unix::fs::MetadataExt::blocks(&self.file.metadata()?)
            .checked_mul(512)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file system reports more blocks than fit"));
        #[cfg(not(unix))]
        Ok(self.file.metadata()?.len())
    }

    #[inline(never)]
    fn flush_out(&self, at: u64, len: u64, step: Step) {
        if let Some(journal) = &self.journal {
            // What this thread has stored to lies in a length that the journal knows: it was told first.
            fence(Ordering::Acquire);
            journal.flush(at, len, !step.names_words(), |at| self.load(at));
        } else if self.domain == Domain::Power {
            let first = (at >> 3) as usize;
            let range = self.range(first, (at + len).div_ceil(8) as usize - first);
            // SAFETY: the range lies in the mapping, and the instruction was found available at start.
            unsafe { self.flush.lines(range.as_ptr().cast(), range.len() * 8) }
        }
    }

    /// Makes a hole of everything from an offset on, which then reads as zeros. False where files cannot have holes.
    pub(crate) fn punch_from(&self, at: u64) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        if at < self.accessible() {
            return self.file.punch_hole(at, self.accessible() - at);
        }
        Ok(at >= self.accessible())
    }

    /// Maps the whole pages of a range at once, for reading: one fault per page would take longer than the use of the
    /// page. A hint.
    #[cfg(target_os = "linux")]
    fn populate(&self, at: u64, len: u64) {
        let pages = at.next_multiple_of(page())..(at + len) / page() * page();
        let _ = self.populate_pages(pages, Advice::LinuxPopulateRead);
    }

    #[cfg(not(target_os = "linux"))]
    fn populate(&self, _at: u64, _len: u64) {}

    /// Puts huge pages into the holes of a file in memory, where whole ones fit. A hint.
    ///
    /// tmpfs does so only when it is told to, unless it is mounted that way, and only where there is a page already. A
    /// huge page takes the space that is about to be reserved anyway, a tenth of the time to fill, and one entry of the
    /// processor's cache of addresses instead of 512.
    #[cfg(target_os = "linux")]
    fn fill_with_huge_pages(&self, at: u64, len: u64) {
        use rustix::fs::{SeekFrom, seek};
        let first = at.next_multiple_of(HUGE_PAGE);
        let holes = (first..at + len).step_by(HUGE_PAGE as usize).take_while(|start| {
            let end = start + HUGE_PAGE;
            end <= at + len && !seek(self.file.as_file(), SeekFrom::Data(*start)).is_ok_and(|data| data < end)
        });
        for start in holes {
            let Some(part) = self.map.part(&(start..start + HUGE_PAGE)) else { break };
            if self.populate_pages(start..start + page(), Advice::LinuxPopulateWrite).is_err() {
                break;
            }
            // SAFETY: whole pages of the mapping; collapsing changes no content.
            let result = unsafe { libc::madvise(part, HUGE_PAGE as usize, MADV_COLLAPSE) };
            if result != 0 {
                break;
            }
        }
    }

    /// Puts huge pages into a part of a file in memory in place of its small ones, whatever of these is missing. A
    /// hint.
    #[cfg(target_os = "linux")]
    fn collapse(&self, at: u64, len: u64) {
        if self.in_memory && self.journal.is_none() && self.mapping == Mapping::Write {
            for start in
                (at.next_multiple_of(HUGE_PAGE)..(at + len) / HUGE_PAGE * HUGE_PAGE).step_by(HUGE_PAGE as usize)
            {
                let Some(part) = self.map.part(&(start..start + HUGE_PAGE)) else { break };
                // SAFETY: whole pages of the mapping; collapsing changes no content.
                let _ = unsafe { libc::madvise(part, HUGE_PAGE as usize, MADV_COLLAPSE) };
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn collapse(&self, _at: u64, _len: u64) {}

    /// Prefers huge pages in a part of the file that nobody has stored to. In a private mapping, it gets memory of its
    /// own, if the file has nothing but zeros there.
    #[cfg(target_os = "linux")]
    fn detach(&self, at: u64, len: u64) {
        let whole = at.next_multiple_of(HUGE_PAGE)..(at + len) / HUGE_PAGE * HUGE_PAGE;
        if whole.start >= whole.end || whole.end > self.accessible() {
            return;
        }
        if self.journal.is_none() && (self.in_memory || self.mapping != Mapping::Write) {
            self.map.prefer_huge(&whole);
        } else if self.journal.is_none() {
            // The space first: a huge page of which the file has only a part cannot be stored to if the disk is full.
            if self.file.allocate(whole.start, whole.end - whole.start).unwrap_or(false) {
                self.map.cache_huge(self.file.as_file(), &whole);
            }
        } else if self.file.is_unused_from(whole.start)
            || disk_file::is_zero(self.file.as_file(), whole.clone()).unwrap_or(false)
        {
            let _ = self.map.detach(whole);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn detach(&self, _at: u64, _len: u64) {}

    /// Makes sure that holes in the file can be read: a full tmpfs has no page for a hole, and would answer with a
    /// signal.
    #[cfg(target_os = "linux")]
    fn readable(&self, at: u64, len: u64) -> io::Result<()> {
        use rustix::fs::{SeekFrom, seek};
        let end = at + len;
        let mut from = at;
        while let Ok(hole) = seek(self.file.as_file(), SeekFrom::Hole(from))
            && hole < end
        {
            let data = seek(self.file.as_file(), SeekFrom::Data(hole)).unwrap_or(end).min(end);
            let pages = hole / page() * page()..data.next_multiple_of(page());
            if self.populate_pages(pages, Advice::LinuxPopulateRead) == Err(rustix::io::Errno::FAULT) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            from = data;
        }
        Ok(())
    }

    /// Maps the pages of a range that begins at a page boundary, and ends at one. Does nothing if the range is not
    /// wholly in the mapping.
    #[cfg(target_os = "linux")]
    fn populate_pages(&self, pages: Range<u64>, advice: Advice) -> rustix::io::Result<()> {
        match self.map.part(&pages) {
            // SAFETY: whole pages of the mapping; populating changes no content.
            Some(part) => unsafe { madvise(part, (pages.end - pages.start) as usize, advice) },
            None => Ok(()),
        }
    }

    /// Makes the mapping longer, such that `len` bytes from `at` are in it, and makes sure that there is space for
    /// these.
    #[cfg(target_os = "linux")]
    #[cold]
    fn extend(&self, at: u64, len: u64) -> io::Result<()> {
        let growing = self.growing.lock();
        let (end, before) = (at + len, self.accessible());
        if end <= before {
            drop(growing);
            return self.reserve(at, len);
        }
        if self.mapping == Mapping::Write {
            self.lengthen(at, len)
        } else {
            // The file stays as it is.
            let grown = end.next_multiple_of(STEP).min(self.reach);
            self.readable(at, before.saturating_sub(at))?;
            self.map.extend_in_memory(grown as usize)?;
            self.publish(grown);
            Ok(())
        }
    }

    /// Makes the file longer.
    #[cfg(target_os = "linux")]
    fn lengthen(&self, at: u64, len: u64) -> io::Result<()> {
        let (end, before) = (at + len, self.accessible());
        let least = match &self.journal {
            Some(_) => end.max(before + (before / 8).min(STRIDE)),
            None => end,
        };
        let grown = least.next_multiple_of(STEP).min(self.reach);
        // What is on the disk already takes no time.
        let ahead = self.file.len_ahead();
        let grown = if end <= ahead { grown.min(ahead) } else { grown };
        let file_before = self.file.metadata()?.len();
        let is_synced = self.file.lengthen(grown)?;
        let made = self.map.extend(self.file.as_file(), grown as usize).and_then(|()| self.claim(at, len, grown));
        let made = made.and_then(|()| match &self.journal {
            // The length is on the disk before anything refers to what is in it.
            Some(journal) if is_synced => journal.has_len(grown),
            Some(journal) => journal.resize(grown, || self.file.sync_with_length()),
            None => Ok(()),
        });
        match made {
            Ok(()) => {
                self.publish(grown);
                Ok(())
            }
            Err(error) => {
                // Nobody has accessed what was mapped. If the file cannot become shorter, it is longer than it need be.
                self.map.take_back(before as usize);
                let _ = self.file.resize(if self.journal.is_some() { before } else { file_before });
                Err(error)
            }
        }
    }

    /// Makes sure that there is space for a range of a file of `behind` bytes, and that stores to it get by with that.
    #[cfg(target_os = "linux")]
    fn claim(&self, at: u64, len: u64, behind: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        if self.mapping != Mapping::Write {
            return self.readable(at, len);
        }
        // Whole pages: a store takes the space of a page, whose blocks may be smaller. So does a checkpoint.
        let pages = at / page() * page()..(at + len).next_multiple_of(page()).min(behind);
        if let Some(journal) = &self.journal {
            // Not its memory: private pages that are there without need only take space.
            journal.retain(pages.clone());
            return self.take_written(&pages);
        }
        if self.in_memory {
            if self.covered.overlap(&pages) {
                // The space first: late readers may look there at any time.
                self.take_space(&pages)?;
                self.covered.remove(&pages, |part| self.map.uncover(self.file.as_file(), &part))?;
                self.collapse(at, len);
                return Ok(());
            }
            self.fill_with_huge_pages(at, len);
        }
        let hole = self.take_space(&pages)?.unwrap_or(pages.end);
        self.make_storable(&(hole..pages.end))?;
        if self.in_memory { Ok(()) } else { self.hold_ends(&pages, hole) }
    }

    /// Makes sure that the file has the space of a range. Returns the offset from which on it had not, or may not have.
    #[cfg(target_os = "linux")]
    fn take_space(&self, pages: &Range<u64>) -> io::Result<Option<u64>> {
        if self.in_memory {
            // To look for the next hole, tmpfs looks at each page before it, also far behind the range.
            return self.file.allocate(pages.start, pages.end - pages.start).map(|_| Some(pages.start));
        }
        file::reserve(&self.file, pages.start, pages.end - pages.start)
    }

    /// Makes sure that the file has the space of a range, of a pool with a journal, and that it was written where that
    /// matters (J31).
    #[cfg(target_os = "linux")]
    fn take_written(&self, pages: &Range<u64>) -> io::Result<()> {
        if self.file.take_written(pages, self.reach)? { Ok(()) } else { self.take_space(pages).map(drop) }
    }

    /// Says that so many bytes may be accessed from now on.
    #[cfg(target_os = "linux")]
    fn publish(&self, len: u64) {
        self.words.store((len / 8) as usize, Ordering::Release);
    }

    /// The word at an offset.
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.range((at >> 3) as usize, 1)[0]
    }

    /// So many words.
    ///
    /// # Panics
    ///
    /// If they are not all in the mapping.
    #[inline]
    fn range(&self, first: usize, count: usize) -> &[AtomicU64] {
        let words = self.words.load(Ordering::Relaxed);
        if first >= words || count > words - first {
            // Where loads are made in their order, the length is no older than what was read before.
            #[cfg(target_arch = "x86_64")]
            out_of_bounds(words, first, count);
            #[cfg(not(target_arch = "x86_64"))]
            self.look_again(first, count);
        }
        // SAFETY: these words are in the mapping in `self.map`, page-aligned, which lives as long as `self`; other
        // mappings of the file cannot make atomic accesses undefined.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr().wrapping_add(first), count) }
    }

    /// So many words; `None` if they are not all in the mapping.
    #[inline]
    fn range_if_there(&self, first: usize, count: usize) -> Option<&[AtomicU64]> {
        if first + count > self.words.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: as in `range`.
        Some(unsafe { core::slice::from_raw_parts(self.base.as_ptr().wrapping_add(first), count) })
    }

    /// Panics if words are not in the mapping.
    ///
    /// A thread that has read of words that another thread has just made accessible may have read an old length: loads
    /// are not ordered on all processors.
    #[cfg(not(target_arch = "x86_64"))]
    #[cold]
    #[inline(never)]
    fn look_again(&self, first: usize, count: usize) {
        fence(Ordering::Acquire);
        let words = self.words.load(Ordering::Relaxed);
        if first.checked_add(count).is_none_or(|end| end > words) {
            out_of_bounds(words, first, count);
        }
    }

    /// Two words in bounds of the mapping. They are 16-byte aligned, because the mapping is page-aligned.
    #[inline]
    fn pair_at(&self, at: u64) -> *mut [u64; 2] {
        let index = (at >> 4) as usize * 2;
        self.range(index, 2).as_ptr().cast_mut().cast()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Its threads write to the files, so they end before the lock is given up.
        drop(self.journal.take());
        self.remains.iter().for_each(|remains| remains.remove(&self.file));
    }
}

impl Medium for Mapped {
    #[inline]
    fn facts(&self) -> Facts<'_> {
        Facts {
            name: &self.name,
            len: self.reach,
            domain: self.domain,
            writes_back: matches!(self.domain, Domain::Power | Domain::Journal),
            leaves_unflushed: self.domain == Domain::Power,
            // Promise 4 implies this where other cores see a pair in one step.
            pairs_are_whole: self.whole_pairs,
            read_only: self.mapping == Mapping::Read,
            was_settled: self.was_settled,
            boot: self.boot,
        }
    }

    fn costs(&self) -> Costs {
        // To measure is to flush, which would fill the journal.
        if self.detected == Domain::Journal { Costs::JOURNAL } else { *self.costs.get_or_init(|| Costs::measure(self)) }
    }

    #[inline]
    fn forked(&self) -> bool {
        !self.file.is_own()
    }

    #[inline]
    fn refuses(&self) -> bool {
        !self.file.may_change()
    }

    fn sync(&self) -> io::Result<()> {
        if self.mapping != Mapping::Write {
            return Ok(());
        }
        if let Some(journal) = &self.journal {
            return journal.sync();
        }
        #[cfg(not(target_os = "linux"))]
        return self.file.sync_mapped(|| self.map.flush());
        // It tracks by itself which pages of the mapping were written to.
        #[cfg(target_os = "linux")]
        self.file.sync()
    }

    #[inline]
    fn admit(&self) -> io::Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.admit())
    }

    #[inline]
    fn acknowledge(&self) -> io::Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.acknowledge())
    }

    fn set_journal(&mut self, mode: Journal) -> bool {
        self.journal.as_mut().map(|journal| journal.set_mode(mode)).is_some()
    }

    fn settle(&self) -> io::Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.settle())
    }

    #[inline]
    fn accessible(&self) -> u64 {
        self.words.load(Ordering::Acquire) as u64 * 8
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        super::end_within(at, len, self.reach).map_err(|error| io::Error::new(error.kind(), reach::FURTHER))?;
        // Elsewhere there is no portable way to reserve: a full disk may end the process with a signal (see README,
        // limits).
        #[cfg(target_os = "linux")]
        {
            let behind = self.accessible();
            if at + len > behind {
                return self.extend(at, len);
            }
            self.claim(at, len, behind)?;
        }
        Ok(())
    }

    fn reserved_to(&self, at: u64) -> u64 {
        // Elsewhere it is as cheap to ask for each range, and not all file systems know of their holes.
        #[cfg(target_os = "linux")]
        if self.in_memory {
            use rustix::fs::{SeekFrom, seek};
            let hole = seek(self.file.as_file(), SeekFrom::Hole(at)).unwrap_or(at).min(self.accessible());
            // What is covered is not accessible for stores, even if it has space.
            return if hole > at && !self.covered.overlap(&(at..hole)) { hole } else { at };
        }
        at
    }

    fn release(&self, at: u64, len: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if self.mapping == Mapping::Write {
            let end = at.saturating_add(len).min(self.accessible());
            let pages = at.min(end).next_multiple_of(page())..end / page() * page();
            if pages.start < pages.end {
                match &self.journal {
                    Some(journal) => journal.release(pages),
                    None if self.in_memory => {
                        if self.covered.add(pages.clone(), || self.map.cover(&pages))? {
                            self.file.punch_hole(pages.start, pages.end - pages.start)?;
                        }
                    }
                    None => {
                        self.file.punch_hole(pages.start, pages.end - pages.start)?;
                        self.hold_beside(&pages)?;
                    }
                }
            }
        }
        let _ = (at, len);
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn truncate(&self, len: u64) -> io::Result<()> {
        if self.mapping != Mapping::Write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let _growing = self.growing.lock();
        let before = self.accessible();
        let len = len.min(before).next_multiple_of(8);
        if len >= before {
            self.file.give_back_ahead()?;
            // An earlier cut may have failed when it was synced.
            return self.file.sync_with_length();
        }
        if let Some(journal) = &self.journal {
            // The log must not name what the file does not have.
            journal.empty()?;
            journal.retain(len..before);
        }
        let end = before.min(len.next_multiple_of(page()));
        self.publish(len);
        // The mapping first: a word of it that the file does not have any more would end the process with a signal, and
        // a thread that has looked at the length before may access it only now.
        if let Err(error) = self.map.cut(len as usize) {
            if self.map.part(&(0..before)).is_some() {
                self.publish(before);
            }
            return Err(error);
        }
        if let Err(error) = self.file.resize(len) {
            // What was free is free: if it cannot be shown again, the medium is shorter than the file.
            if self.map.extend(self.file.as_file(), before as usize).is_ok() {
                self.publish(before);
            }
            return Err(error);
        }
        self.covered.remove::<()>(&(end..before), |_| Ok(())).expect("nothing is done");
        // The last page is still mapped, and private if there is a journal. Its end must be zeros when the file grows
        // again.
        for index in (len / 8) as usize..(end / 8) as usize {
            // SAFETY: a word of the page in which the file ends, or of the pages before: these are mapped, as `cut`
            // leaves them.
            let word = unsafe { &*self.base.as_ptr().wrapping_add(index) };
            word.store(0, Ordering::Relaxed);
        }
        match &self.journal {
            Some(journal) => journal.resize(len, || self.file.sync_with_length()),
            None => self.file.sync_with_length(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn truncate(&self, len: u64) -> io::Result<()> {
        // A file that is mapped cannot be cut on all of these systems.
        if len < self.accessible() { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
    }

    fn space(&self) -> u64 {
        // It is asked for when a pool is opened, and when it is closed.
        #[cfg(target_os = "linux")]
        let _ = self.file.give_back_ahead();
        file::space(self.file.as_file()).unwrap_or(0)
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        let from = self.range((at >> 3) as usize, words.len());
        words.iter_mut().zip(from).for_each(|(word, from)| *word = from.load(Ordering::Relaxed));
    }

    #[inline]
    fn lend(&self, at: u64, count: usize) -> Option<&[AtomicU64]> {
        Some(self.range((at >> 3) as usize, count))
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        // SAFETY: `pair_at` gives two words in bounds of the mapping, 16-byte aligned.
        unsafe { arch::store_pair(self.pair_at(at), pair) }
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        let at = at & !15;
        let mut current = [self.load(at), self.load(at + 8)];
        // SAFETY: as above.
        while let Err(found) = unsafe { arch::cas_pair(self.pair_at(at), current, pair) } {
            current = found;
        }
    }

    #[inline]
    fn order(&self, _step: Step) {
        // A process that dies has made a prefix of its stores. Where an order point is no instruction, there is none to
        // save.
        if !cfg!(target_arch = "x86_64") && self.domain == Domain::Process {
            arch::compiler_barrier();
        } else {
            arch::order();
        }
    }

    #[inline(always)]
    fn flush(&self, at: u64, len: u64, step: Step) {
        arch::compiler_barrier();
        if matches!(self.domain, Domain::Power | Domain::Journal) {
            self.flush_out(at, len, step);
        }
    }

    #[inline]
    fn fence(&self, _step: Step) {
        match self.domain {
            // `flush` has filled the ring.
            Domain::Process | Domain::Journal => arch::compiler_barrier(),
            Domain::Power | Domain::PowerWithCaches => arch::fence(),
        }
    }

    #[inline]
    fn hint(&self, at: u64, len: u64, hint: Hint) {
        const PER_LINE: usize = LINE as usize / 8;
        match hint {
            Hint::InOrder => return self.populate(at, len),
            Hint::Fresh => return self.detach(at, len),
            Hint::Whole => return self.collapse(at, len),
            Hint::Soon => {}
        }
        let (first, count) = ((at >> 3) as usize, len.div_ceil(LINE) as usize * PER_LINE);
        if let Some(words) = self.range_if_there(first, count) {
            words.as_chunks::<PER_LINE>().0.iter().for_each(arch::prefetch_of);
        }
    }
}

/// The current boot of the machine, as a word other than 0; 0 where the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        // All of the boot id is random.
        u128::from_str_radix(&digits, 16).map_or(0, |id| (id as u64 ^ (id >> 64) as u64).max(1))
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn boot() -> u64 {
    0
}

/// Bytes of a page of this machine.
#[cfg(target_os = "linux")]
fn page() -> u64 {
    pages::page() as u64
}

/// The domain that [`FORCE_DOMAIN`] names.
pub(super) fn forced() -> Option<Domain> {
    Domain::from_name(&std::env::var(FORCE_DOMAIN).ok()?)
}

/// The domain of a mapping of this file; the file is not read, and may be empty.
pub(super) fn detect(file: &File, writable: bool) -> Domain {
    #[cfg(target_os = "linux")]
    if How::synchronous(writable).check(file, 0, LINE as usize).is_ok() {
        return pages::domain();
    }
    let _ = (file, writable);
    Domain::Process
}

/// The name of a pool in this file, for messages.
fn named(path: &Path) -> String {
    path.display().to_string()
}

#[cold]
#[inline(never)]
fn out_of_bounds(words: usize, first: usize, count: usize) -> ! {
    panic!("index out of bounds: the len is {words} but the words are {count} from {first}");
}

/// A mapping that was made.
struct Made {
    map: Map,
    base: NonNull<AtomicU64>,
    /// Bytes of the file.
    len: u64,
    /// Bytes that may be mapped.
    reach: u64,
    domain: Domain,
}

impl Mapping {
    /// Maps a file of `len` bytes such that it may grow as far as `reach` says, if the system has so many addresses.
    fn map(self, file: &File, len: u64, reach: Reach, has_journal: bool) -> io::Result<Made> {
        let bytes = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let writable = self == Self::Write && !has_journal;
        let at_zero = || io::Error::other("mapped at address zero");
        #[cfg(target_os = "linux")]
        {
            let is_direct = How::synchronous(writable).check(file, 0, bytes).is_ok();
            let domain = if is_direct { pages::domain() } else { Domain::Process };
            let how = match (writable, is_direct) {
                (true, true) => How::Synchronous,
                (true, false) => How::Shared,
                (false, _) => How::Private,
            };
            let reach = reach.of_file(len, self == Self::Read);
            let map = pages::FileMap::growing(file, bytes, reach, how)?;
            let base = NonNull::new(map.start().cast()).ok_or_else(at_zero)?;
            Ok(Made { map, base, len, reach: reach.most, domain })
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = reach;
            let mut options = memmap2::MmapOptions::new();
            options.len(bytes).no_reserve_swap();
            let map = if writable {
                options.map_raw(file)?
            } else {
                // Private pages: even a store to them would not reach the file.
                // SAFETY: only atomic accesses are made to the mapping, so no change of the file makes them undefined.
                unsafe { options.map_copy(file) }?.into()
            };
            let base = NonNull::new(map.as_mut_ptr().cast()).ok_or_else(at_zero)?;
            Ok(Made { map, base, len, reach: len, domain: Domain::Process })
        }
    }
}
