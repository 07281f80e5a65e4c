//! From a key to a leaf, or to an inner node.

use super::{PersistentIndex, Top};
use crate::chain::Locked;
use crate::delay::delay;
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::node::{InnerOps, Node};
use crate::sync::spin_loop;

/// Retries after which a reader leaves the index and walks the chain.
const PATIENCE: usize = 64;

impl<N: Node<Ops: InnerOps>, M: Medium> PersistentIndex<N, M> {
    /// A leaf at or left of the key's; `None` if the index cannot tell.
    pub(crate) fn floor(&self, key: u64) -> Option<u64> {
        // No separator is MAX, and no inner node owns it.
        let key = key.min(u64::MAX - 1);
        for _ in 0..PATIENCE {
            // Others may change the index meanwhile: what does not fit is a lost race, too. But without a topmost node there is
            // nothing to be found.
            if let Ok(Some(leaf)) = self.descend(self.top()?, 0, key) {
                return Some(leaf);
            }
        }
        None
    }

    /// The node of `level` that owns the key, or the leaf it names. `None`: a node's lock was taken while it was read, which
    /// says nothing. An error: the index does not lead there, which is damage if nobody changes it meanwhile.
    fn descend(&self, top: Top, level: u16, key: u64) -> Result<Option<u64>, Broken> {
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
                // Who changes the index comes by more seldom than who searches, so it is held up more often.
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

    /// The same for who changes the index, while nobody else does. A node may still be locked by another thread that touches
    /// it first.
    pub(super) fn find(&self, top: Top, level: u16, key: u64) -> Result<u64, Broken> {
        loop {
            if let Some(at) = self.descend(top, level, key)? {
                return Ok(at);
            }
            spin_loop();
        }
    }

    /// Locks the node of `level` that owns the key. `None` if there is no such level.
    pub(super) fn lock(&self, level: u16, key: u64) -> Result<Option<Locked<'_, N>>, Fault> {
        let Some(top) = self.top().filter(|top| top.level >= level) else { return Ok(None) };
        // Changes are made by one thread at a time, so the node that is found stays.
        let at = self.find(top, level, key)?;
        delay();
        let lost = || Broken::new(at, "I2: the index leads to a node that left it");
        let node = self.chain.lock(at)?;
        Ok(Some(node.ok_or_else(lost)?))
    }
}
