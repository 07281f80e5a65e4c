//! Leaves of byte strings. A slot has the head of a key and points to the record of its key and its value.
//!
//! `docs/design.md`, section 3, has the lines of a leaf, the stores of each change, and the rule by which a slot
//! counts.

pub(crate) mod access;
pub(crate) mod entry;
pub(crate) mod keys;
mod range;
mod sort;

use crate::byte_key::ByteKey;
use crate::error::Broken;
use crate::medium::{Hint, LINE, Medium, Step};
use crate::node::deferred::{Defer, Deferred};
use crate::node::fingerprints::{Slots, each};
use crate::node::layout::{Checked, Layout, New, Policy};
use crate::node::prints::{MOST, Prints, nearest};
use crate::node::space::{InPlace, SplitInPlace};
use crate::node::unsorted;
use crate::node::{Entry, NEXT, Node, PER_LINE, SLOT};
use access::{ByteAccess, LAYOUT, META};
use entry::{ReadEntry, home, print, record, tag};
pub use keys::ByteStrings;
pub(crate) use keys::{ByteEdges, ByteFence, ByteSpan};
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
fn head_at(at: u64, slot: usize) -> u64 {
    at + LINE + slot as u64 * SLOT
}

/// The offset of the reference of a slot. The reference decides whether the slot counts.
#[inline]
fn reference_at(at: u64, slot: usize) -> u64 {
    head_at(at, slot) + 8
}

impl<const SLOTS: usize> ByteLeaf<SLOTS> {
    const LINES: usize = SLOTS / PER_LINE;

    /// An empty slot for a key with this tag. `empty` has at least one slot.
    #[inline]
    fn choose(empty: Slots, tag: u64) -> usize {
        // With a damaged shadow there may be no empty slot: then any slot will do.
        nearest(empty, 0b1111 << (home(tag, Self::LINES) * PER_LINE)).min(SLOTS - 1)
    }

    /// The slots whose references have this tag, with these references.
    #[inline]
    fn candidates<M: Medium>(m: &M, at: u64, prints: &Prints, tag: u64) -> impl Iterator<Item = (usize, u64)> {
        each(prints.matching::<SLOTS>((tag >> 8) as u8))
            .map(move |slot| (slot, m.load(reference_at(at, slot))))
            .filter(move |(_, reference)| reference >> 48 == tag)
    }

    /// Stores entries into empty slots that do not count yet, and records their fingerprints; returns the lines of
    /// slots that it wrote to.
    fn scatter<M: Medium>(m: &M, at: u64, prints: &Prints, entries: impl Iterator<Item = Entry>) -> u64 {
        let mut empty = prints.empty::<SLOTS>();
        let mut lines = 0;
        prints.fill_all(entries.map(|(head, reference)| {
            let slot = Self::choose(empty, reference >> 48);
            empty &= !(1 << slot);
            m.store(head_at(at, slot), head);
            // A slot counts by its reference.
            m.order(Step::ByteInsertReference);
            m.store(reference_at(at, slot), reference);
            lines |= 1 << (slot / PER_LINE);
            (slot, print(reference))
        }));
        lines
    }

    /// Empties the slots of entries. Returns the lines of slots that it wrote to.
    fn empty<M: Medium>(m: &M, at: u64, prints: &Prints, entries: &[Entry]) -> u64 {
        let mut lines = 0;
        for &(_, reference) in entries {
            let slot = Self::candidates(m, at, prints, reference >> 48).find(|&(_, found)| found == reference);
            if let Some((slot, _)) = slot {
                m.store(reference_at(at, slot), 0);
                prints.vacate(slot);
                lines |= 1 << (slot / PER_LINE);
            }
        }
        lines
    }

    /// The entries that count, in no order.
    fn stored<M: Medium>(m: &M, at: u64) -> impl Iterator<Item = (usize, Entry)> {
        (0..SLOTS)
            .map(move |slot| (slot, (m.load(head_at(at, slot)), m.load(reference_at(at, slot)))))
            .filter(|(_, (_, reference))| *reference != 0)
    }
}

/// A place is a slot number. A value is a reference.
impl<const SLOTS: usize> Layout for ByteLeaf<SLOTS> {
    type Node = Self;
    type Hints = Prints;

    fn level<M: Medium>(pool: ByteAccess<'_, M>, at: u64) -> Result<u16, Broken> {
        if pool.m.load(at + META) as u16 == LAYOUT {
            Ok(0)
        } else {
            Err(Broken::new(at + META, "N1: not a node of the tree's layout"))
        }
    }

    #[inline]
    fn len(hints: &Prints) -> usize {
        hints.count()
    }

    #[inline]
    fn prefetch<M: Medium>(pool: ByteAccess<'_, M>, at: u64, key: ByteKey<'_>) {
        let line = home(tag(key.hash()), Self::LINES) as u64;
        pool.m.hint(at + LINE + line * LINE, LINE, Hint::Soon);
    }

    #[inline]
    fn prefetch_value<M: Medium>(pool: ByteAccess<'_, M>, at: u64, hints: &Prints, key: ByteKey<'_>) {
        if let Some((_, reference)) = Self::candidates(pool.m, at, hints, tag(key.hash())).next() {
            pool.records().prefetch(record(reference));
        }
    }

    #[inline]
    fn prefetch_slot<M: Medium>(pool: ByteAccess<'_, M>, at: u64, slot: usize) {
        pool.records().prefetch(record(pool.m.load(reference_at(at, slot))));
    }

    #[inline]
    fn search<M: Medium>(pool: ByteAccess<'_, M>, at: u64, hints: &Prints, key: ByteKey<'_>) -> Result<usize, usize> {
        let tag = tag(key.hash());
        let records = pool.records();
        for (slot, reference) in Self::candidates(pool.m, at, hints, tag) {
            if records.has_key(record(reference), key.bytes()) {
                return Ok(slot);
            }
        }
        Err(Self::choose(hints.empty::<SLOTS>(), tag))
    }

    #[inline]
    fn value<M: Medium>(pool: ByteAccess<'_, M>, at: u64, _hints: &Prints, place: usize) -> u64 {
        pool.m.load(reference_at(at, place))
    }

    fn entries<M: Medium>(
        pool: ByteAccess<'_, M>,
        at: u64,
        hints: &Prints,
        keys: ByteSpan<'_>,
        out: &mut Vec<Entry>,
    ) -> usize {
        let mut pairs = [[0; 2]; crate::arch::simd::MOST];
        pool.m.load_words(at + LINE, pairs.as_flattened_mut().split_at_mut(2 * SLOTS).0);
        // While the leaf is written to, a reference may be gone that the fingerprint still tells of.
        let used =
            each(hints.used::<SLOTS>()).filter(|&slot| pairs[slot][1] != 0).fold(0, |used, slot| used | 1 << slot);
        sort::sorted(pool, at, &pairs, used, keys, out)
    }

    fn fill<M: Medium>(
        pool: ByteAccess<'_, M>,
        at: u64,
        hints: &Prints,
        New { low, next, .. }: New<'_, ByteStrings>,
        entries: &[Entry],
        zeroed: bool,
    ) {
        let m = pool.m;
        hints.clear();
        m.store(at + NEXT, next);
        low.words().into_iter().zip((at + META..).step_by(8)).for_each(|(word, at)| m.store(at, word));
        let mut lines = Self::scatter(m, at, hints, entries.iter().copied());
        if !zeroed {
            each(hints.empty::<SLOTS>()).for_each(|slot| m.store(reference_at(at, slot), 0));
            lines = (1 << Self::LINES) - 1;
        }
        m.flush(at, LINE, Step::NodeFill);
        unsorted::flush_lines(m, at + LINE, lines, Step::NodeFill);
    }

    #[cfg_attr(not(bristlecone_assembly), inline)]
    #[cfg_attr(bristlecone_assembly, inline(never))]
    fn insert<M: Medium>(pool: ByteAccess<'_, M>, at: u64, hints: &Prints, place: usize, (head, reference): Entry) {
        pool.m.store(head_at(at, place), head);
        pool.m.order(Step::ByteInsertReference);
        pool.m.store(reference_at(at, place), reference);
        pool.m.flush(head_at(at, place), SLOT, Step::ByteInsert);
        hints.fill(place, print(reference));
    }

    #[inline]
    fn update<M: Medium>(pool: ByteAccess<'_, M>, at: u64, _hints: &Prints, place: usize, reference: u64) {
        pool.m.store(reference_at(at, place), reference);
        pool.m.flush(reference_at(at, place), 8, Step::ByteUpdate);
    }

    #[inline]
    fn remove<M: Medium>(pool: ByteAccess<'_, M>, at: u64, hints: &Prints, _range: ByteRange, place: usize) {
        pool.m.store(reference_at(at, place), 0);
        pool.m.flush(reference_at(at, place), 8, Step::ByteRemove);
        hints.vacate(place);
    }

    fn recover<M: Medium>(pool: ByteAccess<'_, M>, at: u64, hints: &Prints, _range: ByteRange) -> Result<(), Broken> {
        hints.clear();
        for (slot, (_, reference)) in Self::stored(pool.m, at) {
            if print(reference) == 0 || !pool.records().has_record(record(reference)) {
                return Err(Broken::new(reference_at(at, slot), "V1: a slot points to no record of its tree"));
            }
            hints.fill(slot, print(reference));
        }
        Ok(())
    }

    fn check<M: Medium>(
        pool: ByteAccess<'_, M>,
        at: u64,
        range: ByteRange,
        report: &mut dyn FnMut(Broken),
    ) -> Option<Checked> {
        let records = pool.records();
        let (low, skip) = (pool.fence(at), range.skip());
        if low.len() < skip {
            report(Broken::new(at + META, "N3: a fence key shorter than what heads skip"));
            return None;
        }
        let next = Some(pool.m.load(at + NEXT)).filter(|&next| next != 0 && pool.is_leaf(next));
        let high = next.map(|next| pool.fence(next));
        let (mut entries, mut beyond) = (Vec::<(Vec<u8>, Entry)>::new(), Vec::new());
        for (slot, (head, reference)) in Self::stored(pool.m, at) {
            let here = reference_at(at, slot);
            let key = match records.parts(record(reference)) {
                Ok(parts) => records.bytes(record(reference), parts.key.0, parts.key.1),
                Err(broken) => {
                    report(broken);
                    continue;
                }
            };
            if reference >> 48 != tag(ByteKey::at(&key).hash()) {
                report(Broken::new(here, "N3: a fingerprint of another key"));
            }
            if head != pool.head(at, skip, &key) {
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
    fn prefill<M: Medium>(pool: ByteAccess<'_, M>, at: u64, hints: &Prints, wider: ByteRange, entries: &[Entry]) {
        // The entries have heads of other leaves.
        let own = |&(_, reference): &Entry| (pool.head_of(at, wider.skip(), record(reference)), reference);
        let lines = Self::scatter(pool.m, at, hints, entries.iter().map(own));
        // Crash: references that are also in a leaf to the right, where they count.
        unsorted::flush_lines(pool.m, at + LINE, lines, Step::NodePrefill);
    }

    fn truncate_after_split<M: Medium>(
        pool: ByteAccess<'_, M>,
        at: u64,
        hints: &Prints,
        _border: &ByteFence,
        moved: &[Entry],
    ) {
        let m = pool.m;
        let lines = Self::empty(m, at, hints, moved);
        if lines != 0 {
            unsorted::flush_lines(m, at + LINE, lines, Step::ByteForget);
            // The right leaf may be written to now, and the records of its slots may be freed.
            m.fence(Step::ByteForget);
        }
    }

    fn remove_all<M: Medium>(
        pool: ByteAccess<'_, M>,
        at: u64,
        hints: &Prints,
        _range: ByteRange,
        entries: &[Entry],
        _fence: impl Fn(),
    ) -> u64 {
        // Crash: of each, the entry or an empty slot. The header is the first line.
        Self::empty(pool.m, at, hints, entries) << 1
    }
}

impl<const SLOTS: usize> Defer for ByteLeaf<SLOTS> {
    fn defer<M: Medium>(
        _pool: ByteAccess<'_, M>,
        at: u64,
        hints: &Prints,
        _range: ByteRange,
        change: Deferred,
        mut put: impl FnMut(u64, u64),
    ) {
        match change {
            Deferred::Insert(slot, (head, reference)) => {
                put(head_at(at, slot), head);
                put(reference_at(at, slot), reference);
                hints.fill(slot, print(reference));
            }
            Deferred::Update(slot, reference) => put(reference_at(at, slot), reference),
            Deferred::Remove(slot) => {
                put(reference_at(at, slot), 0);
                hints.vacate(slot);
            }
        }
    }
}

impl<const SLOTS: usize> ByteLeaf<SLOTS> {
    /// The references of a leaf, with their places, in the pool. For the walk after a crash.
    pub(crate) fn references<M: Medium>(m: &M, at: u64) -> impl Iterator<Item = (u64, u64)> {
        Self::stored(m, at).map(move |(slot, (_, reference))| (reference_at(at, slot), reference))
    }
}
