//! The nodes of one tree and kind, linked into chains, and the one rule by which chains change.
//!
//! **A node owns `[low, next.low)`, and `low` never changes.** So every structural change commits with one 8-byte
//! store, to the `next` word of the node on the left:
//!
//! | change | prepare (invisible) | commit |
//! |---|---|---|
//! | split | fill the right node | `left.next = right` |
//! | merge right into left | prefill left with right's entries, beyond what left owns | `left.next = right.next` |
//! | redistribute | fill a new right node; prefill left with what moves left | `left.next = new right` |
//!
//! Nothing is left to do afterwards: by N2, the slots that left no longer owns *are* empty.

mod allocation;
mod count;
mod frozen;
mod links;
mod locks;
#[cfg(all(test, loom))]
mod models;
mod restructure;
mod shadows;
mod verbs;

use crate::error::Fault;
use crate::medium::Medium;
use crate::node::shadow::Shadow;
use crate::node::{Hints, Keys, Node, Shared};
use crate::pool::PoolState;
use crate::pool::blocks::Blocks;
use crate::pool::records::Records;
use crate::pool::segments::SegmentKind;
use crate::sync::AtomicU64;
pub(crate) use allocation::{Draft, For};
use count::Count;
use frozen::Frozen;
pub(crate) use links::Links;
pub(crate) use locks::{Locked, View};
use shadows::Shadows;
use std::ops::Deref;
use std::sync::Arc;

/// The nodes of one tree and kind.
pub(crate) struct Chain<N: Node, M: Medium> {
    links: Links<N, M>,
    /// One for each size.
    blocks: Box<[Blocks]>,
    shadows: Shadows<Hints<N>>,
    shared: Shared<N>,
    /// Present if values, or keys and values, are records.
    pub(crate) records: Option<Records>,
    /// What snapshots see of leaves that have changed since.
    pub(crate) frozen: Frozen<N::Keys>,
    /// The number of entries.
    pub(crate) count: Count,
}

/// A chain is its links, together with the state that is needed to change them.
impl<N: Node, M: Medium> Deref for Chain<N, M> {
    type Target = Links<N, M>;

    #[inline]
    fn deref(&self) -> &Links<N, M> {
        &self.links
    }
}

impl<N: Node, M: Medium> Chain<N, M> {
    /// A chain without nodes.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io): there is no address space for the shadows.
    pub(crate) fn new(
        pool: Arc<PoolState<M>>,
        tree: u16,
        kind: SegmentKind,
        records: Option<Records>,
    ) -> Result<Self, Fault> {
        let links = Links::new(pool, tree, kind);
        let segments = &links.pool.segments;
        let blocks = (segments.size() / N::BYTES) as usize;
        let shadows = Shadows::new(segments.count(), blocks, N::Keys::HAS_RECORDS, N::POLICY.in_snapshots);
        Ok(Self {
            shadows: shadows.map_err(Fault::address_space)?,
            blocks: links.classes().map(Blocks::new).collect(),
            shared: Shared::<N>::default(),
            records,
            links,
            frozen: Frozen::default(),
            count: Count::default(),
        })
    }

    /// Bytes of a node's shadow.
    pub(crate) const SHADOW: u64 = size_of::<Shadow<Hints<N>>>() as u64;

    /// Bytes of memory that the shadows of all blocks take.
    pub(crate) fn memory(&self) -> u64 {
        self.blocks.iter().map(|blocks| blocks.total(&self.pool.segments)).sum::<u64>() * Self::SHADOW
    }

    /// How many blocks are in use. In a damaged pool, more may be free than there are.
    pub(crate) fn in_use(&self) -> u64 {
        let of_class = |blocks: &Blocks| blocks.total(&self.pool.segments).saturating_sub(blocks.free().len() as u64);
        self.blocks.iter().map(of_class).sum()
    }

    /// The blocks of the chain, one class for each size.
    pub(crate) fn blocks(&self) -> &[Blocks] {
        &self.blocks
    }

    /// The shadow of a block of this chain. `at` must have been accepted.
    #[inline(always)]
    fn shadow(&self, at: u64) -> &Shadow<Hints<N>> {
        let (segment, index) = self.place(at);
        self.shadows.get(segment, index, N::Keys::HAS_RECORDS)
    }

    /// The stamp of a block of this chain.
    fn stamp(&self, at: u64) -> &AtomicU64 {
        let (segment, index) = self.place(at);
        self.shadows.stamp(segment, index, N::Keys::HAS_RECORDS)
    }

    #[inline(always)]
    fn place(&self, at: u64) -> (u32, usize) {
        let segments = &self.pool.segments;
        let segment = segments.of(at).expect("an accepted offset lies in a segment");
        (segment, (segments.within(at) / N::BYTES) as usize)
    }
}
