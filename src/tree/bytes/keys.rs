//! What scans and bulk loads need to know of byte strings.

use crate::byte_key::ByteKey;
use crate::error::Broken;
use crate::medium::Medium;
use crate::node::{BlockAt, ByteEdges, ByteFence, ByteRange, ByteSpan, ByteStrings, Entry, record_of, separator_len};
use crate::pool::access::Access;
use crate::raw::KEY_MAX;
use crate::tree::keys::{NoLess, TreeKeys};

/// Greater than every key.
static END: [u8; KEY_MAX + 1] = [0xff; KEY_MAX + 1];

/// The strings from one on, up to another one or to the end.
#[derive(Debug, Default, Clone)]
pub struct Unread {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Option<Vec<u8>>,
}

impl TreeKeys for ByteStrings {
    type Unread = Unread;
    /// The fence key of the leaf to the left.
    type Least = Option<Vec<u8>>;

    const NAMES_ASCEND: bool = false;

    fn separators_ascend(pool: Access<'_, impl Medium>, named: &[(u64, u64)]) -> bool {
        // 0 names the start of all keys, which is no fence key.
        let fence = |&(name, _): &(u64, u64)| match name {
            0 => Some(Vec::new()),
            name => pool.is_leaf(name).then(|| pool.block(name).with_fence(<[u8]>::to_vec)),
        };
        let fences: Option<Vec<_>> = named.iter().map(fence).collect();
        fences.is_some_and(|fences| fences.is_sorted_by(|a, b| a < b))
    }

    fn ascends_from(node: BlockAt<'_, impl Medium>, _range: ByteRange, least: &mut Option<Vec<u8>>) -> bool {
        let fence = node.with_fence(<[u8]>::to_vec);
        let ascends = least.as_ref().is_none_or(|left| *left < fence);
        *least = Some(fence);
        ascends
    }

    fn everything() -> Unread {
        Unread::default()
    }

    fn span(Unread { from, to }: &Unread) -> ByteSpan<'_> {
        ByteSpan { from, to: to.as_deref() }
    }

    fn first(unread: &Unread) -> ByteKey<'_> {
        ByteKey::at(&unread.from)
    }

    fn last(unread: &Unread) -> ByteKey<'_> {
        ByteKey::before(unread.to.as_deref().unwrap_or(&END))
    }

    fn check_fence(node: BlockAt<'_, impl Medium>) -> Result<(), Broken> {
        node.check_fence()
    }

    fn prefetch_entries(pool: Access<'_, impl Medium>, entries: &[Entry]) {
        entries.iter().for_each(|entry| pool.prefetch_record(record_of(entry.1)));
    }

    fn beyond(mut unread: Unread, edges: &ByteEdges) -> Result<Option<Unread>, NoLess> {
        let high = edges.high.as_ref().filter(|high| unread.to.as_ref().is_none_or(|to| *high < to));
        let Some(high) = high else { return Ok(None) };
        if *high <= unread.from {
            return Err(NoLess);
        }
        high.clone_into(&mut unread.from);
        Ok(Some(unread))
    }

    fn before(mut unread: Unread, edges: &ByteEdges) -> Result<Option<Unread>, NoLess> {
        if edges.low <= unread.from {
            return Ok(None);
        }
        if unread.to.as_ref().is_some_and(|to| edges.low >= *to) {
            return Err(NoLess);
        }
        edges.low.clone_into(unread.to.get_or_insert_default());
        Ok(Some(unread))
    }

    fn into_ends(Unread { from, to }: Unread) -> (Vec<u8>, Option<Vec<u8>>) {
        (from, to)
    }

    fn from_ends(from: Vec<u8>, to: Option<Vec<u8>>) -> Unread {
        Unread { from, to }
    }

    fn behind(key: &[u8]) -> Option<Vec<u8>> {
        let mut behind = Vec::with_capacity(key.len() + 1);
        behind.extend_from_slice(key);
        behind.push(0);
        Some(behind)
    }

    #[inline]
    fn close(edges: &ByteEdges, entries: &[Entry]) -> u64 {
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

    #[inline(always)]
    fn has_head(edges: &ByteEdges, head: u64, key: &[u8]) -> bool {
        edges.has_head(key, head)
    }

    fn owns(ByteEdges { low, high, .. }: &ByteEdges, key: &[u8]) -> bool {
        **low <= *key && high.as_ref().is_none_or(|high| *key < **high)
    }

    fn first_fence() -> ByteFence {
        ByteFence::default()
    }

    fn tail_fence() -> Option<ByteFence> {
        None
    }

    fn is_of_tail(_key: &Vec<u8>) -> bool {
        false
    }

    fn ascend(one: &Vec<u8>, next: &Vec<u8>) -> bool {
        one < next
    }

    fn fence(last: &Vec<u8>, first: &Vec<u8>) -> ByteFence {
        ByteFence { key: first[..separator_len(last, first)].to_vec(), skip: 0 }
    }

    fn stored(fence: ByteFence, pairs: Vec<(Vec<u8>, u64)>) -> (ByteFence, Vec<Entry>) {
        let (keys, references): (Vec<Vec<u8>>, Vec<u64>) = pairs.into_iter().unzip();
        // The first leaf of a chain begins with the empty string.
        let fence = if fence.key.is_empty() || keys.is_empty() { fence } else { fence.skipping(&keys) };
        let entries = keys.iter().zip(references).map(|(key, reference)| (fence.head(key), reference)).collect();
        (fence, entries)
    }

    fn fence_record(node: BlockAt<'_, impl Medium>) -> u64 {
        node.fence_record()
    }

    fn cut_tail(leaves: &mut Vec<(u64, u64)>) -> Option<Option<u64>> {
        (!leaves.is_empty()).then_some(None)
    }

    fn between(fence: &ByteFence, next: Option<&ByteFence>) -> ByteRange {
        fence.range_to(next)
    }
}
