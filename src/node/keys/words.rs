//! Words as the keys of a tree.

use super::{Edges, Keys, Side};
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::node::{BlockAt, Entry, KeyRange, LOW};
use crate::pool::access::Access;
use crate::pool::records::Records;
use std::collections::BTreeMap;

/// Keys are words.
#[derive(Debug, Default)]
pub struct Words;

impl Keys for Words {
    type Key = u64;
    type Owned = u64;
    type Ref<'k> = u64;
    /// The first and the last key.
    type Span<'k> = (u64, u64);
    type NewLow = u64;
    type StoredLow<'l> = u64;
    type Range = KeyRange;
    /// All of each key.
    type Heads = ();

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

    fn split_low(_: BlockAt<'_, impl Medium>, _: KeyRange, _: bool, entries: &mut [Entry], cut: usize) -> u64 {
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

    fn separator(node: BlockAt<'_, impl Medium>) -> u64 {
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
    fn note_edges(_node: BlockAt<'_, impl Medium>, range: KeyRange, _next: u64, edges: &mut Edges<Self>) {
        (edges.low, edges.high) = (range.low(), Some(range.high()).filter(|&high| high != 0));
    }

    fn floor<L>(leaves: &BTreeMap<u64, L>, key: u64) -> Option<&L> {
        leaves.range(..=key).next_back().map(|(_, leaf)| leaf)
    }

    fn reaches(edges: &Edges<Self>, key: u64) -> bool {
        edges.high.is_none_or(|high| key < high)
    }

    fn record(value: u64) -> u64 {
        value
    }

    fn pointing_to(_value: u64, copy: u64) -> Option<u64> {
        Some(copy)
    }

    fn new_low(_node: BlockAt<'_, impl Medium>, range: KeyRange) -> u64 {
        range.low()
    }

    fn place(_pool: Access<'_, impl Medium>, _records: Option<&Records>, low: &u64) -> Result<u64, Fault> {
        Ok(*low)
    }

    type Least = u64;

    fn separators_ascend(_pool: Access<'_, impl Medium>, named: &[(u64, u64)]) -> bool {
        named.is_sorted_by(|(a, _), (b, _)| a < b)
    }

    fn low_record(_node: BlockAt<'_, impl Medium>) -> u64 {
        0
    }

    #[inline]
    fn ascends_from(_node: BlockAt<'_, impl Medium>, range: KeyRange, least: &mut u64) -> bool {
        let ascends = range.low() >= *least;
        *least = range.low().saturating_add(1);
        ascends
    }

    #[inline(always)]
    fn span<'k>(&from: &u64, to: Option<&u64>) -> (u64, u64) {
        (from, to.map_or(u64::MAX, |to| to - 1))
    }

    #[inline(always)]
    fn before(end: Option<&u64>) -> u64 {
        end.map_or(u64::MAX, |end| end - 1)
    }

    fn behind(key: &u64) -> Option<u64> {
        key.checked_add(1)
    }

    /// The slots have all of each key.
    #[inline(always)]
    fn close(_edges: &Edges<Self>, _entries: &[Entry]) -> u64 {
        0
    }

    #[inline(always)]
    fn has_head(_edges: &Edges<Self>, head: u64, &key: &u64) -> bool {
        head == key
    }

    fn tail_low() -> Option<u64> {
        Some(u64::MAX)
    }

    fn is_of_tail(&key: &u64) -> bool {
        key == u64::MAX
    }

    fn low_between(_last: &u64, &first: &u64) -> u64 {
        first
    }

    fn stored(low: u64, pairs: Vec<(u64, u64)>) -> (u64, Vec<Entry>) {
        (low, pairs)
    }

    fn cut_tail(leaves: &mut Vec<(u64, u64)>) -> Option<Option<u64>> {
        leaves.pop().filter(|&(low, _)| low == u64::MAX).map(|(_, tail)| Some(tail))
    }

    fn between(&low: &u64, next: Option<&u64>) -> KeyRange {
        KeyRange::new(low, next.map_or(u64::MAX, |&next| next))
    }
}
