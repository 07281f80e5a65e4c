//! Rings in shared memory: whose they are, and how one is removed that nobody needs.
//!
//! A process that closes its pool removes its ring. A ring stays if the process was killed, and then either the next
//! open takes it over, or the pool was deleted, and nothing ever will. `/dev/shm` does not tell these two apart: the
//! name has the pool's uuid, the head says which epoch of its log it belongs to, and neither says where the pool is.
//! Nor does the boot of the machine: what lies in memory ends with it, so a ring that names another one is a
//! container's. So a ring is proven to be of no use only if it is empty: a process was killed when it had just made
//! the file. Any other ring is removed only when its user names it.

use super::beside::{id, user};
use super::first;
use super::head::RingOwner;
use super::memory;
use super::shared::{CELLS, IN_MEMORY, SharedFile};
use crate::medium::disk_file::{DiskFile, Role};
use crate::medium::mapped::boot;
use crate::sync::Ordering;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A file in shared memory that has the name of a ring.
#[derive(Debug, Clone)]
pub struct RingInMemory {
    /// Where it is.
    pub path: PathBuf,
    /// The pool's number, by the name.
    pub uuid: [u64; 2],
    /// Device and inode of the log, in the names that builds with logs of the first form gave.
    pub log: Option<[u64; 2]>,
    /// The length of the file.
    pub bytes: u64,
    /// The user whose it is.
    pub owner: u32,
    /// When it was changed last by a call (what is stored to a mapping need not count), in seconds.
    pub changed: i64,
    /// What it says of itself.
    pub says: RingSays,
    /// Device and inode.
    id: [u64; 2],
}

/// What a file with the name of a ring says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingSays {
    /// Nothing at all: all of it is zeros.
    Nothing,
    /// The epoch of the ring, and whether that began in this boot; `None` if that cannot be told.
    Epoch {
        /// The number of the epoch.
        epoch: u64,
        /// Whether the boot is this one.
        is_this_boot: Option<bool>,
    },
    /// It is no ring, or belongs to another pool than its name says, or is damaged.
    Other,
    /// This user may not read it.
    Unreadable,
}

/// Why a ring was not removed.
#[derive(Debug)]
pub enum KeptRing {
    /// It is not what it was when it was looked at.
    Changed,
    /// A process has it open.
    InUse,
    /// It is another user's.
    OfAnother,
    /// It is no ring.
    NoRing,
    /// The system does not tell whether a process has it open, or did not remove it.
    Io(io::Error),
}

impl fmt::Display for KeptRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "it has changed meanwhile",
            Self::InUse => "a process has it open",
            Self::OfAnother => "it is another user's",
            Self::NoRing => "it is no ring, or a damaged one",
            Self::Io(error) => return write!(f, "the system does not let it: {error}"),
        })
    }
}

impl From<io::Error> for KeptRing {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl RingInMemory {
    /// All files in shared memory that have the name of a ring.
    ///
    /// # Errors
    ///
    /// The error of the system, if `/dev/shm` cannot be read.
    pub fn all() -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(IN_MEMORY)? {
            found.extend(Self::at(&entry?.path())?);
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// The file at a path, if it is one in shared memory that has the name of a ring. Nothing is locked or changed.
    ///
    /// # Errors
    ///
    /// The error of the system, if the file is there and cannot be looked at.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(named);
        let Some((uuid, log)) = name.filter(|_| path.parent() == Some(Path::new(IN_MEMORY))) else { return Ok(None) };
        let (file, meta) = match open(path) {
            Ok(file) => file.metadata().map(|meta| (Some(file), meta))?,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(_) => match std::fs::symlink_metadata(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                meta => (None, meta?),
            },
        };
        let mut found = Self {
            path: path.to_owned(),
            uuid,
            log,
            bytes: meta.len(),
            owner: meta.uid(),
            changed: meta.ctime(),
            says: RingSays::Unreadable,
            id: id(&meta),
        };
        if let Some(file) = file {
            found.says = found.read(&file, &meta)?;
        } else if !meta.is_file() {
            found.says = RingSays::Other;
        }
        Ok(Some(found))
    }

    /// What the file says, which must be all of it.
    fn read(&self, file: &DiskFile, meta: &Metadata) -> io::Result<RingSays> {
        Ok(match memory(file, meta)? {
            None if meta.is_file() && meta.len() == 0 => RingSays::Nothing,
            None => RingSays::Other,
            Some(memory) => self.said(&memory),
        })
    }

    fn said(&self, memory: &SharedFile) -> RingSays {
        let words = memory.words();
        let (uuid, epoch, of) = match self.log {
            Some(log) => match first::FirstRingOwner::read(words) {
                Some(owner) if owner.id.file == log => (owner.uuid, owner.epoch, owner.id.boot),
                _ => return nothing_or_other(memory),
            },
            None => match RingOwner::read(words) {
                Some(owner) => (owner.uuid, owner.epoch, owner.boot),
                None => return nothing_or_other(memory),
            },
        };
        if uuid != self.uuid {
            return RingSays::Other;
        }
        let is_this_boot = (of != 0 && boot() != 0).then(|| of == boot());
        RingSays::Epoch { epoch, is_this_boot }
    }

    /// Whether a process that this one can see has locked it.
    ///
    /// # Errors
    ///
    /// The error of the system, if it does not tell.
    pub fn is_locked(&self) -> io::Result<bool> {
        let [device, inode] = self.id;
        let name = format!("{:02x}:{:02x}:{inode}", libc::major(device), libc::minor(device));
        let locks = std::fs::read_to_string("/proc/locks")?;
        Ok(locks.lines().any(|lock| lock.split_ascii_whitespace().any(|word| word == name)))
    }

    /// Removes it, if it is what it was when it was looked at, nobody uses it, and it is this user's. The caller knows
    /// that nobody needs it.
    ///
    /// # Errors
    ///
    /// Why it is still there.
    pub fn remove(&self) -> Result<(), KeptRing> {
        let file = open(&self.path).map_err(io::Error::from)?;
        let meta = file.metadata()?;
        if id(&meta) != self.id || meta.nlink() != 1 {
            return Err(KeptRing::Changed);
        }
        if ![meta.uid(), 0].contains(&user()) {
            return Err(KeptRing::OfAnother);
        }
        match flock(file.as_file(), FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(KeptRing::InUse),
            locked => locked.map_err(io::Error::from)?,
        }
        // From here on, nobody opens it to write to it.
        let lease = FileLease::acquire(file.as_file())?;
        if self.read(&file, &meta)? != self.says {
            return Err(KeptRing::Changed);
        }
        if matches!(self.says, RingSays::Other | RingSays::Unreadable) {
            return Err(KeptRing::NoRing);
        }
        if id(&std::fs::symlink_metadata(&self.path)?) != self.id {
            return Err(KeptRing::Changed);
        }
        std::fs::remove_file(&self.path)?;
        drop(lease);
        Ok(())
    }
}

/// A promise of the system that no process has a file open to write to it: neither one that has mapped it, nor one that
/// another container hides.
struct FileLease<'f>(&'f File);

impl<'f> FileLease<'f> {
    fn acquire(file: &'f File) -> Result<Self, KeptRing> {
        const SET_SIGNAL: libc::c_int = 10;
        // If another process opens the file meanwhile, the system tells this one by a signal. This signal is ignored
        // unless it is asked for; the usual one would end the process.
        // SAFETY: the command takes a number.
        let chosen = unsafe { libc::fcntl(file.as_raw_fd(), SET_SIGNAL, libc::SIGURG) };
        if chosen != 0 {
            return Err(io::Error::last_os_error().into());
        }
        // SAFETY: the command takes a number.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) } == 0 {
            return Ok(Self(file));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Err(KeptRing::InUse),
            error => Err(error.into()),
        }
    }
}

impl Drop for FileLease<'_> {
    fn drop(&mut self) {
        // SAFETY: the command takes a number.
        let _ = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}

fn open(path: &Path) -> Result<DiskFile, rustix::io::Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(|file| DiskFile::new(file.into(), Role::Ring))
}

/// The words of a file, if it has some that a ring may have.
fn memory(file: &DiskFile, meta: &Metadata) -> io::Result<Option<SharedFile>> {
    // The longest ring, of whichever form.
    let most = memory::words(*CELLS.end()) as u64 * 8;
    if !meta.is_file() || meta.len() == 0 || !meta.len().is_multiple_of(8) || meta.len() > most {
        return Ok(None);
    }
    SharedFile::new(file, (meta.len() / 8) as usize, false).map(Some)
}

fn nothing_or_other(memory: &SharedFile) -> RingSays {
    let is_nothing = memory.words().iter().all(|word| word.load(Ordering::Relaxed) == 0);
    if is_nothing { RingSays::Nothing } else { RingSays::Other }
}

/// What the name of a ring says: the uuid, and device and inode of the log if there are any. `bristlecone-UUID.ring`,
/// `.ring.NUMBER`, and `bristlecone-UUID-DEVICE-INODE.ring`. One that has no name yet ends with `.part`.
fn named(name: &str) -> Option<([u64; 2], Option<[u64; 2]>)> {
    let name = name.strip_suffix(".part").unwrap_or(name);
    let (name, number) = name.strip_prefix("bristlecone-")?.split_once(".ring")?;
    let hex = |text: &str| {
        let is_hex = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        is_hex.then(|| u64::from_str_radix(text, 16).ok())?
    };
    let mut parts = name.split('-');
    let uuid = parts.next().filter(|uuid| uuid.len() == 32)?;
    let uuid = [hex(uuid.get(..16)?)?, hex(uuid.get(16..)?)?];
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => {
            let is_number = number.strip_prefix('.').is_some_and(|number| number.parse::<u8>().is_ok());
            (number.is_empty() || is_number).then_some((uuid, None))
        }
        (Some(device), Some(inode), None) if number.is_empty() => Some((uuid, Some([hex(device)?, hex(inode)?]))),
        _ => None,
    }
}
