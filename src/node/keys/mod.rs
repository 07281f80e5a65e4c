//! What keys are: words, or byte strings. Chains and trees are the same for both; what differs is in [`words`] and
//! [`bytes`]. `docs/design.md`, section 3, lists what differs elsewhere.

mod bytes;
pub(crate) mod interval;
mod words;

use super::{BlockAt, Entry};
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::pool::access::Access;
use crate::pool::records::Records;
use std::borrow::Borrow;
use std::collections::BTreeMap;

pub use bytes::ByteStrings;
pub(crate) use bytes::{ByteSpan, NewByteLow};
pub(crate) use interval::{Edges, Interval};
pub use words::Words;

/// How a key lies to the keys that a node owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It is less than all of them.
    Left,
    /// The node owns it.
    Within,
    /// It is greater than all of them.
    Right,
}

/// Reading a leaf has left no less to read.
pub(crate) struct NoLess;

/// What the keys of nodes are.
///
/// A node is named by its block. If it may leave its chain meanwhile, results are
/// arbitrary, and the caller finds that out by a version. A right neighbour is one that was accepted as a node; `None`
/// at the end of the chain.
pub trait Keys: Send + Sync + Sized + 'static {
    /// A key.
    type Key: ?Sized + Ord + ToOwned<Owned = Self::Owned>;

    /// A key in the caller's memory. The default: the least of all.
    type Owned: Ord + Clone + Default + Borrow<Self::Key> + Send + Sync;

    /// A key that is searched for.
    type Ref<'k>: Copy;

    /// An interval of keys.
    type Span<'k>: Copy;

    /// The low of a node that is about to be made. The default: of the first leaf of a chain.
    type NewLow: Default;

    /// The low of a node that is about to be made, ready to be stored.
    type StoredLow<'l>: Copy;

    /// What a shadow says about the keys that its node owns.
    type Range: Copy;

    /// What the heads of a leaf that was read have of its keys.
    type Heads: Default + Clone + Send + Sync;

    /// All keys.
    const ALL: Self::Span<'static>;

    /// Whether keys, too, are in records.
    const HAS_RECORDS: bool;

    /// Whether the range of a node says that the index may not know its right neighbour yet.
    const MARKS_LAG: bool;

    /// `range` with its lag mark set to `lags`.
    fn lagging(range: Self::Range, lags: bool) -> Self::Range;

    /// A key in the caller's memory, for a search.
    fn as_ref(key: &Self::Key) -> Self::Ref<'_>;

    /// The key of an entry, if its slot has all of it.
    fn key_in_slot(entry: Entry) -> Option<Self::Ref<'static>>;

    /// An entry as a node that owns `range` stores it.
    fn entry(node: BlockAt<'_, impl Medium>, range: Self::Range, key: Self::Ref<'_>, value: u64) -> Entry;

    /// How many of the entries of a node, which ascend, are before a new one.
    fn position(pool: Access<'_, impl Medium>, entries: &[Entry], new: Entry) -> usize;

    /// The low of a new node with the entries from `cut` on, which are changed to what the new node stores. The
    /// entries ascend. They come from `node`, which owns `range`; if `mixed`, some come from other nodes.
    fn split_low(
        node: BlockAt<'_, impl Medium>,
        range: Self::Range,
        mixed: bool,
        entries: &mut [Entry],
        cut: usize,
    ) -> Self::NewLow;

    /// What the two words of a shadow say.
    fn range(words: [u64; 2]) -> Self::Range;

    /// The words for a shadow.
    fn words(range: Self::Range) -> [u64; 2];

    /// Whether the node is the first one of a chain.
    fn is_first(range: Self::Range) -> bool;

    /// Whether the node is the last one of a chain that takes new keys.
    fn is_last(range: Self::Range) -> bool;

    /// Whether the node ends every chain, and never merges.
    fn is_tail(_range: Self::Range) -> bool {
        false
    }

    /// How a key lies to the keys that a node owns. `next` finds the right neighbour, if need be.
    fn side(
        node: BlockAt<'_, impl Medium>,
        range: Self::Range,
        next: impl FnOnce() -> Result<Option<u64>, Broken>,
        key: Self::Ref<'_>,
    ) -> Result<Side, Broken>;

    /// Whether `right` has a greater low than `left` (N4).
    fn ascends(left: BlockAt<'_, impl Medium>, right: BlockAt<'_, impl Medium>) -> bool;

    /// The range of a node as the pool has it.
    fn stored_range(node: BlockAt<'_, impl Medium>, next: Option<u64>) -> Self::Range;

    /// The word that stands for the low of a node in an index: 0 for the first node of a chain.
    fn separator(node: BlockAt<'_, impl Medium>) -> u64;

    /// Applies `read` to the key right before the low of a node that is not the first one.
    fn with_key_before<R>(node: BlockAt<'_, impl Medium>, read: impl FnOnce(Self::Ref<'_>) -> R) -> R;

    /// The range of a node that gives its keys from `border` on to a new right neighbour.
    fn below(node: BlockAt<'_, impl Medium>, range: Self::Range, border: &Self::NewLow) -> Self::Range;

    /// The range of a new node that begins at `border` and ends where `range` does; `next` will be its right neighbour.
    fn above(
        pool: Access<'_, impl Medium>,
        range: Self::Range,
        next: Option<u64>,
        border: &Self::NewLow,
    ) -> Self::Range;

    /// The range of `node` if it takes over all keys of its right neighbour, whose range is `right`, and
    /// whose right neighbour is `next`.
    fn joined(node: BlockAt<'_, impl Medium>, range: Self::Range, right: Self::Range, next: Option<u64>)
    -> Self::Range;

    /// The part of a span that lies in the range of a node, which has a key of it, if that is known without a look at
    /// the node. A sort of its entries then knows where they lie.
    fn within<'k>(keys: Self::Span<'k>, range: Self::Range) -> Self::Span<'k>;

    /// Notes where the leaf `node` begins and ends. Its right neighbour may not be a leaf if it is changed meanwhile.
    fn note_edges(node: BlockAt<'_, impl Medium>, range: Self::Range, next: u64, edges: &mut Edges<Self>);

    /// The last leaf that does not lie to the right of a key, among leaves by their lows.
    fn floor<'l, L>(leaves: &'l BTreeMap<Self::Owned, L>, key: Self::Ref<'_>) -> Option<&'l L>;

    /// Whether the leaf with these edges does not end before a key.
    fn reaches(edges: &Edges<Self>, key: Self::Ref<'_>) -> bool;

    /// The offset of the record that a value points to, in a tree with records.
    fn record(value: u64) -> u64;

    /// `value`, pointing to a copy of its record; `None` if no value can point there.
    fn pointing_to(value: u64, copy: u64) -> Option<u64>;

    /// The low of a node that is in the chain and owns `range`.
    fn new_low(node: BlockAt<'_, impl Medium>, range: Self::Range) -> Self::NewLow;

    /// Makes a low ready to be stored: what does not fit into a node goes into a record.
    fn place<'f>(
        pool: Access<'_, impl Medium>,
        records: Option<&Records>,
        low: &'f Self::NewLow,
    ) -> Result<Self::StoredLow<'f>, Fault>;

    // What iterators, bulk loads and checks of a tree need to know in addition.

    /// Whether the separators with these names, which may be any words, ascend.
    fn separators_ascend(pool: Access<'_, impl Medium>, named: &[(u64, u64)]) -> bool;

    /// The record of the low of a leaf; 0 if it has none.
    fn low_record(node: BlockAt<'_, impl Medium>) -> u64;

    /// The smallest low that a leaf may have, for a search that goes from leaf to leaf.
    type Least: Default;

    /// Whether the leaf `node`, which owns `range`, begins at the least low or to the right of it. Its right
    /// neighbour must begin to the right of it, and `least` then says so.
    fn ascends_from(node: BlockAt<'_, impl Medium>, range: Self::Range, least: &mut Self::Least) -> bool;

    /// The interval from one key on, up to another one, which is greater, or to the end.
    fn span<'k>(from: &'k Self::Owned, to: Option<&'k Self::Owned>) -> Self::Span<'k>;

    /// A search for the greatest key before another one, which is not the least of all, or before the end of all keys.
    fn before(end: Option<&Self::Key>) -> Self::Ref<'_>;

    /// The next key behind a key, if there is one.
    fn behind(key: &Self::Key) -> Option<Self::Owned>;

    /// One bit for each entry of a leaf with these edges, in their order, whose head does not tell whether its key lies
    /// between those of its left neighbour and of the edges.
    fn close(edges: &Edges<Self>, entries: &[Entry]) -> u64;

    /// Whether an entry of a leaf with these edges has the head of its key.
    fn has_head(edges: &Edges<Self>, head: u64, key: &Self::Key) -> bool;

    /// The low of the tail, if chains have one.
    fn tail_low() -> Option<Self::NewLow> {
        None
    }

    /// Whether the tail owns a key.
    fn is_of_tail(_key: &Self::Owned) -> bool {
        false
    }

    /// A low between the greatest key of a leaf and the first key of the next one.
    fn low_between(last: &Self::Owned, first: &Self::Owned) -> Self::NewLow;

    /// The low and the entries of a leaf as it stores them.
    fn stored(low: Self::NewLow, pairs: Vec<(Self::Owned, u64)>) -> (Self::NewLow, Vec<Entry>);

    /// Takes the tail from the names and offsets of the leaves of a chain, if it has one. `None`: it should have.
    fn cut_tail(leaves: &mut Vec<(u64, u64)>) -> Option<Option<u64>> {
        (!leaves.is_empty()).then_some(None)
    }

    /// The range of a leaf that begins at one low and ends at another, or at the end of all keys.
    fn between(low: &Self::NewLow, next: Option<&Self::NewLow>) -> Self::Range;
}
