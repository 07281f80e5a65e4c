//! Moving nodes to other blocks, so that their segments become empty.
//!
//! | node | prepare (invisible) | commit |
//! |---|---|---|
//! | the first of the top level | fill the new node | the root entry names it |
//! | the first of another level | fill the new node | the entry above names it |
//! | any other | fill the new node, let the entry above name it | `left.next = new` |
//!
//! The new node is durable before anything names it. Both nodes have the same entries, and both are locked until the
//! old one has left. So it does not matter to a search which of the two it meets.

use super::{PersistentIndex, TopNode};
use crate::error::{Broken, Fault};
use crate::medium::{Medium, Step};
use crate::node::{InnerOps, WordNode};

/// Where a sweep over the inner nodes has come: the first key that it has not seen of a level.
pub(crate) struct Swept {
    level: u16,
    key: u64,
}

impl Swept {
    /// Nothing was seen yet.
    pub(crate) fn nothing() -> Self {
        Self { level: 1, key: 0 }
    }
}

impl<N: WordNode<Ops: InnerOps>, M: Medium> PersistentIndex<N, M> {
    /// Goes on with a sweep by one node, from level to level: moves it, if it has to be moved and there is a free
    /// block. Returns the bytes that were moved; `None` after the last node.
    pub(crate) fn move_next(&self, swept: &mut Swept, has_to_move: &dyn Fn(u64) -> bool) -> Result<Option<u64>, Fault> {
        let Swept { level, key } = *swept;
        let Some(node) = self.lock(level, key)? else { return Ok(None) };
        let range = node.range();
        *swept = match range.high() {
            u64::MAX => Swept { level: level + 1, key: 0 },
            high => Swept { level, key: high },
        };
        let at = node.at;
        drop(node);
        let moved = has_to_move(at) && self.relocate(level, range.low(), at)?;
        Ok(Some(if moved { N::BYTES } else { 0 }))
    }

    /// Moves the node at `at`, with this `low`, to another block, if there is a free one. True if it was moved.
    fn relocate(&self, level: u16, low: u64, at: u64) -> Result<bool, Fault> {
        // From left to right, as nodes are locked elsewhere.
        let mut left = match low {
            0 => None,
            _ => self.lock(level, low - 1)?,
        };
        let old = match &left {
            Some(left) => self.lock_right(level, left)?,
            None => self.lock(level, low)?,
        };
        let lost = || Broken::new(at, "I2: the index leads to a node that left it");
        let old = old.filter(|old| old.at == at).ok_or_else(lost)?;
        let entries = self.chain.entries(&old);
        let Some(new) = self.chain.create_in_place_of(&old, level, &entries)? else { return Ok(false) };
        // Crash: a block that nothing points to. With it, the new node is durable before anything names it.
        self.chain.medium().fence(Step::IndexMove);
        let named = if self.top().is_some_and(|top| top.at == old.at) {
            // Crash: either node leads to every leaf.
            self.set_root(Some(TopNode { at: new.at, level }));
            Ok(true)
        } else {
            // Crash: for the first node of a level, as above. Of another one, the level above names a node that was
            // never in the chain; a repair compares, and repoints.
            self.repoint_at(level + 1, low, new.at)
        };
        let is_first = left.is_none();
        match named {
            // A node that is not the first may be missing above: the index lags.
            Ok(named) if named || !is_first => {}
            other => {
                self.chain.free(new);
                let unlisted = Broken::new(old.at, "I1: a level's first node is listed above");
                return Err(other.err().unwrap_or(unlisted.into()));
            }
        }
        if let Some(left) = &mut left {
            self.chain.link(left, new.at);
        }
        self.chain.free(old);
        Ok(true)
    }
}
