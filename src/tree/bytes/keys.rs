//! What scans and bulk loads need to know of byte strings.

use crate::byte_key::{ByteKey, common_prefix};
use crate::codec::KEY_MAX;
use crate::medium::Medium;
use crate::node::{ByteFence, ByteRange, ByteSpan, ByteStrings, Entry, ReadEntry, record_of};
use crate::tree::keys::TreeKeys;

/// Greater than every key.
static END: [u8; KEY_MAX + 1] = [0xff; KEY_MAX + 1];

/// The strings from one on, up to another one or to the end.
#[derive(Debug, Default)]
pub struct Unread {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Option<Vec<u8>>,
}

/// The fence keys of a leaf and of its right neighbour.
#[derive(Debug, Default)]
pub struct Edges {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

impl TreeKeys for ByteStrings {
    type Owned = Vec<u8>;
    type Unread = Unread;
    type Edges = Edges;
    /// The fence key of the leaf to the left.
    type Least = Option<Vec<u8>>;

    const HAS_RECORDS: bool = true;
    const NAMES_ASCEND: bool = false;

    fn ascends_from<M: Medium>(
        pool: Self::Access<'_, M>,
        at: u64,
        _range: ByteRange,
        least: &mut Option<Vec<u8>>,
    ) -> bool {
        let fence = pool.with_fence(at, <[u8]>::to_vec);
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

    fn note_edges<M: Medium>(pool: Self::Access<'_, M>, at: u64, _range: ByteRange, next: u64, edges: &mut Edges) {
        pool.with_fence(at, |fence| fence.clone_into(&mut edges.low));
        if pool.is_leaf(next) {
            pool.with_fence(next, |fence| fence.clone_into(edges.high.get_or_insert_default()));
        } else {
            edges.high = None;
        }
    }

    fn prefetch_entries<M: Medium>(pool: Self::Access<'_, M>, entries: &[Entry]) {
        entries.iter().for_each(|entry| pool.records().prefetch(record_of(entry.1)));
    }

    fn beyond(mut unread: Unread, edges: &Edges) -> Option<Unread> {
        let high = edges.high.as_ref().filter(|high| unread.to.as_ref().is_none_or(|to| *high < to))?;
        high.clone_into(&mut unread.from);
        Some(unread)
    }

    fn before(mut unread: Unread, edges: &Edges) -> Option<Unread> {
        (edges.low > unread.from).then(|| {
            edges.low.clone_into(unread.to.get_or_insert_default());
            unread
        })
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
        ByteFence { key: first[..common_prefix(last, first) + 1].to_vec(), skip: 0 }
    }

    fn stored(fence: ByteFence, pairs: Vec<(Vec<u8>, u64)>) -> (ByteFence, Vec<Entry>) {
        let (keys, references): (Vec<Vec<u8>>, Vec<u64>) = pairs.into_iter().unzip();
        // The first leaf of a chain begins with the empty string.
        let fence = if fence.key.is_empty() || keys.is_empty() { fence } else { fence.skipping(&keys) };
        let entries = keys.iter().zip(references).map(|(key, reference)| (fence.head(key), reference)).collect();
        (fence, entries)
    }

    fn record(value: u64) -> u64 {
        record_of(value)
    }

    fn fence_record<M: Medium>(pool: Self::Access<'_, M>, at: u64) -> u64 {
        pool.fence_record(at)
    }

    fn are_names(_leaves: &[(u64, u64)]) -> bool {
        true
    }

    fn cut_tail(leaves: &mut Vec<(u64, u64)>) -> Option<Option<u64>> {
        (!leaves.is_empty()).then_some(None)
    }

    fn between(fence: &ByteFence, next: Option<&ByteFence>) -> ByteRange {
        fence.range_to(next)
    }
}
