//! The state of an open pool: its superblock, and whether it may be read and changed.

#[cfg(doc)]
use super::Pool;
use super::any_tree::OpenTree;
use super::catalog::Catalog;
use super::format::{PoolGeometry, Superblock};
use super::images::{Found, Seats};
use super::instants::Instants;
use super::lists::{self, Lists, Room};
use super::progress::Watch;
use super::roots::Root;
use super::segments::{self, SegmentKind, Segments};
use crate::error::{Error, ErrorKind, Fault, Result};
use crate::medium::vitals::VitalsOfPool;
use crate::medium::{Domain, Medium, Step};
use crate::sync::{Mutex, RwLock};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Everything about an open pool.
pub(crate) struct PoolState<M: Medium> {
    // Declared before `medium`, because dropping it writes to the medium.
    pub(super) superblock: Mutex<(Superblock, usize)>,
    pub(crate) segments: Segments,
    pub(super) lists: Lists,
    /// The open snapshots.
    pub(crate) instants: Instants,
    /// The open trees by root slot. Roots are created and deleted under its lock.
    pub(super) catalog: Catalog<OpenTree>,
    pub(super) was_clean: bool,
    /// The offset of the copy of the superblock that could not be read when the pool was opened.
    pub(super) found_damaged: Option<u64>,
    /// The trees of which images are made.
    pub(crate) seats: Arc<Seats>,
    /// What was found of the image that the last process has made.
    pub(super) found_image: parking_lot::Mutex<Found>,
    /// Held by a thread that [visits](PoolState::visit_open) the open trees.
    pub(super) visits: Mutex<()>,
    /// Locked for reading by a thread that walks trees without a handle, and for writing by a thread that cuts off what
    /// nobody has a handle to. Before all other locks.
    pub(crate) walked: RwLock<()>,
    /// Whether the pool was declared in use and must be closed. If not, it is only read.
    in_use: AtomicBool,
    /// Whether, in a pool that is only read, it is known that all of it can be read.
    is_readable: AtomicBool,
    /// Whether an ordinary file is synced when the pool is opened and closed.
    pub(super) sync: bool,
    /// The callback that reports the progress of opening a tree.
    pub(crate) watch: Option<Watch>,
    pub(crate) medium: M,
    /// Declared last: that the pool is closed is told when nothing else of it is left.
    pub(crate) vitals: VitalsOfPool,
}

impl<M: Medium> PoolState<M> {
    /// Reads the header of a pool. Nothing is stored before [`take`](Self::mark_in_use).
    pub(crate) fn open(
        medium: M,
        (superblock, twin): (Superblock, usize),
        sync: bool,
        watch: Option<Watch>,
        snapshot_memory: u64,
    ) -> Result<Self, Fault> {
        let geometry = superblock.geometry;
        let was_clean = superblock.is_clean();
        // A new pool has none yet.
        let found_damaged = if superblock.boots() == 0 { None } else { Superblock::unreadable_twin(&medium) };
        let segments = Segments::open(&medium, geometry)?;
        let vitals = VitalsOfPool(medium.vitals().unwrap_or_default());
        Ok(Self {
            superblock: Mutex::new((superblock, twin)),
            segments,
            lists: Lists::open(&medium),
            instants: Instants::new(snapshot_memory),
            catalog: Catalog::new(),
            was_clean,
            found_damaged,
            seats: Arc::default(),
            found_image: parking_lot::Mutex::default(),
            visits: Mutex::new(()),
            walked: RwLock::new(()),
            in_use: AtomicBool::new(false),
            is_readable: AtomicBool::new(false),
            sync,
            watch,
            medium,
            vitals,
        })
    }

    /// Checks the segment table and the roots, before anything is changed.
    pub(crate) fn check_header(m: &M, geometry: PoolGeometry) -> Result<(), Fault> {
        let segments = Segments::open(m, geometry)?;
        if !lists::live(m, &segments)?.is_empty() {
            // A list may change roots.
            return Ok(());
        }
        Root::all(&segments).try_for_each(|root| root.is_live(m).map(drop))?;
        Ok(())
    }

    /// Takes possession of a pool by marking it as in use.
    pub(crate) fn mark_in_use(&self) -> Result<(), Fault> {
        let _window = self.medium.window();
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
        self.begin_images();
        self.name_for_images(live_lists.iter().flat_map(lists::Live::offsets));
        // They are not live any more, durably, before anything changes that they would set back.
        live_lists.iter().for_each(|list| list.replay(&self.medium));
        lists::forget(&self.medium);
        let live: Vec<u16> = self.live_roots()?.into_iter().map(|root| root.slot).collect();
        if !self.was_clean {
            self.segments.punch_free(&self.medium);
        }
        // From here on, an orderly close may record that all is well.
        self.in_use.store(true, Ordering::Relaxed);
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
    pub(super) fn sync(&self) -> Result<(), Fault> {
        self.owned()?;
        match self.medium.facts().domain {
            Domain::Journal => self.medium.sync().map_err(journal_failed),
            _ => self.vitals.committed(|| self.synced()),
        }
    }

    /// Syncs the medium. If that fails, the next process must know, because the system does not say it again: what was
    /// not written is in the cache, as if it were, until the system needs the memory.
    fn synced(&self) -> Result<(), Fault> {
        let began = Instant::now();
        let synced = self.medium.sync();
        if self.loses_the_machine() && synced.is_ok() {
            self.vitals.synced(began.elapsed());
        }
        synced.map_err(|error| {
            if self.loses_the_machine() {
                self.vitals.failed(&error);
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
    pub(super) fn looks_at_failure(&self) {
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
        let window = self.medium.window();
        for root in roots {
            root.set_closed(&self.medium, None);
        }
        self.medium.fence(Step::DistrustCloses);
        lists::forget(&self.medium);
        drop(window);
        // Crash: the next open is refused as this one was; the superblock still names the boot that ended.
        clear(&self.medium, self.segments.high_water()).map_err(Fault::io("clear unused space"))?;
        self.superblock.get_mut().0.distrust();
        self.was_clean = false;
        Ok(())
    }

    /// Closes the pool in order, at most once. Trees hold the pool, so all of them are closed by now.
    pub(super) fn close(&mut self) -> Result<(), Fault> {
        if !std::mem::take(self.in_use.get_mut()) {
            return Ok(());
        }
        self.owned()?;
        let began = Instant::now();
        let closed = self.close_in_order();
        self.vitals.closing(began.elapsed(), closed.as_ref().err().map(|fault| fault.kind().to_string()));
        closed
    }

    fn close_in_order(&self) -> Result<(), Fault> {
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

    /// Finds room for a set of at most so many words.
    ///
    /// # Errors
    ///
    /// [`OutOfSpace`](crate::ErrorKind::OutOfSpace) if there are many, and no segments for them.
    pub(crate) fn room_for(&self, words: usize) -> Result<Room<'_, M>, Fault> {
        self.writable()?;
        if !self.lists.is_declared.load(Ordering::Acquire) {
            self.declare_lists();
        }
        Room::new(&self.medium, &self.segments, &self.lists, words)
    }

    /// Says in the superblock that there may be lists, which a build that does not know them must not ignore.
    #[cold]
    fn declare_lists(&self) {
        self.update(Superblock::with_lists);
        self.lists.is_declared.store(true, Ordering::Release);
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

    pub(super) fn update(&self, change: impl FnOnce(&mut Superblock)) {
        let _window = self.medium.window();
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
        fault.in_pool(self.medium.facts().name)
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

    /// As [`named`](Self::named), for the result of a change, which is made within a window of the medium, and is as
    /// durable as the pool's options want it when this returns.
    #[inline]
    pub(crate) fn durably<T>(&self, change: impl FnOnce() -> Result<T, Fault>) -> Result<T> {
        let window = self.medium.window_for_change();
        let result = change();
        drop(window);
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
    pub(super) fn openable(&self) -> Result<(), Fault> {
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
}

#[cold]
fn journal_failed(source: std::io::Error) -> Fault {
    ErrorKind::Journal { source }.into()
}

impl<M: Medium> Drop for PoolState<M> {
    fn drop(&mut self) {
        // There is nobody to report an error to. The next open will see that the pool was not closed in order.
        let _ = self.close();
    }
}
