//! Sorted nodes: one contiguous run of slots in ascending order, behind a header line.
//!
//! ```text
//! line 0   | next 8 | low 8 | meta 8 | (unused)            |     meta: layout 16, level 16, "node" 32
//! line 1   | slot 0: key 8, value 8 | slot 1 | slot 2 | slot 3 |
//! line 2   | slot 4 | ...
//! ```
//!
//! The invariant N3 of sorted layouts is in `docs/design.md`, section 3. The word `meta` never
//! changes while the block is in a chain. The [`Window`], which is where the run starts and how long it is, is kept in
//! the shadow.

use crate::error::Broken;
use crate::medium::{LINE, Medium};
use crate::memory::Zero;
use crate::node::layout::{Checked, NewNode};
use crate::node::{BlockAt, Entry, KeyRange, SLOT, WordNode};
use crate::sync::{AtomicU32, Ordering};
use core::ops::Range;

/// Offset of the word that holds the layout, the level and a magic number.
pub(crate) const META: u64 = 16;
const NODE: u64 = 0x6e6f_6465 << 32;
/// Bytes of the header: one line.
pub(crate) const HEADER: u64 = LINE;

/// Bytes of a node with this many slots.
pub(crate) const fn bytes(slots: usize) -> u64 {
    (HEADER + slots as u64 * SLOT).next_multiple_of(LINE)
}

/// The number of slots of the inner nodes over leaves of another layout with this many bytes: a power of two, about as
/// large as the leaves. The smallest leaves, which are for tests, have inner nodes that are as small.
pub(crate) const fn slots_over(bytes: u64) -> usize {
    if bytes <= 4 * LINE { 4 } else { 1 << (bytes / SLOT).ilog2() }
}

/// The meta word of a node.
pub(crate) fn meta<N: WordNode>(level: u16) -> u64 {
    u64::from(N::LAYOUT) | u64::from(level) << 16 | NODE
}

/// The slots of a node that its run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// The slot of the smallest key.
    pub base: u16,
    /// The number of entries.
    pub count: u16,
}

impl Window {
    pub(crate) fn new(base: usize, count: usize) -> Self {
        Self { base: base as u16, count: count as u16 }
    }

    /// The number of entries.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.count.into()
    }
}

/// The end of the run towards which entries move to make room, and from which they move to close a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// Towards the smaller keys.
    Left,
    /// Towards the greater keys.
    Right,
}

/// What a sorted node keeps in its shadow: the window, the level, and what its search probes before it reads slots.
///
/// ```text
/// window: | count 16 | base 16 |
/// ```
#[derive(Debug)]
pub struct Run<P = ()> {
    window: AtomicU32,
    level: AtomicU32,
    pub(crate) probe: P,
}

// SAFETY: the type consists of two numbers, for which zero bytes are the value 0, and of a probe that is `Zero`.
unsafe impl<P: Zero> Zero for Run<P> {
    fn zero() -> Self {
        Self { window: AtomicU32::new(0), level: AtomicU32::new(0), probe: P::zero() }
    }
}

impl<P> Run<P> {
    #[inline]
    pub(crate) fn window(&self) -> Window {
        let word = self.window.load(Ordering::Relaxed);
        Window { base: word as u16, count: (word >> 16) as u16 }
    }

    #[inline]
    pub(crate) fn set_window(&self, Window { base, count }: Window) {
        self.window.store(u32::from(base) | u32::from(count) << 16, Ordering::Relaxed);
    }

    /// Levels above the leaves.
    #[inline]
    pub(crate) fn level(&self) -> u16 {
        self.level.load(Ordering::Relaxed) as u16
    }

    pub(crate) fn set_level(&self, level: u16) {
        self.level.store(level.into(), Ordering::Relaxed);
    }
}

/// Where in its slots a run lies, and to which side it shifts.
pub trait RunGeometry: 'static {
    /// The slot of the `i`-th entry of a run that starts at `base`; `i` may be -1 and one beyond the run.
    fn slot(base: usize, i: isize) -> usize;

    /// The slot where the run starts, given the keys of all slots; `None` if the owned keys form no run.
    fn base(key: impl Fn(usize) -> u64, range: KeyRange) -> Option<usize>;

    /// The side for position `i` of a run of `len` entries.
    ///
    /// After a crash, the same answer decides which one of the equal pair at `i`, `i + 1` counts. So an insert that
    /// starts with `len - 1` entries, and a removal that starts with `len`, must both have shifted towards this side.
    fn side_of_pair(i: usize, len: usize) -> RunEnd;

    /// The side towards which an insert at position `i` of `len` entries shifts.
    fn side_of_insert(i: usize, len: usize) -> RunEnd;

    /// The side from which a removal at position `i` of `len` entries fills the gap.
    fn side_of_remove(i: usize, len: usize) -> RunEnd;
}

/// A sorted layout: where its run lies, how it is searched, and how it changes. [`SortedOps`](super::SortedOps) has the
/// rest, which all sorted layouts share.
pub trait Sorted: WordNode {
    /// Where the run lies.
    type Geometry: RunGeometry;

    /// How a key is found in the run.
    type Search: RunSearch;

    /// How the run changes.
    type Changes: Changes<Self>;

    /// Whether a shift moves key and value by one store of 16 bytes, on a medium that keeps pairs whole.
    const BY_PAIRS: bool = false;

    /// Whether it does so by an instruction that compares and swaps.
    const BY_SWAPS: bool = false;

    /// Whether each change of the window is also stored in the pool, in a [count word](super::counted).
    const COUNTED: bool = false;
}

/// How a key is found in a run.
pub trait RunSearch: Send + Sync + 'static {
    /// What is looked at before the slots: it lies in DRAM and is made from the keys.
    type Probe: Zero + Send + Sync;

    /// Bytes of slots that are prefetched when the node is about to be searched.
    const PREFETCHED: u64 = super::PREFETCHED;

    /// The position of the key in the run; as an error, the position of the first greater key.
    fn find(node: BlockAt<'_, impl Medium>, run: Window, probe: &Self::Probe, key: u64) -> Result<usize, usize>;

    /// The position of the key in the run, for callers that do not need to know where it would go.
    #[inline]
    fn position(node: BlockAt<'_, impl Medium>, run: Window, probe: &Self::Probe, key: u64) -> Option<usize> {
        Self::find(node, run, probe, key).ok()
    }

    /// Rebuilds what is probed for the keys at these positions, which may have changed.
    fn changed(node: BlockAt<'_, impl Medium>, run: Window, probe: &Self::Probe, positions: Range<usize>);
}

/// How a run changes. Each change is durable before the next change of the node begins, because N3 allows one pair of
/// equal keys.
///
/// The names are those of [`Layout`](super::Layout), one floor below: these methods know the window, but not the search
/// hints.
pub trait Changes<N: Sorted> {
    /// Writes a whole node; flushed.
    fn fill(node: BlockAt<'_, impl Medium>, new: NewNode) -> Window;

    /// Inserts an entry at position `i`. The last line is flushed, not fenced.
    fn insert(node: BlockAt<'_, impl Medium>, window: Window, i: usize, new: Entry) -> Window;

    /// Replaces the value at position `i`; flushed, not fenced.
    fn update(node: BlockAt<'_, impl Medium>, window: Window, i: usize, value: u64);

    /// Removes the entry at position `i`. The last line is flushed, not fenced.
    fn remove(node: BlockAt<'_, impl Medium>, range: KeyRange, window: Window, i: usize) -> Window;

    /// Finishes, or undoes, what a crash interrupted; durable when it returns.
    fn recover(node: BlockAt<'_, impl Medium>, range: KeyRange) -> Result<Window, Broken>;

    /// See [`Layout::check`](super::Layout::check).
    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked>;
}
