//! The operations that all sorted layouts have in common.

use crate::error::Broken;
use crate::medium::{Medium, Step};
use crate::node::layout::{Checked, Layout, NewNode};
use crate::node::sorted::{self, Changes, HEADER, META, Run, RunEnd, RunGeometry, RunSearch, Sorted, Window};
use crate::node::space::SplitInPlace;
use crate::node::{BlockAt, Entry, KeyRange, NodeAt, counted, slots};
use std::marker::PhantomData;

/// The operations of the sorted layout `N`: they keep its window and its search probe in step with its slots.
pub struct SortedOps<N>(PhantomData<fn() -> N>);

type Probe<N> = <<N as Sorted>::Search as RunSearch>::Probe;

/// A place is a position in the run.
impl<N: Sorted> Layout for SortedOps<N> {
    type Node = N;
    type Hints = Run<Probe<N>>;

    fn level(node: BlockAt<'_, impl Medium>) -> Result<u16, Broken> {
        let word = node.load(META);
        let level = (word >> 16) as u16;
        if word == sorted::meta::<N>(level) {
            Ok(level)
        } else {
            Err(node.broken(META, "N1: not a node of the tree's layout"))
        }
    }

    #[inline]
    fn len(hints: &Self::Hints) -> usize {
        hints.window().len()
    }

    #[inline]
    fn prefetch(node: BlockAt<'_, impl Medium>, _key: u64) {
        node.prefetch(HEADER, (N::BYTES - HEADER).min(N::Search::PREFETCHED));
    }

    #[inline]
    fn search(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Result<usize, usize> {
        N::Search::find(*node, node.hints.window(), &node.hints.probe, key)
    }

    #[inline]
    fn lookup(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Option<usize> {
        N::Search::position(*node, node.hints.window(), &node.hints.probe, key)
    }

    #[inline]
    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64 {
        slots::value::<N>(*node, node.hints.window(), place)
    }

    fn entries(node: NodeAt<'_, Self, impl Medium>, (from, to): (u64, u64), out: &mut Vec<Entry>) -> usize {
        let window = node.hints.window();
        let (Ok(start) | Err(start)) = N::Search::find(*node, window, &node.hints.probe, from);
        let entries = (start..window.len()).map(|i| slots::entry::<N>(*node, window, i));
        out.clear();
        out.extend(entries.take_while(|(key, _)| *key <= to));
        out.len()
    }

    fn fill(node: NodeAt<'_, Self, impl Medium>, new: NewNode) {
        node.hints.set_level(new.level);
        let count = new.entries.len();
        node.hints.set_window(N::Changes::fill(*node, new));
        N::Search::changed(*node, node.hints.window(), &node.hints.probe, 0..count);
    }

    #[cfg_attr(bristlecone_assembly, inline(never))]
    fn insert(node: NodeAt<'_, Self, impl Medium>, place: usize, new: Entry) {
        let window = node.hints.window();
        node.hints.set_window(N::Changes::insert(*node, window, place, new));
        let positions = match N::Geometry::side_of_insert(place, window.len()) {
            RunEnd::Left => 0..place + 1,
            RunEnd::Right => place..window.len() + 1,
        };
        N::Search::changed(*node, node.hints.window(), &node.hints.probe, positions);
    }

    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, value: u64) {
        N::Changes::update(*node, node.hints.window(), place, value);
    }

    fn remove(node: NodeAt<'_, Self, impl Medium>, range: KeyRange, place: usize) {
        let window = node.hints.window();
        node.hints.set_window(N::Changes::remove(*node, range, window, place));
        let positions = match N::Geometry::side_of_remove(place, window.len()) {
            RunEnd::Left => 0..place,
            RunEnd::Right => place..window.len() - 1,
        };
        N::Search::changed(*node, node.hints.window(), &node.hints.probe, positions);
    }

    fn recover(node: NodeAt<'_, Self, impl Medium>, range: KeyRange) -> Result<(), Broken> {
        node.hints.set_level(Self::level(*node)?);
        let window = N::Changes::recover(*node, range)?;
        node.hints.set_window(window);
        N::Search::changed(*node, node.hints.window(), &node.hints.probe, 0..window.len());
        Ok(())
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        N::Changes::check(node, range, report)
    }
}

impl<N: Sorted> SplitInPlace for SortedOps<N> {
    fn prefill(node: NodeAt<'_, Self, impl Medium>, wider: KeyRange, entries: &[Entry]) {
        let before = node.hints.window().len();
        node.hints.set_window(slots::prefill::<N>(*node, wider, node.hints.window(), entries));
        // Crash, until the chain changes: the word counts entries beyond the owned range.
        counted::record::<N>(*node, node.hints.window());
        N::Search::changed(*node, node.hints.window(), &node.hints.probe, before..before + entries.len());
    }

    fn truncate_after_split(node: NodeAt<'_, Self, impl Medium>, &border: &u64, _moved: &[Entry]) {
        let window = node.hints.window();
        let (Ok(count) | Err(count)) = N::Search::find(*node, window, &node.hints.probe, border);
        node.hints.set_window(Window { count: count as u16, ..window });
        if counted::record::<N>(*node, node.hints.window()) {
            // Crash: the word counts entries that the new right neighbour has.
            node.fence(Step::CountWord);
        }
    }
}
