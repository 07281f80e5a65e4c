//! Checking an index without taking locks and without storing anything.

use super::{TopNode, top_of};
use crate::chain::{Links, Nodes};
use crate::error::Broken;
use crate::medium::Medium;
use crate::node::{InnerOps, WordNode, Words};
use crate::pool::PoolState;
use crate::pool::roots::Root;
use crate::pool::segments::SegmentKind;
use std::sync::Arc;

/// Reports every broken invariant of a persistent index without storing anything, and returns how many levels it has.
/// `leaves` are the leaves of the chain, in order.
pub(crate) fn check<N: WordNode<Ops: InnerOps>, M: Medium>(
    pool: &Arc<PoolState<M>>,
    root: Root,
    leaves: &[(u64, u64)],
    report: &mut dyn FnMut(Broken),
) -> u64 {
    let links = Links::<N, M>::new(Arc::clone(pool), root.slot, SegmentKind::Inner);
    match top_of(&links, root) {
        Ok(Some(top)) => {
            check_levels(&links, top, leaves, report);
            top.level.into()
        }
        Ok(None) => 0,
        Err(broken) => {
            report(broken);
            0
        }
    }
}

fn check_levels(links: &dyn Nodes<Words>, top: TopNode, leaves: &[(u64, u64)], report: &mut dyn FnMut(Broken)) {
    // From the top down, without locks, because taking a lock would repair.
    let mut first = top.at;
    let mut levels = Vec::new();
    for level in (1..=top.level).rev() {
        let mut nodes = Vec::new();
        let mut at = Some(first);
        while let Some(here) = at {
            match (links.level(here), links.range_of(here)) {
                (Ok(found), Ok(range)) if found == level => nodes.push((here, range)),
                (Err(broken), _) | (_, Err(broken)) => return report(broken),
                _ => return report(Broken::new(here, "I1: a node of another level")),
            }
            at = match links.next(here) {
                Ok(next) => next,
                Err(broken) => return report(broken),
            };
        }
        let mut entries = Vec::new();
        for &(at, range) in &nodes {
            let Some(checked) = links.check(at, range, report) else { return };
            let from = entries.len();
            entries.extend(checked.entries.iter().map(|&(low, child)| (low, child, at)));
            if entries.get(from).is_none_or(|&(key, ..)| key != range.low()) {
                report(Broken::new(at, "I1: a node's first entry has its low"));
            }
        }
        let Some(&(_, child, at)) = entries.first() else { return };
        if level > 1 {
            first = match links.accept(child, at) {
                Ok(child) => child,
                Err(broken) => return report(broken),
            };
        }
        let nodes: Vec<(u64, u64)> = nodes.iter().map(|&(at, range)| (range.low(), at)).collect();
        levels.push((nodes, entries));
    }
    let below = levels.iter().skip(1).map(|(nodes, _)| nodes.as_slice()).chain([leaves]);
    for ((_, entries), below) in levels.iter().zip(below) {
        for &(low, child, at) in entries {
            let replaced = || below.binary_search_by_key(&low, |&(low, _)| low).is_ok();
            if below.binary_search(&(low, child)).is_err() && !replaced() {
                report(Broken::new(at, "I2: an entry for no node of the level below"));
            }
        }
    }
}
