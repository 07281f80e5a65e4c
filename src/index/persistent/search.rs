//! From a key to a leaf, or to an inner node.

use super::{PersistentIndex, TopNode};
use crate::chain::Locked;
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::node::{InnerOps, WordNode};
use crate::sync::Backoff;
use crate::sync::delay::delay;

/// Failed tries after which a reader leaves the index and walks the chain.
const PATIENCE: usize = 64;

impl<N: WordNode<Ops: InnerOps>, M: Medium> PersistentIndex<N, M> {
    /// A leaf that is, or lies left of, the one that owns the key; `None` if the index cannot tell.
    pub(crate) fn floor(&self, key: u64) -> Option<u64> {
        // No separator is MAX, and no inner node owns MAX.
        let key = key.min(u64::MAX - 1);
        for _ in 0..PATIENCE {
            // Other threads may change the index meanwhile, so an error may be a lost race as well. But without a
            // topmost node there is nothing to find.
            if let Ok(Some(leaf)) = self.descend(self.top()?, 0, key) {
                return Some(leaf);
            }
        }
        None
    }

    /// Returns the node of `level` that owns the key; for level 0, the leaf that the index names for it. `None`: a node
    /// was locked while it was read, which says nothing. An error: the index does not lead to the key, which is damage
    /// if no other thread changes it meanwhile.
    fn descend(&self, top: TopNode, level: u16, key: u64) -> Result<Option<u64>, Broken> {
        let (mut at, mut here) = (top.at, top.level);
        let mut from = self.root.index_at();
        loop {
            let lost = || Broken::new(from, "I2: the index does not lead to the key");
            let view = self.chain.view_of_level(at, here)?.ok_or_else(lost)?;
            if !view.range.contains(key) {
                let next = self.chain.next(at);
                if !view.validate() {
                    return Ok(None);
                }
                let next = next?.filter(|_| key >= view.range.low()).ok_or_else(lost)?;
                (from, at) = (at, next);
                continue;
            }
            if here == level {
                return Ok(Some(at));
            }
            let child = self.chain.child(&view, key);
            delay();
            if level > 0 {
                // Changes descend less often than searches do, so they are delayed more often.
                delay();
            }
            if !view.validate() {
                return Ok(None);
            }
            let child = child.ok_or_else(lost)?;
            here -= 1;
            if here == 0 && level == 0 {
                return Ok(Some(child));
            }
            (from, at) = (at, self.chain.accept(child, at)?);
        }
    }

    /// As `descend`, for a thread that changes the index while no other thread does. A node may still be locked, by
    /// another thread that makes the first touch.
    pub(super) fn find(&self, top: TopNode, level: u16, key: u64) -> Result<u64, Broken> {
        let backoff = Backoff::new();
        loop {
            if let Some(at) = self.descend(top, level, key)? {
                return Ok(at);
            }
            backoff.snooze();
        }
    }

    /// Locks the right neighbour of a node of `level`. In a damaged pool, it may be one of another level, which this
    /// thread may come to again.
    pub(super) fn lock_right(&self, level: u16, node: &Locked<'_, N>) -> Result<Option<Locked<'_, N>>, Fault> {
        let right = self.chain.lock_next(node)?;
        if let Some(right) = &right
            && self.chain.level(right.at)? != level
        {
            return Err(Broken::new(right.at, "I1: a node of another level").into());
        }
        Ok(right)
    }

    /// Locks the node of `level` that owns the key. `None` if there is no such level.
    pub(super) fn lock(&self, level: u16, key: u64) -> Result<Option<Locked<'_, N>>, Fault> {
        let Some(top) = self.top().filter(|top| top.level >= level) else { return Ok(None) };
        // One thread at a time changes the index, so the node that was found stays.
        let at = self.find(top, level, key)?;
        delay();
        let lost = || Broken::new(at, "I2: the index leads to a node that left it");
        let node = self.chain.lock(at)?;
        Ok(Some(node.ok_or_else(lost)?))
    }
}
