//! Which tree has which name: what the root entries say, in memory, so that no tree is sought among all.
//!
//! The root entries are the truth. They change under the catalogue's lock, and so does this; and what is found here is
//! compared with its entry.

use super::catalog::CatalogSlots;
use super::roots::{NO_TREE, Root};
use super::{OpenTree, PoolState};
use crate::error::{ErrorKind, Fault};
use crate::medium::Medium;
use std::collections::{BTreeSet, HashMap};

/// The names of all trees, and the root entries that hold none.
pub(crate) struct Names {
    slots: HashMap<Box<str>, u16>,
    /// The lowest is taken first.
    free: BTreeSet<u16>,
    /// The number of root entries that there were when they were looked at last.
    entries: u32,
}

impl Names {
    /// Notes that a root entry holds a tree of this name.
    pub(crate) fn add(&mut self, name: &str, slot: u16) {
        self.slots.insert(name.into(), slot);
        self.free.remove(&slot);
    }

    /// Notes that no tree has this name any more.
    pub(super) fn remove(&mut self, name: &str) {
        self.slots.remove(name);
    }

    /// Notes that a root entry holds no tree any more.
    pub(super) fn vacate(&mut self, slot: u16) {
        self.free.insert(slot);
    }
}

impl<M: Medium> PoolState<M> {
    fn names<'s>(&self, slots: &'s mut CatalogSlots<OpenTree>) -> Result<&'s mut Names, Fault> {
        if slots.names.is_none() {
            let mut names = Names { slots: HashMap::new(), free: BTreeSet::new(), entries: self.segments.roots() };
            for root in self.roots() {
                if root.is_live(&self.medium)? {
                    names.add(&root.name(&self.medium), root.slot);
                } else {
                    names.vacate(root.slot);
                }
            }
            slots.names = Some(names);
        }
        Ok(slots.names.as_mut().expect("they were read just now"))
    }

    /// The root of the tree with this name.
    pub(super) fn named_root(&self, slots: &mut CatalogSlots<OpenTree>, name: &str) -> Result<Option<Root>, Fault> {
        let Some(&slot) = self.names(slots)?.slots.get(name) else { return Ok(None) };
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
            let free = slots.names.iter().flat_map(|names| &names.free).find(|slot| slots.get(**slot).is_none());
            if let Some(&slot) = free {
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
            let names = self.names(slots)?;
            let entries = self.segments.roots();
            names.free.extend(names.entries as u16..entries as u16);
            names.entries = entries;
        }
    }
}
