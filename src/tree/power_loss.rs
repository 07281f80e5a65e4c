//! Opening a pool after the machine went down with it: everything is checked first.
//!
//! Of an ordinary file, the system writes pages to the disk when it likes. So each page may be as it was at any time since
//! the last sync. What follows for an open that trusts none of it:
//!
//! - every invariant is checked, as the pool lies there, before anything is stored;
//! - what an orderly close said (the free blocks and the index of a tree, the space that is there) is forgotten: it may have
//!   been said of other pages. The trees are walked, as after any crash;
//! - segments that the table calls never used may have been (T2): what they hold goes.

use super::Report;
use crate::error::{ErrorKind, Fault, Result};
use crate::medium::{Mapped, Mapping, Medium};
use crate::pool::format::Superblock;
use crate::pool::{Options, Pool, zero_from};
use std::path::Path;
use std::sync::Arc;

impl Options {
    /// Opens a pool that is refused with [`ErrorKind::PowerLoss`], if everything in it is whole.
    ///
    /// A report without violations means that the trees can be used, not that nothing is missing: changes that the machine
    /// had not written to the disk are lost, be they acknowledged or not, of each page by itself. Who needs to know what is
    /// missing compares with another source, or falls back on a backup. The pool's capacity stays as it is.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`ErrorKind::ReadOnly`], too, if the options ask for [`read_only`](Self::read_only), by which a
    /// pool can be looked at in any state. Besides, and then nothing was stored: the first broken invariant, as [`ErrorKind::Corrupt`]
    /// (open it with [`read_only`](Self::read_only) for the [whole report](Pool::check)); [`ErrorKind::Unchecked`] if there is a
    /// tree that this build cannot check.
    ///
    /// # Complexity
    ///
    /// Reads all leaves, and all records.
    ///
    /// # Crash consistency
    ///
    /// Until it returns, the pool remains one that is refused.
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
                return Err(ErrorKind::ReadOnly.into());
            }
            let medium = self.taken(Mapped::existing(path, Mapping::Write)?);
            self.checked(medium, |medium, unused| {
                if !medium.punch_from(unused)? {
                    zero_from(medium, unused);
                }
                Ok(())
            })
        };
        open().map_err(|fault| fault.of(path.display().to_string()))
    }

    /// The same, of the pool that a medium holds.
    ///
    /// # Errors
    ///
    /// As [`open_after_power_loss`](Self::open_after_power_loss), for what does not concern files.
    pub fn open_on_after_power_loss<M: Medium>(&self, medium: M) -> Result<(Pool<M>, Report)> {
        let name = medium.facts().name.to_owned();
        let clear = |medium: &M, unused| {
            zero_from(medium, unused);
            Ok(())
        };
        self.checked(medium, clear).map_err(|fault| fault.of(name))
    }

    fn checked<M: Medium>(
        &self,
        medium: M,
        clear: impl FnOnce(&M, u64) -> std::io::Result<()>,
    ) -> Result<(Pool<M>, Report), Fault> {
        if self.read_only || medium.facts().read_only {
            return Err(ErrorKind::ReadOnly.into());
        }
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
        state.take()?;
        Ok((Pool { state: Arc::new(state) }, report))
    }
}
