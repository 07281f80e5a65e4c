//! The pool: one file (or other medium) that holds named trees.

pub(crate) mod access;
mod any_tree;
pub(crate) mod blocks;
mod catalog;
mod compacted;
mod epochs;
mod extents;
pub(crate) mod format;
pub(crate) mod images;
mod info;
pub(crate) mod instants;
pub(crate) mod journal;
pub(crate) mod lists;
mod metrics;
#[cfg(all(test, bristlecone_loom))]
mod models;
mod names;
pub(crate) mod naming;
#[cfg(all(test, not(bristlecone_loom)))]
mod openings;
mod options;
pub(crate) mod patience;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod records;
mod report;
pub(crate) mod roots;
pub(crate) mod segments;
mod state;
mod trees;

pub(crate) use any_tree::{AnyTree, OpenTree};
pub use compacted::Compacted;
pub use info::{Stat, TreeInfo};
pub use instants::Snapshots;
pub use metrics::{Faults, Metrics, TreeMetrics};
pub(crate) use metrics::{Measured, together};
pub use options::Options;
pub(crate) use options::zero_from;
pub use progress::Progress;
pub use report::{Report, Verdict};
pub(crate) use state::PoolState;

use crate::error::{ErrorKind, Result};
use crate::medium::{Domain, Mapped, Medium, View};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open pool.
///
/// It is a handle: cloning it is cheap, and trees keep their pool open. The pool is closed in order when the last
/// handle is dropped, or by [`close`](Self::close). The next open is then instant. If the process dies instead, no
/// acknowledged change is lost, but the next open walks the trees.
///
/// A child process that was created by `fork` does not own the pool that its parent opened. In the child, changes are
/// refused with [`ErrorKind::Forked`], and dropping the handles, or exiting, neither closes nor unlocks anything. Reads
/// in the child mix what was there at the fork with what the parent has changed since. Answers may be wrong, and a read
/// may wait forever for a lock that another thread held at the fork, but behaviour is never undefined. Snapshots are
/// refused. So is a leaf that nobody has read between the open and the fork, because the first look may have to repair
/// it: iterators of maps return [`ErrorKind::Forked`]; other reads find nothing there, and [`fault`](crate::Map::fault)
/// returns it. If the parent [shrinks](Self::shrink) the pool, or another process does, a signal may end a child that
/// reads what was cut off. If the parent dies, the pool stays locked as long as such a child keeps its handles. So fork
/// before opening, or exec.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("orders.pool");
/// use bristlecone::{PTree, Pool};
///
/// let pool = Pool::options().capacity(64 << 20).open(&path)?; // creates or opens
/// let orders: PTree = pool.tree("orders")?;
/// orders.insert(42, 7)?;
/// assert_eq!(orders.get(42), Some(7));
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct Pool<M: Medium = Mapped> {
    pub(crate) state: Arc<PoolState<M>>,
}

impl<M: Medium> Clone for Pool<M> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

impl<M: Medium> fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("name", &self.state.medium.facts().name).finish_non_exhaustive()
    }
}

impl Pool {
    /// The options for creating or opening a pool.
    pub fn options() -> Options {
        Options::default()
    }

    /// Opens an existing pool for reading and writing.
    ///
    /// # Errors
    ///
    /// As [`Options::open`]; [`ErrorKind::NotFound`] if there is no such file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().create(false).open(path)
    }
}

impl<M: Medium> Pool<M> {
    /// The durability domain, which says which crashes changes survive.
    pub fn durability(&self) -> Domain {
        self.state.medium.facts().domain
    }

    /// The medium, to look at: facts, counters and words.
    pub fn medium(&self) -> View<'_, M> {
        View::from(&self.state.medium)
    }

    /// Statistics about the pool.
    pub fn stat(&self) -> Stat {
        let superblock = self.state.superblock.lock().0;
        Stat {
            name: self.state.medium.facts().name.to_owned(),
            uuid: superblock.uuid,
            format: format::VERSION,
            capacity: superblock.geometry.capacity,
            segment: superblock.geometry.segment,
            used: self.state.segments.in_use(),
            available: self.state.segments.available(),
            boots: superblock.boots(),
            was_clean: self.state.was_clean && self.state.medium.facts().was_settled,
            power_loss: superblock.outlived(self.state.medium.facts().boot),
            damaged_twin: self.state.found_damaged,
            durability: self.durability(),
        }
    }

    /// Numbers about the [snapshots](crate::Snapshot) of the pool. A forked child has none.
    pub fn snapshots(&self) -> Snapshots {
        self.state.snapshots()
    }

    /// Deletes a tree and gives its space back to the pool.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoSuchTree`]; [`ErrorKind::StillOpen`] while a handle to the tree is alive;
    /// [`ErrorKind::TreeName`]; [`ErrorKind::ReadOnly`]; [`ErrorKind::Forked`]; [`ErrorKind::Corrupt`].
    /// [`ErrorKind::Journal`]: the change may have been made.
    ///
    /// # Complexity
    ///
    /// One line flushed and one fence, after which the tree is gone. Then the lines of the segment table that name its
    /// segments (eight entries to a line), and another fence.
    ///
    /// # Crash consistency
    ///
    /// The tree is there whole, or is gone.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        self.state.durably(|| self.state.drop_tree(name))
    }

    /// Cuts off the free segments at the end of the pool's file. Returns by how many bytes the file became shorter.
    ///
    /// Free segments take no space even where they are, in file systems that have holes; but the file is as long as the
    /// last segment that was ever used wants it. What is in use at the end of the file stays there, also if there is
    /// room before it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StillOpen`] if a tree is open: it must not be read meanwhile. [`ErrorKind::Io`] if the system does
    /// not cut the file; on systems other than Linux, and for media of a fixed length, that is always so.
    /// [`ErrorKind::ReadOnly`]; [`ErrorKind::Forked`]; [`ErrorKind::Journal`].
    ///
    /// # Complexity
    ///
    /// The file is cut and synced. Then the lines of the segment table that name what was cut off, and a fence for
    /// each.
    ///
    /// # Crash consistency
    ///
    /// Nothing that is in use is touched. The file has the old length or the new one.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.pool");
    /// use bristlecone::Pool;
    ///
    /// let pool = Pool::options().capacity(64 << 20).open(&path)?;
    /// let tree = pool.tree("t")?;
    /// tree.bulk_load((0..1_000_000).map(|key| (key, key)))?;
    /// drop(tree);
    /// pool.drop_tree("t")?;
    /// if cfg!(target_os = "linux") {
    ///     assert!(pool.shrink()? > 16 << 20);
    /// }
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn shrink(&self) -> Result<u64> {
        self.state.durably(|| self.state.shrink())
    }

    /// Makes everything so far survive a crash of the machine, as far as the pool's place can.
    ///
    /// With a [journal](Options::journal), every change that was made, or seen, by this thread before the call survives
    /// when it returns.
    ///
    /// On an ordinary file without a journal, the file is written to the disk, and that is all. The pool is still
    /// marked as in use, so it is refused with [`ErrorKind::PowerLoss`] if the machine goes down before it is closed.
    /// If nothing is changed between the call and the crash, [`open_after_power_loss`](Options::open_after_power_loss)
    /// finds everything. Else each page of the file is as it was at the call, or at any time since then: changes may be
    /// missing, and what is there may not fit together.
    ///
    /// On persistent memory, each change survives the machine when it returns, and this adds nothing. In memory (tmpfs,
    /// or a [copy](crate::medium::Mapping::Copy)) nothing survives the machine, and this changes nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Journal`], with a journal, if something could not be written: then it is not known what of the
    /// changes since the last sync is on the disk, and no further change is accepted. [`ErrorKind::Io`] without a
    /// journal: then every further sync of the open pool fails, and so does closing it, and the next open is refused
    /// with [`ErrorKind::DiskFailed`]. [`ErrorKind::Forked`].
    ///
    /// # Complexity
    ///
    /// With a journal, what was flushed since the last sync is written to the log, and one `fdatasync`, which threads
    /// that call at the same time share. If there is nothing to write, nothing. Without a journal, one `fdatasync` of
    /// the pool's file.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.pool");
    /// use bristlecone::{Journal, Pool};
    ///
    /// let pool = Pool::options().capacity(64 << 20).journal(Journal::OnRequest).open(&path)?;
    /// let orders = pool.tree("orders")?;
    /// orders.insert(1, 10)?; // survives the process
    /// orders.insert(2, 20)?;
    /// pool.sync()?; // both survive a loss of power
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.state.named(self.state.sync())
    }

    /// Closes the pool in order, so that the next open is instant.
    ///
    /// Dropping the last handle does the same, but cannot report an error. On an ordinary file, this waits until
    /// everything is on the disk ([`Options::sync`]). Trees are handles to their pool: drop them first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the system cannot write to the disk, or if the [journal](ErrorKind::Journal) has failed
    /// before; the pool is left as if the process had been killed. If a sync of an ordinary file without a journal
    /// failed, the next open is refused with [`ErrorKind::DiskFailed`]. [`ErrorKind::StillOpen`] if trees or other
    /// handles are alive; the pool stays open through them, and dropping the last one closes it. [`ErrorKind::Forked`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.pool");
    /// use bristlecone::{PTree, Pool};
    ///
    /// struct Store {
    ///     pool: Pool,
    ///     orders: PTree,
    /// }
    ///
    /// impl Store {
    ///     fn close(self) -> bristlecone::Result<()> {
    ///         // Not `..`: what is left in `self` lives until the end of this function.
    ///         let Store { pool, orders } = self;
    ///         drop(orders);
    ///         pool.close()
    ///     }
    /// }
    /// # let pool = Pool::options().capacity(16 << 20).open(&path)?;
    /// # Store { orders: pool.tree("orders")?, pool }.close()?;
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.state.named(self.state.owned())?;
        let (name, trees) = (self.state.medium.facts().name.to_owned(), self.state.open_trees());
        let closed = match Arc::into_inner(self.state) {
            Some(mut state) => state.close(),
            None => Err(ErrorKind::StillOpen { trees }.into()),
        };
        closed.map_err(|fault| fault.in_pool(name))
    }
}
