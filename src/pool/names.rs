//! Which tree has which name: what the root entries say, in memory, so that no tree is sought among all.
//!
//! The root entries are the truth. They change under the catalogue's lock, and so does this; and what is found here is
//! compared with its entry.

use super::roots::Root;
use super::segments::Segments;
use crate::error::Fault;
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
    /// Reads all root entries.
    pub(super) fn read<M: Medium>(m: &M, segments: &Segments) -> Result<Self, Fault> {
        let mut names = Self { slots: HashMap::new(), free: BTreeSet::new(), entries: segments.roots() };
        for root in Root::all(segments) {
            if root.is_live(m)? {
                names.add(&root.name(m), root.slot);
            } else {
                names.vacate(root.slot);
            }
        }
        Ok(names)
    }

    /// The root entry that holds the tree of this name.
    pub(super) fn get(&self, name: &str) -> Option<u16> {
        self.slots.get(name).copied()
    }

    /// The root entries that hold no tree.
    pub(super) fn free(&self) -> impl Iterator<Item = u16> {
        self.free.iter().copied()
    }

    /// Notes that there are so many root entries now, and that the new ones hold no tree.
    pub(super) fn grow(&mut self, entries: u32) {
        self.free.extend(self.entries as u16..entries as u16);
        self.entries = entries;
    }

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
