//! Checking a tree: verifies every invariant of docs/design.md, without storing anything.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::chain::{Chain, Links, Nodes};
use crate::error::{Broken, Result};
use crate::medium::Medium;
use crate::node::{Checked, IndexKind, Keys};
use crate::pool::blocks::Blocks;
use crate::pool::records::Records;
use crate::pool::roots::Root;
use crate::pool::segments::SegmentKind;
use crate::pool::{PoolState, Report};
use crate::sync::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    pub(crate) fn check(&self) -> Report {
        let mut report = Report { trees: 1, ..Report::default() };
        let kind = self.directory.kind();
        let Used { leaves: used, records } =
            check_tree::<N, M>(&self.pool, self.root, kind, self.leaves.records.is_some(), &mut report);
        if report.violations.is_empty() && report.entries != self.len() {
            report.add(Broken::new(self.root.head_at(), "the number of entries is not what is counted"));
        }
        // A block that is free in memory must not be in use in the pool, and each block must be one of the two.
        let blocks = self.leaves.blocks();
        let segments = &self.pool.segments;
        let free: HashSet<u64> = blocks.iter().flat_map(|blocks| blocks.free(segments)).collect();
        if let Some(&both) = free.intersection(&used).next() {
            report.add(Broken::new(both, "a leaf in use is free"));
        }
        let total: u64 = blocks.iter().map(Blocks::total).sum();
        if report.violations.is_empty() && (free.len() + used.len()) as u64 != total {
            report.add(Broken::new(self.root.head_at(), "a block is neither in use nor free"));
        }
        self.check_free_records(&records, &mut report);
        let extents = segments.owned(self.root.slot, SegmentKind::Extent, 0);
        let retired = self.retired();
        let image = self.image_at.load(Ordering::Relaxed);
        let lost = |head: &&u32| {
            let at = segments.start(**head);
            !records.contains(&at) && at != image && !retired.contains(&at)
        };
        if let Some(&head) = extents.iter().find(lost)
            && self.spare_records.load(Ordering::Relaxed) == 0
        {
            report.add(Broken::new(segments.start(head), "an extent that no slot points to"));
        }
        let whole: usize = extents.iter().map(|&head| segments.extent(head).count()).sum();
        if whole != extents.len() + segments.owned(self.root.slot, SegmentKind::Rest, 0).len() {
            report.add(Broken::new(self.root.head_at(), "a part of no extent"));
        }
        report
    }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// The records that nothing but readers and snapshots can lead to.
    pub(super) fn retired(&self) -> Vec<u64> {
        let mut retired = self.leaves.records.as_ref().map_or_else(Vec::new, Records::retired);
        retired.extend(self.leaves.frozen.retired());
        retired
    }

    /// Checks that each block of records is either in use, free or retired.
    fn check_free_records(&self, used: &HashSet<u64>, report: &mut Report) {
        let Some(records) = &self.leaves.records else { return };
        let segments = &self.pool.segments;
        let is_block = |at: &u64| {
            let entry = segments.holding(*at).and_then(|segment| segments.entry(segment));
            entry.is_some_and(|entry| entry.kind == SegmentKind::Record)
        };
        let mut free = HashSet::new();
        let retired = self.retired().into_iter().filter(is_block);
        for at in records.classes().iter().flat_map(|blocks| blocks.free(segments)).chain(retired) {
            if !free.insert(at) {
                report.add(Broken::new(at, "V2: a record is free twice"));
            }
            if used.contains(&at) {
                report.add(Broken::new(at, "V2: a record in use is free"));
            }
        }
        let total: u64 = records.classes().iter().map(Blocks::total).sum();
        let used = used.iter().filter(|at| is_block(at)).count();
        let spare = self.spare_records.load(Ordering::Relaxed);
        let known = (free.len() + used) as u64;
        if report.violations.is_empty() && (known > total || known < total && spare == 0) {
            report.add(Broken::new(self.root.head_at(), "a block of records is neither in use nor free"));
        }
    }
}

/// The blocks that a tree has in use.
#[derive(Default)]
pub(crate) struct Used {
    leaves: HashSet<u64>,
    records: HashSet<u64>,
}

/// Checks one tree as it lies in the pool. Compiled for each layout that a program may meet, so it is short: what does
/// not depend on the layout is in [`walk`].
pub(crate) fn check_tree<N: TreeNode, M: Medium>(
    pool: &Arc<PoolState<M>>,
    root: Root,
    index: IndexKind,
    has_records: bool,
    report: &mut Report,
) -> Used {
    let chain = Links::<N, M>::new(Arc::clone(pool), root.slot, SegmentKind::Leaf);
    let (used, leaves) = walk(pool, root, &chain, has_records, report);
    if let Some(leaves) = leaves {
        let (above, bytes) = N::check_index(pool, root, index, &leaves, &mut |broken| report.add(broken));
        report.height = report.height.max(above + 1);
        report.memory += bytes + used.leaves.len() as u64 * Chain::<N, M>::SHADOW;
    }
    used
}

/// Leaves, each with the word that stands for it in an index.
type Named = Vec<(u64, u64)>;

/// Checks the chain of a tree's leaves. Returns what it has in use, and the leaves that an index knows, if the chain is
/// whole.
fn walk<K: Keys, M: Medium>(
    pool: &PoolState<M>,
    root: Root,
    chain: &dyn Nodes<K>,
    has_records: bool,
    report: &mut Report,
) -> (Used, Option<Named>) {
    let m = &pool.medium;
    let records = has_records.then(|| Records::new(&pool.segments, root.slot));
    let mut used = Used::default();
    let mut leaves = Vec::new();
    // Slots that count only if no leaf to the right has the same values, and must not count.
    let mut unowned: Vec<(u64, u64)> = Vec::new();
    let walk = |report: &mut Report| -> Result<(), Broken> {
        let mut at = Some(chain.accept(root.head(m), root.head_at())?);
        while let Some(here) = at {
            if chain.level(here)? != 0 {
                return Err(Broken::new(here, "N1: a leaf has level 0"));
            }
            let range = chain.range_of(here)?;
            if leaves.is_empty() && !K::is_first(range) {
                report.add(Broken::new(here, "N1: the chain starts with the leaf that owns the least key"));
            }
            let block = pool.access(root.slot).block(here);
            let record = K::low_record(block);
            if record != 0 {
                if !used.records.insert(record) {
                    report.add(Broken::new(record, "V1: a record of two slots"));
                }
                if let Err(broken) = block.check_low(record) {
                    report.add(broken);
                }
            }
            used.leaves.insert(here);
            leaves.push((K::separator(block), here));
            report.leaves += 1;
            chain.fits(here)?;
            let mut broken = Vec::new();
            if let Some(Checked { entries, pair, beyond }) = chain.check(here, range, &mut |b| broken.push(b)) {
                report.unfinished += u64::from(pair.is_some()) + beyond.len() as u64;
                unowned.extend(beyond);
                report.entries += entries.len() as u64 - u64::from(pair.is_some());
                if let Some(records) = &records {
                    let counts = |i: usize| pair.is_none_or(|first| i != first && i != first + 1);
                    for (_, (_, value)) in entries.into_iter().enumerate().filter(|(i, _)| counts(*i)) {
                        let record = K::record(value);
                        if let Err(b) = records.reading(m, &pool.segments).pool.check_record(record) {
                            broken.push(b);
                        }
                        if !used.records.insert(record) {
                            broken.push(Broken::new(record, "V1: a record of two slots"));
                        }
                    }
                }
            }
            broken.into_iter().for_each(|b| report.add(b));
            at = chain.next(here)?;
        }
        Ok(())
    };
    let mut walk = walk;
    let whole = walk(report);
    for (at, value) in unowned {
        if !used.records.contains(&K::record(value)) {
            report.add(Broken::new(at, "N2: a key that the leaf does not own"));
        }
    }
    if let Err(broken) = whole {
        report.add(broken);
        return (used, None);
    }
    if K::cut_tail(&mut leaves).is_none() {
        report.add(Broken::new(root.head_at(), "N1: the chain ends with the leaf that owns MAX"));
        return (used, None);
    }
    (used, Some(leaves))
}
