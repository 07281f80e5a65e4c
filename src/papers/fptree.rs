//! FPTree's leaves: unsorted, with a bitmap and fingerprints in the header line.
//!
//! ```text
//! line 0   | next 8 | low 8 | bitmap 8 | fingerprints 32 | (unused) 8 |
//! line 1   | slot 0: key 8, value 8 | slot 1 | slot 2 | slot 3 |
//! line 2   | slot 4 | ...
//! ```
//!
//! - **N3** A slot holds an entry if its bit is set and its key is owned. The keys of these slots differ, and their
//!   fingerprints are those of the keys. (So N2 holds for slots whose bit is set; the keys of other slots mean
//!   nothing.)
//!
//! The store of the bitmap commits an insert, a removal, and the entries that a merge adds. Entries that a split leaves
//! behind are no longer owned; their bits are cleared before their slots are used again.

use crate::arch::simd;
use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};
use crate::node::fingerprints::{Hash, SlotSet, each};
use crate::node::layout::{Checked, Layout, NewNode, sound};
use crate::node::slots::{key_at, value_at};
use crate::node::space::{InPlace, SplitInPlace};
use crate::node::unsorted::{self, Pairs};
use crate::node::{
    BlockAt, Entry, IndexKind, KeyRange, LOW, Linear, NEXT, Node, NodeAt, PER_LINE, SLOT, WordNode, Words, slots,
    sorted,
};
use crate::sync::{AtomicU64, Ordering};

/// An unsorted leaf of `SLOTS` entries, 32 at most: two lines flushed and two fences per insert, one of each per update
/// and removal.
///
/// An update replaces the value in its slot, because values are words here; FPTree writes a second entry and swaps two
/// bits.
///
/// # Source
///
/// Oukid, Lasperas, Nica, Willhalm, Lehner: "FPTree: A Hybrid SCM-DRAM Persistent and Concurrent B-Tree for Storage
/// Class Memory", SIGMOD 2016, in the size that Circ-Tree's section 6.1 compares with.
///
/// # As printed
///
/// With `PRINTED`, an insert flushes three times: "to successively persist the newly-inserted KV pair, new fingerprint
/// and updated bitmap" (Circ-Tree, section 6.2). Without it, fingerprint and bitmap are flushed together, because they
/// are in one line, which is written back as a whole.
///
/// # What differs
///
/// In both forms an update is made in place, and a split copies the greater half only. FPTree copies the whole leaf,
/// and then clears half of the bits in each of the two.
#[derive(Debug, Clone, Copy)]
pub struct Fingerprint<const SLOTS: usize = 32, const PRINTED: bool = false>;

const BITMAP: u64 = 16;
const PRINTS: u64 = 24;
/// Fingerprints in the header line.
const MOST: usize = 32;

impl<const SLOTS: usize, const PRINTED: bool> Node for Fingerprint<SLOTS, PRINTED> {
    const LAYOUT: u16 = if PRINTED { 18 } else { 11 };
    const NAME: &'static str = if PRINTED { "fingerprint_printed" } else { "fingerprint" };
    const IS_OWN: bool = true;
    const SLOTS: usize = {
        assert!(SLOTS >= 4 && SLOTS <= MOST, "a header line has room for 32 fingerprints");
        SLOTS
    };
    const BYTES: u64 = sorted::bytes(SLOTS);

    type Keys = Words;
    type Ops = Self;
    type Space = InPlace;
}

impl<const SLOTS: usize, const PRINTED: bool> WordNode for Fingerprint<SLOTS, PRINTED> {
    const INDEX: IndexKind = IndexKind::Volatile;
    type Inner = Linear<SLOTS>;
}

impl<const SLOTS: usize, const PRINTED: bool> Fingerprint<SLOTS, PRINTED> {
    const ALL: SlotSet = (1 << SLOTS) - 1;

    /// The slots with this fingerprint.
    #[inline]
    fn matching(node: BlockAt<'_, impl Medium>, print: u8) -> SlotSet {
        let mut words = [0; MOST / 8];
        node.load_words(PRINTS, &mut words);
        words.iter().rev().fold(0, |slots, &word| slots << 8 | simd::equal_in_word(word, print))
    }

    fn print(node: BlockAt<'_, impl Medium>, slot: usize) -> u8 {
        (node.load(PRINTS + slot as u64 / 8 * 8) >> (slot % 8 * 8)) as u8
    }

    fn set_print(node: BlockAt<'_, impl Medium>, slot: usize, print: u8) {
        let word = PRINTS + slot as u64 / 8 * 8;
        let shift = slot % 8 * 8;
        node.store(word, node.load(word) & !(0xff << shift) | u64::from(print) << shift);
    }

    /// The slots that hold an entry, read from the medium.
    fn owned(node: BlockAt<'_, impl Medium>, range: KeyRange) -> impl Iterator<Item = usize> {
        each(node.load(BITMAP) & Self::ALL).filter(move |&slot| range.contains(slots::key(node, slot)))
    }

    /// Stores the bitmap; durable when it returns.
    fn commit(node: BlockAt<'_, impl Medium>, used: SlotSet) {
        node.store(BITMAP, used);
        node.flush(BITMAP, 8, Step::BitmapClear);
        node.fence(Step::BitmapClear);
    }
}

/// A place is a slot number.
impl<const SLOTS: usize, const PRINTED: bool> Layout for Fingerprint<SLOTS, PRINTED> {
    type Node = Self;
    /// The slots that hold an entry.
    type Hints = AtomicU64;

    #[inline]
    fn len(hints: &AtomicU64) -> usize {
        hints.load(Ordering::Relaxed).count_ones() as usize
    }

    #[inline]
    fn prefetch(node: BlockAt<'_, impl Medium>, _key: u64) {
        node.prefetch(0, LINE);
    }

    #[inline]
    fn search(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Result<usize, usize> {
        let used = node.hints.load(Ordering::Relaxed);
        let candidates = Self::matching(*node, Hash::of_key(key).print()) & used;
        match each(candidates).find(|&slot| slots::key(*node, slot) == key) {
            Some(slot) => Ok(slot),
            // A damaged or torn bitmap may have no empty slot: then any slot will do.
            None => Err(((!used).trailing_zeros() as usize).min(SLOTS - 1)),
        }
    }

    #[inline]
    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64 {
        node.load(value_at(place))
    }

    fn entries(node: NodeAt<'_, Self, impl Medium>, keys: (u64, u64), out: &mut Vec<Entry>) -> usize {
        let mut pairs: Pairs = [[0; 2]; simd::MOST];
        node.load_words(key_at(0), &mut pairs.as_flattened_mut()[..2 * SLOTS]);
        unsorted::sorted_entries(&pairs, node.hints.load(Ordering::Relaxed), keys, out)
    }

    fn fill(node: NodeAt<'_, Self, impl Medium>, NewNode { low, next, entries, .. }: NewNode) {
        let used = ((1u64 << entries.len()) - 1) & Self::ALL;
        node.store(NEXT, next);
        node.store(LOW, low);
        node.store(BITMAP, used);
        for (slot, &(key, value)) in entries.iter().enumerate() {
            node.store_pair(key_at(slot), [key, value]);
            Self::set_print(*node, slot, Hash::of_key(key).print());
        }
        node.flush(0, key_at(entries.len()), Step::NodeFill);
        node.hints.store(used, Ordering::Relaxed);
    }

    fn insert(node: NodeAt<'_, Self, impl Medium>, place: usize, (key, value): Entry) {
        node.store_pair(key_at(place), [key, value]);
        node.flush(key_at(place), SLOT, Step::BitmapSlot);
        node.fence(Step::BitmapSlot);
        Self::set_print(*node, place, Hash::of_key(key).print());
        if PRINTED {
            // Crash: a slot whose bit is not set. The fence does for order, too.
            node.flush(PRINTS + place as u64 / 8 * 8, 8, Step::BitmapPrint);
            node.fence(Step::BitmapPrint);
        } else {
            node.order(Step::BitmapPrint);
        }
        let used = node.hints.load(Ordering::Relaxed) | 1 << place;
        node.store(BITMAP, used);
        node.flush(BITMAP, 8, Step::BitmapInsert);
        node.hints.store(used, Ordering::Relaxed);
    }

    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, value: u64) {
        node.store(value_at(place), value);
        node.flush(value_at(place), 8, Step::BitmapUpdate);
    }

    fn remove(node: NodeAt<'_, Self, impl Medium>, _range: KeyRange, place: usize) {
        let used = node.hints.load(Ordering::Relaxed) & !(1 << place);
        node.store(BITMAP, used);
        node.flush(BITMAP, 8, Step::BitmapRemove);
        node.hints.store(used, Ordering::Relaxed);
    }

    fn recover(node: NodeAt<'_, Self, impl Medium>, range: KeyRange) -> Result<(), Broken> {
        sound::<Self>(*node, range)?;
        let used = Self::owned(*node, range).fold(0, |used, slot| used | 1 << slot);
        if used != node.load(BITMAP) {
            Self::commit(*node, used);
        }
        node.hints.store(used, Ordering::Relaxed);
        Ok(())
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        let keys = unsorted::distinct_keys(node, Self::owned(node, range), key_at).map_err(&mut *report);
        let keys = keys.ok()?;
        if let Some(&(_, slot)) = keys.iter().find(|&&(key, slot)| Self::print(node, slot) != Hash::of_key(key).print())
        {
            report(node.broken(key_at(slot), "N3: a fingerprint of another key"));
            return None;
        }
        Some(unsorted::checked(node, keys, value_at))
    }
}

/// A batch changes one entry after the other, because the bitmap does not record the order in which its bits were set.
impl<const SLOTS: usize, const PRINTED: bool> SplitInPlace for Fingerprint<SLOTS, PRINTED> {
    fn prefill(node: NodeAt<'_, Self, impl Medium>, _wider: KeyRange, entries: &[Entry]) {
        let mut used = node.hints.load(Ordering::Relaxed);
        let mut lines = 0;
        for &(key, value) in entries {
            let slot = ((!used).trailing_zeros() as usize).min(SLOTS - 1);
            used |= 1 << slot;
            lines |= 1 << (slot / PER_LINE);
            node.store_pair(key_at(slot), [key, value]);
            Self::set_print(*node, slot, Hash::of_key(key).print());
        }
        each(lines).for_each(|line| node.flush(key_at(line * PER_LINE), LINE, Step::BitmapPrefill));
        if lines != 0 {
            // The slots may hold keys that are owned, so the bits must wait for the entries.
            node.fence(Step::BitmapPrefill);
        }
        // Crash: entries that are not owned yet. The same store clears the bits that a split left behind. No flush: the
        // link that commits is in this line, and comes after the caller's fence.
        node.store(BITMAP, used);
        node.hints.store(used, Ordering::Relaxed);
    }

    fn truncate_after_split(node: NodeAt<'_, Self, impl Medium>, &border: &u64, _moved: &[Entry]) {
        let stays = each(node.hints.load(Ordering::Relaxed)).filter(|&slot| slots::key(*node, slot) < border);
        let used = stays.fold(0, |used, slot| used | 1 << slot);
        // Crash: the bits of slots that are not owned; the next recovery clears them. They must be clear before one of
        // these slots is written to; otherwise the entry would be there before it is whole.
        Self::commit(*node, used);
        node.hints.store(used, Ordering::Relaxed);
    }
}
