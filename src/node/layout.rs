//! What the tree asks of a layout.

use super::{Entry, Sorted, Span};
use crate::error::Broken;
use crate::medium::Medium;
use crate::memory::Zero;

/// What a check of one node found, besides broken invariants.
pub struct Checked {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Positions in `entries` of a pair of equal keys, the trace of an unfinished shift: only one of them counts.
    pub pair: Option<usize>,
}

/// The operations of a layout, on one node: a block at `at`, with its `aid` in the shadow.
///
/// A *place* names an entry of one node, until the node changes; for an entry that is not there, where it would go. Who
/// calls holds the node's lock, except for the reading ones: these may see a torn state, and their results are then
/// thrown away.
///
/// Changes are flushed as far as their last store; the caller fences (`Crash:` comments take that fence for granted).
pub trait Layout: Send + Sync + Sized + 'static {
    /// What a search wants to know of a node. In DRAM; under the node's lock, changed by the one who holds it.
    type Aid: Zero + Send + Sync;

    /// The nodes of a persistent index over such leaves.
    type Inner: Sorted;

    /// Whether a change may begin before the one before it, in the same node, is durable.
    const INDEPENDENT: bool;

    /// The level that the node says it has, if it says so; an error for what is no node of the layout.
    fn level<M: Medium>(m: &M, at: u64) -> Result<u16, Broken>;

    /// How many entries.
    fn len(aid: &Self::Aid) -> usize;

    /// Hints that the key is about to be looked for.
    fn prefetch<M: Medium>(m: &M, at: u64, key: u64);

    /// Hints that all entries are about to be read.
    fn prefetch_all<M: Medium>(m: &M, at: u64);

    /// The place of a key; as an error, where it would go.
    fn search<M: Medium>(m: &M, at: u64, aid: &Self::Aid, key: u64) -> Result<usize, usize>;

    /// The value at a place.
    fn value<M: Medium>(m: &M, at: u64, aid: &Self::Aid, place: usize) -> u64;

    /// Puts the entries with keys in `from..=to` at the start of `out`, in ascending order; tells how many. What was there is
    /// overwritten or stays, and `out` gets longer if need be.
    fn entries<M: Medium>(m: &M, at: u64, aid: &Self::Aid, keys: (u64, u64), out: &mut Vec<Entry>) -> usize;

    /// Writes a whole node into a block that nothing points to, and flushes it. The entries ascend.
    ///
    /// `zeroed` says that the block holds zeros, durably.
    fn fill<M: Medium>(m: &M, at: u64, aid: &Self::Aid, new: New, entries: &[Entry], zeroed: bool);

    /// Inserts an entry at its place. There must be an empty slot.
    fn insert<M: Medium>(m: &M, at: u64, aid: &Self::Aid, place: usize, new: Entry);

    /// Replaces the value at a place.
    fn update<M: Medium>(m: &M, at: u64, aid: &Self::Aid, place: usize, value: u64);

    /// Removes the entry at a place.
    fn remove<M: Medium>(m: &M, at: u64, aid: &Self::Aid, span: Span, place: usize);

    /// Adds entries beyond the owned range, where they are still empty slots, and overwrites every other empty slot whose
    /// key lies in `wider`, the range that is to be owned: what a split left behind would come back.
    fn stage<M: Medium>(m: &M, at: u64, aid: &Self::Aid, wider: Span, entries: &[Entry]);

    /// Forgets the entries from `border` on, which the node does not own any more. No store to the medium.
    fn narrow<M: Medium>(m: &M, at: u64, aid: &Self::Aid, border: u64);

    /// Finishes what a crash interrupted, durably, and learns what the node holds.
    fn recover<M: Medium>(m: &M, at: u64, aid: &Self::Aid, span: Span) -> Result<(), Broken>;

    /// Every broken invariant, without a store. `None` if what there is cannot be told.
    fn check<M: Medium>(m: &M, at: u64, span: Span, report: impl FnMut(Broken)) -> Option<Checked>;
}

/// The header of a new node.
#[derive(Debug, Clone, Copy)]
pub struct New {
    /// Levels above the leaves.
    pub level: u16,
    /// The smallest key owned.
    pub low: u64,
    /// The right neighbour, 0 = none.
    pub next: u64,
}
