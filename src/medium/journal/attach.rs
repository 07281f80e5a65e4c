//! The journal of a mapped pool file: where its log and its ring are, and which threads look after them.

use super::Pages;
use super::beside::{belong_to_those_of, in_its_place, with_ending};
use super::budget::Share;
use super::engine::{Engine, JournalStat};
use super::header::{Header, Seat};
use super::image_file::ImageFile;
use super::images::{FoundImage, ImageMaker, ImagePlace};
use super::keeper::Keeper;
use super::left::{OldLog, Recovered, Recovery, RingPlace, Terms, Wanted, reading, survey};
use super::marker::{Marker, said};
use super::memory::Memory;
use super::open::{self, Opening, look};
use super::private::PAGE;
use super::shared::{Home, RingFile, SharedFile};
use super::{Journal, LOG, budget, closed, first, head, left_over, shared};
use crate::error::{ErrorKind, Fault};
use crate::medium::Window;
use crate::medium::disk_file::{DiskFile, Role};
use crate::medium::limit;
use crate::medium::vitals::Vitals;
use crate::random::random;
use crate::sync::process::Process;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::io::ErrorKind::{AlreadyExists, CrossesDevices, InvalidFilename, PermissionDenied, ReadOnlyFilesystem};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The journal of an open pool.
pub(crate) struct Attached {
    engine: Arc<Engine<DiskFile, RingFile>>,
    mode: Journal,
    keeper: Option<Keeper>,
    recovered: Recovered,
    process: Process,
}

impl Attached {
    /// Opens the journal of a pool file that this process has locked and has not mapped. The file then shows what the
    /// pool holds. Changes wait for the disk as `wanted` says, and else as the marker does.
    pub(crate) fn open(path: &Path, pool: &DiskFile, marker: Marker, boot: u64, wanted: Wanted) -> Result<Self, Fault> {
        Self::open_at(path, pool, marker, boot, wanted).map_err(|fault| fault.of_log(&log_path(path)))
    }

    fn open_at(path: &Path, pool: &DiskFile, marker: Marker, boot: u64, wanted: Wanted) -> Result<Self, Fault> {
        let uuid = marker.uuid;
        wanted.fits_a_journal()?;
        let of_process = budget::of_process().map_err(Fault::io("take the budget of memory"))?;
        let mut log = find_log(path, true)?.filter(|log| !left_over::is_one(log, &marker));
        let (mut has_lost, mut old_log) = (false, wanted.old_log);
        if let Some(found) = &log
            && let Some(header) = first::header(found, uuid).map_err(reading())?
        {
            has_lost = give_up_first(path, (pool, marker), found, &header, boot)?;
            log = find_log(path, true)?;
        }
        let marker = Marker::read(pool).map_err(Fault::io("read"))?.unwrap_or(marker);
        if log.is_none() && marker.settled {
            // It had nothing that the pool's file lacks, so another one is as good.
            marker.confirm(pool)?;
            let found = create_log_beside(path, pool, uuid, LOG, |log| left_over::is_one(log, &marker))?;
            old_log = found.or(old_log);
            log = find_log(path, true)?;
        }
        let log = log.ok_or_else(lost)?;
        // The working directory may be another one when a ring is made again.
        let path = &std::path::absolute(path).map_err(Fault::io("find the path"))?;
        let home = Home { path: path.to_owned(), file: pool.clone(), uuid };
        let seat = open::seat(&log, uuid)?;
        let left = seat.map_or(Ok(None), |seat| RingFile::find(&home, seat, true))?;
        let marker = believe((pool, marker), &log, left.as_ref(), wanted.recovery)?;
        let marker = open::fitting(pool, &log, marker)?;
        let mode = wanted.mode.unwrap_or(marker.mode());
        // The open writes it through with the rest, before the first change.
        let marker = Marker { mode: wanted.mode.map_or(marker.mode, said), ..marker };
        let len = pool.metadata().map_err(Fault::io("inspect"))?.len();
        let was_in_memory = seat.is_some_and(|seat| seat.in_memory);
        let in_memory = wanted.ring.map_or(was_in_memory, |place| place == RingPlace::InMemory);
        let memory = limit::memory();
        let share = Share::new(wanted.private_memory, of_process);
        let image = ImageFile::new(path, pool, uuid);
        let budget = share.part();
        let opening = Opening {
            images: Some((&image, budget)),
            terms: Terms { boot, recovery: wanted.recovery },
            nonce: random(),
            path: home.place(seat.unwrap_or(Seat { in_memory, number: 0 })).display().to_string(),
        };
        let mut replaced = None;
        let renew = |left: Option<RingFile>| {
            let found = match left {
                Some(ring) if ring.seat.in_memory != in_memory => {
                    replaced = ring.is_own().then_some(ring);
                    None
                }
                found => found,
            };
            let ring = RingFile::renewed(&home, len, in_memory, found)?;
            let seat = ring.seat;
            Ok((ring, seat))
        };
        let damaged_twin = open::damaged_twin(&log).map_err(reading())?;
        let (engine, recovered) = open::open((pool.clone(), marker), log, left, &opening, renew)
            .map_err(|fault| in_its_place(fault, pool.as_file()))?;
        let engine = Arc::new(engine);
        engine.private.is_within(share);
        for file in [&engine.pool, &engine.log] {
            let told = Arc::downgrade(&engine);
            file.when_failed(move |failed| told.upgrade().iter().for_each(|engine| engine.is_told(failed)));
        }
        image.clean();
        engine.makes_images_as_forced().map_err(Fault::io("choose when images are made"))?;
        engine.keeps_images(Box::new(image), budget);
        let file = pool.clone();
        let keeper = Keeper::new(&engine, move || file.write_ahead()).map_err(Fault::io("start a thread"))?;
        pool.is_kept_by(memory, keeper.checkpoints());
        if let Some(share) = engine.private.share() {
            share.is_kept_by(Box::new(keeper.checkpoints()));
        }
        let keeper = Some(keeper);
        let without_ring = recovered.without_ring || has_lost;
        let recovered = Recovered { without_ring, damaged_twin, old_log, ..recovered };
        // The header names the other one by now.
        replaced.iter().for_each(Memory::remove);
        engine.ring.memory().remove_parts();
        let mut opened = Self { engine, mode, keeper, recovered, process: Process::this() };
        opened.set_mode(mode);
        Ok(opened)
    }

    /// Says that no private pages of the mapping go.
    pub(crate) fn evicts_nothing(&self) {
        self.engine.private.share().into_iter().for_each(Share::is_of_no_use);
    }

    /// Lets private pages of this mapping go, from now on.
    pub(crate) fn evicts(&self, pages: impl Pages + 'static) {
        let _ = self.engine.pages.set(Box::new(pages));
    }

    /// Whether so many bytes more of private memory may be taken at once.
    pub(crate) fn may_detach(&self, bytes: u64) -> bool {
        let share = self.engine.private.share();
        share.is_none_or(|share| share.used().saturating_add(bytes) <= share.limit() / 2)
    }

    /// Notes that a range has memory of its own.
    pub(crate) fn is_detached(&self, range: Range<u64>) {
        self.engine.private.add(range.start / PAGE..range.end / PAGE);
    }

    /// Notes that a range is not in the mapping any more.
    pub(crate) fn forgets(&self, range: Range<u64>) {
        self.engine.private.remove(range.start.div_ceil(PAGE)..range.end.div_ceil(PAGE));
    }

    /// Calls `store` with each word that a pool file lacks, and changes nothing. Tells how much of the journal is in
    /// use.
    pub(crate) fn look(
        path: &Path,
        pool: &DiskFile,
        marker: Marker,
        terms: (u64, Wanted),
        store: impl FnMut(u64, u64),
    ) -> Result<JournalStat, Fault> {
        Self::look_at(path, pool, marker, terms, store).map_err(|fault| fault.of_log(&log_path(path)))
    }

    fn look_at(
        path: &Path,
        pool: &DiskFile,
        marker: Marker,
        (boot, wanted): (u64, Wanted),
        store: impl FnMut(u64, u64),
    ) -> Result<JournalStat, Fault> {
        let log = match find_log(path, false)?.filter(|log| !left_over::is_one(log, &marker)) {
            None if marker.settled => return Ok(JournalStat { mode: marker.mode(), ..JournalStat::default() }),
            log => log.ok_or_else(lost)?,
        };
        if let Some(header) = first::header(&log, marker.uuid).map_err(reading())? {
            let mode = marker.mode();
            if marker.settled {
                return Ok(JournalStat { mode, ..JournalStat::default() });
            }
            let found = first_rings(path, pool, &log, &header, boot, false)?.pop();
            let words = found.as_ref().map(|(_, memory)| memory.words());
            first::look((pool, &marker), &log, &header, words, store)?;
            let recovered = Recovered { without_ring: words.is_none(), ..Recovered::default() };
            return Ok(JournalStat { log: header.region.len, mode, recovered, ..JournalStat::default() });
        }
        let seat = open::seat(&log, marker.uuid)?.filter(|_| !marker.settled);
        let home = Home { path: path.to_owned(), file: pool.clone(), uuid: marker.uuid };
        let ring = seat.map_or(Ok(None), |seat| RingFile::find(&home, seat, false))?;
        let marker = believe((pool, marker), &log, ring.as_ref(), wanted.recovery)?;
        let place = seat.map_or_else(String::new, |seat| home.place(seat).display().to_string());
        let opening = Opening { terms: Terms { boot, recovery: wanted.recovery }, nonce: 0, path: place, images: None };
        let damaged_twin = open::damaged_twin(&log).map_err(reading())?;
        let mut found = look((pool, &marker), &log, ring.as_ref(), &opening, store)
            .map_err(|fault| in_its_place(fault, pool.as_file()))?;
        found.recovered.damaged_twin = damaged_twin;
        Ok(found)
    }

    #[inline]
    pub(crate) fn flush(&self, at: u64, len: u64, whole_lines: bool, load: impl Fn(u64) -> u64) {
        self.engine.flush(at, len, whole_lines, load);
    }

    #[inline]
    pub(crate) fn window(&self) -> Window<'_> {
        self.engine.windows.open()
    }

    #[inline]
    pub(crate) fn window_for_change(&self) -> Window<'_> {
        self.engine.windows.open_for_change()
    }

    pub(crate) fn pause(&self) {
        self.engine.windows.pause();
    }

    /// Whether this thread has a window open, as far as can be told.
    #[cfg(debug_assertions)]
    pub(crate) fn is_window_open(&self) -> bool {
        self.engine.windows.is_open_here() || !self.process.is_this()
    }

    #[inline]
    pub(crate) fn admit(&self) -> io::Result<()> {
        self.engine.admit()
    }

    /// What was flushed survives what the mode promises when this returns.
    #[inline]
    pub(crate) fn acknowledge(&self) -> io::Result<()> {
        if self.mode == Journal::Each { self.engine.commit() } else { self.engine.check_acknowledged() }
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.engine.sync_and_look()
    }

    /// Applies everything to the pool file. Nothing is flushed any more. A ring beside the pool stays, for the next
    /// process.
    pub(crate) fn settle(&self) -> io::Result<()> {
        self.engine.set_image_maker(None);
        self.engine.settle()?;
        // A hint: without it, the log is kept where it could be removed.
        let _ = closed::note_closed(&self.engine.log, &self.engine.header.lock());
        self.engine.remove_image();
        let ring = self.engine.ring.memory();
        if ring.seat.in_memory {
            ring.remove();
        }
        Ok(())
    }

    /// What was found of the image of the trees that counts. Once.
    pub(crate) fn take_image(&self) -> Option<FoundImage> {
        self.engine.take_image()
    }

    /// Has images made by this from now on, or by nobody.
    pub(crate) fn set_image_maker(&self, maker: Option<Box<dyn ImageMaker>>) {
        self.engine.set_image_maker(maker);
    }

    /// Waits with `sync` until the length that the pool file has now is on the disk. From then on, flushes may name
    /// what is in it.
    pub(crate) fn resize(&self, len: u64, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.engine.resize(len, sync)
    }

    /// As [`resize`](Self::resize), with a length that is on the disk.
    pub(crate) fn has_len(&self, len: u64) -> io::Result<()> {
        self.engine.has_len(len)
    }

    /// Applies everything to the pool file, so that the log names nothing. Nothing is flushed meanwhile.
    pub(crate) fn empty(&self) -> io::Result<()> {
        self.engine.empty()
    }

    /// Gives the space of pages of the pool file back, once nothing that was flushed so far could fill them again.
    pub(crate) fn release(&self, pages: Range<u64>) {
        self.engine.release(pages);
    }

    /// Keeps the space of a range.
    pub(crate) fn retain(&self, range: Range<u64>) {
        self.engine.retain(range);
    }

    /// Waits for the disk as this says, from now on.
    pub(crate) fn set_mode(&mut self, mode: Journal) {
        self.keeper.iter().for_each(|keeper| keeper.set_mode(mode));
        self.mode = mode;
    }

    pub(crate) fn vitals(&self) -> Arc<Vitals> {
        Arc::clone(&self.engine.vitals)
    }

    /// Numbers about the journal; `None` in a forked child, which has none.
    pub(crate) fn stat(&self) -> Option<JournalStat> {
        self.process.is_this().then(|| JournalStat { mode: self.mode, recovered: self.recovered, ..self.engine.stat() })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let keeper = self.keeper.take();
        // A forked child has no thread that would end the work.
        if !self.process.is_this() {
            std::mem::forget(keeper);
        }
    }
}

/// The path of a pool's log. A link to a pool has no log of its own.
fn log_path(pool: &Path) -> PathBuf {
    with_ending(pool, ".log")
}

fn find_log(pool: &Path, write: bool) -> Result<Option<DiskFile>, Fault> {
    let mut options = File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, OFlags::NONBLOCK.bits() as i32);
    match options.read(true).write(write).open(log_path(pool)) {
        Ok(file) => match file.metadata().map_err(Fault::io("inspect the log"))? {
            meta if meta.is_file() => Ok(Some(DiskFile::new(file, Role::Log))),
            meta => Err(in_the_way(&log_path(pool), if meta.is_dir() { "a directory" } else { "no file" })),
        },
        Err(error) if error.raw_os_error() == Some(libc::EISDIR) => Err(in_the_way(&log_path(pool), "a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::io("open the log")(error)),
    }
}

fn in_the_way(path: &Path, found: &'static str) -> Fault {
    ErrorKind::LogInTheWay { path: path.display().to_string(), found }.into()
}

/// What a file is that is no log of the pool.
fn what_is(file: &DiskFile) -> &'static str {
    if open::is_log(file) { "the log of another pool" } else { "no log" }
}

/// An error if log and ring of a pool have something that the pool's file lacks, which does not say so: its marker is
/// gone. The log is not there, or has nothing, while a journal is being added or removed, and that was cut.
pub(crate) fn lacks_nothing(path: &Path, pool: &DiskFile, uuid: [u64; 2], boot: u64) -> Result<(), Fault> {
    let look = || {
        let Some(log) = find_log(path, false)?.filter(|log| !left_over::is_of_another(log, uuid)) else {
            return Ok(());
        };
        let seat = open::seat(&log, uuid)?;
        if !open::is_empty_log_of(&log, uuid) {
            return Err(not_empty());
        }
        let (Some(seat), Some(header)) = (seat, Header::read(&log).map_err(reading())?) else { return Ok(()) };
        let home = Home { path: path.to_owned(), file: pool.clone(), uuid };
        let (ring, place) = (RingFile::find(&home, seat, false)?, home.place(seat).display().to_string());
        let terms = Terms { boot, recovery: Recovery::Whole };
        let left = survey(&log, &header, (ring.as_ref(), &place), terms, |_| Ok(()))?;
        if left.next == header.start.position { Ok(()) } else { Err(not_empty()) }
    };
    look().map_err(|fault| fault.of_log(&log_path(path)))
}

/// Not to be moved away: the pool's file may have lost that it has a journal.
fn not_empty() -> Fault {
    let found = "there is one of this pool that is not empty, though the pool says that it has none";
    ErrorKind::Log { path: String::new(), found }.into()
}

fn lost() -> Fault {
    ErrorKind::Log {
        path: String::new(),
        found: "it is not there, under the pool's path with .log at its end, and the pool was not closed in order, so the pool's file \
                alone is of the past, and not of one moment: bring the log back, or restore a copy of both",
    }
    .into()
}

/// Where the logs of the first form have their rings, in the order of their epochs, and which are there.
fn first_rings(
    path: &Path,
    pool: &DiskFile,
    log: &DiskFile,
    header: &Header,
    boot: u64,
    write: bool,
) -> Result<Vec<(PathBuf, SharedFile)>, Fault> {
    let meta = log.metadata().map_err(Fault::io("inspect the log"))?;
    let (device, inode, [first, second]) = (meta.dev(), meta.ino(), header.uuid);
    let name = format!("bristlecone-{first:016x}{second:016x}-{device:x}-{inode:x}.ring");
    let mut found = Vec::new();
    for path in [Path::new(shared::IN_MEMORY).join(name), with_ending(path, ".ring")] {
        let Some(file) = shared::existing(&path, pool.as_file(), if write { OFlags::RDWR } else { OFlags::RDONLY })?
        else {
            continue;
        };
        let count = file.metadata().map_err(Fault::io("inspect the ring"))?.len() / 8;
        let memory = SharedFile::new(&file, count as usize, write).map_err(Fault::io("map the ring"))?;
        let epoch = first::epoch(memory.words(), header, first::Identity { boot, file: [device, inode] });
        if epoch == header.life.epoch {
            found.push((path, memory));
        }
    }
    Ok(found)
}

/// Applies a log of the first form, and the ring that goes with it, to the pool file, and makes a log of this form in
/// its place. Tells whether there was no such ring, though the pool was not closed in order.
fn give_up_first(
    path: &Path,
    (pool, marker): (&DiskFile, Marker),
    log: &DiskFile,
    header: &Header,
    boot: u64,
) -> Result<bool, Fault> {
    let rings = first_rings(path, pool, log, header, boot, true)?;
    if marker.settled {
        marker.confirm(pool)?;
    } else {
        first::settle((pool, marker), log, header, rings.last().map(|(_, memory)| memory.words()))?;
    }
    // Cut, from here on: the pool was closed in order, and needs no log.
    make_log(path, pool, marker.uuid, header.region.len, |log, part| std::fs::rename(part, log).map_err(naming()))?;
    let has_lost = rings.is_empty() && !marker.settled;
    rings.into_iter().for_each(|(path, _)| _ = std::fs::remove_file(path));
    Ok(has_lost)
}

/// The marker, if what the system shows can be believed. Else the files are read from the disk (J30).
fn believe(
    (pool, marker): (&DiskFile, Marker),
    log: &DiskFile,
    ring: Option<&RingFile>,
    recovery: Recovery,
) -> Result<Marker, Fault> {
    // With a ring that is lost, what it would say of failures is lost, too, whatever is in its place.
    let is_lost = || !ring.is_some_and(|ring| open::is_ring_of(ring, log, marker.uuid));
    let is_doubtful = ring.is_some_and(|ring| head::has_failed(ring.words()))
        || recovery != Recovery::Whole && !marker.settled && is_lost();
    if !is_doubtful {
        return Ok(marker);
    }
    for file in [pool, log] {
        file.forget_cached().map_err(Fault::io("read the disk again after an error"))?;
    }
    Ok(Marker::read(pool).map_err(Fault::io("read"))?.unwrap_or(marker))
}

/// Makes the log of a closed pool that has none, durably, with a region of `len` bytes. The users that may use the
/// pool's file may use the log, and nobody else. A file with other content is left as it is; so is the log of a pool
/// that was here before, if this one `is_new` and that one may need it: its file may be missing by mistake.
pub(crate) fn create_log(
    path: &Path,
    pool: &DiskFile,
    uuid: [u64; 2],
    len: u64,
    is_new: bool,
) -> Result<Option<OldLog>, Fault> {
    let is_old = |log: &DiskFile| left_over::is_of_another(log, uuid) && (!is_new || closed::is_dead(log));
    create_log_beside(path, pool, uuid, len, is_old).map_err(|fault| fault.of_log(&log_path(path)))
}

/// Does so, and clears away a log that `is_old`: of a pool that was here before.
fn create_log_beside(
    path: &Path,
    pool: &DiskFile,
    uuid: [u64; 2],
    len: u64,
    is_old: impl Fn(&DiskFile) -> bool,
) -> Result<Option<OldLog>, Fault> {
    let mut old = None;
    make_log(path, pool, uuid, len, |log, part| {
        match find_log(path, false) {
            Ok(Some(other)) if is_old(&other) => old = Some(left_over::clear(path, pool, &other)?),
            // It was made for this pool, and the pool has no journal: so it is left from an addition that was cut, or
            // from a removal.
            Ok(Some(other)) if open::is_empty_log_of(&other, uuid) => {
                return std::fs::rename(part, log).map_err(naming());
            }
            _ => {}
        }
        left_over::rename(part, log).map_err(naming())
    })?;
    Ok(old)
}

fn naming() -> impl FnOnce(io::Error) -> Fault {
    Fault::io("name the log")
}

/// Makes a log under another name, until it is whole, and then gives it its name as `name` says.
fn make_log(
    path: &Path,
    pool: &DiskFile,
    uuid: [u64; 2],
    len: u64,
    name: impl FnOnce(&Path, &Path) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let creating = || Fault::io("create the log");
    let log = log_path(path);
    let part = with_ending(&log, ".part");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let no_place = |source| Fault::from(ErrorKind::NoPlaceForLog { path: log.display().to_string(), source });
    let file = match rustix::fs::open(&part, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from) {
        Err(error) if matches!(error.kind(), InvalidFilename | PermissionDenied | ReadOnlyFilesystem) => {
            return Err(no_place(error));
        }
        file => DiskFile::new(File::from(file.map_err(creating())?), Role::Log),
    };
    if !(open::is_blank(&file).map_err(creating())? || open::is_log_of(&file, uuid)) {
        return Err(in_the_way(&part, what_is(&file)));
    }
    // A file that is mounted alone, as into a container: what lies beside its path does not go where the pool goes.
    let device = |file: &DiskFile| file.metadata().map(|meta| meta.dev());
    if device(&file).map_err(creating())? != device(pool).map_err(creating())? {
        let _ = std::fs::remove_file(&part);
        return Err(no_place(io::Error::new(
            CrossesDevices,
            "the pool's file is mounted alone, and its directory is another file system's",
        )));
    }
    file.resize(0).and_then(|()| belong_to_those_of(file.as_file(), pool.as_file())).map_err(creating())?;
    let made = open::create(&file, uuid, len, random()).map_err(Fault::space(len, len));
    let named = made.and_then(|()| {
        match name(&log, &part) {
            Err(fault) if matches!(fault.kind(), ErrorKind::Io { source, .. } if source.kind() == AlreadyExists) => {}
            other => return other,
        }
        match find_log(path, false)? {
            Some(other) if open::is_log_of(&other, uuid) => Err(not_empty()),
            Some(other) => Err(in_the_way(&log, what_is(&other))),
            None => Err(in_the_way(&log, "a link that leads nowhere")),
        }
    });
    let _ = std::fs::remove_file(&part);
    named?;
    crate::medium::sync_name(&log).map_err(Fault::io("sync the directory of the log"))
}

/// Says in a closed pool's file that it has a journal, whose log is there and empty, and how it waits for the disk.
pub(crate) fn adopt(path: &Path, pool: &DiskFile, uuid: [u64; 2], mode: Journal) -> Result<(), Fault> {
    let adopt = || open::adopt(pool, &find_log(path, false)?.ok_or_else(lost)?, uuid, mode);
    adopt().map_err(|fault| fault.of_log(&log_path(path)))
}

/// Removes the log of a pool that has no journal any more, and its rings.
pub(crate) fn remove_log(path: &Path, uuid: [u64; 2]) {
    let (Ok(Some(log)), Ok(pool)) = (find_log(path, false), File::open(path)) else { return };
    let home = Home { path: path.to_owned(), file: DiskFile::new(pool, Role::Pool), uuid };
    if !open::is_log_of(&log, uuid) {
        return;
    }
    ImageFile::new(path, &home.file, uuid).remove();
    if let Ok(Some(seat)) = open::seat(&log, uuid)
        && let Ok(Some(ring)) = RingFile::find(&home, seat, true)
        && ring.is_own()
    {
        ring.remove();
    }
    let _ = std::fs::remove_file(log_path(path));
}
