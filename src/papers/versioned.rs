//! CDDS-Tree's leaves: sorted entries that store from which version to which version they are valid.
//!
//! ```text
//! line 0   | next 8 | low 8 | commit 8 | (unused)          |     commit: version 48, count 16
//! line 1   | key 8 | value 8 | start 8 | end 8 | entry 1   |
//! line 2   | entry 2 | entry 3 | ...
//! ```
//!
//! - **N3** An entry among the first `count` is valid at version `v` if `start <= v < end`. Ended entries included,
//!   keys ascend, and among the entries with one key only the last one may be valid.
//!
//! A change marks what it adds and what it ends with the next version, and commits by storing that version. What an
//! interrupted change leaves has a version that was never committed, and recovery takes it back. Ended entries stay
//! until their leaf is replaced by new ones.

use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};
use crate::memory::Halves;
use crate::node::layout::{Checked, Layout, NewNode, sound};
use crate::node::sorted::HEADER;
use crate::node::space::{OneSize, Renew, Renewal, Takes};
use crate::node::{BlockAt, Entry, IndexKind, InnerOps, KeyRange, LOW, Linear, NEXT, Node, NodeAt, WordNode, Words};
use crate::papers::registry::tag_over;
use crate::papers::search::partition;
use std::marker::PhantomData;

/// A leaf of `SLOTS` versioned entries of 32 bytes: an insert flushes every entry that it moves.
///
/// Versions are counted per leaf, so writers do not wait for each other; CDDS-Tree counts them for the whole tree.
///
/// # Source
///
/// Venkataraman, Tolia, Ranganathan, Campbell: "Consistent and Durable Data Structures for Non-Volatile
/// Byte-Addressable Memory", FAST 2011, as the baseline of NV-Tree (Yang et al., 2015, section 3.1).
///
/// # As printed
///
/// CDDS-Tree's inner nodes are versioned, too: `Versioned<32, VersionedInner<32>>`. By default they are linear.
#[derive(Debug, Clone, Copy)]
pub struct Versioned<const SLOTS: usize = 32, I = Linear<SLOTS>>(PhantomData<I>);

const COMMIT: u64 = 16;
/// Bytes of an entry.
const ENTRY: u64 = 32;
/// The end of an entry that is valid, and the start of one that is not whole yet.
pub(super) const NEVER: u64 = u64::MAX;

impl<const SLOTS: usize, I: WordNode<Ops: InnerOps>> Node for Versioned<SLOTS, I> {
    const LAYOUT: u16 = tag_over::<I>(12);
    const NAME: &'static str = if Self::LAYOUT == 12 { "versioned" } else { "versioned_over_versioned" };
    const IS_OWN: bool = true;
    const SLOTS: usize = {
        assert!(SLOTS >= 4 && SLOTS <= 2048, "a node has 4 to 2048 entries");
        SLOTS
    };
    const BYTES: u64 = (HEADER + SLOTS as u64 * ENTRY).next_multiple_of(LINE);

    type Keys = Words;
    type Ops = Self;
    type Space = Renewal;
}

impl<const SLOTS: usize, I: WordNode<Ops: InnerOps>> WordNode for Versioned<SLOTS, I> {
    const INDEX: IndexKind = IndexKind::Persistent;
    type Inner = I;
}

/// The word that commits a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commit {
    pub(super) version: u64,
    pub(super) count: usize,
    /// Entries are moved to the left, over one that has ended. Never in a leaf.
    pub(super) closing: bool,
}

impl Commit {
    const CLOSING: u64 = 1 << 15;
    /// The bits below the version.
    const VERSION: u32 = 16;

    /// No node changes as often as this: a version above it is damage, and below it the next version fits.
    const NEWEST: u64 = 1 << 47;

    pub(super) fn load(node: BlockAt<'_, impl Medium>) -> Self {
        let word = node.load(COMMIT);
        let count = word & (Self::CLOSING - 1);
        Self { version: word >> Self::VERSION, count: count as usize, closing: word & Self::CLOSING != 0 }
    }

    pub(super) fn store_unflushed(self, node: BlockAt<'_, impl Medium>) {
        let closing = if self.closing { Self::CLOSING } else { 0 };
        node.store(COMMIT, self.version << Self::VERSION | closing | self.count as u64);
    }

    /// Flushed; the caller fences.
    fn store(self, node: BlockAt<'_, impl Medium>) {
        self.store_unflushed(node);
        node.flush(COMMIT, 8, Step::VersionedCommit);
    }

    pub(super) fn store_durably(self, node: BlockAt<'_, impl Medium>, step: Step) {
        self.store_unflushed(node);
        node.flush(COMMIT, 8, step);
        node.fence(step);
    }

    fn next(self, count: usize) -> Self {
        Self { version: self.version + 1, count, closing: false }
    }

    /// The entries that may be read, of `slots`: also the one behind those that count, if a shift may have begun.
    fn behind(self, slots: usize) -> usize {
        slots.min(self.count + usize::from(!self.closing))
    }
}

/// An entry as it lies in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Versions {
    pub(super) fn load(node: BlockAt<'_, impl Medium>, i: usize) -> Self {
        let mut words = [0; 4];
        node.load_words(entry_at(i), &mut words);
        let [key, value, start, end] = words;
        Self { key, value, start, end }
    }

    /// Durable when it returns: CDDS-Tree flushes each entry.
    pub(super) fn store(self, node: BlockAt<'_, impl Medium>, i: usize) {
        let to = entry_at(i);
        node.store(to + 16, NEVER);
        node.order(Step::VersionedBegin);
        node.store_pair(to, [self.key, self.value]);
        node.store(to + 24, self.end);
        node.order(Step::VersionedStart);
        node.store(to + 16, self.start);
        node.flush(to, ENTRY, Step::VersionedEntry);
        // What was here before was moved one further, or was not valid.
        node.fence(Step::VersionedEntry);
    }

    pub(super) fn is_there(self, version: u64) -> bool {
        self.start <= version && version < self.end
    }
}

#[inline]
pub(super) fn entry_at(i: usize) -> u64 {
    HEADER + i as u64 * ENTRY
}

/// Ends an entry; durable when it returns.
fn end(node: BlockAt<'_, impl Medium>, i: usize, version: u64) {
    node.store(entry_at(i) + 24, version);
    node.flush(entry_at(i), ENTRY, Step::VersionedEnd);
    node.fence(Step::VersionedEnd);
}

impl<const SLOTS: usize, I: WordNode<Ops: InnerOps>> Versioned<SLOTS, I> {
    /// The first entry that is not whole, or that equals the next one: the place where a shift was interrupted.
    fn gap(node: BlockAt<'_, impl Medium>, commit: Commit) -> Option<usize> {
        let behind = commit.behind(SLOTS);
        (0..commit.count).find(|&i| {
            let entry = Versions::load(node, i);
            entry.start > commit.version || (i + 1 < behind && entry == Versions::load(node, i + 1))
        })
    }

    /// Valid and ended entries, in order, without the entry at the gap.
    fn all(node: BlockAt<'_, impl Medium>, commit: Commit) -> impl Iterator<Item = Versions> {
        let gap = Self::gap(node, commit).unwrap_or(commit.count);
        let positions = (0..commit.behind(SLOTS)).filter(move |&i| i != gap).take(commit.count);
        let ended = move |entry: Versions| {
            // An end that was not committed does not count.
            Versions { end: if entry.end > commit.version { NEVER } else { entry.end }, ..entry }
        };
        positions.map(move |i| ended(Versions::load(node, i)))
    }

    /// Makes room at position `i` and stores the entry there, line by line.
    fn shift_in(node: BlockAt<'_, impl Medium>, commit: Commit, i: usize, new: Versions) {
        // Crash, at any of these: one entry is there twice, or the place of the new entry holds one whose start is
        // `NEVER`. Recovery closes the gap.
        for j in (i..commit.count).rev() {
            Versions::load(node, j).store(node, j + 1);
        }
        new.store(node, i);
    }

    /// Takes back ends that were not committed, and closes the gap that an interrupted shift left. Durable when it
    /// returns.
    pub(super) fn repair(node: BlockAt<'_, impl Medium>, commit: Commit) -> Commit {
        let behind = commit.behind(SLOTS);
        // Ends first, where the entries lie now, because an entry that is rewritten is not whole for a moment.
        for i in 0..behind {
            let entry = Versions::load(node, i);
            if entry.start <= commit.version && entry.end > commit.version && entry.end != NEVER {
                end(node, i, NEVER);
            }
        }
        let gap = Self::gap(node, commit);
        // Crash: the gap is one position further on.
        for i in (gap.unwrap_or(behind)..commit.count).take_while(|&i| i + 1 < behind) {
            Versions::load(node, i + 1).store(node, i);
        }
        if !commit.closing {
            return commit;
        }
        let closed = Commit { count: commit.count - usize::from(gap.is_some()), closing: false, ..commit };
        closed.store_durably(node, Step::VersionedClose);
        closed
    }

    /// As [`check`](Layout::check), of the entries whose keys `count`.
    pub(super) fn check_those(
        node: BlockAt<'_, impl Medium>,
        range: KeyRange,
        counts: impl Fn(u64) -> bool,
        report: &mut dyn FnMut(Broken),
    ) -> Option<Checked> {
        let commit = Commit::load(node);
        if commit.count > SLOTS {
            report(node.broken(COMMIT, "N3: more entries than slots"));
            return None;
        }
        if commit.version > Commit::NEWEST {
            report(node.broken(COMMIT, "N3: a version that no change reaches"));
            return None;
        }
        // A shift begins only where there is room for its end.
        if commit.count == SLOTS && !commit.closing && Self::gap(node, commit).is_some() {
            report(node.broken(COMMIT, "N3: a gap in a full node"));
            return None;
        }
        let mut all: Vec<Versions> = Self::all(node, commit).collect();
        let counting = all.iter().take_while(|entry| counts(entry.key)).count();
        if all[counting..].iter().any(|entry| counts(entry.key)) {
            report(node.broken(COMMIT, "N3: those that are not owned are the last ones"));
            return None;
        }
        all.truncate(counting);
        let is_wrong = |i: usize| {
            let entry = all[i];
            let follows =
                i == 0 || all[i - 1].key < entry.key || (all[i - 1].key == entry.key && all[i - 1].end != NEVER);
            entry.start > commit.version || !range.contains(entry.key) || !follows
        };
        if let Some(i) = (0..all.len()).find(|&i| is_wrong(i)) {
            report(node.broken(entry_at(i), "N3: keys ascend, and of one key the last entry is there"));
            return None;
        }
        let there = all.iter().filter(|entry| entry.is_there(commit.version));
        Some(Checked { entries: there.map(|entry| (entry.key, entry.value)).collect(), ..Checked::default() })
    }
}

/// A place is a position among valid and ended entries.
impl<const SLOTS: usize, I: WordNode<Ops: InnerOps>> Layout for Versioned<SLOTS, I> {
    type Node = Self;
    /// The number of valid entries; and the number of all entries, ended ones included.
    type Hints = Halves;

    #[inline]
    fn len(hints: &Halves) -> usize {
        hints.get().0
    }

    fn search(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Result<usize, usize> {
        let version = Commit::load(*node).version;
        let greater = partition(node.hints.get().1, |i| node.load(entry_at(i)) <= key);
        match greater.checked_sub(1).map(|last| (last, Versions::load(*node, last))) {
            Some((last, entry)) if entry.key == key && entry.is_there(version) => Ok(last),
            _ => Err(greater),
        }
    }

    #[inline]
    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64 {
        node.load(entry_at(place) + 8)
    }

    fn entries(node: NodeAt<'_, Self, impl Medium>, (from, to): (u64, u64), out: &mut Vec<Entry>) -> usize {
        let version = Commit::load(*node).version;
        let all = (0..node.hints.get().1).map(|i| Versions::load(*node, i));
        let wanted = all.filter(|entry| entry.is_there(version) && (from..=to).contains(&entry.key));
        out.clear();
        out.extend(wanted.map(|entry| (entry.key, entry.value)));
        out.len()
    }

    fn fill(node: NodeAt<'_, Self, impl Medium>, NewNode { low, next, entries, .. }: NewNode) {
        node.store(NEXT, next);
        node.store(LOW, low);
        node.store(COMMIT, entries.len() as u64);
        for (i, &(key, value)) in entries.iter().enumerate() {
            node.store_pair(entry_at(i), [key, value]);
            node.store_pair(entry_at(i) + 16, [0, NEVER]);
        }
        node.flush(0, entry_at(entries.len()), Step::NodeFill);
        node.hints.set(entries.len(), entries.len());
    }

    fn insert(node: NodeAt<'_, Self, impl Medium>, place: usize, (key, value): Entry) {
        let commit = Commit::load(*node);
        let next = commit.next(commit.count + 1);
        Self::shift_in(*node, commit, place, Versions { key, value, start: next.version, end: NEVER });
        next.store(*node);
        node.hints.set(node.hints.get().0 + 1, next.count);
    }

    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, value: u64) {
        let commit = Commit::load(*node);
        let next = commit.next(commit.count + 1);
        let old = Versions::load(*node, place);
        Self::shift_in(*node, commit, place + 1, Versions { value, start: next.version, end: NEVER, ..old });
        end(*node, place, next.version);
        next.store(*node);
        node.hints.set(node.hints.get().0, next.count);
    }

    fn remove(node: NodeAt<'_, Self, impl Medium>, _range: KeyRange, place: usize) {
        let commit = Commit::load(*node);
        let next = commit.next(commit.count);
        end(*node, place, next.version);
        next.store(*node);
        node.hints.set(node.hints.get().0 - 1, next.count);
    }

    fn recover(node: NodeAt<'_, Self, impl Medium>, range: KeyRange) -> Result<(), Broken> {
        let there = sound::<Self>(*node, range)?.entries.len();
        let commit = Self::repair(*node, Commit::load(*node));
        node.hints.set(there, commit.count);
        Ok(())
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        Self::check_those(node, range, |_| true, report)
    }
}

impl<const SLOTS: usize, I: WordNode<Ops: InnerOps>> Renew for Versioned<SLOTS, I> {
    type Sizes = OneSize;

    const TAKES: Takes = Takes { update: 1, remove: 0 };

    fn taken(hints: &Halves) -> usize {
        hints.get().1
    }
}
