//! A node as the operations of its layout see it: a block of a pool, with the hints of the block's shadow.

use super::layout::Layout;
use crate::error::Broken;
use crate::medium::{Hint, Medium, Step};
use crate::pool::access::Access;
use std::ops::Deref;

/// A block of a pool. Its words are named by their offsets in the block.
pub struct BlockAt<'a, M: Medium> {
    pub(crate) pool: Access<'a, M>,
    pub(crate) at: u64,
}

impl<M: Medium> Clone for BlockAt<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for BlockAt<'_, M> {}

impl<'a, M: Medium> Access<'a, M> {
    /// The block at an offset.
    #[inline(always)]
    pub(crate) fn block(self, at: u64) -> BlockAt<'a, M> {
        BlockAt { pool: self, at }
    }
}

impl<'a, M: Medium> BlockAt<'a, M> {
    /// The node in the block, with its hints.
    #[inline(always)]
    pub(crate) fn node<L: Layout>(self, hints: &'a L::Hints) -> NodeAt<'a, L, M> {
        NodeAt { block: self, hints }
    }

    /// The block at another offset.
    #[inline(always)]
    pub(crate) fn other(self, at: u64) -> Self {
        Self { at, ..self }
    }

    /// See [`Medium::load`].
    #[inline(always)]
    pub(crate) fn load(self, word: u64) -> u64 {
        self.pool.m.load(self.at + word)
    }

    /// See [`Medium::load_words`].
    #[inline(always)]
    pub(crate) fn load_words(self, from: u64, words: &mut [u64]) {
        self.pool.m.load_words(self.at + from, words);
    }

    /// See [`Medium::store`].
    #[inline(always)]
    pub(crate) fn store(self, word: u64, value: u64) {
        self.pool.m.store(self.at + word, value);
    }

    /// See [`Medium::store_pair`].
    #[inline(always)]
    pub(crate) fn store_pair(self, word: u64, pair: [u64; 2]) {
        self.pool.m.store_pair(self.at + word, pair);
    }

    /// See [`Medium::swap_pair`].
    #[inline(always)]
    pub(crate) fn swap_pair(self, word: u64, pair: [u64; 2]) {
        self.pool.m.swap_pair(self.at + word, pair);
    }

    /// See [`Medium::order`].
    #[inline(always)]
    pub(crate) fn order(self, step: Step) {
        self.pool.m.order(step);
    }

    /// See [`Medium::flush`].
    #[inline(always)]
    pub(crate) fn flush(self, from: u64, len: u64, step: Step) {
        self.pool.m.flush(self.at + from, len, step);
    }

    /// See [`Medium::fence`].
    #[inline(always)]
    pub(crate) fn fence(self, step: Step) {
        self.pool.m.fence(step);
    }

    /// Prefetches bytes of the block.
    #[inline(always)]
    pub(crate) fn prefetch(self, from: u64, len: u64) {
        self.pool.m.hint(self.at + from, len, Hint::Soon);
    }

    /// A broken invariant, found at a word of the block.
    pub(crate) fn broken(self, word: u64, invariant: &'static str) -> Broken {
        Broken::new(self.at + word, invariant)
    }
}

/// A node of the layout `L`: its block, and the search hints of the block's shadow.
pub struct NodeAt<'a, L: Layout, M: Medium> {
    block: BlockAt<'a, M>,
    pub(crate) hints: &'a L::Hints,
}

impl<L: Layout, M: Medium> Clone for NodeAt<'_, L, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Layout, M: Medium> Copy for NodeAt<'_, L, M> {}

impl<'a, L: Layout, M: Medium> Deref for NodeAt<'a, L, M> {
    type Target = BlockAt<'a, M>;

    #[inline(always)]
    fn deref(&self) -> &BlockAt<'a, M> {
        &self.block
    }
}
