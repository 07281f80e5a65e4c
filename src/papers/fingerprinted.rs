//! Fingerprints on sorted layouts: the rival of sentinels.

use crate::arch::simd::{self, FortyBytes};
use crate::medium::Medium;
use crate::node::fingerprints::{Hash, each};
use crate::node::sorted::{RunGeometry, RunSearch, Window};
use crate::node::{BlockAt, slots};
use crate::papers::Scanned;
use crate::papers::decorated::{Decorated, decorated_node};
use crate::sync::Ordering;
use core::ops::Range;
use std::marker::PhantomData;

/// A sorted layout, `N`, with one byte of each key's hash in DRAM: a search compares all bytes, and looks at the slots
/// whose bytes match.
///
/// Like sentinels, the bytes are never flushed. They tell where a key is, but not where it would go, so an insert
/// searches twice.
///
/// # Source
///
/// FPTree's fingerprints (Oukid et al., SIGMOD 2016), as Ye and Wang add them to FAST+FAIR and Circ-Tree for comparison
/// ("Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels", 2021, section IV).
#[derive(Debug, Clone, Copy)]
pub struct Fingerprinted<N>(PhantomData<N>);

decorated_node!(Fingerprinted, FINGERPRINTED, inner: Self);

/// As [`Fingerprinted`], but only in leaves: inner nodes, and the search for where a new key goes, are those of
/// [`Scanned`].
///
/// # Source
///
/// That of [`Fingerprinted`]: Ye and Wang add the fingerprints to trees that scan their nodes.
#[derive(Debug, Clone, Copy)]
pub struct FingerprintedLeaves<N>(PhantomData<N>);

decorated_node!(FingerprintedLeaves, FINGERPRINTED_LEAVES, inner: Scanned<N>);

impl<N: Decorated> RunSearch for Fingerprinted<N> {
    type Probe = N::Prints;

    /// A search reads only the lines whose fingerprints match.
    const PREFETCHED: u64 = 0;

    fn find(node: BlockAt<'_, impl Medium>, run: Window, prints: &N::Prints, key: u64) -> Result<usize, usize> {
        match Self::position(node, run, prints, key) {
            Some(position) => Ok(position),
            None => N::Search::find(node, run, &(), key),
        }
    }

    #[inline]
    fn position(node: BlockAt<'_, impl Medium>, run: Window, prints: &N::Prints, key: u64) -> Option<usize> {
        let print = Hash::of_key(key).print();
        for (first, bytes) in (0..).step_by(size_of::<FortyBytes>()).zip(prints.as_ref()) {
            for slot in each(simd::equal(bytes, print)).map(|i| first + i) {
                // An empty slot may still have the fingerprint of its last entry.
                let position = N::position_of(run.base.into(), slot);
                if position < run.len() && slots::key(node, slot) == key {
                    return Some(position);
                }
            }
        }
        None
    }

    #[inline]
    fn changed(node: BlockAt<'_, impl Medium>, run: Window, prints: &N::Prints, positions: Range<usize>) {
        for i in positions {
            let slot = N::Geometry::slot(run.base.into(), i as isize);
            let word = &prints.as_ref()[slot / size_of::<FortyBytes>()][slot % size_of::<FortyBytes>() / 8];
            let shift = slot % size_of::<FortyBytes>() % 8 * 8;
            let others = word.load(Ordering::Relaxed) & !(0xff << shift);
            let print = Hash::of_key(slots::key(node, slot)).print();
            word.store(others | u64::from(print) << shift, Ordering::Relaxed);
        }
    }
}

impl<N: Decorated> RunSearch for FingerprintedLeaves<N> {
    type Probe = N::Prints;

    const PREFETCHED: u64 = Fingerprinted::<N>::PREFETCHED;

    fn find(node: BlockAt<'_, impl Medium>, run: Window, prints: &N::Prints, key: u64) -> Result<usize, usize> {
        match Self::position(node, run, prints, key) {
            Some(position) => Ok(position),
            None => Scanned::<N>::find(node, run, &(), key),
        }
    }

    #[inline]
    fn position(node: BlockAt<'_, impl Medium>, run: Window, prints: &N::Prints, key: u64) -> Option<usize> {
        Fingerprinted::<N>::position(node, run, prints, key)
    }

    #[inline]
    fn changed(node: BlockAt<'_, impl Medium>, run: Window, prints: &N::Prints, positions: Range<usize>) {
        Fingerprinted::<N>::changed(node, run, prints, positions);
    }
}
