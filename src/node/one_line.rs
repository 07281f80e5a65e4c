//! OneLine: unsorted leaves in which every change of an entry is one line and one fence.
//!
//! ```text
//! line 0   | next 8 | low 8 | slot 0: key 8, value 8 | slot 1 | slot 2 |
//! line 1   | slot 3 | slot 4 | slot 5 | slot 6 |
//!   ...      10 lines, 39 slots
//! shadow   | version lock 8 | low 8 | width 8 | 39 fingerprints | count 1 |     one line
//! ```
//!
//! `docs/design.md`, section 3, has the stores of each change, and the reason why nothing ever needs repair.

use crate::arch::simd;
use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};
use crate::node::circular::CircularOver;
use crate::node::deferred::{Defer, Deferred};
use crate::node::fingerprints::{Hash, SlotSet, each};
use crate::node::layout::{Checked, Layout, NewNode, Policy};
use crate::node::prints::{MOST, Prints, nearest};
use crate::node::space::{InPlace, SplitInPlace};
use crate::node::unsorted::{self, Pairs};
use crate::node::{
    BlockAt, Entry, IndexKind, KeyRange, Keys, LOW, NEXT, Node, NodeAt, PER_LINE, SLOT, WordNode, Words,
};

/// An unsorted leaf of `SLOTS` entries: one line flushed and one fence per change.
///
/// # Source
///
/// Bristlecone's own. The fingerprints are those of FPTree (Oukid et al., SIGMOD 2016). That a change touches one line
/// is from LB+-Tree (Liu, Chen, Wang, VLDB 2020), but here there is no bitmap in the header.
#[derive(Debug, Clone, Copy)]
pub struct OneLine<const SLOTS: usize = 39>;

/// Words in a line.
const WORDS_OF_LINE: usize = LINE as usize / 8;

impl<const SLOTS: usize> Node for OneLine<SLOTS> {
    const LAYOUT: u16 = 3;
    const NAME: &'static str = "one_line";
    const IS_OWN: bool = true;
    const SLOTS: usize = {
        assert!(SLOTS <= MOST, "a shadow has room for 39 fingerprints");
        assert!((SLOTS + 1).is_multiple_of(PER_LINE), "whole lines: 3, 7, 11, ... slots");
        SLOTS
    };
    const BYTES: u64 = Self::LINES as u64 * LINE;

    type Keys = Words;
    type Ops = Self;
    type Space = InPlace;

    const POLICY: Policy = Policy::IN_SNAPSHOTS;
}

impl<const SLOTS: usize> WordNode for OneLine<SLOTS> {
    const INDEX: IndexKind = IndexKind::Volatile;
    type Inner = CircularOver<Self>;
}

// Existing pools have inner nodes of this size.
const _: () = assert!(<OneLine as WordNode>::Inner::SLOTS == 32 && <OneLine<7> as WordNode>::Inner::SLOTS == 4);

#[inline]
fn key_at(slot: usize) -> u64 {
    // The slots follow the two words of the header, which are as long as one slot.
    SLOT + slot as u64 * SLOT
}

#[inline]
fn value_at(slot: usize) -> u64 {
    key_at(slot) + 8
}

impl<const SLOTS: usize> OneLine<SLOTS> {
    const LINES: usize = (SLOTS + 1) / PER_LINE;

    /// The slots of a line.
    #[inline]
    fn of_line(line: usize) -> SlotSet {
        (0b1111 << (line * PER_LINE)) >> 1
    }

    /// An empty slot for a key: in its home line, or in the next line that has one. `empty` has at least one slot.
    #[inline]
    fn choose(empty: SlotSet, hash: Hash) -> usize {
        // With a damaged shadow there may be no empty slot: then any slot will do.
        nearest(empty, Self::of_line(hash.line(Self::LINES))).min(SLOTS - 1)
    }

    /// Stores entries into empty slots that no reader sees yet, and records their fingerprints; returns the lines it
    /// wrote to.
    fn scatter(node: NodeAt<'_, Self, impl Medium>, entries: &[Entry]) -> u64 {
        let mut empty = node.hints.empty::<SLOTS>();
        let mut lines = 0;
        node.hints.fill_all(entries.iter().map(|&(key, value)| {
            let hash = Hash::of_key(key);
            let slot = Self::choose(empty, hash);
            empty &= !(1 << slot);
            node.store_pair(key_at(slot), [key, value]);
            lines |= 1 << ((slot + 1) / PER_LINE);
            (slot, hash.print())
        }));
        lines
    }

    /// Stores the marker of `range` into the slots whose keys lie in `range`; returns the lines it wrote to.
    fn scrub(node: BlockAt<'_, impl Medium>, slots: SlotSet, range: KeyRange) -> u64 {
        let mut lines = 0;
        for slot in each(slots).filter(|&slot| range.contains(node.load(key_at(slot)))) {
            node.store(key_at(slot), range.marker());
            lines |= 1 << ((slot + 1) / PER_LINE);
        }
        lines
    }

    /// Fills an empty slot; not flushed.
    #[inline]
    fn store_new(node: NodeAt<'_, Self, impl Medium>, slot: usize, (key, value): Entry) {
        node.store(value_at(slot), value);
        node.order(Step::OneLineInsertKey);
        node.store(key_at(slot), key);
        node.hints.fill(slot, Hash::of_key(key).print());
    }
}

/// A place is a slot number.
impl<const SLOTS: usize> Layout for OneLine<SLOTS> {
    type Node = Self;
    type Hints = Prints;

    #[inline]
    fn len(hints: &Prints) -> usize {
        hints.count()
    }

    #[inline]
    fn prefetch(node: BlockAt<'_, impl Medium>, key: u64) {
        node.prefetch(Hash::of_key(key).line(Self::LINES) as u64 * LINE, LINE);
    }

    #[inline]
    fn search(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Result<usize, usize> {
        let hash = Hash::of_key(key);
        for slot in each(node.hints.matching::<SLOTS>(hash.print())) {
            if node.load(key_at(slot)) == key {
                return Ok(slot);
            }
        }
        Err(Self::choose(node.hints.empty::<SLOTS>(), hash))
    }

    #[inline]
    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64 {
        node.load(value_at(place))
    }

    #[inline]
    fn entries(node: NodeAt<'_, Self, impl Medium>, keys: (u64, u64), out: &mut Vec<Entry>) -> usize {
        // The header is read as the first pair, as if it were an entry.
        let used = node.hints.used::<SLOTS>() << 1;
        // A writer asks for all keys, and may be about to split a leaf in which they are crowded at one end of its
        // range.
        if keys != Words::ALL
            && Self::LINES * WORDS_OF_LINE == 2 * simd::MOST
            && let Some(words) = node.pool.m.lend(node.at, 2 * simd::MOST)
            && let Some(shared) = words.first_chunk()
        {
            return simd::sorted_shared(shared, used, keys, unsorted::room(out));
        }
        let mut pairs: Pairs = [[0; 2]; simd::MOST];
        node.load_words(0, &mut pairs.as_flattened_mut()[..Self::LINES * WORDS_OF_LINE]);
        unsorted::sorted_entries(&pairs, used, keys, out)
    }

    fn fill(node: NodeAt<'_, Self, impl Medium>, NewNode { low, next, entries, zeroed, .. }: NewNode) {
        node.hints.clear();
        node.store(NEXT, next);
        node.store(LOW, low);
        let mut lines = 1 | Self::scatter(node, entries);
        // N2: a slot of zeros is empty, unless the leaf owns 0.
        if !zeroed || low == 0 {
            for slot in each(node.hints.empty::<SLOTS>()) {
                node.store(key_at(slot), low.wrapping_sub(1));
            }
            lines = (1 << Self::LINES) - 1;
        }
        unsorted::flush_lines(*node, lines, Step::NodeFill);
    }

    #[cfg_attr(not(bristlecone_assembly), inline)]
    #[cfg_attr(bristlecone_assembly, inline(never))]
    fn insert(node: NodeAt<'_, Self, impl Medium>, place: usize, new: Entry) {
        Self::store_new(node, place, new);
        node.flush(key_at(place), SLOT, Step::OneLineInsert);
    }

    #[inline]
    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, value: u64) {
        node.store(value_at(place), value);
        node.flush(value_at(place), 8, Step::OneLineUpdate);
    }

    #[inline]
    fn remove(node: NodeAt<'_, Self, impl Medium>, range: KeyRange, place: usize) {
        node.store(key_at(place), range.marker());
        node.flush(key_at(place), 8, Step::OneLineRemove);
        node.hints.vacate(place);
    }

    fn recover(node: NodeAt<'_, Self, impl Medium>, range: KeyRange) -> Result<(), Broken> {
        node.hints.clear();
        for slot in 0..SLOTS {
            let key = node.load(key_at(slot));
            if !range.contains(key) {
                continue;
            }
            let print = Hash::of_key(key).print();
            if each(node.hints.matching::<SLOTS>(print)).any(|other| node.load(key_at(other)) == key) {
                return Err(unsorted::key_twice(*node, key_at(slot)));
            }
            node.hints.fill(slot, print);
        }
        Ok(())
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        let owned = (0..SLOTS).filter(|&slot| range.contains(node.load(key_at(slot))));
        let keys = unsorted::distinct_keys(node, owned, key_at).map_err(report).ok()?;
        Some(unsorted::checked(node, keys, value_at))
    }
}

impl<const SLOTS: usize> SplitInPlace for OneLine<SLOTS> {
    fn prefill(node: NodeAt<'_, Self, impl Medium>, wider: KeyRange, entries: &[Entry]) {
        let scattered = Self::scatter(node, entries);
        let scrubbed = Self::scrub(*node, node.hints.empty::<SLOTS>(), wider);
        // Crash: copies that the leaf does not own, so they are empty slots.
        unsorted::flush_lines(*node, scattered | scrubbed, Step::NodePrefill);
    }

    fn truncate_after_split(node: NodeAt<'_, Self, impl Medium>, &border: &u64, _moved: &[Entry]) {
        // All slots, and no branch: about half of the slots go, in no predictable order.
        let stays = |slot| SlotSet::from(node.load(key_at(slot)) < border) << slot;
        node.hints.retain((0..SLOTS).fold(0, |slots, slot| slots | stays(slot)));
    }

    /// The line of the slot that the entry will get, or of a key that may be the same one; of a full leaf all lines,
    /// because it is split.
    #[inline]
    fn prefetch_put(node: NodeAt<'_, Self, impl Medium>, key: u64) -> bool {
        let hash = Hash::of_key(key);
        let empty = node.hints.empty::<SLOTS>();
        if empty == 0 {
            node.prefetch(0, Self::BYTES);
            return true;
        }
        let line_of = |slot: usize| (slot + 1) / PER_LINE;
        let line = line_of(Self::choose(empty, hash));
        if line != hash.line(Self::LINES) {
            node.prefetch(line as u64 * LINE, LINE);
        }
        let alike = node.hints.matching::<SLOTS>(hash.print());
        if alike != 0 {
            node.prefetch(line_of(alike.trailing_zeros() as usize) as u64 * LINE, LINE);
        }
        false
    }

    /// Each change is whole by itself, so the changes may become durable in any order.
    #[inline]
    fn put(node: NodeAt<'_, Self, impl Medium>, place: Result<usize, usize>, entry: Entry) -> u64 {
        let (Ok(slot) | Err(slot)) = place;
        match place {
            // Crash: the old value or the new one.
            Ok(slot) => node.store(value_at(slot), entry.1),
            Err(slot) => Self::store_new(node, slot, entry),
        }
        1 << ((slot + 1) / PER_LINE)
    }

    /// Each removal is one word, so they may become durable in any order.
    fn remove_all(node: NodeAt<'_, Self, impl Medium>, range: KeyRange, entries: &[Entry], _fence: impl Fn()) -> u64 {
        let mut lines = 0;
        for &(key, _) in entries {
            if let Ok(slot) = Self::search(node, key) {
                // Crash: the entry, or an empty slot.
                node.store(key_at(slot), range.marker());
                node.hints.vacate(slot);
                lines |= 1 << ((slot + 1) / PER_LINE);
            }
        }
        lines
    }
}

impl<const SLOTS: usize> Defer for OneLine<SLOTS> {
    fn defer(node: NodeAt<'_, Self, impl Medium>, range: KeyRange, change: Deferred, mut put: impl FnMut(u64, u64)) {
        match change {
            Deferred::Insert(slot, (key, value)) => {
                put(value_at(slot), value);
                put(key_at(slot), key);
                node.hints.fill(slot, Hash::of_key(key).print());
            }
            Deferred::Update(slot, value) => put(value_at(slot), value),
            Deferred::Remove(slot) => {
                put(key_at(slot), range.marker());
                node.hints.vacate(slot);
            }
        }
    }
}
