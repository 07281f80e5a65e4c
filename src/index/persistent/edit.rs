//! Adding, changing and removing entries, and adding and removing levels.

use super::{PersistentIndex, TopNode};
use crate::chain::Draft;
use crate::error::Fault;
use crate::medium::{Medium, Step};
use crate::node::{InnerOps, KeyRange, WordNode};
use crate::sync::delay::delay;

impl<N: WordNode<Ops: InnerOps>, M: Medium> PersistentIndex<N, M> {
    /// Adds the entry of a leaf that is in the chain.
    pub(crate) fn post(&self, low: u64, leaf: u64) -> Result<(), Fault> {
        self.post_at(1, low, leaf)
    }

    pub(super) fn post_at(&self, level: u16, low: u64, child: u64) -> Result<(), Fault> {
        delay();
        let Some(mut node) = self.lock(level, low)? else {
            // The first node of the topmost level is named by the root entry.
            return if low == 0 { Ok(()) } else { self.grow(level, low, child) };
        };
        let entry = (low, child);
        match self.chain.search(&node, low) {
            Ok(i) => {
                self.chain.update(&mut node, i, child);
                Ok(())
            }
            Err(i) if self.chain.has_room(&node, 1) => {
                self.chain.insert(&mut node, i, entry);
                Ok(())
            }
            Err(_) => {
                let right = self.chain.insert_by_split(&mut node, level, entry)?;
                let (low, at) = (right.range().low(), right.at);
                drop((right, node));
                self.post_at(level + 1, low, at)
            }
        }
    }

    /// Changes the entry of a leaf that is about to be replaced, if it has one, to name the new leaf. True if it had
    /// one.
    pub(crate) fn repoint(&self, low: u64, leaf: u64) -> Result<bool, Fault> {
        self.repoint_at(1, low, leaf)
    }

    pub(super) fn repoint_at(&self, level: u16, low: u64, child: u64) -> Result<bool, Fault> {
        if let Some(mut node) = self.lock(level, low)?
            && let Ok(i) = self.chain.search(&node, low)
        {
            self.chain.update(&mut node, i, child);
            return Ok(true);
        }
        Ok(false)
    }

    /// Adds a topmost node over the chain of the level below, with its first node and one more as entries.
    fn grow(&self, level: u16, low: u64, child: u64) -> Result<(), Fault> {
        let m = self.chain.medium();
        let first = self.top().map_or_else(|| self.root.head(m), |top| top.at);
        let range = KeyRange::new(0, u64::MAX);
        let entries = [(0, first), (low, child)];
        let node = self.chain.create(Draft { level, low: &0, range, next: 0, entries: &entries })?;
        // Crash: a block that nothing points to.
        m.fence(Step::IndexGrow);
        self.set_root(Some(TopNode { at: node.at, level }));
        Ok(())
    }

    /// Whether a leaf may leave the chain: it must not be the first child of its parent.
    pub(crate) fn may_withdraw(&self, low: u64) -> Result<bool, Fault> {
        self.may_withdraw_at(1, low)
    }

    pub(super) fn may_withdraw_at(&self, level: u16, low: u64) -> Result<bool, Fault> {
        // By I1, the first entry has the node's low. A leaf that is not listed may leave, too: the index lags, so there
        // is nothing to withdraw.
        Ok(self.lock(level, low)?.is_none_or(|node| node.range().low() != low))
    }

    /// Removes the entry of a leaf, if it has one. True if it had one.
    pub(crate) fn withdraw(&self, low: u64) -> Result<bool, Fault> {
        self.withdraw_at(1, low)
    }

    pub(super) fn withdraw_at(&self, level: u16, low: u64) -> Result<bool, Fault> {
        let Some(mut node) = self.lock(level, low)? else { return Ok(false) };
        let Ok(i) = self.chain.search(&node, low) else { return Ok(false) };
        delay();
        self.chain.remove(&mut node, i);
        let sparse = self.chain.is_sparse(&node);
        let is_single = self.chain.len(&node) == 1;
        let at = node.at;
        drop(node);
        if self.top().is_some_and(|top| top.at == at) {
            if is_single {
                self.shrink()?;
            }
        } else if sparse {
            self.rebalance(level, low)?;
        }
        Ok(true)
    }

    /// Removes the topmost node if it has a single child. True if it did.
    ///
    /// Removes one level only, because the caller may hold the child's lock.
    pub(super) fn shrink(&self) -> Result<bool, Fault> {
        let Some(top) = self.top() else { return Ok(false) };
        let Some(node) = self.chain.lock(top.at)? else { return Ok(false) };
        if self.chain.len(&node) != 1 || self.chain.next(top.at)?.is_some() {
            return Ok(false);
        }
        // By I1, the topmost node's single entry has the key 0.
        let Ok(first) = self.chain.search(&node, 0) else { return Ok(false) };
        let child = self.chain.value(&node, first);
        let below = match top.level - 1 {
            0 => None,
            level => Some(TopNode { at: self.chain.accept(child, top.at)?, level }),
        };
        // Crash: the old topmost node, or its child, which leads to the same leaves.
        self.set_root(below);
        self.chain.free(node);
        Ok(true)
    }

    /// Removes all inner nodes, durably.
    pub(crate) fn reset(&self) -> Result<(), Fault> {
        let Some(top) = self.top() else { return Ok(()) };
        let mut nodes = Vec::new();
        for level in 1..=top.level {
            nodes.extend(self.level_nodes(level)?);
        }
        self.set_root(None);
        for (_, at) in nodes {
            if let Some(node) = self.chain.lock(at)? {
                self.chain.free(node);
            }
        }
        Ok(())
    }
}
