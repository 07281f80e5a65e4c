//! Where the nodes live: chunks that stay until the index is dropped, and a list of the nodes no tree uses.
//!
//! A node stays a node. So a reader that comes late meets a version that moved on, never foreign memory.

use super::node::{Moved, Node};
use std::sync::OnceLock;

/// The least nodes of a chunk. (A loom model must do with the first: loom does not see what `OnceLock` orders.)
const LEAST: usize = if cfg!(loom) { 10 } else { 16 };

/// Every chunk adds a quarter or more: with this many, the nodes would fill any memory.
const CHUNKS: usize = 96;

/// Names a node: the chunk in the upper 32 bits (16 of them used), the place in it in the lower.
pub(super) type Id = u64;

/// The nodes, for readers and the writer.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: [OnceLock<Box<[Node]>>; CHUNKS],
}

impl Arena {
    pub(super) fn new() -> (Self, Spare) {
        let arena = Self { chunks: [const { OnceLock::new() }; CHUNKS] };
        let mut spare = Spare { ids: Vec::new(), chunks: 0, nodes: 0 };
        spare.reserve(&arena, LEAST);
        (arena, spare)
    }

    /// The node of that name. A name read from a node that was being written may be any word: then there is perhaps
    /// none.
    #[inline]
    pub(super) fn get(&self, id: Id) -> Result<&Node, Moved> {
        let chunk = self.chunks.get((id >> 32) as usize).and_then(OnceLock::get).ok_or(Moved)?;
        chunk.get(id as u32 as usize).ok_or(Moved)
    }

    /// The node of a name that the one writer read, or that was read under its lock.
    pub(super) fn node(&self, id: Id) -> &Node {
        self.get(id).expect("the tree names nodes of its arena")
    }
}

/// The nodes outside the tree, for the writer.
#[derive(Debug)]
pub(super) struct Spare {
    ids: Vec<Id>,
    chunks: usize,
    nodes: usize,
}

impl Spare {
    /// All nodes of the arena, in the tree or not.
    #[cfg(all(test, not(loom)))]
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// The nodes outside the tree.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Makes the next `nodes` calls of [`take`](Spare::take) cheap.
    pub(super) fn reserve(&mut self, arena: &Arena, nodes: usize) {
        let missing = nodes.saturating_sub(self.ids.len());
        if missing == 0 {
            return;
        }
        let size = missing.max(self.nodes / 4).max(LEAST);
        let chunk = (0..size).map(|_| Node::new()).collect();
        arena.chunks[self.chunks].set(chunk).expect("only the writer adds chunks");
        let first = (self.chunks as Id) << 32;
        self.ids.extend((first..first + size as Id).rev());
        self.chunks += 1;
        self.nodes += size;
    }

    /// A node with arbitrary entries that some late reader may still look at: open it before writing.
    pub(super) fn take(&mut self, arena: &Arena) -> Id {
        self.reserve(arena, 1);
        self.ids.pop().expect("one was reserved")
    }

    /// Takes a node back. Its version must move between its leaving the tree and the next [`take`](Spare::take).
    pub(super) fn give(&mut self, id: Id) {
        self.ids.push(id);
    }
}
