//! Putting the entries of a batch in order.

use crate::arch::simd::{self, MOST};
use crate::node::{Entry, last_of_each};

/// Entries per part that should be in a part of many: few enough that nearly no part has more than [`MOST`].
const PART: usize = 16;

/// The entries in the order of their keys; of equal keys, only the last one.
///
/// Sorting a thousand entries by comparisons takes a tenth of the time of their inserts, mostly for branches that
/// nobody can predict. So they are first dealt out to parts by the upper bits of their keys, and each part is sorted
/// without branches. If the keys are not spread evenly, some parts are too large for that, and are sorted in the usual
/// way.
pub(super) fn in_order(entries: &[Entry]) -> Vec<Entry> {
    let mut few = Few::new();
    let mut all = Vec::with_capacity(entries.len());
    if entries.len() <= MOST {
        few.append_sorted(entries, &mut all);
        return all;
    }
    let key = |entry: &Entry| entry.0;
    let (least, most) =
        entries.iter().map(key).fold((u64::MAX, 0), |(least, most), key| (least.min(key), most.max(key)));
    let parts = (entries.len() / PART) as u64;
    // The keys as fractions of a range that is less than twice theirs.
    let shift = (most - least).leading_zeros() % u64::BITS;
    let part_of = |entry: &Entry| ((u128::from((entry.0 - least) << shift) * u128::from(parts)) >> u64::BITS) as usize;
    let mut ends = vec![0; parts as usize];
    entries.iter().for_each(|entry| ends[part_of(entry)] += 1);
    let mut end = 0;
    for place in &mut ends {
        end += std::mem::replace(place, end);
    }
    let mut dealt = vec![(0, 0); entries.len()];
    for entry in entries {
        let place = &mut ends[part_of(entry)];
        dealt[*place] = *entry;
        *place += 1;
    }
    let mut start = 0;
    for end in ends {
        few.append_sorted(&dealt[start..end], &mut all);
        start = end;
    }
    all
}

/// Where up to [`MOST`] entries are sorted.
pub(super) struct Few {
    pairs: [[u64; 2]; MOST],
    sorted: [Entry; MOST],
}

impl Few {
    pub(super) fn new() -> Self {
        Self { pairs: [[0; 2]; MOST], sorted: [(0, 0); MOST] }
    }

    /// The entries in the order of their keys. `None` if they are too many, or if a key is there twice.
    #[inline]
    pub(super) fn sort(&mut self, entries: &[Entry]) -> Option<&[Entry]> {
        let pairs = self.pairs.get_mut(..entries.len())?;
        pairs.iter_mut().zip(entries).for_each(|(pair, &(key, value))| *pair = [key, value]);
        let sorted = &mut self.sorted;
        sorted[..entries.len()].fill((0, 0));
        let count = simd::sorted(&self.pairs, (1 << entries.len()) - 1, (0, u64::MAX), sorted);
        // One of equal keys is missing, and its place, which is not the first one, holds 0; or equal keys are side by
        // side.
        Some(&sorted[..count]).filter(|sorted| sorted.is_sorted_by(|(key, _), (next, _)| key < next))
    }

    fn append_sorted(&mut self, entries: &[Entry], all: &mut Vec<Entry>) {
        match self.sort(entries) {
            Some(sorted) => all.extend_from_slice(sorted),
            None => all.extend(last_of_each(entries.to_vec())),
        }
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    /// Keys from a range, with values that tell which of equal keys was the last one.
    fn entries(count: usize, seed: u64, key: impl Fn(u64) -> u64) -> Vec<Entry> {
        let mut random = Random(seed);
        (0..count).map(|i| (key(random.next()), i as u64)).collect()
    }

    #[test]
    fn the_last_of_equal_keys_stays_and_keys_ascend() {
        let spreads: [fn(u64) -> u64; 8] = [
            |random| random,
            |random| random % 50,
            |random| random % 3000 + 7,
            |random| u64::MAX - random % 3000,
            // Nearly all of them in one part.
            |random| if random % 100 == 0 { random } else { random % 1000 },
            |random| if random % 2 == 0 { 0 } else { u64::MAX },
            |_| 5,
            |random| random << 52,
        ];
        for count in [0, 1, 2, 15, 16, 17, 39, 40, 41, 42, 100, 999, 1000, 5000] {
            for (seed, key) in (1..).zip(spreads) {
                let given = entries(count, seed, key);
                let expected: Vec<Entry> = BTreeMap::from_iter(given.iter().copied()).into_iter().collect();
                assert_eq!(in_order(&given), expected, "{count} entries, {seed}");
                let mut few = Few::new();
                let sorted = few.sort(&given);
                assert_eq!(sorted.is_some(), count <= MOST && expected.len() == count, "{count} entries, {seed}");
                assert!(sorted.is_none_or(|sorted| sorted == expected));
            }
        }
    }
}
