//! Leaves of byte strings. A slot has the head of a key and points to the record of its key and its value.
//!
//! ```text
//! line 0      | next 8 | layout 16, skip 16, length of the low 32 | low, up to 48 bytes, or its record 8 |
//! line 1      | slot 0: head 8, reference 8 | slot 1 | slot 2 | slot 3 |
//!   ...         10 lines, 36 slots
//! reference   | fingerprint 8 | home 8 | offset of the record 48 |        0: the slot is empty
//! record      | length 32, CRC 32 | length of the key, 1 to 3 bytes | key | value |
//! shadow      | version lock 8 | lags, uniform, last, first, skip | 36 fingerprints | count 1 |     one line
//! ```
//!
//! `docs/design.md`, section 3, has the stores of each change, and the rule by which a slot counts.

pub(crate) mod entry;
pub(crate) mod header;
pub(super) mod range;
mod sort;

use crate::entry::byte_key::ByteKey;
use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};
use crate::node::deferred::{Defer, Deferred};
use crate::node::fingerprints::{SlotSet, each};
use crate::node::layout::{Checked, Layout, NewNode, Policy};
use crate::node::prints::{MOST, Prints, nearest};
use crate::node::space::{InPlace, SplitInPlace};
use crate::node::unsorted;
use crate::node::{BlockAt, ByteSpan, ByteStrings, Entry, NEXT, NewByteLow, Node, NodeAt, PER_LINE, SLOT};
use entry::{home, print, record, tag};
use header::{LAYOUT, META};
pub(crate) use range::ByteRange;

/// An unsorted leaf of `SLOTS` byte strings: two lines flushed and two fences per change, besides further lines of a
/// long record.
///
/// # Source
///
/// Bristlecone's own. Heads of eight bytes behind a common prefix are from FB+-tree (arXiv 2503.23397), fingerprints
/// from FPTree (Oukid et al., SIGMOD 2016).
#[derive(Debug, Clone, Copy)]
pub struct ByteLeaf<const SLOTS: usize = 36>;

impl<const SLOTS: usize> Node for ByteLeaf<SLOTS> {
    const LAYOUT: u16 = LAYOUT;
    const NAME: &'static str = "bytes";
    const IS_OWN: bool = true;
    const SLOTS: usize = {
        assert!(SLOTS <= MOST, "a shadow has room for 39 fingerprints");
        assert!(SLOTS >= PER_LINE && SLOTS.is_multiple_of(PER_LINE), "whole lines: 4, 8, 12, ... slots");
        SLOTS
    };
    const BYTES: u64 = LINE + SLOTS as u64 * SLOT;

    type Keys = ByteStrings;
    type Ops = Self;
    type Space = InPlace;

    const POLICY: Policy = Policy::IN_SNAPSHOTS;
}

#[inline]
fn head_at(slot: usize) -> u64 {
    LINE + slot as u64 * SLOT
}

/// The offset of the reference of a slot. The reference decides whether the slot counts.
#[inline]
fn reference_at(slot: usize) -> u64 {
    head_at(slot) + 8
}

impl<const SLOTS: usize> ByteLeaf<SLOTS> {
    const LINES: usize = SLOTS / PER_LINE;

    /// An empty slot for a key with this tag. `empty` has at least one slot.
    #[inline]
    fn choose(empty: SlotSet, tag: u64) -> usize {
        // With a damaged shadow there may be no empty slot: then any slot will do.
        nearest(empty, 0b1111 << (home(tag, Self::LINES) * PER_LINE)).min(SLOTS - 1)
    }

    /// The slots whose references have this tag, with these references.
    #[inline]
    fn candidates(node: NodeAt<'_, Self, impl Medium>, tag: u64) -> impl Iterator<Item = (usize, u64)> {
        each(node.hints.matching::<SLOTS>((tag >> 8) as u8))
            .map(move |slot| (slot, node.load(reference_at(slot))))
            .filter(move |(_, reference)| reference >> 48 == tag)
    }

    /// Stores entries into empty slots that do not count yet, and records their fingerprints; returns the lines of
    /// slots that it wrote to.
    fn scatter(node: NodeAt<'_, Self, impl Medium>, entries: impl Iterator<Item = Entry>) -> u64 {
        let mut empty = node.hints.empty::<SLOTS>();
        let mut lines = 0;
        node.hints.fill_all(entries.map(|(head, reference)| {
            let slot = Self::choose(empty, reference >> 48);
            empty &= !(1 << slot);
            node.store(head_at(slot), head);
            // A slot counts by its reference.
            node.order(Step::ByteInsertReference);
            node.store(reference_at(slot), reference);
            lines |= 1 << (slot / PER_LINE);
            (slot, print(reference))
        }));
        lines
    }

    /// Empties the slots of entries. Returns the lines of slots that it wrote to.
    fn empty(node: NodeAt<'_, Self, impl Medium>, entries: &[Entry]) -> u64 {
        let mut lines = 0;
        for &(_, reference) in entries {
            let slot = Self::candidates(node, reference >> 48).find(|&(_, found)| found == reference);
            if let Some((slot, _)) = slot {
                node.store(reference_at(slot), 0);
                node.hints.vacate(slot);
                lines |= 1 << (slot / PER_LINE);
            }
        }
        lines
    }

    /// The entries that count, in no order.
    fn stored(node: BlockAt<'_, impl Medium>) -> impl Iterator<Item = (usize, Entry)> {
        (0..SLOTS)
            .map(move |slot| (slot, (node.load(head_at(slot)), node.load(reference_at(slot)))))
            .filter(|(_, (_, reference))| *reference != 0)
    }
}

/// A place is a slot number. A value is a reference.
impl<const SLOTS: usize> Layout for ByteLeaf<SLOTS> {
    type Node = Self;
    type Hints = Prints;

    fn level(node: BlockAt<'_, impl Medium>) -> Result<u16, Broken> {
        if node.load(META) as u16 == LAYOUT {
            Ok(0)
        } else {
            Err(node.broken(META, "N1: not a node of the tree's layout"))
        }
    }

    #[inline]
    fn len(hints: &Prints) -> usize {
        hints.count()
    }

    #[inline]
    fn prefetch(node: BlockAt<'_, impl Medium>, key: ByteKey<'_>) {
        let line = home(tag(key.hash()), Self::LINES) as u64;
        node.prefetch(LINE + line * LINE, LINE);
    }

    #[inline]
    fn prefetch_value(node: NodeAt<'_, Self, impl Medium>, key: ByteKey<'_>) {
        if let Some((_, reference)) = Self::candidates(node, tag(key.hash())).next() {
            node.pool.prefetch_record(record(reference));
        }
    }

    #[inline]
    fn prefetch_slot(node: BlockAt<'_, impl Medium>, slot: usize) {
        node.pool.prefetch_record(record(node.load(reference_at(slot))));
    }

    #[inline]
    fn search(node: NodeAt<'_, Self, impl Medium>, key: ByteKey<'_>) -> Result<usize, usize> {
        let tag = tag(key.hash());
        for (slot, reference) in Self::candidates(node, tag) {
            if node.pool.has_key(record(reference), key.bytes()) {
                return Ok(slot);
            }
        }
        Err(Self::choose(node.hints.empty::<SLOTS>(), tag))
    }

    #[inline]
    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64 {
        node.load(reference_at(place))
    }

    fn entries(node: NodeAt<'_, Self, impl Medium>, keys: ByteSpan<'_>, out: &mut Vec<Entry>) -> usize {
        let mut pairs = [[0; 2]; crate::arch::simd::MOST];
        node.load_words(LINE, pairs.as_flattened_mut().split_at_mut(2 * SLOTS).0);
        // While the leaf is written to, a reference may be gone that the fingerprint still tells of.
        let used =
            each(node.hints.used::<SLOTS>()).filter(|&slot| pairs[slot][1] != 0).fold(0, |used, slot| used | 1 << slot);
        sort::sorted(*node, &pairs, used, keys, out)
    }

    fn fill(node: NodeAt<'_, Self, impl Medium>, NewNode { low, next, entries, zeroed, .. }: NewNode<'_, ByteStrings>) {
        node.hints.clear();
        node.store(NEXT, next);
        low.words().into_iter().zip((META..).step_by(8)).for_each(|(word, at)| node.store(at, word));
        let mut lines = Self::scatter(node, entries.iter().copied());
        if !zeroed {
            each(node.hints.empty::<SLOTS>()).for_each(|slot| node.store(reference_at(slot), 0));
            lines = (1 << Self::LINES) - 1;
        }
        node.flush(0, LINE, Step::NodeFill);
        unsorted::flush_lines(*node, lines << 1, Step::NodeFill);
    }

    #[cfg_attr(not(bristlecone_assembly), inline)]
    #[cfg_attr(bristlecone_assembly, inline(never))]
    fn insert(node: NodeAt<'_, Self, impl Medium>, place: usize, (head, reference): Entry) {
        node.store(head_at(place), head);
        node.order(Step::ByteInsertReference);
        node.store(reference_at(place), reference);
        node.flush(head_at(place), SLOT, Step::ByteInsert);
        node.hints.fill(place, print(reference));
    }

    #[inline]
    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, reference: u64) {
        node.store(reference_at(place), reference);
        node.flush(reference_at(place), 8, Step::ByteUpdate);
    }

    #[inline]
    fn remove(node: NodeAt<'_, Self, impl Medium>, _range: ByteRange, place: usize) {
        node.store(reference_at(place), 0);
        node.flush(reference_at(place), 8, Step::ByteRemove);
        node.hints.vacate(place);
    }

    fn recover(node: NodeAt<'_, Self, impl Medium>, _range: ByteRange) -> Result<(), Broken> {
        node.hints.clear();
        for (slot, (_, reference)) in Self::stored(*node) {
            if print(reference) == 0 || !node.pool.has_record(record(reference)) {
                return Err(node.broken(reference_at(slot), "V1: a slot points to no record of its tree"));
            }
            node.hints.fill(slot, print(reference));
        }
        Ok(())
    }

    fn check(node: BlockAt<'_, impl Medium>, range: ByteRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        let pool = node.pool;
        let (low, skip) = (node.low_key(), range.skip());
        if low.len() < skip {
            report(node.broken(META, "N3: a low shorter than what heads skip"));
            return None;
        }
        let next = Some(node.load(NEXT)).filter(|&next| next != 0 && pool.is_leaf(next));
        let high = next.map(|next| node.other(next).low_key());
        let (mut entries, mut beyond) = (Vec::<(Vec<u8>, Entry)>::new(), Vec::new());
        for (slot, (head, reference)) in Self::stored(node) {
            let here = node.at + reference_at(slot);
            let key = match pool.parts(record(reference)) {
                Ok(parts) => pool.record_bytes(record(reference), parts.key.0, parts.key.1),
                Err(broken) => {
                    report(broken);
                    continue;
                }
            };
            if reference >> 48 != tag(ByteKey::at(&key).hash()) {
                report(Broken::new(here, "N3: a fingerprint of another key"));
            }
            if head != node.head(skip, &key) {
                report(Broken::new(here - 8, "N3: a head of another key"));
            }
            if high.as_ref().is_some_and(|high| key >= *high) {
                beyond.push((here, reference));
                continue;
            }
            if key < low {
                report(Broken::new(here, "N2: a key that the leaf does not own"));
            }
            entries.push((key, (head, reference)));
        }
        entries.sort_unstable();
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            report(Broken::new(record(pair[1].1.1), "N3: a key twice in a leaf"));
        }
        Some(Checked { entries: entries.into_iter().map(|(_, entry)| entry).collect(), pair: None, beyond })
    }
}

impl<const SLOTS: usize> SplitInPlace for ByteLeaf<SLOTS> {
    fn prefill(node: NodeAt<'_, Self, impl Medium>, wider: ByteRange, entries: &[Entry]) {
        // The entries have heads of other leaves.
        let own = |&(_, reference): &Entry| (node.head_of(wider.skip(), record(reference)), reference);
        let lines = Self::scatter(node, entries.iter().map(own));
        // Crash: references that are also in a leaf to the right, where they count.
        unsorted::flush_lines(*node, lines << 1, Step::NodePrefill);
    }

    fn truncate_after_split(node: NodeAt<'_, Self, impl Medium>, _border: &NewByteLow, moved: &[Entry]) {
        let lines = Self::empty(node, moved);
        if lines != 0 {
            unsorted::flush_lines(*node, lines << 1, Step::ByteForget);
            // The right leaf may be written to now, and the records of its slots may be freed.
            node.fence(Step::ByteForget);
        }
    }

    fn remove_all(node: NodeAt<'_, Self, impl Medium>, _range: ByteRange, entries: &[Entry], _fence: impl Fn()) -> u64 {
        // Crash: of each, the entry or an empty slot. The header is the first line.
        Self::empty(node, entries) << 1
    }
}

impl<const SLOTS: usize> Defer for ByteLeaf<SLOTS> {
    fn defer(node: NodeAt<'_, Self, impl Medium>, _range: ByteRange, change: Deferred, mut put: impl FnMut(u64, u64)) {
        match change {
            Deferred::Insert(slot, (head, reference)) => {
                put(head_at(slot), head);
                put(reference_at(slot), reference);
                node.hints.fill(slot, print(reference));
            }
            Deferred::Update(slot, reference) => put(reference_at(slot), reference),
            Deferred::Remove(slot) => {
                put(reference_at(slot), 0);
                node.hints.vacate(slot);
            }
        }
    }
}

impl<const SLOTS: usize> ByteLeaf<SLOTS> {
    /// The references of a leaf, with their places, in the pool. For the walk after a crash.
    pub(crate) fn references(node: BlockAt<'_, impl Medium>) -> impl Iterator<Item = (u64, u64)> {
        Self::stored(node).map(move |(slot, (_, reference))| (node.at + reference_at(slot), reference))
    }

    /// The entries that count in a line of a leaf, with the places of their references.
    pub(crate) fn slots_in(node: BlockAt<'_, impl Medium>, line: u64) -> impl Iterator<Item = (u64, Entry)> {
        let within = line.wrapping_sub(node.at);
        let first = if (LINE..Self::BYTES).contains(&within) { ((within - LINE) / SLOT) as usize } else { SLOTS };
        let entry =
            move |slot| (node.at + reference_at(slot), (node.load(head_at(slot)), node.load(reference_at(slot))));
        (first..SLOTS.min(first + PER_LINE)).map(entry).filter(|(_, (_, reference))| *reference != 0)
    }
}
