//! The memory of a ring: a file that is mapped, beside the pool or in memory.

use super::beside::{belong_to_those_of, with_ending};
use super::disk::Disk;
use super::head::Owner;
use super::header::Seat;
use super::ring::{Memory, cells, words};
use crate::error::{ErrorKind, Fault};
use crate::medium::disk_file::{DiskFile, Role};
use crate::medium::mapped::{FileMap, write_in_place};
use crate::medium::process::Process;
use crate::sync::AtomicU64;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Where files are in memory.
pub(super) const IN_MEMORY: &str = "/dev/shm";
/// The numbers of cells that rings have.
pub(super) const CELLS: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 22;
/// The numbers of cells that new rings have; few in tests, so that they are full all the time.
const NEW: std::ops::RangeInclusive<u64> = if cfg!(test) { 1 << 10..=1 << 10 } else { 1 << 16..=1 << 18 };
/// How many names a ring may have, if others are taken.
const NAMES: u8 = 8;

/// Words in a file that is mapped.
pub(crate) struct SharedFile {
    words: NonNull<[AtomicU64]>,
    /// Keeps the words mapped.
    map: FileMap,
    file: DiskFile,
}

// SAFETY: the words lie in a mapping that lives as long as `self`, and are only accessed atomically.
unsafe impl Send for SharedFile {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedFile {}

impl SharedFile {
    /// Maps a file of so many words.
    pub(super) fn new(file: &DiskFile, count: usize, write: bool) -> io::Result<Self> {
        let map = FileMap::new(file.as_file(), count * 8, write)?;
        let words = std::ptr::slice_from_raw_parts_mut(map.start().cast::<AtomicU64>(), count);
        let words = NonNull::new(words).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { words, map, file: file.clone() })
    }
}

/// Commands of `fcntl` that ask for what is kept in the inode in memory, and set it.
const GET_HINT: libc::c_int = 1035;
const SET_HINT: libc::c_int = 1036;
/// What is written has a short life.
const SHORT: u64 = 2;

impl Memory for SharedFile {
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the words of the mapping, page-aligned, alive as long as `self`; other mappings of the file cannot make
        // atomic accesses undefined.
        unsafe { self.words.as_ref() }
    }

    fn write_through(&self, at: usize, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.file.write_through(at as u64 * 8, &bytes)
    }

    fn check(&self) -> io::Result<()> {
        self.file.written_back()
    }

    fn is_witnessed(&self) -> bool {
        if self.check().is_err() {
            return false;
        }
        let mut hint = 0u64;
        // SAFETY: the command writes one word, and there is room for one.
        let asked = unsafe { libc::fcntl(self.file.as_file().as_raw_fd(), GET_HINT, &raw mut hint) };
        asked == 0 && hint == SHORT
    }

    fn bear_witness(&self) {
        let hint = SHORT;
        // A process that does not own the file may not. Then the next open counts cells as after a loss of power.
        // SAFETY: the command reads one word.
        let _ = unsafe { libc::fcntl(self.file.as_file().as_raw_fd(), SET_HINT, &raw const hint) };
    }

    fn is_gone(&self) -> bool {
        self.file.is_gone()
    }
}

/// The file of a ring, locked.
pub(super) struct RingFile {
    path: PathBuf,
    pub(super) seat: Seat,
    file: DiskFile,
    process: Process,
}

/// A ring's file, and its words.
pub(super) type Found = (RingFile, SharedFile);

impl RingFile {
    /// The ring of the pool with this uuid that is at a seat, if there is one; also one that is damaged, or of another pool. Files of
    /// other users are none.
    pub(super) fn find(
        path: &Path,
        pool: &File,
        uuid: [u64; 2],
        seat: Seat,
        write: bool,
    ) -> Result<Option<Found>, Fault> {
        let path = place(path, uuid, seat);
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let Some(file) = existing(&path, pool, access)? else { return Ok(None) };
        let len = file.metadata().map_err(Fault::io("inspect the ring"))?.len();
        let count = (len / 8) as usize;
        let has_length = CELLS.contains(&cells(count)) && words(cells(count)) as u64 * 8 == len;
        if !(has_length && cells(count).is_power_of_two()) {
            return Ok(None);
        }
        let memory = SharedFile::new(&file, count, write).map_err(Fault::io("map the ring"))?;
        Ok(Some((Self { path, seat, file, process: Process::this() }, memory)))
    }

    /// A ring of a pool of `len` bytes that has nothing: the one that is there, or another one.
    pub(super) fn renewed(
        path: &Path,
        pool: &File,
        uuid: [u64; 2],
        len: u64,
        in_memory: bool,
        found: Option<Found>,
    ) -> Result<Found, Fault> {
        let number = match found {
            Some((ring, memory)) if ring.seat.in_memory == in_memory && is_own(&memory, uuid) => {
                let space = Fault::space(memory.words().len() as u64 * 8, len);
                fill(&ring.file).and_then(|()| memory.map.populate()).map_err(space)?;
                return Ok((ring, memory));
            }
            // What is there stays.
            Some((ring, _)) if ring.seat.in_memory == in_memory => ring.seat.number + 1,
            _ => 0,
        };
        let cells = (len / 4096).next_power_of_two().clamp(*NEW.start(), *NEW.end());
        let space = || Fault::space(words(cells) as u64 * 8, len);
        for number in number..NAMES {
            let seat = Seat { in_memory, number };
            let place = place(path, uuid, seat);
            match Self::create(&place, pool, (uuid, seat), words(cells)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map_err(space()),
            }
            // A creation was cut; or it is a ring that no log names any more.
            if let Ok(Some(file)) = existing(&place, pool, OFlags::RDWR)
                && super::open::is_blank(&file).map_err(Fault::io("read the ring"))?
            {
                let made = Self::make(&place, pool, (uuid, seat), file, words(cells));
                return made.map_err(space());
            }
            if let Ok(Some((ring, memory))) = Self::find(path, pool, uuid, seat, true)
                && is_own(&memory, uuid)
            {
                return Self::renewed(path, pool, uuid, len, in_memory, Some((ring, memory)));
            }
        }
        Err(ErrorKind::Ring {
            path: place(path, uuid, Seat { in_memory, number: 0 }).display().to_string(),
            found: "there is something else in its place, and in all others that it could have; move it away",
        }
        .into())
    }

    fn create(path: &Path, pool: &File, whose: ([u64; 2], Seat), count: usize) -> io::Result<Found> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        write_in_place(&file);
        Self::make(path, pool, whose, DiskFile::new(file, Role::Ring), count).inspect_err(|_| {
            // No header names it.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Makes a ring of a file that has nothing, durably.
    fn make(
        path: &Path,
        pool: &File,
        (uuid, seat): ([u64; 2], Seat),
        file: DiskFile,
        count: usize,
    ) -> io::Result<Found> {
        belong_to_those_of(file.as_file(), pool)?;
        // Zeros, not a hole: that could not be filled if the file system is full. Nor what is reserved and not written, which
        // may stay so after an error (J31).
        file.resize(0)?;
        super::open::zero(&file, 0, count as u64 * 8)?;
        if !seat.in_memory {
            file.sync_with_length()?;
            crate::medium::sync_name(path)?;
        }
        let memory = SharedFile::new(&file, count, true).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::Error::new(
                io::ErrorKind::Unsupported,
                "the file system of the ring maps no files; keep the ring in memory (Options::ring; --ring memory)",
            ),
            _ => error,
        })?;
        memory.map.populate()?;
        // Before anything else is in it: cut from here on, it is known again.
        Owner { uuid, salt: 0, epoch: 0, nonce: 0, before: 0, boot: 0 }.write(&memory, seat)?;
        Ok((Self { path: path.to_owned(), seat, file, process: Process::this() }, memory))
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
            let _ = flock(self.file.as_file(), FlockOperation::Unlock);
        }
    }
}

/// Whether a ring is one of the pool with this uuid, of whichever time.
pub(super) fn is_own(memory: &SharedFile, uuid: [u64; 2]) -> bool {
    Owner::read(memory.words()).is_some_and(|owner| owner.uuid == uuid)
}

/// Writes the holes of a ring, of which nothing is needed any more.
fn fill(file: &DiskFile) -> io::Result<()> {
    let meta = file.metadata()?;
    if meta.blocks() * 512 >= meta.len() {
        return Ok(());
    }
    super::open::zero(file, 0, meta.len())?;
    file.sync()
}

/// Where the ring of a pool is that has this seat.
pub(super) fn place(pool: &Path, uuid: [u64; 2], seat: Seat) -> PathBuf {
    let ending = if seat.number == 0 { ".ring".to_owned() } else { format!(".ring.{}", seat.number) };
    if seat.in_memory {
        let [first, second] = uuid;
        Path::new(IN_MEMORY).join(format!("bristlecone-{first:016x}{second:016x}{ending}"))
    } else {
        with_ending(pool, &ending)
    }
}

/// A file at a ring's path, locked; `None` if there is none, or none that this user, the pool's owner or root has made.
pub(super) fn existing(path: &Path, pool: &File, access: OFlags) -> Result<Option<DiskFile>, Fault> {
    let refused = |found| Err(Fault::from(ErrorKind::Ring { path: path.display().to_string(), found }));
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::ISDIR) => return Ok(None),
        Err(rustix::io::Errno::ACCESS) => return refused("this user may not use it"),
        Err(error) => return Err(Fault::io("open the ring")(error.into())),
    };
    let inspecting = || Fault::io("inspect the ring");
    let meta = file.metadata().map_err(inspecting())?;
    // Whoever may write to the pool's file may say what it holds, and nobody else.
    let is_trusted = [user(), pool.metadata().map_err(inspecting())?.uid(), 0].contains(&meta.uid());
    if !(meta.is_file() && is_trusted) {
        return Ok(None);
    }
    let lock = match access {
        OFlags::RDONLY => FlockOperation::NonBlockingLockShared,
        _ => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(&file, lock) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ErrorKind::InUse.into()),
        other => {
            other.map_err(|error| Fault::io("lock the ring")(error.into()))?;
            Ok(Some(DiskFile::new(file, Role::Ring)))
        }
    }
}

fn user() -> u32 {
    // SAFETY: it has no preconditions, and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::journal::frame::OnDisk;

    /// A process is killed at each step before a header names its ring.
    #[test]
    fn a_ring_that_no_header_names_yet_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let pool = File::create(&path).unwrap();
        let place = with_ending(&path, ".ring");
        let renewed = |found| {
            RingFile::renewed(&path, &pool, [3, 4], 1 << 20, false, found).unwrap_or_else(|_| panic!("no ring"))
        };
        for step in 0..4 {
            match step {
                0 => drop(File::create(&place).unwrap()),
                1 => File::create(&place).unwrap().set_len(words(1 << 10) as u64 * 8).unwrap(),
                2 => drop(renewed(None)),
                _ => super::super::head::note(renewed(None).1.words(), 5, OnDisk { synced: 0, sequence: 2 }),
            }
            let (ring, _) = renewed(None);
            assert_eq!((ring.seat, &*ring.path), (Seat { in_memory: false, number: 0 }, &*place), "{step}");
        }
    }
}
