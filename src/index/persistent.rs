//! The persistent index: chains of inner nodes in the pool, in the leaves' own layout.
//!
//! An inner node's entries are the `low` and the offset of nodes one level below. Level 0 are the leaves; the tail leaf,
//! which owns only the key MAX, is not listed, so that no separator is MAX.
//!
//! Invariants, in every crash state:
//! - **I1** Every inner node's first entry has the node's `low` as its key.
//! - **I2** An entry's child is in the chain of the level below; or it was to replace the node of the same `low` that is,
//!   and was never committed. It was not recycled.
//!
//! I2 follows from the order: an entry is withdrawn, or becomes that of the new node, before its child leaves the chain;
//! and it is posted after its child entered. I1 follows from leaving the first child of a node alone: a node merges with, or is replaced by, its left
//! neighbour only if both have the same parent, as in Circ-Tree.

use crate::chain::{Chain, Links, Locked};
use crate::delay::delay;
use crate::error::{Broken, Error, Result};
use crate::medium::Medium;
use crate::node::{LOW, Sorted, Span};
use crate::pool::Inner;
use crate::pool::roots::Root;
use crate::pool::segments::Kind;
use crate::sync::{AtomicU64, Ordering, spin_loop};
use std::collections::HashSet;
use std::sync::Arc;

/// Retries after which a reader leaves the index and walks the chain.
const PATIENCE: usize = 64;

/// More levels than any tree has: nodes have four slots or more, and half of them are in use when a level is added.
const LEVELS: u16 = 64;

/// The levels above the leaves.
pub(crate) struct Upper<N: Sorted, M: Medium> {
    chain: Chain<N, M>,
    root: Root,
    /// The topmost node and its level: offset 48, level 16; 0 = no inner nodes.
    top: AtomicU64,
}

/// The topmost node.
#[derive(Clone, Copy)]
struct Top {
    at: u64,
    level: u16,
}

/// The topmost node that the root entry names.
fn top_of<N: Sorted, M: Medium>(links: &Links<N, M>, root: Root) -> Result<Option<Top>, Broken> {
    let at = match root.index(links.medium()) {
        0 => return Ok(None),
        at => links.validate(at, root.index_at())?,
    };
    let level = links.level(at)?;
    if level == 0 || level > LEVELS || links.medium().load(at + LOW) != 0 {
        return Err(Broken::new(root.index_at(), "I1: the index's root is no topmost node"));
    }
    Ok(Some(Top { at, level }))
}

impl<N: Sorted, M: Medium> Upper<N, M> {
    /// The index as the root entry names it. `repair` makes it fit the leaves.
    pub(crate) fn open(pool: Arc<Inner<M>>, root: Root) -> Result<Self> {
        let chain = Chain::new(pool, root.slot, Kind::Inner)?;
        let top = chain.pool.intact(top_of(&chain, root))?;
        let upper = Self { chain, root, top: AtomicU64::new(0) };
        upper.set_top(top);
        Ok(upper)
    }

    pub(crate) fn chain(&self) -> &Chain<N, M> {
        &self.chain
    }

    fn top(&self) -> Option<Top> {
        match self.top.load(Ordering::Acquire) {
            0 => None,
            word => Some(Top { at: word & (u64::MAX >> 16), level: (word >> 48) as u16 }),
        }
    }

    fn set_top(&self, top: Option<Top>) {
        self.top.store(top.map_or(0, |top| top.at | u64::from(top.level) << 48), Ordering::Release);
    }

    /// Publishes a new topmost node, durable already.
    fn crown(&self, top: Option<Top>) {
        let m = self.chain.medium();
        delay();
        self.root.set_index(m, top.map_or(0, |top| top.at));
        // Crash: the old root or the new one; both lead to every leaf, at worst through the chain. The fence is for other
        // threads, which may reuse the old root's block: their own fences do not wait for this flush.
        m.fence();
        delay();
        self.set_top(top);
    }

    fn named<T>(&self, result: Result<T, Broken>) -> Result<T> {
        self.chain.pool.intact(result)
    }

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
            if !view.span.contains(key) {
                let next = self.chain.next(at);
                if !view.is_still() {
                    return Ok(None);
                }
                let next = next?.filter(|_| key >= view.span.low()).ok_or_else(lost)?;
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
            if !view.is_still() {
                return Ok(None);
            }
            let child = child.ok_or_else(lost)?;
            here -= 1;
            if here == 0 && level == 0 {
                return Ok(Some(child));
            }
            (from, at) = (at, self.chain.validate(child, at)?);
        }
    }

    /// The same for who changes the index, while nobody else does. A node may still be locked by another thread that touches
    /// it first.
    fn find(&self, top: Top, level: u16, key: u64) -> Result<u64, Broken> {
        loop {
            if let Some(at) = self.descend(top, level, key)? {
                return Ok(at);
            }
            spin_loop();
        }
    }

    /// Locks the node of `level` that owns the key. `None` if there is no such level.
    fn lock(&self, level: u16, key: u64) -> Result<Option<Locked<'_, N::Aid>>> {
        let Some(top) = self.top().filter(|top| top.level >= level) else { return Ok(None) };
        // Changes are made by one thread at a time, so the node that is found stays.
        let at = self.named(self.find(top, level, key))?;
        delay();
        let lost = || Broken::new(at, "I2: the index leads to a node that left it");
        let node = self.named(self.chain.lock(at))?;
        self.named(node.ok_or_else(lost)).map(Some)
    }

    pub(crate) fn post(&self, low: u64, leaf: u64) -> Result<()> {
        self.post_at(1, low, leaf)
    }

    fn post_at(&self, level: u16, low: u64, child: u64) -> Result<()> {
        delay();
        let Some(mut node) = self.lock(level, low)? else { return self.grow(level, low, child) };
        let entry = (low, child);
        match self.chain.search(&node, low) {
            Ok(i) => {
                self.chain.update(&mut node, i, child);
                Ok(())
            }
            Err(i) if !self.chain.is_full(&node) => {
                self.chain.insert(&mut node, i, entry);
                Ok(())
            }
            Err(i) => {
                let (right, with_new) = self.chain.split(&mut node, level, entry)?;
                if !with_new {
                    self.chain.insert(&mut node, i, entry);
                }
                let (low, at) = (right.span().low(), right.at);
                drop(right);
                drop(node);
                self.post_at(level + 1, low, at)
            }
        }
    }

    /// Makes the entry of a leaf that is to be replaced, if there is one, that of the leaf that replaces it. True if there is.
    pub(crate) fn repoint(&self, low: u64, leaf: u64) -> Result<bool> {
        self.repoint_at(1, low, leaf)
    }

    fn repoint_at(&self, level: u16, low: u64, child: u64) -> Result<bool> {
        if let Some(mut node) = self.lock(level, low)?
            && let Ok(i) = self.chain.search(&node, low)
        {
            self.chain.update(&mut node, i, child);
            return Ok(true);
        }
        Ok(false)
    }

    /// A new topmost node over the chain of the level below, with its first and one further node.
    fn grow(&self, level: u16, low: u64, child: u64) -> Result<()> {
        let m = self.chain.medium();
        let first = self.top().map_or_else(|| self.root.head(m), |top| top.at);
        let span = Span::new(0, u64::MAX);
        let node = self.chain.create(level, span, 0, &[(0, first), (low, child)])?;
        // Crash: a block that nothing points to.
        m.fence();
        self.crown(Some(Top { at: node.at, level }));
        Ok(())
    }

    pub(crate) fn may_withdraw(&self, low: u64) -> Result<bool> {
        self.may_withdraw_at(1, low)
    }

    fn may_withdraw_at(&self, level: u16, low: u64) -> Result<bool> {
        // Not listed is fine too: the index lags, there is nothing to withdraw.
        Ok(self.lock(level, low)?.is_none_or(|node| self.chain.search(&node, low) != Ok(0)))
    }

    /// Forgets the entry of a leaf, if there is one. True if there was.
    pub(crate) fn withdraw(&self, low: u64) -> Result<bool> {
        self.withdraw_at(1, low)
    }

    fn withdraw_at(&self, level: u16, low: u64) -> Result<bool> {
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

    /// Takes off the topmost node if it has a single child. True if it did.
    ///
    /// One level only: the child may be locked by the caller.
    fn shrink(&self) -> Result<bool> {
        let Some(top) = self.top() else { return Ok(false) };
        let Some(node) = self.named(self.chain.lock(top.at))? else { return Ok(false) };
        if self.chain.len(&node) != 1 || self.named(self.chain.next(top.at))?.is_some() {
            return Ok(false);
        }
        let child = self.chain.value(&node, 0);
        let below = match top.level - 1 {
            0 => None,
            level => Some(Top { at: self.named(self.chain.validate(child, top.at))?, level }),
        };
        // Crash: the old topmost node, or its child, which leads to the same leaves.
        self.crown(below);
        self.chain.free(node);
        Ok(true)
    }

    /// Merges the sparse node that owns the key with a neighbour of the same parent, or shares with it.
    fn rebalance(&self, level: u16, key: u64) -> Result<()> {
        let Some(node) = self.lock(level, key)? else { return Ok(()) };
        let low = node.span().low();
        if let Some(next) = self.named(self.chain.next(node.at))?
            && let Some(right) = self.named(self.chain.lock(next))?
            && self.may_withdraw_at(level + 1, right.span().low())?
        {
            return self.join(level, node, right);
        }
        if low == 0 || !self.may_withdraw_at(level + 1, low)? {
            return Ok(());
        }
        drop(node);
        let Some(left) = self.lock(level, low - 1)? else { return Ok(()) };
        if left.span().high() == low
            && let Some(next) = self.named(self.chain.next(left.at))?
            && let Some(right) = self.named(self.chain.lock(next))?
        {
            return self.join(level, left, right);
        }
        Ok(())
    }

    fn join<'c>(&'c self, level: u16, mut left: Locked<'c, N::Aid>, right: Locked<'c, N::Aid>) -> Result<()> {
        let (low, at) = (right.span().low(), right.at);
        self.withdraw_at(level + 1, low)?;
        if self.chain.fit_in_one(&left, &right) {
            self.chain.merge(&mut left, right);
            return Ok(());
        }
        let (low, at) = match self.chain.redistribute(&mut left, right, level) {
            Ok(new) => (new.span().low(), new.at),
            // No space to share: everything stays where it was.
            Err(Error::OutOfSpace { .. }) => (low, at),
            Err(error) => return Err(error),
        };
        drop(left);
        match self.post_at(level + 1, low, at) {
            // The index lags.
            Err(Error::OutOfSpace { .. }) => Ok(()),
            other => other,
        }
    }

    /// Forgets everything, durably.
    pub(crate) fn reset(&self) -> Result<()> {
        let Some(top) = self.top() else { return Ok(()) };
        let mut nodes = Vec::new();
        for level in 1..=top.level {
            nodes.extend(self.named(self.level_nodes(level))?);
        }
        self.crown(None);
        for (_, at) in nodes {
            if let Some(node) = self.named(self.chain.lock(at))? {
                self.chain.free(node);
            }
        }
        Ok(())
    }

    /// The nodes of a level with their lows, from left to right.
    fn level_nodes(&self, level: u16) -> Result<Vec<(u64, u64)>, Broken> {
        let Some(top) = self.top() else { return Ok(Vec::new()) };
        let mut at = Some(self.find(top, level, 0)?);
        let mut nodes = Vec::new();
        while let Some(here) = at {
            let found = self.chain.level(here)?;
            if found != level {
                return Err(Broken::new(here, "I1: a node of another level"));
            }
            nodes.push((self.chain.span_of(here)?.low(), here));
            at = self.chain.next(here)?;
        }
        Ok(nodes)
    }

    /// All inner nodes: what recovery must not hand out again.
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
    pub(crate) fn repair(&self, leaves: &[(u64, u64)]) -> Result<()> {
        // Blocks first: repairing may need new ones.
        let used = self.named(self.nodes())?;
        let [blocks] = self.chain.blocks() else { unreachable!("inner nodes have one size") };
        blocks.recover_except(&self.chain.pool.segments, used.into_iter());
        let mut below = leaves.to_vec();
        let mut level = 1;
        // One node needs no level above it.
        while below.len() > 1 || self.top().is_some_and(|top| top.level >= level) {
            self.repair_level(level, &below)?;
            below = self.named(self.level_nodes(level))?;
            level += 1;
        }
        while self.shrink()? {}
        Ok(())
    }

    fn repair_level(&self, level: u16, below: &[(u64, u64)]) -> Result<()> {
        let mut listed = Vec::new();
        if self.top().is_some_and(|top| top.level >= level) {
            for (_, at) in self.named(self.level_nodes(level))? {
                if let Some(node) = self.named(self.chain.lock(at))? {
                    let first = listed.len();
                    listed.extend(self.chain.entries(&node));
                    if listed.get(first).is_none_or(|&(key, _)| key != node.span().low()) {
                        let broken = Broken::new(at, "I1: a node's first entry has its low");
                        return self.named(Err(broken));
                    }
                }
            }
        }
        for &(low, child) in &listed {
            if below.binary_search(&(low, child)).is_err() {
                // Its node was about to be replaced, or has been.
                if let Ok(of_low) = below.binary_search_by_key(&low, |&(low, _)| low) {
                    self.repoint_at(level, low, below[of_low].1)?;
                    continue;
                }
                if !self.may_withdraw_at(level, low)? {
                    let broken = Broken::new(self.root.index_at(), "I2: a node's first child left the chain");
                    return self.named(Err(broken));
                }
                // Only the entry goes: balance is for later.
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

/// Every broken invariant of a persistent index, without a store; tells how many levels it has. `leaves` are the chain's,
/// in order.
pub(crate) fn check<N: Sorted, M: Medium>(
    pool: &Arc<Inner<M>>,
    root: Root,
    leaves: &[(u64, u64)],
    report: &mut dyn FnMut(Broken),
) -> u64 {
    let links = Links::<N, M>::new(Arc::clone(pool), root.slot, Kind::Inner);
    match top_of(&links, root) {
        Ok(Some(top)) => {
            check_levels(&links, top, leaves, report);
            top.level.into()
        }
        Ok(None) => 0,
        Err(broken) => {
            report(broken);
            0
        }
    }
}

fn check_levels<N: Sorted, M: Medium>(
    links: &Links<N, M>,
    top: Top,
    leaves: &[(u64, u64)],
    report: &mut dyn FnMut(Broken),
) {
    let m = links.medium();
    // From the top down, without locks: a lock would repair.
    let mut first = top.at;
    let mut levels = Vec::new();
    for level in (1..=top.level).rev() {
        let mut nodes = Vec::new();
        let mut at = Some(first);
        while let Some(here) = at {
            match (links.level(here), links.span_of(here)) {
                (Ok(found), Ok(span)) if found == level => nodes.push((here, span)),
                (Err(broken), _) | (_, Err(broken)) => return report(broken),
                _ => return report(Broken::new(here, "I1: a node of another level")),
            }
            at = match links.next(here) {
                Ok(next) => next,
                Err(broken) => return report(broken),
            };
        }
        let mut entries = Vec::new();
        for &(at, span) in &nodes {
            let Some(checked) = N::check(m, at, span, report) else { return };
            let from = entries.len();
            entries.extend(checked.entries.iter().map(|&(low, child)| (low, child, at)));
            if entries.get(from).is_none_or(|&(key, ..)| key != span.low()) {
                report(Broken::new(at, "I1: a node's first entry has its low"));
            }
        }
        let Some(&(_, child, at)) = entries.first() else { return };
        if level > 1 {
            first = match links.validate(child, at) {
                Ok(child) => child,
                Err(broken) => return report(broken),
            };
        }
        let nodes: Vec<(u64, u64)> = nodes.iter().map(|&(at, span)| (span.low(), at)).collect();
        levels.push((nodes, entries));
    }
    let below = levels.iter().skip(1).map(|(nodes, _)| nodes.as_slice()).chain([leaves]);
    for ((_, entries), below) in levels.iter().zip(below) {
        for &(low, child, at) in entries {
            let replaced = || below.binary_search_by_key(&low, |&(low, _)| low).is_ok();
            if below.binary_search(&(low, child)).is_err() && !replaced() {
                report(Broken::new(at, "I2: an entry for no node of the level below"));
            }
        }
    }
}
