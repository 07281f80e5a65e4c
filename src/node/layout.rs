//! The interface that every layout offers to the chain and the tree.

use super::{BlockAt, Entry, Keys, Node, NodeAt, PREFETCHED, Words};
use crate::error::Broken;
use crate::medium::{Costs, Medium};
use crate::memory::Zero;

/// What the keys of a layout are.
pub(crate) type KeysOf<L> = <<L as Layout>::Node as Node>::Keys;
/// A key that is searched for.
pub(crate) type Ref<'k, L> = <KeysOf<L> as Keys>::Ref<'k>;
/// An interval of keys.
pub(crate) type Span<'k, L> = <KeysOf<L> as Keys>::Span<'k>;
/// What a shadow says about the keys that its node owns.
pub(crate) type RangeOf<L> = <KeysOf<L> as Keys>::Range;

/// The operations of a layout on one node.
///
/// A *place* names an entry of one node until the node changes. For an entry that is not there, it names where the
/// entry would go. The caller holds the node's lock, except for `prefetch`, `search`, `lookup`, `value` and `entries`:
/// these may see a torn state, and then their results are discarded.
///
/// Changes flush everything up to and including their last store; the caller fences (`Crash:` comments assume that
/// fence).
pub trait Layout: Send + Sync + Sized + 'static {
    /// The layout whose operations these are.
    type Node: Node;

    /// What speeds up a search in a node. It lies in DRAM, and is changed only under the node's lock.
    type Hints: Zero + Send + Sync;

    /// The level that the node stores; an error if the block is not a node of the layout. Leaves that do not store a
    /// level have level 0: the kind of their segment tells that they are leaves.
    fn level(_node: BlockAt<'_, impl Medium>) -> Result<u16, Broken> {
        Ok(0)
    }

    /// The number of entries.
    fn len(hints: &Self::Hints) -> usize;

    /// Prefetches the node, because the key is about to be looked up.
    #[inline]
    fn prefetch(node: BlockAt<'_, impl Medium>, _key: Ref<'_, Self>) {
        node.prefetch(0, Self::Node::BYTES.min(PREFETCHED));
    }

    /// Prefetches what a value points to, if the key is in a node that was prefetched.
    #[inline]
    fn prefetch_value(_node: NodeAt<'_, Self, impl Medium>, _key: Ref<'_, Self>) {}

    /// Prefetches what the value in a slot points to, if anything. The block may have become another's.
    #[inline]
    fn prefetch_slot(_node: BlockAt<'_, impl Medium>, _slot: usize) {}

    /// The place of a key; as an error, where it would go.
    fn search(node: NodeAt<'_, Self, impl Medium>, key: Ref<'_, Self>) -> Result<usize, usize>;

    /// The place of a key, for callers that do not need to know where it would go.
    #[inline]
    fn lookup(node: NodeAt<'_, Self, impl Medium>, key: Ref<'_, Self>) -> Option<usize> {
        Self::search(node, key).ok()
    }

    /// The value at a place.
    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64;

    /// Writes the entries with keys in `from..=to` to the start of `out`, in ascending order, and returns their number.
    /// What was in `out` is overwritten or stays; `out` grows if it is too short.
    fn entries(node: NodeAt<'_, Self, impl Medium>, keys: Span<'_, Self>, out: &mut Vec<Entry>) -> usize;

    /// Writes a whole node into a block that nothing points to, and flushes it.
    fn fill(node: NodeAt<'_, Self, impl Medium>, new: NewNode<'_, KeysOf<Self>>);

    /// Inserts an entry at its place. There must be an empty slot.
    fn insert(node: NodeAt<'_, Self, impl Medium>, place: usize, new: Entry);

    /// Replaces the value at a place.
    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, value: u64);

    /// Removes the entry at a place of a node that owns `range`.
    fn remove(node: NodeAt<'_, Self, impl Medium>, range: RangeOf<Self>, place: usize);

    /// Finishes what a crash interrupted, durably, and makes the hints.
    fn recover(node: NodeAt<'_, Self, impl Medium>, range: RangeOf<Self>) -> Result<(), Broken>;

    /// Reports every broken invariant, without storing anything. Returns `None` if the entries cannot be determined;
    /// one of the reports then says why.
    fn check(node: BlockAt<'_, impl Medium>, range: RangeOf<Self>, report: &mut dyn FnMut(Broken)) -> Option<Checked>;
}

/// What a check of one node found, apart from broken invariants.
#[derive(Default)]
pub struct Checked {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Positions in `entries` of a pair of equal keys, the trace of an unfinished shift: only one of them counts.
    pub pair: Option<usize>,
    /// Slots whose keys are beyond the owned range, and their values: the trace of a change of the chain that was cut.
    /// In a layout that has them, a leaf to the right has the same values, and only that counts.
    pub beyond: Vec<(u64, u64)>,
}

/// Runs a [check](Layout::check) and returns what it found; as an error, the first broken invariant.
pub(crate) fn sound<L: Layout>(node: BlockAt<'_, impl Medium>, range: RangeOf<L>) -> Result<Checked, Broken> {
    let mut broken = None;
    let checked = L::check(node, range, &mut |found| broken = broken.take().or(Some(found)));
    match (broken, checked) {
        (None, Some(checked)) => Ok(checked),
        (Some(broken), _) => Err(broken),
        (None, None) => unreachable!("a check says why it cannot tell"),
    }
}

/// A new node.
#[derive(Clone, Copy)]
pub struct NewNode<'l, K: Keys = Words> {
    /// Levels above the leaves.
    pub level: u16,
    /// The smallest key owned.
    pub low: K::StoredLow<'l>,
    /// The number of lines that it may use, if that is not the same for all nodes.
    pub lines: u32,
    /// The right neighbour, 0 = none.
    pub next: u64,
    /// The entries, in ascending order.
    pub entries: &'l [Entry],
    /// Whether the block holds zeros, durably.
    pub zeroed: bool,
}

/// What the tree does with whole nodes of a layout.
pub struct Policy {
    /// Whether a change costs less as a copy of the node than in place, given the costs of the medium, the number of
    /// entries and the change. `None`: no change is made by a copy.
    pub copy_pays: Option<CopyPays>,
    /// Offset of the word that says, durably, whether the block is in use. `None`: there is no such word.
    pub in_use_at: Option<u64>,
    /// Which nodes merge, and with which neighbour.
    pub merging: Merging,
    /// Whether trees of the layout take part in snapshots.
    pub in_snapshots: bool,
}

/// See [`Policy::copy_pays`].
pub(crate) type CopyPays = fn(&dyn Fn() -> Costs, usize, InNode) -> bool;

impl Policy {
    /// Changes are made in place, and a block is in use if the chain reaches it.
    pub(crate) const USUAL: Self =
        Self { copy_pays: None, in_use_at: None, merging: Merging::RightFirst, in_snapshots: false };
    /// Changes are made in place, a block is in use if the chain reaches it, and the layout takes part in snapshots.
    pub(crate) const IN_SNAPSHOTS: Self = Self { in_snapshots: true, ..Self::USUAL };
}

/// Which nodes merge after a removal, and with which neighbour, in layouts whose nodes are split in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merging {
    /// A node that is a quarter full or less merges with its right neighbour. If that has another parent, it merges
    /// with the left one. Two nodes that would be more than three quarters full share their entries evenly instead.
    RightFirst,
    /// A node that is a quarter full or less merges with its left neighbour. If that has another parent, it merges with
    /// the right one. Two nodes that would be more than three quarters full share their entries evenly instead.
    LeftFirst,
    /// A node that is less than half full merges with its right neighbour if that has room, and otherwise stays as it
    /// is.
    RightOnly,
    /// A node that is less than half full merges with a neighbour that has room, the left one first. If neither has, it
    /// takes entries from both until it is more than half full. (An inner node stays as it is instead.)
    LeftOrTake,
}

impl Merging {
    /// Whether two nodes that do not fit into one share their entries evenly.
    pub(crate) const fn evens_out(self) -> bool {
        matches!(self, Self::RightFirst | Self::LeftFirst)
    }

    /// Whether a node with `len` of `slots` entries should be merged.
    #[inline(always)]
    pub(crate) const fn is_sparse(self, len: usize, slots: usize) -> bool {
        if self.evens_out() { len * 4 <= slots } else { len * 2 < slots }
    }

    /// Whether two nodes with so many entries fit into one. Some slots stay free, so that the next inserts do not split
    /// what was merged. But an empty node fits into every other one.
    pub(crate) const fn fit(self, one: usize, other: usize, slots: usize) -> bool {
        if self.evens_out() {
            return (one + other) * 4 <= slots * 3;
        }
        let free = if slots < 8 { 1 } else { slots / 8 };
        one + other <= slots - free || one == 0 || other == 0
    }
}

/// A change of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InNode {
    /// A new entry at this place.
    Insert(usize),
    /// The entry at this place is removed.
    Remove(usize),
}
