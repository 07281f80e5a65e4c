//! A file mapped into memory.
//!
//! On a direct-access (DAX) file system the mapping is made with `MAP_SYNC`: then flushed lines are durable without any
//! system call, and the domain is `Power`. Everywhere else the words live in the page cache (or in tmpfs), which
//! outlives the process but not the machine. There flush and fence cost nothing, because they would achieve nothing.

mod file;
#[cfg(target_os = "linux")]
mod pages;

use super::journal::{self, Attached, Journal, JournalStat, Marker};
use super::{Costs, Domain, Facts, Hint, LINE, Medium, Step};
use crate::arch::{self, Flush};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use core::sync::atomic::{AtomicU64, Ordering};
pub use file::Mapping;
use file::{Locked, Remains};
pub(crate) use file::{is_unborn, sync_name};
#[cfg(all(target_os = "linux", not(loom)))]
pub(super) use pages::FileMap;
#[cfg(target_os = "linux")]
use pages::{HUGE_PAGE, MADV_COLLAPSE, PAGE};
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

/// A mapped pool file, locked against other openers.
pub struct Mapped {
    // `words` points into `map`, which therefore never changes without it.
    words: NonNull<[AtomicU64]>,
    map: Map,
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
    /// What to remove if the creation is not completed.
    remains: Option<Remains>,
}

// SAFETY: `words` is a shared mapping that lives as long as `self`; it is only accessed atomically.
unsafe impl Send for Mapped {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Creates the file with `len` bytes (sparse), or takes an existing empty one, and maps it.
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
        let created = Self::conceive(path, len, birth, |_| false).map_err(|fault| fault.of(named(path)))?;
        created.is_born();
        Ok(created)
    }

    /// As [`create`](Self::create), but also takes a file that is left over from an interrupted creation, which
    /// `unborn` decides from its first bytes. Until [`is_born`](Self::is_born) is called, dropping the result removes
    /// what was made.
    pub(crate) fn conceive(path: &Path, len: u64, birth: u64, unborn: impl Fn(&[u8]) -> bool) -> Result<Self, Fault> {
        let (file, remains) = file::create(path, len, birth, unborn)?;
        let map = map_file(&file, len, true).map_err(Fault::io("map")).inspect_err(|_| remains.remove(&file))?;
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
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::InUse`], [`ErrorKind::NotAFile`], [`ErrorKind::ReadOnly`],
    /// [`ErrorKind::NotAPool`] (empty), [`ErrorKind::Io`].
    pub fn open(path: &Path, mapping: Mapping) -> Result<Self> {
        Self::existing(path, mapping).map_err(|fault| fault.of(named(path)))
    }

    pub(crate) fn existing(path: &Path, mapping: Mapping) -> Result<Self, Fault> {
        let file = file::open(path, mapping)?;
        let len = file.metadata().map_err(Fault::io("inspect"))?.len();
        let marker = Marker::read(&*file).map_err(Fault::io("read"))?;
        let journal = match marker.filter(|_| mapping == Mapping::Write) {
            // Before the file is mapped: the mapping shows what the journal has applied.
            Some(marker) => Some(Box::new(Attached::open(path, &file, marker, boot())?)),
            None => None,
        };
        let shared = mapping == Mapping::Write && journal.is_none();
        let map = map_file(&file, len, shared).map_err(Fault::io("map"))?;
        let mut made = Self::of(named(path), file, map, mapping);
        if marker.is_some() {
            (made.domain, made.detected) = (Domain::Journal, Domain::Journal);
        }
        if let Some(marker) = marker.filter(|_| journal.is_none()) {
            // The mapping is private: what the file lacks is stored to the memory of this process only.
            let found = Attached::look(path, &made.file, marker, made.boot, |at, word| {
                made.words()[(at >> 3) as usize].store(word, Ordering::Relaxed);
            })?;
            made.looked_at = Some(Box::new(found));
        }
        made.journal = journal;
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
        Marker::remove(&*self.file).and_then(|()| self.file.sync_data()).map_err(Fault::io("write to the pool"))
    }

    /// Numbers about the journal, if there is one.
    pub(crate) fn journal(&self) -> Option<JournalStat> {
        self.journal.as_ref().map_or(self.looked_at.as_deref().copied(), |journal| journal.stat())
    }

    fn of(
        name: String,
        file: Locked,
        (map, words, detected): (Map, NonNull<[AtomicU64]>, Domain),
        mapping: Mapping,
    ) -> Self {
        Self {
            words,
            map,
            #[cfg(target_os = "linux")]
            in_memory: rustix::fs::fstatfs(&*file).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC),
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
            remains: None,
        }
    }

    /// The same mapping, used as if it had this domain.
    ///
    /// For tests and measurements: `Power` on an ordinary file costs what persistent memory would cost, but gives no
    /// durability beyond the process. A mapping with a journal keeps its domain.
    #[must_use]
    pub fn with_domain(mut self, domain: Domain) -> Self {
        if self.detected != Domain::Journal {
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
            journal.flush(at, len, !step.names_words(), |at| self.load(at));
        } else if self.domain == Domain::Power {
            let range = &self.words()[(at >> 3) as usize..((at + len).div_ceil(8)) as usize];
            // SAFETY: the range lies in the mapping, and the instruction was found available at start.
            unsafe { self.flush.lines(range.as_ptr().cast(), range.len() * 8) }
        }
    }

    /// Makes a hole of everything from an offset on, which then reads as zeros. False where files cannot have holes.
    pub(crate) fn punch_from(&self, at: u64) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        if at < self.len() {
            use rustix::fs::{FallocateFlags, fallocate};
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return match rustix::io::retry_on_intr(|| fallocate(&*self.file, flags, at, self.len() - at)) {
                Err(rustix::io::Errno::OPNOTSUPP) => Ok(false),
                other => Ok(other.map(|()| true)?),
            };
        }
        Ok(at >= self.len())
    }

    /// Maps the whole pages of a range at once, for writing or only for reading: one fault per page would take longer
    /// than the use of the page. A hint.
    #[cfg(target_os = "linux")]
    fn populate(&self, at: u64, len: u64, mapping: Mapping) {
        let advice = match mapping {
            Mapping::Write => Advice::LinuxPopulateWrite,
            Mapping::Read | Mapping::Copy => Advice::LinuxPopulateRead,
        };
        let _ = self.populate_pages(at.next_multiple_of(PAGE)..(at + len) / PAGE * PAGE, advice);
    }

    #[cfg(not(target_os = "linux"))]
    fn populate(&self, _at: u64, _len: u64, _mapping: Mapping) {}

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
            end <= at + len && !seek(&*self.file, SeekFrom::Data(*start)).is_ok_and(|data| data < end)
        });
        for start in holes {
            let Some(words) = self.within(start..start + HUGE_PAGE) else { break };
            if self.populate_pages(start..start + PAGE, Advice::LinuxPopulateWrite).is_err() {
                break;
            }
            // SAFETY: whole pages of the mapping; collapsing changes no content.
            let result = unsafe { libc::madvise(words.as_ptr().cast_mut().cast(), words.len() * 8, MADV_COLLAPSE) };
            if result != 0 {
                break;
            }
        }
    }

    /// Gives a part of a private mapping that nobody has stored to, and for which the file has nothing but zeros, memory of
    /// its own.
    #[cfg(target_os = "linux")]
    fn detach(&self, at: u64, len: u64) {
        let whole = at.next_multiple_of(HUGE_PAGE)..(at + len) / HUGE_PAGE * HUGE_PAGE;
        if self.journal.is_some()
            && whole.start < whole.end
            && file::is_zero(&self.file, whole.clone()).unwrap_or(false)
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
        while let Ok(hole) = seek(&*self.file, SeekFrom::Hole(from))
            && hole < end
        {
            let data = seek(&*self.file, SeekFrom::Data(hole)).unwrap_or(end).min(end);
            let pages = hole / PAGE * PAGE..data.next_multiple_of(PAGE).min(self.len());
            if self.populate_pages(pages, Advice::LinuxPopulateRead) == Err(rustix::io::Errno::FAULT) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            from = data;
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn readable(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// The words of a range, if it is wholly in the mapping.
    #[cfg(target_os = "linux")]
    fn within(&self, range: Range<u64>) -> Option<&[AtomicU64]> {
        self.words().get((range.start / 8) as usize..(range.end / 8) as usize)
    }

    /// Maps the pages of a range that begins at a page boundary, and ends at one or at the end of the mapping. Does
    /// nothing if the range is not wholly in the mapping.
    #[cfg(target_os = "linux")]
    fn populate_pages(&self, pages: Range<u64>, advice: Advice) -> rustix::io::Result<()> {
        match self.within(pages) {
            // SAFETY: whole pages of the mapping, up to its end; populating changes no content.
            Some(words) => unsafe { madvise(words.as_ptr().cast_mut().cast(), words.len() * 8, advice) },
            None => Ok(()),
        }
    }

    /// Extends the file to `len` bytes and maps it anew. If that fails, the file is as it was.
    pub(crate) fn grow(&mut self, len: u64) -> Result<(), Fault> {
        let before = self.file.metadata().map_err(Fault::io("inspect"))?.len();
        self.file.set_len(len).map_err(Fault::space(len - before, len))?;
        let shared = self.mapping == Mapping::Write && self.journal.is_none();
        let mapped = map_file(&self.file, len, shared).and_then(|(map, words, domain)| {
            if let Some(journal) = &self.journal {
                // The length must be on the disk before a superblock that says so.
                self.file.sync_all()?;
                journal.grown(len);
            } else if self.domain != Domain::Process && self.detected != domain {
                return Err(io::Error::other("the longer file cannot be mapped as the shorter one was"));
            }
            Ok((map, words))
        });
        match mapped {
            Ok((map, words)) => (self.map, self.words) = (map, words),
            Err(source) => {
                // If even this fails, the file is longer than it need be.
                let _ = self.file.set_len(before);
                return Err(Fault::io("map")(source));
            }
        }
        Ok(())
    }

    #[inline]
    fn len(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `words` covers the mapping in `self.map`, page-aligned, alive as long as `self`; other mappings of
        // the file cannot make atomic accesses undefined.
        unsafe { self.words.as_ref() }
    }

    /// Two words in bounds of the mapping. They are 16-byte aligned, because the mapping is page-aligned.
    #[inline]
    fn pair_at(&self, at: u64) -> *mut [u64; 2] {
        let index = (at >> 4) as usize * 2;
        self.words()[index..index + 2].as_ptr().cast_mut().cast()
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
            len: self.len(),
            domain: self.domain,
            writes_back: matches!(self.domain, Domain::Power | Domain::Journal),
            leaves_unflushed: self.domain == Domain::Power,
            // Promise 4 implies this where other cores see a pair in one step.
            pairs_are_whole: self.whole_pairs,
            read_only: self.mapping == Mapping::Read,
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

    fn sync(&self) -> io::Result<()> {
        if self.mapping != Mapping::Write {
            return Ok(());
        }
        if let Some(journal) = &self.journal {
            return journal.sync();
        }
        // Linux tracks by itself which pages of the mapping were written to.
        #[cfg(not(target_os = "linux"))]
        self.map.flush()?;
        self.file.sync_data()
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

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        if self.journal.is_some() {
            // Not its memory: private pages that are there without need only take space. A checkpoint writes whole pages.
            let (from, to) = (at / PAGE * PAGE, (at + len).next_multiple_of(PAGE).min(self.len()));
            return file::reserve(&self.file, from, to - from).map(drop);
        }
        if self.mapping != Mapping::Write {
            return self.readable(at, len);
        }
        #[cfg(target_os = "linux")]
        if self.in_memory {
            self.fill_with_huge_pages(at, len);
        }
        let Some(hole) = file::reserve(&self.file, at, len)? else { return Ok(()) };
        self.populate(hole, at + len - hole, Mapping::Write);
        Ok(())
    }

    fn space(&self) -> u64 {
        file::space(&self.file).unwrap_or(0)
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.words()[(at >> 3) as usize].load(Ordering::Relaxed)
    }

    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        let from = &self.words()[(at >> 3) as usize..][..words.len()];
        words.iter_mut().zip(from).for_each(|(word, from)| *word = from.load(Ordering::Relaxed));
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        self.words()[(at >> 3) as usize].store(value, Ordering::Relaxed);
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
            Hint::InOrder => return self.populate(at, len, Mapping::Read),
            Hint::Fresh => return self.detach(at, len),
            Hint::Soon => {}
        }
        let first = (at >> 3) as usize;
        let words = self.words().get(first..first + len.div_ceil(LINE) as usize * PER_LINE).unwrap_or_default();
        words.as_chunks::<PER_LINE>().0.iter().for_each(arch::prefetch_of);
    }
}

/// The current boot of the machine, as a word other than 0; 0 where the system does not tell.
#[cfg(target_os = "linux")]
fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        // All of the boot id is random.
        u128::from_str_radix(&digits, 16).map_or(0, |id| (id as u64 ^ (id >> 64) as u64).max(1))
    })
}

#[cfg(not(target_os = "linux"))]
fn boot() -> u64 {
    0
}

/// The domain that [`FORCE_DOMAIN`] names.
pub(super) fn forced() -> Option<Domain> {
    Domain::from_name(&std::env::var(FORCE_DOMAIN).ok()?)
}

/// The domain of a mapping of this file; the file is not read, and may be empty.
pub(super) fn detect(file: &File, writable: bool) -> Domain {
    #[cfg(target_os = "linux")]
    if pages::FileMap::synchronous(file, LINE as usize, writable).is_ok() {
        return pages::domain();
    }
    let _ = (file, writable);
    Domain::Process
}

/// The name of a pool in this file, for messages.
fn named(path: &Path) -> String {
    path.display().to_string()
}

fn map_file(file: &File, len: u64, writable: bool) -> io::Result<(Map, NonNull<[AtomicU64]>, Domain)> {
    let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let cover = |start: *mut u8| {
        let words = std::ptr::slice_from_raw_parts_mut(start.cast::<AtomicU64>(), len / 8);
        NonNull::new(words).ok_or_else(|| io::Error::other("mapped at address zero"))
    };
    #[cfg(target_os = "linux")]
    {
        let synchronous = pages::FileMap::synchronous(file, len, writable).ok();
        let domain = if synchronous.is_some() { pages::domain() } else { Domain::Process };
        let map = synchronous.filter(|_| writable).map_or_else(|| pages::FileMap::new(file, len, writable), Ok)?;
        let words = cover(map.start())?;
        Ok((map, words, domain))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let mut options = memmap2::MmapOptions::new();
        options.len(len).no_reserve_swap();
        let map = if writable {
            options.map_raw(file)?
        } else {
            // Private pages: even a store to them would not reach the file.
            // SAFETY: only atomic accesses are made to the mapping, so no change of the file makes them undefined.
            unsafe { options.map_copy(file) }?.into()
        };
        let words = cover(map.as_mut_ptr())?;
        Ok((map, words, Domain::Process))
    }
}
