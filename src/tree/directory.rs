//! The index of a tree.

use super::TreeNode;
use crate::chain::Links;
use crate::error::Fault;
use crate::index::{
    DamagedNode, GROUP, ImageTop, InMemory, PersistentIndex, RUN, ReadNode, Swept, VolatileIndex, image_of,
};
use crate::medium::Medium;
use crate::node::{IndexKind, KeyRange, RangeOf, RefOf, WordNode};
use crate::papers::{FlatIndex, Heat, Rebuilds};
use crate::pool::blocks::Blocks;
use crate::pool::images::IndexCopy;
use std::io;

/// The index of a tree with leaves of the layout `N`. The tree ensures that only one thread changes it at a time. A
/// leaf is known to it by its [separator](crate::node::Keys::separator).
pub trait Directory<N: TreeNode>: Send + Sync + Sized {
    /// A leaf that was found at once.
    type Hint<'d>: Copy
    where
        Self: 'd;

    /// The kind of index.
    fn kind(&self) -> IndexKind;

    /// A leaf from which to start the search for a key; `None` means to start at the head.
    fn floor(&self, key: RefOf<'_, N>) -> Option<u64>;

    /// A leaf from which to start the search for a key; `None` also if an index in memory does not find it on its only
    /// try.
    fn floor_at_once(&self, key: RefOf<'_, N>) -> Option<Self::Hint<'_>>;

    /// For each of up to [`GROUP`] keys, a leaf from which to start the search; `None` also if an index in memory does
    /// not find it on its only try.
    fn floors_at_once(&self, keys: &[RefOf<'_, N>]) -> [Option<Self::Hint<'_>>; GROUP];

    /// The offset of a leaf that was found.
    fn leaf(hint: Self::Hint<'_>) -> u64;

    /// The hint for a leaf that was found otherwise; `None` if only the index can tell what such a leaf owns.
    fn hint_of<'d>(_leaf: u64) -> Option<Self::Hint<'d>>
    where
        Self: 'd,
    {
        None
    }

    /// Whether a leaf that was found owns the key, given the range that it has now. It may own the key even if this
    /// says no.
    fn owns(hint: Self::Hint<'_>, range: RangeOf<N>, key: RefOf<'_, N>) -> bool;

    /// The leaf and probably those after it, if an index in memory finds it on the first try.
    fn run_at_once(&self, key: RefOf<'_, N>) -> Option<[u64; RUN]>;

    /// Adds a leaf. If this fails, the index lags, which does no harm.
    fn post(&self, name: u64, leaf: u64) -> Result<(), Fault>;

    /// Replaces a leaf by another one with the same low, durably, before that leaf, whose name this is,
    /// replaces it in the chain. Both are locked. Returns true if this took a fence, which also makes everything
    /// flushed before it durable.
    fn repoint(&self, name: u64, leaf: u64) -> Result<bool, Fault>;

    /// Whether a leaf may be unlinked by its left neighbour.
    fn may_withdraw(&self, _name: u64) -> Result<bool, Fault> {
        Ok(true)
    }

    /// Forgets a leaf, durably, before it leaves the chain. Returns true if this took a fence, which also makes
    /// everything flushed before it durable.
    fn withdraw(&self, name: u64) -> Result<bool, Fault>;

    /// Goes on with a sweep over the nodes of an index in the pool by one node, and moves that if it has to be moved
    /// (K6). Returns the bytes that were moved; `None` after the last node.
    fn move_next(&self, _swept: &mut Swept, _has_to_move: &dyn Fn(u64) -> bool) -> Result<Option<u64>, Fault> {
        Ok(None)
    }

    /// Forgets all leaves, durably, before the chain is replaced.
    fn reset(&self) -> Result<(), Fault>;

    /// Learns all leaves of a chain, given in order with the head first.
    fn learn(&self, leaves: &[(u64, u64)]) -> Result<(), Fault>;

    /// An image of all leaves that an index in memory knows. It has no leaves if the index cannot tell.
    fn image(&self) -> (Vec<u64>, ImageTop);

    /// How many leaves an index in memory knows, and how often it was replaced as a whole. `None`: it makes no images
    /// while others change it.
    fn known(&self) -> Option<(u64, usize)> {
        None
    }

    /// Copies a part of the index while others change it. Returns true when all of it was copied.
    fn copy_part(&self, _copy: &mut IndexCopy) -> Result<bool, DamagedNode> {
        Ok(true)
    }

    /// Takes over the image that an index of the same kind made; `source` provides its nodes. Returns false if the
    /// image turns out to be damaged.
    fn restore(&self, top: ImageTop, source: ReadNode) -> bool;

    /// Takes over leaves, given in order with the head first, of an index in memory. `nodes` makes the nodes of an
    /// image of such an index. Returns false if there is no memory.
    fn restore_leaves(&self, leaves: &[(u64, u64)], _nodes: impl FnOnce(ImageTop, Vec<u64>) -> ReadNode) -> bool {
        self.learn(leaves).is_ok()
    }

    /// Says that a leaf was withdrawn and is in the chain all the same: an image that is being made may lack it.
    fn is_unsure(&self) {}

    /// Whether nodes are still taken from the image after it was [restored](Self::restore).
    fn keeps_image(&self) -> bool {
        true
    }

    /// Whether an index in memory turned out to be damaged in the pool, so that it must learn all leaves again.
    fn is_lost(&self) -> bool;

    /// Bytes of memory that the index takes.
    fn memory(&self) -> u64;

    /// The blocks of an index that lies in the pool.
    fn blocks(&self) -> &[Blocks] {
        &[]
    }
}

/// An index of words, of any kind.
#[expect(clippy::large_enum_variant, reason = "there is one per tree, on the heap with it")]
pub enum WordDirectory<N: WordNode, M: Medium> {
    Volatile(VolatileIndex),
    /// With the links of the leaves: what is read from the pool may name anything.
    Persistent(PersistentIndex<N::Inner, M>, Links<N, M>),
    Flat(FlatIndex),
}

impl<N: WordNode, M: Medium> WordDirectory<N, M> {
    /// An index that grows with the leaves.
    pub(crate) fn volatile() -> Self {
        Self::Volatile(VolatileIndex::new())
    }

    /// An index for at most `leaves` leaves.
    pub(crate) fn flat(leaves: u64, adaptive: bool) -> io::Result<Self> {
        FlatIndex::new(leaves, adaptive).map(Self::Flat)
    }

    pub(crate) fn persistent(upper: PersistentIndex<N::Inner, M>, leaves: Links<N, M>) -> Self {
        Self::Persistent(upper, leaves)
    }

    /// Adds a leaf, as [`post`](Directory::post) does. `heat` tells which parents a rebuild of a flat index enlarges.
    pub(crate) fn post_with(&self, low: u64, leaf: u64, heat: Heat<'_>) -> Result<(), Fault> {
        match self {
            Self::Flat(separators) => {
                separators.post_with(low, leaf, heat);
                Ok(())
            }
            Self::Volatile(_) | Self::Persistent(..) => self.post(low, leaf),
        }
    }

    /// Changes the index, of whichever kind it is.
    fn change<R: Default>(
        &self,
        in_memory: impl FnOnce(&dyn InMemory),
        in_pool: impl FnOnce(&PersistentIndex<N::Inner, M>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        match self {
            Self::Volatile(separators) => in_memory(separators),
            Self::Flat(separators) => in_memory(separators),
            Self::Persistent(upper, _) => return in_pool(upper),
        }
        Ok(R::default())
    }

    /// What a flat index has spent on rebuilds.
    pub(crate) fn rebuilds(&self) -> Rebuilds {
        match self {
            Self::Volatile(_) | Self::Persistent(..) => Rebuilds::default(),
            Self::Flat(separators) => separators.rebuilds(),
        }
    }

    /// The persistent index, if the index is one.
    pub(crate) fn upper(&self) -> Option<&PersistentIndex<N::Inner, M>> {
        match self {
            Self::Volatile(_) | Self::Flat(_) => None,
            Self::Persistent(upper, _) => Some(upper),
        }
    }
}

impl<N: WordNode, M: Medium> Directory<N> for WordDirectory<N, M> {
    /// The offset of the leaf, which knows by itself what it owns.
    type Hint<'d> = u64;

    fn kind(&self) -> IndexKind {
        match self {
            Self::Volatile(_) => IndexKind::Volatile,
            Self::Persistent(..) => IndexKind::Persistent,
            Self::Flat(separators) if separators.is_adaptive() => IndexKind::Flat,
            Self::Flat(_) => IndexKind::FlatFixed,
        }
    }

    #[inline]
    fn floor(&self, key: u64) -> Option<u64> {
        match self {
            Self::Volatile(separators) => separators.floor(key),
            Self::Persistent(upper, leaves) => upper.floor(key).filter(|&at| leaves.has(at)),
            Self::Flat(separators) => separators.floor(key),
        }
    }

    #[inline(always)]
    fn floor_at_once(&self, key: u64) -> Option<u64> {
        match self {
            Self::Volatile(separators) => separators.floor_at_once(key),
            Self::Persistent(..) => self.floor(key),
            Self::Flat(separators) => separators.floor_at_once(key),
        }
    }

    #[inline]
    fn floors_at_once(&self, keys: &[u64]) -> [Option<u64>; GROUP] {
        match self {
            Self::Volatile(separators) => separators.floors_at_once(keys),
            Self::Persistent(..) => core::array::from_fn(|i| self.floor(*keys.get(i)?)),
            Self::Flat(separators) => separators.floors_at_once(keys),
        }
    }

    #[inline(always)]
    fn leaf(hint: u64) -> u64 {
        hint
    }

    #[inline(always)]
    fn hint_of<'d>(leaf: u64) -> Option<u64>
    where
        Self: 'd,
    {
        Some(leaf)
    }

    #[inline(always)]
    fn owns(_hint: u64, range: KeyRange, key: u64) -> bool {
        range.contains(key)
    }

    #[inline]
    fn run_at_once(&self, key: u64) -> Option<[u64; RUN]> {
        match self {
            Self::Volatile(separators) => separators.run_at_once(key),
            Self::Persistent(..) => None,
            Self::Flat(separators) => separators.run_at_once(key),
        }
    }

    fn post(&self, low: u64, leaf: u64) -> Result<(), Fault> {
        self.change(|memory| memory.post(low, leaf), |upper| upper.post(low, leaf))
    }

    fn repoint(&self, low: u64, leaf: u64) -> Result<bool, Fault> {
        self.change(|memory| memory.post(low, leaf), |upper| upper.repoint(low, leaf))
    }

    fn may_withdraw(&self, low: u64) -> Result<bool, Fault> {
        self.upper().map_or(Ok(true), |upper| upper.may_withdraw(low))
    }

    fn withdraw(&self, low: u64) -> Result<bool, Fault> {
        let forget = |memory: &dyn InMemory| {
            memory.withdraw(low);
        };
        self.change(forget, |upper| upper.withdraw(low))
    }

    fn move_next(&self, swept: &mut Swept, has_to_move: &dyn Fn(u64) -> bool) -> Result<Option<u64>, Fault> {
        self.upper().map_or(Ok(None), |upper| upper.move_next(swept, has_to_move))
    }

    fn reset(&self) -> Result<(), Fault> {
        self.change(|memory| memory.learn(&[]), PersistentIndex::reset)
    }

    fn learn(&self, leaves: &[(u64, u64)]) -> Result<(), Fault> {
        self.change(|memory| memory.learn(leaves), |upper| upper.repair(leaves))?;
        if self.is_lost() { Err(Fault::address_space(io::ErrorKind::OutOfMemory.into())) } else { Ok(()) }
    }

    fn image(&self) -> (Vec<u64>, ImageTop) {
        let mut leaves = Vec::new();
        let whole = match self {
            Self::Volatile(separators) => separators.for_each(|low, leaf| leaves.push((low, leaf))),
            Self::Flat(separators) => separators.for_each(|low, leaf| leaves.push((low, leaf))),
            Self::Persistent(..) => true,
        };
        if !whole {
            leaves.clear();
        }
        image_of(leaves)
    }

    fn known(&self) -> Option<(u64, usize)> {
        match self {
            Self::Volatile(separators) => Some((separators.len() as u64, separators.replaced())),
            Self::Persistent(..) | Self::Flat(_) => None,
        }
    }

    fn copy_part(&self, copy: &mut IndexCopy) -> Result<bool, DamagedNode> {
        let Self::Volatile(separators) = self else { return Ok(true) };
        let from = copy.from.as_ref().map(|low| u64::from_be_bytes(*low.first_chunk().expect("a low is a word")));
        let leaves = &mut copy.leaves;
        let rest = |low: u64| low.to_be_bytes().to_vec();
        let from = separators.copy(from, IndexCopy::PART, |low, leaf| leaves.push((low, leaf)), rest)?;
        Ok(copy.goes_on(from))
    }

    fn is_unsure(&self) {
        if let Self::Volatile(separators) = self {
            separators.is_replaced();
        }
    }

    fn restore(&self, top: ImageTop, source: ReadNode) -> bool {
        match self {
            Self::Volatile(separators) => separators.restore(top, source),
            Self::Persistent(..) => true,
            Self::Flat(separators) => separators.restore(top, source),
        }
    }

    fn keeps_image(&self) -> bool {
        self.upper().is_none()
    }

    fn is_lost(&self) -> bool {
        match self {
            Self::Volatile(separators) => separators.is_lost(),
            Self::Flat(separators) => separators.is_lost(),
            Self::Persistent(..) => false,
        }
    }

    fn memory(&self) -> u64 {
        match self {
            Self::Volatile(separators) => separators.bytes(),
            Self::Persistent(upper, _) => upper.chain().memory(),
            Self::Flat(separators) => separators.bytes(),
        }
    }

    fn blocks(&self) -> &[Blocks] {
        self.upper().map_or(&[], |upper| upper.chain().blocks())
    }
}
