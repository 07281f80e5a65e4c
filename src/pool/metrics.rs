//! What an open pool does and takes, in numbers that cost little.

use crate::medium::Medium;
use crate::memory::page_faults;
use crate::pool::Pool;
use crate::sync::histogram::Histogram;

/// Numbers about an open pool and its open trees. See [`Pool::metrics`].
///
/// Bytes are of the pool, and not of the disk: [`Mapped::allocated`](crate::medium::Mapped::allocated) tells those. All
/// counters start at 0 when the pool, or the tree, is opened. While other threads write, numbers belong to moments that
/// are close to each other, and not to one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// Bytes that the pool takes: the header, and the parts of segments that its trees have. As
    /// [`Stat::used`](crate::stat::Stat::used).
    pub used: u64,
    /// Bytes that it may take beside these, up to its capacity. As [`Stat::available`](crate::stat::Stat::available).
    ///
    /// What was removed is free when the segment that it lay in holds nothing any more. What an open
    /// [snapshot](crate::Snapshot) sees stays in `used` until that is dropped. The file has what is free for somewhat
    /// longer: up to four segments that hold nothing stay with their trees until these are [compacted](Pool::compact),
    /// closed or dropped, or until others need the space.
    pub free: u64,
    /// Bytes of `used` in blocks that open trees have and that hold nothing now: the next nodes and records of the same
    /// tree and size go there. Of trees that are not open, it is not known, and not counted.
    pub reusable: u64,
    /// Bytes of `used` in which nothing can lie: what is behind the last whole block of each segment of nodes or
    /// records, of all trees, open or not. (The rest of a block that a record does not fill is not counted.)
    pub wasted: u64,
    /// How long threads waited until their changes would survive the machine: in [`Pool::sync`], and with
    /// [`Journal::Each`](crate::Journal::Each) in every change and every transaction. Where there was nothing to wait
    /// for, nothing is recorded.
    pub commits: Histogram,
    /// How long each sync took: `fdatasync` of the log, whichever thread waits for it, and without a journal of the
    /// pool's file. As [`JournalStat::syncs`](crate::stat::JournalStat::syncs).
    pub syncs: Histogram,
    /// How long each checkpoint took: to apply the log to the pool's file, and to sync that. As
    /// [`JournalStat::checkpoints`](crate::stat::JournalStat::checkpoints).
    pub checkpoints: Histogram,
    /// How long changes waited because the ring was full. As [`JournalStat::waits`](crate::stat::JournalStat::waits).
    pub waits: Histogram,
    /// Bytes of private memory that a pool with a journal takes. As
    /// [`JournalStat::private`](crate::stat::JournalStat::private).
    pub private: u64,
    /// Bytes that it may take, alone or with others. As [`JournalStat::budget`](crate::stat::JournalStat::budget).
    pub budget: Option<u64>,
    /// Page faults of the whole process, where the system tells.
    pub faults: Option<Faults>,
    /// The trees that are open, by name.
    pub trees: Vec<TreeMetrics>,
}

/// Page faults since the process began. They are those of all its pools and of everything else that it does: the system
/// counts them for a thread and for a process, and for no mapping. See [`Pool::metrics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// Faults that waited for a disk. In a process that does little else with files, these are pages of pools that are
    /// not in memory.
    pub major: u64,
    /// Faults that did not.
    pub minor: u64,
}

/// Numbers about an open tree. See [`Pool::metrics`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TreeMetrics {
    /// The name that it has now.
    pub name: String,
    /// The number of entries, as [`PTree::len`](crate::PTree::len) tells it. `None` after a crash, as long as nobody
    /// has asked for that: all leaves would have to be read. Where keys or values are byte strings, and the open has
    /// read all leaves, it is known.
    pub keys: Option<u64>,
    /// The number of leaves, with the empty one at the end of a tree of words.
    pub leaves: u64,
    /// Which part of the slots of the leaves hold entries, from 0 to 1. The last leaf of a tree of words, which holds
    /// the key `u64::MAX` or nothing, is left out. `None` if the number of keys is not known, and if the leaves have
    /// several sizes.
    ///
    /// While other threads write, keys and leaves are counted at moments that are as close to each other as a few looks
    /// allow. So it is about what it was then, and 1 if it seemed to be more.
    pub fill: Option<f64>,
    /// Bytes of memory (DRAM) that the tree takes now, as [`PTree::memory`](crate::PTree::memory).
    pub memory: u64,
    /// How often one leaf has become two.
    pub splits: u64,
    /// How often two leaves have become one, or an empty leaf has gone. (Leaves that share their entries with a
    /// neighbour are not counted; nor are those that [`clear`](crate::PTree::clear) and
    /// [`bulk_load`](crate::PTree::bulk_load) replace.)
    pub merges: u64,
    /// How often a read began again because another thread wrote to its leaf, or took the leaf out of the tree. A look
    /// that succeeds at once, as nearly all do, is never counted, nor is the first one at a leaf after an open.
    pub retries: u64,
    /// How often a change waited because another thread had locked its leaf.
    pub lock_waits: u64,
}

/// What an open tree contributes.
pub(crate) struct Measured {
    pub(crate) tree: TreeMetrics,
    /// Bytes of its blocks that hold nothing.
    pub(crate) reusable: u64,
}

/// After this many looks at the leaves, keys are counted no more often.
const LOOKS: usize = 4;

/// The number of keys, if it is known, and the number of leaves about then: of a few looks, the one during which the
/// number of leaves changed least.
pub(crate) fn together(keys: impl Fn() -> Option<u64>, leaves: impl Fn() -> u64) -> (Option<u64>, u64) {
    let mut before = leaves();
    let look = |_| {
        let (keys, after) = (keys(), leaves());
        let (changed, most) = (before.abs_diff(after), before.max(after));
        before = after;
        (changed, (keys, most))
    };
    let mut best = (u64::MAX, (None, 0));
    for found in (0..LOOKS).map(look) {
        if found.0 < best.0 {
            best = found;
        }
        if best.0 == 0 {
            break;
        }
    }
    best.1
}

impl<M: Medium> Pool<M> {
    /// Numbers about the pool and its open trees. A forked child sees no trees.
    ///
    /// # Complexity
    ///
    /// Cheap enough for every second: it waits for no change, and reads no leaf. It looks at each open tree, at the
    /// classes of its blocks, and at one word for each segment of the pool (in memory; half a million per TiB). Nothing
    /// that is counted costs anything where threads are not in each other's way.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use bristlecone::Pool;
    ///
    /// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a.pool"))?;
    /// let tree = pool.tree("t")?;
    /// (0..1000).try_for_each(|key| tree.insert(key, key).map(drop))?;
    /// let metrics = pool.metrics();
    /// let of_tree = &metrics.trees[0];
    /// assert_eq!((of_tree.keys, of_tree.leaves), (Some(1000), of_tree.splits + 2));
    /// assert!(metrics.reusable + metrics.wasted < metrics.used);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        let state = &self.state;
        // In a forked child, the locks may be held by a thread that exists only in the parent.
        let measured: Vec<Measured> = match state.owned() {
            Ok(()) => state.visit_open(|trees| trees.iter().map(|tree| tree.measure()).collect()),
            Err(_) => Vec::new(),
        };
        let reusable = measured.iter().map(|of| of.reusable).sum();
        let mut trees: Vec<TreeMetrics> = measured.into_iter().map(|of| of.tree).collect();
        trees.sort_by(|one, other| one.name.cmp(&other.name));
        let [commits, syncs, checkpoints, waits] = state.vitals.times();
        let journal = state.medium.journal_stat().unwrap_or_default();
        Metrics {
            used: state.segments.in_use(),
            free: state.segments.available(),
            reusable,
            wasted: state.segments.slack(),
            commits,
            syncs,
            checkpoints,
            waits,
            private: journal.private,
            budget: journal.budget,
            faults: page_faults().map(|[major, minor]| Faults { major, minor }),
            trees,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// What is counted while the leaves are, in this order, so many.
    fn found(leaves: &[u64]) -> (Option<u64>, u64) {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            leaves[looks.get() - 1]
        };
        // There are as many keys as leaves were seen before.
        together(|| Some(leaves[looks.get() - 1]), look)
    }

    #[test]
    fn keys_are_counted_while_the_leaves_change_least() {
        // Nobody writes: two looks are enough.
        assert_eq!(found(&[5, 5]), (Some(5), 5));
        // The keys of many leaves go with many leaves.
        assert_eq!(found(&[100, 1, 1]), (Some(1), 1));
        assert_eq!(found(&[100, 50, 48, 20, 10]), (Some(50), 50));
        assert_eq!(found(&[1, 100, 101, 200, 300]), (Some(100), 101));
    }
}
