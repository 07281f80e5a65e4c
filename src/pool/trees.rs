//! The open trees of a pool: how they are found, created, opened, and dropped.

#[cfg(doc)]
use super::Pool;
use super::catalog::{self, CatalogSlots, Slot, SlotState};
use super::format::Superblock;
use super::names::Names;
use super::patience::Patience;
use super::roots::{self, Root, Signature};
use super::segments::NO_TREE;
use super::{OpenTree, PoolState};
use crate::error::{ErrorKind, Fault, Result};
use crate::medium::Medium;
use crate::sync::MutexGuard;
use std::sync::Arc;

/// How often transactions may keep a tree open that is to be dropped.
const PATIENCE: u32 = 8;

/// While it is there, nobody [visits](PoolState::visit_open) the open trees.
pub(super) type NoVisit<'p> = MutexGuard<'p, ()>;

impl<M: Medium> PoolState<M> {
    /// The tree with this number, if it is open.
    pub(crate) fn open_tree(&self, slot: u16) -> Option<Arc<OpenTree>> {
        // Found under the lock, and returned: dropping the last handle of a tree locks the catalogue.
        let slots = self.catalog.lock();
        match catalog::find(&slots, slot) {
            SlotState::Open(tree) => Some(tree),
            SlotState::Free | SlotState::Unsettled => None,
        }
    }

    /// See [`Pool::shrink`].
    pub(super) fn shrink(&self) -> Result<u64, Fault> {
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

    pub(super) fn roots(&self) -> impl Iterator<Item = Root> {
        Root::all(&self.segments)
    }

    /// While the result is held, no root is created or deleted.
    fn still_roots(&self) -> Option<MutexGuard<'_, CatalogSlots<OpenTree>>> {
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
    pub(super) fn open_trees(&self) -> Vec<String> {
        let slots = self.catalog.lock();
        let is_open = |root: &Root| matches!(slots.get(root.slot), Some(Slot::Open(tree)) if tree.strong_count() > 0);
        self.roots().filter(is_open).map(|root| root.name(&self.medium)).collect()
    }

    /// Calls `visit` with the open trees, which are open for nothing but that only as long as the lock is held. Nobody
    /// waits for another thread's work on a tree with this lock: the caller may be in the middle of such work.
    pub(crate) fn visit_open<R>(&self, visit: impl FnOnce(&[Arc<OpenTree>]) -> R) -> R {
        let _visit = self.visits.lock();
        let slots = self.catalog.lock();
        let open: Vec<Arc<OpenTree>> = catalog::open(&slots).map(|(_, tree)| tree).collect();
        drop(slots);
        let result = visit(&open);
        // This may close trees.
        drop(open);
        result
    }

    /// Tries again what fails because of an open tree, if that was open for nothing but a transaction that could do
    /// without, or because another thread visits all open trees. What is tried lets go of the guard, which keeps
    /// visitors out, before it waits.
    pub(super) fn patiently<'p, T>(
        &'p self,
        attempt: impl Fn(&mut Option<NoVisit<'p>>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut no_visit = None;
        for _ in 0..PATIENCE {
            let result = attempt(&mut no_visit);
            if !result.as_ref().is_err_and(|fault| matches!(fault.kind(), ErrorKind::StillOpen { .. })) {
                return result;
            }
            if no_visit.is_none() {
                no_visit = Some(self.visits.lock());
            } else if !self.expire_moments() {
                // It is open for more than a visit.
                return result;
            }
        }
        attempt(&mut no_visit)
    }

    /// The root of the tree with this name.
    pub(crate) fn find(&self, name: &str) -> Result<Root, Fault> {
        let found = match self.still_roots() {
            Some(mut slots) => self.named_root(&mut slots, name)?,
            None => self.live()?.into_iter().find(|root| root.name(&self.medium) == name),
        };
        found.ok_or_else(|| no_such_tree(name))
    }

    // The caller of the following functions holds the catalogue's lock.

    pub(super) fn live(&self) -> Result<Vec<Root>, Fault> {
        let mut live = Vec::new();
        for root in self.roots() {
            if root.is_live(&self.medium)? {
                live.push(root);
            }
        }
        Ok(live)
    }

    fn names<'s>(&self, slots: &'s mut CatalogSlots<OpenTree>) -> Result<&'s mut Names, Fault> {
        if slots.names.is_none() {
            slots.names = Some(Names::read(&self.medium, &self.segments)?);
        }
        Ok(slots.names.as_mut().expect("they were read just now"))
    }

    /// The root of the tree with this name.
    pub(super) fn named_root(&self, slots: &mut CatalogSlots<OpenTree>, name: &str) -> Result<Option<Root>, Fault> {
        let Some(slot) = self.names(slots)?.get(name) else { return Ok(None) };
        let root = Root::numbered(&self.segments, slot);
        if root.is_live(&self.medium)? && root.name(&self.medium) == name {
            return Ok(Some(root));
        }
        // The entries are not those that were read.
        slots.names = None;
        Ok(self.live()?.into_iter().find(|root| root.name(&self.medium) == name))
    }

    /// A free root for a new tree. There is none, only if there are as many trees as there can be, or if there is no
    /// space for more roots.
    pub(super) fn free_root(&self, slots: &mut CatalogSlots<OpenTree>) -> Result<Root, Fault> {
        loop {
            // One that a thread works on holds no tree yet, or holds one no longer.
            self.names(slots)?;
            let free = slots.names.iter().flat_map(Names::free).find(|&slot| slots.get(slot).is_none());
            if let Some(slot) = free {
                let root = Root::numbered(&self.segments, slot);
                if !root.is_live(&self.medium)? {
                    return Ok(root);
                }
                slots.names = None;
                continue;
            }
            if self.segments.roots() >= u32::from(NO_TREE) {
                return Err(ErrorKind::TooManyTrees { limit: NO_TREE.into() }.into());
            }
            self.segments.grow_roots(&self.medium)?;
            self.names(slots)?.grow(self.segments.roots());
        }
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
        let _window = self.medium.window();
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
                        SlotState::Free => break (root, false),
                        SlotState::Open(tree) => {
                            self.instants.keep(root.slot, &tree);
                            return Ok(tree);
                        }
                        SlotState::Unsettled => {}
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
            // It is another tree than the image may have.
            drop(self.take_tree_image(root.slot));
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

    pub(super) fn release_tree(&self, slot: u16) {
        self.segments.release(&self.medium, self.segments.of_tree(slot), |entry| entry.tree == slot);
    }
}

pub(super) fn no_such_tree(name: &str) -> Fault {
    ErrorKind::NoSuchTree { tree: name.to_owned() }.into()
}
