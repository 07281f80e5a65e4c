//! The file of a pool: it is created or opened, locked, and removed if its creation fails.

use crate::error::{ErrorKind, Fault};
#[cfg(target_os = "linux")]
use crate::medium::disk_file::has_blocks;
use crate::medium::disk_file::{DiskFile, Role};
use crate::medium::journal::Disk;
use crate::sync::process::Process;
use core::ops::Deref;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mapping {
    /// For reading and writing, under an exclusive lock.
    Write,
    /// For reading only, under a shared lock. What an open after a crash repairs stays in the memory of this process,
    /// and changes are refused.
    Read,
    /// For changing a pool whose file is only read, under a shared lock: all stores, and repairs after a crash,
    /// stay in the memory of this process, and disappear with the mapping.
    Copy,
}

/// A file under a lock, which goes with it.
pub(super) struct LockedFile {
    file: DiskFile,
    /// The process that took the lock.
    process: Process,
    /// The process that may change trees in the mapping. The words differ, so that to ask for either costs the same.
    writer: Process,
}

impl LockedFile {
    pub(super) fn new(file: File, mapping: Mapping) -> Result<Self, Fault> {
        lock(&file, mapping)?;
        let writer = if mapping == Mapping::Read { Process::none() } else { Process::this() };
        Ok(Self { file: DiskFile::new(file, Role::Pool), process: Process::this(), writer })
    }

    /// Whether the running process may change trees in the mapping.
    #[inline]
    pub(super) fn may_change(&self) -> bool {
        self.writer.is_this()
    }

    /// Whether the running process took the lock: a child that came by `fork` only shares it.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        self.process.is_this()
    }
}

impl Deref for LockedFile {
    type Target = DiskFile;

    fn deref(&self) -> &DiskFile {
        &self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing the file alone is not enough: children of other threads, between fork and exec, still hold it. And in
        // such a child the lock is the parent's: unlocking takes it from all that share it, closing does not.
        if self.is_own() {
            let _ = self.file.as_file().unlock();
        }
    }
}

/// What a creation puts at a path; it is removed if the creation fails.
pub(super) struct Remains {
    path: PathBuf,
    /// Whether this process created the file; if not, the file existed before, and was empty or as good as empty.
    new: bool,
    born: OnceLock<()>,
}

impl Remains {
    /// Marks the creation as complete.
    pub(super) fn keep(&self) {
        let _ = self.born.set(());
    }

    /// Whether the creation is not complete.
    pub(super) fn are_removed(&self) -> bool {
        self.born.get().is_none()
    }

    /// Removes the file, unless the creation is complete, or another process's.
    pub(super) fn remove(&self, file: &LockedFile) {
        if self.born.get().is_some() || !file.is_own() {
            return;
        }
        // If it cannot be removed, the next creation recognises it.
        let _ = if self.new && is_at(&self.path, file.as_file()) {
            std::fs::remove_file(&self.path)
        } else {
            file.discard()
        };
    }
}

/// Creates a file, or takes an empty one, or one that `unborn` recognises by its first bytes as left over from a
/// creation. Writes `birth` to its first word, then gives it its length. If stores to a mapping are to
/// reach the file, `in_place`, they are to take no new space.
pub(super) fn create(
    path: &Path,
    len: u64,
    in_place: bool,
    birth: u64,
    unborn: impl Fn(&[u8]) -> bool,
) -> Result<(LockedFile, Remains), Fault> {
    let (file, new) = named(path)?;
    if regular(path, file.as_file())? != 0 && !unborn(&head(file.as_file(), birth).map_err(Fault::io("read"))?) {
        return Err(ErrorKind::NotAPool { found: "a file with other content" }.into());
    }
    let remains = Remains { path: path.to_owned(), new, born: OnceLock::new() };
    let sized = || {
        file.resize(0).map_err(Fault::io("empty"))?;
        if in_place {
            write_in_place(file.as_file());
        }
        Disk::write(&*file, 0, &birth.to_le_bytes()).map_err(Fault::space(8, len))?;
        file.resize(len).map_err(Fault::space(len, len))
    };
    match sized() {
        Ok(()) => Ok((file, remains)),
        Err(fault) => {
            remains.remove(&file);
            Err(fault)
        }
    }
}

/// The file that a path names, locked, and whether this process created it.
fn named(path: &Path) -> Result<(LockedFile, bool), Fault> {
    loop {
        let (file, new) = match opening(Mapping::Write).create_new(true).open(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                regular_at(path)?;
                let file = match opening(Mapping::Write).open(path) {
                    // The file was removed meanwhile; or the path is a symbolic link to no file, which is then created.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => opening(Mapping::Write).create(true).open(path),
                    file => file,
                };
                (file, false)
            }
            file => (file, true),
        };
        let file = file.map_err(|e| refused(path, "create", e))?;
        regular(path, &file)?;
        let file = LockedFile::new(file, Mapping::Write)?;
        // Another process whose creation failed may have removed the file before it gave up the lock.
        if is_at(path, file.as_file()) {
            return Ok((file, new));
        }
    }
}

/// Whether there is a file that begins with `birth` and that `unborn` recognises, as for [`create`].
pub(crate) fn is_unborn(path: &Path, birth: u64, unborn: impl Fn(&[u8]) -> bool) -> bool {
    let head = || head(&opening(Mapping::Read).open(path)?, birth);
    regular_at(path).is_ok() && head().is_ok_and(|head| unborn(&head))
}

/// Makes the name of a new file survive the machine, where the file system can sync directories.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        // With a symbolic link, the name of its target is the new one.
        let path = path.canonicalize()?;
        match path.parent().map_or(Ok(()), |parent| sync_directory(parent, &path)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
            result => result,
        }
    }
    // Directories cannot be opened.
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(())
    }
}

/// Syncs the directory in which a file is.
#[cfg(unix)]
fn sync_directory(directory: &Path, file: &Path) -> io::Result<()> {
    #[cfg(all(test, not(any(bristlecone_loom, miri))))]
    if tests::DIRECTORIES_FAIL.get() {
        return Err(io::Error::other("the disk has failed"));
    }
    match File::open(directory) {
        // A user that may make files in a directory may not be allowed to read it.
        #[cfg(target_os = "linux")]
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(rustix::fs::syncfs(File::open(file)?)?),
        directory => {
            let _ = file;
            directory?.sync_all()
        }
    }
}

/// Opens an existing file, and locks it.
pub(super) fn open(path: &Path, mapping: Mapping) -> Result<LockedFile, Fault> {
    regular_at(path)?;
    let file = opening(mapping).open(path).map_err(|e| refused(path, "open", e))?;
    regular(path, &file)?;
    let meta = file.metadata().map_err(|e| refused(path, "inspect", e))?;
    if mapping == Mapping::Write && meta.permissions().readonly() {
        // The superuser could still write to it: the user who took the permission away meant the content to stay.
        let why = "nobody has permission to write to its file, and that holds for root, too; give it (chmod u+w), or only \
                   read the pool";
        return Err(ErrorKind::ReadOnly { why }.into());
    }
    let file = LockedFile::new(file, mapping)?;
    if !is_at(path, file.as_file()) {
        // A failed creation removed the file before it released the lock.
        return Err(ErrorKind::NotFound.into());
    }
    // Under the lock: a file that is being created is empty for a moment.
    if regular(path, file.as_file())? == 0 {
        return Err(ErrorKind::NotAPool { found: "an empty file" }.into());
    }
    Ok(file)
}

/// The length of a regular file; an error for anything else.
fn regular(path: &Path, file: &File) -> Result<u64, Fault> {
    let meta = file.metadata().map_err(|e| refused(path, "inspect", e))?;
    if meta.is_file() { Ok(meta.len()) } else { Err(ErrorKind::NotAFile.into()) }
}

/// The options for opening a file. They do not wait if the file has become a FIFO since it was checked.
fn opening(mapping: Mapping) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(mapping == Mapping::Write);
    #[cfg(target_os = "linux")]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
    options
}

/// An error if there is something other than a regular file: opening a FIFO waits, and opening a device may do
/// anything.
fn regular_at(path: &Path) -> Result<(), Fault> {
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => Err(ErrorKind::NotAFile.into()),
        // Opening the file reports whatever is wrong.
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
    // An open file keeps its name.
    true
}

/// The first bytes of a file that begins with `birth`: enough for all roots that a pool can have, and more. Fewer bytes
/// of other files.
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

/// The error that the caller gets for a failed open.
fn refused(path: &Path, doing: &'static str, source: io::Error) -> Fault {
    match source.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound.into(),
        io::ErrorKind::IsADirectory => ErrorKind::NotAFile.into(),
        io::ErrorKind::ReadOnlyFilesystem => {
            let why = "its file system cannot be written to; a pool that is there can be read";
            ErrorKind::ReadOnly { why }.into()
        }
        // The file may be read, so only writing is forbidden; otherwise even reading is not allowed.
        io::ErrorKind::PermissionDenied if opening(Mapping::Read).open(path).is_ok() => forbidden(),
        _ if path.is_dir() => ErrorKind::NotAFile.into(),
        _ => Fault::io(doing)(source),
    }
}

/// The error for a file that may be read, and not be written to.
fn forbidden() -> Fault {
    let why = "there is no permission to write to its file; change that, or only read the pool";
    ErrorKind::ReadOnly { why }.into()
}

fn lock(file: &File, mapping: Mapping) -> Result<(), Fault> {
    loop {
        let locked = match mapping {
            Mapping::Write => file.try_lock(),
            Mapping::Read | Mapping::Copy => file.try_lock_shared(),
        };
        return match locked {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(ErrorKind::InUse.into()),
            // Nothing waits here, but some file systems ask a server, which a signal can interrupt.
            Err(TryLockError::Error(source)) if source.kind() == io::ErrorKind::Interrupted => continue,
            Err(TryLockError::Error(source)) => Err(Fault::io("lock")(source)),
        };
    }
}

/// Makes sure that the space is reserved; returns the offset from which on it was not, or may still not be: some file
/// systems cannot reserve (network, FUSE, ext3). There, the stores take the space.
#[cfg(target_os = "linux")]
pub(super) fn reserve(file: &DiskFile, at: u64, len: u64) -> io::Result<Option<u64>> {
    reserve_by(file.as_file(), at, len, |at, len| file.allocate(at, len))
}

#[cfg(target_os = "linux")]
fn reserve_by(
    file: &File,
    at: u64,
    len: u64,
    allocate: impl FnOnce(u64, u64) -> io::Result<bool>,
) -> io::Result<Option<u64>> {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    use rustix::fs::{SeekFrom, seek};
    // Asking is cheaper than reserving again.
    // Some file systems know of no holes: they must have at least as many blocks as the range needs.
    let blocks = std::os::unix::fs::MetadataExt::blocks(&file.metadata()?) * 512;
    let hole = seek(file, SeekFrom::Hole(at)).ok().filter(|_| blocks >= len).unwrap_or(at);
    if hole >= at + len {
        return Ok(None);
    }
    match allocate(hole, at + len - hole) {
        // xfs wants some space of the disk, and of its user's quota, even to reserve what is reserved already.
        Err(error) if matches!(error.kind(), StorageFull | QuotaExceeded) && has_blocks(file, &(hole..at + len)) => {}
        result => _ = result?,
    }
    Ok(Some(hole))
}

/// Asks that a block of a new file, which is empty, takes space once and not each time that it is written: a file
/// system that copies on write (btrfs) may have no space for that then, and a store to a mapping ends the process. It
/// has no checksums of such a file either. Where it refuses, a file is as any other.
#[cfg(target_os = "linux")]
pub(in crate::medium) fn write_in_place(file: &File) {
    use rustix::fs::{IFlags, fstatfs, ioctl_getflags, ioctl_setflags};
    const BTRFS: u64 = 0x9123_683e;
    if fstatfs(file).is_ok_and(|found| found.f_type as u64 == BTRFS) {
        let _ = ioctl_getflags(file).and_then(|flags| ioctl_setflags(file, flags | IFlags::NOCOW));
    }
}

/// Whether that was asked for of a file.
#[cfg(target_os = "linux")]
pub(super) fn is_written_in_place(file: &File) -> bool {
    rustix::fs::ioctl_getflags(file).is_ok_and(|flags| flags.contains(rustix::fs::IFlags::NOCOW))
}

#[cfg(not(target_os = "linux"))]
fn write_in_place(_file: &File) {}

/// Identifies the file and its number of blocks: a copy is another file, and a hole means fewer blocks.
#[cfg(target_os = "linux")]
pub(super) fn space(file: &File) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let meta = file.metadata().ok()?;
    let words = [meta.dev(), meta.ino(), meta.blocks()];
    let crc = crc32fast::hash(words.map(u64::to_le_bytes).as_flattened());
    Some(u64::from(crc) | 1 << 32)
}

#[cfg(all(test, not(any(bristlecone_loom, miri))))]
pub(super) mod tests {
    use super::*;
    use std::cell::Cell;
    #[cfg(target_os = "linux")]
    use std::os::unix::fs::FileExt;

    thread_local! {
        /// Whether this thread can sync no directory.
        pub(in super::super) static DIRECTORIES_FAIL: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "it has files")]
    fn a_name_that_cannot_be_synced_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a.pool");
        assert_eq!(sync_name(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        File::create(&path).unwrap();
        sync_name(&path).unwrap();
        // A file system that syncs no directory.
        sync_name(Path::new("/proc/self/status")).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "it has files")]
    fn what_has_blocks_is_known_but_for_holes() {
        const PAGE: u64 = 4096;
        let scratch = tempfile::tempdir().unwrap();
        let file = File::create(scratch.path().join("words")).unwrap();
        file.set_len(400 * PAGE).unwrap();
        // Some are stored to, in many pieces, so that they are asked for more than once.
        let owned = |file: &File| DiskFile::new(file.try_clone().unwrap(), Role::Pool);
        if !owned(&file).allocate(0, 200 * PAGE).unwrap() || !has_blocks(&file, &(0..1)) {
            eprintln!("skipped: this file system does not tell");
            return;
        }
        (0..200).step_by(2).for_each(|page| file.write_all_at(&[1; 4096], page * PAGE).unwrap());
        file.sync_all().unwrap();
        for (at, end, has) in [(0, 200, true), (3, 199, true), (0, 201, false), (200, 201, false), (300, 400, false)] {
            assert_eq!(has_blocks(&file, &(at * PAGE..end * PAGE)), has, "{at} to {end}");
        }
        owned(&file).punch_hole(100 * PAGE, PAGE).unwrap();
        assert!(!has_blocks(&file, &(0..200 * PAGE)) && has_blocks(&file, &(101 * PAGE..200 * PAGE)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "it has files")]
    fn what_has_its_blocks_is_reserved_whatever_the_system_says() {
        let scratch = tempfile::tempdir().unwrap();
        let file = File::create(scratch.path().join("words")).unwrap();
        file.set_len(1 << 20).unwrap();
        let by = |error: rustix::io::Errno, at, len| reserve_by(&file, at, len, |_, _| Err(error.into()));
        let owned = DiskFile::new(file.try_clone().unwrap(), Role::Pool);
        if !owned.allocate(0, 4096).unwrap()
            || !has_blocks(&file, &(0..4096))
            || by(rustix::io::Errno::IO, 0, 4096).is_ok()
        {
            eprintln!("skipped: this file system does not tell what is a hole");
            return;
        }
        for error in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
            assert_eq!(by(error, 0, 4096).unwrap(), Some(0));
            assert_eq!(by(error, 0, 8192).unwrap_err().raw_os_error(), Some(error.raw_os_error()));
        }
    }

    /// The copy stands for a child of another thread, between fork and exec.
    #[test]
    #[cfg_attr(miri, ignore = "it has files")]
    fn a_lock_goes_with_its_file_whoever_else_holds_that() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a.pool");
        let (file, remains) = create(&path, 4096, true, 1, |_| false).unwrap();
        let copy = file.as_file().try_clone().unwrap();
        assert!(matches!(open(&path, Mapping::Write), Err(fault) if matches!(fault.kind(), ErrorKind::InUse)));
        remains.keep();
        drop(file);
        drop(open(&path, Mapping::Write).unwrap_or_else(|_| panic!("the lock is gone")));
        drop(copy);
    }
}
