//! Making an index match its leaves again after a crash.

use super::PersistentIndex;
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::node::{InnerOps, WordNode};
use std::collections::HashSet;

impl<N: WordNode<Ops: InnerOps>, M: Medium> PersistentIndex<N, M> {
    /// The nodes of a level with their lows, from left to right.
    pub(super) fn level_nodes(&self, level: u16) -> Result<Vec<(u64, u64)>, Broken> {
        let Some(top) = self.top() else { return Ok(Vec::new()) };
        let mut at = Some(self.find(top, level, 0)?);
        let mut nodes = Vec::new();
        while let Some(here) = at {
            let found = self.chain.level(here)?;
            if found != level {
                return Err(Broken::new(here, "I1: a node of another level"));
            }
            nodes.push((self.chain.range_of(here)?.low(), here));
            at = self.chain.next(here)?;
        }
        Ok(nodes)
    }

    /// All inner nodes: the blocks that recovery must not hand out again.
    pub(crate) fn nodes(&self) -> Result<HashSet<u64>, Broken> {
        let mut all = HashSet::new();
        for level in 1..=self.top().map_or(0, |top| top.level) {
            all.extend(self.level_nodes(level)?.into_iter().map(|(_, at)| at));
        }
        Ok(all)
    }

    /// Makes every level list exactly the nodes of the level below, from the leaves up.
    ///
    /// Crash: each step is one of the ordinary verbs, so the next repair goes on from what this one left.
    pub(crate) fn repair(&self, leaves: &[(u64, u64)]) -> Result<(), Fault> {
        // Blocks first, because the repair may need new ones.
        let used = self.nodes()?;
        let [blocks] = self.chain.blocks() else { unreachable!("inner nodes have one size") };
        blocks.recover_except(&self.chain.pool.segments, used.into_iter());
        let mut below = leaves.to_vec();
        let mut level = 1;
        // A level with one node needs no level above it.
        while below.len() > 1 || self.top().is_some_and(|top| top.level >= level) {
            self.repair_level(level, &below)?;
            below = self.level_nodes(level)?;
            level += 1;
        }
        while self.shrink()? {}
        Ok(())
    }

    fn repair_level(&self, level: u16, below: &[(u64, u64)]) -> Result<(), Fault> {
        let mut listed = Vec::new();
        if self.top().is_some_and(|top| top.level >= level) {
            for (_, at) in self.level_nodes(level)? {
                if let Some(node) = self.chain.lock(at)? {
                    let first = listed.len();
                    listed.extend(self.chain.entries(&node));
                    if listed.get(first).is_none_or(|&(key, _)| key != node.range().low()) {
                        let broken = Broken::new(at, "I1: a node's first entry has its low");
                        return Err(broken.into());
                    }
                }
            }
        }
        for &(low, child) in &listed {
            if below.binary_search(&(low, child)).is_err() {
                // The node of this entry was about to be replaced, or has been.
                if let Ok(of_low) = below.binary_search_by_key(&low, |&(low, _)| low) {
                    self.repoint_at(level, low, below[of_low].1)?;
                    continue;
                }
                if !self.may_withdraw_at(level, low)? {
                    let broken = Broken::new(self.root.index_at(), "I2: a node's first child left the chain");
                    return Err(broken.into());
                }
                // Only the entry is removed; balancing is left to later changes.
                if let Some(mut node) = self.lock(level, low)?
                    && let Ok(i) = self.chain.search(&node, low)
                {
                    self.chain.remove(&mut node, i);
                }
            }
        }
        for &(low, child) in below.iter().filter(|(low, _)| *low > 0) {
            if listed.binary_search_by_key(&low, |&(low, _)| low).is_err() {
                self.post_at(level, low, child)?;
            }
        }
        Ok(())
    }
}
