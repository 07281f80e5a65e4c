//! What trees of words and trees of byte strings do differently, where a chain does not care.

use crate::error::Broken;
use crate::medium::Medium;
use crate::node::{BlockAt, Entry, KeyRange, Keys, Words};
use crate::pool::access::Access;

/// Reading a leaf has left no less to read.
pub struct NoLess;

/// What a tree needs to know of its keys, in addition to what a [chain](Keys) does.
pub trait TreeKeys: Keys {
    /// The interval that an iterator has not read yet.
    type Unread: Clone;

    /// Whether the names of leaves ascend along a chain.
    const NAMES_ASCEND: bool;

    /// Whether the separators with these names, which may be any words, ascend.
    fn separators_ascend(pool: Access<'_, impl Medium>, named: &[(u64, u64)]) -> bool;

    /// The record of the fence key of a leaf; 0 if it has none.
    fn fence_record(node: BlockAt<'_, impl Medium>) -> u64;

    /// The smallest fence key that a leaf may have, for a search that goes from leaf to leaf.
    type Least: Default;

    /// Whether the leaf `node`, which owns `range`, begins at the least fence key or to the right of it. Its right
    /// neighbour must begin to the right of it, and `least` then says so.
    fn ascends_from(node: BlockAt<'_, impl Medium>, range: Self::Range, least: &mut Self::Least) -> bool;

    /// All keys.
    fn everything() -> Self::Unread;

    /// The interval as one for a search in a leaf.
    fn span(unread: &Self::Unread) -> Self::Span<'_>;

    /// The key whose owner is read next from the left.
    fn first(unread: &Self::Unread) -> Self::Ref<'_>;

    /// The key whose owner is read next from the right.
    fn last(unread: &Self::Unread) -> Self::Ref<'_>;

    /// Checks the record of the fence key of a leaf, if it has one.
    fn check_fence(node: BlockAt<'_, impl Medium>) -> Result<(), Broken>;

    /// Prefetches the records of entries, if keys are in them.
    fn prefetch_entries(pool: Access<'_, impl Medium>, entries: &[Entry]);

    /// What is left of an interval once its first leaf was read, if there is less left than before. In a damaged tree,
    /// the end of that leaf may not lie behind the start of the interval.
    fn beyond(unread: Self::Unread, edges: &Self::Edges) -> Result<Option<Self::Unread>, NoLess>;

    /// What is left of an interval once its last leaf was read. As [`beyond`](Self::beyond).
    fn before(unread: Self::Unread, edges: &Self::Edges) -> Result<Option<Self::Unread>, NoLess>;

    /// The first key of an interval, and the first one behind it, if there is one.
    fn into_ends(unread: Self::Unread) -> (Self::Owned, Option<Self::Owned>);

    /// The interval from one key on, up to another one, which is greater, or to the end.
    fn from_ends(from: Self::Owned, to: Option<Self::Owned>) -> Self::Unread;

    /// The next key behind a key, if there is one.
    fn behind(key: &Self::Key) -> Option<Self::Owned>;

    /// One bit for each entry of a leaf with these edges, in their order, whose head does not tell whether its key lies
    /// between those of its left neighbour and of the edges.
    fn close(edges: &Self::Edges, entries: &[Entry]) -> u64;

    /// Whether an entry of a leaf with these edges has the head of its key.
    fn has_head(edges: &Self::Edges, head: u64, key: &Self::Key) -> bool;

    /// Whether a key lies between these edges.
    fn owns(edges: &Self::Edges, key: &Self::Key) -> bool;

    /// The fence key of the first leaf of a chain.
    fn first_fence() -> Self::Fence;

    /// The fence key of the tail, if chains have one.
    fn tail_fence() -> Option<Self::Fence>;

    /// Whether the tail owns a key.
    fn is_of_tail(key: &Self::Owned) -> bool;

    /// Whether keys ascend.
    fn ascend(one: &Self::Owned, next: &Self::Owned) -> bool;

    /// A fence key between the greatest key of a leaf and the first key of the next one.
    fn fence(last: &Self::Owned, first: &Self::Owned) -> Self::Fence;

    /// The fence key and the entries of a leaf as it stores them.
    fn stored(fence: Self::Fence, pairs: Vec<(Self::Owned, u64)>) -> (Self::Fence, Vec<Entry>);

    /// Takes the tail from the names and offsets of the leaves of a chain, if it has one. `None`: it should have.
    fn cut_tail(leaves: &mut Vec<(u64, u64)>) -> Option<Option<u64>>;

    /// The range of a leaf that begins at one fence key and ends at another, or at the end of all keys.
    fn between(fence: &Self::Fence, next: Option<&Self::Fence>) -> Self::Range;
}

impl TreeKeys for Words {
    /// The first and the last key.
    type Unread = (u64, u64);
    type Least = u64;

    const NAMES_ASCEND: bool = true;

    fn separators_ascend(_pool: Access<'_, impl Medium>, named: &[(u64, u64)]) -> bool {
        named.is_sorted_by(|(a, _), (b, _)| a < b)
    }

    fn fence_record(_node: BlockAt<'_, impl Medium>) -> u64 {
        0
    }

    #[inline]
    fn ascends_from(_node: BlockAt<'_, impl Medium>, range: KeyRange, least: &mut u64) -> bool {
        let ascends = range.low() >= *least;
        *least = range.low().saturating_add(1);
        ascends
    }

    fn everything() -> (u64, u64) {
        Self::ALL
    }

    #[inline(always)]
    fn span(&unread: &(u64, u64)) -> (u64, u64) {
        unread
    }

    #[inline(always)]
    fn first(unread: &(u64, u64)) -> u64 {
        unread.0
    }

    #[inline(always)]
    fn last(unread: &(u64, u64)) -> u64 {
        unread.1
    }

    #[inline(always)]
    fn check_fence(_node: BlockAt<'_, impl Medium>) -> Result<(), Broken> {
        Ok(())
    }

    #[inline(always)]
    fn prefetch_entries(_pool: Access<'_, impl Medium>, _entries: &[Entry]) {}

    #[inline(always)]
    fn beyond((_, to): (u64, u64), &(_, last): &(u64, u64)) -> Result<Option<(u64, u64)>, NoLess> {
        Ok((last < to).then(|| (last + 1, to)))
    }

    #[inline(always)]
    fn before((from, _): (u64, u64), &(low, _): &(u64, u64)) -> Result<Option<(u64, u64)>, NoLess> {
        Ok((low > from).then(|| (from, low - 1)))
    }

    fn into_ends((from, to): (u64, u64)) -> (u64, Option<u64>) {
        (from, to.checked_add(1))
    }

    fn from_ends(from: u64, to: Option<u64>) -> (u64, u64) {
        (from, to.map_or(u64::MAX, |to| to - 1))
    }

    fn behind(key: &u64) -> Option<u64> {
        key.checked_add(1)
    }

    /// The slots have all of each key.
    #[inline(always)]
    fn close(_edges: &(u64, u64), _entries: &[Entry]) -> u64 {
        0
    }

    #[inline(always)]
    fn has_head(_edges: &(u64, u64), head: u64, &key: &u64) -> bool {
        head == key
    }

    fn owns(&(low, last): &(u64, u64), key: &u64) -> bool {
        (low..=last).contains(key)
    }

    fn first_fence() -> u64 {
        0
    }

    fn tail_fence() -> Option<u64> {
        Some(u64::MAX)
    }

    fn is_of_tail(&key: &u64) -> bool {
        key == u64::MAX
    }

    fn ascend(one: &u64, next: &u64) -> bool {
        one < next
    }

    fn fence(_last: &u64, &first: &u64) -> u64 {
        first
    }

    fn stored(fence: u64, pairs: Vec<(u64, u64)>) -> (u64, Vec<Entry>) {
        (fence, pairs)
    }

    fn cut_tail(leaves: &mut Vec<(u64, u64)>) -> Option<Option<u64>> {
        leaves.pop().filter(|&(low, _)| low == u64::MAX).map(|(_, tail)| Some(tail))
    }

    fn between(&low: &u64, next: Option<&u64>) -> KeyRange {
        KeyRange::new(low, next.map_or(u64::MAX, |&next| next))
    }
}
