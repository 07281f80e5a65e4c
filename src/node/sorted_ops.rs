//! The operations that all sorted layouts have in common.

use crate::error::Broken;
use crate::medium::{Hint, Medium, Step};
use crate::node::layout::{Checked, Layout, New};
use crate::node::sorted::{self, Changes, Geometry, HEADER, META, Run, Search, Side, Sorted, Window};
use crate::node::space::SplitInPlace;
use crate::node::{Entry, KeyRange, counted, slots};
use std::marker::PhantomData;

/// The operations of the sorted layout `N`: they keep its window and its search probe in step with its slots.
pub struct SortedOps<N>(PhantomData<fn() -> N>);

type Probe<N> = <<N as Sorted>::Search as Search>::Probe;

/// A place is a position in the run.
impl<N: Sorted> Layout for SortedOps<N> {
    type Node = N;
    type Hints = Run<Probe<N>>;

    fn level<M: Medium>(m: &M, at: u64) -> Result<u16, Broken> {
        let word = m.load(at + META);
        let level = (word >> 16) as u16;
        if word == sorted::meta::<N>(level) {
            Ok(level)
        } else {
            Err(Broken::new(at + META, "N1: not a node of the tree's layout"))
        }
    }

    #[inline]
    fn len(hints: &Self::Hints) -> usize {
        hints.window().len()
    }

    #[inline]
    fn prefetch<M: Medium>(m: &M, at: u64, _key: u64) {
        m.hint(at + HEADER, (N::BYTES - HEADER).min(N::Search::PREFETCHED), Hint::Soon);
    }

    #[inline]
    fn search<M: Medium>(m: &M, at: u64, hints: &Self::Hints, key: u64) -> Result<usize, usize> {
        N::Search::find(m, at, hints.window(), &hints.probe, key)
    }

    #[inline]
    fn lookup<M: Medium>(m: &M, at: u64, hints: &Self::Hints, key: u64) -> Option<usize> {
        N::Search::position(m, at, hints.window(), &hints.probe, key)
    }

    #[inline]
    fn value<M: Medium>(m: &M, at: u64, hints: &Self::Hints, place: usize) -> u64 {
        slots::value::<N, M>(m, at, hints.window(), place)
    }

    fn entries<M: Medium>(m: &M, at: u64, hints: &Self::Hints, (from, to): (u64, u64), out: &mut Vec<Entry>) -> usize {
        let window = hints.window();
        let (Ok(start) | Err(start)) = N::Search::find(m, at, window, &hints.probe, from);
        let entries = (start..window.len()).map(|i| slots::entry::<N, M>(m, at, window, i));
        out.clear();
        out.extend(entries.take_while(|(key, _)| *key <= to));
        out.len()
    }

    fn fill<M: Medium>(m: &M, at: u64, hints: &Self::Hints, new: New, entries: &[Entry], zeroed: bool) {
        hints.set_level(new.level);
        hints.set_window(N::Changes::fill(m, at, new, entries, zeroed));
        N::Search::changed(m, at, hints.window(), &hints.probe, 0..entries.len());
    }

    #[cfg_attr(bristlecone_assembly, inline(never))]
    fn insert<M: Medium>(m: &M, at: u64, hints: &Self::Hints, place: usize, new: Entry) {
        let window = hints.window();
        hints.set_window(N::Changes::insert(m, at, window, place, new));
        let positions = match N::Geometry::side_of_insert(place, window.len()) {
            Side::Left => 0..place + 1,
            Side::Right => place..window.len() + 1,
        };
        N::Search::changed(m, at, hints.window(), &hints.probe, positions);
    }

    fn update<M: Medium>(m: &M, at: u64, hints: &Self::Hints, place: usize, value: u64) {
        N::Changes::update(m, at, hints.window(), place, value);
    }

    fn remove<M: Medium>(m: &M, at: u64, hints: &Self::Hints, range: KeyRange, place: usize) {
        let window = hints.window();
        hints.set_window(N::Changes::remove(m, at, range, window, place));
        let positions = match N::Geometry::side_of_remove(place, window.len()) {
            Side::Left => 0..place,
            Side::Right => place..window.len() - 1,
        };
        N::Search::changed(m, at, hints.window(), &hints.probe, positions);
    }

    fn recover<M: Medium>(m: &M, at: u64, hints: &Self::Hints, range: KeyRange) -> Result<(), Broken> {
        hints.set_level(Self::level(m, at)?);
        let window = N::Changes::recover(m, at, range)?;
        hints.set_window(window);
        N::Search::changed(m, at, hints.window(), &hints.probe, 0..window.len());
        Ok(())
    }

    fn check<M: Medium>(m: &M, at: u64, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        N::Changes::check(m, at, range, report)
    }
}

impl<N: Sorted> SplitInPlace for SortedOps<N> {
    fn prefill<M: Medium>(m: &M, at: u64, hints: &Self::Hints, wider: KeyRange, entries: &[Entry]) {
        let before = hints.window().len();
        hints.set_window(slots::prefill::<N, M>(m, at, wider, hints.window(), entries));
        // Crash, until the chain changes: the word counts entries beyond the owned range.
        counted::record::<N, M>(m, at, hints.window());
        N::Search::changed(m, at, hints.window(), &hints.probe, before..before + entries.len());
    }

    fn truncate_after_split<M: Medium>(m: &M, at: u64, hints: &Self::Hints, &border: &u64, _moved: &[Entry]) {
        let window = hints.window();
        let (Ok(count) | Err(count)) = N::Search::find(m, at, window, &hints.probe, border);
        hints.set_window(Window { count: count as u16, ..window });
        if counted::record::<N, M>(m, at, hints.window()) {
            // Crash: the word counts entries that the new right neighbour has.
            m.fence(Step::CountWord);
        }
    }
}
