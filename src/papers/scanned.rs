//! Linear search on sorted layouts.

use crate::medium::Medium;
use crate::node::sorted::{RunGeometry, RunSearch, Window};
use crate::node::{BlockAt, slots};
use crate::papers::decorated::{Decorated, decorated_node};
use core::ops::Range;
use std::marker::PhantomData;

/// A sorted layout, `N`, with a linear search, which starts at the smallest key.
///
/// # Source
///
/// FAST+FAIR (Hwang et al., FAST 2018), whose readers need it. On a circular node it is the variant `Circ-Tree_ls` of
/// Circ-Tree's section 6.1, which pays for the jump from the last line to the first.
#[derive(Debug, Clone, Copy)]
pub struct Scanned<N>(PhantomData<N>);

decorated_node!(Scanned, SCANNED, inner: Self);

impl<N: Decorated> RunSearch for Scanned<N> {
    type Probe = ();

    #[inline]
    fn find(node: BlockAt<'_, impl Medium>, run: Window, _probe: &(), key: u64) -> Result<usize, usize> {
        let key_at = |i: usize| slots::key(node, N::Geometry::slot(run.base.into(), i as isize));
        match (0..run.len()).find(|&i| key_at(i) >= key) {
            Some(place) if key_at(place) == key => Ok(place),
            Some(place) => Err(place),
            None => Err(run.len()),
        }
    }

    #[inline]
    fn changed(_node: BlockAt<'_, impl Medium>, _run: Window, _probe: &(), _positions: Range<usize>) {}
}
