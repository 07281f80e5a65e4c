//! The entries of a leaf in the order of their keys: by their heads, and where heads are equal, by their records.

use super::entry::record;
use crate::arch::simd;
use crate::medium::Medium;
use crate::node::ByteSpan;
use crate::node::fingerprints::{SlotSet, each};
use crate::node::unsorted::Pairs;
use crate::node::{BlockAt, Entry};
use crate::pool::access::Access;
use std::cmp::Ordering;

/// Writes those of the `used` pairs whose keys lie in a span to the start of `out`, in ascending order, and returns
/// their number.
pub(super) fn sorted(
    node: BlockAt<'_, impl Medium>,
    pairs: &Pairs,
    used: SlotSet,
    keys: ByteSpan<'_>,
    out: &mut Vec<Entry>,
) -> usize {
    let skip = node.meta().skip;
    let first = if keys.from.is_empty() { 0 } else { node.head(skip, keys.from) };
    let last = keys.to.map_or(u64::MAX, |to| node.head(skip, to));
    if out.len() < simd::MOST {
        out.resize(simd::MOST, (0, 0));
    }
    let sorted: &mut [Entry; simd::MOST] = out.first_chunk_mut().expect("it was made as long");
    sorted.fill((0, 0));
    let mut count = simd::sorted(pairs, used, (first, last), sorted);
    let is_tie = |two: &[Entry]| two[0].0 == two[1].0;
    if sorted[..count].iter().any(|entry| entry.1 == 0) || sorted[..count].windows(2).any(is_tie) {
        // Entries with equal heads took the same place, or are side by side in any order.
        count = 0;
        for slot in each(used).filter(|&slot| (first..=last).contains(&pairs[slot][0])) {
            sorted[count] = (pairs[slot][0], pairs[slot][1]);
            count += 1;
        }
        sort_by_records(node.pool, &mut sorted[..count]);
    }
    // Only heads were compared with the ends of the span. An entry that has not the head of its key stays, because the
    // read of its key reports it.
    let has_its_head = |entry: &Entry| node.head_of(skip, record(entry.1)) == entry.0;
    let below = |entry: &Entry, end: &[u8]| node.pool.order_to(record(entry.1), end) == Ordering::Less;
    let start = match keys.from {
        [] => 0,
        from => sorted[..count]
            .iter()
            .take_while(|entry| entry.0 == first && below(entry, from) && has_its_head(entry))
            .count(),
    };
    if let Some(to) = keys.to {
        let beyond = |entry: &&Entry| entry.0 == last && !below(entry, to) && has_its_head(entry);
        count -= sorted[start..count].iter().rev().take_while(beyond).count();
    }
    sorted.copy_within(start..count, 0);
    count - start
}

/// Sorts entries by head and, where heads are equal, by key.
fn sort_by_records(pool: Access<'_, impl Medium>, entries: &mut [Entry]) {
    entries.sort_unstable_by_key(|entry| entry.0);
    for equal in entries.chunk_by_mut(|one, next| one.0 == next.0).filter(|equal| equal.len() > 1) {
        let mut keyed: Vec<(Vec<u8>, Entry)> =
            equal.iter().map(|&entry| (pool.key_of(record(entry.1)), entry)).collect();
        keyed.sort_unstable();
        equal.iter_mut().zip(keyed).for_each(|(entry, (_, sorted))| *entry = sorted);
    }
}
