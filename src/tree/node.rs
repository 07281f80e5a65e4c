//! What a tree needs of its leaves; and what it does with leaves whose keys are words, because only these have several
//! layouts and indexes.

use super::ahead::WalkAhead;
use super::directory::{Directory, WordDirectory};
use super::image::NamedBlocks;
use super::walk::Leaves;
use super::{Form, TreeState};
use crate::chain::{Links, Locked};
use crate::error::{Broken, Fault};
use crate::index::{PersistentIndex, built_volatile, check_persistent};
use crate::medium::Medium;
use crate::node::{InNode, IndexKind, Keys, Node, RefOf, WordNode, Words};
use crate::papers::built_flat;
use crate::pool::PoolState;
use crate::pool::record::RecordSet;
use crate::pool::roots::Root;
use crate::pool::segments::SegmentKind;
use std::sync::Arc;

/// A key in the caller's memory.
pub(super) type OwnedOf<N> = <<N as Node>::Keys as Keys>::Owned;

/// A layout of leaves from which a tree can be made.
pub trait TreeNode: Node<Keys: Form> {
    /// The index of a tree.
    type Directory<M: Medium>: Directory<Self>;

    /// The index of a tree that is being opened.
    fn directory<M: Medium>(
        pool: &Arc<PoolState<M>>,
        root: Root,
        index: IndexKind,
    ) -> Result<Self::Directory<M>, Fault>;

    /// Makes the change by a copy of the leaf, if that costs less. If not, returns the leaf.
    #[inline(always)]
    fn by_copy<'t, M: Medium>(
        _tree: &'t TreeState<Self, M>,
        leaf: Locked<'t, Self>,
        _change: InNode,
        _new: (RefOf<'_, Self>, u64),
    ) -> Result<Option<Locked<'t, Self>>, Fault> {
        Ok(Some(leaf))
    }

    /// Inserts words under keys that are words, under one fence; of equal keys, the last one counts. Returns how many
    /// keys are new; `None` if keys are byte strings, or if `words` returns none.
    fn insert_words<M: Medium>(
        _tree: &TreeState<Self, M>,
        _words: impl FnOnce() -> Option<Vec<(OwnedOf<Self>, u64)>>,
    ) -> Option<Result<u64, Fault>> {
        None
    }

    /// Finds the records that the leaves of a tree with records have in use, and frees all others. Of byte strings,
    /// first finishes splits and merges that a crash has interrupted: of equal references in two leaves, the right one
    /// stays.
    fn recover_records<M: Medium>(tree: &TreeState<Self, M>, leaves: &Leaves) -> Result<(), Fault>;

    /// Passes the records that came into leaves where the log has named them to `note`, and finishes splits and merges
    /// as [`recover_records`](Self::recover_records) does.
    fn recover_named<M: Medium>(
        tree: &TreeState<Self, M>,
        leaves: &Leaves,
        blocks: &NamedBlocks<'_>,
        note: &mut dyn FnMut(u64),
    ) -> Result<(), Fault>;

    /// Touches all leaves, so that all entries are counted.
    fn touch_all<M: Medium>(tree: &TreeState<Self, M>) -> Result<(), Broken>;

    /// Checks the index of the leaves with these names and offsets, as far as it lies in the pool. Returns how many
    /// levels it has, and how many bytes of memory.
    fn check_index<M: Medium>(
        pool: &Arc<PoolState<M>>,
        root: Root,
        index: IndexKind,
        leaves: &[(u64, u64)],
        report: &mut dyn FnMut(Broken),
    ) -> (u64, u64);

    /// The bytes of an inner node of an index in the pool. `None`: trees of these leaves have no such index.
    fn inner_bytes() -> Option<u64> {
        None
    }
}

impl<N: WordNode> TreeNode for N {
    type Directory<M: Medium> = WordDirectory<N, M>;

    fn directory<M: Medium>(
        pool: &Arc<PoolState<M>>,
        root: Root,
        index: IndexKind,
    ) -> Result<WordDirectory<N, M>, Fault> {
        let leaves = u64::from(pool.segments.count()) * (pool.segments.size() / N::BYTES);
        Ok(match index {
            IndexKind::Volatile => WordDirectory::volatile(),
            IndexKind::Flat => WordDirectory::flat(leaves, true).map_err(Fault::address_space)?,
            IndexKind::FlatFixed => WordDirectory::flat(leaves, false).map_err(Fault::address_space)?,
            IndexKind::Persistent => WordDirectory::persistent(
                PersistentIndex::open(Arc::clone(pool), root)?,
                Links::new(Arc::clone(pool), root.slot, SegmentKind::Leaf),
            ),
        })
    }

    #[inline(always)]
    fn by_copy<'t, M: Medium>(
        tree: &'t TreeState<N, M>,
        leaf: Locked<'t, N>,
        change: InNode,
        new: (u64, u64),
    ) -> Result<Option<Locked<'t, N>>, Fault> {
        tree.by_copy(leaf, change, new)
    }

    fn insert_words<M: Medium>(
        tree: &TreeState<N, M>,
        words: impl FnOnce() -> Option<Vec<(u64, u64)>>,
    ) -> Option<Result<u64, Fault>> {
        words().map(|words| tree.insert_batch(&words))
    }

    fn recover_records<M: Medium>(tree: &TreeState<N, M>, leaves: &Leaves) -> Result<(), Fault> {
        let segments = &tree.pool.segments;
        let mut used = RecordSet::new(segments, tree.root.slot);
        let of = leaves.all().count() as u64;
        let mut ahead = WalkAhead::new(tree.medium());
        for (done, at) in (1..).zip(leaves.all()) {
            let known = done as usize - 1;
            ahead.step(tree, known, || leaves.listed.iter().skip(known).map(|&(_, at)| at));
            if done % 4096 == 0 || done == of {
                tree.tell_of_records(done, of);
            }
            if let Some(leaf) = tree.leaves.lock(at)? {
                for (_, record) in tree.leaves.entries(&leaf) {
                    used.insert(record);
                }
            }
        }
        tree.leaves.count.complete();
        if let Some(records) = &tree.leaves.records {
            records.recover(tree.medium(), segments, &used);
        }
        Ok(())
    }

    fn recover_named<M: Medium>(
        tree: &TreeState<N, M>,
        leaves: &Leaves,
        blocks: &NamedBlocks<'_>,
        note: &mut dyn FnMut(u64),
    ) -> Result<(), Fault> {
        for at in leaves.all().filter(|&at| blocks.has_named(at)) {
            if let Some(leaf) = tree.leaves.lock(at)? {
                tree.leaves.entries(&leaf).into_iter().for_each(|(_, record)| note(record));
            }
        }
        Ok(())
    }

    fn touch_all<M: Medium>(tree: &TreeState<N, M>) -> Result<(), Broken> {
        tree.touch_all()
    }

    fn check_index<M: Medium>(
        pool: &Arc<PoolState<M>>,
        root: Root,
        index: IndexKind,
        leaves: &[(u64, u64)],
        report: &mut dyn FnMut(Broken),
    ) -> (u64, u64) {
        match index {
            IndexKind::Volatile => built_volatile::<Words>(leaves.len()),
            IndexKind::Flat | IndexKind::FlatFixed => built_flat(leaves.len()),
            IndexKind::Persistent => (check_persistent::<N::Inner, M>(pool, root, leaves, report), 0),
        }
    }

    fn inner_bytes() -> Option<u64> {
        Some(N::Inner::BYTES)
    }
}
