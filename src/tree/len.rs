//! How many entries there are; after a crash, by looking at all leaves first.

use super::TreeState;
use super::walk::on_threads;
use crate::error::Broken;
use crate::medium::Medium;
use crate::node::{LOW, Node};
use crate::sync::{AtomicUsize, Ordering};
use std::num::NonZero;
use std::sync::OnceLock;

/// Blocks below which one thread is as fast as several.
const FEW: usize = if cfg!(test) { 500 } else { 10_000 };
/// Parts into which a segment's leaves are divided, about: so that no thread is left alone with a long one.
const PARTS: u64 = 4;

impl<N: Node, M: Medium> TreeState<N, M> {
    /// How many entries there were at some moment of the call. Touches all leaves if nobody has counted since a crash.
    pub(crate) fn len(&self) -> u64 {
        let count = &self.leaves.count;
        if !count.is_whole() {
            let touched = self.touch_all();
            self.note(touched);
        }
        count.sum()
    }

    /// Whether there was no entry at some moment of the call.
    pub(crate) fn is_empty(&self) -> bool {
        // An entry that is inserted behind the search while another one is removed ahead of it is missed, but it counts.
        !self.has_entry() && self.len() == 0
    }

    /// Touches all leaves, on all cores, while others may write.
    ///
    /// The owner of a key that was touched once stays so: what becomes of it by a split or a merge, or takes its place, is
    /// touched when it enters the chain. So when the owner of each key was touched at some time, all leaves are.
    #[cold]
    fn touch_all(&self) -> Result<(), Broken> {
        let starts = self.starts();
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(starts.len());
        let (next, broken) = (AtomicUsize::new(0), OnceLock::new());
        on_threads(threads, &|| {
            while broken.get().is_none() {
                let part = next.fetch_add(1, Ordering::Relaxed);
                let Some(&start) = starts.get(part) else { break };
                if let Err(found) = self.touch(start, starts.get(part + 1).copied()) {
                    let _ = broken.set(found);
                }
            }
        });
        broken.into_inner().map_or(Ok(()), Err)?;
        self.leaves.count.complete();
        Ok(())
    }

    /// Keys that divide all keys into parts with about as many leaves each; the first is 0. Any keys would do.
    fn starts(&self) -> Vec<u64> {
        let segments = &self.pool.segments;
        let classes = self.leaves.classes();
        let units = classes.flat_map(|class| {
            segments.owned(class.tree, class.kind, class.unit).into_iter().map(move |segment| (segment, class.unit))
        });
        let units: Vec<(u32, u64)> = units.map(|(segment, unit)| (segment, u64::from(unit))).collect();
        let blocks: u64 = units.iter().map(|(_, unit)| segments.size() / unit).sum();
        let mut starts = vec![0];
        if blocks as usize >= FEW {
            for (segment, unit) in units {
                let all = segments.size() / unit;
                let some = (0..all).step_by(all.div_ceil(PARTS) as usize);
                // What is there may be no leaf (any more): a key all the same.
                starts.extend(some.map(|i| self.medium().load(segments.start(segment) + i * unit + LOW)));
            }
            starts.sort_unstable();
            starts.dedup();
        }
        starts
    }

    /// Touches the leaves that own the keys from `key` on, up to `end` or to the last.
    fn touch(&self, mut key: u64, end: Option<u64>) -> Result<(), Broken> {
        let leaves = &self.leaves;
        let mut next = 0;
        let mut known = 0;
        while end.is_none_or(|end| key < end) {
            if known == 0 {
                // Ask for some at once.
                let ahead = self.directory.run_at_once(key).unwrap_or_default();
                ahead.iter().for_each(|&at| leaves.prefetch_all(at));
                known = ahead.iter().filter(|&&at| at != 0).count().max(1);
            }
            known -= 1;
            // The right neighbour, if it still is one: then it was in the chain, and no search is needed.
            let neighbour = leaves.accept(next, next).ok().map(|at| leaves.view(at)).transpose()?.flatten();
            let neighbour = neighbour.filter(|view| view.range.contains(key));
            let at_once = neighbour.and_then(|view| {
                let place = (view.range, leaves.next_of(&view));
                view.validate().then_some(place)
            });
            let (range, right) = match at_once {
                Some(place) => place,
                None => self.with_owner(key, |view| (view.range, leaves.next_of(view)))?,
            };
            if range.low() == u64::MAX {
                break;
            }
            leaves.prefetch_all(right);
            (key, next) = (range.high(), right);
        }
        Ok(())
    }
}
