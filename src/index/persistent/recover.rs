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

    /// Makes every level list exactly the nodes of the level below.
    ///
    /// First, no entry names a node that is not there, from the top down: what is followed was compared before. All of
    /// that is durable, and needs no space. Only then are blocks taken, which such an entry could name (T3). An error
    /// for want of space can only come after it.
    ///
    /// Crash: each step is one of the ordinary verbs, so the next repair goes on from what this one left.
    pub(crate) fn repair(&self, leaves: &[(u64, u64)]) -> Result<(), Fault> {
        // Blocks first, because the repair may need new ones.
        let used = self.nodes()?;
        let [blocks] = self.chain.blocks() else { unreachable!("inner nodes have one size") };
        blocks.recover_except(&self.chain.pool.segments, used.into_iter());
        let below = |level| if level == 1 { Ok(leaves.to_vec()) } else { self.level_nodes(level - 1) };
        for level in (1..=self.top().map_or(0, |top| top.level)).rev() {
            self.forget_missing(level, &below(level)?)?;
        }
        let mut level = 1;
        // A level with one node needs no level above it.
        while below(level)?.len() > 1 || self.top().is_some_and(|top| top.level >= level) {
            self.post_missing(level, &below(level)?)?;
            level += 1;
        }
        while self.shrink()? {}
        Ok(())
    }

    /// The entries of a level, from left to right.
    fn listed(&self, level: u16) -> Result<Vec<(u64, u64)>, Fault> {
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
        Ok(listed)
    }

    /// Removes the entries that name no node of the level below, or lets them name the one that has their low.
    fn forget_missing(&self, level: u16, below: &[(u64, u64)]) -> Result<(), Fault> {
        for (low, child) in self.listed(level)? {
            if below.binary_search(&(low, child)).is_ok() {
                continue;
            }
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
        Ok(())
    }

    /// Adds entries for the nodes of the level below that have none.
    fn post_missing(&self, level: u16, below: &[(u64, u64)]) -> Result<(), Fault> {
        let listed = self.listed(level)?;
        for &(low, child) in below.iter().filter(|(low, _)| *low > 0) {
            if listed.binary_search_by_key(&low, |&(low, _)| low).is_err() {
                self.post_at(level, low, child)?;
            }
        }
        Ok(())
    }
}
