//! The number of entries. After a crash, all leaves must be touched first.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::error::Broken;
use crate::medium::Medium;
use crate::node::{LOW, WordNode};
use crate::sync::several::{on_threads, processors};
use crate::sync::{AtomicUsize, Ordering};
use std::sync::OnceLock;

/// With fewer blocks than this, one thread is as fast as several.
const FEW: usize = if cfg!(test) { 500 } else { 10_000 };
/// The approximate number of parts into which a segment's leaves are divided, so that no thread is left alone with a
/// long part.
const PARTS: u64 = 4;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// The number of entries at some moment during the call. Touches all leaves if nobody has counted since a crash.
    pub(crate) fn len(&self) -> u64 {
        let count = &self.leaves.count;
        if !count.is_whole() {
            let touched = N::touch_all(self);
            self.note(touched);
        }
        count.sum()
    }

    /// Whether there were no entries at some moment during the call.
    pub(crate) fn is_empty(&self) -> bool {
        // The search misses an entry that is inserted behind it while another one is removed ahead of it, but the count
        // does not.
        !self.has_entry() && self.len() == 0
    }
}

impl<N: WordNode, M: Medium> TreeState<N, M> {
    /// Touches all leaves, on all cores, while other threads may write.
    ///
    /// Once the owner of a key was touched, the key always has an owner that was touched: a leaf that results from a
    /// split or a merge, or that replaces another one, is touched when it enters the chain. So when the owner of each
    /// key was touched at some time, all leaves are.
    #[cold]
    pub(super) fn touch_all(&self) -> Result<(), Broken> {
        let starts = self.starts();
        let threads = processors().min(starts.len());
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

    /// Keys that divide all keys into parts with about equally many leaves. The first is 0. Any keys would do.
    fn starts(&self) -> Vec<u64> {
        let segments = &self.pool.segments;
        let classes = self.leaves.classes();
        let units = classes.flat_map(|class| {
            segments.owned(class.tree, class.kind, class.unit).into_iter().map(move |segment| (segment, class.unit))
        });
        let blocks_in = |segment, unit: u32| segments.len(segment) / u64::from(unit);
        let units: Vec<(u32, u32)> = units.collect();
        let blocks: u64 = units.iter().map(|&(segment, unit)| blocks_in(segment, unit)).sum();
        let mut starts = vec![0];
        if blocks as usize >= FEW {
            for (segment, unit) in units {
                let (all, unit) = (blocks_in(segment, unit), u64::from(unit));
                let some = (0..all).step_by(all.div_ceil(PARTS).max(1) as usize);
                // The block may not be a leaf, or no longer, but any word will do as a key.
                starts.extend(some.map(|i| self.medium().load(segments.start(segment) + i * unit + LOW)));
            }
            starts.sort_unstable();
            starts.dedup();
        }
        starts
    }

    /// Touches the leaves that own the keys from `key` on, up to `end` or to the last leaf.
    fn touch(&self, mut key: u64, end: Option<u64>) -> Result<(), Broken> {
        let leaves = &self.leaves;
        let mut next = 0;
        let mut known = 0;
        while end.is_none_or(|end| key < end) {
            if known == 0 {
                // Prefetch several leaves at once.
                let ahead = self.directory.run_at_once(key).unwrap_or_default();
                ahead.iter().for_each(|&at| leaves.prefetch_all(at));
                known = ahead.iter().filter(|&&at| at != 0).count().max(1);
            }
            known -= 1;
            // If the next block is still the right neighbour, it was in the chain, and no search is needed.
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
