//! Replacing a whole chain at once: bulk load and clear.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::chain::{self, Chain};
use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{Medium, Step};
use crate::node::{Entry, Keys, NewLowOf, Node};
use crate::pool::blocks::TakenBlock;
use crate::sync::Ordering;
use crate::sync::delay::{Validation, delay, is_left_out};

/// A chain that nothing points to yet. If it is dropped before it is published, because of an error or a panic of the
/// caller's iterator, it gives its blocks back.
struct UnpublishedChain<'t, N: TreeNode, M: Medium> {
    chain: &'t Chain<N, M>,
    /// Names and offsets, from left to right, including the tail.
    leaves: Vec<(u64, u64)>,
    /// The next leaf. It is written once the block of its right neighbour is known.
    pending: Option<Pending<N>>,
    entries: u64,
    published: bool,
}

/// A leaf to be written.
struct Pending<N: Node> {
    low: NewLowOf<N>,
    block: TakenBlock,
    entries: Vec<Entry>,
}

impl<'t, N: TreeNode, M: Medium> UnpublishedChain<'t, N, M> {
    fn new(chain: &'t Chain<N, M>) -> Self {
        Self { chain, leaves: Vec::new(), pending: None, entries: 0, published: false }
    }
}

impl<N: TreeNode, M: Medium> Drop for UnpublishedChain<'_, N, M> {
    fn drop(&mut self) {
        if !self.published && !self.chain.medium().forked() {
            self.leaves.iter().for_each(|&(_, at)| self.chain.discard(at));
            self.pending.take().into_iter().for_each(|pending| self.chain.give_back(pending.block));
        }
    }
}

/// A key and a value, in the caller's memory.
type KeyAndValue<N> = (<<N as Node>::Keys as Keys>::Owned, u64);

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Entries per leaf of a loaded chain. A few slots stay empty for later inserts.
    const FILL: usize = N::SLOTS - N::SLOTS / 16;

    pub(crate) fn bulk_load(&self, entries: impl Iterator<Item = Result<KeyAndValue<N>, Fault>>) -> Result<u64, Fault> {
        self.pool.admit()?;
        if self.has_entry() {
            return Err(ErrorKind::NotEmpty { tree: self.name() }.into());
        }
        // Before any lock is taken: drawing the entries may run any code, which may use this tree.
        self.publish(self.draft(entries)?, true)
    }

    pub(crate) fn clear(&self) -> Result<(), Fault> {
        self.may_change()?;
        if N::POLICY.in_snapshots {
            self.pool.limit_snapshots_to(|| self.len().saturating_mul(size_of::<Entry>() as u64));
        }
        self.publish(self.draft(std::iter::empty())?, false).map(drop)
    }

    /// Writes the empty chain of a tree that is just being created, and returns its head. It is durable when this
    /// returns, and nothing points to it.
    pub(super) fn lay_out(&self) -> Result<u64, Fault> {
        let mut draft = self.draft(std::iter::empty())?;
        self.directory.learn(listed::<N>(&draft.leaves))?;
        draft.published = true;
        self.take_over(&draft);
        Ok(self.head())
    }

    /// Writes a chain of leaves, with its tail if it has one. It is durable when this returns, and nothing points to
    /// it.
    fn draft(
        &self,
        entries: impl Iterator<Item = Result<KeyAndValue<N>, Fault>>,
    ) -> Result<UnpublishedChain<'_, N, M>, Fault> {
        let m = self.medium();
        let mut draft = UnpublishedChain::new(&self.leaves);
        let mut chunk: Vec<KeyAndValue<N>> = Vec::with_capacity(Self::FILL);
        let mut tail = Vec::new();
        let mut low = NewLowOf::<N>::default();
        for pair in entries {
            let pair = pair?;
            if chunk.last().is_some_and(|(last, _)| *last >= pair.0) || !tail.is_empty() {
                return Err(ErrorKind::Unsorted { position: draft.entries }.into());
            }
            draft.entries += 1;
            if N::Keys::is_of_tail(&pair.0) {
                tail.push(pair);
                continue;
            }
            chunk.push(pair);
            if chunk.len() > Self::FILL {
                // The last one begins the next leaf, and the one before it tells where that leaf begins.
                let first = chunk.split_off(Self::FILL);
                let next = N::Keys::low_between(&chunk[Self::FILL - 1].0, &first[0].0);
                let full = std::mem::replace(&mut chunk, first);
                chunk.reserve(Self::FILL);
                m.pause();
                self.append(&mut draft, std::mem::replace(&mut low, next), full)?;
            }
        }
        self.append(&mut draft, low, chunk)?;
        // This checks once more that this process owns the pool. After it, no more entries are drawn.
        if let Some(low) = N::Keys::tail_low() {
            self.append(&mut draft, low, tail)?;
        }
        self.write_pending(&mut draft, None)?;
        // Crash: leaves that nothing points to.
        m.fence(Step::BulkFill);
        Ok(draft)
    }

    fn append(
        &self,
        draft: &mut UnpublishedChain<'_, N, M>,
        low: NewLowOf<N>,
        pairs: Vec<KeyAndValue<N>>,
    ) -> Result<(), Fault> {
        // Checked here, because drawing the entries may run any code.
        self.pool.admit()?;
        let (low, entries) = N::Keys::stored(low, pairs);
        let take = || self.leaves.take_first();
        let block = take().or_else(|fault| self.pool.with_space(fault, take))?;
        let written = self.write_pending(draft, Some((&low, block.at)));
        draft.pending = Some(Pending { low, block, entries });
        written
    }

    /// Writes the leaf that waits for its right neighbour. Flushed, but not fenced.
    fn write_pending(
        &self,
        draft: &mut UnpublishedChain<'_, N, M>,
        next: Option<(&NewLowOf<N>, u64)>,
    ) -> Result<(), Fault> {
        let Some(Pending { low, block, entries }) = draft.pending.take() else { return Ok(()) };
        let leaf = self.leaves.fill_first(
            block,
            chain::Draft {
                level: 0,
                low: &low,
                range: N::Keys::between(&low, next.map(|(low, _)| low)),
                next: next.map_or(0, |(_, at)| at),
                entries: &entries,
            },
        )?;
        draft.leaves.push((self.leaves.name(leaf.at), leaf.at));
        // A late reader may still know the block as another leaf. It must not read this one yet.
        if !is_left_out(Validation::Hidden) {
            self.leaves.mark_dead(leaf);
        }
        Ok(())
    }

    /// Makes a draft the tree's chain. Returns the number of its entries.
    fn publish(&self, mut draft: UnpublishedChain<'_, N, M>, only_if_empty: bool) -> Result<u64, Fault> {
        let _restructuring = self.restructuring.lock();
        self.replace(&mut draft, only_if_empty)?;
        self.lag(self.directory.learn(listed::<N>(&draft.leaves)));
        Ok(draft.entries)
    }

    /// Replaces the tree's chain by a draft. All leaves of the old chain are locked meanwhile. The caller holds
    /// `restructuring`.
    fn replace(&self, draft: &mut UnpublishedChain<'_, N, M>, only_if_empty: bool) -> Result<(), Fault> {
        let m = self.medium();
        let mut old = Vec::new();
        let mut at = Some(self.head());
        while let Some(here) = at {
            // Leaves only leave the chain under `restructuring`.
            let leaf = self.leaves.lock(here)?;
            let leaf = leaf.ok_or_else(|| Broken::new(here, "N4: a leaf twice in the chain"))?;
            if only_if_empty && self.leaves.len(&leaf) > 0 {
                return Err(ErrorKind::NotEmpty { tree: self.name() }.into());
            }
            old.push(leaf);
            at = self.leaves.next(here)?;
        }
        let newest = self.leaves.newest();
        for leaf in &old {
            self.leaves.freeze(leaf, newest);
        }
        draft.leaves.iter().for_each(|&(_, at)| self.leaves.stamp_frozen(at, newest));
        // Crash: the old chain, with an index that has forgotten it.
        self.directory.reset()?;
        draft.published = true;
        self.root.set_head(m, draft.leaves[0].1);
        self.take_over(draft);
        for leaf in old {
            if self.leaves.records.is_some() {
                self.retire_entries(self.leaves.entries(&leaf), self.leaves.stamp_of(&leaf));
            }
            self.leaves.free(leaf);
        }
        if let Some(records) = &self.leaves.records {
            // A few that stay retired could keep as many segments.
            records.collect(m, &self.pool.segments);
        }
        Ok(())
    }

    /// Makes a draft the chain that threads find. The root entry already names it, or does not exist yet.
    fn take_over(&self, draft: &UnpublishedChain<'_, N, M>) {
        // This comes before the new leaves can be written to.
        self.leaves.count.set(draft.entries);
        for &(_, at) in &draft.leaves {
            delay();
            self.leaves.publish(at);
        }
        delay();
        self.head.store(draft.leaves[0].1, Ordering::Release);
    }
}

/// The leaves that an index lists: all but the tail.
fn listed<N: TreeNode>(leaves: &[(u64, u64)]) -> &[(u64, u64)] {
    &leaves[..leaves.len() - usize::from(N::Keys::tail_low().is_some())]
}
