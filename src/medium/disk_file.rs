//! The owner of a file: all calls that the system may answer with an error of the disk go through it (J29 in
//! `docs/journal.md`).
//!
//! The system tells an error of the disk once, to one caller, and takes what it could not write for written: the next
//! sync succeeds, and what the disk lacks is gone with the cache. So the owner remembers the first failure, and nothing
//! that it is asked for succeeds from then on. It notes a failure before the caller is told, and before it asks the
//! system for another one.
//!
//! Nobody else has the file's description, because a process that shares it may be told instead of the owner.

#![cfg_attr(
    any(not(target_os = "linux"), bristlecone_loom),
    allow(dead_code, reason = "only Linux has journals, and files with holes")
)]

#[cfg(target_os = "linux")]
mod ahead;
#[cfg(target_os = "linux")]
mod extents;
#[cfg(target_os = "linux")]
mod forget;
#[cfg(all(test, target_os = "linux", not(any(bristlecone_loom, miri))))]
pub(super) mod tests;
#[cfg(target_os = "linux")]
mod written;

use super::journal::Disk;
use crate::sync::Mutex;
#[cfg(target_os = "linux")]
pub(super) use extents::{has_blocks, is_zero};
use std::fs::{File, Metadata};
use std::io;
use std::sync::{Arc, OnceLock};
#[cfg(target_os = "linux")]
use written::WrittenSpace;

/// Which file of a pool it is, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Pool,
    Log,
    Ring,
    Image,
}

/// What the system was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Sync,
    Write,
    Reserve,
    Resize,
    Punch,
}

impl Call {
    /// What was attempted, as in [`ErrorKind::Io`](crate::ErrorKind::Io).
    fn on(self, role: Role) -> &'static str {
        match (self, role) {
            (Self::Sync, Role::Pool) => "sync the pool",
            (Self::Sync, Role::Log) => "sync the log",
            (Self::Write, Role::Pool) => "write to the pool",
            (Self::Write, Role::Log) => "write to the log",
            (Self::Reserve, Role::Pool) => "reserve space of the pool",
            (Self::Reserve, Role::Log) => "reserve space of the log",
            (Self::Resize, Role::Pool) => "change the length of the pool",
            (Self::Resize, Role::Log) => "cut the log",
            (Self::Punch, Role::Pool) => "give space of the pool back",
            (Self::Punch, Role::Log) => "give space of the log back",
            (Self::Sync, Role::Ring) => "sync the ring",
            (Self::Write, Role::Ring) => "write to the ring",
            (Self::Reserve, Role::Ring) => "reserve space of the ring",
            (Self::Resize, Role::Ring) => "change the length of the ring",
            (Self::Punch, Role::Ring) => "give space of the ring back",
            (Self::Sync, Role::Image) => "sync the image",
            (Self::Write, Role::Image) => "write to the image",
            (Self::Reserve, Role::Image) => "reserve space of the image",
            (Self::Resize, Role::Image) => "change the length of the image",
            (Self::Punch, Role::Image) => "give space of the image back",
        }
    }

    /// Whether an error of such a call is a failure of the disk.
    fn fails_by(self, error: &io::Error) -> bool {
        use io::ErrorKind::{Interrupted, OutOfMemory, PermissionDenied, Unsupported};
        // What a sync could not write is not on the disk, whatever the reason was.
        self == Self::Sync
            || !(is_room_missing(error)
                || matches!(error.kind(), Interrupted | OutOfMemory | PermissionDenied | Unsupported))
    }
}

/// Whether an error says that there is no room, and nothing of the disk.
pub(crate) fn is_room_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// How long a file of this process may become: where it would become longer, the system sends a signal besides the
/// error, and ends a process that does not expect it. What grows ahead of need stays below.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn longest_file() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn longest_file() -> u64 {
    u64::MAX
}

/// The first failure of a file.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) doing: &'static str,
    kind: io::ErrorKind,
    code: Option<i32>,
}

impl Failed {
    /// What the system said.
    pub(crate) fn source(&self) -> io::Error {
        self.code.map_or_else(|| self.kind.into(), io::Error::from_raw_os_error)
    }

    /// The answer to every later call.
    fn again(&self) -> io::Error {
        io::Error::new(self.kind, format!("the disk has failed before (cannot {}: {})", self.doing, self.source()))
    }
}

type Hook = Box<dyn Fn(&Failed) + Send + Sync>;

/// A file, and what was told of it. Clones are the same owner.
#[derive(Clone)]
pub(crate) struct DiskFile(Arc<FileOwner>);

struct FileOwner {
    file: File,
    role: Role,
    /// Held while the system is asked for errors, until they are noted.
    asking: Mutex<()>,
    failed: OnceLock<Failed>,
    hook: OnceLock<Hook>,
    #[cfg(target_os = "linux")]
    written: WrittenSpace,
}

impl DiskFile {
    /// The owner of a file that was just opened.
    pub(crate) fn new(file: File, role: Role) -> Self {
        Self(Arc::new(FileOwner {
            file,
            role,
            asking: Mutex::new(()),
            failed: OnceLock::new(),
            hook: OnceLock::new(),
            #[cfg(target_os = "linux")]
            written: WrittenSpace::default(),
        }))
    }

    /// The file, for calls that tell no error of the disk: to map it, to read it, to ask what it is.
    /// `tests/repository/steps.rs` looks for others.
    pub(crate) fn as_file(&self) -> &File {
        &self.0.file
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.0.file.metadata()
    }

    /// The first failure, if there was one.
    pub(crate) fn failed(&self) -> Option<&Failed> {
        self.0.failed.get()
    }

    /// Calls `hook` with the first failure, at once if there was one: before the caller is told, and before anybody
    /// asks the system again. `hook` takes no lock for which a caller of this file waits, and calls nothing of this
    /// file. There is one hook.
    pub(crate) fn when_failed(&self, hook: impl Fn(&Failed) + Send + Sync + 'static) {
        let _alone = self.0.asking.lock();
        if let Some(failed) = self.failed() {
            hook(failed);
        }
        let _ = self.0.hook.set(Box::new(hook));
    }

    /// Waits until everything is on the disk, and the length. [`Disk::sync`] waits for what was written.
    pub(crate) fn sync_with_length(&self) -> io::Result<()> {
        self.sync_by(File::sync_all)
    }

    fn sync_by(&self, call: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        if self.failed().is_some() {
            // It does not count any more; but the disk may take what the pool says of the failure.
            let _ = call(&self.0.file);
        }
        self.wait(Call::Sync, call)
    }

    /// As [`Disk::sync`], after `flush`, which gives the system what was stored to a mapping.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn sync_mapped(&self, flush: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.wait(Call::Sync, |file| flush().and_then(|()| file.sync_data()))
    }

    /// Changes the length.
    pub(crate) fn resize(&self, len: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        return self.resized(len, || self.call(Call::Resize, |file| file.set_len(len)));
        #[cfg(not(target_os = "linux"))]
        self.call(Call::Resize, |file| file.set_len(len))
    }

    /// Takes everything out of a file that is thrown away, also after a failure.
    pub(crate) fn discard(&self) -> io::Result<()> {
        self.0.file.set_len(0)
    }

    /// Reserves the space of a range; false if the file system cannot reserve.
    #[cfg(target_os = "linux")]
    pub(crate) fn allocate(&self, at: u64, len: u64) -> io::Result<bool> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::{Errno, retry_on_intr};
        // In pieces, because a signal takes back what one call has reserved so far.
        const PIECE: u64 = 64 << 20;
        for piece in (at..at + len).step_by(PIECE as usize) {
            let len = PIECE.min(at + len - piece);
            let allocated = self.call(Call::Reserve, |file| {
                match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), piece, len)) {
                    Err(Errno::OPNOTSUPP) => Ok(false),
                    other => Ok(other.map(|()| true)?),
                }
            });
            if !allocated? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the space of a range back: it reads as zeros. False where files cannot have holes.
    #[cfg(target_os = "linux")]
    pub(crate) fn punch_hole(&self, at: u64, len: u64) -> io::Result<bool> {
        self.punched(at, len, || self.punch_out(at, len))
    }

    #[cfg(target_os = "linux")]
    fn punch_out(&self, at: u64, len: u64) -> io::Result<bool> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::{Errno, retry_on_intr};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.call(Call::Punch, |file| match retry_on_intr(|| fallocate(file, flags, at, len)) {
            Err(Errno::OPNOTSUPP) => Ok(false),
            other => Ok(other.map(|()| true)?),
        })
    }

    /// An error that nobody was told of, because the system has written back what was stored to a mapping; without
    /// waiting for more than a page. It does not count as a failure of what this owner is asked for.
    #[cfg(target_os = "linux")]
    pub(crate) fn written_back(&self) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let (file, flag) = (self.as_file().as_raw_fd(), libc::SYNC_FILE_RANGE_WAIT_BEFORE);
        // SAFETY: it takes numbers only.
        let waited = unsafe { libc::sync_file_range(file, 0, 4096, flag) };
        match io::Error::last_os_error() {
            error if waited != 0 && error.raw_os_error() == Some(libc::EIO) => Err(error),
            // There is none; or there is no such call.
            _ => Ok(()),
        }
    }

    /// Waits until a range is written back, and for nothing else.
    #[cfg(target_os = "linux")]
    fn write_back(&self, at: u64, len: u64) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        const ALL: libc::c_uint =
            libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        self.wait(Call::Sync, |file| {
            // SAFETY: it takes numbers only.
            match unsafe { libc::sync_file_range(file.as_raw_fd(), at as i64, len as i64, ALL) } {
                0 => Ok(()),
                _ => match io::Error::last_os_error() {
                    error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::ESPIPE)) => file.sync_data(),
                    error => Err(error),
                },
            }
        })
    }

    /// Asks the system to wait for the disk, one caller at a time, because it tells an error to one waiting caller
    /// only.
    fn wait(&self, what: Call, call: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let _alone = self.0.asking.lock();
        if let Some(failed) = self.failed() {
            return Err(failed.again());
        }
        #[cfg(all(test, target_os = "linux", not(any(bristlecone_loom, miri))))]
        let call =
            |file: &File| if tests::failing::this() { Err(io::ErrorKind::StorageFull.into()) } else { call(file) };
        call(&self.0.file).inspect_err(|error| self.note(what, error))
    }

    /// Asks the system for something that does not wait for all that was written.
    fn call<T>(&self, what: Call, call: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        if let Some(failed) = self.failed() {
            return Err(failed.again());
        }
        call(&self.0.file).inspect_err(|error| {
            let _alone = self.0.asking.lock();
            self.note(what, error);
        })
    }

    /// Notes an error, if it is the first failure. The caller has locked `asking`.
    fn note(&self, what: Call, error: &io::Error) {
        if self.failed().is_none() && what.fails_by(error) {
            let failed = Failed { doing: what.on(self.0.role), kind: error.kind(), code: error.raw_os_error() };
            // First: when a thread sees the failure, the hook was called.
            self.0.hook.get().into_iter().for_each(|hook| hook(&failed));
            let _ = self.0.failed.set(failed);
        }
    }
}

/// Replaces what is at `at`.
fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, at);
    #[cfg(windows)]
    {
        let (mut bytes, mut at) = (bytes, at);
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_write(file, bytes, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => (bytes, at) = (&bytes[written..], at + written as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Fills `bytes` with what is at `at`.
fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, at);
    #[cfg(windows)]
    {
        let (mut bytes, mut at) = (bytes, at);
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(file, bytes, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => (bytes, at) = (&mut bytes[read..], at + read as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(any(unix, windows))]
impl Disk for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        read_exact_at(&self.0.file, bytes, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        self.has_content(at, bytes.len() as u64);
        self.call(Call::Write, |file| write_all_at(file, bytes, at))
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_by(File::sync_data)
    }

    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        self.has_content(at, bytes.len() as u64);
        // It may be told what others have written.
        self.wait(Call::Sync, |file| {
            #[cfg(target_os = "linux")]
            {
                use rustix::io::{Errno, ReadWriteFlags, pwritev2, retry_on_intr};
                let parts = [io::IoSlice::new(bytes)];
                match retry_on_intr(|| pwritev2(file, &parts, at, ReadWriteFlags::DSYNC)) {
                    Ok(written) if written == bytes.len() => return Ok(()),
                    // The file system may not know how; or the write was cut short.
                    Ok(_) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            write_all_at(file, bytes, at)?;
            file.sync_data()
        })
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.resize(len)
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        return self.punch_hole(at, len).map(drop);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (at, len);
            Ok(())
        }
    }

    fn is_gone(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            // The number of links and nothing else: after a look at the times of a file, each write notes a new one,
            // which the next sync waits for.
            use rustix::fs::{AtFlags, StatxFlags, statx};
            let found = statx(&self.0.file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK);
            found.is_ok_and(|found| found.stx_nlink == 0)
        }
        #[cfg(all(unix, not(target_os = "linux")))]
        return self.metadata().is_ok_and(|meta| std::os::unix::fs::MetadataExt::nlink(&meta) == 0);
        // A file that is open keeps its name.
        #[cfg(not(unix))]
        false
    }
}
