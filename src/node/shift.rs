//! Changes by shifting: entries move one by one, by stores that become durable in order.

use super::counted;
use super::slots::{self, key, key_at, value_at};
use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};
use crate::node::layout::{Checked, NewNode};
use crate::node::sorted::{Changes, RunEnd, RunGeometry, Sorted, Window};
use crate::node::{BlockAt, Entry, KeyRange, SLOT};

/// Stores that become durable in the order they are made.
///
/// Within a line an order point is enough. Before a store goes to another line, the line left behind is made durable.
/// So after a crash the medium holds the effect of a prefix of the stores, and all `Crash:` arguments about shifts rely
/// on this.
struct InOrder<'m, M: Medium> {
    node: BlockAt<'m, M>,
    /// False where order points alone are enough: then lines are not told apart, which saves a branch that is hard to
    /// predict.
    by_line: bool,
    /// True on a medium that keeps pairs whole: then an entry is one store.
    by_pairs: bool,
    /// Whether this store is a compare-and-swap.
    by_swaps: bool,
    line: Option<u64>,
}

impl<'m, M: Medium> InOrder<'m, M> {
    fn new<N: Sorted>(node: BlockAt<'m, M>) -> Self {
        let facts = node.pool.m.facts();
        let by_pairs = N::BY_PAIRS && facts.pairs_are_whole;
        Self { node, by_line: facts.writes_back, by_pairs, by_swaps: N::BY_SWAPS, line: None }
    }

    /// Stores an entry that moves outwards: the value first. Until the key is stored, the slot is empty, or it is the
    /// inner one of an equal pair.
    #[inline(always)]
    fn store_outwards(&mut self, slot: usize, (key, value): Entry) {
        if self.by_pairs {
            return self.store_pair(key_at(slot), [key, value], Step::ShiftOutwards);
        }
        self.store(value_at(slot), value, Step::ShiftOutwards);
        self.then_store(key_at(slot), key, Step::ShiftOutwardsKey);
    }

    /// Stores an entry that moves inwards: the key first. This makes an equal pair. The source, the outer one, counts.
    #[inline(always)]
    fn store_inwards(&mut self, slot: usize, (key, value): Entry) {
        if self.by_pairs {
            return self.store_pair(key_at(slot), [key, value], Step::ShiftInwards);
        }
        self.store(key_at(slot), key, Step::ShiftInwards);
        self.then_store(value_at(slot), value, Step::ShiftInwardsValue);
    }

    #[inline]
    fn store(&mut self, at: u64, value: u64, step: Step) {
        self.turn_to(at, step);
        self.node.store(at, value);
    }

    /// Stores two words that a crash leaves whole.
    #[inline]
    fn store_pair(&mut self, at: u64, pair: [u64; 2], step: Step) {
        self.turn_to(at, step);
        if self.by_swaps { self.node.swap_pair(at, pair) } else { self.node.store_pair(at, pair) }
    }

    /// Orders the stores that follow, to the line of `at`, after those that were made.
    #[inline]
    fn turn_to(&mut self, at: u64, step: Step) {
        let line = if self.by_line { at & !(LINE - 1) } else { 0 };
        match self.line {
            Some(same) if same == line => self.node.order(step),
            Some(other) => {
                self.node.flush(other, LINE, step);
                self.node.fence(step);
                self.line = Some(line);
            }
            None => self.line = Some(line),
        }
    }

    /// Stores to the line of the last store.
    #[inline]
    fn then_store(&self, at: u64, value: u64, step: Step) {
        self.node.order(step);
        self.node.store(at, value);
    }

    /// Flushes the line of the last stores, which were `len` bytes at `at`.
    #[inline]
    fn finish(self, at: u64, len: u64, step: Step) {
        if self.by_line {
            self.node.flush(at, len, step);
        }
    }
}

/// A run that changes by shifting entries to make room and to close gaps, as in FAST+FAIR and Circ-Tree.
pub enum Shift {}

impl<N: Sorted> Changes<N> for Shift {
    fn fill(node: BlockAt<'_, impl Medium>, new: NewNode) -> Window {
        slots::fill::<N>(node, new)
    }

    #[inline]
    fn insert(node: BlockAt<'_, impl Medium>, window: Window, i: usize, new: Entry) -> Window {
        let (base, len) = (usize::from(window.base), window.len());
        let slot = |i: isize| N::Geometry::slot(base, i);
        let mut in_order = InOrder::new::<N>(node);
        let read = |i: isize| (key(node, slot(i)), node.load(value_at(slot(i))));
        let i = i as isize;
        // Crash, at any of these stores: the run is longer by one slot and has one equal pair. The outer one is whole
        // (N3); the next open closes the gap. Or the new key is there: then so is everything else.
        let window = match N::Geometry::side_of_insert(i as usize, len) {
            RunEnd::Right => {
                for j in (i..len as isize).rev() {
                    in_order.store_outwards(slot(j + 1), read(j));
                }
                in_order.store_outwards(slot(i), new);
                in_order.finish(key_at(slot(i)), SLOT, Step::ShiftRightInsert);
                Window::new(base, len + 1)
            }
            RunEnd::Left => {
                for j in 0..i {
                    in_order.store_outwards(slot(j - 1), read(j));
                }
                in_order.store_outwards(slot(i - 1), new);
                in_order.finish(key_at(slot(i - 1)), SLOT, Step::ShiftLeftInsert);
                Window::new(slot(-1), len + 1)
            }
        };
        counted::commit::<N>(node, window);
        window
    }

    #[inline]
    fn update(node: BlockAt<'_, impl Medium>, window: Window, i: usize, value: u64) {
        let place = value_at(N::Geometry::slot(window.base.into(), i as isize));
        node.store(place, value);
        node.flush(place, 8, Step::ShiftUpdate);
    }

    #[inline]
    fn remove(node: BlockAt<'_, impl Medium>, range: KeyRange, window: Window, i: usize) -> Window {
        let window = close_gap::<N>(node, range, window, i, N::Geometry::side_of_remove(i, window.len()));
        counted::commit::<N>(node, window);
        window
    }

    fn recover(node: BlockAt<'_, impl Medium>, range: KeyRange) -> Result<Window, Broken> {
        let (mut window, pair) = slots::inspect::<N>(node, range)?;
        if let Some(first) = pair {
            let side = N::Geometry::side_of_pair(first, window.len());
            let inner = if side == RunEnd::Left { first + 1 } else { first };
            window = close_gap::<N>(node, range, window, inner, side);
            node.fence(Step::ShiftRepair);
        }
        counted::recover::<N>(node, window)?;
        Ok(window)
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        slots::check::<N>(node, range, report)
    }
}

/// Moves the entries on one side of position `i` inwards, over it.
fn close_gap<N: Sorted>(
    node: BlockAt<'_, impl Medium>,
    range: KeyRange,
    window: Window,
    i: usize,
    side: RunEnd,
) -> Window {
    let (base, len) = (usize::from(window.base), window.len());
    let slot = |i: isize| N::Geometry::slot(base, i);
    let mut in_order = InOrder::new::<N>(node);
    let read = |i: isize| (key(node, slot(i)), node.load(value_at(slot(i))));
    let i = i as isize;
    // Crash, at any of these stores: one equal pair. The outer one is whole (N3). The removed key was overwritten by
    // the first store.
    match side {
        RunEnd::Right => {
            let last = len as isize - 1;
            for j in i..last {
                in_order.store_inwards(slot(j), read(j + 1));
            }
            in_order.store(key_at(slot(last)), range.marker(), Step::ShiftRightMarker);
            in_order.finish(key_at(slot(last)), 8, Step::ShiftRightRemove);
            Window::new(base, len - 1)
        }
        RunEnd::Left => {
            for j in (1..=i).rev() {
                in_order.store_inwards(slot(j), read(j - 1));
            }
            in_order.store(key_at(slot(0)), range.marker(), Step::ShiftLeftMarker);
            in_order.finish(key_at(slot(0)), 8, Step::ShiftLeftRemove);
            Window::new(slot(1), len - 1)
        }
    }
}
