//! Linear search on sorted layouts.

use crate::medium::Medium;
use crate::node::shift::Shift;
use crate::node::sorted::{Geometry, Search, Sorted, Window};
use crate::node::sorted_ops::SortedOps;
use crate::node::space::InPlace;
use crate::node::{IndexKind, Node, slots};
use crate::papers::decorated::Decorated;
use core::ops::Range;
use std::marker::PhantomData;

/// A sorted layout, `N`, whose search looks at one key after the other, from the least one on.
///
/// # Source
///
/// FAST+FAIR (Hwang et al., FAST 2018), whose readers want it; and on a circular node the variant `Circ-Tree_ls` of
/// Circ-Tree's section 6.1, which pays for the jump from the last line to the first.
#[derive(Debug, Clone, Copy)]
pub struct Scanned<N>(PhantomData<N>);

impl<N: Decorated> Node for Scanned<N> {
    const LAYOUT: u16 = N::SCANNED.0;
    const NAME: &'static str = N::SCANNED.1;
    const SLOTS: usize = N::SLOTS;
    const BYTES: u64 = N::BYTES;
    const INDEX: IndexKind = IndexKind::Persistent;

    type Ops = SortedOps<Self>;
    type Space = InPlace;
    type Inner = Self;
}

impl<N: Decorated> Sorted for Scanned<N> {
    type Geometry = N::Geometry;
    type Search = Self;
    type Changes = Shift;
}

impl<N: Decorated> Search for Scanned<N> {
    type Probe = ();

    #[inline]
    fn find<M: Medium>(m: &M, at: u64, run: Window, _probe: &(), key: u64) -> Result<usize, usize> {
        let key_at = |i: usize| slots::key(m, at, N::Geometry::slot(run.base.into(), i as isize));
        match (0..run.len()).find(|&i| key_at(i) >= key) {
            Some(place) if key_at(place) == key => Ok(place),
            Some(place) => Err(place),
            None => Err(run.len()),
        }
    }

    #[inline]
    fn changed<M: Medium>(_m: &M, _at: u64, _run: Window, _probe: &(), _positions: Range<usize>) {}
}
