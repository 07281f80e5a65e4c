//! The index of a tree of byte strings. The separators are the lows in the headers of the leaves.

use crate::entry::byte_key::ByteKey;
use crate::error::Fault;
use crate::index::{DamagedNode, GROUP, ImageTop, Lows, Named, RUN, ReadNode, Strings, VolatileIndex, image_of};
use crate::medium::Medium;
use crate::node::{ByteLeaf, ByteRange, IndexKind};
use crate::pool::PoolState;
use crate::pool::images::IndexCopy;
use crate::pool::roots::Root;
use crate::sync::delay::{Validation, is_left_out};
use crate::tree::directory::Directory;
use std::io;
use std::sync::Arc;

/// The lows of the leaves of a tree.
pub struct LeafLows<M: Medium> {
    pool: Arc<PoolState<M>>,
    /// The number of the tree.
    tree: u16,
}

impl<M: Medium> Lows for LeafLows<M> {
    fn with<R>(&self, name: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        let pool = self.pool.access(self.tree);
        // A racing reader may have any word.
        if pool.is_leaf(name) { pool.block(name).with_low(read) } else { read(&[]) }
    }
}

/// The index, which is in memory.
pub struct ByteDirectory<M: Medium>(VolatileIndex<Strings<LeafLows<M>>>);

impl<M: Medium> ByteDirectory<M> {
    pub(super) fn new(pool: &Arc<PoolState<M>>, root: Root) -> Self {
        Self(VolatileIndex::with_separators(Strings(LeafLows { pool: Arc::clone(pool), tree: root.slot })))
    }
}

#[cfg(all(test, bristlecone_loom))]
impl<M: Medium> ByteDirectory<M> {
    /// The names and offsets of the leaves that the index knows.
    pub(in crate::tree) fn known(&self) -> Vec<(u64, u64)> {
        let mut known = Vec::new();
        self.0.for_each(|name, leaf| known.push((name, leaf)));
        known
    }
}

impl<const SLOTS: usize, M: Medium> Directory<ByteLeaf<SLOTS>> for ByteDirectory<M> {
    type Hint<'d> = Named<'d, Strings<LeafLows<M>>>;

    fn kind(&self) -> IndexKind {
        IndexKind::Volatile
    }

    fn floor(&self, key: ByteKey<'_>) -> Option<u64> {
        self.0.floor(key)
    }

    #[inline(always)]
    fn floor_at_once(&self, key: ByteKey<'_>) -> Option<Self::Hint<'_>> {
        self.0.named_at_once(key)
    }

    fn floors_at_once(&self, keys: &[ByteKey<'_>]) -> [Option<Self::Hint<'_>>; GROUP] {
        self.0.nameds_at_once(keys)
    }

    #[inline(always)]
    fn leaf(hint: Self::Hint<'_>) -> u64 {
        hint.leaf()
    }

    /// The index names a leaf that does not lag for no key that the leaf does not own. The range is as it was after the
    /// index was read. If the index still says the same, it said so when the range was read.
    #[inline(always)]
    fn owns(hint: Self::Hint<'_>, range: ByteRange, _key: ByteKey<'_>) -> bool {
        (!range.lags() || is_left_out(Validation::Lag)) && (hint.still() || is_left_out(Validation::Still))
    }

    fn run_at_once(&self, key: ByteKey<'_>) -> Option<[u64; RUN]> {
        self.0.run_at_once(key)
    }

    fn post(&self, name: u64, leaf: u64) -> Result<(), Fault> {
        self.0.post(name, leaf);
        Ok(())
    }

    /// The index finds that the two begin with the same separator, and gives that the new name: a thread that reads the
    /// index sees either leaf. The new one has the mark of the old one, and the index knows its right neighbour as
    /// before (I3).
    fn repoint(&self, name: u64, leaf: u64) -> Result<bool, Fault> {
        self.0.post(name, leaf);
        Ok(false)
    }

    fn withdraw(&self, name: u64) -> Result<bool, Fault> {
        self.0.withdraw(name);
        Ok(false)
    }

    fn reset(&self) -> Result<(), Fault> {
        self.0.learn([].into_iter());
        Ok(())
    }

    fn learn(&self, leaves: &[(u64, u64)]) -> Result<(), Fault> {
        self.0.learn(leaves.iter().copied());
        if self.0.is_lost() { Err(Fault::address_space(io::ErrorKind::OutOfMemory.into())) } else { Ok(()) }
    }

    fn image(&self) -> (Vec<u64>, ImageTop) {
        let mut leaves = Vec::new();
        if !self.0.for_each(|name, leaf| leaves.push((name, leaf))) {
            leaves.clear();
        }
        image_of(leaves)
    }

    fn known(&self) -> Option<(u64, usize)> {
        Some((self.0.len() as u64, self.0.replaced()))
    }

    fn copy_part(&self, copy: &mut IndexCopy) -> Result<bool, DamagedNode> {
        let from = copy.from.take();
        let from = from.as_deref().map(ByteKey::at);
        let leaves = &mut copy.leaves;
        let rest = |name| self.0.separator(name);
        let from = self.0.copy(from, IndexCopy::PART, |name, leaf| leaves.push((name, leaf)), rest)?;
        Ok(copy.goes_on(from))
    }

    fn restore(&self, top: ImageTop, source: ReadNode) -> bool {
        self.0.restore(top, source)
    }

    fn is_unsure(&self) {
        self.0.is_replaced();
    }

    /// The lows are read when they are searched for.
    fn restore_leaves(&self, leaves: &[(u64, u64)], nodes: impl FnOnce(ImageTop, Vec<u64>) -> ReadNode) -> bool {
        let (words, top) = image_of(leaves.to_vec());
        self.0.restore(top, nodes(top, words))
    }

    fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    fn memory(&self) -> u64 {
        self.0.bytes()
    }
}
