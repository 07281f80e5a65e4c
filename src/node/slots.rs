//! The stores of the sorted layouts: fill, shift, repair, scrub.

use crate::error::Broken;
use crate::medium::{LINE, Medium};
use crate::node::layout::{Checked, New};
use crate::node::sorted::{Geometry, HEADER, META, Side, Sorted, Window, meta};
use crate::node::{Entry, LOW, NEXT, SLOT, Span};
use core::hint::select_unpredictable;

/// Stores that become durable in the order they are made.
///
/// Within a line an order point is enough; a change of line waits until the line left behind is durable. So after a crash
/// the medium holds the effect of a prefix of the stores, which is what all `Crash:` arguments about shifts build on.
struct InOrder<'m, M: Medium> {
    m: &'m M,
    /// Where order points alone are enough, lines need not be told apart: that saves a branch that is hard to predict.
    by_line: bool,
    /// An entry is one store: on a medium that keeps pairs together.
    by_pairs: bool,
    line: Option<u64>,
}

impl<'m, M: Medium> InOrder<'m, M> {
    fn new<N: Sorted>(m: &'m M) -> Self {
        Self { m, by_line: m.writes_back(), by_pairs: N::BY_PAIRS && m.pairs_are_whole(), line: None }
    }

    /// Stores an entry on its way outwards: the value first. As long as the key is not there, the slot is empty, or the inner
    /// one of an equal pair.
    #[inline(always)]
    fn store_outwards(&mut self, at: u64, slot: usize, (key, value): Entry) {
        if self.by_pairs {
            return self.store_pair(key_at(at, slot), [key, value]);
        }
        self.store(value_at(at, slot), value);
        self.then_store(key_at(at, slot), key);
    }

    /// Stores an entry on its way inwards: the key first. It makes an equal pair of which the source, the outer one, counts.
    #[inline(always)]
    fn store_inwards(&mut self, at: u64, slot: usize, (key, value): Entry) {
        if self.by_pairs {
            return self.store_pair(key_at(at, slot), [key, value]);
        }
        self.store(key_at(at, slot), key);
        self.then_store(value_at(at, slot), value);
    }

    #[inline]
    #[track_caller]
    fn store(&mut self, at: u64, value: u64) {
        self.turn_to(at);
        self.m.store(at, value);
    }

    /// Two words that a crash leaves whole.
    #[inline]
    #[track_caller]
    fn store_pair(&mut self, at: u64, pair: [u64; 2]) {
        self.turn_to(at);
        self.m.store_pair(at, pair);
    }

    /// Puts what comes in order after what was stored.
    #[inline]
    #[track_caller]
    fn turn_to(&mut self, at: u64) {
        let line = if self.by_line { at & !(LINE - 1) } else { 0 };
        match self.line {
            Some(same) if same == line => self.m.order(),
            Some(other) => {
                self.m.flush(other, LINE);
                self.m.fence();
                self.line = Some(line);
            }
            None => self.line = Some(line),
        }
    }

    /// A store to the line of the last one.
    #[inline]
    #[track_caller]
    fn then_store(&self, at: u64, value: u64) {
        self.m.order();
        self.m.store(at, value);
    }

    #[inline]
    #[track_caller]
    fn finish(self) {
        if let Some(line) = self.line.filter(|_| self.by_line) {
            self.m.flush(line, LINE);
        }
    }
}

#[inline]
pub(crate) fn key_at(at: u64, slot: usize) -> u64 {
    at + HEADER + slot as u64 * SLOT
}

#[inline]
pub(crate) fn value_at(at: u64, slot: usize) -> u64 {
    key_at(at, slot) + 8
}

/// The key in a slot.
#[inline]
pub(crate) fn key<M: Medium>(m: &M, at: u64, slot: usize) -> u64 {
    m.load(key_at(at, slot))
}

/// The `i`-th entry of a node.
#[inline]
pub(crate) fn entry<N: Sorted, M: Medium>(m: &M, at: u64, window: Window, i: usize) -> Entry {
    let slot = N::Geometry::slot(window.base.into(), i as isize);
    (key(m, at, slot), m.load(value_at(at, slot)))
}

/// The value of the `i`-th entry of a node.
#[inline]
pub(crate) fn value<N: Sorted, M: Medium>(m: &M, at: u64, window: Window, i: usize) -> u64 {
    m.load(value_at(at, N::Geometry::slot(window.base.into(), i as isize)))
}

/// Binary search in `len` adjacent slots from `first` on, without unpredictable branches.
#[inline]
pub(crate) fn search<M: Medium>(m: &M, at: u64, first: usize, len: usize, wanted: u64) -> Result<usize, usize> {
    let keys = key_at(at, first);
    let mut low = 0u64;
    let mut left = len as u64;
    while left > 1 {
        let half = left / 2;
        // The greatest key not above the wanted one stays in `low ..`.
        low = select_unpredictable(m.load(keys + (low + half) * SLOT) <= wanted, low + half, low);
        left -= half;
    }
    if len == 0 {
        return Err(0);
    }
    match m.load(keys + low * SLOT).cmp(&wanted) {
        std::cmp::Ordering::Equal => Ok(low as usize),
        std::cmp::Ordering::Less => Err(low as usize + 1),
        std::cmp::Ordering::Greater => Err(low as usize),
    }
}

/// Writes a whole node into a block that nothing points to, and flushes it; the caller fences.
///
/// `zeroed` says that the block holds zeros, durably.
pub(crate) fn fill<N: Sorted, M: Medium>(
    m: &M,
    at: u64,
    New { level, low, next, .. }: New,
    entries: &[Entry],
    zeroed: bool,
) -> Window {
    m.store(at + NEXT, next);
    m.store(at + LOW, low);
    m.store(at + META, meta::<N>(level));
    let count = entries.len();
    for (slot, &(key, value)) in entries.iter().enumerate() {
        m.store_pair(key_at(at, slot), [key, value]);
    }
    // N2: zeros are empty slots, unless the node owns 0.
    if zeroed && low > 0 {
        m.flush(at, HEADER + count as u64 * SLOT);
    } else {
        for slot in count..N::SLOTS {
            m.store(key_at(at, slot), low.wrapping_sub(1));
        }
        m.flush(at, HEADER + N::SLOTS as u64 * SLOT);
    }
    Window::new(0, count)
}

/// Inserts an entry at position `i`, by ordered stores. There must be an empty slot. The last line is flushed, not fenced.
pub(crate) fn insert<N: Sorted, M: Medium>(m: &M, at: u64, window: Window, i: usize, new: Entry) -> Window {
    let (base, len) = (usize::from(window.base), window.len());
    let slot = |i: isize| N::Geometry::slot(base, i);
    let mut in_order = InOrder::new::<N>(m);
    let read = |i: isize| (key(m, at, slot(i)), m.load(value_at(at, slot(i))));
    let i = i as isize;
    // Crash, at any of these stores: the run is longer by one slot and has one equal pair, of which the outer one is
    // whole (N3); the next open closes the gap. Or the new key is there: then so is all else.
    match N::Geometry::side_of_insert(i as usize, len) {
        Side::Right => {
            for j in (i..len as isize).rev() {
                in_order.store_outwards(at, slot(j + 1), read(j));
            }
            in_order.store_outwards(at, slot(i), new);
            in_order.finish();
            Window::new(base, len + 1)
        }
        Side::Left => {
            for j in 0..i {
                in_order.store_outwards(at, slot(j - 1), read(j));
            }
            in_order.store_outwards(at, slot(i - 1), new);
            in_order.finish();
            Window::new(slot(-1), len + 1)
        }
    }
}

/// Removes the entry at position `i`, by ordered stores. The last line is flushed, not fenced.
pub(crate) fn remove<N: Sorted, M: Medium>(m: &M, at: u64, span: Span, window: Window, i: usize) -> Window {
    close_gap::<N, M>(m, at, span, window, i, N::Geometry::side_of_remove(i, window.len()))
}

fn close_gap<N: Sorted, M: Medium>(m: &M, at: u64, span: Span, window: Window, i: usize, side: Side) -> Window {
    let (base, len) = (usize::from(window.base), window.len());
    let slot = |i: isize| N::Geometry::slot(base, i);
    let mut in_order = InOrder::new::<N>(m);
    let read = |i: isize| (key(m, at, slot(i)), m.load(value_at(at, slot(i))));
    let i = i as isize;
    // Crash, at any of these stores: one equal pair, of which the outer one is whole (N3). The removed key went with the
    // first store.
    match side {
        Side::Right => {
            let last = len as isize - 1;
            for j in i..last {
                in_order.store_inwards(at, slot(j), read(j + 1));
            }
            in_order.store(key_at(at, slot(last)), span.marker());
            in_order.finish();
            Window::new(base, len - 1)
        }
        Side::Left => {
            for j in (1..=i).rev() {
                in_order.store_inwards(at, slot(j), read(j - 1));
            }
            in_order.store(key_at(at, slot(0)), span.marker());
            in_order.finish();
            Window::new(slot(1), len - 1)
        }
    }
}

/// Replaces the value at position `i`; flushed.
pub(crate) fn update<N: Sorted, M: Medium>(m: &M, at: u64, window: Window, i: usize, value: u64) {
    let place = value_at(at, N::Geometry::slot(window.base.into(), i as isize));
    m.store(place, value);
    // Crash: the old value or the new one.
    m.flush(place, 8);
}

/// Copies entries behind the run, where they are still outside the owned range, and empties every other slot whose key
/// lies in `wider`, the range that is to be owned. Flushed; the caller fences and commits.
pub(crate) fn stage<N: Sorted, M: Medium>(m: &M, at: u64, wider: Span, window: Window, entries: &[Entry]) -> Window {
    let base = usize::from(window.base);
    let len = window.len() + entries.len();
    let mut dirty: Option<u64> = None;
    let mut touch = |slot: usize| {
        let line = key_at(at, slot) & !(LINE - 1);
        if let Some(left) = dirty.replace(line).filter(|&left| left != line) {
            m.flush(left, LINE);
        }
    };
    for (i, &(key, value)) in entries.iter().enumerate() {
        let slot = N::Geometry::slot(base, (window.len() + i) as isize);
        touch(slot);
        m.store_pair(key_at(at, slot), [key, value]);
    }
    for i in len..N::SLOTS {
        let slot = N::Geometry::slot(base, i as isize);
        if wider.contains(key(m, at, slot)) {
            // What a split left behind would come back with the range.
            touch(slot);
            m.store(key_at(at, slot), wider.marker());
        }
    }
    if let Some(line) = dirty {
        m.flush(line, LINE);
    }
    Window::new(base, len)
}

/// What the bytes of a node say, without a store: its window, and the position of the equal pair if there is one.
pub(crate) fn inspect<N: Sorted, M: Medium>(m: &M, at: u64, span: Span) -> Result<(Window, Option<usize>), Broken> {
    let base =
        N::Geometry::base(|slot| key(m, at, slot), span).ok_or(Broken::new(at, "N3: the entries form no run"))?;
    let mut len = 0;
    let mut pair = None;
    let mut last = 0;
    while len < N::SLOTS {
        let slot = N::Geometry::slot(base, len as isize);
        let key = key(m, at, slot);
        if !span.contains(key) {
            break;
        }
        if len > 0 && key <= last {
            if key < last || pair.is_some() {
                return Err(Broken::new(key_at(at, slot), "N3: keys ascend, with at most one equal pair"));
            }
            pair = Some(len - 1);
        }
        last = key;
        len += 1;
    }
    Ok((Window::new(base, len), pair))
}

/// Finishes an interrupted shift, if there is the trace of one; what it leaves is durable. Tells the window.
pub(crate) fn repair<N: Sorted, M: Medium>(m: &M, at: u64, span: Span) -> Result<Window, Broken> {
    let (window, pair) = inspect::<N, M>(m, at, span)?;
    let Some(first) = pair else { return Ok(window) };
    let side = N::Geometry::side_of_pair(first, window.len());
    let inner = if side == Side::Left { first + 1 } else { first };
    // Crash: the pair lies nearer to the end of the run, on the same side; the next repair goes on from there.
    let window = close_gap::<N, M>(m, at, span, window, inner, side);
    m.fence();
    Ok(window)
}

/// Every broken invariant of one node, without a store.
pub(crate) fn check<N: Sorted, M: Medium>(
    m: &M,
    at: u64,
    span: Span,
    report: &mut dyn FnMut(Broken),
) -> Option<Checked> {
    match inspect::<N, M>(m, at, span) {
        Err(broken) => {
            report(broken);
            None
        }
        Ok((window, pair)) => {
            for i in window.len()..N::SLOTS {
                let slot = N::Geometry::slot(window.base.into(), i as isize);
                if span.contains(key(m, at, slot)) {
                    report(Broken::new(key_at(at, slot), "N2: an entry outside the run"));
                }
            }
            let entries = (0..window.len()).map(|i| entry::<N, M>(m, at, window, i)).collect();
            Some(Checked { entries, pair })
        }
    }
}
