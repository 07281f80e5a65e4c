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
//! Nodes of words have nothing left to do afterwards: by N2, the slots that left no longer owns *are* empty. (Layouts
//! that say more than ranges do go on: `BitmapClear`, `CountWord`, `VersionedTruncate`.) A leaf of byte strings empties
//! its own before it is unlocked; a walk does so after a crash (`src/tree/bytes/recover.rs`).

mod allocation;
mod count;
mod frozen;
mod links;
mod locks;
#[cfg(all(test, bristlecone_loom))]
mod models;
mod restructure;
mod shadows;
mod verbs;

use crate::arch;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::shadow::Shadow;
use crate::node::{Hints, Node, NodeAt, Shared};
use crate::pool::PoolState;
use crate::pool::blocks::Blocks;
use crate::pool::records::Records;
use crate::pool::segments::SegmentKind;
use crate::sync::AtomicU64;
use crate::sync::bias::Bias;
use crate::sync::tally::Tally;
pub(crate) use allocation::{Draft, For};
use count::Count;
use frozen::Frozen;
pub(crate) use links::{Links, Nodes};
pub(crate) use locks::{Locked, Met, NodeView};
use shadows::Shadows;
use std::alloc::{Layout, handle_alloc_error};
use std::ops::Deref;
use std::sync::Arc;

/// The nodes of one tree and kind.
pub(crate) struct Chain<N: Node, M: Medium> {
    links: Links<N, M>,
    /// One for each size.
    blocks: Box<[Blocks]>,
    shadows: Shadows<Hints<N>>,
    /// The logarithm of the size of a segment. Each search needs it, and finds it here at once.
    shift: u32,
    shared: Shared<N>,
    /// The bias of the locks of all nodes.
    pub(crate) bias: Bias,
    /// Present if values, or keys and values, are records.
    pub(crate) records: Option<Records>,
    /// What snapshots see of leaves that have changed since.
    pub(crate) frozen: Frozen<N::Keys>,
    /// The number of entries.
    pub(crate) count: Count,
    /// What has happened to nodes.
    pub(crate) tally: Tally,
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
    /// [`Io`](crate::ErrorKind::Io): there is no memory for the shadows.
    pub(crate) fn new(
        pool: Arc<PoolState<M>>,
        tree: u16,
        kind: SegmentKind,
        records: Option<Records>,
    ) -> Result<Self, Fault> {
        let links = Links::new(pool, tree, kind);
        let segments = &links.pool.segments;
        let shadows = Shadows::new(segments.count(), segments.size(), N::BYTES, N::POLICY.in_snapshots);
        Ok(Self {
            shadows: shadows.map_err(Fault::address_space)?,
            shift: segments.size().trailing_zeros(),
            blocks: links.classes().map(Blocks::new).collect(),
            shared: Shared::<N>::default(),
            bias: Bias::default(),
            records,
            links,
            frozen: Frozen::default(),
            count: Count::default(),
            tally: Tally::default(),
        })
    }

    /// Bytes of a node's shadow.
    pub(crate) const SHADOW: u64 = size_of::<Shadow<Hints<N>>>() as u64;

    /// Bytes of memory that the chain takes, without what is in itself.
    pub(crate) fn memory(&self) -> u64 {
        let records = self.records.as_ref().map_or(0, Records::memory);
        let blocks = self.blocks.iter().map(|blocks| size_of::<Blocks>() as u64 + blocks.memory()).sum::<u64>();
        self.shadows.resident() + blocks + self.count.memory() + records
    }

    /// How many blocks are in use.
    pub(crate) fn in_use(&self) -> u64 {
        self.blocks.iter().map(Blocks::in_use).sum()
    }

    /// The blocks of the chain, one class for each size.
    pub(crate) fn blocks(&self) -> &[Blocks] {
        &self.blocks
    }

    /// The node in a block, which has this shadow.
    #[inline(always)]
    fn node<'c>(&'c self, at: u64, shadow: &'c Shadow<Hints<N>>) -> NodeAt<'c, N::Ops, M> {
        self.block(at).node(&shadow.hints)
    }

    /// A node that this thread has locked.
    #[inline(always)]
    fn locked<'c>(&'c self, node: &'c Locked<'_, N>) -> NodeAt<'c, N::Ops, M> {
        self.node(node.at, node.shadow)
    }

    /// The shadow of a block of this chain. `at` must have been accepted.
    ///
    /// The first look at a block that was in use before the open makes its shadow. If there is no memory for it, the
    /// process is aborted, as wherever else memory is missing: the tree is not damaged, and a reader has no other
    /// answer. (For blocks that are taken, [`take`](Self::take_block) made them, or failed.)
    #[inline(always)]
    fn shadow(&self, at: u64) -> &Shadow<Hints<N>> {
        match self.shadow_at_once(at) {
            Some(shadow) => shadow,
            None => self.first_shadow(at),
        }
    }

    /// The shadow of a block, if it was made: for this block, or together with another block's.
    #[inline(always)]
    fn shadow_at_once(&self, at: u64) -> Option<&Shadow<Hints<N>>> {
        let (segment, index) = self.place(at);
        // SAFETY: see `place`.
        unsafe { self.shadows.get(segment, index, at) }
    }

    #[cold]
    #[inline(never)]
    fn first_shadow(&self, at: u64) -> &Shadow<Hints<N>> {
        self.make_shadow_or_abort(at);
        self.shadow_at_once(at).expect("it was made")
    }

    fn make_shadow_or_abort(&self, at: u64) {
        let (segment, index) = self.place(at);
        if self.shadows.make(segment, index, (segment as u64) << self.shift).is_err() {
            let row = Layout::array::<Shadow<Hints<N>>>((self.pool.segments.size() / N::BYTES) as usize);
            handle_alloc_error(row.unwrap_or(Layout::new::<Shadow<Hints<N>>>()));
        }
    }

    /// Makes the shadow of a block, unless there is one.
    fn make_shadow(&self, at: u64) -> Result<(), Fault> {
        if self.shadow_at_once(at).is_some() {
            return Ok(());
        }
        let (segment, index) = self.place(at);
        self.shadows.make(segment, index, (segment as u64) << self.shift).map_err(Fault::address_space)
    }

    /// The stamp of a block of this chain that was viewed or locked.
    fn stamp(&self, at: u64) -> &AtomicU64 {
        match self.stamp_at_once(at) {
            Some(stamp) => stamp,
            None => self.first_stamp(at),
        }
    }

    #[inline]
    fn stamp_at_once(&self, at: u64) -> Option<&AtomicU64> {
        let (segment, index) = self.place(at);
        // SAFETY: see `place`.
        unsafe { self.shadows.stamp(segment, index, at) }
    }

    /// The stamp of a block whose shadow was made with the shadows of other blocks, but whose stamp was not made yet.
    /// Makes it.
    #[cold]
    #[inline(never)]
    fn first_stamp(&self, at: u64) -> &AtomicU64 {
        self.make_shadow_or_abort(at);
        self.stamp_at_once(at).expect("chains with snapshots have stamps")
    }

    /// Prefetches the stamp of a block.
    #[inline]
    fn prefetch_stamp(&self, at: u64) {
        self.stamp_at_once(at).into_iter().for_each(arch::prefetch_of);
    }

    /// The segment of a block, and its number there. A segment has more blocks than that, if the last one may reach
    /// beyond it.
    #[inline(always)]
    fn place(&self, at: u64) -> (usize, usize) {
        let segment = at >> self.shift;
        (segment as usize, ((at - (segment << self.shift)) / N::BYTES) as usize)
    }
}
