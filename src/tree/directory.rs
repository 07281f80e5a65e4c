//! The index of a tree, of whichever kind it is.

use crate::error::Fault;
use crate::index::{GROUP, InMemory, PersistentIndex, RUN, Source, Top, VolatileIndex, image_of};
use crate::medium::Medium;
use crate::node::{IndexKind, Node};
use crate::papers::{FlatIndex, Rebuilds};

/// An index of any kind, in use. The tree ensures that only one thread changes it at a time.
#[expect(clippy::large_enum_variant, reason = "there is one per tree, on the heap with it")]
pub(crate) enum Directory<N: Node, M: Medium> {
    Volatile(VolatileIndex),
    Persistent(PersistentIndex<N::Inner, M>),
    Flat(FlatIndex),
}

impl<N: Node, M: Medium> Directory<N, M> {
    pub(crate) fn kind(&self) -> IndexKind {
        match self {
            Self::Volatile(_) => IndexKind::Volatile,
            Self::Persistent(_) => IndexKind::Persistent,
            Self::Flat(separators) if separators.is_adaptive() => IndexKind::Flat,
            Self::Flat(_) => IndexKind::FlatFixed,
        }
    }

    /// An index for at most `leaves` leaves.
    pub(crate) fn volatile(leaves: u64) -> std::io::Result<Self> {
        VolatileIndex::new(leaves).map(Self::Volatile)
    }

    /// An index for at most `leaves` leaves.
    pub(crate) fn flat(leaves: u64, adaptive: bool) -> std::io::Result<Self> {
        FlatIndex::new(leaves, adaptive).map(Self::Flat)
    }

    pub(crate) fn persistent(upper: PersistentIndex<N::Inner, M>) -> Self {
        Self::Persistent(upper)
    }

    /// A leaf from which to start the search for a key; `None` means to start at the head.
    #[inline]
    pub(crate) fn floor(&self, key: u64) -> Option<u64> {
        match self {
            Self::Volatile(separators) => separators.floor(key),
            Self::Persistent(upper) => upper.floor(key),
            Self::Flat(separators) => separators.floor(key),
        }
    }

    /// The same, but only if an index in memory finds it on the first try.
    #[inline(always)]
    pub(crate) fn floor_at_once(&self, key: u64) -> Option<u64> {
        match self {
            Self::Volatile(separators) => separators.floor_at_once(key),
            Self::Persistent(_) => None,
            Self::Flat(separators) => separators.floor_at_once(key),
        }
    }

    /// The same for up to [`GROUP`] keys.
    #[inline]
    pub(crate) fn floors_at_once(&self, keys: &[u64]) -> [Option<u64>; GROUP] {
        match self {
            Self::Volatile(separators) => separators.floors_at_once(keys),
            Self::Persistent(_) => [None; GROUP],
            Self::Flat(separators) => separators.floors_at_once(keys),
        }
    }

    /// The leaf and probably those after it, if an index in memory finds it on the first try.
    #[inline]
    pub(crate) fn run_at_once(&self, key: u64) -> Option<[u64; RUN]> {
        match self {
            Self::Volatile(separators) => separators.run_at_once(key),
            Self::Persistent(_) => None,
            Self::Flat(separators) => separators.run_at_once(key),
        }
    }

    /// Adds a leaf. If this fails, the index lags, which does no harm.
    pub(crate) fn post(&self, low: u64, leaf: u64) -> Result<(), Fault> {
        self.change(|memory| memory.post(low, leaf), |upper| upper.post(low, leaf))
    }

    /// Replaces the leaf of `low` by another one, durably, before that leaf replaces it in the chain. Returns true if
    /// this took a fence, which also makes everything flushed before it durable.
    pub(crate) fn repoint(&self, low: u64, leaf: u64) -> Result<bool, Fault> {
        self.change(|memory| memory.post(low, leaf), |upper| upper.repoint(low, leaf))
    }

    /// Whether the leaf that begins at `low` may be unlinked by its left neighbour.
    pub(crate) fn may_withdraw(&self, low: u64) -> Result<bool, Fault> {
        self.upper().map_or(Ok(true), |upper| upper.may_withdraw(low))
    }

    /// Forgets a leaf, durably, before it leaves the chain. Returns true as [`repoint`](Self::repoint) does.
    pub(crate) fn withdraw(&self, low: u64) -> Result<bool, Fault> {
        let forget = |memory: &dyn InMemory| {
            memory.withdraw(low);
        };
        self.change(forget, |upper| upper.withdraw(low))
    }

    /// Forgets all leaves, durably, before the chain is replaced.
    pub(crate) fn reset(&self) -> Result<(), Fault> {
        self.change(|memory| memory.learn(&[]), PersistentIndex::reset)
    }

    /// Learns all leaves of a chain, given in order with the head first.
    pub(crate) fn learn(&self, leaves: &[(u64, u64)]) -> Result<(), Fault> {
        self.change(|memory| memory.learn(leaves), |upper| upper.repair(leaves))
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
            Self::Persistent(upper) => return in_pool(upper),
        }
        Ok(R::default())
    }

    /// An image of all leaves that an index in memory knows. It has no leaves if the index cannot tell.
    pub(crate) fn image(&self) -> (Vec<u64>, Top) {
        let mut leaves = Vec::new();
        let whole = match self {
            Self::Volatile(separators) => separators.for_each(|low, leaf| leaves.push((low, leaf))),
            Self::Flat(separators) => separators.for_each(|low, leaf| leaves.push((low, leaf))),
            Self::Persistent(_) => true,
        };
        if !whole {
            leaves.clear();
        }
        image_of(leaves)
    }

    /// Takes over the image that an index of the same kind made; `source` provides its nodes. Returns false if the
    /// image turns out to be damaged.
    pub(crate) fn restore(&self, top: Top, source: Source) -> bool {
        match self {
            Self::Volatile(separators) => separators.restore(top, source),
            Self::Persistent(_) => true,
            Self::Flat(separators) => separators.restore(top, source),
        }
    }

    /// Whether nodes are still taken from the image after it was [restored](Self::restore).
    pub(crate) fn keeps_image(&self) -> bool {
        !matches!(self, Self::Persistent(_))
    }

    /// Whether an index in memory turned out to be damaged in the pool, so that it must learn all leaves again.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Volatile(separators) => separators.is_lost(),
            Self::Flat(separators) => separators.is_lost(),
            Self::Persistent(_) => false,
        }
    }

    /// What a flat index has spent on rebuilds.
    pub(crate) fn rebuilds(&self) -> Rebuilds {
        match self {
            Self::Volatile(_) | Self::Persistent(_) => Rebuilds::default(),
            Self::Flat(separators) => separators.rebuilds(),
        }
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Volatile(separators) => separators.bytes(),
            Self::Persistent(upper) => upper.chain().memory(),
            Self::Flat(separators) => separators.bytes(),
        }
    }

    /// The persistent index, if the index is one.
    pub(crate) fn upper(&self) -> Option<&PersistentIndex<N::Inner, M>> {
        match self {
            Self::Volatile(_) | Self::Flat(_) => None,
            Self::Persistent(upper) => Some(upper),
        }
    }
}
