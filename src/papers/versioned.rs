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
use crate::node::layout::{Checked, Layout, New, sound};
use crate::node::sorted::HEADER;
use crate::node::space::{OneSize, Renew, Renewal, Takes};
use crate::node::{Entry, IndexKind, InnerOps, KeyRange, LOW, Linear, NEXT, Node, WordNode, Words};
use crate::papers::registry::tag_over;
use crate::search::partition;
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

    pub(super) fn load<M: Medium>(m: &M, at: u64) -> Self {
        let word = m.load(at + COMMIT);
        let count = word & (Self::CLOSING - 1);
        Self { version: word >> Self::VERSION, count: count as usize, closing: word & Self::CLOSING != 0 }
    }

    pub(super) fn store_unflushed<M: Medium>(self, m: &M, at: u64) {
        let closing = if self.closing { Self::CLOSING } else { 0 };
        m.store(at + COMMIT, self.version << Self::VERSION | closing | self.count as u64);
    }

    /// Flushed; the caller fences.
    fn store<M: Medium>(self, m: &M, at: u64) {
        self.store_unflushed(m, at);
        m.flush(at + COMMIT, 8, Step::VersionedCommit);
    }

    pub(super) fn store_durably<M: Medium>(self, m: &M, at: u64, step: Step) {
        self.store_unflushed(m, at);
        m.flush(at + COMMIT, 8, step);
        m.fence(step);
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
    pub(super) fn load<M: Medium>(m: &M, at: u64, i: usize) -> Self {
        let mut words = [0; 4];
        m.load_words(entry_at(at, i), &mut words);
        let [key, value, start, end] = words;
        Self { key, value, start, end }
    }

    /// Durable when it returns: CDDS-Tree flushes each entry.
    pub(super) fn store<M: Medium>(self, m: &M, at: u64, i: usize) {
        let to = entry_at(at, i);
        m.store(to + 16, NEVER);
        m.order(Step::VersionedBegin);
        m.store_pair(to, [self.key, self.value]);
        m.store(to + 24, self.end);
        m.order(Step::VersionedStart);
        m.store(to + 16, self.start);
        m.flush(to, ENTRY, Step::VersionedEntry);
        // What was here before was moved one further, or was not valid.
        m.fence(Step::VersionedEntry);
    }

    pub(super) fn is_there(self, version: u64) -> bool {
        self.start <= version && version < self.end
    }
}

#[inline]
pub(super) fn entry_at(at: u64, i: usize) -> u64 {
    at + HEADER + i as u64 * ENTRY
}

/// Ends an entry; durable when it returns.
fn end<M: Medium>(m: &M, at: u64, i: usize, version: u64) {
    m.store(entry_at(at, i) + 24, version);
    m.flush(entry_at(at, i), ENTRY, Step::VersionedEnd);
    m.fence(Step::VersionedEnd);
}

impl<const SLOTS: usize, I: WordNode<Ops: InnerOps>> Versioned<SLOTS, I> {
    /// The first entry that is not whole, or that equals the next one: the place where a shift was interrupted.
    fn gap<M: Medium>(m: &M, at: u64, commit: Commit) -> Option<usize> {
        let behind = commit.behind(SLOTS);
        (0..commit.count).find(|&i| {
            let entry = Versions::load(m, at, i);
            entry.start > commit.version || (i + 1 < behind && entry == Versions::load(m, at, i + 1))
        })
    }

    /// Valid and ended entries, in order, without the entry at the gap.
    fn all<M: Medium>(m: &M, at: u64, commit: Commit) -> impl Iterator<Item = Versions> {
        let gap = Self::gap(m, at, commit).unwrap_or(commit.count);
        let positions = (0..commit.behind(SLOTS)).filter(move |&i| i != gap).take(commit.count);
        let ended = move |entry: Versions| {
            // An end that was not committed does not count.
            Versions { end: if entry.end > commit.version { NEVER } else { entry.end }, ..entry }
        };
        positions.map(move |i| ended(Versions::load(m, at, i)))
    }

    /// Makes room at position `i` and stores the entry there, line by line.
    fn shift_in<M: Medium>(m: &M, at: u64, commit: Commit, i: usize, new: Versions) {
        // Crash, at any of these: one entry is there twice, or the place of the new entry holds one whose start is
        // `NEVER`. Recovery closes the gap.
        for j in (i..commit.count).rev() {
            Versions::load(m, at, j).store(m, at, j + 1);
        }
        new.store(m, at, i);
    }

    /// Takes back ends that were not committed, and closes the gap that an interrupted shift left. Durable when it
    /// returns.
    pub(super) fn repair<M: Medium>(m: &M, at: u64, commit: Commit) -> Commit {
        let behind = commit.behind(SLOTS);
        // Ends first, where the entries lie now, because an entry that is rewritten is not whole for a moment.
        for i in 0..behind {
            let entry = Versions::load(m, at, i);
            if entry.start <= commit.version && entry.end > commit.version && entry.end != NEVER {
                end(m, at, i, NEVER);
            }
        }
        let gap = Self::gap(m, at, commit);
        // Crash: the gap is one position further on.
        for i in (gap.unwrap_or(behind)..commit.count).take_while(|&i| i + 1 < behind) {
            Versions::load(m, at, i + 1).store(m, at, i);
        }
        if !commit.closing {
            return commit;
        }
        let closed = Commit { count: commit.count - usize::from(gap.is_some()), closing: false, ..commit };
        closed.store_durably(m, at, Step::VersionedClose);
        closed
    }

    /// As [`check`](Layout::check), of the entries whose keys `count`.
    pub(super) fn check_those<M: Medium>(
        m: &M,
        at: u64,
        range: KeyRange,
        counts: impl Fn(u64) -> bool,
        report: &mut dyn FnMut(Broken),
    ) -> Option<Checked> {
        let commit = Commit::load(m, at);
        if commit.count > SLOTS {
            report(Broken::new(at + COMMIT, "N3: more entries than slots"));
            return None;
        }
        if commit.version > Commit::NEWEST {
            report(Broken::new(at + COMMIT, "N3: a version that no change reaches"));
            return None;
        }
        // A shift begins only where there is room for its end.
        if commit.count == SLOTS && !commit.closing && Self::gap(m, at, commit).is_some() {
            report(Broken::new(at + COMMIT, "N3: a gap in a full node"));
            return None;
        }
        let mut all: Vec<Versions> = Self::all(m, at, commit).collect();
        let counting = all.iter().take_while(|entry| counts(entry.key)).count();
        if all[counting..].iter().any(|entry| counts(entry.key)) {
            report(Broken::new(at + COMMIT, "N3: those that are not owned are the last ones"));
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
            report(Broken::new(entry_at(at, i), "N3: keys ascend, and of one key the last entry is there"));
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

    fn search<M: Medium>(m: &M, at: u64, hints: &Halves, key: u64) -> Result<usize, usize> {
        let version = Commit::load(m, at).version;
        let greater = partition(hints.get().1, |i| m.load(entry_at(at, i)) <= key);
        match greater.checked_sub(1).map(|last| (last, Versions::load(m, at, last))) {
            Some((last, entry)) if entry.key == key && entry.is_there(version) => Ok(last),
            _ => Err(greater),
        }
    }

    #[inline]
    fn value<M: Medium>(m: &M, at: u64, _hints: &Halves, place: usize) -> u64 {
        m.load(entry_at(at, place) + 8)
    }

    fn entries<M: Medium>(m: &M, at: u64, hints: &Halves, (from, to): (u64, u64), out: &mut Vec<Entry>) -> usize {
        let version = Commit::load(m, at).version;
        let all = (0..hints.get().1).map(|i| Versions::load(m, at, i));
        let wanted = all.filter(|entry| entry.is_there(version) && (from..=to).contains(&entry.key));
        out.clear();
        out.extend(wanted.map(|entry| (entry.key, entry.value)));
        out.len()
    }

    fn fill<M: Medium>(m: &M, at: u64, hints: &Halves, New { low, next, .. }: New, entries: &[Entry], _zeroed: bool) {
        m.store(at + NEXT, next);
        m.store(at + LOW, low);
        m.store(at + COMMIT, entries.len() as u64);
        for (i, &(key, value)) in entries.iter().enumerate() {
            m.store_pair(entry_at(at, i), [key, value]);
            m.store_pair(entry_at(at, i) + 16, [0, NEVER]);
        }
        m.flush(at, entry_at(0, entries.len()), Step::NodeFill);
        hints.set(entries.len(), entries.len());
    }

    fn insert<M: Medium>(m: &M, at: u64, hints: &Halves, place: usize, (key, value): Entry) {
        let commit = Commit::load(m, at);
        let next = commit.next(commit.count + 1);
        Self::shift_in(m, at, commit, place, Versions { key, value, start: next.version, end: NEVER });
        next.store(m, at);
        hints.set(hints.get().0 + 1, next.count);
    }

    fn update<M: Medium>(m: &M, at: u64, hints: &Halves, place: usize, value: u64) {
        let commit = Commit::load(m, at);
        let next = commit.next(commit.count + 1);
        let old = Versions::load(m, at, place);
        Self::shift_in(m, at, commit, place + 1, Versions { value, start: next.version, end: NEVER, ..old });
        end(m, at, place, next.version);
        next.store(m, at);
        hints.set(hints.get().0, next.count);
    }

    fn remove<M: Medium>(m: &M, at: u64, hints: &Halves, _range: KeyRange, place: usize) {
        let commit = Commit::load(m, at);
        let next = commit.next(commit.count);
        end(m, at, place, next.version);
        next.store(m, at);
        hints.set(hints.get().0 - 1, next.count);
    }

    fn recover<M: Medium>(m: &M, at: u64, hints: &Halves, range: KeyRange) -> Result<(), Broken> {
        let there = sound::<Self, M>(m, at, range)?.entries.len();
        let commit = Self::repair(m, at, Commit::load(m, at));
        hints.set(there, commit.count);
        Ok(())
    }

    fn check<M: Medium>(m: &M, at: u64, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        Self::check_those(m, at, range, |_| true, report)
    }
}

impl<const SLOTS: usize, I: WordNode<Ops: InnerOps>> Renew for Versioned<SLOTS, I> {
    type Sizes = OneSize;

    const TAKES: Takes = Takes { update: 1, remove: 0 };

    fn taken(hints: &Halves) -> usize {
        hints.get().1
    }
}
