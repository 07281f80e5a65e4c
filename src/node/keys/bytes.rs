//! Byte strings as the keys of a tree.

use super::{Edges, Keys, Side};
use crate::entry::byte_key::{self, ByteKey, common_prefix};
use crate::entry::raw::KEY_MAX;
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::node::bytes::entry::{moved, record};
use crate::node::bytes::header::{self, INLINE, LOW, META, Meta, separator_len};
use crate::node::bytes::range::ByteRange;
use crate::node::{BlockAt, Entry};
use crate::pool::access::Access;
use crate::pool::records::Records;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Greater than every key.
static END: [u8; KEY_MAX + 1] = [0xff; KEY_MAX + 1];

/// Keys are byte strings.
#[derive(Debug, Default)]
pub struct ByteStrings;

/// The strings from one on, up to another one or to the end.
#[derive(Debug, Clone, Copy)]
pub struct ByteSpan<'k> {
    pub(crate) from: &'k [u8],
    pub(crate) to: Option<&'k [u8]>,
}

/// How many bytes of the keys of a leaf its heads skip.
#[derive(Debug, Default, Clone)]
pub struct ByteHeads {
    skip: usize,
    /// Up to eight of the bytes that are skipped, and which bytes of a word these are.
    start: u64,
    mask: u64,
}

impl Edges<ByteStrings> {
    /// The head of a key in the leaf, as [`BlockAt::head`]; `None` if the low is damaged: it has less bytes
    /// than heads skip.
    fn head(&self, key: &[u8]) -> Option<u64> {
        Some(header::head(key, self.low.get(..self.heads.skip)?))
    }
}

/// The low of a new leaf, and how many bytes of keys its heads skip: at most as many as the low has.
#[derive(Debug, Clone, Default)]
pub struct NewByteLow {
    pub(crate) key: Vec<u8>,
    pub(crate) skip: usize,
}

/// A low that is ready to be stored: with its record if it does not fit into the header, or else 0.
#[derive(Debug, Clone, Copy)]
pub struct ByteLow<'l> {
    pub(in crate::node) low: &'l NewByteLow,
    pub(in crate::node) record: u64,
}

impl ByteLow<'_> {
    /// The words of the header behind `next`.
    pub(in crate::node) fn words(self) -> [u64; 7] {
        let NewByteLow { key, skip } = self.low;
        let mut bytes = [[0; 8]; INLINE / 8];
        if self.record == 0 {
            bytes.as_flattened_mut()[..key.len()].copy_from_slice(key);
        } else {
            bytes[0] = self.record.to_ne_bytes();
        }
        let mut words = [0; 7];
        words[0] = Meta { skip: *skip, len: key.len() }.word();
        words[1..].iter_mut().zip(bytes).for_each(|(word, bytes)| *word = u64::from_ne_bytes(bytes));
        words
    }
}

const _: () = assert!(META + 8 == LOW);

/// The longest skip that a header holds.
const SKIP_MAX: usize = u16::MAX as usize;
/// How many bytes of heads are left behind the bytes in which neighbours agree. The fewer keys there are, the more of
/// these bytes new keys will need.
const SLACK: usize = 3;

impl NewByteLow {
    /// A low between `left` and the first of these keys, which ascend and are greater than `left`. Heads skip as
    /// few bytes as make them differ, so that keys which come later are likely to begin with the same bytes.
    pub(crate) fn between(left: &[u8], keys: &[impl AsRef<[u8]>]) -> Self {
        let (first, last) = (keys[0].as_ref(), keys[keys.len() - 1].as_ref());
        let all = common_prefix(first, last);
        let neighbours = keys.windows(2).map(|pair| common_prefix(pair[0].as_ref(), pair[1].as_ref())).max();
        let skip = neighbours.unwrap_or(0).saturating_sub(7 - SLACK).min(all).min(SKIP_MAX);
        let len = separator_len(left, first).max(skip);
        Self { key: first[..len].to_vec(), skip }
    }

    /// This low, or one that is longer, for a leaf with these keys.
    pub(crate) fn skipping(self, keys: &[Vec<u8>]) -> Self {
        let longest = Self::between(&[], keys);
        let len = longest.skip.max(self.key.len());
        Self { key: keys[0][..len].to_vec(), skip: longest.skip }
    }
}

/// The greatest length of the common prefix of all keys between two lows.
fn shared(low: &[u8], high: Option<&[u8]>) -> usize {
    high.map_or(0, |high| common_prefix(low, high))
}

impl Keys for ByteStrings {
    type Key = [u8];
    type Owned = Vec<u8>;
    type Ref<'k> = ByteKey<'k>;
    type Span<'k> = ByteSpan<'k>;
    type NewLow = NewByteLow;
    type StoredLow<'l> = ByteLow<'l>;
    type Range = ByteRange;
    type Heads = ByteHeads;

    const ALL: ByteSpan<'static> = ByteSpan { from: &[], to: None };

    const HAS_RECORDS: bool = true;
    const MARKS_LAG: bool = true;

    fn lagging(range: ByteRange, lags: bool) -> ByteRange {
        range.lagging(lags)
    }

    #[inline]
    fn as_ref(key: &[u8]) -> ByteKey<'_> {
        ByteKey::at(key)
    }

    fn key_in_slot(_entry: Entry) -> Option<ByteKey<'static>> {
        None
    }

    /// The value is a reference.
    #[inline]
    fn entry(node: BlockAt<'_, impl Medium>, range: ByteRange, key: ByteKey<'_>, reference: u64) -> Entry {
        let skip = range.skip();
        let head = if range.is_uniform() { byte_key::head(key.bytes(), skip) } else { node.head(skip, key.bytes()) };
        (head, reference)
    }

    fn position(pool: Access<'_, impl Medium>, entries: &[Entry], new: Entry) -> usize {
        let (less, not_greater) =
            (entries.partition_point(|entry| entry.0 < new.0), entries.partition_point(|entry| entry.0 <= new.0));
        if less == not_greater {
            return less;
        }
        let key = pool.key_of(record(new.1));
        let before = |entry: &Entry| pool.order_to(record(entry.1), &key) == Ordering::Less;
        less + entries[less..not_greater].partition_point(before)
    }

    fn split_low(
        node: BlockAt<'_, impl Medium>,
        range: ByteRange,
        mixed: bool,
        entries: &mut [Entry],
        cut: usize,
    ) -> NewByteLow {
        let (left, right) = (entries[cut - 1].0, entries[cut].0);
        // The key with the greatest head may not begin with the bytes that are skipped.
        if !mixed && right != u64::MAX && entries[cut - 1..].is_sorted_by(|one, next| one.0 < next.0) {
            // The first byte in which the heads differ is greater in `right`, so it is not padding: it is in the key,
            // and so are those before it.
            let differ = (left ^ right).leading_zeros() as usize / 8;
            let mut key = node.with_low(|low| low[..range.skip().min(low.len())].to_vec());
            key.extend_from_slice(&right.to_be_bytes()[..=differ]);
            return NewByteLow { key, skip: range.skip() };
        }
        let pool = node.pool;
        let keys: Vec<Vec<u8>> = entries[cut..].iter().map(|entry| pool.key_of(record(entry.1))).collect();
        let low = NewByteLow::between(&pool.key_of(record(entries[cut - 1].1)), &keys);
        for (entry, key) in entries[cut..].iter_mut().zip(&keys) {
            entry.0 = byte_key::head(key, low.skip);
        }
        low
    }

    #[inline(always)]
    fn range([word, _]: [u64; 2]) -> ByteRange {
        ByteRange::from_word(word)
    }

    fn words(range: ByteRange) -> [u64; 2] {
        [range.word(), 0]
    }

    fn is_first(range: ByteRange) -> bool {
        range.is_first()
    }

    fn is_last(range: ByteRange) -> bool {
        range.is_last()
    }

    fn side(
        node: BlockAt<'_, impl Medium>,
        _range: ByteRange,
        next: impl FnOnce() -> Result<Option<u64>, Broken>,
        key: ByteKey<'_>,
    ) -> Result<Side, Broken> {
        match node.with_low(|low| key.order_of(low)) {
            Ordering::Greater => return Ok(Side::Left),
            Ordering::Equal => return Ok(Side::Within),
            Ordering::Less => {}
        }
        let Some(next) = next()? else { return Ok(Side::Within) };
        Ok(match node.other(next).with_low(|low| key.order_of(low)) {
            Ordering::Greater => Side::Within,
            Ordering::Less | Ordering::Equal => Side::Right,
        })
    }

    fn ascends(left: BlockAt<'_, impl Medium>, right: BlockAt<'_, impl Medium>) -> bool {
        right.with_low(|right| left.with_low(|left| left < right))
    }

    fn stored_range(node: BlockAt<'_, impl Medium>, next: Option<u64>) -> ByteRange {
        let Meta { skip, len } = node.meta();
        let high = next.map(|next| node.other(next).low_key());
        let uniform = node.with_low(|low| shared(low, high.as_deref())) >= skip;
        ByteRange::new(skip, len == 0, next.is_none(), uniform)
    }

    fn separator(node: BlockAt<'_, impl Medium>) -> u64 {
        if node.meta().len == 0 { 0 } else { node.at }
    }

    fn with_key_before<R>(node: BlockAt<'_, impl Medium>, read: impl FnOnce(ByteKey<'_>) -> R) -> R {
        read(ByteKey::before(&node.low_key()))
    }

    fn below(node: BlockAt<'_, impl Medium>, range: ByteRange, border: &NewByteLow) -> ByteRange {
        let uniform = node.with_low(|low| shared(low, Some(&border.key))) >= range.skip();
        ByteRange::new(range.skip(), range.is_first(), false, uniform).lagging(true)
    }

    fn above(pool: Access<'_, impl Medium>, range: ByteRange, next: Option<u64>, border: &NewByteLow) -> ByteRange {
        let high = next.map(|next| pool.block(next).low_key());
        let uniform = shared(&border.key, high.as_deref()) >= border.skip;
        ByteRange::new(border.skip, false, next.is_none(), uniform).lagging(range.lags())
    }

    fn joined(node: BlockAt<'_, impl Medium>, range: ByteRange, right: ByteRange, next: Option<u64>) -> ByteRange {
        let high = next.map(|next| node.other(next).low_key());
        let uniform = node.with_low(|low| shared(low, high.as_deref())) >= range.skip();
        ByteRange::new(range.skip(), range.is_first(), next.is_none(), uniform).lagging(right.lags())
    }

    /// All of it: the lows are in the medium.
    fn within<'k>(keys: Self::Span<'k>, _range: ByteRange) -> Self::Span<'k> {
        keys
    }

    fn note_edges(node: BlockAt<'_, impl Medium>, _range: ByteRange, next: u64, edges: &mut Edges<Self>) {
        node.with_low(|low| low.clone_into(&mut edges.low));
        // Damage is for `head` to find.
        let skip = Some(node.meta().skip).filter(|&skip| skip <= edges.low.len()).unwrap_or(usize::MAX);
        let (mut start, mut mask) = ([0; 8], [0; 8]);
        for ((start, mask), &byte) in start.iter_mut().zip(&mut mask).zip(edges.low.iter().take(skip)) {
            (*start, *mask) = (byte, 0xff);
        }
        edges.heads = ByteHeads { skip, start: u64::from_ne_bytes(start), mask: u64::from_ne_bytes(mask) };
        if node.pool.is_leaf(next) {
            node.other(next).with_low(|low| low.clone_into(edges.high.get_or_insert_default()));
        } else {
            edges.high = None;
        }
    }

    fn floor<'l, L>(leaves: &'l BTreeMap<Vec<u8>, L>, key: ByteKey<'_>) -> Option<&'l L> {
        leaves.range::<[u8], _>(key.up_to()).next_back().map(|(_, leaf)| leaf)
    }

    fn reaches(edges: &Edges<Self>, key: ByteKey<'_>) -> bool {
        edges.high.as_ref().is_none_or(|high| key.order_of(high).is_gt())
    }

    fn record(value: u64) -> u64 {
        record(value)
    }

    fn pointing_to(value: u64, copy: u64) -> Option<u64> {
        moved(value, copy)
    }

    fn new_low(node: BlockAt<'_, impl Medium>, range: ByteRange) -> NewByteLow {
        NewByteLow { key: node.low_key(), skip: range.skip() }
    }

    fn place<'f>(
        pool: Access<'_, impl Medium>,
        records: Option<&Records>,
        low: &'f NewByteLow,
    ) -> Result<ByteLow<'f>, Fault> {
        let record = match records {
            Some(records) if low.key.len() > INLINE => records.write_at_once(pool.m, pool.segments, &[&low.key])?,
            _ => 0,
        };
        Ok(ByteLow { low, record })
    }

    /// The low of the leaf to the left.
    type Least = Option<Vec<u8>>;

    fn separators_ascend(pool: Access<'_, impl Medium>, named: &[(u64, u64)]) -> bool {
        // 0 names the start of all keys, which is no low.
        let low = |&(name, _): &(u64, u64)| match name {
            0 => Some(Vec::new()),
            name => pool.is_leaf(name).then(|| pool.block(name).with_low(<[u8]>::to_vec)),
        };
        let lows: Option<Vec<_>> = named.iter().map(low).collect();
        lows.is_some_and(|lows| lows.is_sorted_by(|a, b| a < b))
    }

    fn ascends_from(node: BlockAt<'_, impl Medium>, _range: ByteRange, least: &mut Option<Vec<u8>>) -> bool {
        let low = node.with_low(<[u8]>::to_vec);
        let ascends = least.as_ref().is_none_or(|left| *left < low);
        *least = Some(low);
        ascends
    }

    fn span<'k>(from: &'k Vec<u8>, to: Option<&'k Vec<u8>>) -> ByteSpan<'k> {
        ByteSpan { from, to: to.map(|to| &to[..]) }
    }

    fn before(end: Option<&[u8]>) -> ByteKey<'_> {
        ByteKey::before(end.unwrap_or(&END))
    }

    fn behind(key: &[u8]) -> Option<Vec<u8>> {
        let mut behind = Vec::with_capacity(key.len() + 1);
        behind.extend_from_slice(key);
        behind.push(0);
        Some(behind)
    }

    #[inline]
    fn close(edges: &Edges<Self>, entries: &[Entry]) -> u64 {
        let equal =
            entries.windows(2).zip(1..).fold(0, |equal, (pair, i)| equal | u64::from(pair[0].0 == pair[1].0) << i);
        // Only these may lie beyond the edges.
        let low = edges.head(&edges.low).unwrap_or(u64::MAX);
        let high = edges.high.as_ref().map_or(u64::MAX, |high| edges.head(high).unwrap_or(0));
        let first = entries.iter().take_while(|entry| entry.0 <= low).count();
        let last = entries.iter().rev().take_while(|entry| entry.0 >= high).count();
        let bits = |count: usize| (1 << count) - 1;
        equal | bits(first) | bits(last) << (entries.len() - last)
    }

    /// A scan asks for every entry, so a whole word of the bytes that are skipped is compared at once.
    #[inline(always)]
    fn has_head(edges: &Edges<Self>, head: u64, key: &[u8]) -> bool {
        let Edges { low, heads: ByteHeads { skip, start, mask }, .. } = edges;
        if let Some(first) = key.first_chunk()
            && (u64::from_ne_bytes(*first) ^ start) & mask == 0
            && (*skip <= 8 || low.get(8..*skip) == key.get(8..*skip))
            && byte_key::head(key, *skip) == head
        {
            return true;
        }
        edges.head(key) == Some(head)
    }

    fn low_between(last: &Vec<u8>, first: &Vec<u8>) -> NewByteLow {
        NewByteLow { key: first[..separator_len(last, first)].to_vec(), skip: 0 }
    }

    fn stored(low: NewByteLow, pairs: Vec<(Vec<u8>, u64)>) -> (NewByteLow, Vec<Entry>) {
        let (keys, references): (Vec<Vec<u8>>, Vec<u64>) = pairs.into_iter().unzip();
        // The first leaf of a chain begins with the empty string.
        let low = if low.key.is_empty() || keys.is_empty() { low } else { low.skipping(&keys) };
        let entries =
            keys.iter().zip(references).map(|(key, reference)| (byte_key::head(key, low.skip), reference)).collect();
        (low, entries)
    }

    fn low_record(node: BlockAt<'_, impl Medium>) -> u64 {
        node.low_record()
    }

    fn between(low: &NewByteLow, next: Option<&NewByteLow>) -> ByteRange {
        let uniform = shared(&low.key, next.map(|next| &next.key[..])) >= low.skip;
        ByteRange::new(low.skip, low.key.is_empty(), next.is_none(), uniform)
    }
}
