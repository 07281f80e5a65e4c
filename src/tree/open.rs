//! Opening a tree: from its close record, or by walking its leaves.

use super::describe::mismatch;
use super::directory::Directory;
use super::finger::Fingers;
use super::handle::Handles;
use super::restructuring::Restructuring;
use super::{TreeNode, TreeState, checks};
use crate::chain::Chain;
use crate::entry::kind::{Kinds, is_record};
use crate::error::{ErrorKind, Fault};
use crate::medium::event::EventKind;
use crate::medium::{Medium, Step};
use crate::node::{IndexKind, Keys};
use crate::papers::registry::foreign;
use crate::pool::records::{Records, release_extents};
use crate::pool::roots::{Root, Signature};
use crate::pool::{PoolState, segments};
use crate::sync::{AtomicU64, Mutex, Ordering};
use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Opens or creates the tree with this name. `kinds` are what its keys and its values encode.
    pub(crate) fn open(
        pool: &Arc<PoolState<M>>,
        name: &str,
        index: IndexKind,
        kinds: impl Into<Kinds>,
    ) -> Result<Arc<Self>, Fault> {
        Self::open_or(pool, name, index, kinds.into(), |state| {
            state.born = pool.instants.last();
            state.lay_out()
        })
    }

    /// Opens the tree with this name, which must be there. `kinds` are what its keys and its values encode.
    pub(crate) fn open_existing(
        pool: &Arc<PoolState<M>>,
        name: &str,
        index: IndexKind,
        kinds: impl Into<Kinds>,
    ) -> Result<Arc<Self>, Fault> {
        Self::open_or(pool, name, index, kinds.into(), |_| Err(ErrorKind::NoSuchTree { tree: name.to_owned() }.into()))
    }

    /// Opens a tree. If it is not there, `lay_out` writes its empty chain, and returns the head.
    fn open_or(
        pool: &Arc<PoolState<M>>,
        name: &str,
        index: IndexKind,
        kinds: Kinds,
        lay_out: impl Fn(&mut Self) -> Result<u64, Fault>,
    ) -> Result<Arc<Self>, Fault> {
        if N::BYTES > pool.segments.size() {
            let what = "a node must fit into a segment of the pool; the segment size must be at least the node's";
            return Err(ErrorKind::InvalidOption { what, given: pool.segments.size() }.into());
        }
        checks::name::<N, M>();
        let foreign = foreign::<N>().map_err(|own| ErrorKind::LayoutTag { layout: N::NAME, tag: N::LAYOUT, own })?;
        let signature = Signature { layout: N::LAYOUT, foreign, slots: N::SLOTS as u32, index: index as u16, kinds };
        let records = is_record(kinds.values) || N::Keys::HAS_RECORDS;
        let of = |root| Self::unopened(Arc::clone(pool), name, root, index, records);
        let create = |root| {
            let mut state = of(root)?;
            let head = lay_out(&mut state)?;
            // Keep the state that laid it out: it knows which blocks hold zeros.
            Ok((Arc::new(state) as _, head))
        };
        let recover = |root| {
            let state = of(root)?;
            state.recover()?;
            Ok(Arc::new(state) as _)
        };
        let open = pool.tree(name, signature, mismatch, &create, &recover)?;
        // The signatures are equal, so the type is the same.
        let any: Arc<dyn Any + Send + Sync> = open;
        any.downcast::<Self>().map_err(|_| {
            let (found, expected) = ("a tree open with other parameters", std::any::type_name::<Self>());
            ErrorKind::LayoutMismatch { tree: name.to_owned(), found: found.to_owned(), expected: expected.to_owned() }
                .into()
        })
    }

    fn unopened(
        pool: Arc<PoolState<M>>,
        name: &str,
        root: Root,
        index: IndexKind,
        records: bool,
    ) -> Result<Self, Fault> {
        let directory = N::directory(&pool, root, index)?;
        let records = records.then(|| Records::new(&pool.segments, root.slot));
        Ok(Self {
            name: Mutex::new(name.to_owned()),
            root,
            leaves: Chain::new(Arc::clone(&pool), root.slot, segments::SegmentKind::Leaf, records)?,
            directory,
            born: 0,
            head: AtomicU64::new(0),
            image_at: AtomicU64::new(0),
            spare_records: AtomicU64::new(0),
            handles: Handles::default(),
            fingers: Fingers::new(),
            restructuring: Restructuring::new(),
            compacting: Mutex::new(()),
            fault: OnceLock::new(),
            pool,
        })
    }

    fn recover(&self) -> Result<(), Fault> {
        let m = self.medium();
        let head = self.leaves.accept(self.root.head(m), self.root.head_at())?;
        match self.root.closed(m) {
            Some(closed) => {
                // Where nothing changes, the record stays right: the tree may be opened from it again.
                let stays = self.pool.is_looked_at();
                if !stays {
                    self.root.set_closed(m, None);
                }
                if !self.restore(closed) {
                    if stays {
                        self.root.set_closed(m, None);
                    }
                    // With this fence, the tree is open: it may differ from its record from here on (R2). The walk
                    // releases the extent as one that nothing points to. A damaged record may name another extent.
                    m.fence(Step::RootOpen);
                    self.walk(head)?;
                }
            }
            None => {
                let began = Instant::now();
                if self.restore_image(head) {
                    self.is_recovered(began, true);
                } else {
                    self.walk(head)?;
                }
            }
        }
        // This is the last step: only a tree that was opened is closed in order.
        self.head.store(head, Ordering::Release);
        Ok(())
    }

    /// Finds every leaf and every block in use. An interrupted change in a leaf is finished when the leaf is first
    /// touched, but that of references in two leaves of byte strings is finished here (B1).
    ///
    /// Crash: every repair is idempotent and leaves a state that the next walk understands.
    fn walk(&self, head: u64) -> Result<(), Fault> {
        let (m, began) = (self.medium(), Instant::now());
        let leaves = self.find_leaves(head)?;
        for blocks in self.leaves.blocks() {
            blocks.recover_except(&self.pool.segments, leaves.all());
        }
        self.leaves.count.forget();
        if self.leaves.records.is_some() {
            N::recover_records(self, &leaves)?;
        } else {
            // Release what a crash during a close left.
            release_extents(m, &self.pool.segments, self.root.slot, |_| false);
        }
        if leaves.listed.len() == 1 {
            // A new tree, or one as small, may as well be counted now.
            leaves.all().try_for_each(|at| self.leaves.view(at).map(drop))?;
            self.leaves.count.complete();
        }
        match self.directory.learn(&leaves.listed) {
            // The index lags.
            Err(fault) if fault.is_out_of_space() => {}
            other => other?,
        }
        // Only now does no durable word name a block that is free.
        self.release_unused();
        self.is_recovered(began, false);
        Ok(())
    }

    /// Tells that the tree was found again.
    fn is_recovered(&self, began: Instant, by_image: bool) {
        let (tree, leaves) = (self.name.lock().clone(), self.leaves.in_use());
        self.pool.vitals.tell(EventKind::TreeRecovered { tree, leaves, took: began.elapsed(), by_image });
    }

    /// Finds which records are in use, in a tree that was opened by an image. Nobody changes the tree meanwhile.
    pub(super) fn find_records(&self) -> Result<(), Fault> {
        N::recover_records(self, &self.find_leaves(self.head())?)?;
        self.spare_records.store(0, Ordering::Relaxed);
        Ok(())
    }
}
