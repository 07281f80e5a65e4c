//! Mappings of files on Linux: where huge pages fit, and with durable file-system metadata where the system offers
//! that.

use super::Reach;
use super::advice::Advised;
use super::mode::{HUGE_PAGE, MapMode};
use super::places::AddressPlace;
use crate::arch::{self, Flush};
use crate::medium::{Domain, LINE};
use crate::memory::addresses::{self, SetAside};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mremap_fixed, munmap};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The advice to put huge pages into a range now. Not every C library names it.
pub(super) const MADV_COLLAPSE: i32 = 25;

/// A file that is mapped at the beginning of addresses that are reserved for it, so that more of it can be mapped
/// behind.
///
/// What is reserved and not mapped cannot be accessed, and takes nothing but addresses. Only what is mapped counts
/// where the system promises no more memory than it has. If it needs more, it reserves what lies behind (see
/// [`places`](super::places)): it never moves, and one address is enough to find all words.
pub(in crate::medium) struct FileMap {
    start: *mut c_void,
    how: MapMode,
    /// How the system was told to read it.
    pub(super) advised: Advised,
    /// The offsets of the huge pages that are [detached](Self::detach).
    detached: Mutex<BTreeSet<u64>>,
    /// Bytes from `start` on that are reserved or mapped, in whole pages.
    reserved: AtomicUsize,
    /// Bytes from `start` on that are mapped, in whole pages.
    mapped: AtomicUsize,
    /// The first without the second.
    set_aside: SetAside,
    /// Up to here, addresses behind may be reserved later.
    most: u64,
    /// The place where it begins, unless the system chose the address, and those at which it did not fit. They are free
    /// when the addresses are.
    _places: Vec<AddressPlace>,
}

impl FileMap {
    /// Maps the first `len` bytes of a file for reading, and for writing if that is wanted.
    pub(in crate::medium) fn new(file: &File, len: usize, writable: bool) -> io::Result<Self> {
        let map = Self::growing(file, len, Reach::from(0), if writable { MapMode::Shared } else { MapMode::Private })?;
        map.prefer_huge(&(0..len as u64));
        Ok(map)
    }

    /// Maps the first `len` bytes of a file, and reserves some more addresses, such that it can grow as far as `reach`
    /// says.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`] if there are no addresses; any error of the system.
    pub(super) fn growing(file: &File, len: usize, reach: Reach, how: MapMode) -> io::Result<Self> {
        // First: if it failed on the reserved addresses, these might be another thread's by then.
        how.check(file, 0, len).map_err(addresses::refused)?;
        let whole = len.checked_next_multiple_of(page()).ok_or(io::ErrorKind::FileTooLarge)?;
        let (start, reserved, places) = reserve(whole, reach)?;
        let map = Self {
            start,
            how,
            advised: Advised::default(),
            detached: Mutex::default(),
            reserved: reserved.into(),
            mapped: 0.into(),
            set_aside: SetAside::default(),
            most: reach.most,
            _places: places,
        };
        map.extend(file, len)?;
        Ok(map)
    }

    /// Maps more of the file, which is as long: all pages up to `len` bytes. One thread at a time.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`] if there are no addresses for that; any error of the system. Then what was mapped
    /// still is, and nothing else.
    pub(super) fn extend(&self, file: &File, len: usize) -> io::Result<()> {
        let (protection, flags) = self.how.flags();
        self.add(len, |start, from, len| {
            if from > 0 {
                self.how.check(file, from, len).map_err(addresses::refused)?;
            }
            let map = || {
                // SAFETY: addresses that are reserved for this mapping and behind what is mapped, so nobody accesses
                // them.
                unsafe { mmap(start, len, protection, flags | MapFlags::FIXED, file, from as u64) }
            };
            map().inspect_err(|_| self.lose(from))?;
            self.advise_as_before(start, len);
            Ok(())
        })
    }

    /// Puts memory that is no file's behind what is mapped: zeros, up to `len` bytes. Errors are those of
    /// [`extend`](Self::extend).
    pub(super) fn extend_in_memory(&self, len: usize) -> io::Result<()> {
        self.add(len, |start, from, len| {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
            // SAFETY: addresses that are reserved for this mapping and behind what is mapped, so nobody accesses them.
            let mapped = unsafe { mmap_anonymous(start, len, ProtFlags::READ | ProtFlags::WRITE, flags) };
            mapped.inspect_err(|_| self.lose(from))?;
            Ok(())
        })
    }

    /// Calls `map` with the address, the offset and the length of the pages that are missing up to `len` bytes.
    fn add(&self, len: usize, map: impl FnOnce(*mut c_void, usize, usize) -> io::Result<()>) -> io::Result<()> {
        let from = self.mapped.load(Ordering::Relaxed);
        let to = len.checked_next_multiple_of(page()).ok_or(io::ErrorKind::FileTooLarge)?;
        if to > self.reserved.load(Ordering::Relaxed) {
            self.widen(to)?;
        }
        if from < to {
            map(self.start.wrapping_byte_add(from), from, to - from)?;
            self.mapped.store(to, Ordering::Release);
            self.count();
        }
        Ok(())
    }

    /// Reserves the addresses behind those that are reserved, at least up to `to`.
    #[cold]
    fn widen(&self, to: usize) -> io::Result<()> {
        let from = self.reserved.load(Ordering::Relaxed);
        // As if each was the last time.
        let more = (2 * from as u64).min(self.most).saturating_sub(to as u64).min(addresses::share());
        let wide = whole_pages(to as u64 + more).unwrap_or(to);
        let start = self.start.wrapping_byte_add(from);
        if (to - from) as u64 > addresses::spare() {
            return Err(addresses::refused(io::ErrorKind::OutOfMemory.into()));
        }
        let reserved = match reserve_at(start, wide - from).map(|()| wide) {
            Err(_) if to < wide => reserve_at(start, to - from).map(|()| to),
            reserved => reserved,
        };
        let reserved = reserved.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the addresses behind it are taken; open it again, or set enough aside when it is opened (`Options::addresses`)",
            ),
            _ => addresses::refused(error),
        })?;
        self.reserved.store(reserved, Ordering::Relaxed);
        self.count();
        Ok(())
    }

    /// Counts what is set aside.
    fn count(&self) {
        let mapped = self.mapped.load(Ordering::Relaxed);
        self.set_aside.set(self.reserved.load(Ordering::Relaxed).saturating_sub(mapped) as u64);
    }

    /// Takes everything behind the page in which `len` bytes end out of the mapping. The addresses stay reserved.
    /// Nobody was told of the bytes that go, so nobody accesses them.
    pub(super) fn take_back(&self, len: usize) {
        let (from, to) = (len.next_multiple_of(page()), self.mapped.load(Ordering::Relaxed));
        if from >= to {
            return;
        }
        self.mapped.store(from, Ordering::Release);
        self.count();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let start = self.start.wrapping_byte_add(from);
        // SAFETY: a part of this very mapping; the caller knows that no thread accesses it.
        if unsafe { mmap_anonymous(start, to - from, ProtFlags::empty(), flags) }.is_err() {
            self.lose(from);
        }
    }

    /// Puts zeros that are no file's in place of everything behind the page in which `len` bytes end. A thread that has
    /// looked at the length before, and accesses a word only now, still finds memory: what it stores there is lost.
    ///
    /// # Errors
    ///
    /// The error of the system, which promises no more memory, say; then the mapping may be shorter, and all of it is
    /// there.
    pub(super) fn cut(&self, len: usize) -> io::Result<()> {
        /// Few addresses, where they are limited.
        const PIECE: usize = 64 << 20;
        let (both, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let (from, mut to) = (len.next_multiple_of(page()), self.mapped.load(Ordering::Relaxed));
        while from < to {
            let at = to.saturating_sub(PIECE).max(from);
            // First elsewhere: a mapping that fails in its place may have unmapped what was there.
            // SAFETY: a new mapping where nothing is: the kernel chooses the address.
            let elsewhere = unsafe { mmap_anonymous(null_mut(), to - at, both, flags) }?;
            // SAFETY: exactly the mapping made above, which nobody uses.
            let _ = unsafe { munmap(elsewhere, to - at) };
            self.mapped.store(at, Ordering::Release);
            let start = self.start.wrapping_byte_add(at);
            // One that is cut in part stays as it is.
            self.detached.lock().split_off(&(at as u64).next_multiple_of(HUGE_PAGE));
            // SAFETY: a part of this very mapping. Words in it are only accessed atomically, and zeros are as good as
            // anything else.
            let cut = unsafe { mmap_anonymous(start, to - at, both, flags | MapFlags::FIXED) };
            cut.inspect_err(|_| self.lose(at))?;
            to = at;
        }
        Ok(())
    }

    /// Notes that addresses from an offset on may not be reserved any more: a mapping over them has failed, and the
    /// system may have unmapped what was there before. They are another thread's by now, or nobody's, and are never
    /// used or unmapped again.
    fn lose(&self, from: usize) {
        self.reserved.store(from, Ordering::Relaxed);
        self.count();
    }

    /// The address of a range, if it is wholly mapped.
    pub(super) fn part(&self, range: &std::ops::Range<u64>) -> Option<*mut c_void> {
        let mapped = self.mapped.load(Ordering::Acquire) as u64;
        (range.start <= range.end && range.end <= mapped).then(|| self.start.wrapping_byte_add(range.start as usize))
    }

    /// Shows zeros in a range of whole pages, instead of the file, to threads that still read there. What is stored
    /// there is lost.
    ///
    /// # Errors
    ///
    /// The error of the system; then the mapping is as it was.
    pub(super) fn cover(&self, range: &std::ops::Range<u64>) -> io::Result<()> {
        let start = self.part(range).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // Also for stores. The pool makes none, but its medium may have another owner.
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a part of this very mapping. Words in it are only accessed atomically, and loading zeros is as good
        // as loading anything else.
        unsafe { mmap_anonymous(start, (range.end - range.start) as usize, both, flags) }?;
        Ok(())
    }

    /// Shows the file again in a range that is [covered](Self::cover). Errors are those of that.
    pub(super) fn uncover(&self, file: &File, range: &std::ops::Range<u64>) -> io::Result<()> {
        let (at, len) = (range.start as usize, (range.end - range.start) as usize);
        let start = self.part(range).ok_or(io::ErrorKind::InvalidInput)?;
        let (protection, flags) = self.how.flags();
        self.how.check(file, at, len).map_err(addresses::refused)?;
        // SAFETY: a part of this very mapping, which nobody has a use for.
        let shown = unsafe { mmap(start, len, protection, flags | MapFlags::FIXED, file, range.start) };
        shown.map_err(|error| addresses::refused(error.into()))?;
        self.advise_as_before(start, len);
        Ok(())
    }

    /// How the file is mapped.
    pub(super) fn how(&self) -> MapMode {
        self.how
    }

    /// Tells the system how all that is mapped, and all that will be, is read. A hint. One thread at a time. Returns
    /// false if it was told so before.
    pub(super) fn advise(&self, advice: Advice) -> bool {
        let is_new = self.advised.note(advice);
        if is_new {
            let mapped = self.mapped.load(Ordering::Relaxed);
            // SAFETY: exactly what is mapped; the advice changes no content.
            let _ = unsafe { madvise(self.start, mapped, advice) };
        }
        is_new
    }

    /// Tells the system that a part which was mapped just now is read as the rest is.
    fn advise_as_before(&self, start: *mut c_void, len: usize) {
        if let Some(advice) = self.advised.given() {
            // SAFETY: a part of this very mapping; the advice changes no content.
            let _ = unsafe { madvise(start, len, advice) };
        }
    }

    /// Asks for huge pages in a range, from now on. A hint. File systems on a disk then take the space of a whole huge
    /// page where one word of it is stored, and of the next one: so it is for files in memory, and for what is used as
    /// a whole.
    pub(super) fn prefer_huge(&self, range: &std::ops::Range<u64>) {
        if let Some(start) = self.part(range).filter(|_| matches!(self.how, MapMode::Shared | MapMode::Private)) {
            // SAFETY: exactly what is mapped; the advice changes no content.
            let _ = unsafe { madvise(start, (range.end - range.start) as usize, Advice::LinuxHugepage) };
        }
    }

    /// Brings whole huge pages of a file on a disk into its cache, such that they can be stored to. All of them has
    /// space. A hint: some file systems follow it.
    ///
    /// Through another mapping: what asks for huge pages once asks for them as long as it is mapped, also when a part
    /// of them was given back.
    pub(super) fn cache_huge(&self, file: &File, range: &std::ops::Range<u64>) {
        if self.how != MapMode::Shared {
            return;
        }
        let (protection, flags) = self.how.flags();
        let len = (range.end - range.start) as usize;
        // SAFETY: a new mapping where nothing is: the kernel chooses the address.
        let Ok(start) = (unsafe { mmap(null_mut(), len, protection, flags, file, range.start) }) else { return };
        // Read in any order: else the system reads the next huge page, too, and that may have space only in part.
        let advise = |at: usize, len: usize, advice| {
            // SAFETY: whole pages of the mapping made above; no advice here changes a content.
            unsafe { madvise(start.wrapping_byte_add(at), len, advice) }
        };
        if advise(0, len, Advice::Random).and_then(|()| advise(0, len, Advice::LinuxHugepage)).is_ok() {
            let _ =
                (0..len).step_by(HUGE_PAGE as usize).try_for_each(|at| advise(at, page(), Advice::LinuxPopulateWrite));
        }
        // SAFETY: exactly the mapping made above, which nobody uses.
        let _ = unsafe { munmap(start, len) };
    }

    /// Lets go of the pages of a range that are in the file's cache, once what was stored to them is written. Not for a
    /// private mapping, whose stores would be gone. `write` writes them, as a sync does: the system tells the first
    /// caller what the disk could not take, and nobody later.
    pub(super) fn forget(
        &self,
        file: &File,
        range: &std::ops::Range<u64>,
        write: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(start) = self.part(range).filter(|_| self.how == MapMode::Shared) else { return Ok(()) };
        let (at, len) = (range.start, range.end - range.start);
        // SAFETY: whole pages of a shared mapping: the next access finds the file's page again.
        let _ = unsafe { madvise(start, len as usize, Advice::LinuxDontNeed) };
        write()?;
        let _ = rustix::fs::fadvise(file, at, std::num::NonZeroU64::new(len), rustix::fs::Advice::DontNeed);
        Ok(())
    }

    /// Bytes from the start on that are mapped.
    pub(super) fn mapped(&self) -> u64 {
        self.mapped.load(Ordering::Acquire) as u64
    }

    /// Maps all pages at once, such that they can be stored to: one fault per page would take longer.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] if the file, which has no holes, cannot be stored to.
    pub(in crate::medium) fn populate(&self) -> io::Result<()> {
        // SAFETY: exactly the mapping; the advice changes no content.
        match unsafe { madvise(self.start, self.mapped.load(Ordering::Relaxed), Advice::LinuxPopulateWrite) } {
            // Linux before 5.14 does not know it.
            Err(Errno::INVAL) => Ok(()),
            Err(Errno::FAULT) => Err(Errno::NOSPC.into()),
            other => Ok(other?),
        }
    }

    /// Replaces whole huge pages of a private mapping, whose file has no data there, by memory that is no file's: it is
    /// filled in huge pages, and a first store need not copy a page of zeros.
    ///
    /// # Errors
    ///
    /// The error of the system; then the mapping is as it was.
    pub(super) fn detach(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        let len = (range.end - range.start) as usize;
        let start = self.part(&range).filter(|_| range.start.is_multiple_of(HUGE_PAGE));
        let start = start.expect("whole huge pages of the mapping");
        let mut detached = self.detached.lock();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: a part of this very mapping, which shows zeros and goes on to; words in it are only accessed
        // atomically.
        unsafe { mmap_anonymous(start, len, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        detached.extend(range.step_by(HUGE_PAGE as usize));
        // Only a hint.
        // SAFETY: exactly the part that was mapped; the advice changes no content.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        Ok(())
    }

    /// The huge page that is [detached](Self::detach), of which an offset is a part.
    pub(super) fn detached_around(&self, at: u64) -> Option<std::ops::Range<u64>> {
        let start = at / HUGE_PAGE * HUGE_PAGE;
        self.detached.lock().contains(&start).then_some(start..start + HUGE_PAGE)
    }

    /// Shows the file again in one huge page that is detached, but for the pages that begin at `kept`. Nobody stores
    /// there meanwhile; readers go on, and find either memory, which shows the same.
    ///
    /// # Errors
    ///
    /// The error of the system; then the mapping is as it was.
    pub(super) fn attach(&self, file: &File, range: std::ops::Range<u64>, kept: &[u64]) -> io::Result<()> {
        /// Bytes of a page that is kept.
        const KEPT: usize = 4096;
        let mut detached = self.detached.lock();
        let start = self.part(&range).ok_or(io::ErrorKind::InvalidInput)?;
        let (protection, flags) = self.how.flags();
        let (at, len) = (range.start as usize, (range.end - range.start) as usize);
        // Elsewhere first: a mapping over this one that fails may have unmapped it.
        // SAFETY: a new mapping where nothing is: the kernel chooses the address.
        let elsewhere = unsafe { mmap(null_mut(), len, protection, flags, file, at as u64) }?;
        for page_at in kept {
            let offset = *page_at as usize - at;
            let (from, to) = (start.wrapping_byte_add(offset), elsewhere.wrapping_byte_add(offset));
            for word in (0..KEPT).step_by(8) {
                // SAFETY: a word of this mapping, which is only accessed atomically.
                let value = unsafe { &*from.wrapping_byte_add(word).cast::<AtomicU64>() }.load(Ordering::Relaxed);
                // SAFETY: a word of the mapping made above, which nobody else uses.
                unsafe { to.wrapping_byte_add(word).cast::<u64>().write(value) };
            }
        }
        let moved = if kept.is_empty() {
            // SAFETY: exactly the mapping made above, which nobody uses.
            let _ = unsafe { munmap(elsewhere, len) };
            // SAFETY: a part of this very mapping, which shows the same as the file; words in it are only accessed
            // atomically.
            unsafe { mmap(start, len, protection, flags | MapFlags::FIXED, file, range.start) }
        } else {
            // SAFETY: exactly the mapping made above takes the place of a part of this one, which shows the same.
            unsafe { mremap_fixed(elsewhere, len, len, MremapFlags::MAYMOVE, start) }
        };
        if let Err(error) = moved {
            // SAFETY: a part of this very mapping, if that is still there; the advice changes no content.
            if unsafe { madvise(start, len, Advice::Normal) }.is_err() {
                // It is not, and with it went what nothing else has: nobody may go on.
                std::process::abort();
            }
            if !kept.is_empty() {
                // SAFETY: exactly the mapping made above, which nobody uses.
                let _ = unsafe { munmap(elsewhere, len) };
            }
            return Err(error.into());
        }
        self.advise_as_before(start, len);
        detached.remove(&range.start);
        Ok(())
    }

    /// Lets go of the private pages of a range: they show the file, or zeros where they are [detached](Self::detach).
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(super) fn show_file(&self, range: &std::ops::Range<u64>) -> io::Result<()> {
        /// As `MADV_DONTNEED`, in memory that is locked. Not every C library names it.
        const DONT_NEED_LOCKED: i32 = 24;
        let start = self.part(range).filter(|_| self.how == MapMode::Private).ok_or(io::ErrorKind::InvalidInput)?;
        let len = (range.end - range.start) as usize;
        // SAFETY: whole pages of a private mapping: the next access finds the page of the file, or zeros, and words are
        // only accessed atomically.
        match unsafe { madvise(start, len, Advice::LinuxDontNeed) } {
            Err(Errno::INVAL) => {
                // SAFETY: as above.
                let done = unsafe { libc::madvise(start, len, DONT_NEED_LOCKED) };
                if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
            }
            done => Ok(done?),
        }
    }

    pub(in crate::medium) fn start(&self) -> *mut u8 {
        self.start.cast()
    }
}

// SAFETY: the addresses of a mapping, which belong to no thread; what changes it is behind locks, or one thread's.
unsafe impl Send for FileMap {}
// SAFETY: as for `Send`.
unsafe impl Sync for FileMap {}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: what was reserved and mapped for this mapping, and nothing else; `Mapped` hands out no reference that
        // outlives it.
        let _ = unsafe { munmap(self.start, *self.reserved.get_mut()) };
    }
}

/// Bytes of a page of this machine, the smallest unit that it maps: 4 KiB, on some 16 or 64.
pub(super) fn page() -> usize {
    #[cfg(all(test, not(any(bristlecone_loom, miri))))]
    if let Some(bytes) = super::tests::PAGE.get() {
        return bytes;
    }
    rustix::param::page_size()
}

/// So many bytes, in whole pages.
fn whole_pages(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok()?.checked_next_multiple_of(page())
}

/// Reserves addresses for a mapping of `least` bytes, in whole pages, and for its growth. They begin where huge pages
/// fit, if there is room for one. Returns how many bytes there are, and the places.
fn reserve(least: usize, reach: Reach) -> io::Result<(*mut c_void, usize, Vec<AddressPlace>)> {
    let refused = addresses::refused;
    let certain = whole_pages(reach.certain).ok_or_else(|| refused(io::ErrorKind::OutOfMemory.into()))?.max(least);
    let mut places = Vec::new();
    if reach.most <= certain as u64 {
        return Ok((reserve_aligned(certain).map_err(refused)?, certain, places));
    }
    let with = |bytes: u64| whole_pages(bytes.min(reach.most).min((certain as u64).saturating_add(addresses::share())));
    let likely = with(reach.likely).unwrap_or(certain).max(certain);
    // Where many places are taken by mappings that have grown, the system may have a better one.
    const TRIES: usize = 16;
    while let Some(place) = AddressPlace::next_free().filter(|_| places.len() < TRIES) {
        let start = std::ptr::without_provenance_mut(place.address());
        places.push(place);
        // Less where another mapping is near: this one may still grow up to that.
        for len in [likely, certain] {
            if reserve_at(start, len).is_ok() {
                return Ok((start, len, places));
            }
        }
    }
    // What lies behind will be another mapping's soon.
    let mut growth = with(reach.most).unwrap_or(certain).max(certain) - certain;
    loop {
        match reserve_aligned(certain + growth) {
            Ok(start) => return Ok((start, certain + growth, Vec::new())),
            Err(error) if growth == 0 => return Err(refused(error)),
            // A part of a page could not be mapped.
            Err(_) => growth = growth / 2 / page() * page(),
        }
    }
}

/// Reserves exactly these addresses, in whole pages.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] if something is mapped there; any error of the system.
fn reserve_at(start: *mut c_void, len: usize) -> io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: a new mapping; nothing existing is replaced.
    let found = unsafe { mmap_anonymous(start, len, ProtFlags::empty(), flags) }?;
    if found == start {
        return Ok(());
    }
    // Systems before Linux 4.17 take the address for a hint.
    // SAFETY: exactly the mapping made above, which nobody uses.
    let _ = unsafe { munmap(found, len) };
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Reserves so many bytes of addresses, which begin where huge pages fit, if the system has room for that.
fn reserve_aligned(len: usize) -> io::Result<*mut c_void> {
    let huge = HUGE_PAGE as usize;
    let reserve = |len: usize| {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address the kernel chooses; nothing existing is replaced.
        unsafe { mmap_anonymous(null_mut(), len, ProtFlags::empty(), flags) }
    };
    let more = len.checked_add(huge - page().min(huge)).filter(|_| len >= huge);
    let Some((found, more)) = more.and_then(|more| Some((reserve(more).ok()?, more))) else {
        return Ok(reserve(len)?);
    };
    let start = found.map_addr(|at| at.next_multiple_of(huge));
    let before = start.addr() - found.addr();
    let behind = more - before - len;
    // If this fails, some addresses stay reserved for nothing.
    if before > 0 {
        // SAFETY: the beginning of the mapping made above, which nobody uses.
        let _ = unsafe { munmap(found, before) };
    }
    if behind > 0 {
        // SAFETY: the end of the mapping made above, which nobody uses.
        let _ = unsafe { munmap(start.wrapping_byte_add(len), behind) };
    }
    Ok(start)
}

/// The domain of a synchronous mapping on this machine.
///
/// `PowerWithCaches` only if every region of persistent memory says so, because the file could lie on any of them.
/// `Power` only if there is an instruction that writes lines back, and if a line has the size that the proofs assume.
pub(super) fn domain() -> Domain {
    if arch::line_size() < LINE as usize {
        return Domain::Process;
    }
    let regions = std::fs::read_dir("/sys/bus/nd/devices").into_iter().flatten().flatten();
    let mut domains =
        regions.filter_map(|region| std::fs::read_to_string(region.path().join("persistence_domain")).ok()).peekable();
    if domains.peek().is_some() && domains.all(|domain| domain.trim() == "cpu_cache") {
        Domain::PowerWithCaches
    } else if Flush::chosen() == Flush::None {
        Domain::Process
    } else {
        Domain::Power
    }
}
