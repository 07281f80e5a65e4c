//! Nodes: blocks of 16-byte slots, behind the two words that every layout begins with, `next` and `low`.
//!
//! The invariants N1 to N4 are in `docs/design.md`, section 3. They hold after every single 8-byte store that becomes
//! durable, so they hold in every crash state. So the content of a node always follows from its two words, its
//! neighbour's `low` and its keys. The search hints are kept in the volatile [`shadow`].

mod at;
pub(crate) mod bytes;
pub(crate) mod circular;
pub(crate) mod counted;
mod deferred;
pub(crate) mod fingerprints;
mod index_kind;
mod inner;
mod key_range;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod linear;
#[cfg(all(test, bristlecone_loom))]
mod models;
mod one_line;
mod prints;
pub(crate) mod shadow;
pub(crate) mod shift;
pub(crate) mod slots;
pub(crate) mod sorted;
pub(crate) mod sorted_ops;
pub(crate) mod space;
#[cfg(all(test, feature = "crash", not(bristlecone_loom)))]
mod tutorial;
pub(crate) mod unsorted;

pub(crate) use at::{BlockAt, NodeAt};
pub use bytes::ByteLeaf;
pub(crate) use bytes::ByteRange;
pub(crate) use bytes::entry::{KeyLen, RecordParts, record as record_of, reference};
pub use circular::Circular;
pub(crate) use deferred::{Defer, Deferred};
pub use index_kind::IndexKind;
pub(crate) use inner::InnerOps;
pub(crate) use key_range::KeyRange;
pub(crate) use keys::{ByteSpan, Edges, Interval, Keys, NewByteLow, NoLess, Side};
pub use keys::{ByteStrings, Words};
pub(crate) use layout::{Checked, InNode, Layout, Merging, NewNode, Policy};
pub use linear::Linear;
pub use one_line::OneLine;
pub(crate) use space::{Renew, Sizes, Space, SplitInPlace, Verb};

use crate::medium::{LINE, Medium, Step};
use crate::sync::delay::delay;

/// An entry: key, value.
pub(crate) type Entry = (u64, u64);

/// Offset of the word that points to the right neighbour; 0 = none.
pub(crate) const NEXT: u64 = 0;
/// Offset of the smallest key owned.
pub(crate) const LOW: u64 = 8;
/// Bytes of a slot.
pub(crate) const SLOT: u64 = 16;
/// Slots in a line.
pub(crate) const PER_LINE: usize = (LINE / SLOT) as usize;

/// The fewest slots that a tree works with: with two, a full inner node would split into one entry and two, at every
/// level and with every insert at its end. The models of single leaves work with two.
pub(crate) const LEAST_SLOTS: usize = if cfg!(bristlecone_loom) { 2 } else { 4 };

/// Bytes of a node that are prefetched: in larger nodes, a search reads few lines.
pub(crate) const PREFETCHED: u64 = 16 * LINE;

/// A node layout: where its entries lie, how they are found, and how one of them changes.
///
/// A pool knows the crate's layouts by their tags. One of another crate is known by its tag and its name, of which the
/// pool has a hash: two programs that chose one tag do not take the trees of each other for theirs. Such a tree can be
/// checked only where it is open, by the program that has its type.
///
/// Sealed, because a layout is proven together with the crate: its operations are not public, and belong to one layout.
pub trait Node: Send + Sync + Sized + 'static {
    /// The tag in the pool. A layout of another crate may have any that no layout of this crate has.
    const LAYOUT: u16;
    /// The name in messages and on the command line. That of a layout of another crate is a part of the format, and
    /// should say whose it is.
    const NAME: &'static str;
    /// Whether it is one of this crate's, whose tags are never given out again.
    #[doc(hidden)]
    const IS_OWN: bool = false;
    /// The number of entries that fit.
    const SLOTS: usize;
    /// The size of a block in bytes: whole lines.
    const BYTES: u64;

    /// What the keys are.
    #[doc(hidden)]
    type Keys: Keys;

    /// The operations on one node.
    #[doc(hidden)]
    type Ops: Layout<Node = Self>;

    /// What happens to a node without room.
    #[doc(hidden)]
    type Space: Space<Self::Ops>;

    /// What the tree does with whole nodes.
    #[doc(hidden)]
    const POLICY: Policy = Policy::USUAL;
}

/// A layout of nodes whose keys are words.
pub trait WordNode: Node<Keys = Words> {
    /// The kind of index that a tree gets by default: the one of the layout's paper.
    const INDEX: IndexKind;

    /// The nodes of a persistent index over such leaves, about as large as the leaves, so that a small tree has several
    /// of them. The layout chooses them, because an inner node in the pool carries the tag of its own layout, and the
    /// trees of the papers have inner nodes with the layout of their leaves.
    #[doc(hidden)]
    type Inner: WordNode<Ops: InnerOps>;
}

/// The search hints of a node.
pub(crate) type Hints<N> = <<N as Node>::Ops as Layout>::Hints;
/// The sizes of the nodes of a layout.
pub(crate) type SizesOf<N> = <<N as Node>::Space as Space<<N as Node>::Ops>>::Sizes;
/// A key that is searched for.
pub(crate) type RefOf<'k, N> = <<N as Node>::Keys as Keys>::Ref<'k>;
/// An interval of keys.
pub(crate) type SpanOf<'k, N> = <<N as Node>::Keys as Keys>::Span<'k>;
/// Where a leaf that was read begins and ends.
pub(crate) type EdgesOf<N> = Edges<<N as Node>::Keys>;
/// What is known about the keys that a node owns.
pub(crate) type RangeOf<N> = <<N as Node>::Keys as Keys>::Range;
/// The low of a new node.
pub(crate) type NewLowOf<N> = <<N as Node>::Keys as Keys>::NewLow;
/// What all nodes of a tree share.
pub(crate) type Shared<N> = <SizesOf<N> as Sizes<<N as Node>::Ops>>::Shared;

/// Keeps the last of the pairs with the same key; the result is in the order of the keys.
pub(crate) fn last_of_each<T: Copy>(mut pairs: Vec<(u64, T)>) -> Vec<(u64, T)> {
    pairs.sort_by_key(|&(key, _)| key);
    pairs.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            *kept = *later;
        }
        same
    });
    pairs
}

/// Makes `next` the right neighbour; durable when it returns. This is the commit of every structural change.
pub(crate) fn link(node: BlockAt<'_, impl Medium>, next: u64) {
    delay();
    node.store(NEXT, next);
    delay();
    node.flush(NEXT, 8, Step::Link);
    // Entries that the store moved out of the owned range are empty slots by N2 (in nodes of words); entries that it
    // moved in were prefilled.
    node.fence(Step::Link);
}
