//! Giving a pool a journal, and taking it away.
//!
//! A pool has a journal if its file has a marker. Until there is one, and after it is gone, the log is empty, so that the pool
//! file alone is all of the pool.

use super::{Options, Pool, PoolState};
use crate::error::{ErrorKind, Fault, Result};
use crate::medium::{self, Domain, Journal, JournalStat, Mapped, Mapping};
use crate::pool::format::Superblock;
use std::path::Path;
use std::sync::Arc;

impl Pool {
    /// Gives a pool a journal, which it has from now on, and closes it.
    ///
    /// The pool then survives a crash of the machine: see [`Options::journal`]. Its log is a file beside it, of 32 MiB at first.
    /// Builds that do not know journals refuse the pool from now on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::JournalThere`] if it has one. As [`Options::open`], which opens it first; [`ErrorKind::OutOfSpace`], and
    /// [`ErrorKind::Log`] if there is something else where the log is to be. Then nothing has changed.
    ///
    /// # Crash consistency
    ///
    /// The pool has a journal, or none. A log that is left without one is used if a journal is added again.
    pub fn add_journal(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let pool = Self::open(path)?;
        let has = pool.durability() == Domain::Journal;
        let added = if has { Err(ErrorKind::JournalThere { has }.into()) } else { add(pool, path, medium::LOG) };
        added.map_err(|fault| fault.of(path.display().to_string()))
    }

    /// Takes the journal away from a pool, and removes its log. The pool is closed, with everything in its file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::JournalThere`] if it has none. As [`Options::open`] and [`Pool::close`].
    ///
    /// # Crash consistency
    ///
    /// The pool has its journal, or none.
    pub fn remove_journal(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        remove(path).map_err(|fault| fault.of(path.display().to_string()))
    }

    /// Numbers about the [journal](Options::journal), if the pool has one. A forked child has none. Of a pool that is only read,
    /// they say what the last process left.
    ///
    /// # Complexity
    ///
    /// It may wait for a write to the disk.
    pub fn journal(&self) -> Option<JournalStat> {
        self.state.medium.journal()
    }
}

/// Gives a pool a journal, whose log has so many bytes for frames, and closes it. Nobody else has the pool.
pub(super) fn add(pool: Pool, path: &Path, log: u64) -> Result<(), Fault> {
    let mut state = Arc::into_inner(pool.state).ok_or(ErrorKind::StillOpen { trees: Vec::new() })?;
    let uuid = state.superblock.get_mut().0.uuid;
    medium::create_log(path, uuid, log)?;
    state.will_have_journal(true);
    state.close()?;
    // Cut: the superblock tells the next open that this is missing.
    state.medium.adopt_journal(path, uuid)?;
    state.medium.is_born();
    medium::sync_name(path);
    Ok(())
}

fn remove(path: &Path) -> Result<(), Fault> {
    let opened = || -> Result<PoolState<Mapped>, Fault> {
        let medium = Mapped::with_journal(path, Mapping::Write, Journal::OnRequest)?;
        let superblock = Superblock::read(&medium)?;
        superblock.0.check(&medium, false)?;
        if !superblock.0.has_journal() {
            return Err(ErrorKind::JournalThere { has: false }.into());
        }
        let mut state = Options::default().state(medium, superblock)?;
        state.take()?;
        Ok(state)
    };
    let mut state = opened()?;
    let uuid = state.superblock.get_mut().0.uuid;
    state.close()?;
    // Cut, from here on: the superblock still says that there is a journal, so the next open makes the marker again.
    state.medium.drop_journal()?;
    drop(state);
    let mut state = opened()?;
    state.will_have_journal(false);
    state.close()?;
    medium::remove_log(path, uuid);
    Ok(())
}
