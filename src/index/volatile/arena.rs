//! Where the nodes live: one array with room for all nodes there may ever be, of which only the touched part is backed
//! by memory, and a list of the nodes that no tree uses.
//!
//! The memory of a node is only ever used as a node. So a late reader meets a version that has changed, never foreign
//! memory.

use super::node::NOT_LOADED;
use crate::index::version::Moved;
use crate::memory::{Zero, Zeroed};
use std::io;

/// Names a node: its position in the array.
pub(super) type Id = u64;

/// The array of nodes, for readers and the writer.
pub(super) struct Arena<N> {
    nodes: Zeroed<N>,
}

impl<N: Zero> Arena<N> {
    /// Room for `nodes` nodes.
    pub(super) fn new(nodes: usize) -> io::Result<Self> {
        Ok(Self { nodes: Zeroed::new(nodes)? })
    }

    /// The node with that name. A name that was read from a node that was being written may be any word, so there may
    /// be no such node.
    #[inline]
    pub(super) fn get(&self, id: Id) -> Result<&N, Moved> {
        self.nodes.get(id as usize).ok_or(if id & NOT_LOADED == 0 { Moved::Written } else { Moved::NotLoaded })
    }

    /// The node with a name that the one writer read, or that was read under its lock.
    pub(super) fn node(&self, id: Id) -> &N {
        self.get(id).expect("the tree names nodes of its arena")
    }
}

/// The nodes outside the tree, for the writer.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// Used before, and in no tree now.
    ids: Vec<Id>,
    /// The nodes from this one on were never used.
    unused: Id,
}

impl Spare {
    /// The number of nodes that were ever used, whether in the tree or not.
    pub(super) fn touched(&self) -> usize {
        self.unused as usize
    }

    /// How many of these are outside the tree.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// A node with arbitrary entries, which a late reader may still be reading: open it before writing to it.
    pub(super) fn take(&mut self) -> Id {
        self.ids.pop().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        })
    }

    /// Takes a node back. Its version must change between its leaving the tree and the next [`take`](Spare::take).
    pub(super) fn give(&mut self, id: Id) {
        self.ids.push(id);
    }
}
