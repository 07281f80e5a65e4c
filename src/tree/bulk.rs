//! Replacing a whole chain at once: bulk load and clear.

use super::TreeState;
use crate::chain::Chain;
use crate::delay::{Validation, delay, is_left_out};
use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{Medium, Step};
use crate::node::{Entry, KeyRange, Node};
use crate::pool::blocks::Taken;
use crate::sync::Ordering;

/// A chain that nothing points to yet. If it is dropped before it is published, because of an error or a panic of the
/// caller's iterator, it gives its blocks back.
struct Draft<'t, N: Node, M: Medium> {
    chain: &'t Chain<N, M>,
    /// Lows and offsets, from left to right, including the tail.
    leaves: Vec<(u64, u64)>,
    /// The next leaf. It is written once the block of its right neighbour is known.
    pending: Option<Pending>,
    entries: u64,
    published: bool,
}

/// A leaf to be written.
struct Pending {
    low: u64,
    block: Taken,
    entries: Vec<Entry>,
}

impl<'t, N: Node, M: Medium> Draft<'t, N, M> {
    fn new(chain: &'t Chain<N, M>) -> Self {
        Self { chain, leaves: Vec::new(), pending: None, entries: 0, published: false }
    }
}

impl<N: Node, M: Medium> Drop for Draft<'_, N, M> {
    fn drop(&mut self) {
        if !self.published && !self.chain.medium().forked() {
            self.leaves.iter().for_each(|&(_, at)| self.chain.discard(at));
            self.pending.take().into_iter().for_each(|pending| self.chain.give_back(pending.block));
        }
    }
}

impl<N: Node, M: Medium> TreeState<N, M> {
    /// Entries per leaf of a loaded chain. A few slots stay empty for later inserts.
    const FILL: usize = N::SLOTS - N::SLOTS / 16;

    pub(crate) fn bulk_load(&self, entries: impl Iterator<Item = Result<Entry, Fault>>) -> Result<u64, Fault> {
        self.pool.owned()?;
        if self.has_entry() {
            return Err(ErrorKind::NotEmpty { tree: self.name.clone() }.into());
        }
        // Before any lock is taken: drawing the entries may run any code, which may use this tree.
        self.publish(self.draft(entries)?, true)
    }

    pub(crate) fn clear(&self) -> Result<(), Fault> {
        self.publish(self.draft(std::iter::empty())?, false).map(drop)
    }

    /// Writes the empty chain of a tree that is just being created, and returns its head. It is durable when this
    /// returns, and nothing points to it.
    pub(super) fn lay_out(&self) -> Result<u64, Fault> {
        let mut draft = self.draft(std::iter::empty())?;
        let (_, listed) = draft.leaves.split_last().expect("a chain has a tail");
        self.directory.learn(listed)?;
        draft.published = true;
        self.take_over(&draft);
        Ok(self.head())
    }

    /// Writes a chain of leaves and its tail. It is durable when this returns, and nothing points to it.
    fn draft(&self, entries: impl Iterator<Item = Result<Entry, Fault>>) -> Result<Draft<'_, N, M>, Fault> {
        let m = self.medium();
        let mut draft = Draft::new(&self.leaves);
        let mut chunk: Vec<Entry> = Vec::with_capacity(Self::FILL);
        let mut last = None;
        let mut tail = None;
        for entry in entries {
            let (key, value) = entry?;
            if last.replace(key).is_some_and(|last| key <= last) {
                return Err(ErrorKind::Unsorted { position: draft.entries }.into());
            }
            draft.entries += 1;
            if key == u64::MAX {
                // This can only be the last entry.
                tail = Some((key, value));
                continue;
            }
            if chunk.len() == Self::FILL {
                self.append(&mut draft, std::mem::replace(&mut chunk, Vec::with_capacity(Self::FILL)))?;
            }
            chunk.push((key, value));
        }
        self.append(&mut draft, chunk)?;
        // This checks once more who owns the pool. After it, no more entries are drawn.
        self.append_from(&mut draft, u64::MAX, tail.into_iter().collect())?;
        self.write_pending(&mut draft, 0)?;
        // Crash: leaves that nothing points to.
        m.fence(Step::BulkFill);
        Ok(draft)
    }

    fn append(&self, draft: &mut Draft<'_, N, M>, entries: Vec<Entry>) -> Result<(), Fault> {
        let low = if draft.pending.is_none() { 0 } else { entries[0].0 };
        self.append_from(draft, low, entries)
    }

    fn append_from(&self, draft: &mut Draft<'_, N, M>, low: u64, entries: Vec<Entry>) -> Result<(), Fault> {
        // Checked here, because drawing the entries may run any code.
        self.pool.owned()?;
        let block = self.leaves.take_first()?;
        let written = self.write_pending(draft, block.at);
        draft.pending = Some(Pending { low, block, entries });
        written
    }

    /// Writes the leaf that waits for the offset of its right neighbour. Flushed, but not fenced.
    fn write_pending(&self, draft: &mut Draft<'_, N, M>, next: u64) -> Result<(), Fault> {
        let Some(Pending { low, block, entries }) = draft.pending.take() else { return Ok(()) };
        let leaf = self.leaves.fill_first(block, KeyRange::new(low, u64::MAX), next, &entries)?;
        draft.leaves.push((low, leaf.at));
        // A late reader may still know the block as another leaf. It must not read this one yet.
        if !is_left_out(Validation::Hidden) {
            self.leaves.mark_dead(leaf);
        }
        Ok(())
    }

    /// Makes a draft the tree's chain. Returns the number of its entries.
    fn publish(&self, mut draft: Draft<'_, N, M>, only_if_empty: bool) -> Result<u64, Fault> {
        let _restructuring = self.restructuring.lock();
        self.replace(&mut draft, only_if_empty)?;
        let (_, listed) = draft.leaves.split_last().expect("a chain has a tail");
        self.lag(self.directory.learn(listed));
        Ok(draft.entries)
    }

    /// Replaces the tree's chain by a draft. All leaves of the old chain are locked meanwhile. The caller holds
    /// `restructuring`.
    fn replace(&self, draft: &mut Draft<'_, N, M>, only_if_empty: bool) -> Result<(), Fault> {
        let m = self.medium();
        let mut old = Vec::new();
        let mut at = Some(self.head());
        while let Some(here) = at {
            // Leaves only leave the chain under `restructuring`.
            let leaf = self.leaves.lock(here)?;
            let leaf = leaf.ok_or_else(|| Broken::new(here, "N4: a leaf twice in the chain"))?;
            if only_if_empty && self.leaves.len(&leaf) > 0 {
                return Err(ErrorKind::NotEmpty { tree: self.name.clone() }.into());
            }
            old.push(leaf);
            at = self.leaves.next(here)?;
        }
        // Crash: the old chain, with an index that has forgotten it.
        self.directory.reset()?;
        draft.published = true;
        self.root.set_head(m, draft.leaves[0].1);
        self.take_over(draft);
        for leaf in old {
            if self.records.is_some() {
                self.retire(self.leaves.entries(&leaf).into_iter().map(|(_, record)| record));
            }
            self.leaves.free(leaf);
        }
        Ok(())
    }

    /// Makes a draft the chain that threads find. The root entry already names it, or does not exist yet.
    fn take_over(&self, draft: &Draft<'_, N, M>) {
        // This comes before the new leaves can be written to.
        self.leaves.count.set(draft.entries);
        let highs = draft.leaves.iter().skip(1).map(|&(high, _)| high).chain([u64::MAX]);
        for (&(low, at), high) in draft.leaves.iter().zip(highs) {
            delay();
            self.leaves.publish(at, KeyRange::new(low, high));
        }
        delay();
        self.head.store(draft.leaves[0].1, Ordering::Release);
    }
}
