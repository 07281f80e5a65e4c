//! The pool: one file (or other medium) that holds named trees.

pub(crate) mod access;
pub(crate) mod blocks;
mod catalog;
mod compacted;
mod epochs;
pub(crate) mod format;
mod info;
pub(crate) mod instants;
mod journal;
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

pub use compacted::Compacted;
pub use info::{Stat, TreeInfo};
pub use instants::Snapshots;
pub(crate) use metrics::{Measured, together};
pub use metrics::{Metrics, TreeMetrics};
pub use options::Options;
pub(crate) use options::zero_from;
pub use progress::Progress;
pub use report::{Report, Verdict};

use crate::error::{Error, ErrorKind, Fault, Result};
use crate::medium::{Domain, Mapped, Medium, Step, View};
use crate::sync::{Mutex, MutexGuard, RwLock};
use catalog::{Catalog, Found, Slot, Slots};
use format::{Geometry, Superblock};
use instants::Instants;
use lists::Lists;
use naming::{NameChange, NoVisit};
use patience::Patience;
use progress::Watch;
use roots::{Root, Signature};
use segments::{SegmentKind, Segments};
use std::any::Any;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Everything about an open pool.
pub(crate) struct PoolState<M: Medium> {
    // Declared before `medium`, because dropping it writes to the medium.
    superblock: Mutex<(Superblock, usize)>,
    pub(crate) segments: Segments,
    lists: Lists,
    /// The open snapshots.
    pub(crate) instants: Instants,
    /// The open trees by root slot. Roots are created and deleted under its lock.
    catalog: Catalog<OpenTree>,
    was_clean: bool,
    /// Held by a thread that [visits](PoolState::visit_open) the open trees.
    visits: Mutex<()>,
    /// Locked for reading by a thread that walks trees without a handle, and for writing by a thread that cuts off what
    /// nobody has a handle to. Before all other locks.
    pub(crate) walked: RwLock<()>,
    /// Whether the pool was declared in use and must be closed. If not, it is only read.
    in_use: AtomicBool,
    /// Whether, in a pool that is only read, it is known that all of it can be read.
    is_readable: AtomicBool,
    /// Whether an ordinary file is synced when the pool is opened and closed.
    sync: bool,
    /// The callback that reports the progress of opening a tree.
    pub(crate) watch: Option<Watch>,
    pub(crate) medium: M,
}

/// An open tree of any type.
pub(crate) type OpenTree = dyn AnyTree + Send + Sync;

/// What a pool needs of its open trees.
pub(crate) trait AnyTree: Any {
    /// Forgets what none of these snapshots sees, which are the ones that are open, in ascending order.
    fn thaw(&self, open: &[u64]);

    /// Whether a snapshot of this instant, or of a later one, needs the tree to stay open.
    fn is_in_snapshots_since(&self, oldest: u64) -> bool;

    /// Notes the name that the tree has now.
    fn rename(&self, name: String);

    /// Gives back the space of records that readers can no longer know. Returns whether readers, or transactions that
    /// will end, keep the space of other records.
    fn collect(&self) -> bool;

    /// Numbers about the tree.
    fn measure(&self) -> Measured;

    /// Moves what lies in sparse segments.
    fn compact(&self) -> Result<Compacted, Fault>;
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
        self.state.acknowledged(self.state.drop_tree(name))
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
        self.state.acknowledged(self.state.shrink())
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
        closed.map_err(|fault| fault.of(name))
    }
}

impl<M: Medium> PoolState<M> {
    /// Reads the header of a pool. Nothing is stored before [`take`](Self::take).
    pub(crate) fn open(
        medium: M,
        (superblock, twin): (Superblock, usize),
        sync: bool,
        watch: Option<Watch>,
        snapshot_memory: u64,
    ) -> Result<Self, Fault> {
        let geometry = superblock.geometry;
        let was_clean = superblock.is_clean();
        let segments = Segments::open(&medium, geometry)?;
        Ok(Self {
            superblock: Mutex::new((superblock, twin)),
            segments,
            lists: Lists::open(&medium),
            instants: Instants::new(snapshot_memory),
            catalog: Catalog::new(),
            was_clean,
            visits: Mutex::new(()),
            walked: RwLock::new(()),
            in_use: AtomicBool::new(false),
            is_readable: AtomicBool::new(false),
            sync,
            watch,
            medium,
        })
    }

    /// Checks the segment table and the roots, before anything is changed.
    pub(crate) fn check_header(m: &M, geometry: Geometry) -> Result<(), Fault> {
        let segments = Segments::open(m, geometry)?;
        if !lists::live(m, &segments)?.is_empty() {
            // A list may change roots.
            return Ok(());
        }
        Root::all(&segments).try_for_each(|root| root.is_live(m).map(drop))?;
        Ok(())
    }

    /// Takes possession of a pool by marking it as in use.
    pub(crate) fn take(&mut self) -> Result<(), Fault> {
        let superblock = self.superblock.lock().0;
        // Read before anything changes, because they may be damaged. So may be roots, unless a list changes them.
        let live_lists = lists::live(&self.medium, &self.segments)?;
        match live_lists.first() {
            None => drop(self.live_roots()?),
            Some(list) if self.was_clean => {
                return Err(list.is_left("L3: a live redo list in a pool that was closed").into());
            }
            Some(_) => {}
        }
        self.reserve_again(&superblock)?;
        if !self.was_clean {
            self.take_over();
        }
        let boot = if self.loses_the_machine() { self.medium.facts().boot } else { 0 };
        self.update(|superblock| superblock.opened(boot));
        if !superblock.is_marked(boot) && self.sync {
            // This comes before anything else changes. Crash of the machine, until here: the pool is as it was, or was
            // in use and did not change. Crash of the machine, after it: the pool itself says that it may have lost
            // something.
            if let Err(fault) = self.synced() {
                if self.was_clean {
                    // All of it was synced before, and nothing has changed.
                    self.update(|changed| *changed = superblock);
                }
                return Err(fault);
            }
            self.update(Superblock::mark);
        }
        // They are not live any more, durably, before anything changes that they would set back.
        live_lists.iter().for_each(|list| list.replay(&self.medium));
        lists::forget(&self.medium);
        let live: Vec<u16> = self.live_roots()?.into_iter().map(|root| root.slot).collect();
        if !self.was_clean {
            self.segments.punch_free(&self.medium);
        }
        // From here on, an orderly close may record that all is well.
        *self.in_use.get_mut() = true;
        // These segments are left by a crash during the creation or the dropping of a tree.
        let dead = |entry: &segments::SegmentEntry| {
            entry.kind != SegmentKind::Roots && live.binary_search(&entry.tree).is_err()
        };
        let ownerless: Vec<u32> = self.segments.used().filter(|(_, e)| dead(e)).map(|(segment, _)| segment).collect();
        self.segments.release(&self.medium, ownerless, dead);
        Ok(())
    }

    /// Makes durable everything that a killed process stored. What it did not flush, or not fence, is in caches only.
    /// This process sees it, and what it does next depends on it.
    fn take_over(&self) {
        let m = &self.medium;
        if m.facts().leaves_unflushed {
            let flushed = self.segments.each_part(|at, len| {
                m.flush(at, len, Step::TakeOver);
                Ok(())
            });
            flushed.expect("flushing does not fail");
            // The twin that is read may be one that the process has stored, and that is not durable: it must be, before
            // the other one is written (S1). Crash: as after the kill.
            m.fence(Step::TakeOver);
        }
    }

    /// Whether a crash of the machine loses what was not synced.
    fn loses_the_machine(&self) -> bool {
        self.medium.facts().domain == Domain::Process
    }

    /// See [`Pool::sync`].
    fn sync(&self) -> Result<(), Fault> {
        self.owned()?;
        match self.medium.facts().domain {
            Domain::Journal => self.medium.sync().map_err(journal_failed),
            _ => self.synced(),
        }
    }

    /// Syncs the medium. If that fails, the next process must know, because the system does not say it again: what was
    /// not written is in the cache, as if it were, until the system needs the memory.
    fn synced(&self) -> Result<(), Fault> {
        self.medium.sync().map_err(|error| {
            if self.loses_the_machine() {
                self.update(Superblock::fail);
                // This fails again; but as far as the disk works, it has what the superblock says.
                let _ = self.medium.sync();
            }
            Fault::io("sync")(error)
        })
    }

    /// Called after the medium has refused to change the space of the file. It may have been told of a failure of the
    /// disk on the way: then a sync fails, too, and the next process must know.
    #[cold]
    fn looks_at_failure(&self) {
        if self.loses_the_machine() {
            let _ = self.synced();
        }
    }

    /// Forgets everything that orderly closes recorded about the pool and its trees. After a crash of the machine, the
    /// bytes that are there may not be those that they described.
    ///
    /// `clear` zeroes everything from an offset on, which is all that the table calls never used (T2).
    pub(crate) fn distrust(&mut self, clear: impl FnOnce(&M, u64) -> std::io::Result<()>) -> Result<(), Fault> {
        let roots = self.live_roots()?;
        let superblock = self.superblock.lock().0;
        self.reserve_again(&superblock)?;
        for root in roots {
            root.set_closed(&self.medium, None);
        }
        self.medium.fence(Step::DistrustCloses);
        lists::forget(&self.medium);
        // Crash: the next open is refused as this one was; the superblock still names the boot that ended.
        clear(&self.medium, self.segments.high_water()).map_err(Fault::io("clear unused space"))?;
        self.superblock.get_mut().0.distrust();
        self.was_clean = false;
        Ok(())
    }

    /// Closes the pool in order, at most once. Trees hold the pool, so all of them are closed by now.
    fn close(&mut self) -> Result<(), Fault> {
        if !std::mem::take(self.in_use.get_mut()) {
            return Ok(());
        }
        self.owned()?;
        let synced = self.sync && self.loses_the_machine();
        if synced {
            // Crash of the machine, until here: the pool names the boot that ended. After it, the pool is whole and
            // need not.
            self.synced()?;
        }
        let space = self.medium.space();
        self.update(|superblock| superblock.closed(space, synced));
        if synced {
            // If it fails, the superblock on the disk says that the pool is in use; all else is there.
            self.medium.sync().map_err(Fault::io("sync"))?;
        }
        self.medium.settle().map_err(Fault::io("settle the journal"))
    }

    /// The tree with this number, if it is open.
    pub(crate) fn open_tree(&self, slot: u16) -> Option<Arc<OpenTree>> {
        // Found under the lock, and returned: dropping the last handle of a tree locks the catalogue.
        let slots = self.catalog.lock();
        match catalog::find(&slots, slot) {
            Found::Open(tree) => Some(tree),
            Found::Free | Found::Unsettled => None,
        }
    }

    /// See [`Pool::shrink`].
    fn shrink(&self) -> Result<u64, Fault> {
        self.writable()?;
        self.patiently(|no_visit| self.try_shrink(no_visit))
    }

    fn try_shrink(&self, no_visit: &mut Option<NoVisit<'_>>) -> Result<u64, Fault> {
        let _alone = self.walked.write();
        let mut slots = self.catalog.lock();
        // A tree that is just being closed, or that a thread works on, is waited for.
        while slots.states().len() > 0 {
            if slots.states().any(|slot| matches!(slot, Slot::Open(tree) if tree.strong_count() > 0)) {
                drop(slots);
                return Err(ErrorKind::StillOpen { trees: self.open_trees() }.into());
            }
            // The thread that is waited for may visit.
            *no_visit = None;
            slots = self.catalog.wait(slots);
        }
        let before = self.medium.accessible();
        self.segments.cut(&self.medium).inspect_err(|_| self.looks_at_failure()).map_err(Fault::io("cut the file"))?;
        Ok(before - self.medium.accessible())
    }

    /// Options for a new pool like this one.
    pub(crate) fn options_like(&self) -> Options {
        Options::like(self.superblock.lock().0.geometry)
    }

    fn reserve(&self, at: u64, len: u64) -> Result<(), Fault> {
        let capacity = self.superblock.lock().0.geometry.capacity;
        if len == 0 { Ok(()) } else { self.medium.reserve(at, len).map_err(Fault::space(len, capacity)) }
    }

    /// Reserves what is in use of the first `most` bytes.
    fn reserve_used(&self, most: u64) -> Result<(), Fault> {
        // A hole is sought once for all parts before it: to look for it anew from each part takes time that is
        // quadratic in the length of a file without holes.
        let mut reserved = 0..0;
        self.segments.each_part(|at, len| {
            if !reserved.contains(&at) {
                reserved = at..self.medium.reserved_to(at);
            }
            self.reserve(reserved.end, (at + len).min(most).saturating_sub(reserved.end))
        })
    }

    /// The offset of the copy of the superblock that cannot be read, if there is one.
    pub(crate) fn damaged_twin(&self) -> Option<u64> {
        // Nobody writes them meanwhile.
        let _superblock = self.superblock.lock();
        Superblock::unreadable_twin(&self.medium)
    }

    /// Makes sure, before anything is stored, that what is in use has its space: holes in the file could fault when the
    /// disk is full. What is free is not reserved.
    fn reserve_again(&self, superblock: &Superblock) -> Result<(), Fault> {
        if superblock.has_its_space(self.medium.space()) { self.reserve_ends() } else { self.reserve_used(u64::MAX) }
    }

    /// Reserves the ends of what is in use, which is reserved: a file system may want more space for what lies there,
    /// beside a hole, than it had taken.
    fn reserve_ends(&self) -> Result<(), Fault> {
        if self.medium.facts().domain == Domain::Journal {
            // Nothing is stored to the file but by calls that report errors.
            return Ok(());
        }
        self.segments.each_part(|at, len| {
            let page = len.min(4096);
            self.reserve(at, page).and_then(|()| self.reserve(at + len - page, page))
        })
    }

    fn update(&self, change: impl FnOnce(&mut Superblock)) {
        let mut guard = self.superblock.lock();
        let (superblock, twin) = &mut *guard;
        change(superblock);
        superblock.write(&self.medium, *twin);
    }

    /// Adds the name of the pool to a fault. Every result passes through here once, where it leaves the crate.
    #[inline]
    pub(crate) fn named<T>(&self, result: Result<T, Fault>) -> Result<T> {
        result.map_err(|fault| self.error(fault))
    }

    /// The error that the caller gets for a fault. If the pool belongs to another process, which changes it, damage
    /// that was found says nothing about the pool.
    #[cold]
    pub(crate) fn error(&self, fault: Fault) -> Error {
        let fault = match self.owned() {
            Err(forked) if matches!(fault.kind(), ErrorKind::Corrupt { .. }) => forked,
            _ => fault,
        };
        fault.of(self.medium.facts().name)
    }

    /// Whether this process opened the pool. Every change checks this before it stores anything.
    #[inline]
    pub(crate) fn owned(&self) -> Result<(), Fault> {
        if self.medium.forked() { Err(ErrorKind::Forked.into()) } else { Ok(()) }
    }

    /// Waits until a change may begin. The caller holds no lock for which others wait.
    #[inline]
    pub(crate) fn admit(&self) -> Result<(), Fault> {
        if self.medium.refuses() {
            return Err(self.refusal());
        }
        self.medium.admit().map_err(journal_failed)
    }

    /// Why nothing may be changed.
    #[cold]
    #[inline(never)]
    fn refusal(&self) -> Fault {
        self.owned().err().unwrap_or_else(Fault::read_only)
    }

    /// Whether trees can be opened to be read, and not be changed: what is stored stays in the memory of this process.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.medium.refuses() && !self.medium.forked()
    }

    /// As [`named`](Self::named), for the result of a change, which is as durable as the pool's options want it when
    /// this returns.
    #[inline]
    pub(crate) fn acknowledged<T>(&self, result: Result<T, Fault>) -> Result<T> {
        // Also what fails may have changed something.
        match (result, self.medium.acknowledge()) {
            (Ok(value), Ok(())) => Ok(value),
            (result, acknowledged) => self.refused(result, acknowledged),
        }
    }

    #[cold]
    #[inline(never)]
    fn refused<T>(&self, result: Result<T, Fault>, acknowledged: io::Result<()>) -> Result<T> {
        self.named(result.and_then(|value| acknowledged.map(|()| value).map_err(journal_failed)))
    }

    pub(crate) fn writable(&self) -> Result<(), Fault> {
        self.admit()?;
        if self.in_use.load(Ordering::Relaxed) { Ok(()) } else { Err(Fault::read_only()) }
    }

    /// Whether trees may be opened.
    fn openable(&self) -> Result<(), Fault> {
        if !self.is_looked_at() {
            return self.writable();
        }
        let (superblock, m) = (self.superblock.lock().0, &self.medium);
        if m.facts().domain != Domain::Journal
            && let Some(refusal) = superblock.refusal(m.facts().boot)
        {
            return Err(refusal.into());
        }
        if !self.is_readable.load(Ordering::Relaxed) {
            // Nothing is reserved; but a hole in a file in memory cannot even be read if there is no room for it.
            if !superblock.has_its_space(m.space()) {
                self.reserve_used(m.accessible())?;
            }
            self.is_readable.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn roots(&self) -> impl Iterator<Item = Root> {
        Root::all(&self.segments)
    }

    /// While the result is held, no root is created or deleted.
    fn still_roots(&self) -> Option<MutexGuard<'_, Slots<OpenTree>>> {
        // In a forked child, the lock may be held by a thread that exists only in the parent.
        self.owned().is_ok().then(|| self.catalog.lock())
    }

    /// The roots that hold a tree.
    pub(crate) fn live_roots(&self) -> Result<Vec<Root>, Fault> {
        self.of_live_roots(|root| root)
    }

    /// Applies `read` to each root that holds a tree. Meanwhile, no root becomes another tree's.
    pub(crate) fn of_live_roots<T>(&self, read: impl FnMut(Root) -> T) -> Result<Vec<T>, Fault> {
        let _slots = self.still_roots();
        Ok(self.live()?.into_iter().map(read).collect())
    }

    /// The names of the trees that are open.
    fn open_trees(&self) -> Vec<String> {
        let slots = self.catalog.lock();
        let is_open = |root: &Root| matches!(slots.get(root.slot), Some(Slot::Open(tree)) if tree.strong_count() > 0);
        self.roots().filter(is_open).map(|root| root.name(&self.medium)).collect()
    }

    /// Calls `visit` with the open trees, which are open for nothing but that only as long as the lock is held. Nobody
    /// waits for another thread's work on a tree with this lock: the caller may be in the middle of such work.
    pub(super) fn visit_open<R>(&self, visit: impl FnOnce(&[Arc<OpenTree>]) -> R) -> R {
        let _visit = self.visits.lock();
        let slots = self.catalog.lock();
        let open: Vec<Arc<OpenTree>> = catalog::open(&slots).map(|(_, tree)| tree).collect();
        drop(slots);
        let result = visit(&open);
        // This may close trees.
        drop(open);
        result
    }

    /// The root of the tree with this name.
    pub(crate) fn find(&self, name: &str) -> Result<Root, Fault> {
        let found = match self.still_roots() {
            Some(mut slots) => self.named_root(&mut slots, name)?,
            None => self.live()?.into_iter().find(|root| root.name(&self.medium) == name),
        };
        found.ok_or_else(|| no_such_tree(name))
    }

    /// Deletes the tree with this name. See [`Pool::drop_tree`].
    fn drop_tree(&self, name: &str) -> Result<(), Fault> {
        roots::check_name(name)?;
        let naming = self.naming(&[NameChange::Drop(name.to_owned())])?;
        naming.dropped().iter().for_each(|root| root.delete(&self.medium));
        naming.done();
        Ok(())
    }

    // The caller of the following functions holds the catalogue's lock.

    fn live(&self) -> Result<Vec<Root>, Fault> {
        let mut live = Vec::new();
        for root in self.roots() {
            if root.is_live(&self.medium)? {
                live.push(root);
            }
        }
        Ok(live)
    }

    /// Opens the tree with this name, creates it if necessary, or returns it if it is already open. A caller only waits
    /// if another thread is opening, creating, closing or dropping the same tree.
    ///
    /// `create` makes an empty tree for a free root and returns its head; `open_tree` takes over an existing one. If
    /// that has another signature, `mismatch` makes the fault from the name, what was found and what was expected.
    pub(crate) fn tree(
        &self,
        name: &str,
        signature: Signature,
        mismatch: fn(&str, Signature, Signature) -> Fault,
        create: &dyn Fn(Root) -> Result<(Arc<OpenTree>, u64), Fault>,
        open_tree: &dyn Fn(Root) -> Result<Arc<OpenTree>, Fault>,
    ) -> Result<Arc<OpenTree>, Fault> {
        self.openable()?;
        roots::check_name(name)?;
        let mut patience = Patience::default();
        let mut slots = self.catalog.lock();
        let (root, is_new) = loop {
            match self.named_root(&mut slots, name)? {
                Some(root) => {
                    let found = root.signature(&self.medium);
                    if found != signature {
                        return Err(mismatch(name, found, signature));
                    }
                    match catalog::find(&slots, root.slot) {
                        Found::Free => break (root, false),
                        Found::Open(tree) => {
                            self.instants.keep(root.slot, &tree);
                            return Ok(tree);
                        }
                        Found::Unsettled => {}
                    }
                }
                None if self.is_looked_at() => return Err(no_such_tree(name)),
                None if slots.is_creating(name) => {}
                None => match self.free_root(&mut slots) {
                    Ok(root) => break (root, true),
                    Err(fault) => {
                        drop(slots);
                        self.wait_for_space(&mut patience, fault)?;
                        slots = self.catalog.lock();
                        continue;
                    }
                },
            }
            slots = self.catalog.wait(slots);
        };
        let claim = self.catalog.claim(&mut slots, root.slot, is_new.then_some(name));
        drop(slots);
        if is_new {
            if signature.kinds.has_own() && !self.superblock.lock().0.has_own_kinds() {
                // A build that does not know these names would take the root entry for a damaged one.
                self.update(Superblock::with_own_kinds);
            }
            if signature.foreign.is_some() && !self.superblock.lock().0.has_foreign_layouts() {
                // Nor would it know the hash of a layout's name.
                self.update(Superblock::with_foreign_layouts);
            }
            root.vacate(&self.medium);
            let (tree, head) = create(root).inspect_err(|_| self.release_tree(root.slot))?;
            claim.publish(&tree, |slots| {
                root.create(&self.medium, name, signature, head);
                slots.names.iter_mut().for_each(|names| names.add(name, root.slot));
            });
            self.instants.keep(root.slot, &tree);
            Ok(tree)
        } else {
            let tree = open_tree(root)?;
            claim.publish(&tree, |_| ());
            self.instants.keep(root.slot, &tree);
            Ok(tree)
        }
    }

    /// Notes that a tree is closed, so that it may be opened again.
    pub(crate) fn closed(&self, slot: u16) {
        self.catalog.closed(slot);
    }

    fn release_tree(&self, slot: u16) {
        self.segments.release(&self.medium, self.segments.of_tree(slot), |entry| entry.tree == slot);
    }

    /// Stores words as an extent of the given tree. Durable when it returns.
    pub(crate) fn write_extent(&self, tree: u16, words: &[u64]) -> Result<u64, Fault> {
        let bytes = words.len() as u64 * 8;
        let segment = self.segments.assign_extent(&self.medium, tree, bytes)?;
        let at = self.segments.start(segment);
        for (i, &word) in words.iter().enumerate() {
            self.medium.store(at + i as u64 * 8, word);
        }
        // An incomplete extent would be detected by the checksums, and then the leaves would be found as after a crash.
        // The flush saves the next open that work.
        self.medium.flush(at, bytes, Step::CloseRecord);
        self.medium.fence(Step::CloseRecord);
        Ok(at)
    }

    /// The words of an extent, if it belongs to the tree and is large enough.
    pub(crate) fn read_extent(
        &self,
        tree: u16,
        at: u64,
        words: u32,
    ) -> Option<impl ExactSizeIterator<Item = u64> + Clone> {
        let segment = self.segments.of(at).filter(|_| self.segments.within(at) == 0)?;
        let entry = self.segments.entry(segment)?;
        // Only segments that the table really has for it count, so space is reserved for everything that is read.
        if entry.kind != SegmentKind::Extent
            || entry.tree != tree
            || u64::from(words) * 8 > self.segments.extent_bytes(segment)
        {
            return None;
        }
        Some((0..words).map(move |i| self.medium.load(at + u64::from(i) * 8)))
    }
}

#[cold]
fn journal_failed(source: std::io::Error) -> Fault {
    ErrorKind::Journal { source }.into()
}

fn no_such_tree(name: &str) -> Fault {
    ErrorKind::NoSuchTree { tree: name.to_owned() }.into()
}

impl<M: Medium> Drop for PoolState<M> {
    fn drop(&mut self) {
        // There is nobody to report an error to. The next open will see that the pool was not closed in order.
        let _ = self.close();
    }
}
