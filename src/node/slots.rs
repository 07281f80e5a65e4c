//! The slots of sorted nodes: reading, filling and checking them. [`shift`](super::shift) describes how entries shift.

use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};
use crate::node::layout::{Checked, NewNode};
use crate::node::sorted::{HEADER, META, RunEnd, RunGeometry, Sorted, Window, meta};
use crate::node::{BlockAt, Entry, KeyRange, LOW, NEXT, SLOT, counted};
use core::hint::select_unpredictable;

#[inline]
pub(crate) fn key_at(slot: usize) -> u64 {
    HEADER + slot as u64 * SLOT
}

#[inline]
pub(crate) fn value_at(slot: usize) -> u64 {
    key_at(slot) + 8
}

/// The key in a slot.
#[inline]
pub(crate) fn key(node: BlockAt<'_, impl Medium>, slot: usize) -> u64 {
    node.load(key_at(slot))
}

/// The `i`-th entry of a node.
#[inline]
pub(crate) fn entry<N: Sorted>(node: BlockAt<'_, impl Medium>, window: Window, i: usize) -> Entry {
    let slot = N::Geometry::slot(window.base.into(), i as isize);
    (key(node, slot), node.load(value_at(slot)))
}

/// The value of the `i`-th entry of a node.
#[inline]
pub(crate) fn value<N: Sorted>(node: BlockAt<'_, impl Medium>, window: Window, i: usize) -> u64 {
    node.load(value_at(N::Geometry::slot(window.base.into(), i as isize)))
}

/// Binary search in `len` adjacent slots from `first` on, without unpredictable branches.
#[inline]
pub(crate) fn search(node: BlockAt<'_, impl Medium>, first: usize, len: usize, wanted: u64) -> Result<usize, usize> {
    let keys = key_at(first);
    let mut low = 0u64;
    let mut left = len as u64;
    while left > 1 {
        let half = left / 2;
        // The greatest key that is not above the wanted one stays in `low ..`.
        low = select_unpredictable(node.load(keys + (low + half) * SLOT) <= wanted, low + half, low);
        left -= half;
    }
    if len == 0 {
        return Err(0);
    }
    match node.load(keys + low * SLOT).cmp(&wanted) {
        std::cmp::Ordering::Equal => Ok(low as usize),
        std::cmp::Ordering::Less => Err(low as usize + 1),
        std::cmp::Ordering::Greater => Err(low as usize),
    }
}

/// Linear search in `len` adjacent slots from `first` on.
#[inline]
pub(crate) fn scan(node: BlockAt<'_, impl Medium>, first: usize, len: usize, wanted: u64) -> Result<usize, usize> {
    let keys = key_at(first);
    for i in 0..len {
        let key = node.load(keys + i as u64 * SLOT);
        if key >= wanted {
            return if key == wanted { Ok(i) } else { Err(i) };
        }
    }
    Err(len)
}

/// Writes a whole node into a block that nothing points to, and flushes it; the caller fences.
pub(crate) fn fill<N: Sorted>(
    node: BlockAt<'_, impl Medium>,
    NewNode { level, low, next, entries, zeroed, .. }: NewNode,
) -> Window {
    node.store(NEXT, next);
    node.store(LOW, low);
    node.store(META, meta::<N>(level));
    let count = entries.len();
    counted::store::<N>(node, Window::new(0, count));
    for (slot, &(key, value)) in entries.iter().enumerate() {
        node.store_pair(key_at(slot), [key, value]);
    }
    // N2: a slot of zeros is empty, unless the node owns 0.
    if zeroed && low > 0 {
        node.flush(0, HEADER + count as u64 * SLOT, Step::NodeFill);
    } else {
        for slot in count..N::SLOTS {
            node.store(key_at(slot), low.wrapping_sub(1));
        }
        node.flush(0, HEADER + N::SLOTS as u64 * SLOT, Step::NodeFill);
    }
    Window::new(0, count)
}

/// Copies entries behind the run, where they are still outside the owned range, and empties every other slot whose key
/// lies in `wider`, the range that will be owned. Flushed; the caller fences and commits.
pub(crate) fn prefill<N: Sorted>(
    node: BlockAt<'_, impl Medium>,
    wider: KeyRange,
    window: Window,
    entries: &[Entry],
) -> Window {
    let base = usize::from(window.base);
    let len = window.len() + entries.len();
    let mut dirty: Option<u64> = None;
    let mut touch = |slot: usize| {
        let line = key_at(slot) & !(LINE - 1);
        if let Some(left) = dirty.replace(line).filter(|&left| left != line) {
            node.flush(left, LINE, Step::NodePrefill);
        }
    };
    for (i, &(key, value)) in entries.iter().enumerate() {
        let slot = N::Geometry::slot(base, (window.len() + i) as isize);
        touch(slot);
        node.store_pair(key_at(slot), [key, value]);
    }
    for i in len..N::SLOTS {
        let slot = N::Geometry::slot(base, i as isize);
        if wider.contains(key(node, slot)) {
            // Keys that a split left behind would otherwise come back with the wider range.
            touch(slot);
            node.store(key_at(slot), wider.marker());
        }
    }
    if let Some(line) = dirty {
        node.flush(line, LINE, Step::NodePrefill);
    }
    Window::new(base, len)
}

/// Reads from the bytes of a node, without storing anything: its window, and the position of the equal pair if there is
/// one.
pub(crate) fn inspect<N: Sorted>(
    node: BlockAt<'_, impl Medium>,
    range: KeyRange,
) -> Result<(Window, Option<usize>), Broken> {
    let base = N::Geometry::base(|slot| key(node, slot), range).ok_or(node.broken(0, "N3: the entries form no run"))?;
    let mut len = 0;
    let mut pair = None;
    let mut last = 0;
    while len < N::SLOTS {
        let slot = N::Geometry::slot(base, len as isize);
        let key = key(node, slot);
        if !range.contains(key) {
            break;
        }
        if len > 0 && key <= last {
            if key < last || pair.is_some() {
                return Err(node.broken(key_at(slot), "N3: keys ascend, with at most one equal pair"));
            }
            pair = Some(len - 1);
        }
        last = key;
        len += 1;
    }
    Ok((Window::new(base, len), pair))
}

/// The window after the gap of the equal pair, if there is one, is closed.
fn closed<N: Sorted>(window: Window, pair: Option<usize>) -> Window {
    let (base, len) = (usize::from(window.base), window.len());
    match pair.map(|first| N::Geometry::side_of_pair(first, len)) {
        None => window,
        Some(RunEnd::Left) => Window::new(N::Geometry::slot(base, 1), len - 1),
        Some(RunEnd::Right) => Window::new(base, len - 1),
    }
}

/// Reports every broken invariant of one node, without storing anything.
pub(crate) fn check<N: Sorted>(
    node: BlockAt<'_, impl Medium>,
    range: KeyRange,
    report: &mut dyn FnMut(Broken),
) -> Option<Checked> {
    match inspect::<N>(node, range) {
        Err(broken) => {
            report(broken);
            None
        }
        Ok((window, pair)) => {
            for i in window.len()..N::SLOTS {
                let slot = N::Geometry::slot(window.base.into(), i as isize);
                if range.contains(key(node, slot)) {
                    report(node.broken(key_at(slot), "N2: an entry outside the run"));
                }
            }
            if let Err(broken) = counted::check::<N>(node, closed::<N>(window, pair)) {
                report(broken);
            }
            let entries = (0..window.len()).map(|i| entry::<N>(node, window, i)).collect();
            Some(Checked { entries, pair, beyond: Vec::new() })
        }
    }
}
