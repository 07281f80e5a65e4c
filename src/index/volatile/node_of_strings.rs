//! A node whose separators are byte strings. It holds eight bytes of each of them, its *head*, and the names, by which
//! the strings are read where heads do not decide.
//!
//! ```text
//! words     4 lines: | skip 16, version 48 | head of slot 1 | head of slot 2 | ... | head of slot 31 |
//! children  4 lines: | slot 0 | slot 1 | ... | slot 31 |
//! prefix    1 line:  | the eight bytes before the heads | the eight before these | ... |
//! names     4 lines: | unused | name of slot 1 | name of slot 2 | ... | name of slot 31 |
//! ```
//!
//! All separators of the node (slot 0 has none) agree in their first `skip` bytes, its *prefix*. A head is what
//! [`head`] finds behind them, with the sign bit flipped. The greatest head is replaced by the one before it, so that
//! no head is [`PAD`].
//!
//! Of two strings with the prefix, the one with the smaller head is the smaller one. So a search for a key with the
//! prefix compares heads, and strings only if a head is equal to the key's head, which is a *tie*. A key without the
//! prefix lies before all separators or behind all of them.
//!
//! A descent carries how many bytes of its key are *known*: the key and all separators of the node that it comes to
//! agree in so many first bytes, where zeros stand behind the ends of strings. These zeros keep the order of strings,
//! but may make two of them equal; then heads are equal, too, which is a tie. So known bytes need not be there.
//!
//! Mostly the prefix is no longer than what is known. If it is, the end of it, which the node holds, decides whether
//! the key has it. If it is longer by more than that end, a separator decides.
//!
//! The writer chooses `skip` from the content alone: when it fills a node, and when a separator comes that has another
//! prefix or would be in a tie with a neighbour. It is the least number that avoids ties between separators, less
//! [`SLACK`]. Where all numbers leave ties, they cost time.

use super::node::{InNodes, IndexNode, NodeSlots, PAD, SIGN, WIDTH};
use crate::arch;
use crate::arch::simd::{self, Compare};
use crate::entry::byte_key::{ByteKey, common_prefix, head};
use crate::index::separators::{Lows, Strings};
use crate::memory::Zero;
use crate::sync::{AtomicU64, Ordering};
use std::cmp;

/// The shift of `skip` in word 0; the bits below are the version. The version is never that large.
const SKIP: u32 = 48;

/// The most bytes that are skipped.
const MOST: usize = (1 << (64 - SKIP)) - 1;

/// Bytes in a head.
const HEAD: usize = size_of::<u64>();

/// How many bytes fewer than possible are skipped. A head then has `HEAD - SLACK` bytes in which separators that come
/// later may differ.
const SLACK: usize = 5;

/// How many times eight bytes of the prefix are in the node.
const PARTS: usize = arch::LINE / HEAD;

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct NodeOfStrings {
    words: simd::WordLanes,
    children: [AtomicU64; WIDTH],
    prefix: [AtomicU64; PARTS],
    names: [AtomicU64; WIDTH],
}

#[cfg(not(bristlecone_loom))]
const _: () = assert!(size_of::<NodeOfStrings>() == 3 * WIDTH * 8 + arch::LINE);

// SAFETY: the type consists of numbers, for which zero bytes are the value 0, and it has no destructor.
unsafe impl Zero for NodeOfStrings {
    fn zero() -> Self {
        let zero = |_| AtomicU64::new(0);
        let zeros = || core::array::from_fn(zero);
        Self { words: zeros(), children: zeros(), prefix: core::array::from_fn(zero), names: zeros() }
    }
}

/// How many bytes a node with this version skips.
#[inline(always)]
fn skip_in(version: u64) -> usize {
    (version >> SKIP) as usize
}

/// The word of a string that begins with the prefix.
#[inline(always)]
fn word_of(string: &[u8], skip: usize) -> u64 {
    head(string, skip).min(u64::MAX - 1) ^ SIGN
}

/// The eight bytes of a string that end `behind` times eight bytes before `skip`, as a number: fewer at its start, none
/// before that, and with zeros behind its end.
#[inline(always)]
fn part(string: &[u8], skip: usize, behind: usize) -> u64 {
    let end = skip.saturating_sub(HEAD * behind);
    let missing = HEAD.saturating_sub(end);
    head(string, end.saturating_sub(HEAD)).checked_shr(8 * missing as u32).unwrap_or(0)
}

/// The number of bytes behind the prefix in which two separators with these words agree, up to seven: the eighth one
/// does not count, because the greatest head is not the true one.
#[inline(always)]
fn agreement(one: u64, other: u64) -> usize {
    ((one ^ other) | 1).leading_zeros() as usize / 8
}

impl NodeOfStrings {
    #[inline(always)]
    fn word(&self, slot: usize) -> u64 {
        self.words[slot].load(Ordering::Relaxed)
    }

    /// The word behind a slot: `PAD` if it is the last one.
    #[inline(always)]
    fn next(&self, slot: usize) -> u64 {
        self.words.get(slot + 1).map_or(PAD, |word| word.load(Ordering::Relaxed))
    }

    /// How the prefix lies to a key that begins with its first `known` bytes, which are fewer than `skip`. It is equal
    /// to a key that begins with it.
    #[inline(never)]
    fn order_of_prefix<F: Lows>(&self, strings: &Strings<F>, key: &[u8], known: usize, skip: usize) -> cmp::Ordering {
        let parts = (skip - known).div_ceil(HEAD);
        let Some(parts) = self.prefix.get(..parts) else {
            return self.order_of_long_prefix(strings, key, known, skip);
        };
        // The bytes of the first part that come before `known` are equal. As with heads, the order of unequal parts is
        // that of the strings.
        for (behind, theirs) in parts.iter().enumerate().rev() {
            match theirs.load(Ordering::Relaxed).cmp(&part(key, skip, behind)) {
                cmp::Ordering::Equal => {}
                order => return order,
            }
        }
        // A key that ends before the prefix does is smaller, though zeros stood for its end.
        if key.len() < skip { cmp::Ordering::Greater } else { cmp::Ordering::Equal }
    }

    #[cold]
    #[inline(never)]
    fn order_of_long_prefix<F: Lows>(
        &self,
        strings: &Strings<F>,
        key: &[u8],
        known: usize,
        skip: usize,
    ) -> cmp::Ordering {
        let part = |string: &[u8]| known.min(string.len())..skip.min(string.len());
        strings.with(self.names[1].load(Ordering::Relaxed), |separator| separator[part(separator)].cmp(&key[part(key)]))
    }

    /// The slot of the greatest separator `<= key`, where `slot` is that of the greatest one with a smaller head, and
    /// the word of the next one is equal to that of the key.
    #[cold]
    #[inline(never)]
    fn settled<F: Lows>(&self, strings: &Strings<F>, key: ByteKey<'_>, slot: usize, word: u64) -> usize {
        // No word of a key is PAD, so the next one is not negative.
        let mut last = simd::below(&self.words, word.wrapping_add(1).cast_signed()) % WIDTH;
        let mut slot = slot;
        while slot < last {
            let middle = (slot + last).div_ceil(2);
            let order = strings.with(self.names[middle].load(Ordering::Relaxed), |string| key.order_of(string));
            if order == cmp::Ordering::Greater {
                last = middle - 1;
            } else {
                slot = middle;
            }
        }
        slot
    }

    fn skip(&self) -> usize {
        skip_in(self.word(0))
    }

    /// The node is open.
    fn set_skip(&self, skip: usize) {
        debug_assert!(!self.word(0).is_multiple_of(2) && skip <= MOST);
        let version = self.word(0) & ((1 << SKIP) - 1);
        self.words[0].store(version | (skip as u64) << SKIP, Ordering::Relaxed);
    }

    /// The word of slot 0 is the version, and its name is not one: they stay.
    fn set(&self, slot: usize, (word, name, child): (u64, u64, u64)) {
        if slot > 0 {
            self.set_word(slot, word);
            self.names[slot].store(name, Ordering::Relaxed);
        }
        self.set_child(slot, child);
    }

    fn get(&self, slot: usize) -> (u64, u64, u64) {
        (self.word(slot), self.names[slot].load(Ordering::Relaxed), self.child(slot))
    }

    /// Reads all separators of `len` slots and chooses how many bytes to skip.
    fn choose<F: Lows>(&self, strings: &Strings<F>, len: usize) {
        let separators: Vec<Vec<u8>> = (1..len).map(|slot| strings.copy(self.name(slot))).collect();
        let agreements = || separators.windows(2).map(|two| common_prefix(&two[0], &two[1]));
        let most = agreements().max().unwrap_or(0);
        let all = agreements().min().unwrap_or(0);
        let skip = match &separators[..] {
            // Its neighbours are not known. The later its head, the fewer keys have the same one.
            [single] => single.len().saturating_sub(HEAD).min(MOST),
            _ => most.saturating_sub(SLACK).min(all).min(MOST),
        };
        self.set_skip(skip);
        if let Some(first) = separators.first() {
            for (behind, word) in self.prefix.iter().enumerate() {
                word.store(part(first, skip, behind), Ordering::Relaxed);
            }
        }
        for (slot, separator) in (1..len).zip(&separators) {
            self.set_word(slot, word_of(separator, skip));
        }
    }

    /// Makes the word of a separator that was put at a slot between its neighbours, in a node with `len` slots.
    fn place<F: Lows>(&self, strings: &Strings<F>, slot: usize, len: usize) {
        let (skip, string) = (self.skip(), strings.copy(self.name(slot)));
        let (left, right) = (Some(slot - 1).filter(|&left| left > 0), Some(slot + 1).filter(|&right| right < len));
        let word = word_of(&string, skip);
        let is_tie = left.into_iter().chain(right).any(|other| self.word(other) == word);
        let has_prefix = || match (left, right) {
            // It is alone. There was no prefix.
            (None, None) => false,
            _ if skip == 0 => true,
            // What is between two strings with a prefix has it, too.
            (Some(_), Some(_)) => true,
            (Some(other), None) | (None, Some(other)) => {
                strings.with(self.name(other), |other| string.get(..skip).is_some_and(|start| other.starts_with(start)))
            }
        };
        if is_tie || !has_prefix() {
            self.choose(strings, len);
        } else {
            self.set_word(slot, word);
        }
    }
}

impl NodeSlots for NodeOfStrings {
    #[inline(always)]
    fn words(&self) -> &simd::WordLanes {
        &self.words
    }

    #[inline(always)]
    fn children(&self) -> &[AtomicU64; WIDTH] {
        &self.children
    }

    #[inline]
    fn name(&self, slot: usize) -> u64 {
        debug_assert!(slot > 0);
        self.names[slot].load(Ordering::Relaxed)
    }

    fn remove(&self, at: usize, len: usize) {
        for slot in at + 1..len {
            self.set(slot - 1, self.get(slot));
        }
        self.set_word(len - 1, PAD);
    }
}

impl<F: Lows> InNodes for Strings<F> {
    type Node = NodeOfStrings;
}

impl<F: Lows> IndexNode<Strings<F>> for NodeOfStrings {
    /// Why `known` holds for the child of the slot that it finds. All separators below that child lie between those of
    /// the slot and of the next one, and so does the key; a gap does, because its string does.
    ///
    /// What was known before is true of everything below this node, and stays true. If the slot is neither the first
    /// nor the last, both separators are here and agree in the prefix and some bytes behind it. Then everything between
    /// them begins with the same bytes, because the zeros behind the ends of strings keep their order.
    #[inline(always)]
    fn slot_of(
        &self,
        strings: &Strings<F>,
        key: ByteKey<'_>,
        known: &mut usize,
        version: u64,
        compare: impl Compare,
    ) -> usize {
        let (skip, bytes) = (skip_in(version), key.bytes());
        if skip > *known {
            match self.order_of_prefix(strings, bytes, *known, skip) {
                cmp::Ordering::Less => return compare.below(&self.words, PAD.cast_signed()) % WIDTH,
                cmp::Ordering::Equal => {}
                cmp::Ordering::Greater => return 0,
            }
        }
        let word = word_of(bytes, skip);
        // The result is less than WIDTH anyway; the remainder tells the compiler so.
        let mut slot = compare.below(&self.words, word.cast_signed()) % WIDTH;
        let mut next = self.next(slot);
        if next == word {
            slot = self.settled(strings, key, slot, word) % WIDTH;
            next = self.next(slot);
        }
        if slot > 0 && next != PAD {
            *known = (*known).max(skip + agreement(self.word(slot), next));
        }
        slot
    }

    fn relabel(&self, strings: &Strings<F>, slot: usize, name: u64) {
        self.names[slot].store(name, Ordering::Relaxed);
        self.place(strings, slot, self.len());
    }

    fn fill(&self, strings: &Strings<F>, entries: impl Iterator<Item = (u64, u64)>) {
        let mut len = 0;
        for (name, child) in entries {
            self.set(len, (0, name, child));
            len += 1;
        }
        self.truncate(len);
        self.choose(strings, len);
    }

    fn insert(&self, strings: &Strings<F>, at: usize, len: usize, (name, child): (u64, u64)) {
        for slot in (at..len).rev() {
            self.set(slot + 1, self.get(slot));
        }
        self.set(at, (0, name, child));
        self.place(strings, at, len + 1);
    }

    fn split(&self, strings: &Strings<F>, cut: usize, right: &Self) {
        for slot in cut..WIDTH {
            right.set(slot - cut, self.get(slot));
        }
        right.set_skip(self.skip());
        for (to, from) in right.prefix.iter().zip(&self.prefix) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.truncate(cut);
        right.truncate(WIDTH - cut);
        for (half, len) in [(self, cut), (right, WIDTH - cut)] {
            if (2..len).any(|slot| half.word(slot - 1) == half.word(slot)) {
                half.choose(strings, len);
            }
        }
    }

    fn absorb(&self, strings: &Strings<F>, right: &Self, low: u64) {
        let len = self.len();
        let both = len + right.len();
        for slot in len..both {
            let (name, child) = right.entry(slot - len, low);
            self.set(slot, (0, name, child));
        }
        self.choose(strings, both);
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
impl NodeOfStrings {
    /// Checks what the node keeps of its separators.
    pub(super) fn check<F: Lows>(&self, strings: &Strings<F>) -> Result<(), String> {
        let separators: Vec<Vec<u8>> = (1..self.len()).map(|slot| strings.copy(self.name(slot))).collect();
        let (Some(first), skip) = (separators.first(), self.skip()) else { return Ok(()) };
        if !separators.is_sorted_by(|a, b| a < b) {
            return Err("lows do not ascend".into());
        }
        if !separators.iter().all(|separator| separator.len() >= skip && separator[..skip] == first[..skip]) {
            return Err("a separator has another prefix".into());
        }
        let is_part = |(behind, word): (usize, &AtomicU64)| word.load(Ordering::Relaxed) == part(first, skip, behind);
        if !self.prefix.iter().enumerate().all(is_part) {
            return Err("the prefix is another".into());
        }
        let wrong = (1..).zip(&separators).find(|(slot, separator)| self.word(*slot) != word_of(separator, skip));
        wrong.map_or(Ok(()), |(slot, _)| Err(format!("the head of slot {slot} is another's")))
    }
}
