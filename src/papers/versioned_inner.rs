//! CDDS-Tree's inner nodes: the entries of its [leaves](super::versioned), in nodes that are split and merged in place.
//!
//! ```text
//! line 0   | next 8 | low 8 | commit 8 | meta 8 | (unused)  |     commit: version 48, closing 1, count 15
//! line 1   | key 8 | value 8 | start 8 | end 8 | entry 1   |
//! line 2   | entry 2 | entry 3 | ...
//! ```
//!
//! - **N3** As in a leaf, for the owned ones among the first `count` entries. Those that are not owned are the last
//!   ones. While the node is `closing`, the space of an entry that has ended is being closed.
//!
//! Ended entries stay until there is no room. A split leaves entries behind, and a merge adds some, that are not owned;
//! they do not count, and recovery forgets them.

use super::versioned::{Commit, NEVER, Versioned, Versions, entry_at};
use crate::error::Broken;
use crate::medium::{Medium, Step};
use crate::memory::Halves;
use crate::node::layout::{Checked, Layout, New, sound};
use crate::node::sorted::{Run, meta};
use crate::node::space::{InPlace, SplitInPlace};
use crate::node::{Entry, IndexKind, InnerOps, KeyRange, Node, WordNode, Words};
use crate::search::partition;

/// An inner node of `SLOTS` versioned entries of 32 bytes: a new child flushes every entry that it moves.
///
/// # Source
///
/// As [`Versioned`].
///
/// # What differs
///
/// CDDS-Tree replaces a full node by two new ones, and ends all entries of the old one. Here a node is split in place,
/// by one store to its link, as all inner nodes are. A child is replaced in place if all entries of the node are valid.
#[derive(Debug, Clone, Copy)]
pub struct VersionedInner<const SLOTS: usize>;

/// Offset of the word that holds the layout, the level and a magic number.
const META: u64 = 24;

impl<const SLOTS: usize> Node for VersionedInner<SLOTS> {
    const LAYOUT: u16 = 20;
    const NAME: &'static str = "versioned_inner";
    const IS_OWN: bool = true;
    const SLOTS: usize = SLOTS;
    const BYTES: u64 = Versioned::<SLOTS>::BYTES;

    type Keys = Words;
    type Ops = Self;
    type Space = InPlace;
}

impl<const SLOTS: usize> WordNode for VersionedInner<SLOTS> {
    const INDEX: IndexKind = IndexKind::Persistent;
    type Inner = Self;
}

/// The number of valid entries and of all entries; and the level.
type Hints = Run<Halves>;
/// The leaves, whose entries these are.
type Leaf<const SLOTS: usize> = Versioned<SLOTS>;

impl<const SLOTS: usize> VersionedInner<SLOTS> {
    /// Removes the first entry that has ended, and returns where it was; `None` if all entries are valid.
    fn close<M: Medium>(m: &M, at: u64, hints: &Hints) -> Option<usize> {
        let commit = Commit::load(m, at);
        let ended = (0..commit.count).find(|&i| !Versions::load(m, at, i).is_there(commit.version))?;
        // Otherwise an entry that is there twice would be taken for one that makes room, to the right.
        Commit { closing: true, ..commit }.store_durably(m, at, Step::VersionedClose);
        // Crash: one entry is there twice, or is not whole. Recovery goes on.
        for i in ended + 1..commit.count {
            Versions::load(m, at, i).store(m, at, i - 1);
        }
        let closed = Commit { count: commit.count - 1, ..commit };
        closed.store_durably(m, at, Step::VersionedClose);
        hints.probe.set(hints.probe.get().0, closed.count);
        Some(ended)
    }

    /// Makes room for an entry if the node is full, and returns where this place is then.
    fn make_room<M: Medium>(m: &M, at: u64, hints: &Hints, place: usize) -> usize {
        let full = hints.probe.get().1 == SLOTS;
        let closed = if full { Self::close(m, at, hints) } else { None };
        place - usize::from(closed.is_some_and(|ended| ended < place))
    }

    /// Keeps the first `count` entries; durable when it returns.
    fn truncate<M: Medium>(m: &M, at: u64, hints: &Hints, count: usize) {
        let commit = Commit::load(m, at);
        if count < commit.count {
            Commit { count, ..commit }.store_durably(m, at, Step::VersionedTruncate);
        }
        let valid = (0..count).filter(|&i| Versions::load(m, at, i).is_there(commit.version)).count();
        hints.probe.set(valid, count);
    }
}

/// A place is a position among valid and ended entries.
impl<const SLOTS: usize> Layout for VersionedInner<SLOTS> {
    type Node = Self;
    type Hints = Hints;

    fn level<M: Medium>(m: &M, at: u64) -> Result<u16, Broken> {
        let word = m.load(at + META);
        let level = (word >> 16) as u16;
        if word == meta::<Self>(level) {
            Ok(level)
        } else {
            Err(Broken::new(at + META, "N1: not a node of the tree's layout"))
        }
    }

    #[inline]
    fn len(hints: &Hints) -> usize {
        hints.probe.get().0
    }

    fn search<M: Medium>(m: &M, at: u64, hints: &Hints, key: u64) -> Result<usize, usize> {
        Leaf::<SLOTS>::search(m, at, &hints.probe, key)
    }

    #[inline]
    fn value<M: Medium>(m: &M, at: u64, hints: &Hints, place: usize) -> u64 {
        Leaf::<SLOTS>::value(m, at, &hints.probe, place)
    }

    fn entries<M: Medium>(m: &M, at: u64, hints: &Hints, keys: (u64, u64), out: &mut Vec<Entry>) -> usize {
        Leaf::<SLOTS>::entries(m, at, &hints.probe, keys, out)
    }

    fn fill<M: Medium>(m: &M, at: u64, hints: &Hints, new: New, entries: &[Entry], zeroed: bool) {
        // Flushed with the header.
        m.store(at + META, meta::<Self>(new.level));
        hints.set_level(new.level);
        Leaf::<SLOTS>::fill(m, at, &hints.probe, new, entries, zeroed);
    }

    fn insert<M: Medium>(m: &M, at: u64, hints: &Hints, place: usize, new: Entry) {
        let place = Self::make_room(m, at, hints, place);
        Leaf::<SLOTS>::insert(m, at, &hints.probe, place, new);
    }

    fn update<M: Medium>(m: &M, at: u64, hints: &Hints, place: usize, value: u64) {
        let place = Self::make_room(m, at, hints, place);
        if hints.probe.get().1 < SLOTS {
            Leaf::<SLOTS>::update(m, at, &hints.probe, place, value);
        } else {
            m.store(entry_at(at, place) + 8, value);
            m.flush(entry_at(at, place) + 8, 8, Step::VersionedReplace);
        }
    }

    fn remove<M: Medium>(m: &M, at: u64, hints: &Hints, range: KeyRange, place: usize) {
        Leaf::<SLOTS>::remove(m, at, &hints.probe, range, place);
    }

    fn recover<M: Medium>(m: &M, at: u64, hints: &Hints, range: KeyRange) -> Result<(), Broken> {
        hints.set_level(Self::level(m, at)?);
        sound::<Self, M>(m, at, range)?;
        let count = Leaf::<SLOTS>::repair(m, at, Commit::load(m, at)).count;
        let owned = (0..count).take_while(|&i| range.contains(Versions::load(m, at, i).key));
        Self::truncate(m, at, hints, owned.count());
        Ok(())
    }

    fn check<M: Medium>(m: &M, at: u64, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        Leaf::<SLOTS>::check_those(m, at, range, |key| range.contains(key), report)
    }
}

impl<const SLOTS: usize> SplitInPlace for VersionedInner<SLOTS> {
    fn prefill<M: Medium>(m: &M, at: u64, hints: &Hints, _wider: KeyRange, entries: &[Entry]) {
        while hints.probe.get().1 + entries.len() > SLOTS && Self::close(m, at, hints).is_some() {}
        let commit = Commit::load(m, at);
        let there = (commit.count..SLOTS).zip(entries);
        // Durable one by one. Crash: entries that do not count.
        let added =
            there.map(|(i, &(key, value))| Versions { key, value, start: 0, end: NEVER }.store(m, at, i)).count();
        // Crash: entries that are not owned yet. No flush: the link that commits is in this line, and comes after the
        // caller's fence.
        let more = Commit { count: commit.count + added, ..commit };
        more.store_unflushed(m, at);
        hints.probe.set(hints.probe.get().0 + added, more.count);
    }

    fn truncate_after_split<M: Medium>(m: &M, at: u64, hints: &Hints, &border: &u64, _moved: &[Entry]) {
        // Crash: entries that are not owned. They must not count when a shift begins: it would end in the last one, and
        // recovery would find a gap in a full node.
        let stays = partition(hints.probe.get().1, |i| m.load(entry_at(at, i)) < border);
        Self::truncate(m, at, hints, stays);
    }
}

impl<const SLOTS: usize> InnerOps for VersionedInner<SLOTS> {
    #[inline]
    fn level_of(hints: &Hints) -> u16 {
        hints.level()
    }

    fn floor<M: Medium>(m: &M, at: u64, hints: &Hints, key: u64) -> Option<usize> {
        let version = Commit::load(m, at).version;
        let (Ok(place) | Err(place)) = Self::search(m, at, hints, key).map(|place| place + 1);
        (0..place).rev().find(|&i| Versions::load(m, at, i).is_there(version))
    }
}
