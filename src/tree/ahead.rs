//! What a scan asks a disk for ahead of its reads, where each access reads one page only.
//!
//! What was written in order lies in order, mostly, and is asked for in windows, each twice as long as the one before:
//! the next one when half of this one was passed, in either direction. What lies anywhere is asked for one by one, as
//! far as the scan knows it: the next leaves of an index node, and the records of a leaf. If the last of these is in
//! memory, the others are taken to be as well: to ask for each would take longer than to read them.

use super::directory::Directory;
use super::range::Unread;
use super::{TreeNode, TreeState};
use crate::index::RUN;
use crate::medium::{Hint, Medium};
use crate::node::{Entry, Keys, NEXT};
use crate::pool::record::{Location, locate};
use std::ops::Range;

/// So many leaves are read before the first is asked for: most ranges are short.
const SHORT: u8 = 4;
/// After so many leaves, the next ones are looked up again. The index tells twice as many.
const AGAIN: u8 = RUN as u8 / 2;
/// The least and the most that is asked for at once.
const PAGE: u64 = 4096;
const MOST: u64 = 1 << 20;
/// What lies so near behind or before a window continues it.
const NEAR: u64 = 64 << 10;

/// Asks for the leaves of a walk, which knows all of them.
pub(super) struct WalkAhead(Option<AskedAhead>);

impl WalkAhead {
    /// So many leaves are asked for at once.
    const CHUNK: usize = 32;

    pub(super) fn new<M: Medium>(m: &M) -> Self {
        Self(m.asks_ahead().then(AskedAhead::default))
    }

    /// Called before each leaf is read: how many were read before, and this leaf and all that follow.
    #[inline]
    pub(super) fn step<N: TreeNode, M: Medium, I: Iterator<Item = u64>>(
        &mut self,
        tree: &TreeState<N, M>,
        done: usize,
        leaves: impl FnOnce() -> I,
    ) {
        if let Some(asked) = self.0.as_mut().filter(|_| done.is_multiple_of(Self::CHUNK)) {
            let known = if done == 0 { 0 } else { Self::CHUNK };
            let next: Vec<u64> = leaves().skip(known).take(2 * Self::CHUNK - known).collect();
            asked.ask_leaves(tree, &next);
        }
    }
}

/// Counts the leaves of a scan, and asks for others once they are several, if it is of use.
#[derive(Default)]
pub(crate) struct Asker {
    /// How many leaves were read, up to [`SHORT`].
    walked: u8,
    /// Whether records are not read.
    pub(super) skips_records: bool,
    asked: Option<Box<AskedAhead>>,
}

impl Asker {
    /// Called when the leaf at `at` was read, from the left or from the right: some of its entries, and what is left of
    /// the interval. (Nothing if there is damage.)
    #[inline]
    pub(super) fn pass<N: TreeNode, M: Medium>(
        &mut self,
        tree: &TreeState<N, M>,
        (at, entries): (u64, &[Entry]),
        rest: Option<&Unread<N>>,
        from_left: bool,
    ) {
        if self.walked < SHORT {
            self.walked += 1;
            if self.walked == SHORT && tree.medium().asks_ahead() {
                self.asked = Some(Box::default());
            }
        }
        if let Some(asked) = &mut self.asked {
            let reads_records = tree.leaves.records.is_some() && !self.skips_records;
            asked.pass(tree, (at, if reads_records { entries } else { &[] }), rest, from_left);
        }
    }
}

/// What a scan has asked for.
#[derive(Default)]
struct AskedAhead {
    leaves: Window,
    records: Window,
    /// How many leaves will be read before the next ones are looked up.
    left: u8,
}

impl AskedAhead {
    #[cold]
    #[inline(never)]
    fn pass<N: TreeNode, M: Medium>(
        &mut self,
        tree: &TreeState<N, M>,
        (at, entries): (u64, &[Entry]),
        rest: Option<&Unread<N>>,
        from_left: bool,
    ) {
        if !from_left {
            // Of the leaves before it, nothing is known but that they may lie before it.
            self.ask_leaves(tree, &[at]);
        } else if let Some(rest) = rest {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => match tree.directory.run_at_once(N::Keys::first(rest)) {
                    Some(run) => {
                        self.ask_leaves(tree, &run);
                        self.left = AGAIN - 1;
                    }
                    // Without an index in memory, only the next one is known.
                    None => self.ask_leaves(tree, &[tree.medium().load(at + NEXT)]),
                },
            }
        }
        let place = |entry: &Entry| {
            let at = N::Keys::record(entry.1);
            let bytes = match locate(&tree.pool.segments, tree.root.slot, at)? {
                Location::Block(_, bytes) | Location::Extent(_, _, bytes) => bytes.min(MOST),
            };
            Some((at, bytes))
        };
        if from_left {
            self.records.ask(tree, entries.iter().filter_map(place));
        } else {
            self.records.ask(tree, entries.iter().rev().filter_map(place));
        }
    }

    /// Asks for what may be leaves.
    fn ask_leaves<N: TreeNode, M: Medium>(&mut self, tree: &TreeState<N, M>, leaves: &[u64]) {
        let leaves = leaves.iter().filter(|&&at| tree.leaves.accept(at, at).is_ok());
        self.leaves.ask(tree, leaves.map(|&at| (at, N::BYTES)));
    }
}

/// The last part of the pool that was asked for.
#[derive(Default)]
struct Window {
    asked: Range<u64>,
    /// How much was asked for at once.
    len: u64,
}

impl Window {
    /// Asks for what will be read in this order: offsets and lengths.
    fn ask<N: TreeNode, M: Medium>(
        &mut self,
        tree: &TreeState<N, M>,
        places: impl DoubleEndedIterator<Item = (u64, u64)> + Clone,
    ) {
        let m = tree.medium();
        let last = || places.clone().next_back();
        let mut are_there = None;
        for (at, len) in places.clone() {
            let Some(part) = self.next(at..at + len) else { continue };
            let is_alone = self.len == PAGE;
            if is_alone && *are_there.get_or_insert_with(|| last().is_some_and(|(at, _)| m.is_at_hand(at))) {
                continue;
            }
            // What lies behind the segment is of another kind.
            let segments = &tree.pool.segments;
            let Some(segment) = segments.holding(at) else { continue };
            let whole = segments.start(segment)..(segments.start(segment) + segments.size()).max(at + len);
            let part = part.start.max(whole.start)..part.end.min(whole.end);
            m.hint(part.start, part.end.saturating_sub(part.start), Hint::Ahead);
        }
    }

    /// What is to be asked for, because `place` will be read.
    fn next(&mut self, place: Range<u64>) -> Option<Range<u64>> {
        let Range { start, end } = self.asked;
        let is_within = start <= place.start && place.end <= end;
        let half = self.len / 2;
        if is_within && (self.len <= PAGE || (start + half..=end - half).contains(&place.start)) {
            return None;
        }
        let is_above = place.end > end.saturating_sub(half) && place.start <= end + NEAR;
        let is_below = place.start < start + half && place.end + NEAR >= start;
        if start == end || !(is_above || is_below) {
            self.len = (self.len / 8).max(PAGE);
            self.asked = place.start / PAGE * PAGE..place.end.next_multiple_of(PAGE);
            self.asked.end = self.asked.end.max(self.asked.start + self.len);
            return Some(self.asked.clone());
        }
        self.len = (self.len * 2).min(MOST);
        let part = if is_above {
            let from = end.max(place.start / PAGE * PAGE);
            from..(from + self.len).max(place.end)
        } else {
            let to = start.min(place.end.next_multiple_of(PAGE));
            to.saturating_sub(self.len).min(place.start)..to
        };
        self.asked = part.start.min(place.start)..part.end.max(place.end);
        Some(part)
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    fn asked(places: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let mut window = Window::default();
        places.filter_map(|at| window.next(at..at + 640)).collect()
    }

    fn are_asked_before(places: impl Iterator<Item = u64> + Clone) {
        let mut window = Window::default();
        let mut parts: Vec<Range<u64>> = Vec::new();
        for at in places {
            parts.extend(window.next(at..at + 640));
            let covered = |byte: u64| parts.iter().any(|part| part.contains(&byte));
            assert!(covered(at) && covered(at + 639), "{at} of {parts:?}");
        }
    }

    #[test]
    fn what_lies_in_order_is_asked_for_in_ever_longer_windows() {
        let up = (0..20_000).map(|i| (64 << 20) + i * 640);
        let parts = asked(up.clone());
        assert!(parts.len() < 30, "{parts:?}");
        assert!(parts.iter().all(|part| part.end - part.start <= MOST + 640));
        are_asked_before(up.clone());
        let parts = asked(up.clone().rev());
        assert!(parts.len() < 30, "{parts:?}");
        are_asked_before(up.rev());
    }

    #[test]
    fn what_lies_anywhere_is_asked_for_alone() {
        let anywhere = (0..1000u64).map(|i| (i * 0x9e37_79b9 % 100_000) * 65_536);
        let parts = asked(anywhere.clone());
        assert!(parts.iter().all(|part| part.end - part.start <= 2 * PAGE), "{parts:?}");
        are_asked_before(anywhere);
    }
}
