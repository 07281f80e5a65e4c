//! What happens to a node without room: it is split in place, or new nodes take its place.
//!
//! A layout names one of two types, [`InPlace`] or [`Renewal`], and implements the trait that goes with it. A verb of
//! the tree that differs between the two is a [`Verb`]: its method is chosen by the type, at compile time.

use super::layout::{KeysOf, Layout, RangeOf};
use super::{BlockAt, Entry, Keys, Node, NodeAt, WordNode};
use crate::medium::{LINE, Medium, Step};

/// What happens to a node without room.
pub trait Space<L: Layout> {
    /// How large nodes are.
    type Sizes: Sizes<L>;

    /// The slots that changes of a node take.
    const TAKES: Takes;

    /// The number of slots that are taken, by entries or by remains of old ones.
    fn taken(hints: &L::Hints) -> usize;

    /// Whether a node is so empty that it should be merged.
    fn is_sparse(hints: &L::Hints) -> bool;

    /// Runs the algorithm of the verb that the layout needs.
    fn run<V: Verb<L>>(verb: V) -> V::Output;
}

/// A verb with one algorithm for nodes that are split in place, and another one for nodes that are renewed.
pub trait Verb<L: Layout>: Sized {
    /// What it returns.
    type Output;

    /// The algorithm for nodes that are split and merged in place.
    fn in_place(self) -> Self::Output
    where
        L: SplitInPlace;

    /// The algorithm for nodes that new ones replace.
    fn renewed(self) -> Self::Output
    where
        L: Renew;
}

/// A node without room is split; a nearly empty one is merged with its neighbour. All nodes have one size.
pub enum InPlace {}

/// New nodes, with everything that is worth keeping, take the place of a node without room, or of a nearly empty one.
pub enum Renewal {}

/// The operations of layouts whose nodes are split and merged in place.
pub trait SplitInPlace: Layout {
    /// Adds entries beyond the owned range. Of words, they are still empty slots there; of byte strings, references
    /// that a leaf to the right has, too. Overwrites every other empty slot whose key lies in `wider`, the range that
    /// will be owned: keys that a split left behind would otherwise come back. Flushed.
    fn prefill(node: NodeAt<'_, Self, impl Medium>, wider: RangeOf<Self>, entries: &[Entry]);

    /// Forgets the entries from `border` on, which the node no longer owns. They are among those that have `moved` to
    /// the new right neighbour. If it stores anything, that is durable when it returns.
    fn truncate_after_split(
        node: NodeAt<'_, Self, impl Medium>,
        border: &<KeysOf<Self> as Keys>::NewLow,
        moved: &[Entry],
    );

    /// Prefetches what an insert of `key` will read and write besides what [`prefetch`](Layout::prefetch) does. Returns
    /// whether the node will be split. Other threads may be changing the hints.
    fn prefetch_put(_node: NodeAt<'_, Self, impl Medium>, _key: u64) -> bool
    where
        Self::Node: WordNode,
    {
        false
    }

    /// Inserts an entry or replaces the value of one, at the place that a search returned. Returns, as bits, the lines
    /// of the node that the caller must still flush: a layout whose changes may become durable in any order leaves the
    /// flushes to the caller, which flushes each line once.
    fn put(node: NodeAt<'_, Self, impl Medium>, place: Result<usize, usize>, entry: Entry) -> u64
    where
        Self::Node: WordNode,
    {
        match place {
            Ok(place) => Self::update(node, place, entry.1),
            Err(place) => Self::insert(node, place, entry),
        }
        // The next change of the node must find this one durable.
        node.fence(Step::BatchChange);
        0
    }

    /// Removes entries that are in a node which owns `range`. They ascend. Returns, as bits, the lines of the node that
    /// the caller must still flush, as [`put`](Self::put) does.
    fn remove_all(
        node: NodeAt<'_, Self, impl Medium>,
        range: RangeOf<Self>,
        entries: &[Entry],
        fence: impl Fn(),
    ) -> u64 {
        // The greatest key goes first: then entries that stay move the least.
        for &entry in entries.iter().rev() {
            if let Some(key) = KeysOf::<Self>::key_in_slot(entry)
                && let Ok(place) = Self::search(node, key)
            {
                Self::remove(node, range, place);
                // The next change of the node must find this one durable.
                fence();
            }
        }
        0
    }
}

/// The operations of layouts whose nodes are replaced by new ones.
pub trait Renew: Layout<Node: WordNode> {
    /// How large nodes are.
    type Sizes: Sizes<Self>;

    /// The slots that an update and a removal take.
    const TAKES: Takes;

    /// The number of slots that are taken, by entries or by remains of old ones.
    fn taken(hints: &Self::Hints) -> usize;
}

/// The slots that changes take; 0 for a change that is made in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    /// Slots that a change of a value takes.
    pub update: usize,
    /// Slots that a removal takes.
    pub remove: usize,
}

impl<L: SplitInPlace> Space<L> for InPlace {
    type Sizes = OneSize;

    const TAKES: Takes = Takes { update: 0, remove: 0 };

    #[inline(always)]
    fn taken(hints: &L::Hints) -> usize {
        L::len(hints)
    }

    #[inline(always)]
    fn is_sparse(hints: &L::Hints) -> bool {
        L::Node::POLICY.merging.is_sparse(L::len(hints), L::Node::SLOTS)
    }

    #[inline(always)]
    fn run<V: Verb<L>>(verb: V) -> V::Output {
        verb.in_place()
    }
}

impl<L: Renew> Space<L> for Renewal {
    type Sizes = L::Sizes;

    const TAKES: Takes = L::TAKES;

    #[inline(always)]
    fn taken(hints: &L::Hints) -> usize {
        L::taken(hints)
    }

    /// A quarter full or less, and worth collecting: what removals left behind takes half of the node, or four times
    /// what the entries take. So an emptied node is always sparse, and a node that stays nearly empty is not renewed at
    /// each removal.
    fn is_sparse(hints: &L::Hints) -> bool {
        let (len, taken, slots) = (L::len(hints), L::taken(hints), L::Sizes::slots(hints));
        len * 4 <= slots && (taken * 2 >= slots || taken >= len * 4)
    }

    #[inline(always)]
    fn run<V: Verb<L>>(verb: V) -> V::Output {
        verb.renewed()
    }
}

/// The sizes of the nodes of a layout.
pub trait Sizes<L: Layout> {
    /// What all nodes of a tree share, in DRAM: what is measured and counted to choose a size.
    type Shared: Default + Send + Sync;

    /// The number of block sizes, each twice the one before it.
    const CLASSES: usize;

    /// The size in bytes that the node stores; 0 if it stores none.
    fn bytes(node: BlockAt<'_, impl Medium>) -> u64;

    /// The number of slots that a node has in all.
    fn slots(hints: &L::Hints) -> usize;

    /// The number of lines that a node has.
    fn lines(hints: &L::Hints) -> u32;

    /// The number of lines that the new nodes get which replace this one: at most `most`. `nodes` tells how many nodes
    /// there are.
    fn resize(node: NodeAt<'_, L, impl Medium>, shared: &Self::Shared, most: u32, nodes: impl Fn() -> u64) -> u32;

    /// Prepares the hints of a new node, which is one of `heirs` nodes that replace `of`.
    fn inherit(hints: &L::Hints, of: &L::Hints, heirs: usize);

    /// Notes that the node was searched.
    fn searched(hints: &L::Hints, shared: &Self::Shared);

    /// Notes a change of the node that takes this many slots.
    fn written(hints: &L::Hints, shared: &Self::Shared, slots: usize);

    /// Whether a flat index enlarges the parents whose leaves were written most, not those that were given most leaves.
    const HEAT_IS_WRITES: bool = false;

    /// How many slots were written, if that is counted.
    fn writes(_hints: &L::Hints) -> u64 {
        0
    }
}

/// All nodes have the size of the layout.
pub enum OneSize {}

impl<L: Layout> Sizes<L> for OneSize {
    type Shared = ();

    const CLASSES: usize = 1;

    fn bytes(_node: BlockAt<'_, impl Medium>) -> u64 {
        0
    }

    #[inline(always)]
    fn slots(_hints: &L::Hints) -> usize {
        L::Node::SLOTS
    }

    fn lines(_hints: &L::Hints) -> u32 {
        (L::Node::BYTES / LINE) as u32
    }

    fn resize(_node: NodeAt<'_, L, impl Medium>, _shared: &(), _most: u32, _nodes: impl Fn() -> u64) -> u32 {
        (L::Node::BYTES / LINE) as u32
    }

    fn inherit(_hints: &L::Hints, _of: &L::Hints, _heirs: usize) {}

    #[inline(always)]
    fn searched(_hints: &L::Hints, _shared: &()) {}

    #[inline(always)]
    fn written(_hints: &L::Hints, _shared: &(), _slots: usize) {}
}
