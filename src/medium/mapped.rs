//! A file mapped into memory.
//!
//! On a direct-access (DAX) file system the mapping is made with `MAP_SYNC`: then flushed lines are durable without any
//! system call, and the domain is `Power`. Everywhere else the words live in the page cache (or in tmpfs), which
//! outlives the process but not the machine. There flush and fence cost nothing, because they would achieve nothing.
//!
//! What Linux does with a mapping is in `mapped/linux.rs`; what other systems do, in `mapped/elsewhere.rs`. Both
//! have the same names in the same order.

#[cfg(target_os = "linux")]
mod advice;
mod anew;
#[cfg(target_os = "linux")]
mod covered;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod evictable;
mod file;
#[cfg(target_os = "linux")]
mod mode;
#[cfg(target_os = "linux")]
mod pages;
#[cfg(target_os = "linux")]
mod places;
mod reach;
#[cfg(target_os = "linux")]
mod storable;
#[cfg(not(target_os = "linux"))]
#[path = "mapped/elsewhere.rs"]
mod system;
#[cfg(target_os = "linux")]
#[path = "mapped/linux.rs"]
mod system;
#[cfg(all(test, target_os = "linux", not(any(bristlecone_loom, miri))))]
mod tests;

use super::journal::{self, Attached, Disk, FoundImage, ImageMaker, Journal, JournalStat, Marker, OldLog, Wanted};
use super::{Access, Costs, Domain, Facts, Hint, LINE, Medium, Step, Window};
use crate::arch::{self, Flush};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Fault, Result};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
pub use file::Mapping;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
pub(super) use file::write_in_place;
use file::{LockedFile, Remains};
pub(crate) use file::{is_unborn, sync_name};
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
pub(super) use pages::FileMap;
pub(crate) use reach::Reach;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use system::{Map, REACH, System};
pub(super) use system::{boot, detect, is_on_disk};

/// Forces the domain of every mapping, whatever the file system: `process`, `power` or `power-with-caches`.
///
/// For tests and measurements, as [`Options::domain`](crate::Options::domain).
const FORCE_DOMAIN: &str = "BRISTLECONE_DOMAIN";

/// A mapped pool file, locked against other openers.
pub struct Mapped {
    /// The first word of the mapping.
    base: NonNull<AtomicU64>,
    /// How many words may be accessed. They are mapped as long as `map` is there.
    words: AtomicUsize,
    map: Arc<Map>,
    /// The greatest length, in bytes.
    reach: u64,
    file: LockedFile,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "it is empty there"))]
    system: System,
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
            Self::conceive(path, (len, REACH), true, birth, |_| false).map_err(|fault| fault.in_pool(named(path)))?;
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
        let forced = forced().map_err(Fault::io("choose the domain"))?;
        let len = system::len_to_create(len, reach);
        let (file, remains) = file::create(path, len, in_place, birth, unborn)?;
        let map = Mapping::Write.map(file.as_file(), len, reach, false);
        let map = map.map_err(Fault::io("map")).inspect_err(|_| remains.remove(&file))?;
        let mut made = Self::from_parts(named(path), file, map, Mapping::Write);
        made.domain = forced.unwrap_or(made.detected);
        made.remains = Some(remains);
        Ok(made)
    }

    /// Marks the creation as complete.
    pub(crate) fn is_born(&self) {
        if let Some(remains) = &self.remains {
            remains.keep();
        }
    }

    /// Whether a loss of power takes back what was not synced, and leaves the file: so a journal is of use.
    pub(crate) fn is_lost_with_power(&self) -> bool {
        self.domain == Domain::Process && self.detected == Domain::Process && is_on_disk(self.file.as_file())
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
        Self::existing(path, mapping, reach).map_err(|fault| fault.in_pool(named(path)))
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
        let forced = forced().map_err(Fault::io("choose the domain"))?;
        let file = file::open(path, mapping)?;
        let len = system::len_to_map(&file, mapping, reach)?;
        let marker = system::marker(&file, mapping)?;
        let was_settled = marker.as_ref().is_none_or(Marker::is_settled);
        let journal = match marker.filter(|_| mapping == Mapping::Write) {
            // Before the file is mapped: the mapping shows what the journal has applied.
            Some(marker) => Some(Box::new(Attached::open(path, &file, marker, boot(), wanted)?)),
            None => None,
        };
        let map = mapping.map(file.as_file(), len, reach, journal.is_some()).map_err(Fault::io("map"))?;
        let mut made = Self::from_parts(named(path), file, map, mapping);
        made.domain = forced.unwrap_or(made.detected);
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
        #[cfg(all(target_os = "linux", not(bristlecone_loom)))]
        // Pages are noted in units of 4 KiB, and larger ones would go in parts only.
        if let Some(journal) = &made.journal {
            if system::page() != 4096 {
                journal.evicts_nothing();
                return Ok(made);
            }
            let (map, file) = (Arc::clone(&made.map), (*made.file).clone());
            journal.evicts(evictable::Evictable { map, file, growing: Arc::clone(&made.system.growing) });
        }
        Ok(made)
    }

    /// Makes the log of a closed pool that has none, durably, with so many bytes for frames. Tells what has become of
    /// the log of a pool that was here before.
    pub(crate) fn create_log(&self, path: &Path, uuid: [u64; 2], len: u64) -> Result<Option<OldLog>, Fault> {
        journal::create_log(path, &self.file, uuid, len, self.is_new())
    }

    /// An error if there are a log and a ring that have what the pool's file lacks, which does not say so.
    pub(crate) fn lacks_nothing(&self, path: &Path, uuid: [u64; 2]) -> Result<(), Fault> {
        journal::lacks_nothing(path, &self.file, uuid, self.boot)
    }

    /// Says in the file of a closed pool that it has a journal, whose log is made when it is opened, and how it waits
    /// for the disk then.
    pub(crate) fn remember_journal(&self, uuid: [u64; 2], mode: Journal) -> Result<(), Fault> {
        Marker::without_log(uuid, mode).write_through(&*self.file).map_err(Fault::io("write to the pool"))
    }

    /// Says in the file of a closed pool that it has a journal from now on, for which there is a log, and how it waits
    /// for the disk.
    pub(crate) fn adopt_journal(&self, path: &Path, uuid: [u64; 2], mode: Journal) -> Result<(), Fault> {
        journal::adopt(path, &self.file, uuid, mode)
    }

    /// Says in the file of a pool, which was closed in order, that it has no journal any more.
    pub(crate) fn drop_journal(&self) -> Result<(), Fault> {
        Marker::remove(&*self.file).and_then(|()| self.file.sync()).map_err(Fault::io("write to the pool"))
    }

    /// Numbers about the journal, if there is one.
    pub(crate) fn journal(&self) -> Option<JournalStat> {
        self.journal.as_ref().map_or(self.looked_at.as_deref().copied(), |journal| journal.stat())
    }

    fn from_parts(
        name: String,
        file: LockedFile,
        NewMapping { map, base, len, reach, domain: detected }: NewMapping,
        mapping: Mapping,
    ) -> Self {
        let mut made = Self {
            base,
            words: AtomicUsize::new((len / 8) as usize),
            map: Arc::new(map),
            reach: reach & !7,
            system: System::of(&file),
            file,
            name,
            domain: detected,
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
        };
        made.read_as(Access::Auto);
        made
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

    /// This mapping, read as this says.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.read_as(access);
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

    /// Panics where debug assertions are made, if this thread has no window open: what it stores might be lost.
    #[inline(always)]
    fn is_in_window(&self) {
        #[cfg(debug_assertions)]
        if let Some(journal) = &self.journal {
            assert!(journal.is_window_open(), "a store outside of a window");
        }
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

impl super::sealed::Sealed for Mapped {}

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

    #[inline]
    fn asks_ahead(&self) -> Option<u64> {
        self.kept_by_a_reader()
    }

    fn missing(&self, at: u64, len: u64) -> Vec<Range<u64>> {
        self.not_in_memory(at, len)
    }

    fn sync(&self) -> io::Result<()> {
        if self.mapping != Mapping::Write {
            return Ok(());
        }
        if let Some(journal) = &self.journal {
            return journal.sync();
        }
        self.sync_file()
    }

    #[inline]
    fn window(&self) -> Window<'_> {
        self.journal.as_ref().map_or(Window::NONE, |journal| journal.window())
    }

    #[inline]
    fn window_for_change(&self) -> Window<'_> {
        self.journal.as_ref().map_or(Window::NONE, |journal| journal.window_for_change())
    }

    fn pause(&self) {
        if let Some(journal) = &self.journal {
            journal.pause();
        }
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

    fn journal_stat(&self) -> Option<JournalStat> {
        self.journal()
    }

    fn vitals(&self) -> Option<std::sync::Arc<super::vitals::Vitals>> {
        self.journal.as_ref().map(|journal| journal.vitals())
    }

    fn take_image(&self) -> Option<FoundImage> {
        self.journal.as_ref()?.take_image()
    }

    fn set_image_maker(&self, maker: Option<Box<dyn ImageMaker>>) {
        if let Some(journal) = &self.journal {
            journal.set_image_maker(maker);
        }
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
        self.take(at, len)
    }

    fn reserved_to(&self, at: u64) -> u64 {
        self.taken_to(at)
    }

    fn release(&self, at: u64, len: u64) -> io::Result<()> {
        self.give_back(at, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.cut(len)
    }

    fn space(&self) -> u64 {
        self.space_of_file()
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
        self.is_in_window();
        self.word(at).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        self.is_in_window();
        // SAFETY: `pair_at` gives two words in bounds of the mapping, 16-byte aligned.
        unsafe { arch::store_pair(self.pair_at(at), pair) }
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        self.is_in_window();
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
            Hint::Ahead => return self.ask(at, len),
            Hint::Passed => return self.let_go(at, len),
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

/// The domain that [`FORCE_DOMAIN`] names.
pub(super) fn forced() -> io::Result<Option<Domain>> {
    let Some(said) = std::env::var_os(FORCE_DOMAIN) else { return Ok(None) };
    let wrong = || format!("{FORCE_DOMAIN} is '{}', and must be process, power or power-with-caches", said.display());
    let domain = said.to_str().and_then(Domain::from_name);
    domain.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, wrong()))
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
struct NewMapping {
    map: Map,
    base: NonNull<AtomicU64>,
    /// Bytes of the file.
    len: u64,
    /// Bytes that may be mapped.
    reach: u64,
    domain: Domain,
}
