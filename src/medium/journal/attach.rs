//! The journal of a mapped pool file: where its log and its ring are, and who looks after them.

use super::Journal;
use super::beside::{belong_to_those_of, with_ending};
use super::engine::{Engine, JournalStat};
use super::keeper::Keeper;
use super::marker::Marker;
use super::open::{self, look};
use super::ring::Owner;
use super::shared::{RingFile, SharedFile};
use crate::error::{ErrorKind, Fault};
use crate::medium::disk_file::{DiskFile, Role};
use crate::medium::process::Process;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a new log's region. It grows if checkpoints have much to write.
pub(crate) const LOG: u64 = 32 << 20;

/// The journal of an open pool.
pub(crate) struct Attached {
    engine: Arc<Engine<DiskFile, SharedFile>>,
    mode: Journal,
    keeper: Option<Keeper>,
    ring: RingFile,
    process: Process,
}

impl Attached {
    /// Opens the journal of a pool file that this process has locked. The file then shows what the pool holds. Each change waits
    /// for the disk, unless [`set_mode`](Self::set_mode) says otherwise.
    pub(crate) fn open(path: &Path, pool: &DiskFile, marker: Marker, boot: u64) -> Result<Self, Fault> {
        let mut log = find_log(path, true)?;
        if log.is_none() && marker.settled {
            // It had nothing that the pool's file lacks, so another one is as good.
            create_log(path, pool, marker.uuid, LOG)?;
            log = find_log(path, true)?;
        }
        let log = log.ok_or_else(lost)?;
        let marker = open::fitting(pool, &log, marker)?;
        let owner = owner(&log, &marker, boot)?;
        let len = pool.metadata().map_err(Fault::io("inspect"))?.len();
        let (ring, memory) = RingFile::open(path, pool.as_file(), owner, len)?;
        let opened = open::open((pool.clone(), marker), log, memory, owner).map(Arc::new).and_then(|engine| {
            for file in [&engine.pool, &engine.log] {
                let told = Arc::downgrade(&engine);
                file.when_failed(move |failed| told.upgrade().iter().for_each(|engine| engine.is_told(failed)));
            }
            let keeper = Keeper::new(&engine).map_err(Fault::io("start a thread"))?;
            Ok((engine, Some(keeper)))
        });
        let (engine, keeper) = opened.inspect_err(|_| ring.give_up())?;
        Ok(Self { engine, mode: Journal::Each, keeper, ring, process: Process::this() })
    }

    /// Calls `store` with each word that a pool file lacks, and changes nothing. Tells how much of the journal is in use.
    pub(crate) fn look(
        path: &Path,
        pool: &DiskFile,
        marker: Marker,
        boot: u64,
        store: impl FnMut(u64, u64),
    ) -> Result<JournalStat, Fault> {
        let log = match find_log(path, false)? {
            None if marker.settled => return Ok(JournalStat::default()),
            log => log.ok_or_else(lost)?,
        };
        let owner = owner(&log, &marker, boot)?;
        let ring = RingFile::look(path, pool.as_file(), owner)?;
        look((pool, &marker), &log, ring.as_ref(), owner, store)
    }

    #[inline]
    pub(crate) fn flush(&self, at: u64, len: u64, whole_lines: bool, load: impl Fn(u64) -> u64) {
        self.engine.flush(at, len, whole_lines, load);
    }

    #[inline]
    pub(crate) fn admit(&self) -> io::Result<()> {
        self.engine.admit()
    }

    /// What was flushed survives what the mode promises when this returns.
    #[inline]
    pub(crate) fn acknowledge(&self) -> io::Result<()> {
        if self.mode == Journal::Each { self.engine.sync() } else { self.engine.check() }
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.engine.sync()
    }

    /// Applies everything to the pool file, and removes the ring. Nothing is flushed any more.
    pub(crate) fn settle(&self) -> io::Result<()> {
        self.engine.settle()?;
        self.ring.remove();
        Ok(())
    }

    /// Waits with `sync` until the length that the pool file has now is on the disk. From then on, flushes may name what is in it.
    pub(crate) fn resize(&self, len: u64, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.engine.resize(len, sync)
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

    /// Numbers about the journal; `None` in a forked child, which has none.
    pub(crate) fn stat(&self) -> Option<JournalStat> {
        self.process.is_this().then(|| self.engine.stat())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let keeper = self.keeper.take();
        // A forked child has no such thread.
        if self.process.is_this() {
            keeper.into_iter().for_each(Keeper::stop);
        } else {
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

/// Whether a pool was closed in order, or was never opened since it got its journal: then its log and its ring had nothing that the
/// pool's file lacks.
pub(crate) fn was_settled(path: &Path, marker: &Marker) -> Result<bool, Fault> {
    Ok(marker.settled || find_log(path, false)?.is_some_and(|log| open::is_new_log_of(&log, marker.uuid)))
}

fn lost() -> Fault {
    ErrorKind::Log {
        found: "it is not there, and the pool was not closed in order: the pool's file alone is of the past",
    }
    .into()
}

fn owner(log: &DiskFile, marker: &Marker, boot: u64) -> Result<Owner, Fault> {
    let meta = log.metadata().map_err(Fault::io("inspect the log"))?;
    if boot == 0 {
        // A ring beside the pool, of which a crash of the machine has left a part, would be taken for whole.
        return Err(ErrorKind::Log { found: "the system does not tell one boot from another" }.into());
    }
    Ok(Owner { uuid: marker.uuid, boot, file: [meta.dev(), meta.ino()] })
}

/// Makes the log of a closed pool that has none, durably, with a region of `len` bytes. Whoever may use the pool's file may use
/// it, and nobody else. A file with other content is left as it is.
pub(crate) fn create_log(path: &Path, pool: &DiskFile, uuid: [u64; 2], len: u64) -> Result<(), Fault> {
    let creating = || Fault::io("create the log");
    let log = log_path(path);
    // Under another name until it is whole: then it never takes the place of anything.
    let part = with_ending(&log, ".part");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::open(&part, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from);
    let file = DiskFile::new(File::from(file.map_err(creating())?), Role::Log);
    if !(open::is_blank(&file).map_err(creating())? || open::is_log_of(&file, uuid)) {
        return Err(in_the_way(&part, what_is(&file)));
    }
    file.resize(0).and_then(|()| belong_to_those_of(file.as_file(), pool.as_file())).map_err(creating())?;
    let random = || std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0u8);
    let made = open::create(&file, uuid, len, random()).map_err(Fault::space(len, len));
    let named = made.and_then(|()| match find_log(path, false)? {
        // It was made for this pool, and the pool has no journal: so it is left from an addition that was cut, or from a
        // removal.
        Some(other) if open::is_empty_log_of(&other, uuid) => {
            std::fs::rename(&part, &log).map_err(Fault::io("name the log"))
        }
        // Not to be moved away: the pool's file may have lost that it has a journal.
        Some(other) if open::is_log_of(&other, uuid) => Err(ErrorKind::Log {
            found: "there is one of this pool that is not empty, though the pool says that it has none",
        }
        .into()),
        Some(other) => Err(in_the_way(&log, what_is(&other))),
        None => std::fs::hard_link(&part, &log).map_err(Fault::io("name the log")),
    });
    let _ = std::fs::remove_file(&part);
    named?;
    crate::medium::sync_name(&log).map_err(Fault::io("sync the directory of the log"))
}

/// Says in a closed pool's file that it has a journal, whose log is there and empty.
pub(crate) fn adopt(path: &Path, pool: &DiskFile, uuid: [u64; 2]) -> Result<(), Fault> {
    open::adopt(pool, &find_log(path, false)?.ok_or_else(lost)?, uuid)
}

/// Removes the log of a pool that has no journal any more.
pub(crate) fn remove_log(path: &Path, uuid: [u64; 2]) {
    if find_log(path, false).is_ok_and(|log| log.is_some_and(|log| open::is_log_of(&log, uuid))) {
        let _ = std::fs::remove_file(log_path(path));
    }
}
