//! The verbs on one node, as seen by a reader or as locked by a writer.

use super::{Chain, Locked, Met, NodeView};
use crate::arch;
use crate::medium::{Hint, LINE, Medium, Step};
use crate::node::{
    Defer, Deferred, EdgesOf, Entry, InNode, InnerOps, Keys, Layout, NEXT, Node, PREFETCHED, RefOf, Sizes, SizesOf,
    Space, SpanOf, SplitInPlace, WordNode, link, unsorted,
};
use core::ops::Range;

impl<N: Node, M: Medium> Chain<N, M> {
    /// Prefetches the parts of a node that a search for `key` will read.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64, key: RefOf<'_, N>) {
        match self.meet(at) {
            Some(node) => self.prefetch_met(node, key),
            None => N::Ops::prefetch(self.block(at), key),
        }
    }

    /// Prefetches the shadow of a node, and the parts of the node that a search for `key` will read.
    #[inline(always)]
    pub(crate) fn prefetch_met(&self, node: Met<'_, N>, key: RefOf<'_, N>) {
        arch::prefetch_of(node.shadow);
        N::Ops::prefetch(self.block(node.at), key);
    }

    /// Prefetches what the value of `key` points to, in a node that was prefetched for it.
    #[inline(always)]
    pub(crate) fn prefetch_value(&self, at: u64, key: RefOf<'_, N>) {
        if let Some(shadow) = self.shadow_at_once(at) {
            N::Ops::prefetch_value(self.node(at, shadow), key);
        }
    }

    /// Prefetches all of a node that is about to be read. `at` need not be the offset of a node.
    pub(crate) fn prefetch_all(&self, at: u64) {
        if self.accept(at, at).is_ok() {
            self.shadow_at_once(at).into_iter().for_each(arch::prefetch_of);
            self.medium().hint(at, N::BYTES.min(PREFETCHED), Hint::Soon);
        }
    }

    /// Prefetches the shadow of a node that will be read after that. `at` need not be the offset of a node.
    pub(crate) fn prefetch_shadow(&self, at: u64) {
        if self.accept(at, at).is_ok() {
            self.shadow_at_once(at).into_iter().for_each(arch::prefetch_of);
        }
    }

    /// Prefetches what slots of a node point to.
    #[inline]
    pub(crate) fn prefetch_slots(&self, at: u64, slots: Range<usize>) {
        slots.for_each(|slot| N::Ops::prefetch_slot(self.block(at), slot));
    }

    // Reading through a view.

    /// The value of a key.
    #[inline]
    pub(crate) fn value_in(&self, view: &NodeView<'_, N>, key: RefOf<'_, N>) -> Option<u64> {
        let node = self.node(view.at, view.shadow);
        SizesOf::<N>::searched(node.hints, &self.shared);
        let place = N::Ops::lookup(node, key)?;
        Some(N::Ops::value(node, place))
    }

    /// Writes the entries with keys in a span to the start of `out`, in ascending order, and returns how many there
    /// are.
    #[inline]
    pub(crate) fn entries_in(&self, view: &NodeView<'_, N>, keys: SpanOf<'_, N>, out: &mut Vec<Entry>) -> usize {
        N::Ops::entries(self.node(view.at, view.shadow), N::Keys::within(keys, view.range), out)
    }

    /// The right neighbour, not yet accepted.
    #[inline]
    pub(crate) fn next_of(&self, view: &NodeView<'_, N>) -> u64 {
        self.medium().load(view.at + NEXT)
    }

    /// Notes where a leaf begins and ends; `next` is its right neighbour, not yet accepted.
    #[inline(always)]
    pub(crate) fn note_edges(&self, view: &NodeView<'_, N>, next: u64, edges: &mut EdgesOf<N>) {
        N::Keys::note_edges(self.block(view.at), view.range, next, edges);
    }

    // The verbs on one locked node, which the caller has frozen if it is to change. The effect of those that change it
    // is durable when they return.

    #[inline]
    pub(crate) fn len(&self, node: &Locked<'_, N>) -> usize {
        N::Ops::len(&node.shadow.hints)
    }

    /// The number of slots that are taken, by live entries or by remains of entries.
    #[inline]
    pub(crate) fn taken(&self, node: &Locked<'_, N>) -> usize {
        N::Space::taken(&node.shadow.hints)
    }

    /// The number of all slots.
    #[inline]
    pub(crate) fn slots(&self, node: &Locked<'_, N>) -> usize {
        SizesOf::<N>::slots(&node.shadow.hints)
    }

    /// Whether at least `slots` slots are not taken.
    #[inline]
    pub(crate) fn has_room(&self, node: &Locked<'_, N>, slots: usize) -> bool {
        self.taken(node) + slots <= self.slots(node)
    }

    /// Whether a node is so empty that it should be merged.
    #[inline]
    pub(crate) fn is_sparse(&self, node: &Locked<'_, N>) -> bool {
        N::Space::is_sparse(&node.shadow.hints)
    }

    /// Whether a copy with the change costs less than the change in place.
    #[inline(always)]
    pub(crate) fn copy_pays(&self, node: &Locked<'_, N>, change: InNode) -> bool {
        N::POLICY.copy_pays.is_some_and(|pays| pays(&|| self.medium().costs(), self.len(node), change))
    }

    /// Passes on the usage statistics of a node to one of the `heirs` nodes that replace it.
    pub(crate) fn inherit(&self, new: &Locked<'_, N>, of: &Locked<'_, N>, heirs: usize) {
        SizesOf::<N>::inherit(&new.shadow.hints, &of.shadow.hints, heirs);
    }

    /// The number of lines of the node.
    pub(crate) fn lines(&self, node: &Locked<'_, N>) -> u32 {
        SizesOf::<N>::lines(&node.shadow.hints)
    }

    /// The number of lines for the nodes that are to replace this one.
    pub(crate) fn resize(&self, node: &Locked<'_, N>) -> u32 {
        // Limited by the largest block that fits into a segment.
        let most = (N::BYTES << (self.pool.segments.size() / N::BYTES).ilog2()) / LINE;
        SizesOf::<N>::resize(self.locked(node), &self.shared, most as u32, || self.in_use())
    }

    /// How many slots of the node at `at` were written, which need not be the offset of a node.
    pub(crate) fn writes(&self, at: u64) -> u64 {
        let shadow = self.accept(at, at).ok().and_then(|at| self.shadow_at_once(at));
        shadow.map_or(0, |shadow| SizesOf::<N>::writes(&shadow.hints))
    }

    #[inline]
    pub(crate) fn search(&self, node: &Locked<'_, N>, key: RefOf<'_, N>) -> Result<usize, usize> {
        N::Ops::search(self.locked(node), key)
    }

    #[inline]
    pub(crate) fn value(&self, node: &Locked<'_, N>, place: usize) -> u64 {
        N::Ops::value(self.locked(node), place)
    }

    #[inline]
    pub(crate) fn insert(&self, node: &mut Locked<'_, N>, place: usize, (key, value): (RefOf<'_, N>, u64)) {
        node.change();
        let entry = N::Keys::entry(self.block(node.at), node.range(), key, value);
        N::Ops::insert(self.locked(node), place, entry);
        self.medium().fence(Step::Insert);
        self.count_write(node, 1);
    }

    #[inline]
    pub(crate) fn update(&self, node: &mut Locked<'_, N>, place: usize, value: u64) {
        node.change();
        N::Ops::update(self.locked(node), place, value);
        self.medium().fence(Step::Update);
        self.count_write(node, self.update_takes());
    }

    #[inline]
    pub(crate) fn remove(&self, node: &mut Locked<'_, N>, place: usize) {
        node.change();
        N::Ops::remove(self.locked(node), node.range(), place);
        self.medium().fence(Step::Remove);
        self.count_write(node, self.removal_takes());
    }

    /// The slots that a change of a value takes.
    #[inline(always)]
    pub(crate) fn update_takes(&self) -> usize {
        N::Space::TAKES.update
    }

    /// The slots that a removal takes.
    #[inline(always)]
    pub(crate) fn removal_takes(&self) -> usize {
        N::Space::TAKES.remove
    }

    /// Counts a change of a node that takes this many slots, in layouts whose sizes follow what happens to them.
    #[inline(always)]
    pub(crate) fn count_write(&self, node: &Locked<'_, N>, slots: usize) {
        SizesOf::<N>::written(&node.shadow.hints, &self.shared, slots);
    }

    /// Makes another node the right neighbour, which commits what was prepared. Durable when it returns.
    pub(crate) fn link(&self, node: &mut Locked<'_, N>, right: u64) {
        node.change();
        link(self.block(node.at), right);
    }

    /// All entries, in ascending order.
    pub(crate) fn entries(&self, node: &Locked<'_, N>) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(N::SLOTS + 1);
        let all = N::Keys::ALL;
        let count = N::Ops::entries(self.locked(node), all, &mut entries);
        entries.truncate(count);
        entries
    }
}

impl<N: Node<Ops: Defer>, M: Medium> Chain<N, M> {
    /// Sets the value of a key, or removes it, at the place that a search returned. Of this, only the words that change
    /// are passed to `put`: the caller stores them, durably, before it unlocks the node.
    pub(crate) fn defer(
        &self,
        node: &mut Locked<'_, N>,
        place: Result<usize, usize>,
        key: RefOf<'_, N>,
        value: Option<u64>,
        mut put: impl FnMut(u64, u64),
    ) {
        let change = match (place, value) {
            (Ok(place), Some(value)) => Deferred::Update(place, value),
            (Ok(place), None) => Deferred::Remove(place),
            (Err(place), Some(value)) => {
                Deferred::Insert(place, N::Keys::entry(self.block(node.at), node.range(), key, value))
            }
            (Err(_), None) => return,
        };
        node.change();
        let at = node.at;
        N::Ops::defer(self.locked(node), node.range(), change, |word, value| put(at + word, value));
    }
}

impl<N: Node<Ops: SplitInPlace>, M: Medium> Chain<N, M> {
    /// Removes entries of a node, which ascend. If a layout allows it, all of them go under one fence.
    pub(crate) fn remove_all(&self, node: &mut Locked<'_, N>, entries: &[Entry]) {
        node.change();
        let range = node.range();
        let fence = || self.medium().fence(Step::BatchChange);
        let lines = N::Ops::remove_all(self.locked(node), range, entries, fence);
        if lines != 0 {
            self.flush_lines(node, lines);
            // Crash, until here: each of the entries is there or not.
            self.medium().fence(Step::BatchFence);
        }
    }

    /// Flushes the lines of a node that are set in the bitmask.
    pub(crate) fn flush_lines(&self, node: &Locked<'_, N>, lines: u64) {
        unsorted::flush_lines(self.block(node.at), lines, Step::BatchLines);
    }
}

impl<N: WordNode<Ops: SplitInPlace>, M: Medium> Chain<N, M> {
    /// Prefetches what an insert of `key` will read and write, in a node that was prefetched for it.
    #[inline]
    pub(crate) fn prefetch_put(&self, at: u64, key: u64) {
        if let Some(shadow) = self.shadow_at_once(at)
            && N::Ops::prefetch_put(self.node(at, shadow), key)
        {
            self.prefetch_stamp(at);
        }
    }

    /// Inserts an entry or replaces its value, at the place that a search returned. The change is durable once the
    /// returned lines (a bitmask) are [flushed](Self::flush_lines) and fenced. The node must stay locked until then.
    pub(crate) fn upsert(&self, node: &mut Locked<'_, N>, place: Result<usize, usize>, entry: Entry) -> u64 {
        node.change();
        N::Ops::put(self.locked(node), place, entry)
    }
}

impl<N: WordNode<Ops: InnerOps>, M: Medium> Chain<N, M> {
    /// The child of the greatest separator that is not above the key.
    pub(crate) fn child(&self, view: &NodeView<'_, N>, key: u64) -> Option<u64> {
        let node = self.node(view.at, view.shadow);
        let place = N::Ops::floor(node, key)?;
        Some(N::Ops::value(node, place))
    }
}
