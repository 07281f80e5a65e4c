//! Sentinels: the first key of each line, side by side in DRAM, so that a search reads one line of slots.

use crate::medium::Medium;
use crate::node::sorted::{RunGeometry, RunSearch, Window};
use crate::node::{BlockAt, PER_LINE, slots};
use crate::papers::Scanned;
use crate::papers::decorated::{Decorated, decorated_node};
use crate::papers::search::partition;
use crate::sync::{AtomicU64, Ordering};
use core::ops::Range;
use std::marker::PhantomData;

/// A sorted layout, `N`, whose search finds out which line to read from an array of the lines' first keys.
///
/// ```text
/// sentinels (shadow)   | 10 | 50 | 90 | 130 |                search 140: the last line
/// slots (pool)         | 10 20 30 40 | 50 60 70 80 | 90 100 110 120 | 130 140 150 160 |
/// ```
///
/// The array is never flushed: it is made from the slots when a node is first touched, and follows every shift. In a
/// circular node it is a ring, too. The first line of the run needs no sentinel, since a key that is less than all
/// sentinels is in that line or nowhere.
///
/// # Source
///
/// Ye, Wang: "Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels", 2021, section III.
#[derive(Debug, Clone, Copy)]
pub struct Sentinel<N>(PhantomData<N>);

decorated_node!(Sentinel, SENTINEL, inner: Self);

/// [`Sentinel`] as the paper prints it: the array is scanned, and only leaves have one.
///
/// # Source
///
/// That of [`Sentinel`]: Algorithm 1, and section III.A ("we add Sentinel Arrays to a B+-tree's leaf nodes").
///
/// # As printed
///
/// A search looks at one sentinel after the other, from the sentinel of the run's second line on, until one is greater
/// than the key; in a circular node, past the end of the array to its start. Inner nodes are [`Scanned`], as in the
/// trees to which the paper adds the array.
///
/// # What differs
///
/// The array lies in the node's shadow, in DRAM. The keys of the one line that is then read are compared without
/// branches.
#[derive(Debug, Clone, Copy)]
pub struct SentinelLeaves<N>(PhantomData<N>);

decorated_node!(SentinelLeaves, SENTINEL_LEAVES, inner: Scanned<N>);

/// The number of words that are not above `key`; the words ascend.
#[inline]
fn not_above(words: &[AtomicU64], key: u64) -> usize {
    partition(words.len(), |i| words[i].load(Ordering::Relaxed) <= key)
}

/// Finds a key in the line that `passed` chooses: it returns how many sentinels are not above the key, given the
/// sentinels of the lines after the run's first one, up to the end of the array and from its start on.
#[inline]
fn find_by<N: Decorated>(
    node: BlockAt<'_, impl Medium>,
    run: Window,
    sentinels: &N::Sentinels,
    key: u64,
    passed: impl FnOnce(&[AtomicU64], &[AtomicU64]) -> usize,
) -> Result<usize, usize> {
    let sentinels = sentinels.as_ref();
    let (base, len) = (usize::from(run.base), run.len());
    // The number of entries in the run's first line, which may be only a part of it, and the number of lines after
    // it.
    let first = (PER_LINE - base % PER_LINE).min(len);
    let lines = (len - first).div_ceil(PER_LINE);
    let next = base / PER_LINE + 1;
    let before_wrap = lines.min(sentinels.len() - next);
    let (unwrapped, wrapped) = (&sentinels[next..next + before_wrap], &sentinels[..lines - before_wrap]);
    let passed = passed(unwrapped, wrapped);

    let start = if passed == 0 { 0 } else { first + (passed - 1) * PER_LINE };
    let end = (first + passed * PER_LINE).min(len);
    let key_at = |i: usize| slots::key(node, N::Geometry::slot(base, i as isize));
    let place = start + (start..end).map(|i| usize::from(key_at(i) < key)).sum::<usize>();
    if place < end && key_at(place) == key { Ok(place) } else { Err(place) }
}

impl<N: Decorated> RunSearch for Sentinel<N> {
    type Probe = N::Sentinels;

    /// A search reads one line, but it is not known yet which one.
    const PREFETCHED: u64 = 0;

    #[inline]
    fn find(node: BlockAt<'_, impl Medium>, run: Window, sentinels: &N::Sentinels, key: u64) -> Result<usize, usize> {
        find_by::<N>(node, run, sentinels, key, |unwrapped, wrapped| {
            let in_wrapped = wrapped.first().is_some_and(|least| least.load(Ordering::Relaxed) <= key);
            if in_wrapped { unwrapped.len() + not_above(wrapped, key) } else { not_above(unwrapped, key) }
        })
    }

    #[inline]
    fn changed(node: BlockAt<'_, impl Medium>, run: Window, sentinels: &N::Sentinels, positions: Range<usize>) {
        let base = usize::from(run.base);
        let slot = |i: usize| N::Geometry::slot(base, i as isize);
        let to_line = |i: usize| (PER_LINE - slot(i) % PER_LINE) % PER_LINE;
        for i in (positions.start + to_line(positions.start)..positions.end).step_by(PER_LINE) {
            sentinels.as_ref()[slot(i) / PER_LINE].store(slots::key(node, slot(i)), Ordering::Relaxed);
        }
    }
}

impl<N: Decorated> RunSearch for SentinelLeaves<N> {
    type Probe = N::Sentinels;

    const PREFETCHED: u64 = Sentinel::<N>::PREFETCHED;

    #[inline]
    fn find(node: BlockAt<'_, impl Medium>, run: Window, sentinels: &N::Sentinels, key: u64) -> Result<usize, usize> {
        find_by::<N>(node, run, sentinels, key, |unwrapped, wrapped| {
            let above = |sentinel: &AtomicU64| sentinel.load(Ordering::Relaxed) > key;
            unwrapped.iter().chain(wrapped).position(above).unwrap_or(unwrapped.len() + wrapped.len())
        })
    }

    #[inline]
    fn changed(node: BlockAt<'_, impl Medium>, run: Window, sentinels: &N::Sentinels, positions: Range<usize>) {
        Sentinel::<N>::changed(node, run, sentinels, positions);
    }
}
