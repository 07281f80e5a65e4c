//! What Linux does with a mapping: it grows, gives space back, and is cut, in pages small and huge. The names are those
//! of `elsewhere.rs`, in the same order; what only this system needs follows at the end.

use super::advice::Wishes;
use super::covered::Covered;
use super::file::{self, LockedFile};
use super::mode::{HUGE_PAGE, MapMode};
use super::pages::{self, MADV_COLLAPSE};
use super::{Mapped, Mapping, NewMapping, Reach};
use crate::error::Fault;
use crate::medium::disk_file;
use crate::medium::journal::{Disk, Marker};
use crate::medium::{Access, Domain, LINE, Medium};
use parking_lot::Mutex;
use rustix::fs::{SeekFrom, seek};
use rustix::mm::{Advice, madvise};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// What keeps the pages mapped.
pub(super) type Map = pages::FileMap;

/// How far a mapping may grow if nobody says how far it should.
pub(super) const REACH: u64 = 64 << 30;

/// What the system needs to know of a mapping.
pub(super) struct System {
    /// Held by a thread that changes the length. No other lock is taken meanwhile, but for the journal's, whose holders
    /// wait for no lock of a pool.
    pub(super) growing: Arc<Mutex<()>>,
    /// What was given back of a file in memory.
    pub(super) covered: Covered,
    /// Whether the file is in memory only (tmpfs).
    pub(super) in_memory: bool,
    /// How it is to be read.
    pub(super) wishes: Wishes,
}

impl System {
    pub(super) fn of(file: &LockedFile) -> Self {
        let in_memory = rustix::fs::fstatfs(file.as_file()).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC);
        Self { growing: Arc::default(), covered: Covered::default(), in_memory, wishes: Wishes::default() }
    }
}

/// Whether a file outlives the machine, and there are journals.
pub(in crate::medium) fn is_on_disk(file: &File) -> bool {
    const RAMFS: u64 = 0x8584_58f6;
    const HUGETLBFS: u64 = 0x9584_58f6;
    // A file of `memfd_create` is on a tmpfs, too.
    let in_memory = [libc::TMPFS_MAGIC as u64, RAMFS, HUGETLBFS];
    let found = rustix::fs::fstatfs(file).map(|found| found.f_type as u64 & 0xffff_ffff);
    !cfg!(bristlecone_loom) && found.is_ok_and(|found| !in_memory.contains(&found))
}

/// The length with which a file is created that may grow as far as `reach` says.
pub(super) fn len_to_create(len: u64, _reach: Reach) -> u64 {
    len
}

/// The length with which a file that is there is mapped.
pub(super) fn len_to_map(file: &LockedFile, _mapping: Mapping, _reach: Reach) -> Result<u64, Fault> {
    Ok(file.metadata().map_err(Fault::io("inspect"))?.len())
}

/// The marker of a file as the disk has it, if it has one.
pub(super) fn marker(file: &LockedFile, mapping: Mapping) -> Result<Option<Marker>, Fault> {
    let marker = Marker::read(&**file).map_err(Fault::io("read"))?;
    if marker.is_none() || mapping != Mapping::Write {
        return Ok(marker);
    }
    file.write_space_first().map_err(Fault::io("make sure of what the disk has"))?;
    Marker::read(&**file).map_err(Fault::io("read"))
}

/// The current boot of the machine, as a word other than 0; 0 where the system does not tell.
pub(in crate::medium) fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        // All of the boot id is random.
        u128::from_str_radix(&digits, 16).map_or(0, |id| (id as u64 ^ (id >> 64) as u64).max(1))
    })
}

/// The domain of a mapping of this file; the file is not read, and may be empty.
pub(in crate::medium) fn detect(file: &File, writable: bool) -> Domain {
    let is_direct = MapMode::synchronous(writable).check(file, 0, LINE as usize).is_ok();
    if is_direct { pages::domain() } else { Domain::Process }
}

impl Mapping {
    /// Maps a file of `len` bytes such that it may grow as far as `reach` says, if the system has so many addresses.
    pub(super) fn map(self, file: &File, len: u64, reach: Reach, has_journal: bool) -> io::Result<NewMapping> {
        let bytes = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let writable = self == Self::Write && !has_journal;
        let is_direct = MapMode::synchronous(writable).check(file, 0, bytes).is_ok();
        let domain = if is_direct { pages::domain() } else { Domain::Process };
        let how = match (writable, is_direct) {
            (true, true) => MapMode::Synchronous,
            (true, false) => MapMode::Shared,
            (false, _) => MapMode::Private,
        };
        let reach = reach.of_file(len, self == Self::Read);
        let map = pages::FileMap::growing(file, bytes, reach, how)?;
        let base = NonNull::new(map.start().cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(NewMapping { map, base, len, reach: reach.most, domain })
    }
}

impl Mapped {
    /// Makes everything that was stored to a mapping without a journal survive the machine. The system tracks by itself
    /// which pages were written to.
    pub(super) fn sync_file(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Has the file read as this says, from now on.
    pub(super) fn read_as(&mut self, access: Access) {
        self.system.wishes.access = access;
        self.advise(self.accessible());
    }

    /// Makes a hole of everything from an offset on, which then reads as zeros. False where files cannot have holes.
    pub(crate) fn punch_from(&self, at: u64) -> io::Result<bool> {
        if at < self.accessible() {
            return self.file.punch_hole(at, self.accessible() - at);
        }
        Ok(true)
    }

    /// Takes the space of a range, of which the end is in reach. See [`Medium::reserve`].
    pub(super) fn take(&self, at: u64, len: u64) -> io::Result<()> {
        let behind = self.accessible();
        if at + len > behind { self.extend(at, len) } else { self.claim(at, len, behind) }
    }

    /// See [`Medium::reserved_to`].
    pub(super) fn taken_to(&self, at: u64) -> u64 {
        // On a disk it is as cheap to ask for each range, and not all file systems know of their holes.
        if !self.system.in_memory {
            return at;
        }
        let hole = seek(self.file.as_file(), SeekFrom::Hole(at)).unwrap_or(at).min(self.accessible());
        // What is covered is not accessible for stores, even if it has space.
        if hole > at && !self.system.covered.overlap(&(at..hole)) { hole } else { at }
    }

    /// See [`Medium::release`].
    pub(super) fn give_back(&self, at: u64, len: u64) -> io::Result<()> {
        let end = at.saturating_add(len).min(self.accessible());
        let pages = at.min(end).next_multiple_of(page())..end / page() * page();
        if self.mapping != Mapping::Write || pages.is_empty() {
            return Ok(());
        }
        match &self.journal {
            Some(journal) => journal.release(pages),
            None if self.system.in_memory => {
                if self.system.covered.add(pages.clone(), || self.map.cover(&pages))? {
                    self.file.punch_hole(pages.start, pages.end - pages.start)?;
                }
            }
            None => {
                self.file.punch_hole(pages.start, pages.end - pages.start)?;
                self.hold_beside(&pages)?;
            }
        }
        Ok(())
    }

    /// See [`Medium::truncate`].
    pub(super) fn cut(&self, len: u64) -> io::Result<()> {
        if self.mapping != Mapping::Write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let _growing = self.system.growing.lock();
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
            journal.forgets(len..before);
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
        self.system.covered.remove::<()>(&(end..before), |_| Ok(())).expect("nothing is done");
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

    /// See [`Medium::space`]. It is asked for when a pool is opened, and when it is closed.
    pub(super) fn space_of_file(&self) -> u64 {
        let _ = self.file.give_back_ahead();
        file::space(self.file.as_file()).unwrap_or(0)
    }

    /// Maps the whole pages of a range at once, for reading: one fault per page would take longer than the use of the
    /// page. A hint.
    pub(super) fn populate(&self, at: u64, len: u64) {
        // All of it from the disk at once, where each fault reads one page.
        self.ask(at, len);
        let pages = at.next_multiple_of(page())..(at + len) / page() * page();
        let _ = self.populate_pages(pages, Advice::LinuxPopulateRead);
    }

    /// Puts huge pages into a part of a file in memory in place of its small ones, whatever of these is missing. A
    /// hint.
    pub(super) fn collapse(&self, at: u64, len: u64) {
        if self.system.in_memory && self.journal.is_none() && self.mapping == Mapping::Write {
            for start in
                (at.next_multiple_of(HUGE_PAGE)..(at + len) / HUGE_PAGE * HUGE_PAGE).step_by(HUGE_PAGE as usize)
            {
                let Some(part) = self.map.part(&(start..start + HUGE_PAGE)) else { break };
                // SAFETY: whole pages of the mapping; collapsing changes no content.
                let _ = unsafe { libc::madvise(part, HUGE_PAGE as usize, MADV_COLLAPSE) };
            }
        }
    }

    /// Prefers huge pages in a part of the file that nobody has stored to. In a private mapping, it gets memory of its
    /// own, if the file has nothing but zeros there.
    pub(super) fn detach(&self, at: u64, len: u64) {
        let whole = at.next_multiple_of(HUGE_PAGE)..(at + len) / HUGE_PAGE * HUGE_PAGE;
        if whole.start >= whole.end || whole.end > self.accessible() {
            return;
        }
        if self.journal.is_none() && (self.system.in_memory || self.mapping != Mapping::Write) {
            self.map.prefer_huge(&whole);
        } else if self.journal.is_none() {
            // The space first: a huge page that the file has only in part cannot be stored to if the disk is full.
            if self.file.allocate(whole.start, whole.end - whole.start).unwrap_or(false) {
                self.map.cache_huge(self.file.as_file(), &whole);
            }
        } else if let Some(journal) = &self.journal
            && journal.may_detach(whole.end - whole.start)
            && (self.file.is_unused_from(whole.start)
                || disk_file::is_zero(self.file.as_file(), whole.clone()).unwrap_or(false))
            && self.map.detach(whole.clone()).is_ok()
        {
            journal.is_detached(whole);
        } else {
            // The zeros that the file has there are read in one piece, and not with the first store to each page.
            self.ask(at, len);
        }
    }
}

/// The unit in which a file grows.
const STEP: u64 = 2 << 20;
/// The most by which a file grows at once if nobody needs more. With a journal, each growth waits for the disk.
const STRIDE: u64 = 64 << 20;

/// Bytes of a page of this machine.
pub(super) fn page() -> u64 {
    pages::page() as u64
}

impl Mapped {
    /// Puts huge pages into the holes of a file in memory, where whole ones fit. A hint.
    ///
    /// tmpfs does so only when it is told to, unless it is mounted that way, and only where there is a page already. A
    /// huge page takes the space that is about to be reserved anyway, a tenth of the time to fill, and one entry of the
    /// processor's cache of addresses instead of 512.
    fn fill_with_huge_pages(&self, at: u64, len: u64) {
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

    /// Makes sure that holes in the file can be read: a full tmpfs has no page for a hole, and would answer with a
    /// signal.
    fn readable(&self, at: u64, len: u64) -> io::Result<()> {
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
    pub(super) fn populate_pages(&self, pages: Range<u64>, advice: Advice) -> rustix::io::Result<()> {
        match self.map.part(&pages) {
            // SAFETY: whole pages of the mapping; populating changes no content.
            Some(part) => unsafe { madvise(part, (pages.end - pages.start) as usize, advice) },
            None => Ok(()),
        }
    }

    /// Makes the mapping longer, such that `len` bytes from `at` are in it, and makes sure that there is space for
    /// these.
    #[cold]
    fn extend(&self, at: u64, len: u64) -> io::Result<()> {
        let growing = self.system.growing.lock();
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
    fn lengthen(&self, at: u64, len: u64) -> io::Result<()> {
        let (end, before) = (at + len, self.accessible());
        let least = match &self.journal {
            Some(_) => end.max(before + (before / 8).min(STRIDE)),
            None => end,
        };
        let grown =
            least.next_multiple_of(STEP).min(disk_file::longest_file() / page() * page()).max(end).min(self.reach);
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
                self.advise(grown);
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
        if self.system.in_memory {
            if self.system.covered.overlap(&pages) {
                // The space first: late readers may look there at any time.
                self.take_space(&pages)?;
                self.system.covered.remove(&pages, |part| self.map.uncover(self.file.as_file(), &part))?;
                self.collapse(at, len);
                return Ok(());
            }
            self.fill_with_huge_pages(at, len);
        }
        let hole = self.take_space(&pages)?.unwrap_or(pages.end);
        self.make_storable(&(hole..pages.end))?;
        if self.system.in_memory { Ok(()) } else { self.hold_ends(&pages, hole) }
    }

    /// Makes sure that the file has the space of a range. Returns the offset from which on it had not, or may not have.
    fn take_space(&self, pages: &Range<u64>) -> io::Result<Option<u64>> {
        if self.system.in_memory {
            // To look for the next hole, tmpfs looks at each page before it, also far behind the range.
            return self.file.allocate(pages.start, pages.end - pages.start).map(|_| Some(pages.start));
        }
        file::reserve(&self.file, pages.start, pages.end - pages.start)
    }

    /// Makes sure that the file has the space of a range, of a pool with a journal, and that it was written where that
    /// matters (J31).
    fn take_written(&self, pages: &Range<u64>) -> io::Result<()> {
        if self.file.take_written(pages, self.reach)? { Ok(()) } else { self.take_space(pages).map(drop) }
    }

    /// Says that so many bytes may be accessed from now on.
    fn publish(&self, len: u64) {
        self.words.store((len / 8) as usize, Ordering::Release);
    }
}
