//! Blocks for nodes: how they are taken, filled, published and given back.

use super::{Chain, Locked};
use crate::error::{Broken, Fault};
use crate::medium::{LINE, Medium, Step};
use crate::node::shadow::Leave;
use crate::node::{Entry, Keys, Layout, NewLowOf, NewNode, Node, RangeOf};
use crate::pool::blocks::TakenBlock;
use crate::sync::delay::delay;

/// What a block is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// For an additional node.
    Growth,
    /// For a node that replaces another one. The replaced node's block has the same size and is given back before the
    /// tree's mutex is released.
    Exchange,
}

/// A node that is to be made.
pub(crate) struct Draft<'d, N: Node> {
    /// Levels above the leaves.
    pub(crate) level: u16,
    /// The smallest key that it will own.
    pub(crate) low: &'d NewLowOf<N>,
    /// The range that it will own.
    pub(crate) range: RangeOf<N>,
    /// The right neighbour, 0 = none.
    pub(crate) next: u64,
    /// The entries, which ascend.
    pub(crate) entries: &'d [Entry],
}

impl<N: Node, M: Medium> Chain<N, M> {
    /// Takes a block of the smallest size and fills it with `entries`, which ascend. The block is flushed, but not
    /// fenced. The node is locked until it is dropped, and nothing points to it.
    pub(crate) fn create(&self, new: Draft<'_, N>) -> Result<Locked<'_, N>, Fault> {
        self.create_of((N::BYTES / LINE) as u32, For::Growth, new)
    }

    /// The class of blocks for a node of `lines` lines.
    fn class_for(lines: u32) -> usize {
        (u64::from(lines) * LINE).div_ceil(N::BYTES).next_power_of_two().trailing_zeros() as usize
    }

    /// The purpose of a block of `lines` lines that is taken to replace `node`.
    pub(crate) fn in_place_of(&self, node: &Locked<'_, N>, lines: u32) -> For {
        if self.class_of(node.at) == Self::class_for(lines) { For::Exchange } else { For::Growth }
    }

    /// As [`create`](Self::create), in a block that has room for `lines` lines.
    pub(crate) fn create_of(&self, lines: u32, purpose: For, new: Draft<'_, N>) -> Result<Locked<'_, N>, Fault> {
        self.fill(self.take_block(lines, purpose)?, lines, new)
    }

    /// Takes a block for a node of the smallest size, to [fill](Self::fill_first) or to [give back](Self::give_back).
    pub(crate) fn take_first(&self) -> Result<TakenBlock, Fault> {
        self.take_block((N::BYTES / LINE) as u32, For::Growth)
    }

    /// Gives back a block that was taken and not filled.
    pub(crate) fn give_back(&self, block: TakenBlock) {
        self.blocks[self.class_of(block.at)].give(self.medium(), &self.pool.segments, block.at);
    }

    /// As [`create`](Self::create), in a block that was taken before.
    pub(crate) fn fill_first(&self, block: TakenBlock, new: Draft<'_, N>) -> Result<Locked<'_, N>, Fault> {
        self.fill(block, (N::BYTES / LINE) as u32, new)
    }

    /// Creates a node that is to replace `old` in the chain (K4, K6): with the same range, neighbour, size and stamp,
    /// and these entries. `None` if there is no block for it. Flushed, but not fenced.
    pub(crate) fn create_in_place_of(
        &self,
        old: &Locked<'_, N>,
        level: u16,
        entries: &[Entry],
    ) -> Result<Option<Locked<'_, N>>, Fault> {
        let (lines, next) = (self.lines(old), self.next(old.at)?.unwrap_or(0));
        // Not in exchange: the block of the old node lies where it cannot refill the reserve (K-D).
        let (m, segments) = (self.medium(), &self.pool.segments);
        let Some(block) = self.blocks[Self::class_for(lines)].take_to_move(m, segments) else { return Ok(None) };
        self.make_shadow(block.at).inspect_err(|_| self.give_back(block))?;
        let low = N::Keys::new_low(self.block(old.at), old.range());
        let mut new = self.fill(block, lines, Draft { level, low: &low, range: old.range(), next, entries })?;
        self.stamp_like(&new, old);
        self.inherit(&new, old, 1);
        if old.was.is_appended() {
            new.was = new.was.appended();
        }
        Ok(Some(new))
    }

    fn take_block(&self, lines: u32, purpose: For) -> Result<TakenBlock, Fault> {
        let (blocks, segments) = (&self.blocks[Self::class_for(lines)], &self.pool.segments);
        let taken = match purpose {
            For::Growth => blocks.allocate(self.medium(), segments),
            For::Exchange => blocks.take_in_exchange(self.medium(), segments),
        }?;
        self.make_shadow(taken.at).inspect_err(|_| self.give_back(taken))?;
        Ok(taken)
    }

    fn fill(&self, block: TakenBlock, lines: u32, new: Draft<'_, N>) -> Result<Locked<'_, N>, Fault> {
        let shadow = self.shadow(block.at);
        if shadow.lock.peek().is_ready() {
            // A damaged close record may list any block as free, so one block may be handed out twice. This thread may
            // itself hold the lock of that block.
            return Err(Broken::new(block.at, "R2: a block in use is called free").into());
        }
        let placed = N::Keys::place(self.access(), self.records.as_ref(), new.low);
        let low = placed.inspect_err(|_| self.give_back(block))?;
        let was = shadow.lock.make_ready(shadow.lock.lock(&self.bias));
        delay();
        self.note_use(block.at, true);
        let Draft { level, next, entries, .. } = new;
        N::Ops::fill(self.node(block.at, shadow), NewNode { level, low, lines, next, entries, zeroed: block.zeroed });
        shadow.set_range::<N::Keys>(new.range);
        Ok(Locked { shadow, was, leave: Leave::Ready, at: block.at })
    }

    /// Marks a node as one that is in no chain. It may be [published](Self::publish) later.
    pub(crate) fn mark_dead(&self, mut node: Locked<'_, N>) {
        node.leave = Leave::Dead;
    }

    /// Makes a node that was marked dead part of the chain.
    pub(crate) fn publish(&self, at: u64) {
        let shadow = self.shadow(at);
        let was = shadow.lock.lock(&self.bias);
        delay();
        shadow.lock.unlock(was, Leave::Ready);
    }

    /// Gives back a node that is not in a chain yet, or that has durably left it.
    pub(crate) fn free(&self, node: Locked<'_, N>) {
        let at = node.at;
        self.mark_dead(node);
        self.discard(at);
    }

    /// Gives back the block of a node that was marked dead.
    pub(crate) fn discard(&self, at: u64) {
        let low = N::Keys::low_record(self.block(at));
        if let Some(records) = &self.records
            && low != 0
        {
            records.discard(self.medium(), &self.pool.segments, low);
        }
        self.note_use(at, false);
        self.blocks[self.class_of(at)].give(self.medium(), &self.pool.segments, at);
    }

    /// Notes in a block, durably, whether it is in use, for layouts that ask for it.
    fn note_use(&self, at: u64, in_use: bool) {
        let Some(word) = N::POLICY.in_use_at else { return };
        let m = self.medium();
        m.store(at + word, in_use.into());
        m.flush(at + word, 8, Step::BlockNote);
        // Crash: which blocks are in use is decided by what the chain reaches, whatever is noted here.
        m.fence(Step::BlockNote);
    }
}
