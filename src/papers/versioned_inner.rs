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
use crate::node::layout::{Checked, Layout, NewNode, sound};
use crate::node::sorted::{Run, meta};
use crate::node::space::{InPlace, SplitInPlace};
use crate::node::{BlockAt, Entry, IndexKind, InnerOps, KeyRange, Node, NodeAt, WordNode, Words};
use crate::papers::search::partition;

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
type EntryCounts = Run<Halves>;
/// The leaves, whose entries these are.
type VersionedLeaf<const SLOTS: usize> = Versioned<SLOTS>;

/// The node as a leaf.
fn leaf<const SLOTS: usize, M: Medium>(
    node: NodeAt<'_, VersionedInner<SLOTS>, M>,
) -> NodeAt<'_, VersionedLeaf<SLOTS>, M> {
    (*node).node(&node.hints.probe)
}

impl<const SLOTS: usize> VersionedInner<SLOTS> {
    /// Removes the first entry that has ended, and returns where it was; `None` if all entries are valid.
    fn close(node: NodeAt<'_, Self, impl Medium>) -> Option<usize> {
        let commit = Commit::load(*node);
        let ended = (0..commit.count).find(|&i| !Versions::load(*node, i).is_there(commit.version))?;
        // Otherwise an entry that is there twice would be taken for one that makes room, to the right.
        Commit { closing: true, ..commit }.store_durably(*node, Step::VersionedClose);
        // Crash: one entry is there twice, or is not whole. Recovery goes on.
        for i in ended + 1..commit.count {
            Versions::load(*node, i).store(*node, i - 1);
        }
        let closed = Commit { count: commit.count - 1, ..commit };
        closed.store_durably(*node, Step::VersionedClose);
        node.hints.probe.set(node.hints.probe.get().0, closed.count);
        Some(ended)
    }

    /// Makes room for an entry if the node is full, and returns where this place is then.
    fn make_room(node: NodeAt<'_, Self, impl Medium>, place: usize) -> usize {
        let full = node.hints.probe.get().1 == SLOTS;
        let closed = if full { Self::close(node) } else { None };
        place - usize::from(closed.is_some_and(|ended| ended < place))
    }

    /// Keeps the first `count` entries; durable when it returns.
    fn truncate(node: NodeAt<'_, Self, impl Medium>, count: usize) {
        let commit = Commit::load(*node);
        if count < commit.count {
            Commit { count, ..commit }.store_durably(*node, Step::VersionedTruncate);
        }
        let valid = (0..count).filter(|&i| Versions::load(*node, i).is_there(commit.version)).count();
        node.hints.probe.set(valid, count);
    }
}

/// A place is a position among valid and ended entries.
impl<const SLOTS: usize> Layout for VersionedInner<SLOTS> {
    type Node = Self;
    type Hints = EntryCounts;

    fn level(node: BlockAt<'_, impl Medium>) -> Result<u16, Broken> {
        let word = node.load(META);
        let level = (word >> 16) as u16;
        if word == meta::<Self>(level) {
            Ok(level)
        } else {
            Err(node.broken(META, "N1: not a node of the tree's layout"))
        }
    }

    #[inline]
    fn len(hints: &EntryCounts) -> usize {
        hints.probe.get().0
    }

    fn search(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Result<usize, usize> {
        VersionedLeaf::<SLOTS>::search(leaf(node), key)
    }

    #[inline]
    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64 {
        VersionedLeaf::<SLOTS>::value(leaf(node), place)
    }

    fn entries(node: NodeAt<'_, Self, impl Medium>, keys: (u64, u64), out: &mut Vec<Entry>) -> usize {
        VersionedLeaf::<SLOTS>::entries(leaf(node), keys, out)
    }

    fn fill(node: NodeAt<'_, Self, impl Medium>, new: NewNode) {
        // Flushed with the header.
        node.store(META, meta::<Self>(new.level));
        node.hints.set_level(new.level);
        VersionedLeaf::<SLOTS>::fill(leaf(node), new);
    }

    fn insert(node: NodeAt<'_, Self, impl Medium>, place: usize, new: Entry) {
        let place = Self::make_room(node, place);
        VersionedLeaf::<SLOTS>::insert(leaf(node), place, new);
    }

    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, value: u64) {
        let place = Self::make_room(node, place);
        if node.hints.probe.get().1 < SLOTS {
            VersionedLeaf::<SLOTS>::update(leaf(node), place, value);
        } else {
            node.store(entry_at(place) + 8, value);
            node.flush(entry_at(place) + 8, 8, Step::VersionedReplace);
        }
    }

    fn remove(node: NodeAt<'_, Self, impl Medium>, range: KeyRange, place: usize) {
        VersionedLeaf::<SLOTS>::remove(leaf(node), range, place);
    }

    fn recover(node: NodeAt<'_, Self, impl Medium>, range: KeyRange) -> Result<(), Broken> {
        node.hints.set_level(Self::level(*node)?);
        sound::<Self>(*node, range)?;
        let count = VersionedLeaf::<SLOTS>::repair(*node, Commit::load(*node)).count;
        let owned = (0..count).take_while(|&i| range.contains(Versions::load(*node, i).key));
        Self::truncate(node, owned.count());
        Ok(())
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        VersionedLeaf::<SLOTS>::check_those(node, range, |key| range.contains(key), report)
    }
}

impl<const SLOTS: usize> SplitInPlace for VersionedInner<SLOTS> {
    fn prefill(node: NodeAt<'_, Self, impl Medium>, _wider: KeyRange, entries: &[Entry]) {
        while node.hints.probe.get().1 + entries.len() > SLOTS && Self::close(node).is_some() {}
        let commit = Commit::load(*node);
        let there = (commit.count..SLOTS).zip(entries);
        // Durable one by one. Crash: entries that do not count.
        let added =
            there.map(|(i, &(key, value))| Versions { key, value, start: 0, end: NEVER }.store(*node, i)).count();
        // Crash: entries that are not owned yet. No flush: the link that commits is in this line, and comes after the
        // caller's fence.
        let more = Commit { count: commit.count + added, ..commit };
        more.store_unflushed(*node);
        node.hints.probe.set(node.hints.probe.get().0 + added, more.count);
    }

    fn truncate_after_split(node: NodeAt<'_, Self, impl Medium>, &border: &u64, _moved: &[Entry]) {
        // Crash: entries that are not owned. They must not count when a shift begins: it would end in the last one, and
        // recovery would find a gap in a full node.
        let stays = partition(node.hints.probe.get().1, |i| node.load(entry_at(i)) < border);
        Self::truncate(node, stays);
    }
}

impl<const SLOTS: usize> InnerOps for VersionedInner<SLOTS> {
    #[inline]
    fn level_of(hints: &EntryCounts) -> u16 {
        hints.level()
    }

    fn floor(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Option<usize> {
        let version = Commit::load(*node).version;
        let (Ok(place) | Err(place)) = Self::search(node, key).map(|place| place + 1);
        (0..place).rev().find(|&i| Versions::load(*node, i).is_there(version))
    }
}
