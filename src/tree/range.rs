//! Ranges, forwards and backwards, one leaf at a time.

use super::ahead::Asker;
use super::directory::Directory;
use super::order::{Bounds, Spot};
use super::scratch::Scratch;
use super::{TreeNode, TreeState};
use crate::chain::NodeView;
use crate::error::Broken;
use crate::index::RUN;
use crate::medium::Medium;
use crate::node::{Entry, Interval, Keys, NoLess, Node, RefOf};
use crate::sync::delay::delay;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

/// The entries of a range of keys. See [`PTree::range`](super::PTree::range).
pub struct Range<'t, N: TreeNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    /// Keys not yet read from either end; `None` if all were read.
    unread: Option<Unread<N>>,
    /// The leaves that probably come next from the left.
    ahead: Ahead,
    /// Entries read from the left and not yet returned.
    front: Ready<N>,
    /// Entries read from the right and not yet returned.
    back: Ready<N>,
    asker: Asker,
    /// Why the range ends before its end.
    broken: Option<Broken>,
}

/// The keys of a range, or its values. See [`PTree::keys`](super::PTree::keys) and
/// [`PTree::values`](super::PTree::values).
pub type Column<'t, N, M> = std::iter::Map<Range<'t, N, M>, fn((u64, u64)) -> u64>;

/// Entries of one leaf. Those in `rest` are still to be returned.
struct Ready<N: TreeNode> {
    entries: Scratch,
    rest: std::ops::Range<usize>,
    bounds: Bounds<N::Keys>,
}

impl<N: TreeNode> Default for Ready<N> {
    fn default() -> Self {
        Self { entries: Scratch::default(), rest: 0..0, bounds: Bounds::default() }
    }
}

impl<N: TreeNode> Ready<N> {
    /// The entry with this number.
    #[inline]
    fn spot(&self, i: usize) -> Spot<'_, N::Keys> {
        self.bounds.spot(self.entries.entries(), i)
    }
}

/// Leaves to be read from left to right, according to the index; 0 means unknown.
#[derive(Default)]
struct Ahead {
    leaves: [u64; RUN],
    /// The number of them that were read.
    read: usize,
    /// The right neighbour of the leaf that was read last. Without an index in memory, nothing else is known.
    next: u64,
    /// The slots of `next` whose records are still to be prefetched.
    records: std::ops::Range<usize>,
}

impl Ahead {
    fn leaf(&self, i: usize) -> u64 {
        self.leaves.get(self.read + i).copied().unwrap_or(0)
    }

    /// Whether so few are left that more should be looked up: there are two to prefetch for behind the next one. Where
    /// the index node ends, there are none to be had before that leaf was read.
    fn is_short(&self) -> bool {
        self.leaf(0) == 0 || self.read + 2 >= RUN
    }

    /// Forgets the leaves ahead.
    fn forget(&mut self) {
        self.read = RUN;
    }
}

type KeyOf<N> = <<N as Node>::Keys as Keys>::Key;
pub(super) type Unread<N> = Interval<<N as Node>::Keys>;
pub(super) type Edges<N> = crate::node::Edges<<N as Node>::Keys>;

/// A leaf that was read.
struct LeafRead {
    at: u64,
    /// Whether it was the leaf that was expected.
    expected: bool,
    next: u64,
}

/// A scan that went on after this damage might never end.
#[cold]
pub(super) fn no_less(at: u64) -> Broken {
    Broken::new(at, "N4: a leaf that a scan has come to does not end behind its start")
}

impl<'t, N: TreeNode, M: Medium> Range<'t, N, M> {
    /// A range of keys that was not yet read, whose bounds `encode` encodes.
    #[inline]
    #[track_caller]
    pub(crate) fn new<Q, E: Borrow<KeyOf<N>>>(
        tree: &'t TreeState<N, M>,
        range: impl RangeBounds<Q>,
        encode: impl Fn(&Q) -> E,
    ) -> Self {
        let unread = Interval::of_range(&range, &encode);
        if unread.is_none()
            && let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) =
                (range.start_bound(), range.end_bound())
        {
            let excluded = matches!((range.start_bound(), range.end_bound()), (Bound::Excluded(_), Bound::Excluded(_)));
            Self::check(tree, encode(from).borrow().cmp(encode(to).borrow()), excluded);
        }
        Self::over(tree, unread)
    }

    /// Panics if a range is backward, unless the tree is empty, as `BTreeMap` does. `order`: of its bounds; `excluded`
    /// says whether both of them are. The message does not show the bounds, because what they encode means nothing to
    /// the caller of a map.
    #[cold]
    #[track_caller]
    pub(crate) fn check(tree: &'t TreeState<N, M>, order: Ordering, excluded: bool) {
        if (order.is_gt() || order.is_eq() && excluded) && tree.has_entry() {
            assert!(order.is_gt(), "range start and end are equal and excluded");
            panic!("range start is greater than range end");
        }
    }

    /// All entries.
    pub(super) fn all(tree: &'t TreeState<N, M>) -> Self {
        Self::over(tree, Some(Interval::everything()))
    }

    #[inline]
    pub(crate) fn over(tree: &'t TreeState<N, M>, unread: Option<Unread<N>>) -> Self {
        let (ahead, front, back, asker) = Default::default();
        Self { tree, unread, ahead, front, back, asker, broken: None }
    }

    /// These entries, for a caller that reads no record of a value.
    pub(crate) fn without_values(mut self) -> Self {
        self.asker.skips_records = !N::Keys::HAS_RECORDS;
        self
    }

    /// Notes why nothing more can be read.
    fn note<T: Default>(&mut self, result: Result<T, Broken>) -> T {
        if let Err(broken) = result {
            self.broken = Some(broken);
        }
        self.tree.note(result)
    }

    /// Why the range has ended before its end. Once.
    pub(crate) fn broken(&mut self) -> Option<Broken> {
        self.broken.take()
    }

    /// The interval that was not read yet.
    pub(crate) fn into_unread(self) -> Option<Unread<N>> {
        self.unread
    }

    /// Reads the unread keys of the leaf that owns `key`.
    #[inline]
    fn read(
        tree: &TreeState<N, M>,
        hint: u64,
        key: RefOf<'_, N>,
        unread: &Unread<N>,
        ready: &mut Ready<N>,
    ) -> Result<LeafRead, Broken> {
        delay();
        let leaves = &tree.leaves;
        let Ready { entries, rest, bounds } = ready;
        let (buffer, mut count) = (entries.buffer(), 0);
        let mut read = |view: &NodeView<'_, N>| {
            count = leaves.entries_in(view, unread.span(), buffer);
            let next = leaves.next_of(view);
            leaves.note_edges(view, next, &mut bounds.edges);
            LeafRead { at: view.at, expected: view.at == hint, next }
        };
        let hinted = leaves.accept(hint, hint).ok();
        let at_once = hinted.and_then(|at| tree.with_owner_at_once(at, key, &mut read));
        let place = at_once.map_or_else(|| tree.with_owner(key, &mut read), Ok);
        *rest = 0..if place.is_ok() { count } else { 0 };
        bounds.note(&buffer[rest.clone()]);
        place
    }

    /// Prefetches the records of the entries of a leaf, if keys are in them.
    fn prefetch(tree: &TreeState<N, M>, ready: &Ready<N>) {
        if N::Keys::HAS_RECORDS {
            let pool = tree.leaves.access();
            let entries = &ready.entries.entries()[ready.rest.clone()];
            entries.iter().for_each(|&(_, value)| pool.prefetch_record(N::Keys::record(value)));
        }
    }

    fn read_front(&mut self, unread: Unread<N>) {
        let leaves = &self.tree.leaves;
        let from = unread.first();
        if self.ahead.is_short() {
            self.ahead.leaves = self.tree.directory.run_at_once(from).unwrap_or_else(|| {
                let mut one = [0; RUN];
                one[0] = self.ahead.next;
                one
            });
            self.ahead.read = 0;
            if self.ahead.leaf(0) != self.ahead.next {
                leaves.prefetch_all(self.ahead.leaf(0));
            }
        }
        // More than one leaf ahead gains nothing, even in a tree that is much larger than the caches, but costs short
        // scans lines that they never read. The shadow is what a read of a leaf waits for first.
        leaves.prefetch_all(self.ahead.leaf(1));
        leaves.prefetch_shadow(self.ahead.leaf(2));
        let hint = self.ahead.leaf(0);
        self.ahead.read += 1;
        let place = Self::read(self.tree, hint, from, &unread, &mut self.front);
        if let Some(LeafRead { at, expected, next }) = self.note(place.map(Some)) {
            if at != self.ahead.next || !self.ahead.records.is_empty() {
                Self::prefetch(self.tree, &self.front);
            }
            self.unread = self.note(unread.beyond(&self.front.bounds.edges).map_err(|NoLess| no_less(at)));
            self.ahead.next = next;
            if self.ahead.leaf(0) == 0 && self.unread.is_some() {
                // Here the index node ends, so only the leaf itself knows the next one.
                leaves.prefetch_all(next);
            }
            let Ready { entries, rest, .. } = &self.front;
            self.asker.pass(self.tree, (at, &entries.entries()[rest.clone()]), self.unread.as_ref(), true);
            let known = N::Keys::HAS_RECORDS && leaves.accept(next, at).is_ok();
            self.ahead.records = if known { 0..N::SLOTS } else { 0..0 };
            if !expected {
                // Leaves have split or merged, or the index node lists no more of them.
                self.ahead.forget();
            }
        }
    }

    /// Called for each entry from the left: after every fourth one, prefetches some records of the leaf that comes
    /// next. All at once would be more than a core can wait for.
    #[inline]
    fn prefetch_records(&mut self) {
        if N::Keys::HAS_RECORDS && self.front.rest.start.is_multiple_of(4) && !self.ahead.records.is_empty() {
            self.prefetch_some_records();
        }
    }

    #[inline(never)]
    fn prefetch_some_records(&mut self) {
        const AT_ONCE: usize = 12;
        let from = self.ahead.records.start;
        self.ahead.records.start = (from + AT_ONCE).min(N::SLOTS);
        self.tree.leaves.prefetch_slots(self.ahead.next, from..self.ahead.records.start);
    }

    fn read_back(&mut self, unread: Unread<N>) {
        let to = unread.last();
        let place = Self::read(self.tree, 0, to, &unread, &mut self.back);
        if let Ok(LeafRead { at, .. }) = place {
            let Ready { entries, rest, .. } = &self.back;
            self.asker.pass(self.tree, (at, &entries.entries()[rest.clone()]), Some(&unread), false);
        }
        self.unread = self.note(place.and_then(|LeafRead { at, .. }| {
            Self::prefetch(self.tree, &self.back);
            unread.up_to(&self.back.bounds.edges).map_err(|NoLess| no_less(at))
        }));
    }
}

/// For iterators that also read records: they must know when a leaf is read, and when its entries are used up.
impl<N: TreeNode, M: Medium> Range<'_, N, M> {
    /// The next entry. Calls `before` before it reads a leaf from the left.
    #[inline]
    pub(crate) fn next_with(&mut self, mut before: impl FnMut()) -> Option<Spot<'_, N::Keys>> {
        loop {
            if let Some(i) = self.front.rest.next() {
                self.prefetch_records();
                return Some(self.front.spot(i));
            }
            let Some(unread) = self.unread.take() else { return self.back.rest.next().map(|i| self.back.spot(i)) };
            before();
            self.read_front(unread);
        }
    }

    /// The last entry. Calls `before` before it reads a leaf from the right.
    #[inline]
    pub(crate) fn next_back_with(&mut self, mut before: impl FnMut()) -> Option<Spot<'_, N::Keys>> {
        loop {
            if let Some(i) = self.back.rest.next_back() {
                return Some(self.back.spot(i));
            }
            let Some(unread) = self.unread.take() else {
                return self.front.rest.next_back().map(|i| self.front.spot(i));
            };
            before();
            self.read_back(unread);
        }
    }

    /// Whether the entries that were read from the left, and those from the right, are used up.
    #[inline]
    pub(crate) fn used_up(&self) -> (bool, bool) {
        (self.front.rest.is_empty(), self.back.rest.is_empty())
    }
}

impl<N: TreeNode, M: Medium> Iterator for Range<'_, N, M> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        self.next_with(|| ()).map(Spot::entry)
    }
}

impl<N: TreeNode, M: Medium> DoubleEndedIterator for Range<'_, N, M> {
    fn next_back(&mut self) -> Option<Entry> {
        self.next_back_with(|| ()).map(Spot::entry)
    }
}

impl<N: TreeNode, M: Medium> FusedIterator for Range<'_, N, M> {}
