//! Ranges, forwards and backwards, a leaf at a time.

use super::Core;
use crate::chain::View;
use crate::medium::Medium;
use crate::node::{Entry, Node};
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

/// The entries of a range of keys. See [`PTree::range`](super::PTree::range).
pub struct Range<'t, N: Node, M: Medium> {
    tree: &'t Core<N, M>,
    /// Without them, values are any words.
    values: bool,
    /// Keys not yet read from either end, inclusive; `None`: all were.
    unread: Option<(u64, u64)>,
    /// The leaf that probably comes next from the left; 0: unknown.
    next: u64,
    /// Read from the left, not yet returned.
    front: Ready,
    /// Read from the right, not yet returned.
    back: Ready,
}

/// Entries of one leaf, of which those in `rest` are still to be returned.
#[derive(Default)]
struct Ready {
    entries: Vec<Entry>,
    rest: std::ops::Range<usize>,
}

impl Ready {
    #[inline]
    fn next(&mut self) -> Option<Entry> {
        self.rest.next().map(|i| self.entries[i])
    }

    #[inline]
    fn next_back(&mut self) -> Option<Entry> {
        self.rest.next_back().map(|i| self.entries[i])
    }
}

/// What a read leaf says of its place.
struct Place {
    low: u64,
    /// The greatest key that it owns.
    last: u64,
    next: u64,
}

impl<'t, N: Node, M: Medium> Range<'t, N, M> {
    pub(crate) fn new(tree: &'t Core<N, M>, range: impl RangeBounds<u64>, values: bool) -> Self {
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
        Self { tree, values, unread, next: 0, front: Ready::default(), back: Ready::default() }
    }

    /// Reads what the leaf that owns `key` holds of the unread keys. `None`: the tree is damaged there.
    fn read(&self, key: u64, unread: (u64, u64), mut ready: Ready) -> (Ready, Option<Place>) {
        let leaves = &self.tree.leaves;
        let entries = &mut ready.entries;
        let mut read = |view: &View<'_, N::Aid>| {
            entries.clear();
            leaves.entries_in(view, unread, self.values, entries);
            Place { low: view.span.low(), last: view.span.high().wrapping_sub(1), next: leaves.next_of(view) }
        };
        // Whatever this leaf is by now, if it owns the key it is the right one.
        let at_once = leaves
            .validate(self.next, self.next)
            .ok()
            .and_then(|at| leaves.view_at_once(at))
            .filter(|view| view.span.contains(key))
            .and_then(|view| Some(read(&view)).filter(|_| view.is_still()));
        let place = match at_once {
            Some(place) => Some(place),
            None => self.tree.note(self.tree.with_owner(key, &mut read).map(Some)),
        };
        ready.rest = 0..place.as_ref().map_or(0, |_| ready.entries.len());
        (ready, place)
    }

    fn read_front(&mut self, (from, to): (u64, u64)) {
        let ready = std::mem::take(&mut self.front);
        let (ready, place) = self.read(from, (from, to), ready);
        self.front = ready;
        self.unread = None;
        if let Some(Place { last, next, .. }) = place
            && last < to
        {
            self.unread = Some((last + 1, to));
            self.next = next;
            self.tree.leaves.prefetch_all(next);
        }
    }

    fn read_back(&mut self, (from, to): (u64, u64)) {
        let ready = std::mem::take(&mut self.back);
        let (ready, place) = self.read(to, (from, to), ready);
        self.back = ready;
        self.unread = place.filter(|place| place.low > from).map(|place| (from, place.low - 1));
    }
}

impl<N: Node, M: Medium> Iterator for Range<'_, N, M> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.front.next() {
                return Some(entry);
            }
            let Some(unread) = self.unread else { return self.back.next() };
            self.read_front(unread);
        }
    }
}

impl<N: Node, M: Medium> DoubleEndedIterator for Range<'_, N, M> {
    fn next_back(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.back.next_back() {
                return Some(entry);
            }
            let Some(unread) = self.unread else { return self.front.next_back() };
            self.read_back(unread);
        }
    }
}

impl<N: Node, M: Medium> FusedIterator for Range<'_, N, M> {}
