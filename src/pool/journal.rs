//! Giving a pool a journal, and taking it away.
//!
//! A pool has a journal if its file has a marker. Until there is one, and after it is gone, the log is empty, so that
//! the pool file alone is all of the pool.

#[cfg(doc)]
use super::Options;
use super::{Pool, PoolState};
use crate::error::{ErrorKind, Fault, Result};
use crate::medium::{self, Domain, Journal, JournalStat, Mapped, Mapping, Medium, OldLog};
use crate::pool::format::{HEADER, Superblock};
use std::path::Path;
use std::sync::Arc;

impl Pool {
    /// Gives a pool a journal, which it has from now on, and closes it.
    ///
    /// The pool then survives a crash of the machine, as a new pool does: see [`Options::journal`], with which an open
    /// does the same. Its log is a file beside it, and so is its ring. Builds that do not know journals refuse the pool
    /// from now on. Nobody may have the pool open. Returns what has become of the log of a pool that was here before.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::JournalThere`] if it has one. As [`Options::open`], which opens it first;
    /// [`ErrorKind::OutOfSpace`], and [`ErrorKind::LogInTheWay`] if there is something else where the log is to be:
    /// move it away. Then nothing has changed.
    ///
    /// # Crash consistency
    ///
    /// The pool has a journal, or none; all that it holds is in its file, so nothing is lost either way. A log that is
    /// left without one is used if a journal is added again.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.pool");
    /// use bristlecone::{Journal, Pool};
    ///
    /// Pool::options().journal(Journal::None).open(&path)?.close()?;
    /// Pool::add_journal(&path)?;
    /// let pool = Pool::open(&path)?;
    /// assert_eq!(pool.journal().map(|stat| stat.mode), Some(Journal::default()));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn add_journal(path: impl AsRef<Path>) -> Result<Option<OldLog>> {
        let path = path.as_ref();
        let named = |fault: Fault| fault.in_pool(path.display().to_string());
        if is_open(path).map_err(named)? {
            let pool = Self::open(path)?;
            if pool.durability() == Domain::Journal {
                return Err(named(ErrorKind::JournalThere { has: true }.into()));
            }
            pool.close()?;
        }
        add_to_closed(path).map_err(named)
    }

    /// Takes the journal away from a pool, and removes its log and its ring. The pool is closed, with everything in its
    /// file.
    ///
    /// From now on, the pool is one without a journal: while it is open, it survives a crash of the process only.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::JournalThere`] if it has none. As [`Options::open`] and [`Pool::close`].
    ///
    /// # Crash consistency
    ///
    /// The pool has its journal, or none; all that it holds is in its file, so nothing is lost either way.
    pub fn remove_journal(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        remove(path).map_err(|fault| fault.in_pool(path.display().to_string()))
    }

    /// Numbers about the [journal](Options::journal), if the pool has one. A forked child has none. Of a pool that is
    /// only read, they say what the last process left.
    ///
    /// # Complexity
    ///
    /// It may wait for a write to the disk.
    pub fn journal(&self) -> Option<JournalStat> {
        self.state.medium.journal()
    }
}

/// Closes a pool, and gives it a journal, whose log has so many bytes for frames. Nobody else has the pool. Tells what
/// has become of the log of a pool that was here before.
pub(super) fn add(pool: Pool, path: &Path, mode: Journal, log: u64) -> Result<Option<OldLog>, Fault> {
    let mut state = Arc::into_inner(pool.state).ok_or(ErrorKind::StillOpen { trees: Vec::new() })?;
    state.sync = true;
    state.close()?;
    let uuid = state.superblock.get_mut().0.uuid;
    let given = give(&state.medium, path, mode, log);
    if given.is_err() && state.medium.is_new() {
        // Else it would be in the way of the pool that is made here next.
        medium::remove_log(path, uuid);
    }
    given
}

/// Gives a closed pool a journal.
fn give(medium: &Mapped, path: &Path, mode: Journal, log: u64) -> Result<Option<OldLog>, Fault> {
    let (superblock, _) = Superblock::read(medium)?;
    let old_log = medium.create_log(path, superblock.uuid, log)?;
    declare(medium, true)?;
    // Cut: the superblock tells the next open that this is missing.
    medium.adopt_journal(path, superblock.uuid, mode)?;
    if medium.is_new() {
        medium::sync_name(path).map_err(Fault::io("sync the directory"))?;
        medium.is_born();
    }
    Ok(old_log)
}

/// Says in a closed pool that it has a journal, whose log is made where the pool is opened: in a backup.
pub(crate) fn remember(path: &Path, mode: Journal) -> Result<(), Fault> {
    let medium = Mapped::existing(path, Mapping::Write, 0)?;
    let (superblock, _) = Superblock::read(&medium)?;
    declare(&medium, true)?;
    medium.remember_journal(superblock.uuid, mode)
}

/// Says in the superblock of a closed pool, durably, whether it has a journal. It is not marked as in use, so a crash
/// of the machine leaves it as it was, or as it shall be.
fn declare(medium: &Mapped, has: bool) -> Result<(), Fault> {
    let (mut superblock, twin) = Superblock::read(medium)?;
    medium.reserve(0, HEADER).map_err(Fault::space(HEADER, superblock.geometry.capacity))?;
    superblock.set_journal(has);
    superblock.write(medium, twin);
    medium.sync().map_err(Fault::io("sync"))
}

/// Whether a pool must be opened, and closed in order, before it can be given a journal.
fn is_open(path: &Path) -> Result<bool, Fault> {
    let medium = Mapped::existing(path, Mapping::Read, 0)?;
    let (superblock, _) = Superblock::read(&medium)?;
    Ok(!superblock.is_clean() || superblock.has_journal() || medium.facts().domain == Domain::Journal)
}

/// Adds a journal to a pool that has none, and is closed.
fn add_to_closed(path: &Path) -> Result<Option<OldLog>, Fault> {
    let medium = Mapped::existing(path, Mapping::Write, 0)?;
    let (superblock, _) = Superblock::read(&medium)?;
    superblock.check(&medium, false)?;
    if !superblock.is_clean() || medium.facts().domain == Domain::Journal {
        // Another process was here a moment ago.
        return Err(ErrorKind::InUse.into());
    }
    give(&medium, path, Journal::default(), medium::LOG)
}

fn remove(path: &Path) -> Result<(), Fault> {
    let medium = Mapped::existing(path, Mapping::Write, 0)?;
    let superblock = Superblock::read(&medium)?;
    superblock.0.check(&medium, false)?;
    if !superblock.0.has_journal() {
        return Err(ErrorKind::JournalThere { has: false }.into());
    }
    let mut state = PoolState::open(medium, superblock, true, None, 0)?;
    state.mark_in_use()?;
    state.close()?;
    // Cut, from here on: the superblock still says that there is a journal, so the next open makes the marker again.
    state.medium.drop_journal()?;
    drop(state);
    let medium = Mapped::existing(path, Mapping::Write, 0)?;
    if medium.facts().domain == Domain::Journal {
        return Err(ErrorKind::InUse.into());
    }
    declare(&medium, false)?;
    medium::remove_log(path, superblock.0.uuid);
    Ok(())
}
