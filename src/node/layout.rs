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

/// What a [check](Layout::check) finds; as an error, what is broken.
pub(super) fn sound<N: Layout, M: Medium>(m: &M, at: u64, span: Span) -> Result<Checked, Broken> {
    let mut broken = None;
    let checked = N::check(m, at, span, &mut |found| broken = broken.take().or(Some(found)));
    match (broken, checked) {
        (None, Some(checked)) => Ok(checked),
        (Some(broken), _) => Err(broken),
        (None, None) => unreachable!("a check says why it cannot tell"),
    }
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

    /// What all nodes of a tree share, in DRAM: what its layout has measured and counted.
    type Shared: Default + Send + Sync;

    /// Whether a change may begin before the one before it, in the same node, is durable.
    const INDEPENDENT: bool;

    /// Blocks come in so many sizes, each twice the one before it.
    const CLASSES: usize = 1;

    /// Slots that an update takes, and a removal: more than none where what was before stays as it is.
    const TAKES: Takes = Takes { update: 0, remove: 0 };

    /// Whether a node without room is replaced by new ones, with all that is worth keeping. If not, it is split and merged
    /// in place.
    const RENEWS: bool = false;

    /// Whether a change may be made by a copy of the node: see [`copies`](Self::copies).
    const COPIES: bool = false;

    /// Whether a nearly empty node rather goes into its left neighbour than takes in its right one.
    const MERGES_LEFT: bool = false;

    /// A block was taken from the pool for a node.
    #[inline]
    fn allocated<M: Medium>(_m: &M, _at: u64) {}

    /// A node's block goes back to the pool.
    #[inline]
    fn released<M: Medium>(_m: &M, _at: u64) {}

    /// The level that the node says it has, if it says so; an error for what is no node of the layout.
    fn level<M: Medium>(m: &M, at: u64) -> Result<u16, Broken>;

    /// Bytes that the node says it has, if not all have as many; for others no more than 0.
    fn bytes<M: Medium>(_m: &M, _at: u64) -> u64 {
        0
    }

    /// How many entries.
    fn len(aid: &Self::Aid) -> usize;

    /// How many more slots there are to be taken.
    fn room(aid: &Self::Aid) -> usize;

    /// How many slots are taken, by entries or by what is left of them.
    #[inline]
    fn taken(aid: &Self::Aid) -> usize {
        Self::len(aid)
    }

    /// Whether a copy with the change costs less than the change in place.
    fn copies<M: Medium>(_m: &M, _aid: &Self::Aid, _change: InNode) -> bool {
        false
    }

    /// Lines that it has; `None` where all nodes have as many.
    fn size(_aid: &Self::Aid) -> Option<u32> {
        None
    }

    /// Lines of the new nodes that replace this one, no more than `most`; `None` where all nodes have as many.
    fn lines<M: Medium>(_m: &M, _aid: &Self::Aid, _shared: &Self::Shared, _most: u32) -> Option<u32> {
        None
    }

    /// A new node is one of so many that replace `of`.
    fn inherit(_aid: &Self::Aid, _of: &Self::Aid, _heirs: usize) {}

    /// A search was made in the node.
    #[inline]
    fn searched(_aid: &Self::Aid, _shared: &Self::Shared) {}

    /// Hints that the key is about to be looked for.
    fn prefetch<M: Medium>(m: &M, at: u64, key: u64);

    /// Hints that all entries are about to be read.
    fn prefetch_all<M: Medium>(m: &M, at: u64);

    /// The place of a key; as an error, where it would go.
    fn search<M: Medium>(m: &M, at: u64, aid: &Self::Aid, key: u64) -> Result<usize, usize>;

    /// The place of a key, for those who do not want to know where it would go.
    #[inline]
    fn lookup<M: Medium>(m: &M, at: u64, aid: &Self::Aid, key: u64) -> Option<usize> {
        Self::search(m, at, aid, key).ok()
    }

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

    /// Inserts an entry, or replaces the value of one, and leaves the flush to the caller, who is told which line of the node it
    /// is in. What several of them leave is flushed once.
    ///
    /// For [independent](Self::INDEPENDENT) layouts only.
    fn put<M: Medium>(_m: &M, _at: u64, _aid: &Self::Aid, _place: Result<usize, usize>, _entry: Entry) -> usize {
        unreachable!("a change waits for the one before it")
    }

    /// Replaces the value at a place.
    fn update<M: Medium>(m: &M, at: u64, aid: &Self::Aid, place: usize, value: u64);

    /// Removes the entry at a place.
    fn remove<M: Medium>(m: &M, at: u64, aid: &Self::Aid, span: Span, place: usize);

    /// Adds entries beyond the owned range, where they are still empty slots, and overwrites every other empty slot whose
    /// key lies in `wider`, the range that is to be owned: what a split left behind would come back.
    ///
    /// Not for layouts that [renew](Self::RENEWS) their nodes.
    fn stage<M: Medium>(_m: &M, _at: u64, _aid: &Self::Aid, _wider: Span, _entries: &[Entry]) {
        unreachable!("new nodes take the place of nodes that merge")
    }

    /// Forgets the entries from `border` on, which the node does not own any more. If it stores anything, that is durable
    /// when it returns.
    ///
    /// Not for layouts that [renew](Self::RENEWS) their nodes.
    fn narrow<M: Medium>(_m: &M, _at: u64, _aid: &Self::Aid, _border: u64) {
        unreachable!("new nodes take the place of a node that is split")
    }

    /// Finishes what a crash interrupted, durably, and learns what the node holds.
    fn recover<M: Medium>(m: &M, at: u64, aid: &Self::Aid, span: Span) -> Result<(), Broken>;

    /// Every broken invariant, without a store. `None` if what there is cannot be told; one of them says why.
    fn check<M: Medium>(m: &M, at: u64, span: Span, report: &mut dyn FnMut(Broken)) -> Option<Checked>;
}

/// See [`Layout::TAKES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    /// Slots for another value.
    pub update: usize,
    /// Slots for a removal.
    pub remove: usize,
}

/// A change of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InNode {
    /// A new entry at this place.
    Insert(usize),
    /// The entry at this place goes.
    Remove(usize),
}

/// The header of a new node.
#[derive(Debug, Clone, Copy)]
pub struct New {
    /// Levels above the leaves.
    pub level: u16,
    /// The smallest key owned.
    pub low: u64,
    /// Lines that it may use, if not all nodes have as many.
    pub lines: u32,
    /// The right neighbour, 0 = none.
    pub next: u64,
}
