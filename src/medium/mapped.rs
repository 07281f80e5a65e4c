//! A file mapped into memory.
//!
//! On a direct-access (DAX) file system the mapping is made with `MAP_SYNC`: then flushed lines are durable without
//! any system call and the domain is `Power`. Everywhere else the words live in the page cache (or in tmpfs), which
//! outlives the process but not the machine, and flush and fence cost nothing because they would bring nothing.

#[cfg(target_os = "linux")]
mod dax;

use super::process::Process;
use super::{Costs, Domain, LINE, Medium};
use crate::arch::{self, Flush};
use crate::error::{Error, Result};
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Forces the domain of every mapping, whatever the file system: `process`, `power` or `power-with-caches`.
///
/// For tests and measurements, as [`Options::domain`](crate::Options::domain).
const FORCE_DOMAIN: &str = "BRISTLECONE_DOMAIN";

/// Who keeps the pages mapped.
enum Map {
    /// An ordinary shared mapping.
    Shared { _map: memmap2::MmapRaw },
    /// Mapped with `MAP_SYNC` on a DAX file system; unmapped by `Drop`.
    #[cfg(target_os = "linux")]
    Synchronous { _map: dax::SyncMap },
}

/// A mapped pool file, locked against other openers.
pub struct Mapped {
    // `words` points into `map`, which therefore never changes without it.
    words: NonNull<[AtomicU64]>,
    /// Which one mapped it.
    process: Process,
    map: Map,
    file: File,
    name: String,
    domain: Domain,
    /// What the mapping itself promises.
    detected: Domain,
    flush: Flush,
    mapping: Mapping,
    /// Measured when somebody asks.
    costs: OnceLock<Costs>,
    /// What is to be removed if the creation is not completed.
    remains: Option<Remains>,
}

/// What a creation makes of a path; removed if it fails.
struct Remains {
    path: PathBuf,
    /// Whether this process created the file; if not, it was there, and empty or as good as empty.
    new: bool,
    born: OnceLock<()>,
}

impl Remains {
    /// Under the lock on the file.
    fn remove(&self, file: &File) {
        if self.born.get().is_some() {
            return;
        }
        // Where it cannot be removed, the next creation takes it for what it is.
        let _ = if self.new && is_at(&self.path, file) { std::fs::remove_file(&self.path) } else { file.set_len(0) };
    }
}

// SAFETY: `words` is a shared mapping that lives as long as `self`; it is only accessed atomically.
unsafe impl Send for Mapped {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapped {}

/// How a file is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// For reading and writing, under an exclusive lock.
    Write,
    /// For reading only, under a shared lock.
    Read,
    /// For trees of a file that is only read, under a shared lock: all that is stored, and what is repaired after a crash,
    /// stays in the memory of this process, and is gone with the mapping.
    Copy,
}

impl Mapped {
    /// Creates the file with `len` bytes (sparse), or takes an existing empty one, and maps it.
    ///
    /// `birth` is written to the first word before the file gets its length, so that a file left over from an
    /// interrupted creation can be told from a foreign one. If it fails, there is no file, or an empty one, as before.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::NotAPool`] (the file has content),
    /// [`Error::OutOfSpace`], [`Error::Io`].
    pub fn create(path: &Path, len: u64, birth: u64) -> Result<Self> {
        let created = Self::conceive(path, len, birth, |_| false)?;
        created.is_born();
        Ok(created)
    }

    /// The same; also takes a file of which `unborn` says, given its first bytes, that it is the remains of a creation. Until
    /// [`is_born`](Self::is_born) says that it is more, dropping it removes what was made.
    pub(crate) fn conceive(path: &Path, len: u64, birth: u64, unborn: impl Fn(&[u8]) -> bool) -> Result<Self> {
        let name = path.display().to_string();
        let io = |doing| move |source| Error::Io { pool: path.display().to_string(), doing, source };
        let (file, new) = loop {
            let mut options = opening(Mapping::Write);
            let (file, new) = match options.create_new(true).open(path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    regular_at(path)?;
                    match opening(Mapping::Write).open(path) {
                        // Removed meanwhile; or the path is a symbolic link to no file, which is created then.
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {
                            (opening(Mapping::Write).create(true).open(path), false)
                        }
                        file => (file, false),
                    }
                }
                file => (file, true),
            };
            let file = file.map_err(|e| refused(path, "create", e))?;
            regular(path, &file)?;
            lock(path, &file, Mapping::Write)?;
            // Another process whose creation failed may have removed the file before it gave up the lock.
            if is_at(path, &file) {
                break (file, new);
            }
        };
        if regular(path, &file)? != 0 && !unborn(&head(&file, birth).map_err(io("read"))?) {
            return Err(Error::NotAPool { pool: name, found: "a file with other content" });
        }
        let remains = Remains { path: path.to_owned(), new, born: OnceLock::new() };
        let sized = || {
            file.set_len(0).map_err(io("empty"))?;
            write_first_word(&file, birth).map_err(|e| Error::no_space(name.clone(), 8, len, e))?;
            file.set_len(len).map_err(|e| Error::no_space(name.clone(), len, len, e))
        };
        match sized().and_then(|()| map_file(&file, len, true).map_err(io("map"))) {
            Ok(map) => {
                let mut made = Self::of(name, file, map, Mapping::Write);
                made.remains = Some(remains);
                Ok(made)
            }
            Err(error) => {
                remains.remove(&file);
                Err(error)
            }
        }
    }

    /// The creation is complete.
    pub(crate) fn is_born(&self) {
        if let Some(remains) = &self.remains {
            let _ = remains.born.set(());
        }
    }

    /// Whether there is a file that begins with `birth`, of which `unborn` says the same as for [`conceive`](Self::conceive).
    pub(crate) fn is_unborn(path: &Path, birth: u64, unborn: impl Fn(&[u8]) -> bool) -> bool {
        let head = || head(&opening(Mapping::Read).open(path)?, birth);
        regular_at(path).is_ok() && head().is_ok_and(|head| unborn(&head))
    }

    /// Makes the name of a new file survive the machine, if its directory can be opened: a wish, as not all systems know it.
    pub(crate) fn sync_name(path: &Path) {
        // Of a symbolic link, the name that it leads to is new.
        if let Ok(path) = path.canonicalize()
            && let Some(parent) = path.parent()
        {
            let _ = File::open(parent).and_then(|directory| directory.sync_all());
        }
    }

    /// Opens and maps an existing file.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::InUse`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::NotAPool`] (empty),
    /// [`Error::Io`].
    pub fn open(path: &Path, mapping: Mapping) -> Result<Self> {
        let write = mapping == Mapping::Write;
        regular_at(path)?;
        let file = opening(mapping).open(path).map_err(|e| refused(path, "open", e))?;
        let len = regular(path, &file)?;
        let meta = file.metadata().map_err(|e| refused(path, "inspect", e))?;
        if write && meta.permissions().readonly() {
            // The superuser could write it all the same; the owner's wish counts.
            return Err(Error::ReadOnly { pool: path.display().to_string() });
        }
        if len == 0 {
            return Err(Error::NotAPool { pool: path.display().to_string(), found: "an empty file" });
        }
        lock(path, &file, mapping)?;
        if !is_at(path, &file) {
            // A creation that failed removed it before it gave up the lock.
            return Err(Error::NotFound { what: path.display().to_string() });
        }
        Self::map(path, file, mapping)
    }

    fn map(path: &Path, file: File, mapping: Mapping) -> Result<Self> {
        let io = |doing| move |source| Error::Io { pool: path.display().to_string(), doing, source };
        let len = file.metadata().map_err(io("inspect"))?.len();
        let map = map_file(&file, len, mapping == Mapping::Write).map_err(io("map"))?;
        Ok(Self::of(path.display().to_string(), file, map, mapping))
    }

    fn of(
        name: String,
        file: File,
        (map, words, detected): (Map, NonNull<[AtomicU64]>, Domain),
        mapping: Mapping,
    ) -> Self {
        Self {
            words,
            process: Process::this(),
            map,
            file,
            name,
            domain: forced().unwrap_or(detected),
            detected,
            flush: Flush::chosen(),
            mapping,
            costs: OnceLock::new(),
            remains: None,
        }
    }

    /// The same mapping, used as if its domain were this one.
    ///
    /// For tests and measurements: `Power` on an ordinary file costs what persistent memory would cost and gives no
    /// durability beyond the process.
    #[must_use]
    pub fn with_domain(mut self, domain: Domain) -> Self {
        self.domain = domain;
        self
    }

    /// Bytes of the file that its file system has really allocated.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn allocated(&self) -> io::Result<u64> {
        #[cfg(unix)]
        return std::os::unix::fs::MetadataExt::blocks(&self.file.metadata()?)
            .checked_mul(512)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file system reports more blocks than fit"));
        #[cfg(not(unix))]
        Ok(self.file.metadata()?.len())
    }

    /// Makes a hole of everything from an offset on, which then reads as zeros. False where files have no holes.
    pub(crate) fn punch_from(&self, at: u64) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        if at < self.len() {
            use rustix::fs::{FallocateFlags, fallocate};
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return match rustix::io::retry_on_intr(|| fallocate(&self.file, flags, at, self.len() - at)) {
                Err(rustix::io::Errno::OPNOTSUPP) => Ok(false),
                other => Ok(other.map(|()| true)?),
            };
        }
        Ok(at >= self.len())
    }

    /// Maps the whole pages of a range all at once, to be written or only read: a fault for each would take longer than the
    /// use of it. A hint.
    #[cfg(target_os = "linux")]
    fn populate(&self, at: u64, len: u64, mapping: Mapping) {
        use rustix::mm::{Advice, madvise};
        let advice = match mapping {
            Mapping::Write => Advice::LinuxPopulateWrite,
            Mapping::Read | Mapping::Copy => Advice::LinuxPopulateRead,
        };
        const PAGE: u64 = 4096;
        let (start, end) = (at.next_multiple_of(PAGE), (at + len) / PAGE * PAGE);
        if let Some(words) = self.words().get((start / 8) as usize..(end / 8) as usize) {
            let start = words.as_ptr().cast_mut().cast();
            // SAFETY: whole pages of the mapping; populating changes no content.
            let _ = unsafe { madvise(start, words.len() * 8, advice) };
        }
    }

    /// Whether what is not in the file can be read all the same: a full tmpfs has no page for it, and answers with a signal.
    #[cfg(target_os = "linux")]
    fn readable(&self, at: u64, len: u64) -> io::Result<()> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        use rustix::mm::{Advice, madvise};
        const PAGE: u64 = 4096;
        let end = at + len;
        let mut from = at;
        while let Ok(hole) = seek(&self.file, SeekFrom::Hole(from))
            && hole < end
        {
            let data = seek(&self.file, SeekFrom::Data(hole)).unwrap_or(end).min(end);
            let pages = (hole / PAGE * PAGE / 8) as usize..(data.next_multiple_of(PAGE) / 8) as usize;
            let words = &self.words()[pages.start..pages.end.min(self.words.len())];
            // SAFETY: whole pages of the mapping, up to its end; populating changes no content.
            let populated =
                unsafe { madvise(words.as_ptr().cast_mut().cast(), words.len() * 8, Advice::LinuxPopulateRead) };
            if populated == Err(Errno::FAULT) {
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

    #[cfg(not(target_os = "linux"))]
    fn populate(&self, _at: u64, _len: u64, _mapping: Mapping) {}

    /// Extends the file to `len` bytes and maps it anew.
    pub(crate) fn grow(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        let (map, words, domain) = map_file(&self.file, len, self.mapping == Mapping::Write)?;
        if self.domain != Domain::Process && self.detected != domain {
            return Err(io::Error::other("the longer file cannot be mapped as the shorter one was"));
        }
        self.map = map;
        self.words = words;
        Ok(())
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `words` covers the mapping in `self.map`, page-aligned, alive as long as `self`; whoever else maps the
        // file cannot make atomic accesses undefined.
        unsafe { self.words.as_ref() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Closing the file would do, but for children of other threads between fork and exec: they still hold it. And in such
        // a child the lock is the parent's: unlocking takes it from all who share it, closing does not.
        if self.process.is_this() {
            self.remains.iter().for_each(|remains| remains.remove(&self.file));
            let _ = self.file.unlock();
        }
    }
}

impl Medium for Mapped {
    #[inline]
    fn len(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn domain(&self) -> Domain {
        self.domain
    }

    #[inline]
    fn writes_back(&self) -> bool {
        self.domain == Domain::Power
    }

    /// By promise 4, where other cores see a pair in one step.
    fn pairs_are_whole(&self) -> bool {
        arch::pair_method() != "locks"
    }

    fn costs(&self) -> Costs {
        *self.costs.get_or_init(|| Costs::measure(self))
    }

    fn read_only(&self) -> bool {
        self.mapping == Mapping::Read
    }

    #[inline]
    fn forked(&self) -> bool {
        !self.process.is_this()
    }

    fn boot(&self) -> u64 {
        boot()
    }

    fn sync(&self) -> io::Result<()> {
        if self.mapping != Mapping::Write {
            return Ok(());
        }
        // Linux knows by itself which pages of the mapping were written to.
        #[cfg(not(target_os = "linux"))]
        {
            let Map::Shared { _map: map } = &self.map;
            map.flush()?;
        }
        self.file.sync_data()
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        if self.mapping != Mapping::Write {
            return self.readable(at, len);
        }
        let Some(hole) = reserve(&self.file, at, len)? else { return Ok(()) };
        self.populate(hole, at + len - hole, Mapping::Write);
        Ok(())
    }

    fn will_read(&self, at: u64, len: u64) {
        self.populate(at, len, Mapping::Read);
    }

    fn space(&self) -> u64 {
        space(&self.file).unwrap_or(0)
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
        let index = (at >> 4) as usize * 2;
        let target = self.words()[index..index + 2].as_ptr();
        // SAFETY: two words in bounds of the mapping, 16-byte aligned because the mapping is page-aligned.
        unsafe { arch::store_pair(target.cast_mut().cast(), pair) }
    }

    fn cas(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.words()[(at >> 3) as usize].compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    #[inline]
    fn order(&self) {
        // A process that dies has made a prefix of its stores. Where an order point is no instruction, none is saved.
        if !cfg!(target_arch = "x86_64") && self.domain == Domain::Process {
            arch::compiler_barrier();
        } else {
            arch::order();
        }
    }

    #[inline]
    fn flush(&self, at: u64, len: u64) {
        match self.domain {
            Domain::Power => {
                let range = &self.words()[(at >> 3) as usize..((at + len).div_ceil(8)) as usize];
                // SAFETY: the range lies in the mapping, and the instruction was found available at start.
                unsafe { self.flush.lines(range.as_ptr().cast(), range.len() * 8) }
            }
            Domain::Process | Domain::PowerWithCaches => arch::compiler_barrier(),
        }
    }

    #[inline]
    fn fence(&self) {
        match self.domain {
            Domain::Process => arch::compiler_barrier(),
            Domain::Power | Domain::PowerWithCaches => arch::fence(),
        }
    }

    #[inline]
    fn prefetch(&self, at: u64, len: u64) {
        const PER_LINE: usize = LINE as usize / 8;
        let first = (at >> 3) as usize;
        let words = self.words().get(first..first + len.div_ceil(LINE) as usize * PER_LINE).unwrap_or_default();
        words.as_chunks::<PER_LINE>().0.iter().for_each(arch::prefetch_of);
    }
}

/// The machine's boot, in a word that is not 0; 0 where the system does not tell.
#[cfg(target_os = "linux")]
fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        // All of it is random.
        u128::from_str_radix(&digits, 16).map_or(0, |id| (id as u64 ^ (id >> 64) as u64).max(1))
    })
}

#[cfg(not(target_os = "linux"))]
fn boot() -> u64 {
    0
}

/// The length of a regular file; an error for anything else.
fn regular(path: &Path, file: &File) -> Result<u64> {
    let meta = file.metadata().map_err(|e| refused(path, "inspect", e))?;
    if meta.is_file() { Ok(meta.len()) } else { Err(Error::NotAFile { pool: path.display().to_string() }) }
}

/// How a file is opened. What has become a FIFO since it was looked at is not waited for.
fn opening(mapping: Mapping) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(mapping == Mapping::Write);
    #[cfg(target_os = "linux")]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
    options
}

/// An error if there is something else than a regular file: opening a FIFO waits, and opening a device may do anything.
fn regular_at(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => Err(Error::NotAFile { pool: path.display().to_string() }),
        // Whatever is wrong, opening it tells.
        _ => Ok(()),
    }
}

/// Whether a path still names an open file.
#[cfg(unix)]
fn is_at(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let named = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    std::fs::metadata(path).ok().map(named) == file.metadata().ok().map(named)
}

#[cfg(not(unix))]
fn is_at(_path: &Path, _file: &File) -> bool {
    // A file that is open keeps its name.
    true
}

/// The first bytes of a file that begins with `birth`: room for all roots that a pool can have, and more. Of others, less.
fn head(mut file: &File, birth: u64) -> io::Result<Vec<u8>> {
    use std::io::{Read, Seek, SeekFrom};
    const HEAD: u64 = 32 << 20;
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(8).read_to_end(&mut head)?;
    if head == birth.to_le_bytes() {
        file.take(HEAD).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// What a failed open means to the caller.
fn refused(path: &Path, doing: &'static str, source: io::Error) -> Error {
    let pool = path.display().to_string();
    match source.kind() {
        io::ErrorKind::NotFound => Error::NotFound { what: pool },
        io::ErrorKind::IsADirectory => Error::NotAFile { pool },
        io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { pool },
        // It may be read, and was to be written; else even reading is not allowed.
        io::ErrorKind::PermissionDenied if opening(Mapping::Read).open(path).is_ok() => Error::ReadOnly { pool },
        _ if path.is_dir() => Error::NotAFile { pool },
        _ => Error::Io { pool, doing, source },
    }
}

fn lock(path: &Path, file: &File, mapping: Mapping) -> Result<()> {
    let pool = || path.display().to_string();
    loop {
        let locked = match mapping {
            Mapping::Write => file.try_lock(),
            Mapping::Read | Mapping::Copy => file.try_lock_shared(),
        };
        return match locked {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { pool: pool() }),
            // Nothing waits here, but some file systems ask a server.
            Err(TryLockError::Error(source)) if source.kind() == io::ErrorKind::Interrupted => continue,
            Err(TryLockError::Error(source)) => Err(Error::Io { pool: pool(), doing: "lock", source }),
        };
    }
}

fn write_first_word(mut file: &File, word: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&word.to_le_bytes())
}

/// Makes sure of the space; tells from where on it had not been there.
#[cfg(target_os = "linux")]
fn reserve(file: &File, at: u64, len: u64) -> io::Result<Option<u64>> {
    use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
    use rustix::io::retry_on_intr;
    // Asking is cheaper than reserving again. (tmpfs calls a hole what was reserved and not yet written.)
    // Some file systems know of no holes: they must have as many blocks as they say at least.
    let blocks = std::os::unix::fs::MetadataExt::blocks(&file.metadata()?) * 512;
    let hole = seek(file, SeekFrom::Hole(at)).ok().filter(|_| blocks >= len).unwrap_or(at);
    if hole >= at + len {
        return Ok(None);
    }
    // In pieces: a signal takes back what was reserved of one.
    const PIECE: u64 = 64 << 20;
    for piece in (hole..at + len).step_by(PIECE as usize) {
        let len = PIECE.min(at + len - piece);
        match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), piece, len)) {
            // The file system cannot reserve (some network and FUSE ones). Without a promise there is nothing to say.
            Err(rustix::io::Errno::OPNOTSUPP) => return Ok(None),
            other => other?,
        }
    }
    Ok(Some(hole))
}

/// Which file this is, and how many blocks it has: a copy is another file, a hole is blocks less.
#[cfg(target_os = "linux")]
fn space(file: &File) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let meta = file.metadata().ok()?;
    let words = [meta.dev(), meta.ino(), meta.blocks()];
    let crc = crc32fast::hash(words.map(u64::to_le_bytes).as_flattened());
    Some(u64::from(crc) | 1 << 32)
}

#[cfg(not(target_os = "linux"))]
fn space(_file: &File) -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _at: u64, _len: u64) -> io::Result<Option<u64>> {
    // No portable way to reserve: on these systems a full disk may end the process with a signal (see README, limits).
    Ok(None)
}

/// The domain that [`FORCE_DOMAIN`] names.
pub(super) fn forced() -> Option<Domain> {
    Domain::from_name(&std::env::var(FORCE_DOMAIN).ok()?)
}

/// The domain of a mapping of this file, which is not read, and may be empty.
pub(super) fn detect(file: &File, writable: bool) -> Domain {
    #[cfg(target_os = "linux")]
    if dax::SyncMap::new(file, LINE as usize, writable).is_some() {
        return dax::domain();
    }
    let _ = (file, writable);
    Domain::Process
}

fn map_file(file: &File, len: u64, writable: bool) -> io::Result<(Map, NonNull<[AtomicU64]>, Domain)> {
    let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let cover = |start: *mut u8| {
        let words = std::ptr::slice_from_raw_parts_mut(start.cast::<AtomicU64>(), len / 8);
        NonNull::new(words).ok_or_else(|| io::Error::other("mapped at address zero"))
    };
    #[cfg(target_os = "linux")]
    let synchronous = dax::SyncMap::new(file, len, writable);
    #[cfg(target_os = "linux")]
    let domain = if synchronous.is_some() { dax::domain() } else { Domain::Process };
    #[cfg(not(target_os = "linux"))]
    let domain = Domain::Process;
    #[cfg(target_os = "linux")]
    if writable && let Some(map) = synchronous {
        let words = cover(map.start())?;
        return Ok((Map::Synchronous { _map: map }, words, domain));
    }
    let mut options = memmap2::MmapOptions::new();
    options.len(len).no_reserve_swap();
    let map = if writable {
        options.map_raw(file)?
    } else {
        // Private pages: should anybody store to them, nothing reaches the file.
        // SAFETY: only atomic accesses are made to the mapping, so no change of the file makes them undefined.
        unsafe { options.map_copy(file) }?.into()
    };
    #[cfg(target_os = "linux")]
    {
        // Only a hint: tmpfs and DAX may follow it, others refuse.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    let words = cover(map.as_mut_ptr())?;
    Ok((Map::Shared { _map: map }, words, domain))
}
