//! Ranges, forwards and backwards, a leaf at a time.

use super::Core;
use crate::medium::Medium;
use crate::node::{Entry, Node};
use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

/// The entries of a range of keys. See [`PTree::range`](super::PTree::range).
pub struct Range<'t, N: Node, M: Medium> {
    tree: &'t Core<N, M>,
    /// Keys not yet read from either end, inclusive; `None`: all were.
    unread: Option<(u64, u64)>,
    /// Read from the left, not yet returned.
    front: VecDeque<Entry>,
    /// Read from the right, not yet returned.
    back: VecDeque<Entry>,
}

impl<'t, N: Node, M: Medium> Range<'t, N, M> {
    pub(crate) fn new(tree: &'t Core<N, M>, range: impl RangeBounds<u64>) -> Self {
        let (start, end) = (range.start_bound().cloned(), range.end_bound().cloned());
        if let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) = (start, end)
        {
            assert!(from <= to, "range start {from} is greater than range end {to}");
            let both = matches!((start, end), (Bound::Excluded(_), Bound::Excluded(_)));
            assert!(from < to || !both, "range start and end are equal and excluded: {from}");
        }
        let from = match start {
            Bound::Unbounded => Some(0),
            Bound::Included(key) => Some(key),
            Bound::Excluded(key) => key.checked_add(1),
        };
        let to = match end {
            Bound::Unbounded => Some(u64::MAX),
            Bound::Included(key) => Some(key),
            Bound::Excluded(key) => key.checked_sub(1),
        };
        let unread = from.zip(to).filter(|(from, to)| from <= to);
        Self { tree, unread, front: VecDeque::new(), back: VecDeque::new() }
    }

    /// Reads the leaf that owns `key`: what it holds of `from..=to`, its low, and the greatest key it owns.
    fn read(&self, key: u64, (from, to): (u64, u64)) -> Option<(VecDeque<Entry>, u64, u64)> {
        let read = self.tree.with_owner(key, |view| {
            let mut entries = Vec::new();
            self.tree.leaves.entries_in(view, (from, to), true, &mut entries);
            (entries.into(), view.span.low(), view.span.high().wrapping_sub(1))
        });
        self.tree.note(read.map(Some))
    }
}

impl<N: Node, M: Medium> Iterator for Range<'_, N, M> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.front.pop_front() {
                return Some(entry);
            }
            let Some((from, to)) = self.unread else { return self.back.pop_front() };
            let (entries, _, last) = self.read(from, (from, to)).unwrap_or((VecDeque::new(), 0, u64::MAX));
            self.front = entries;
            self.unread = last.checked_add(1).map(|from| (from, to)).filter(|(from, to)| from <= to);
        }
    }
}

impl<N: Node, M: Medium> DoubleEndedIterator for Range<'_, N, M> {
    fn next_back(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.back.pop_back() {
                return Some(entry);
            }
            let Some((from, to)) = self.unread else { return self.front.pop_back() };
            let (entries, low, _) = self.read(to, (from, to)).unwrap_or((VecDeque::new(), 0, 0));
            self.back = entries;
            self.unread = low.checked_sub(1).map(|to| (from, to)).filter(|(from, to)| from <= to);
        }
    }
}

impl<N: Node, M: Medium> FusedIterator for Range<'_, N, M> {}
