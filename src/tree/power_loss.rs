//! Opening a pool that was in use when the machine went down: everything is checked first.
//!
//! The system writes the pages of an ordinary file to the disk whenever it likes. So each page may be as it was at any
//! time since the last sync. An open that trusts none of it does the following:
//!
//! - it checks every invariant of the pool as it lies there, before anything is stored;
//! - it forgets what an orderly close recorded (the free blocks and the index of a tree, the space that is there),
//!   because that may have described other pages. The trees are walked, as after any crash;
//! - it clears segments that the table calls never used (T2), because they may have been used.

use crate::error::{ErrorKind, Fault, Result};
use crate::medium::{Domain, Dram, Mapped, Mapping, Medium};
use crate::pool::Report;
use crate::pool::format::Superblock;
use crate::pool::{Options, Pool, zero_from};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

impl Options {
    /// Opens a pool that [`open`](Self::open) refuses with [`ErrorKind::PowerLoss`] or [`ErrorKind::DiskFailed`], if
    /// everything in it is whole.
    ///
    /// After a failure of the disk, what the system shows of the file is copied to a new one first, which gets the name
    /// of the old one once it is on the disk, and its owner and permissions. Other names of the old file (hard links)
    /// keep that.
    ///
    /// A report without violations means that the trees can be used, not that nothing is missing. Changes that the
    /// machine had not written to the disk are lost, whether acknowledged or not, and for each page by itself. To find
    /// out what is missing, compare with another source, or fall back on a backup. The pool's capacity stays as it is.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). Also [`ErrorKind::ReadOnly`] if the options ask for [`read_only`](Self::read_only),
    /// with which a pool can be looked at in any state. In the following cases, nothing was stored: the first broken
    /// invariant, as [`ErrorKind::Corrupt`] (open the pool with [`read_only`](Self::read_only) for the
    /// [whole report](Pool::check)); [`ErrorKind::Unchecked`] if there is a tree that this build cannot check.
    ///
    /// # Complexity
    ///
    /// Reads all leaves and all records.
    ///
    /// # Crash consistency
    ///
    /// Until this returns, the pool remains one that is refused.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.pool");
    /// # bristlecone::Pool::options().capacity(16 << 20).open(&path)?.close()?;
    /// use bristlecone::{Error, ErrorKind, Pool};
    ///
    /// let pool = match Pool::open(&path) {
    ///     Err(Error { kind: ErrorKind::PowerLoss, .. }) => {
    ///         let (pool, report) = Pool::options().open_after_power_loss(&path)?;
    ///         eprintln!("{} entries are left", report.entries);
    ///         pool
    ///     }
    ///     other => other?,
    /// };
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open_after_power_loss(&self, path: impl AsRef<Path>) -> Result<(Pool, Report)> {
        let path = path.as_ref();
        let open = || {
            if self.read_only {
                return Err(Fault::read_only());
            }
            // Otherwise a later sync would succeed although the disk lacks the data.
            Mapped::made_anew_if(path, |head| {
                Superblock::read(&Dram::from_bytes(head)).is_ok_and(|(superblock, _)| superblock.has_failed())
            })?;
            let mut medium = self.taken(Mapped::existing_with(path, Mapping::Write, self.reach(path), self.wanted)?);
            self.choose_journal(&mut medium)?;
            self.checked(medium, |medium, unused| {
                // With a journal, nothing is there that was not before the crash, and the log may still fill a hole.
                if medium.facts().domain == Domain::Journal {
                    return Ok(());
                }
                if !medium.punch_from(unused)? {
                    zero_from(medium, unused);
                }
                Ok(())
            })
        };
        open().map_err(|fault| fault.of_file(path))
    }

    /// Opens the pool that a medium holds after a loss of power, if everything in it is whole. See
    /// [`open_after_power_loss`](Self::open_after_power_loss).
    ///
    /// # Errors
    ///
    /// As [`open_after_power_loss`](Self::open_after_power_loss), except for what concerns files.
    pub fn open_on_after_power_loss<M: Medium>(&self, medium: M) -> Result<(Pool<M>, Report)> {
        let name = medium.facts().name.to_owned();
        let clear = |medium: &M, unused| {
            zero_from(medium, unused);
            Ok(())
        };
        self.checked(medium, clear).map_err(|fault| fault.in_pool(name))
    }

    fn checked<M: Medium>(
        &self,
        medium: M,
        clear: impl FnOnce(&M, u64) -> std::io::Result<()>,
    ) -> Result<(Pool<M>, Report), Fault> {
        if self.read_only || medium.facts().read_only {
            return Err(Fault::read_only());
        }
        let began = Instant::now();
        let (superblock, twin) = Superblock::read(&medium)?;
        superblock.check(&medium, false)?;
        let pool = Pool { state: Arc::new(self.state(medium, (superblock, twin))?) };
        let report = pool.check_all()?;
        if let Some(tree) = report.unchecked.first() {
            let (tree, layout) = (tree.name.clone(), tree.layout.clone());
            return Err(ErrorKind::Unchecked { tree, layout }.into());
        }
        if let Some(&broken) = report.violations.first() {
            return Err(broken.into());
        }
        let mut state = Arc::into_inner(pool.state).expect("nobody else has a handle");
        state.distrust(clear)?;
        state.mark_in_use()?;
        Ok((self.watched(Pool { state: Arc::new(state) }, began), report))
    }
}
