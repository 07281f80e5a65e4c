//! Linear nodes: the run starts at slot 0 and shifts to the right.

use crate::medium::Medium;
use crate::node::shift::Shift;
use crate::node::sorted::{self, RunEnd, RunGeometry, RunSearch, Sorted, Window};
use crate::node::sorted_ops::SortedOps;
use crate::node::space::InPlace;
use crate::node::{BlockAt, IndexKind, KeyRange, LEAST_SLOTS, Node, WordNode, Words, slots};
use core::ops::Range;
use std::marker::PhantomData;

/// A node of `SLOTS` entries from slot 0 on, as in FAST+FAIR: inserts shift to the right, removals to the left, line by
/// line and in order.
///
/// FAST+FAIR ends the run with a null pointer, and takes equal neighbouring *values* for the trace of a shift. Here the
/// owned range tells which slots are empty, and equal *keys* are the trace, so any value may be stored.
///
/// # Source
///
/// Hwang, Kim, Won, Nam: "Endurable Transient Inconsistency in Byte-Addressable Persistent B+-Tree", FAST 2018.
#[derive(Debug, Clone, Copy)]
pub struct Linear<const SLOTS: usize>;

impl<const SLOTS: usize> Node for Linear<SLOTS> {
    const LAYOUT: u16 = 1;
    const NAME: &'static str = "linear";
    const IS_OWN: bool = true;
    const SLOTS: usize = {
        assert!(SLOTS >= LEAST_SLOTS && SLOTS <= 4096, "a node has 4 to 4096 slots");
        SLOTS
    };
    const BYTES: u64 = sorted::bytes(SLOTS);

    type Keys = Words;
    type Ops = SortedOps<Self>;
    type Space = InPlace;
}

impl<const SLOTS: usize> WordNode for Linear<SLOTS> {
    const INDEX: IndexKind = IndexKind::Persistent;
    type Inner = Self;
}

impl<const SLOTS: usize> Sorted for Linear<SLOTS> {
    type Geometry = LinearRun;
    type Search = LinearRun;
    type Changes = Shift;
}

/// A size of leaves, by which the size of the inner nodes over them is chosen.
pub trait LeafSize: Send + Sync + 'static {
    /// In bytes.
    const LEAF: u64;
}

impl<N: Node> LeafSize for N {
    const LEAF: u64 = N::BYTES;
}

/// The linear nodes of an index over leaves of the size `N`, which have another layout.
#[derive(Debug)]
pub struct LinearOver<N>(PhantomData<N>);

impl<N: LeafSize> Node for LinearOver<N> {
    const LAYOUT: u16 = Linear::<4>::LAYOUT;
    const NAME: &'static str = Linear::<4>::NAME;
    const IS_OWN: bool = true;
    const SLOTS: usize = sorted::slots_over(N::LEAF);
    const BYTES: u64 = sorted::bytes(Self::SLOTS);

    type Keys = Words;
    type Ops = SortedOps<Self>;
    type Space = InPlace;
}

impl<N: LeafSize> WordNode for LinearOver<N> {
    const INDEX: IndexKind = IndexKind::Persistent;
    type Inner = Self;
}

impl<N: LeafSize> Sorted for LinearOver<N> {
    type Geometry = LinearRun;
    type Search = LinearRun;
    type Changes = Shift;
}

/// A run from slot 0 on, which is searched by binary search.
pub enum LinearRun {}

impl RunGeometry for LinearRun {
    #[inline]
    fn slot(_base: usize, i: isize) -> usize {
        i as usize
    }

    fn base(_key: impl Fn(usize) -> u64, _range: KeyRange) -> Option<usize> {
        Some(0)
    }

    fn side_of_pair(_i: usize, _len: usize) -> RunEnd {
        RunEnd::Right
    }

    #[inline]
    fn side_of_insert(_i: usize, _len: usize) -> RunEnd {
        RunEnd::Right
    }

    #[inline]
    fn side_of_remove(_i: usize, _len: usize) -> RunEnd {
        RunEnd::Right
    }
}

impl RunSearch for LinearRun {
    type Probe = ();

    #[inline]
    fn find(node: BlockAt<'_, impl Medium>, run: Window, _probe: &(), key: u64) -> Result<usize, usize> {
        slots::search(node, 0, run.len(), key)
    }

    #[inline]
    fn changed(_node: BlockAt<'_, impl Medium>, _run: Window, _probe: &(), _positions: Range<usize>) {}
}
