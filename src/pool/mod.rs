//! The pool: one file (or other medium) that holds named trees.

pub(crate) mod blocks;
mod catalog;
mod epochs;
pub(crate) mod format;
mod info;
#[cfg(all(test, loom))]
mod models;
mod options;
pub(crate) mod progress;
pub(crate) mod records;
pub(crate) mod roots;
pub(crate) mod segments;

pub use info::{Stat, TreeInfo};
pub use options::Options;
pub(crate) use options::zero_from;
pub use progress::Progress;

use crate::codec::{key_kind_name, value_kind_name};
use crate::error::{Error, ErrorKind, Fault, Result};
use crate::medium::{Domain, Mapped, Medium, Step};
use crate::sync::{Mutex, MutexGuard};
use catalog::{Catalog, Found, Slot, Slots};
use format::Superblock;
use progress::Watch;
use records::extent;
use roots::{Root, Signature};
use segments::{SegmentKind, Segments};
use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open pool.
///
/// A handle: cloning it is cheap, and trees keep their pool open. When the last handle goes, or at
/// [`close`](Self::close), the pool is closed in order, which makes the next open instant. A process that dies instead
/// loses nothing that was acknowledged; the next open then walks the trees.
///
/// A process that came by `fork` from the one that opened the pool does not have it: changes are refused with
/// [`ErrorKind::Forked`], and dropping the handles, or exiting, neither closes nor unlocks anything. What it reads is made of
/// what was there at the fork and of what the other process has changed since: answers may be wrong, and a read may wait
/// for ever for a lock that another thread held at the fork, but nothing is undefined. As long as such a process keeps
/// its handles, the pool stays locked. So fork before opening, or exec.
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
    // Before `medium`: dropping writes to it.
    superblock: Mutex<(Superblock, usize)>,
    pub(crate) segments: Segments,
    /// The open trees by root slot. Its lock is the one under which roots are created and deleted.
    catalog: Catalog<OpenTree>,
    was_clean: bool,
    /// Whether the pool was declared in use, and is to be closed; or is only read.
    in_use: AtomicBool,
    /// Whether an ordinary file is synced when the pool is opened and closed.
    sync: bool,
    /// Wants to hear how far the opening of a tree is.
    pub(crate) watch: Option<Watch>,
    pub(crate) medium: M,
}

/// An open tree, of whatever type.
type OpenTree = dyn Any + Send + Sync;

impl Pool {
    /// The options to create or open a pool with.
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
    /// What survives which crash.
    pub fn durability(&self) -> Domain {
        self.state.medium.facts().domain
    }

    /// The medium, for its counters.
    pub fn medium(&self) -> &M {
        &self.state.medium
    }

    /// Figures about the pool.
    pub fn stat(&self) -> Stat {
        let superblock = self.state.superblock.lock().0;
        Stat {
            name: self.state.medium.facts().name.to_owned(),
            uuid: superblock.uuid,
            format: format::VERSION,
            capacity: superblock.geometry.capacity,
            segment: superblock.geometry.segment,
            available: self.state.segments.available(),
            boots: superblock.boots(),
            was_clean: self.state.was_clean,
            power_loss: superblock.outlived(self.state.medium.facts().boot),
            durability: self.durability(),
        }
    }

    /// The trees there are, in no particular order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if a root entry is damaged.
    pub fn trees(&self) -> Result<Vec<TreeInfo>> {
        let state = &*self.state;
        // As long as a root entry is read: it may be another tree's by then.
        let _slots = state.still_roots();
        let live = state.named(state.live())?;
        Ok(live.into_iter().map(|root| state.describe(root)).collect())
    }

    /// Deletes a tree and gives its space back to the pool.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoSuchTree`]; [`ErrorKind::StillOpen`] while a handle to the tree is alive; [`ErrorKind::TreeName`];
    /// [`ErrorKind::ReadOnly`]; [`ErrorKind::Forked`]; [`ErrorKind::Corrupt`].
    ///
    /// # Complexity
    ///
    /// One line flushed and one fence, after which the tree is gone; then the lines of the segment table that name its
    /// segments, eight to a line, and another fence.
    ///
    /// # Crash consistency
    ///
    /// The tree is there whole, or gone whole.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        self.state.named(self.state.drop_tree(name))
    }

    /// Closes the pool in order, so that the next open is instant.
    ///
    /// Dropping the last handle does the same, but cannot report an error. On an ordinary file it waits until everything is
    /// on the disk ([`Options::sync`]). Trees are handles to their pool: drop them first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the system cannot write to the disk: the pool is left as if the process had been killed.
    /// [`ErrorKind::StillOpen`] if trees or other handles are alive; the pool stays open through them, and the last one closes
    /// it. [`ErrorKind::Forked`].
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
    ///         let Store { pool, orders } = self; // not `..`: what is left in `self` lives until the end of this function
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
    /// Reads the header of a pool. Nothing is stored before it is [taken possession of](Self::take).
    pub(crate) fn open(
        medium: M,
        (superblock, twin): (Superblock, usize),
        sync: bool,
        watch: Option<Watch>,
    ) -> Result<Self, Fault> {
        let geometry = superblock.geometry;
        let was_clean = superblock.is_clean();
        let segments = Segments::open(&medium, geometry)?;
        Ok(Self {
            superblock: Mutex::new((superblock, twin)),
            segments,
            catalog: Catalog::new(),
            was_clean,
            in_use: AtomicBool::new(false),
            sync,
            watch,
            medium,
        })
    }

    /// Takes possession of a pool: declares it in use.
    pub(crate) fn take(&mut self) -> Result<(), Fault> {
        let live: Vec<u16> = self.live_roots()?.into_iter().map(|root| root.slot).collect();
        let superblock = self.superblock.lock().0;
        let geometry = superblock.geometry;
        // Holes where the pool is in use could fault when the disk is full.
        if !superblock.has_its_space(self.medium.space()) {
            let (table, first) = (geometry.table(), geometry.first());
            let used = (self.segments.high_water() - first) / geometry.segment;
            self.reserve(0, table + (used + 1).min(geometry.limit.into()) * 8)?;
            self.reserve(first, self.segments.high_water() - first)?;
        }
        let boot = if self.loses_the_machine() { self.medium.facts().boot } else { 0 };
        self.update(|superblock| superblock.opened(boot));
        if !superblock.is_marked(boot) && self.sync {
            // Before anything else changes. Crash of the machine, until here: the pool as it was, or one that was in use and
            // did not change; after it, one that says of itself that it may have lost something.
            self.synced()?;
            self.update(Superblock::mark);
        }
        if !self.was_clean {
            self.segments.clear_unused(&self.medium)?;
        }
        // From here on an orderly close may say that all is well.
        *self.in_use.get_mut() = true;
        // What a crash during the creation or the dropping of a tree left.
        let dead = |entry: &segments::SegmentEntry| live.binary_search(&entry.tree).is_err();
        let ownerless: Vec<u32> = self.segments.used().filter(|(_, e)| dead(e)).map(|(segment, _)| segment).collect();
        self.segments.release(&self.medium, ownerless, dead);
        Ok(())
    }

    /// Whether a crash of the machine takes away what was not synced.
    fn loses_the_machine(&self) -> bool {
        self.medium.facts().domain == Domain::Process
    }

    fn synced(&self) -> Result<(), Fault> {
        self.medium.sync().map_err(Fault::io("sync"))
    }

    /// Forgets everything that orderly closes said, of the pool and of its trees: after a crash of the machine it may have
    /// been said of other bytes than those that are there.
    ///
    /// `clear` makes zeros of everything from an offset on: of what the table calls never used (T2).
    pub(crate) fn distrust(&mut self, clear: impl FnOnce(&M, u64) -> std::io::Result<()>) -> Result<(), Fault> {
        for root in self.live_roots()? {
            root.set_closed(&self.medium, None);
        }
        self.medium.fence(Step::DistrustCloses);
        // Crash: the next open is refused as this one was; the superblock still names the boot that ended.
        clear(&self.medium, self.segments.high_water()).map_err(Fault::io("clear what is not used of"))?;
        self.superblock.get_mut().0.distrust();
        self.was_clean = false;
        Ok(())
    }

    /// Closes the pool in order, once. Trees hold the pool, so all of them are closed by now.
    fn close(&mut self) -> Result<(), Fault> {
        if !std::mem::take(self.in_use.get_mut()) {
            return Ok(());
        }
        self.owned()?;
        let synced = self.sync && self.loses_the_machine();
        if synced {
            // Crash of the machine, until here: the pool names the boot that ended. Then it is whole without that.
            self.synced()?;
        }
        let space = self.medium.space();
        self.update(|superblock| superblock.closed(space, synced));
        if synced {
            self.synced()?;
        }
        Ok(())
    }

    fn reserve(&self, at: u64, len: u64) -> Result<(), Fault> {
        let capacity = self.superblock.lock().0.geometry.capacity;
        if len == 0 { Ok(()) } else { self.medium.reserve(at, len).map_err(Fault::space(len, capacity)) }
    }

    fn update(&self, change: impl FnOnce(&mut Superblock)) {
        let mut guard = self.superblock.lock();
        let (superblock, twin) = &mut *guard;
        change(superblock);
        superblock.write(&self.medium, *twin);
    }

    /// Names the pool in what goes wrong. Every result passes here once, where it leaves the crate.
    #[inline]
    pub(crate) fn named<T>(&self, result: Result<T, Fault>) -> Result<T> {
        result.map_err(|fault| self.error(fault))
    }

    /// What a fault means to the caller. What is broken where the pool is another process's, which changes it, says nothing of
    /// the pool.
    #[cold]
    pub(crate) fn error(&self, fault: Fault) -> Error {
        let fault = match self.owned() {
            Err(forked) if matches!(fault.kind(), ErrorKind::Corrupt { .. }) => forked,
            _ => fault,
        };
        fault.of(self.medium.facts().name)
    }

    /// Whether this process opened the pool. Every change asks before it stores anything.
    #[inline]
    pub(crate) fn owned(&self) -> Result<(), Fault> {
        if self.medium.forked() { Err(ErrorKind::Forked.into()) } else { Ok(()) }
    }

    pub(crate) fn writable(&self) -> Result<(), Fault> {
        self.owned()?;
        if self.in_use.load(Ordering::Relaxed) { Ok(()) } else { Err(ErrorKind::ReadOnly.into()) }
    }

    fn roots(&self) -> impl Iterator<Item = Root> {
        let geometry = self.superblock.lock().0.geometry;
        (0..geometry.trees as u16).map(move |slot| Root::new(&geometry, slot))
    }

    /// While it is held, no root is created or deleted.
    fn still_roots(&self) -> Option<MutexGuard<'_, Slots<OpenTree>>> {
        // A child that came by `fork` may find the lock held by a thread that it has not.
        self.owned().is_ok().then(|| self.catalog.lock())
    }

    /// The roots that hold a tree.
    pub(crate) fn live_roots(&self) -> Result<Vec<Root>, Fault> {
        let _slots = self.still_roots();
        self.live()
    }

    /// The names of the trees that are open.
    fn open_trees(&self) -> Vec<String> {
        let slots = self.catalog.lock();
        let is_open = |root: &Root| matches!(slots.get(&root.slot), Some(Slot::Open(tree)) if tree.strong_count() > 0);
        self.roots().filter(is_open).map(|root| root.name(&self.medium)).collect()
    }

    /// The root of the tree of this name.
    pub(crate) fn find(&self, name: &str) -> Result<Root, Fault> {
        let _slots = self.still_roots();
        self.find_live(name)?.ok_or_else(|| no_such_tree(name))
    }

    /// Deletes the tree of this name. See [`Pool::drop_tree`].
    fn drop_tree(&self, name: &str) -> Result<(), Fault> {
        self.writable()?;
        roots::check_name(name)?;
        let mut slots = self.catalog.lock();
        let root = loop {
            match self.find_live(name)? {
                Some(root) => match slots.get(&root.slot) {
                    None => break root,
                    Some(Slot::Open(tree)) if tree.strong_count() > 0 => {
                        return Err(ErrorKind::StillOpen { trees: vec![name.to_owned()] }.into());
                    }
                    Some(_) => {}
                },
                None if catalog::is_creating(&slots, name) => {}
                None => return Err(no_such_tree(name)),
            }
            slots = self.catalog.wait(slots);
        };
        let _claim = self.catalog.claim(&mut slots, root.slot, None);
        root.delete(&self.medium);
        drop(slots);
        self.release_tree(root.slot);
        Ok(())
    }

    // For those who hold the catalogue's lock.

    fn live(&self) -> Result<Vec<Root>, Fault> {
        let mut live = Vec::new();
        for root in self.roots() {
            if root.is_live(&self.medium)? {
                live.push(root);
            }
        }
        Ok(live)
    }

    fn find_live(&self, name: &str) -> Result<Option<Root>, Fault> {
        Ok(self.live()?.into_iter().find(|root| root.name(&self.medium) == name))
    }

    /// A root for a new tree. `None`: somebody is just making one free, perhaps.
    fn free_root(&self, slots: &Slots<OpenTree>) -> Result<Option<Root>, Fault> {
        let mut limit = 0;
        let mut unsettled = false;
        for root in self.roots() {
            limit += 1;
            match (root.is_live(&self.medium)?, slots.contains_key(&root.slot)) {
                (false, false) => return Ok(Some(root)),
                (is_live, claimed) => unsettled |= claimed && !is_live,
            }
        }
        if unsettled { Ok(None) } else { Err(ErrorKind::TooManyTrees { limit }.into()) }
    }

    /// Opens the tree of this name, creating it if need be; or finds it open already. Only who wants a tree that somebody else
    /// is just opening, creating, closing or dropping waits for that.
    ///
    /// `create` makes an empty tree for a free root, and tells its head; `open_tree` takes possession of one that is there.
    pub(crate) fn tree(
        &self,
        name: &str,
        signature: Signature,
        create: &dyn Fn(Root) -> Result<(Arc<OpenTree>, u64), Fault>,
        open_tree: &dyn Fn(Root) -> Result<Arc<OpenTree>, Fault>,
    ) -> Result<Arc<OpenTree>, Fault> {
        self.writable()?;
        roots::check_name(name)?;
        let mut slots = self.catalog.lock();
        let (root, is_new) = loop {
            match self.find_live(name)? {
                Some(root) => {
                    self.check_signature(root, signature)?;
                    match catalog::find(&slots, root.slot) {
                        Found::Free => break (root, false),
                        Found::Open(tree) => return Ok(tree),
                        Found::Unsettled => {}
                    }
                }
                None if catalog::is_creating(&slots, name) => {}
                None => {
                    if let Some(root) = self.free_root(&slots)? {
                        break (root, true);
                    }
                }
            }
            slots = self.catalog.wait(slots);
        };
        let claim = self.catalog.claim(&mut slots, root.slot, is_new.then_some(name));
        drop(slots);
        if is_new {
            root.vacate(&self.medium);
            let (tree, head) = create(root).inspect_err(|_| self.release_tree(root.slot))?;
            claim.publish(&tree, || root.create(&self.medium, name, signature, head));
            Ok(tree)
        } else {
            let tree = open_tree(root)?;
            claim.publish(&tree, || ());
            Ok(tree)
        }
    }

    /// An existing tree is opened as what it is.
    fn check_signature(&self, root: Root, expected: Signature) -> Result<(), Fault> {
        let found = root.signature(&self.medium);
        let tree = || root.name(&self.medium);
        let layout = |signature: Signature| {
            let (layout, index) = crate::papers::registry::layout_names(signature.layout, signature.index);
            format!("{layout}/{} with a {index} index", signature.slots)
        };
        let kinds = |signature: Signature| {
            format!("{} -> {}", key_kind_name(signature.keys), value_kind_name(signature.values))
        };
        if (found.layout, found.slots, found.index) != (expected.layout, expected.slots, expected.index) {
            return Err(
                ErrorKind::LayoutMismatch { tree: tree(), found: layout(found), expected: layout(expected) }.into()
            );
        }
        if (found.keys, found.values) != (expected.keys, expected.values) {
            return Err(ErrorKind::KindMismatch { tree: tree(), found: kinds(found), expected: kinds(expected) }.into());
        }
        Ok(())
    }

    /// A tree is closed: it may be opened again.
    pub(crate) fn closed(&self, slot: u16) {
        self.catalog.closed(slot);
    }

    fn release_tree(&self, slot: u16) {
        let of_tree: Vec<u32> =
            self.segments.used().filter(|(_, entry)| entry.tree == slot).map(|(segment, _)| segment).collect();
        self.segments.release(&self.medium, of_tree, |entry| entry.tree == slot);
    }

    pub(crate) fn describe(&self, root: Root) -> TreeInfo {
        let signature = root.signature(&self.medium);
        let (layout, index) = crate::papers::registry::layout_names(signature.layout, signature.index);
        let segments = self.segments.used().filter(|(_, entry)| entry.tree == root.slot).count() as u64;
        TreeInfo {
            name: root.name(&self.medium),
            layout: format!("{layout}/{}", signature.slots),
            slots: signature.slots,
            index,
            keys: key_kind_name(signature.keys),
            values: value_kind_name(signature.values),
            bytes: segments * self.segments.size(),
            closed: root.closed(&self.medium).is_some(),
        }
    }

    /// Stores words as an extent of a tree's own; durable when it returns.
    pub(crate) fn write_extent(&self, tree: u16, words: &[u64]) -> Result<u64, Fault> {
        let bytes = words.len() as u64 * 8;
        let count = bytes.div_ceil(self.segments.size()).max(1) as u32;
        let (segment, _) =
            self.segments.assign(&self.medium, segments::SegmentEntry::new(SegmentKind::Extent, tree, count), count)?;
        let at = self.segments.start(segment);
        for (i, &word) in words.iter().enumerate() {
            self.medium.store(at + i as u64 * 8, word);
        }
        // What is not whole of it would be found out by the checksums, and the leaves be looked for as after a crash: this is
        // for an open that need not.
        self.medium.flush(at, bytes, Step::CloseRecord);
        self.medium.fence(Step::CloseRecord);
        Ok(at)
    }

    /// The words of an extent, if it is one of the tree's and large enough.
    pub(crate) fn read_extent(
        &self,
        tree: u16,
        at: u64,
        words: u32,
    ) -> Option<impl ExactSizeIterator<Item = u64> + Clone> {
        let segment = self.segments.of(at).filter(|_| self.segments.within(at) == 0)?;
        let entry = self.segments.entry(segment)?;
        // As many segments as the table really has for it, so space is reserved for all that is read.
        let there = || extent(&self.segments, segment).len() as u64;
        if entry.kind != SegmentKind::Extent
            || entry.tree != tree
            || u64::from(words) * 8 > there() * self.segments.size()
        {
            return None;
        }
        Some((0..words).map(move |i| self.medium.load(at + u64::from(i) * 8)))
    }
}

/// Leaves in a pool that was closed in order what a crash may when an extent is given its segments: a later entry of the segment
/// table without the first.
#[cfg(feature = "crash")]
pub(crate) fn cut_extent<M: Medium>(m: &M) -> Result<(), Fault> {
    let (mut superblock, twin) = Superblock::read(m)?;
    superblock.distrust();
    superblock.write(m, twin);
    Segments::open(m, superblock.geometry)?.cut_extent(m);
    Ok(())
}

fn no_such_tree(name: &str) -> Fault {
    ErrorKind::NoSuchTree { tree: name.to_owned() }.into()
}

impl<M: Medium> Drop for PoolState<M> {
    fn drop(&mut self) {
        // Nobody is there to be told. What was not closed in order is found to be so by the next open.
        let _ = self.close();
    }
}
