//! Opening a tree: from its close record, or by walking its leaves.

use super::TreeState;
use super::describe::mismatch;
use super::directory::Directory;
use super::restructuring::Restructuring;
use super::walk::Leaves;
use crate::chain::Chain;
use crate::codec::Kind;
use crate::error::{ErrorKind, Fault};
use crate::index::PersistentIndex;
use crate::medium::{Medium, Step};
use crate::node::{IndexKind, Node};
use crate::pool::records::{Records, release_extents};
use crate::pool::roots::{Root, Signature};
use crate::pool::{PoolState, segments};
use crate::sync::{AtomicU64, Ordering};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

impl<N: Node, M: Medium> TreeState<N, M> {
    /// Opens or creates the tree with this name. `keys` and `values` are the kinds that its words encode.
    pub(crate) fn open(
        pool: &Arc<PoolState<M>>,
        name: &str,
        index: IndexKind,
        (keys, values): (Kind, Kind),
    ) -> Result<Arc<Self>, Fault> {
        if N::BYTES > pool.segments.size() {
            let what = "a node must fit into a segment of the pool; the segment size must be at least the node's";
            return Err(ErrorKind::InvalidOption { what, given: pool.segments.size() }.into());
        }
        let signature = Signature {
            layout: N::LAYOUT,
            slots: N::SLOTS as u32,
            index: index as u16,
            keys: keys.tag,
            values: values.tag,
        };
        let of = |root| Self::unopened(Arc::clone(pool), name, root, index, values.is_record);
        let create = |root| {
            let state = of(root)?;
            let head = state.lay_out()?;
            // Keep the state that laid it out: it knows which blocks hold zeros.
            Ok((Arc::new(state) as _, head))
        };
        let recover = |root| {
            let state = of(root)?;
            state.recover()?;
            Ok(Arc::new(state) as _)
        };
        let open = pool.tree(name, signature, mismatch, &create, &recover)?;
        // The signatures are equal, so the type is the same.
        open.downcast::<Self>().map_err(|_| {
            let (found, expected) = ("a tree open with other parameters", std::any::type_name::<Self>());
            ErrorKind::LayoutMismatch { tree: name.to_owned(), found: found.to_owned(), expected: expected.to_owned() }
                .into()
        })
    }

    fn unopened(
        pool: Arc<PoolState<M>>,
        name: &str,
        root: Root,
        index: IndexKind,
        records: bool,
    ) -> Result<Self, Fault> {
        let leaves = u64::from(pool.segments.count()) * (pool.segments.size() / N::BYTES);
        let directory = match index {
            IndexKind::Volatile => Directory::volatile(leaves).map_err(Fault::address_space)?,
            IndexKind::Flat => Directory::flat(leaves, true).map_err(Fault::address_space)?,
            IndexKind::FlatFixed => Directory::flat(leaves, false).map_err(Fault::address_space)?,
            IndexKind::Persistent => Directory::persistent(PersistentIndex::open(Arc::clone(&pool), root)?),
        };
        Ok(Self {
            name: name.to_owned(),
            root,
            leaves: Chain::new(Arc::clone(&pool), root.slot, segments::SegmentKind::Leaf)?,
            directory,
            head: AtomicU64::new(0),
            image_at: AtomicU64::new(0),
            records: records.then(|| Records::new(&pool.segments, root.slot)),
            restructuring: Restructuring::new(),
            fault: OnceLock::new(),
            pool,
        })
    }

    fn recover(&self) -> Result<(), Fault> {
        let m = self.medium();
        let head = self.leaves.accept(self.root.head(m), self.root.head_at())?;
        match self.root.closed(m) {
            Some(closed) => {
                self.root.set_closed(m, None);
                if !self.restore(closed) {
                    // With this fence, the tree is open: it may differ from its record from here on (R2). The walk
                    // releases the extent as one that nothing points to. A damaged record may name another extent.
                    m.fence(Step::RootOpen);
                    self.walk(head)?;
                }
            }
            None => self.walk(head)?,
        }
        // This is the last step: only a tree that was opened is closed in order.
        self.head.store(head, Ordering::Release);
        Ok(())
    }

    /// Finds every leaf and every block in use. An interrupted change in a leaf is finished when the leaf is first
    /// touched.
    ///
    /// Crash: every repair is idempotent and leaves a state that the next walk understands.
    fn walk(&self, head: u64) -> Result<(), Fault> {
        let m = self.medium();
        let Leaves { listed, tail } = self.find_leaves(head)?;
        for blocks in self.leaves.blocks() {
            let used = listed.iter().map(|&(_, at)| at).chain([tail]);
            blocks.recover_except(&self.pool.segments, used);
        }
        self.leaves.count.forget();
        match &self.records {
            Some(of_tree) => of_tree.recover(m, &self.pool.segments, &self.records_in(&listed, tail)?),
            // Release what a crash during a close left.
            None => release_extents(m, &self.pool.segments, self.root.slot, |_| false),
        }
        if let [(_, only)] = listed[..] {
            // A new tree, or one as small, may as well be counted now.
            self.leaves.view(only)?;
            self.leaves.view(tail)?;
            self.leaves.count.complete();
        }
        match self.directory.learn(&listed) {
            // The index lags.
            Err(fault) if fault.is_out_of_space() => Ok(()),
            other => other,
        }
    }

    /// The records that the leaves point to.
    fn records_in(&self, listed: &[(u64, u64)], tail: u64) -> Result<HashSet<u64>, Fault> {
        let mut records = HashSet::new();
        let of = listed.len() as u64 + 1;
        for (done, at) in (1..).zip(listed.iter().map(|&(_, at)| at).chain([tail])) {
            if done % 4096 == 0 || done == of {
                self.tell(done, of);
            }
            if let Some(leaf) = self.leaves.lock(at)? {
                records.extend(self.leaves.entries(&leaf).iter().map(|&(_, record)| record));
            }
        }
        self.leaves.count.complete();
        Ok(records)
    }
}
