//! What leaves with unsorted entries have in common.

use super::layout::Checked;
use super::{
    BlockAt, Entry,
    fingerprints::{SlotSet, each},
};
use crate::arch::simd;
use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};

/// The pairs of a leaf, whether they are entries or not.
pub(crate) type Pairs = [[u64; 2]; simd::MOST];

/// Writes those of the `used` pairs whose keys lie in `from..=to` to the start of `out`, in ascending order, and
/// returns their number.
#[inline]
pub(crate) fn sorted_entries(pairs: &Pairs, used: SlotSet, keys: (u64, u64), out: &mut Vec<Entry>) -> usize {
    simd::sorted(pairs, used, keys, room(out))
}

/// The start of `out`, with room for the entries of a leaf.
#[inline]
pub(crate) fn room(out: &mut Vec<Entry>) -> &mut [Entry; simd::MOST] {
    if out.len() < simd::MOST {
        out.resize(simd::MOST, (0, 0));
    }
    out.first_chunk_mut().expect("it was made as long")
}

/// The keys of these slots in ascending order, with their slots; an error if a key is there twice.
pub(crate) fn distinct_keys(
    node: BlockAt<'_, impl Medium>,
    slots: impl Iterator<Item = usize>,
    key_at: impl Fn(usize) -> u64,
) -> Result<Vec<(u64, usize)>, Broken> {
    let mut keys: Vec<(u64, usize)> = slots.map(|slot| (node.load(key_at(slot)), slot)).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(key_twice(node, key_at(pair[1].1))),
        None => Ok(keys),
    }
}

/// A key that is also in another slot.
pub(crate) fn key_twice(node: BlockAt<'_, impl Medium>, word: u64) -> Broken {
    node.broken(word, "N3: a key twice in a leaf")
}

/// The entries at these keys and slots.
pub(crate) fn checked(
    node: BlockAt<'_, impl Medium>,
    keys: Vec<(u64, usize)>,
    value_at: impl Fn(usize) -> u64,
) -> Checked {
    let entries = keys.into_iter().map(|(key, slot)| (key, node.load(value_at(slot)))).collect();
    Checked { entries, ..Checked::default() }
}

/// Flushes the lines of a block that are set in a bitmask.
pub(crate) fn flush_lines(node: BlockAt<'_, impl Medium>, lines: u64, step: Step) {
    each(lines).for_each(|line| node.flush(line as u64 * LINE, LINE, step));
}
