//! The file of a ring, which is mapped, beside the pool or in memory: how it is found, made, and made again (J19 to
//! J21, J32, J33).

use super::beside::{belong_to_those_of, id, is_trusted, user, with_ending};
use super::disk::{self, Disk};
use super::head::RingOwner;
use super::header::Seat;
use super::memory::{Memory, cells, words};
use crate::error::{ErrorKind, Fault};
use crate::medium::disk_file::{DiskFile, Role, longest_file};
use crate::medium::mapped::{FileMap, write_in_place};
use crate::sync::AtomicU64;
use crate::sync::process::Process;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags, flock};
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
const NEW: std::ops::RangeInclusive<u64> = 1 << 10..=if cfg!(test) { 1 << 10 } else { 1 << 18 };
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

impl SharedFile {
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the words of the mapping, page-aligned, alive as long as `self`; other mappings of the file cannot
        // make atomic accesses undefined.
        unsafe { self.words.as_ref() }
    }

    /// Whether the words are a ring of the pool with this uuid, of whichever time.
    fn is_of(&self, uuid: [u64; 2]) -> bool {
        RingOwner::read(self.words()).is_some_and(|owner| owner.uuid == uuid)
    }
}

/// A pool that has a ring.
#[derive(Clone)]
pub(super) struct Home {
    pub(super) path: PathBuf,
    pub(super) file: DiskFile,
    pub(super) uuid: [u64; 2],
}

impl Home {
    /// Where the ring is that has this seat.
    pub(super) fn place(&self, seat: Seat) -> PathBuf {
        let ending = if seat.number == 0 { ".ring".to_owned() } else { format!(".ring.{}", seat.number) };
        if seat.in_memory {
            let [first, second] = self.uuid;
            Path::new(IN_MEMORY).join(format!("bristlecone-{first:016x}{second:016x}{ending}"))
        } else {
            with_ending(&self.path, &ending)
        }
    }

    /// Whether the pool is still where its path says.
    fn is_here(&self) -> bool {
        let here = std::fs::metadata(&self.path).and_then(|here| Ok((here, self.file.metadata()?)));
        here.is_ok_and(|(here, file)| id(&here) == id(&file))
    }
}

/// The ring of a pool: a file, mapped, and locked.
pub(crate) struct RingFile {
    shared: SharedFile,
    home: Home,
    pub(super) seat: Seat,
    process: Process,
}

impl RingFile {
    /// The ring of a pool that is at a seat, if there is one; also one that is damaged, or of another pool. Files of
    /// other users are none.
    pub(super) fn find(home: &Home, seat: Seat, write: bool) -> Result<Option<Self>, Fault> {
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let Some(file) = existing(&home.place(seat), home.file.as_file(), access)? else { return Ok(None) };
        let found = Self::of_file(&file, home, seat, write);
        if !matches!(found, Ok(Some(_))) {
            unlock(&file);
        }
        found
    }

    /// The ring of a file; `None` if the file is not as long as rings are.
    fn of_file(file: &DiskFile, home: &Home, seat: Seat, write: bool) -> Result<Option<Self>, Fault> {
        let len = file.metadata().map_err(Fault::io("inspect the ring"))?.len();
        let count = (len / 8) as usize;
        let has_length = CELLS.contains(&cells(count)) && words(cells(count)) as u64 * 8 == len;
        if !(has_length && cells(count).is_power_of_two()) {
            return Ok(None);
        }
        let shared = SharedFile::new(file, count, write).map_err(Fault::io("map the ring"))?;
        Ok(Some(Self::from_file(shared, home, seat)))
    }

    fn from_file(shared: SharedFile, home: &Home, seat: Seat) -> Self {
        Self { shared, home: home.clone(), seat, process: Process::this() }
    }

    /// A ring of a pool of `len` bytes that has nothing: the one that is there, or another one.
    pub(super) fn renewed(home: &Home, len: u64, in_memory: bool, found: Option<Self>) -> Result<Self, Fault> {
        let number = match found {
            Some(ring) if ring.seat.in_memory == in_memory && ring.is_own() => {
                let space = Fault::space(ring.words().len() as u64 * 8, len);
                fill(&ring.shared.file).and_then(|()| ring.shared.map.populate()).map_err(space)?;
                return Ok(ring);
            }
            // What is there stays.
            Some(ring) if ring.seat.in_memory == in_memory => ring.seat.number + 1,
            _ => 0,
        };
        let cells = (len / 4096).next_power_of_two().clamp(*NEW.start(), *NEW.end());
        let space = || Fault::space(words(cells) as u64 * 8, len);
        for number in number..NAMES {
            let seat = Seat { in_memory, number };
            let place = home.place(seat);
            match Self::create(home, seat, &place, words(cells)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map_err(space()),
            }
            // A creation was cut; or it is a ring that no log names any more.
            if let Ok(Some(file)) = existing(&place, home.file.as_file(), OFlags::RDWR) {
                if super::open::is_blank(&file).map_err(Fault::io("read the ring"))? {
                    return Self::make(home, seat, &place, file, words(cells)).map_err(space());
                }
                unlock(&file);
            }
            if let Ok(Some(ring)) = Self::find(home, seat, true)
                && ring.is_own()
            {
                return Self::renewed(home, len, in_memory, Some(ring));
            }
        }
        Err(ErrorKind::Ring {
            path: home.place(Seat { in_memory, number: 0 }).display().to_string(),
            found: "there is something else in its place, and in all others that it could have; move it away",
        }
        .into())
    }

    /// Makes a ring at a path where nothing is.
    fn create(home: &Home, seat: Seat, path: &Path, count: usize) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        write_in_place(&file);
        Self::make(home, seat, path, DiskFile::new(file, Role::Ring), count).inspect_err(|_| {
            // No header names it.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Makes a ring of a file that has nothing, durably.
    fn make(home: &Home, seat: Seat, path: &Path, file: DiskFile, count: usize) -> io::Result<Self> {
        belong_to_those_of(file.as_file(), home.file.as_file())?;
        // Zeros, not a hole: that could not be filled if the file system is full. Nor what is reserved and not written,
        // which may stay so after an error (J31).
        file.resize(0)?;
        disk::zero(0..count as u64 * 8, |at, zeros| file.write(at, zeros))?;
        if !seat.in_memory {
            file.sync_with_length()?;
            crate::medium::sync_name(path)?;
        }
        let shared = SharedFile::new(&file, count, true).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::Error::new(
                io::ErrorKind::Unsupported,
                "the file system of the ring maps no files; keep the ring in memory (Options::ring; --ring memory)",
            ),
            _ => error,
        })?;
        shared.map.populate()?;
        let ring = Self::from_file(shared, home, seat);
        // Before anything else is in it: cut from here on, it is known again.
        RingOwner { uuid: home.uuid, salt: 0, epoch: 0, nonce: 0, before: 0, boot: 0, seat: Some(seat) }
            .write(&ring)?;
        Ok(ring)
    }

    /// Its path before it has its name.
    fn part(&self) -> PathBuf {
        part(&self.home, self.seat)
    }

    /// Removes what a process has left that was killed while it made a ring that was to have the place of this one, or
    /// before it removed one whose place this one has taken.
    pub(super) fn remove_parts(&self) {
        for in_memory in [false, true] {
            (0..NAMES).for_each(|number| remove_part(&self.home, &part(&self.home, Seat { in_memory, number })));
        }
    }

    /// Its path.
    pub(super) fn place(&self) -> PathBuf {
        self.home.place(self.seat)
    }

    /// Whether it is one of the pool, of whichever time.
    pub(super) fn is_own(&self) -> bool {
        self.shared.is_of(self.home.uuid)
    }

    /// Fails if this user may make files beside the ring, but not give another one its name.
    fn may_be_renamed(&self) -> io::Result<()> {
        let (place, ring) = (self.place(), self.shared.file.metadata()?);
        let dir = std::fs::metadata(place.parent().unwrap_or(Path::new("/")))?;
        let is_sticky = dir.mode() & 0o1000 != 0;
        if is_sticky && ![0, dir.uid(), ring.uid()].contains(&user()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }

    /// Whether a path names the file.
    fn is_at(&self, path: &Path) -> bool {
        let here = std::fs::symlink_metadata(path).and_then(|here| Ok((here, self.shared.file.metadata()?)));
        here.is_ok_and(|(here, file)| id(&here) == id(&file))
    }
}

impl Memory for RingFile {
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.shared.words()
    }

    fn write_through(&self, at: usize, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.shared.file.write_through(at as u64 * 8, &bytes)
    }

    fn check(&self) -> io::Result<()> {
        self.shared.file.written_back()
    }

    fn is_witnessed(&self) -> bool {
        if self.check().is_err() {
            return false;
        }
        let mut hint = 0u64;
        // SAFETY: the command writes one word, and there is room for one.
        let asked = unsafe { libc::fcntl(self.shared.file.as_file().as_raw_fd(), GET_HINT, &raw mut hint) };
        asked == 0 && hint == SHORT
    }

    fn bear_witness(&self) {
        let hint = SHORT;
        // A process that does not own the file may not. Then the next open counts cells as after a loss of power.
        // SAFETY: the command reads one word.
        let _ = unsafe { libc::fcntl(self.shared.file.as_file().as_raw_fd(), SET_HINT, &raw const hint) };
    }

    fn is_gone(&self) -> bool {
        self.shared.file.is_gone()
    }

    fn another(&self, cells: u64) -> io::Result<(Self, Seat)> {
        if !self.home.is_here() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the pool is not at the path any more at which it was opened",
            ));
        }
        if words(cells) as u64 * 8 > longest_file() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let is_free = |&number: &u8| {
            let place = self.home.place(Seat { number, ..self.seat });
            std::fs::symlink_metadata(place).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let number = if self.is_gone() {
            (0..NAMES).find(is_free).ok_or(io::ErrorKind::AlreadyExists)?
        } else {
            if !self.is_at(&self.place()) {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the ring was moved"));
            }
            self.may_be_renamed()?;
            can_exchange(&self.home, self.seat)?;
            self.seat.number
        };
        let seat = Seat { number, ..self.seat };
        let part = part(&self.home, seat);
        remove_part(&self.home, &part);
        Ok((Self::create(&self.home, seat, &part, words(cells))?, seat))
    }

    fn is_nameable(&self) -> bool {
        !self.is_gone() && self.home.is_here()
    }

    fn name(&self, exchanges: bool) -> io::Result<()> {
        let place = self.home.place(self.seat);
        let how = if exchanges { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        match rustix::fs::renameat_with(CWD, self.part(), CWD, &place, how) {
            // Somebody has removed the ring whose name it was to take.
            Err(rustix::io::Errno::NOENT) if exchanges && self.home.is_here() => {
                rustix::fs::renameat_with(CWD, self.part(), CWD, &place, RenameFlags::NOREPLACE)?;
            }
            done => done?,
        }
        if self.seat.in_memory {
            return Ok(());
        }
        match crate::medium::sync_name(&place) {
            // It was removed again: the next sync makes another one.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_gone() => Ok(()),
            synced => synced,
        }
    }

    fn remove(&self) {
        for path in [self.home.place(self.seat), self.part()] {
            if self.is_at(&path) {
                let _ = std::fs::remove_file(&path);
            }
        }
    }
}

/// The path of a ring before it has its name.
fn part(home: &Home, seat: Seat) -> PathBuf {
    with_ending(&home.place(seat), ".part")
}

/// Whether the file system can exchange the names of two files: fails if not. Both would be the names of parts.
fn can_exchange(home: &Home, seat: Seat) -> io::Result<()> {
    let parts = [0, 1].map(|number| part(home, Seat { number, ..seat }));
    let tried = parts.iter().try_for_each(|part| {
        remove_part(home, part);
        File::create_new(part).map(drop)
    });
    let tried =
        tried.and_then(|()| Ok(rustix::fs::renameat_with(CWD, &parts[0], CWD, &parts[1], RenameFlags::EXCHANGE)?));
    parts.iter().for_each(|part| remove_part(home, part));
    tried
}

/// Removes what is left at a path of a ring of the pool that never got its name.
fn remove_part(home: &Home, part: &Path) {
    let Ok(Some(file)) = existing(part, home.file.as_file(), OFlags::RDWR) else { return };
    let is_own =
        |len: u64| SharedFile::new(&file, (len / 8) as usize, false).is_ok_and(|shared| shared.is_of(home.uuid));
    let is_blank = super::open::is_blank(&file).is_ok_and(|is_blank| is_blank);
    if is_blank || file.metadata().is_ok_and(|meta| is_own(meta.len())) {
        let _ = std::fs::remove_file(part);
    }
}

impl Drop for RingFile {
    fn drop(&mut self) {
        if self.process.is_this() {
            unlock(&self.shared.file);
        }
    }
}

/// Unlocks a file. As with the pool's file, to close it is not enough: children of other threads, between fork and
/// exec, still hold it.
fn unlock(file: &DiskFile) {
    let _ = flock(file.as_file(), FlockOperation::Unlock);
}

/// Writes the holes of a ring that is not needed any more.
fn fill(file: &DiskFile) -> io::Result<()> {
    let meta = file.metadata()?;
    if meta.blocks() * 512 >= meta.len() {
        return Ok(());
    }
    disk::zero(0..meta.len(), |at, zeros| file.write(at, zeros))?;
    file.sync()
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
    if !(meta.is_file() && is_trusted(&meta, &pool.metadata().map_err(inspecting())?)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::journal::frame::OnDisk;

    /// A ring of a new pool in this directory.
    fn ring_in(dir: &Path) -> RingFile {
        let path = dir.join("a.pool");
        let file = DiskFile::new(File::create(&path).unwrap(), Role::Pool);
        let home = Home { path, file, uuid: [3, 4] };
        RingFile::renewed(&home, 1 << 20, false, None).unwrap_or_else(|_| panic!("no ring"))
    }

    /// A ring that is removed while another one waits for its name.
    #[test]
    fn a_name_that_nobody_has_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let ring = ring_in(dir.path());
        let (other, _) = ring.another(1 << 12).unwrap();
        std::fs::remove_file(ring.place()).unwrap();
        other.name(true).unwrap();
        assert!(other.is_at(&ring.place()) && !other.part().exists());
    }

    /// Its name may be somebody else's by now.
    #[test]
    fn a_ring_that_was_moved_does_not_grow() {
        let dir = tempfile::tempdir().unwrap();
        let ring = ring_in(dir.path());
        std::fs::rename(ring.place(), dir.path().join("elsewhere")).unwrap();
        assert_eq!(ring.another(1 << 12).map(drop).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    /// What a process leaves that is killed before a ring has its name is removed, and nothing else.
    #[test]
    fn a_part_is_removed_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let file = DiskFile::new(File::create(&path).unwrap(), Role::Pool);
        let home = Home { path: path.clone(), file, uuid: [3, 4] };
        let ring = RingFile::renewed(&home, 1 << 20, false, None).unwrap_or_else(|_| panic!("no ring"));
        ring.remove();
        drop(ring.another(1 << 12).unwrap());
        assert!(ring.part().exists() && !home.place(ring.seat).exists());
        ring.remove_parts();
        assert!(!ring.part().exists());
        File::create(ring.part()).unwrap();
        ring.remove_parts();
        assert!(!ring.part().exists());
        std::fs::write(ring.part(), "somebody's").unwrap();
        ring.remove_parts();
        assert!(ring.part().exists() && ring.another(1 << 12).is_err());
        let other = Home { uuid: [3, 5], ..home };
        std::fs::remove_file(ring.part()).unwrap();
        drop(ring.another(1 << 12).unwrap());
        remove_part(&other, &ring.part());
        assert!(ring.part().exists());
        // The path of the pool names another file: a ring there would be of no use.
        std::fs::rename(&path, dir.path().join("b.pool")).unwrap();
        File::create(&path).unwrap();
        assert_eq!(ring.another(1 << 12).map(drop).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// A process is killed at each step before a header names its ring.
    #[test]
    fn a_ring_that_no_header_names_yet_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let file = DiskFile::new(File::create(&path).unwrap(), Role::Pool);
        let home = Home { path: path.clone(), file, uuid: [3, 4] };
        let place = with_ending(&path, ".ring");
        let renewed = || RingFile::renewed(&home, 1 << 20, false, None).unwrap_or_else(|_| panic!("no ring"));
        for step in 0..4 {
            match step {
                0 => drop(File::create(&place).unwrap()),
                1 => File::create(&place).unwrap().set_len(words(1 << 10) as u64 * 8).unwrap(),
                2 => drop(renewed()),
                _ => super::super::head::note(renewed().words(), 5, OnDisk { synced: 0, sequence: 2 }),
            }
            let ring = renewed();
            assert_eq!(
                (ring.seat, home.place(ring.seat)),
                (Seat { in_memory: false, number: 0 }, place.clone()),
                "{step}"
            );
        }
    }
}
