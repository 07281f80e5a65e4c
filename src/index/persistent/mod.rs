//! The persistent index: chains of inner nodes in the pool, in a sorted layout.
//!
//! An entry of an inner node is the `low` and the offset of a node one level below. Level 0 is the leaves. The tail
//! leaf, which owns only the key MAX, is not listed, so no separator is MAX.
//!
//! The invariants I1 and I2 are in `docs/design.md`, section 4, and hold in every crash state.
//!
//! I2 follows from the order of the steps: an entry is withdrawn, or repointed to the new node, before its child leaves
//! the chain; and it is posted after its child entered the chain. I1 holds because the first child of a node stays: a
//! node merges with its left neighbour, or is replaced by it, only if both have the same parent, as in Circ-Tree.

mod balance;
mod check;
mod edit;
mod recover;
mod relocate;
mod search;

use crate::chain::{Chain, Links};
use crate::error::{Broken, Fault};
use crate::medium::{Medium, Step};
use crate::node::{InnerOps, LOW, WordNode};
use crate::pool::PoolState;
use crate::pool::roots::Root;
use crate::pool::segments::SegmentKind;
use crate::sync::delay::delay;
use crate::sync::{AtomicU64, Ordering};
pub(crate) use check::check;
pub(crate) use relocate::Swept;
use std::sync::Arc;

/// More levels than any tree has: nodes have at least four slots, and half of them are in use when a level is added.
const LEVELS: u16 = 64;

/// The levels above the leaves.
pub(crate) struct PersistentIndex<N: WordNode<Ops: InnerOps>, M: Medium> {
    chain: Chain<N, M>,
    root: Root,
    /// The topmost node and its level: offset 48, level 16; 0 = no inner nodes.
    top: AtomicU64,
}

/// The topmost node.
#[derive(Clone, Copy)]
struct TopNode {
    at: u64,
    level: u16,
}

/// The topmost node that the root entry names.
fn top_of<N: WordNode<Ops: InnerOps>, M: Medium>(links: &Links<N, M>, root: Root) -> Result<Option<TopNode>, Broken> {
    let at = match root.index(links.medium()) {
        0 => return Ok(None),
        at => links.accept(at, root.index_at())?,
    };
    let level = links.level(at)?;
    if level == 0 || level > LEVELS || links.medium().load(at + LOW) != 0 {
        return Err(Broken::new(root.index_at(), "I1: the index's root is no topmost node"));
    }
    Ok(Some(TopNode { at, level }))
}

impl<N: WordNode<Ops: InnerOps>, M: Medium> PersistentIndex<N, M> {
    /// Opens the index that the root entry names. `repair` then makes it match the leaves.
    pub(crate) fn open(pool: Arc<PoolState<M>>, root: Root) -> Result<Self, Fault> {
        let chain = Chain::new(pool, root.slot, SegmentKind::Inner, None)?;
        let top = top_of(&chain, root)?;
        let upper = Self { chain, root, top: AtomicU64::new(0) };
        upper.set_top(top);
        Ok(upper)
    }

    pub(crate) fn chain(&self) -> &Chain<N, M> {
        &self.chain
    }

    fn top(&self) -> Option<TopNode> {
        match self.top.load(Ordering::Acquire) {
            0 => None,
            word => Some(TopNode { at: word & (u64::MAX >> 16), level: (word >> 48) as u16 }),
        }
    }

    fn set_top(&self, top: Option<TopNode>) {
        self.top.store(top.map_or(0, |top| top.at | u64::from(top.level) << 48), Ordering::Release);
    }

    /// Publishes a new topmost node, which is durable already.
    fn set_root(&self, top: Option<TopNode>) {
        let m = self.chain.medium();
        delay();
        self.root.set_index(m, top.map_or(0, |top| top.at));
        // Crash: the old root or the new one; both lead to every leaf, at worst through the chain. The fence is for
        // other threads, which may reuse the old root's block: their own fences do not wait for this flush.
        m.fence(Step::IndexRoot);
        delay();
        self.set_top(top);
    }
}
