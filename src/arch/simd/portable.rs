//! For every other CPU, and for the checkers.

use super::{Compare, FortyBytes, LaneSearch, MOST, SharedEntries, WordLanes};
use crate::sync::Ordering;
use core::sync::atomic;

/// Eight bytes at a time.
pub(super) fn equal(bytes: &FortyBytes, byte: u8) -> u64 {
    let words = bytes.iter().enumerate();
    words.fold(0, |mask, (i, word)| mask | equal_in_word(word.load(Ordering::Relaxed), byte) << (8 * i))
}

#[inline]
pub(super) fn equal_in_word(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let differs = word ^ (u64::from(byte) * 0x0101_0101_0101_0101);
    // The upper bit of each byte that is zero, without carries from one byte to the next.
    let zero = !(((differs & LOW) + LOW) | differs | LOW);
    // The eight upper bits side by side, with that of the first byte lowest.
    (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// One word after the other.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Compare for Portable {
    /// All words are loaded at once and no branch depends on them. This is faster than binary search, which waits for
    /// one load after the other.
    #[inline]
    fn below(self, words: &WordLanes, word: i64) -> usize {
        words[1..].iter().map(|other| usize::from(other.load(Ordering::Relaxed).cast_signed() < word)).sum()
    }
}

#[inline(always)]
pub(super) fn search<S: LaneSearch>(search: S) -> S::Found {
    search.by(Portable)
}

pub(super) fn sorted(
    entries: &[[u64; 2]; MOST],
    wanted: u64,
    (from, to): (u64, u64),
    out: &mut [(u64, u64); MOST],
) -> usize {
    let mut count = 0;
    for (i, &[key, value]) in entries.iter().enumerate() {
        out[count] = (key, value);
        // No branch, because it cannot be predicted which ones are wanted.
        count += usize::from((wanted >> i & 1 == 1) & (from <= key) & (key <= to));
        if count == MOST {
            break;
        }
    }
    out[..count].sort_unstable_by_key(|(key, _)| *key);
    count
}

pub(super) fn sorted_shared(
    entries: &SharedEntries,
    wanted: u64,
    keys: (u64, u64),
    out: &mut [(u64, u64); MOST],
) -> usize {
    sorted(&copied(entries), wanted, keys, out)
}

/// The entries, one word after the other.
pub(super) fn copied(entries: &SharedEntries) -> [[u64; 2]; MOST] {
    core::array::from_fn(|i| [0, 1].map(|word| entries[2 * i + word].load(atomic::Ordering::Relaxed)))
}

pub(super) fn method() -> &'static str {
    "portable"
}
