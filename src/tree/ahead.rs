//! What a scan asks a disk for ahead of its reads, where each access reads one page only.
//!
//! What was written in order lies in order, mostly, and is asked for in windows, each twice as long as the one before:
//! the next one when half of this one was passed, in either direction. What lies anywhere is asked for one by one, as
//! far as the scan knows it: the next leaves of an index node, and the records of a leaf. If the last of these is in
//! memory, the others are taken to be as well: to ask for each would take longer than to read them.
//!
//! A scan that has brought a quarter of the memory lets go of what it brings from then on, once it has passed it: else
//! a scan of a large tree would push out all that other threads use. What was in memory before stays there. (To mark
//! it as cold does not help: where only what is accessed is read, Linux takes all for cold.)

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::index::RUN;
use crate::medium::{Hint, Medium};
use crate::node::{Entry, Interval, Keys, NEXT};
use crate::pool::record::{Location, locate};
use crate::pool::segments::{SegmentKind, Segments};
use std::collections::VecDeque;
use std::ops::Range;

/// So many leaves are read before the first is asked for: most ranges are short.
const SHORT: u8 = 4;
/// After so many leaves, the next ones are looked up again. The index tells twice as many.
const AGAIN: u8 = RUN as u8 / 2;
/// The least and the most that is asked for at once.
const PAGE: u64 = 4096;
const MOST: u64 = 2 << 20;
/// What lies so near behind or before a window continues it.
const NEAR: u64 = 64 << 10;

/// Asks for the leaves of a walk, which knows all of them.
pub(super) struct WalkAhead(Option<AskedAhead>);

impl WalkAhead {
    /// So many leaves are asked for at once.
    const CHUNK: usize = 32;

    pub(super) fn new<M: Medium>(m: &M) -> Self {
        Self(m.asks_ahead().map(AskedAhead::keeping))
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
        rest: Option<&Interval<N::Keys>>,
        from_left: bool,
    ) {
        if self.walked < SHORT {
            self.walked += 1;
            if self.walked == SHORT {
                self.asked = tree.medium().asks_ahead().map(AskedAhead::keeping).map(Box::new);
            }
        }
        if let Some(asked) = &mut self.asked {
            let reads_records = tree.leaves.records.is_some() && !self.skips_records;
            asked.pass(tree, (at, if reads_records { entries } else { &[] }), rest, from_left);
        }
    }
}

/// What a scan has asked for.
struct AskedAhead {
    leaves: Window,
    records: Window,
    /// How many leaves will be read before the next ones are looked up.
    left: u8,
}

impl AskedAhead {
    /// Keeps `most` bytes of what it brings into memory.
    fn keeping(most: u64) -> Self {
        let window = || Window { most: most / 2, ..Window::default() };
        Self { leaves: window(), records: window(), left: 0 }
    }

    #[cold]
    #[inline(never)]
    fn pass<N: TreeNode, M: Medium>(
        &mut self,
        tree: &TreeState<N, M>,
        (at, entries): (u64, &[Entry]),
        rest: Option<&Interval<N::Keys>>,
        from_left: bool,
    ) {
        if !from_left {
            // Of the leaves before it, nothing is known but that they may lie before it.
            self.ask_leaves(tree, &[at]);
        } else if let Some(rest) = rest {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => match tree.directory.run_at_once(rest.first()) {
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
    /// What was asked for in the next segment of this kind.
    beyond: Range<u64>,
    /// The last segment behind which one was looked for.
    looked_beyond: Option<u32>,
    /// Whether it was continued downwards.
    is_down: bool,
    /// How many bytes were brought into memory, and how many of them may stay there.
    brought: u64,
    most: u64,
    /// What was brought into memory, and will be let go of.
    passing: VecDeque<Range<u64>>,
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
            let is_there = |(at, len)| m.missing(at, len).is_empty();
            if self.len == PAGE {
                if !*are_there.get_or_insert_with(|| last().is_some_and(is_there)) {
                    m.hint(part.start, part.end - part.start, Hint::Ahead);
                }
                continue;
            }
            // What lies behind the segment is of another kind.
            let segments = &tree.pool.segments;
            let Some(segment) = segments.holding(at) else { continue };
            let whole = segments.start(segment)..(segments.start(segment) + segments.size()).max(at + len);
            self.asked = self.asked.start.max(whole.start)..self.asked.end.min(whole.end);
            let within = part.start.max(whole.start)..part.end.min(whole.end);
            self.bring(m, &within);
            if part.end > whole.end
                && self.looked_beyond.replace(segment) != Some(segment)
                && let Some(next) = alike_behind(segments, segment)
            {
                // What goes on in order goes on there.
                let start = segments.start(next);
                self.beyond = start..start + (part.end - whole.end).min(segments.len(next));
                self.bring(m, &self.beyond.clone());
            }
        }
    }

    /// Asks for what is missing of a part, and lets go of what was passed.
    fn bring<M: Medium>(&mut self, m: &M, part: &Range<u64>) {
        for missing in m.missing(part.start, part.end.saturating_sub(part.start)) {
            let bytes = missing.end - missing.start;
            m.hint(missing.start, bytes, Hint::Ahead);
            if self.brought > self.most {
                self.passing.push_back(missing);
            } else {
                self.brought += bytes;
            }
        }
        let Range { start, end } = self.asked;
        let is_passed =
            |part: &&Range<u64>| (part.end <= start || part.start >= end) && !self.beyond.contains(&part.start);
        while let Some(passed) = self.passing.front().filter(is_passed) {
            m.hint(passed.start, passed.end - passed.start, Hint::Passed);
            self.passing.pop_front();
        }
    }

    /// What is to be asked for, because `place` will be read.
    fn next(&mut self, place: Range<u64>) -> Option<Range<u64>> {
        if self.beyond.contains(&place.start) {
            self.asked = std::mem::take(&mut self.beyond);
        }
        let Range { start, end } = self.asked;
        let is_within = start <= place.start && place.end <= end;
        // A window of one page has no direction yet.
        let half = if self.len > PAGE { self.len / 2 } else { 0 };
        let (is_up, is_down) = if is_within {
            (!self.is_down && place.end + half > end, self.is_down && place.start < start + half)
        } else {
            (start <= place.start && place.start <= end + NEAR, place.end <= end && start <= place.end + NEAR)
        };
        if is_within && !is_up && !is_down {
            return None;
        }
        let pages = place.start / PAGE * PAGE..place.end.next_multiple_of(PAGE);
        if start == end || !(is_up || is_down) {
            self.len = (self.len / 8).max(PAGE);
            self.beyond = 0..0;
            self.asked = pages.start..pages.end.max(pages.start + self.len);
            return Some(self.asked.clone());
        }
        self.len = (self.len * 2).min(MOST);
        self.is_down = is_down;
        let part = if is_up {
            let from = end.max(pages.start);
            from..(from + self.len).max(pages.end)
        } else {
            let to = start.min(pages.end);
            to.saturating_sub(self.len).min(pages.start)..to
        };
        // What was passed long ago may be in memory no more.
        self.asked = if is_up {
            start.max(pages.start.saturating_sub(MOST))..part.end
        } else {
            part.start..end.min(pages.end + MOST)
        };
        Some(part)
    }
}

/// The next segment of the tree that holds blocks like those of this one, if it is near.
fn alike_behind(segments: &Segments, segment: u32) -> Option<u32> {
    const NEAR: u32 = 64;
    let class =
        segments.entry(segment).filter(|entry| matches!(entry.kind, SegmentKind::Leaf | SegmentKind::Record))?;
    (segment + 1..segment + NEAR)
        .take_while(|&next| next < segments.count())
        .find(|&next| segments.entry(next) == Some(class))
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
            assert!(covered(at) && covered(at + 639), "{at}");
        }
    }

    #[test]
    fn what_lies_in_order_is_asked_for_in_ever_longer_windows() {
        let up = (0..20_000).map(|i| (64 << 20) + i * 640);
        let parts = asked(up.clone());
        assert!(parts.len() < 40, "{} parts", parts.len());
        assert!(parts.iter().all(|part| part.end - part.start <= MOST + 640));
        are_asked_before(up.clone());
        let parts = asked(up.clone().rev());
        assert!(parts.len() < 40, "{} parts", parts.len());
        are_asked_before(up.rev());
    }

    #[test]
    fn what_lies_anywhere_is_asked_for_alone() {
        let anywhere = (0..1000u64).map(|i| (i * 0x9e37_79b9 % 100_000) * 65_536);
        let parts = asked(anywhere.clone());
        assert!(parts.iter().all(|part| part.end - part.start <= 2 * PAGE));
        are_asked_before(anywhere);
    }
}
