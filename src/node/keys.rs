//! What keys are: words, or byte strings. Chains and trees are the same for both; this is what differs.

use super::{BlockAt, Entry, KeyRange, LOW};
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::pool::access::Access;
use crate::pool::records::Records;
use std::borrow::Borrow;
use std::collections::BTreeMap;

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

/// What the keys of nodes are.
///
/// A node is named by its block. If it may leave its chain meanwhile, results are
/// arbitrary, and the caller finds that out by a version. A right neighbour is one that was accepted as a node; `None`
/// at the end of the chain.
pub trait Keys: Send + Sync + Sized + 'static {
    /// A key.
    type Key: ?Sized + Ord + ToOwned<Owned = Self::Owned>;

    /// A key in the caller's memory.
    type Owned: Ord + Clone + Borrow<Self::Key> + Send + Sync;

    /// A key that is searched for.
    type Ref<'k>: Copy;

    /// An interval of keys.
    type Span<'k>: Copy;

    /// The lower fence key of a node that is about to be made.
    type Fence;

    /// The lower fence key of a node that is about to be made, ready to be stored.
    type Low<'l>: Copy;

    /// What a shadow says about the keys that its node owns.
    type Range: Copy;

    /// Where a leaf that was read begins and ends.
    type Edges: Default + Clone + Send + Sync;

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

    /// The fence key of a new node with the entries from `cut` on, which are changed to what the new node stores. The
    /// entries ascend. They come from `node`, which owns `range`; if `mixed`, some come from other nodes.
    fn border(
        node: BlockAt<'_, impl Medium>,
        range: Self::Range,
        mixed: bool,
        entries: &mut [Entry],
        cut: usize,
    ) -> Self::Fence;

    /// What the two words of a shadow say.
    fn range(words: [u64; 2]) -> Self::Range;

    /// The words for a shadow.
    fn words(range: Self::Range) -> [u64; 2];

    /// Whether the node is the first one of a chain.
    fn is_first(range: Self::Range) -> bool;

    /// Whether the node is the last one of a chain that takes new keys.
    fn is_last(range: Self::Range) -> bool;

    /// Whether the node ends every chain, and never merges.
    fn is_tail(range: Self::Range) -> bool;

    /// How a key lies to the keys that a node owns. `next` finds the right neighbour, if need be.
    fn side(
        node: BlockAt<'_, impl Medium>,
        range: Self::Range,
        next: impl FnOnce() -> Result<Option<u64>, Broken>,
        key: Self::Ref<'_>,
    ) -> Result<Side, Broken>;

    /// Whether the fence key of `right` is greater than that of `left` (N4).
    fn ascends(left: BlockAt<'_, impl Medium>, right: BlockAt<'_, impl Medium>) -> bool;

    /// The range of a node as the pool has it.
    fn stored_range(node: BlockAt<'_, impl Medium>, next: Option<u64>) -> Self::Range;

    /// The word that stands for the fence key of a node in an index: 0 for the first node of a chain.
    fn name(node: BlockAt<'_, impl Medium>) -> u64;

    /// Applies `read` to the key right before the fence key of a node that is not the first one.
    fn with_key_before<R>(node: BlockAt<'_, impl Medium>, read: impl FnOnce(Self::Ref<'_>) -> R) -> R;

    /// The range of a node that gives its keys from `border` on to a new right neighbour.
    fn below(node: BlockAt<'_, impl Medium>, range: Self::Range, border: &Self::Fence) -> Self::Range;

    /// The range of a new node that begins at `border` and ends where `range` does; `next` will be its right neighbour.
    fn above(pool: Access<'_, impl Medium>, range: Self::Range, next: Option<u64>, border: &Self::Fence)
    -> Self::Range;

    /// The range of `node` if it takes over all keys of its right neighbour, whose range is `right`, and
    /// whose right neighbour is `next`.
    fn joined(node: BlockAt<'_, impl Medium>, range: Self::Range, right: Self::Range, next: Option<u64>)
    -> Self::Range;

    /// The part of a span that lies in the range of a node, which has a key of it, if that is known without a look at
    /// the node. A sort of its entries then knows where they lie.
    fn within<'k>(keys: Self::Span<'k>, range: Self::Range) -> Self::Span<'k>;

    /// Notes where the leaf `node` begins and ends. Its right neighbour may not be a leaf if it is changed meanwhile.
    fn note_edges(node: BlockAt<'_, impl Medium>, range: Self::Range, next: u64, edges: &mut Self::Edges);

    /// The lower fence key of the leaf with these edges.
    fn low(edges: &Self::Edges) -> Self::Owned;

    /// The last leaf that does not lie to the right of a key, among leaves by their lower fence keys.
    fn floor<'l, L>(leaves: &'l BTreeMap<Self::Owned, L>, key: Self::Ref<'_>) -> Option<&'l L>;

    /// Whether the leaf with these edges does not end before a key.
    fn reaches(edges: &Self::Edges, key: Self::Ref<'_>) -> bool;

    /// Bytes that edges take elsewhere in memory.
    fn size_of_edges(edges: &Self::Edges) -> usize;

    /// The offset of the record that a value points to, in a tree with records.
    fn record(value: u64) -> u64;

    /// `value`, pointing to a copy of its record; `None` if no value can point there.
    fn pointing_to(value: u64, copy: u64) -> Option<u64>;

    /// The fence key of a node that is in the chain and owns `range`.
    fn fence_of(node: BlockAt<'_, impl Medium>, range: Self::Range) -> Self::Fence;

    /// Makes a fence key ready to be stored: what does not fit into a node goes into a record.
    fn place<'f>(
        pool: Access<'_, impl Medium>,
        records: Option<&Records>,
        fence: &'f Self::Fence,
    ) -> Result<Self::Low<'f>, Fault>;

    /// Gives back the record of a node's fence key, if there is one. Nothing leads to the node any longer.
    fn free_fence(node: BlockAt<'_, impl Medium>, records: Option<&Records>);
}

/// Keys are words.
#[derive(Debug, Default)]
pub struct Words;

impl Keys for Words {
    type Key = u64;
    type Owned = u64;
    type Ref<'k> = u64;
    /// The first and the last key.
    type Span<'k> = (u64, u64);
    type Fence = u64;
    type Low<'l> = u64;
    type Range = KeyRange;
    /// The first and the last key that the leaf owns.
    type Edges = (u64, u64);

    const ALL: (u64, u64) = (0, u64::MAX);

    const HAS_RECORDS: bool = false;
    const MARKS_LAG: bool = false;

    fn lagging(range: KeyRange, _lags: bool) -> KeyRange {
        range
    }

    #[inline(always)]
    fn as_ref(&key: &u64) -> u64 {
        key
    }

    #[inline(always)]
    fn key_in_slot((key, _): Entry) -> Option<u64> {
        Some(key)
    }

    #[inline(always)]
    fn entry(_node: BlockAt<'_, impl Medium>, _range: KeyRange, key: u64, value: u64) -> Entry {
        (key, value)
    }

    fn position(_pool: Access<'_, impl Medium>, entries: &[Entry], new: Entry) -> usize {
        entries.partition_point(|entry| entry.0 < new.0)
    }

    fn border(_: BlockAt<'_, impl Medium>, _: KeyRange, _: bool, entries: &mut [Entry], cut: usize) -> u64 {
        entries[cut].0
    }

    #[inline(always)]
    fn range([low, width]: [u64; 2]) -> KeyRange {
        KeyRange::from_parts(low, width)
    }

    #[inline(always)]
    fn words(range: KeyRange) -> [u64; 2] {
        [range.low(), range.width()]
    }

    fn is_first(range: KeyRange) -> bool {
        range.low() == 0
    }

    /// The tail owns only MAX.
    fn is_last(range: KeyRange) -> bool {
        range.high() == u64::MAX
    }

    fn is_tail(range: KeyRange) -> bool {
        range.low() == u64::MAX
    }

    #[inline(always)]
    fn side(
        _node: BlockAt<'_, impl Medium>,
        range: KeyRange,
        _next: impl FnOnce() -> Result<Option<u64>, Broken>,
        key: u64,
    ) -> Result<Side, Broken> {
        Ok(if range.contains(key) {
            Side::Within
        } else if key < range.low() {
            Side::Left
        } else {
            Side::Right
        })
    }

    fn ascends(left: BlockAt<'_, impl Medium>, right: BlockAt<'_, impl Medium>) -> bool {
        right.load(LOW) > left.load(LOW)
    }

    fn stored_range(node: BlockAt<'_, impl Medium>, next: Option<u64>) -> KeyRange {
        KeyRange::new(node.load(LOW), next.map_or(u64::MAX, |next| node.other(next).load(LOW)))
    }

    fn name(node: BlockAt<'_, impl Medium>) -> u64 {
        node.load(LOW)
    }

    fn with_key_before<R>(node: BlockAt<'_, impl Medium>, read: impl FnOnce(u64) -> R) -> R {
        read(node.load(LOW).wrapping_sub(1))
    }

    fn below(_node: BlockAt<'_, impl Medium>, range: KeyRange, &border: &u64) -> KeyRange {
        KeyRange::new(range.low(), border)
    }

    fn above(_pool: Access<'_, impl Medium>, range: KeyRange, _next: Option<u64>, &border: &u64) -> KeyRange {
        KeyRange::new(border, range.high())
    }

    fn joined(_node: BlockAt<'_, impl Medium>, range: KeyRange, right: KeyRange, _next: Option<u64>) -> KeyRange {
        KeyRange::new(range.low(), right.high())
    }

    #[inline(always)]
    fn within<'k>((from, to): Self::Span<'k>, range: KeyRange) -> Self::Span<'k> {
        (from.max(range.low()), to.min(range.high().wrapping_sub(1)))
    }

    #[inline(always)]
    fn note_edges(_node: BlockAt<'_, impl Medium>, range: KeyRange, _next: u64, edges: &mut (u64, u64)) {
        *edges = (range.low(), range.high().wrapping_sub(1));
    }

    fn low(&(low, _): &(u64, u64)) -> u64 {
        low
    }

    fn floor<L>(leaves: &BTreeMap<u64, L>, key: u64) -> Option<&L> {
        leaves.range(..=key).next_back().map(|(_, leaf)| leaf)
    }

    fn reaches(&(_, last): &(u64, u64), key: u64) -> bool {
        last >= key
    }

    fn size_of_edges(_edges: &(u64, u64)) -> usize {
        0
    }

    fn record(value: u64) -> u64 {
        value
    }

    fn pointing_to(_value: u64, copy: u64) -> Option<u64> {
        Some(copy)
    }

    fn fence_of(_node: BlockAt<'_, impl Medium>, range: KeyRange) -> u64 {
        range.low()
    }

    fn place(_pool: Access<'_, impl Medium>, _records: Option<&Records>, fence: &u64) -> Result<u64, Fault> {
        Ok(*fence)
    }

    fn free_fence(_node: BlockAt<'_, impl Medium>, _records: Option<&Records>) {}
}
