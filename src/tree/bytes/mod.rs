//! Trees whose keys are byte strings: what they do differently.

mod directory;
mod recover;

use super::image::NamedBlocks;
use super::walk::Leaves;
use super::{TreeNode, TreeState};
use crate::error::{Broken, ErrorKind, Fault};
use crate::index::Strings;
use crate::index::built_volatile;
use crate::medium::Medium;
use crate::node::{ByteLeaf, IndexKind};
use crate::pool::PoolState;
use crate::pool::roots::Root;
use directory::{ByteDirectory, LeafLows};
use std::sync::Arc;

impl<const SLOTS: usize> TreeNode for ByteLeaf<SLOTS> {
    type Directory<M: Medium> = ByteDirectory<M>;

    fn directory<M: Medium>(pool: &Arc<PoolState<M>>, root: Root, index: IndexKind) -> Result<ByteDirectory<M>, Fault> {
        if index != IndexKind::Volatile {
            let what = "a tree of byte strings has a volatile index; the number of the index must be that one's";
            return Err(ErrorKind::InvalidOption { what, given: index as u64 }.into());
        }
        Ok(ByteDirectory::new(pool, root))
    }

    fn recover_records<M: Medium>(tree: &TreeState<Self, M>, leaves: &Leaves) -> Result<(), Fault> {
        tree.recover_references(leaves)
    }

    fn recover_named<M: Medium>(
        tree: &TreeState<Self, M>,
        leaves: &Leaves,
        blocks: &NamedBlocks<'_>,
        note: &mut dyn FnMut(u64),
    ) -> Result<(), Fault> {
        tree.recover_named(leaves, blocks, note)
    }

    fn touch_all<M: Medium>(tree: &TreeState<Self, M>) -> Result<(), Broken> {
        tree.touch_all()
    }

    fn check_index<M: Medium>(
        _pool: &Arc<PoolState<M>>,
        _root: Root,
        _index: IndexKind,
        leaves: &[(u64, u64)],
        _report: &mut dyn FnMut(Broken),
    ) -> (u64, u64) {
        built_volatile::<Strings<LeafLows<M>>>(leaves.len())
    }
}

/// A tree of byte strings.
type ByteTree<const SLOTS: usize, M> = TreeState<ByteLeaf<SLOTS>, M>;
