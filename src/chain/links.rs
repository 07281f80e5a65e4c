//! The links of a chain as they are on the medium: what a walk needs, without locks.

use crate::error::Broken;
use crate::medium::Medium;
use crate::node::{BlockAt, Checked, Keys, Layout, NEXT, Node, RangeOf, RefOf, Side, Sizes, SizesOf};
use crate::pool::PoolState;
use crate::pool::access::Access;
use crate::pool::segments::{SegmentEntry, SegmentKind};
use std::marker::PhantomData;
use std::sync::Arc;

/// The nodes of one tree and kind, and the links between them.
pub(crate) struct Links<N: Node, M: Medium> {
    pub(crate) pool: Arc<PoolState<M>>,
    class: SegmentEntry,
    layout: PhantomData<N>,
}

impl<N: Node, M: Medium> Links<N, M> {
    /// The number of block sizes. Each size is twice the one before it.
    pub(crate) const CLASSES: usize = SizesOf::<N>::CLASSES;

    pub(crate) fn new(pool: Arc<PoolState<M>>, tree: u16, kind: SegmentKind) -> Self {
        Self { pool, class: SegmentEntry::new(kind, tree, N::BYTES as u32), layout: PhantomData }
    }

    /// The segment entries of its blocks, one for each size.
    pub(crate) fn classes(&self) -> impl Iterator<Item = SegmentEntry> {
        let SegmentEntry { kind, tree, unit } = self.class;
        (0..Self::CLASSES).map(move |class| SegmentEntry::new(kind, tree, unit << class))
    }

    /// The index of a block's size. `at` must have been accepted.
    #[inline]
    pub(crate) fn class_of(&self, at: u64) -> usize {
        if Self::CLASSES == 1 {
            return 0;
        }
        let segments = &self.pool.segments;
        let unit = segments.holding(at).and_then(|segment| segments.entry(segment)).map_or(self.class.unit, |e| e.unit);
        // The entry may be another owner's by now, if nobody holds the block.
        ((unit / self.class.unit).trailing_zeros() as usize).min(Self::CLASSES - 1)
    }

    #[inline]
    pub(crate) fn medium(&self) -> &M {
        &self.pool.medium
    }

    /// The pool as the code of the tree reaches it.
    #[inline(always)]
    pub(crate) fn access(&self) -> Access<'_, M> {
        self.pool.access(self.class.tree)
    }

    /// A block of this chain.
    #[inline(always)]
    pub(crate) fn block(&self, at: u64) -> BlockAt<'_, M> {
        self.access().block(at)
    }

    /// Accepts an offset that was read from the medium as one of this chain's blocks.
    #[inline]
    pub(crate) fn accept(&self, at: u64, read_from: u64) -> Result<u64, Broken> {
        self.has(at).then_some(at).ok_or_else(|| Broken::new(read_from, "N1: a link to no node of this tree"))
    }

    /// Whether an offset that was read from the medium names a block of this chain.
    #[inline]
    pub(crate) fn has(&self, at: u64) -> bool {
        // The unit equals the class's anyway. As a constant, it lets the compiler optimise the division.
        let of_class = |class| SegmentEntry { unit: (N::BYTES as u32) << class, ..self.class };
        (0..Self::CLASSES).any(|class| self.pool.segments.is_block(at, of_class(class)))
    }

    /// The right neighbour, [accepted](Self::accept); `None` at the end of the chain.
    ///
    /// Its low is checked to be greater. So a thread that moves right, or locks one node after the other, always
    /// terminates, even on damaged bytes.
    pub(crate) fn next(&self, at: u64) -> Result<Option<u64>, Broken> {
        let m = self.medium();
        let next = match m.load(at + NEXT) {
            0 => return Ok(None),
            next => self.accept(next, at + NEXT)?,
        };
        if !N::Keys::ascends(self.block(at), self.block(next)) {
            return Err(Broken::new(next, "N4: lows ascend along a chain"));
        }
        Ok(Some(next))
    }

    /// The range that a node owns, read from the medium: from its low to its neighbour's.
    pub(crate) fn range_of(&self, at: u64) -> Result<RangeOf<N>, Broken> {
        let next = self.next(at)?;
        if let Some(next) = next
            && self.level(next)? != self.level(at)?
        {
            return Err(Broken::new(at + NEXT, "N1: a link to a node of another level"));
        }
        Ok(N::Keys::stored_range(self.block(at), next))
    }

    /// How a key lies to the keys that a node with this range owns.
    #[inline(always)]
    pub(crate) fn side(&self, at: u64, range: RangeOf<N>, key: RefOf<'_, N>) -> Result<Side, Broken> {
        N::Keys::side(self.block(at), range, || self.next(at), key)
    }

    /// The word that stands for a node in an index.
    pub(crate) fn name(&self, at: u64) -> u64 {
        N::Keys::separator(self.block(at))
    }

    /// Checks that a node is not longer than its block.
    pub(crate) fn fits(&self, at: u64) -> Result<(), Broken> {
        if SizesOf::<N>::bytes(self.block(at)) <= N::BYTES << self.class_of(at) {
            Ok(())
        } else {
            Err(Broken::new(at, "N1: a node longer than its block"))
        }
    }

    /// Reads the level of a node from the medium.
    pub(crate) fn level(&self, at: u64) -> Result<u16, Broken> {
        N::Ops::level(self.block(at))
    }
}

/// What a check reads of the nodes of a chain, whatever their layout: a check is slow anyway, and compiled for each
/// layout that a program may meet.
pub(crate) trait Nodes<K: Keys> {
    /// See [`Links::accept`].
    fn accept(&self, at: u64, read_from: u64) -> Result<u64, Broken>;
    /// See [`Links::level`].
    fn level(&self, at: u64) -> Result<u16, Broken>;
    /// See [`Links::range_of`].
    fn range_of(&self, at: u64) -> Result<K::Range, Broken>;
    /// See [`Links::next`].
    fn next(&self, at: u64) -> Result<Option<u64>, Broken>;
    /// See [`Links::fits`].
    fn fits(&self, at: u64) -> Result<(), Broken>;
    /// See [`Layout::check`].
    fn check(&self, at: u64, range: K::Range, report: &mut dyn FnMut(Broken)) -> Option<Checked>;
}

impl<N: Node, M: Medium> Nodes<N::Keys> for Links<N, M> {
    fn accept(&self, at: u64, read_from: u64) -> Result<u64, Broken> {
        self.accept(at, read_from)
    }

    fn level(&self, at: u64) -> Result<u16, Broken> {
        self.level(at)
    }

    fn range_of(&self, at: u64) -> Result<RangeOf<N>, Broken> {
        self.range_of(at)
    }

    fn next(&self, at: u64) -> Result<Option<u64>, Broken> {
        self.next(at)
    }

    fn fits(&self, at: u64) -> Result<(), Broken> {
        self.fits(at)
    }

    fn check(&self, at: u64, range: RangeOf<N>, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        N::Ops::check(self.block(at), range, report)
    }
}
