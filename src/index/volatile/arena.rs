//! Where the nodes live: an array that grows with the tree, and a list of the nodes that no tree uses.
//!
//! The memory of a node is only ever used as a node, and given back only with the index. So a late reader meets a
//! version that has changed, never foreign memory.

use super::node::NOT_LOADED;
use crate::index::version::Moved;
use crate::memory::{Growing, Zero};
use std::io;

/// Names a node of the array.
pub(super) type Id = u64;

/// The array of nodes, for readers and the writer.
pub(super) struct Arena<N> {
    nodes: Growing<N>,
}

impl<N: Zero> Arena<N> {
    /// An array without nodes.
    pub(super) fn new() -> Self {
        Self { nodes: Growing::new() }
    }

    /// Bytes of memory that the nodes take.
    pub(super) fn resident(&self) -> u64 {
        self.nodes.resident()
    }

    /// The node with that name. A name that was read from a node that was being written may be any word, so there may
    /// be no such node.
    #[inline(always)]
    pub(super) fn get(&self, id: Id) -> Result<&N, Moved> {
        self.nodes.get(id).ok_or(if id & NOT_LOADED == 0 { Moved::Written } else { Moved::NotLoaded })
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
    /// How many nodes were ever used.
    touched: u64,
}

impl Spare {
    /// The number of nodes that were ever used, whether in the tree or not.
    #[cfg(all(test, not(bristlecone_loom)))]
    pub(super) fn touched(&self) -> usize {
        self.touched as usize
    }

    /// Bytes of memory that this takes, beside itself.
    pub(super) fn memory(&self) -> u64 {
        (self.ids.capacity() * size_of::<Id>()) as u64
    }

    /// How many of these are outside the tree.
    #[cfg(all(test, not(bristlecone_loom)))]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Makes sure that this many nodes can be [taken](Self::take_spare).
    ///
    /// # Errors
    ///
    /// There is no memory for them.
    pub(super) fn reserve<N: Zero>(&self, arena: &Arena<N>, nodes: usize) -> io::Result<()> {
        arena.nodes.reserve(self.touched + nodes.saturating_sub(self.ids.len()) as u64)
    }

    /// A node for which there is [room](Self::reserve). It has arbitrary entries, and it is one which a late reader may
    /// still be reading: open it before writing to it.
    pub(super) fn take_spare<N: Zero>(&mut self, arena: &Arena<N>) -> Id {
        self.ids.pop().unwrap_or_else(|| {
            self.touched += 1;
            arena.nodes.name(self.touched - 1)
        })
    }

    /// Takes a node back. Its version must change between its leaving the tree and the next [`take`](Spare::take).
    pub(super) fn give(&mut self, id: Id) {
        self.ids.push(id);
    }
}
