//! Where the nodes live: one array for all that there may ever be, of which only what is touched is real, and a list of
//! the nodes no tree uses.
//!
//! A node stays a node. So a reader that comes late meets a version that moved on, never foreign memory.

use super::node::{NOT_LOADED, Node};
use crate::index::version::Moved;
use crate::memory::Zeroed;
use std::io;

/// Names a node: its place in the array.
pub(super) type Id = u64;

/// The nodes, for readers and the writer.
pub(super) struct Arena {
    nodes: Zeroed<Node>,
}

impl Arena {
    /// Room for so many nodes.
    pub(super) fn new(nodes: usize) -> io::Result<Self> {
        Ok(Self { nodes: Zeroed::new(nodes)? })
    }

    /// The node of that name. A name read from a node that was being written may be any word: then there is perhaps
    /// none.
    #[inline]
    pub(super) fn get(&self, id: Id) -> Result<&Node, Moved> {
        self.nodes.get(id as usize).ok_or(if id & NOT_LOADED == 0 { Moved::Written } else { Moved::NotLoaded })
    }

    /// The node of a name that the one writer read, or that was read under its lock.
    pub(super) fn node(&self, id: Id) -> &Node {
        self.get(id).expect("the tree names nodes of its arena")
    }
}

/// The nodes outside the tree, for the writer.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// Used before, in no tree now.
    ids: Vec<Id>,
    /// Nodes from here on were never used.
    unused: Id,
}

impl Spare {
    /// All nodes that were ever used, in the tree or not.
    pub(super) fn touched(&self) -> usize {
        self.unused as usize
    }

    /// Of these, the nodes outside the tree.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// A node with arbitrary entries that some late reader may still look at: open it before writing.
    pub(super) fn take(&mut self) -> Id {
        self.ids.pop().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        })
    }

    /// Takes a node back. Its version must move between its leaving the tree and the next [`take`](Spare::take).
    pub(super) fn give(&mut self, id: Id) {
        self.ids.push(id);
    }
}
