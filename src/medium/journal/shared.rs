//! The memory of a ring: a file that is mapped, in memory if there is room, else beside the pool.

use super::beside::{belong_to_those_of, with_ending};
use super::ring::{Memory, Owner, epoch, words};
use crate::error::{ErrorKind, Fault};
use crate::medium::mapped::{FileMap, write_in_place};
use crate::medium::process::Process;
use crate::sync::AtomicU64;
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Where files are in memory.
const IN_MEMORY: &str = "/dev/shm";
/// The numbers of cells that rings have.
const CELLS: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 22;
/// The numbers of cells that new rings have; few in tests, so that they are full all the time.
const NEW: std::ops::RangeInclusive<u64> = if cfg!(test) { 1 << 10..=1 << 10 } else { 1 << 16..=1 << 18 };

/// Words in a file that is mapped.
pub(crate) struct SharedFile {
    words: NonNull<[AtomicU64]>,
    /// Keeps the words mapped.
    map: FileMap,
}

// SAFETY: the words lie in a mapping that lives as long as `self`, and are only accessed atomically.
unsafe impl Send for SharedFile {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedFile {}

impl SharedFile {
    fn new(file: &File, count: usize, write: bool) -> io::Result<Self> {
        let map = FileMap::new(file, count * 8, write)?;
        let words = std::ptr::slice_from_raw_parts_mut(map.start().cast::<AtomicU64>(), count);
        let words = NonNull::new(words).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { words, map })
    }
}

impl Memory for SharedFile {
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the words of the mapping, page-aligned, alive as long as `self`; other mappings of the file cannot make
        // atomic accesses undefined.
        unsafe { self.words.as_ref() }
    }
}

/// The file of a ring, locked.
pub(super) struct RingFile {
    path: PathBuf,
    /// Whether this process made it.
    is_new: bool,
    file: File,
    process: Process,
}

impl RingFile {
    /// Opens the ring that a process left, or makes one, for a pool of `len` bytes.
    pub(super) fn open(path: &Path, pool: &File, owner: Owner, len: u64) -> Result<(Self, SharedFile), Fault> {
        let mut found = left(path, pool, owner, OFlags::RDWR)?;
        let latest = found.pop();
        found.iter().for_each(|(older, _)| older.remove());
        if let Some((ring, memory)) = latest {
            memory.map.populate().map_err(Fault::space(memory.words().len() as u64 * 8, len))?;
            return Ok((ring, memory));
        }
        let cells = (len / 4096).next_power_of_two().clamp(*NEW.start(), *NEW.end());
        let mut result = Err(Fault::from(ErrorKind::NotFound));
        for place in places(path, owner) {
            result = Self::create(place, pool, words(cells)).map_err(Fault::space(words(cells) as u64 * 8, len));
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// The ring that a process left, if there is one, for reading.
    pub(super) fn look(path: &Path, pool: &File, owner: Owner) -> Result<Option<SharedFile>, Fault> {
        Ok(left(path, pool, owner, OFlags::RDONLY)?.pop().map(|(_, memory)| memory))
    }

    fn create(path: PathBuf, pool: &File, count: usize) -> io::Result<(Self, SharedFile)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?);
        let made = || {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            belong_to_those_of(&file, pool)?;
            // A hole could not be filled if the file system is full, nor a copy be made of what is written.
            write_in_place(&file);
            fallocate(&file, FallocateFlags::empty(), 0, count as u64 * 8)?;
            SharedFile::new(&file, count, true).and_then(|memory| memory.map.populate().map(|()| memory))
        };
        match made() {
            Ok(memory) => Ok((Self { path, is_new: true, file, process: Process::this() }, memory)),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Removes the file if this process made it: the pool was not opened.
    pub(super) fn give_up(&self) {
        if self.is_new {
            self.remove();
        }
    }

    /// Removes the file, if the path still names it.
    pub(super) fn remove(&self) {
        let id = |meta: io::Result<std::fs::Metadata>| meta.map(|meta| (meta.dev(), meta.ino())).ok();
        if id(std::fs::symlink_metadata(&self.path)) == id(self.file.metadata()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for RingFile {
    fn drop(&mut self) {
        // As for the lock of the pool's file: children of other threads, between fork and exec, still hold the file.
        if self.process.is_this() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// Where a pool's ring may be. The name is that of the log's file, not only of the pool: a copy has another ring.
fn places(pool: &Path, owner: Owner) -> [PathBuf; 2] {
    let [first, second] = owner.uuid;
    let name = format!("bristlecone-{first:016x}{second:016x}-{:x}-{:x}.ring", owner.file[0], owner.file[1]);
    [Path::new(IN_MEMORY).join(name), with_ending(pool, ".ring")]
}

/// The rings that processes left, in the order of their epochs. There are two if shared memory was full, or not there, when the
/// later one was made.
fn left(path: &Path, pool: &File, owner: Owner, access: OFlags) -> Result<Vec<(RingFile, SharedFile)>, Fault> {
    let mut found = Vec::new();
    for path in places(path, owner) {
        if let Some((file, count)) = existing(&path, pool, access)? {
            let memory = SharedFile::new(&file, count, access == OFlags::RDWR).map_err(Fault::io("map the ring"))?;
            found.push((RingFile { path, is_new: false, file, process: Process::this() }, memory));
        }
    }
    found.sort_by_key(|(_, memory)| epoch(memory, owner));
    Ok(found)
}

/// A ring's file, locked, with the number of its words. What is left of one whose creation was cut is removed.
fn existing(path: &Path, pool: &File, access: OFlags) -> Result<Option<(File, usize)>, Fault> {
    let refused = |found| Err(Fault::from(ErrorKind::Ring { path: path.display().to_string(), found }));
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::ACCESS) => return refused("this user may not use it"),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::ISDIR) => return refused("it is not a file"),
        Err(error) => return Err(Fault::io("open the ring")(error.into())),
    };
    let inspecting = || Fault::io("inspect the ring");
    let meta = file.metadata().map_err(inspecting())?;
    if !meta.is_file() || meta.nlink() != 1 {
        return refused("it is not a file of its own");
    }
    // Whoever may write to the pool's file may say what it holds.
    if ![user(), pool.metadata().map_err(inspecting())?.uid(), 0].contains(&meta.uid()) {
        return refused("it belongs to another user than the pool");
    }
    let lock = match access {
        OFlags::RDONLY => FlockOperation::NonBlockingLockShared,
        _ => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(&file, lock) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(ErrorKind::InUse.into()),
        other => other.map_err(|error| Fault::io("lock the ring")(error.into()))?,
    }
    let cells = (meta.len() / 8).saturating_sub(8) / 10;
    let has_length = CELLS.contains(&cells) && cells.is_power_of_two() && words(cells) as u64 * 8 == meta.len();
    // A ring that has holes is none: memory that is not there cannot be read from a full file system.
    if has_length && meta.blocks() * 512 >= meta.len() {
        return Ok(Some((file, words(cells))));
    }
    let mut head = vec![0; meta.len().min(64) as usize];
    file.read_exact_at(&mut head, 0).map_err(Fault::io("read the ring"))?;
    if head.iter().any(|&byte| byte != 0) {
        return refused("there is something else in its place");
    }
    // It was being made when its process was killed: a ring that was whole once says whose it is.
    if access != OFlags::RDONLY {
        std::fs::remove_file(path).map_err(Fault::io("remove what is left of a ring"))?;
    }
    Ok(None)
}

fn user() -> u32 {
    // SAFETY: it has no preconditions, and cannot fail.
    unsafe { libc::geteuid() }
}
