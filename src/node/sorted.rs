//! Sorted nodes: one contiguous run of slots in ascending order, behind a header line.
//!
//! ```text
//! line 0   | next 8 | low 8 | meta 8 | (unused)            |     meta: layout 16, level 16, "node" 32
//! line 1   | slot 0: key 8, value 8 | slot 1 | slot 2 | slot 3 |
//! line 2   | slot 4 | ...
//! ```
//!
//! - **N3** The slots that are not empty form one contiguous run, in ascending order of keys, with at most one pair of
//!   adjacent equal keys: the trace of an unfinished shift. Of such a pair the one nearer to the end of the run towards
//!   which the layout was shifting counts ([`Side`]); the other one's value means nothing.
//!
//! `meta` never changes while the block is in a chain. Where the run starts and how long it is (the [`Window`]) is kept
//! in the shadow.

use crate::error::Broken;
use crate::medium::{LINE, Medium};
use crate::memory::Zero;
use crate::node::layout::{Checked, InNode, Layout, New};
use crate::node::{Entry, Node, SLOT, Span, slots};
use crate::sync::{AtomicU32, Ordering};
use core::ops::Range;

/// Offset of the word that says what the block is.
pub(super) const META: u64 = 16;
const NODE: u64 = 0x6e6f_6465 << 32;
/// Bytes of the header: one line.
pub(super) const HEADER: u64 = LINE;

/// Bytes of slots that are asked for ahead: of larger nodes, a search reads few lines.
pub(super) const PREFETCHED: u64 = 16 * LINE;

/// Bytes of a node of so many slots.
pub(super) const fn bytes(slots: usize) -> u64 {
    (HEADER + slots as u64 * SLOT).next_multiple_of(LINE)
}

/// The meta word of a node.
pub(super) fn meta<N: Node>(level: u16) -> u64 {
    u64::from(N::LAYOUT) | u64::from(level) << 16 | NODE
}

/// Where in its slots a node's run lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// The slot of the smallest key.
    pub base: u16,
    /// How many entries.
    pub count: u16,
}

impl Window {
    pub(crate) fn new(base: usize, count: usize) -> Self {
        Self { base: base as u16, count: count as u16 }
    }

    /// How many entries.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.count.into()
    }
}

/// The end of the run towards which entries move to make room, and from which they come to close a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "layouts, whose trait is public, name it; older compilers do not see that")]
pub enum Side {
    /// Towards the smaller keys.
    Left,
    /// Towards the greater keys.
    Right,
}

/// What a sorted node keeps in its shadow: the window, the level, and what its layout probes before the slots.
///
/// ```text
/// window: | count 16 | base 16 |
/// ```
#[derive(Debug)]
pub struct Run<P = ()> {
    window: AtomicU32,
    level: AtomicU32,
    probe: P,
}

// SAFETY: two numbers, and what is `Zero`.
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
    fn set_window(&self, Window { base, count }: Window) {
        self.window.store(u32::from(base) | u32::from(count) << 16, Ordering::Relaxed);
    }

    /// Levels above the leaves.
    #[inline]
    pub(crate) fn level(&self) -> u16 {
        self.level.load(Ordering::Relaxed) as u16
    }

    fn set_level(&self, level: u16) {
        self.level.store(level.into(), Ordering::Relaxed);
    }
}

/// Where in its slots a run lies, and towards which side it shifts.
#[allow(unreachable_pub, reason = "layouts, whose trait is public, name it; older compilers do not see that")]
pub trait Geometry: 'static {
    /// The slot of the `i`-th entry of a run that starts at `base`; `i` may be -1 and one beyond the run.
    fn slot(base: usize, i: isize) -> usize;

    /// Where the run starts, given the keys of all slots; `None` if those that are owned form no run.
    fn base(key: impl Fn(usize) -> u64, span: Span) -> Option<usize>;

    /// The side for position `i` of a run of `len` entries.
    ///
    /// The same answer decides, after a crash, which one of the equal pair at `i`, `i + 1` counts. So an insert that
    /// starts with `len - 1` entries, and a removal that starts with `len`, must both have shifted towards it.
    fn side_of_pair(i: usize, len: usize) -> Side;

    /// The side towards which an insert at position `i` of `len` entries shifts.
    fn side_of_insert(i: usize, len: usize) -> Side;

    /// The side from which a removal at position `i` of `len` entries fills the gap.
    fn side_of_remove(i: usize, len: usize) -> Side;
}

/// A sorted layout: how its run lies, how it is shifted, and how it is searched. Everything else is common to all.
pub trait Sorted: Node + Layout<Aid = Run<Self::Probe>, Inner = Self> {
    /// How the run lies.
    type Geometry: Geometry;

    /// What is looked at before the slots: in DRAM, made from the keys.
    type Probe: Zero + Send + Sync;

    /// Whether a shift moves key and value by one store of 16 bytes, on a medium that keeps them together.
    const BY_PAIRS: bool = false;

    /// Whether a change may be made by a copy of the node.
    const MAY_COPY: bool = false;

    /// Whether a copy costs less, of a node of `len` entries.
    fn copy_pays<M: Medium>(_m: &M, _len: usize, _change: InNode) -> bool {
        false
    }

    /// Whether a nearly empty node rather goes into its left neighbour than takes in its right one.
    const PREFERS_LEFT: bool = false;

    /// A block was taken from the pool, or goes back.
    fn mark<M: Medium>(_m: &M, _at: u64, _taken: bool) {}

    /// Bytes of slots that are asked for when the node is about to be searched.
    const PREFETCHED: u64 = PREFETCHED;

    /// The position of the key in the run; as an error, the position of the first greater key.
    fn find<M: Medium>(m: &M, at: u64, run: Window, probe: &Self::Probe, key: u64) -> Result<usize, usize>;

    /// The position of the key in the run, for those who do not want to know where it would go.
    #[inline]
    fn position<M: Medium>(m: &M, at: u64, run: Window, probe: &Self::Probe, key: u64) -> Option<usize> {
        Self::find(m, at, run, probe, key).ok()
    }

    /// The keys at these positions may have changed.
    #[inline]
    fn changed<M: Medium>(_m: &M, _at: u64, _run: Window, _probe: &Self::Probe, _positions: Range<usize>) {}

    /// Makes room at position `i` and stores the entry there.
    #[inline]
    fn shift_in<M: Medium>(m: &M, at: u64, window: Window, i: usize, new: Entry) -> Window {
        slots::insert::<Self, M>(m, at, window, i, new)
    }

    /// Closes the gap at position `i`.
    #[inline]
    fn shift_out<M: Medium>(m: &M, at: u64, span: Span, window: Window, i: usize) -> Window {
        slots::remove::<Self, M>(m, at, span, window, i)
    }

    /// Replaces the value at position `i`; flushed.
    #[inline]
    fn set<M: Medium>(m: &M, at: u64, run: Window, i: usize, value: u64) {
        slots::update::<Self, M>(m, at, run, i, value);
    }

    /// Finishes, or undoes, what a crash interrupted; durable when it returns.
    fn repair<M: Medium>(m: &M, at: u64, span: Span) -> Result<Window, Broken> {
        slots::repair::<Self, M>(m, at, span)
    }

    /// See [`Layout::check`].
    fn inspect<M: Medium>(m: &M, at: u64, span: Span, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        slots::check::<Self, M>(m, at, span, report)
    }
}

/// A place is a position in the run.
impl<N: Sorted> Layout for N {
    type Aid = Run<N::Probe>;
    type Inner = N;
    type Shared = ();

    /// N3 allows one pair of equal keys: a shift must be durable before the next one.
    const INDEPENDENT: bool = false;

    fn level<M: Medium>(m: &M, at: u64) -> Result<u16, Broken> {
        let word = m.load(at + META);
        let level = (word >> 16) as u16;
        if word == meta::<N>(level) {
            Ok(level)
        } else {
            Err(Broken::new(at + META, "N1: not a node of the tree's layout"))
        }
    }

    #[inline]
    fn len(aid: &Self::Aid) -> usize {
        aid.window().len()
    }

    #[inline]
    fn room(aid: &Self::Aid) -> usize {
        N::SLOTS - aid.window().len()
    }

    const COPIES: bool = N::MAY_COPY;

    fn copies<M: Medium>(m: &M, aid: &Self::Aid, change: InNode) -> bool {
        N::copy_pays(m, aid.window().len(), change)
    }

    const MERGES_LEFT: bool = N::PREFERS_LEFT;

    fn allocated<M: Medium>(m: &M, at: u64) {
        N::mark(m, at, true);
    }

    fn released<M: Medium>(m: &M, at: u64) {
        N::mark(m, at, false);
    }

    #[inline]
    fn prefetch<M: Medium>(m: &M, at: u64, _key: u64) {
        m.prefetch(at + HEADER, (N::BYTES - HEADER).min(N::PREFETCHED));
    }

    fn prefetch_all<M: Medium>(m: &M, at: u64) {
        m.prefetch(at, N::BYTES.min(PREFETCHED));
    }

    #[inline]
    fn search<M: Medium>(m: &M, at: u64, aid: &Self::Aid, key: u64) -> Result<usize, usize> {
        N::find(m, at, aid.window(), &aid.probe, key)
    }

    #[inline]
    fn lookup<M: Medium>(m: &M, at: u64, aid: &Self::Aid, key: u64) -> Option<usize> {
        N::position(m, at, aid.window(), &aid.probe, key)
    }

    #[inline]
    fn value<M: Medium>(m: &M, at: u64, aid: &Self::Aid, place: usize) -> u64 {
        slots::value::<N, M>(m, at, aid.window(), place)
    }

    fn entries<M: Medium>(m: &M, at: u64, aid: &Self::Aid, (from, to): (u64, u64), out: &mut Vec<Entry>) -> usize {
        let window = aid.window();
        let (Ok(start) | Err(start)) = N::find(m, at, window, &aid.probe, from);
        let entries = (start..window.len()).map(|i| slots::entry::<N, M>(m, at, window, i));
        out.clear();
        out.extend(entries.take_while(|(key, _)| *key <= to));
        out.len()
    }

    fn fill<M: Medium>(m: &M, at: u64, aid: &Self::Aid, new: New, entries: &[Entry], zeroed: bool) {
        aid.set_level(new.level);
        aid.set_window(slots::fill::<N, M>(m, at, new, entries, zeroed));
        N::changed(m, at, aid.window(), &aid.probe, 0..entries.len());
    }

    fn insert<M: Medium>(m: &M, at: u64, aid: &Self::Aid, place: usize, new: Entry) {
        let window = aid.window();
        aid.set_window(N::shift_in(m, at, window, place, new));
        let positions = match N::Geometry::side_of_insert(place, window.len()) {
            Side::Left => 0..place + 1,
            Side::Right => place..window.len() + 1,
        };
        N::changed(m, at, aid.window(), &aid.probe, positions);
    }

    fn update<M: Medium>(m: &M, at: u64, aid: &Self::Aid, place: usize, value: u64) {
        N::set(m, at, aid.window(), place, value);
    }

    fn remove<M: Medium>(m: &M, at: u64, aid: &Self::Aid, span: Span, place: usize) {
        let window = aid.window();
        aid.set_window(N::shift_out(m, at, span, window, place));
        let positions = match N::Geometry::side_of_remove(place, window.len()) {
            Side::Left => 0..place,
            Side::Right => place..window.len() - 1,
        };
        N::changed(m, at, aid.window(), &aid.probe, positions);
    }

    fn stage<M: Medium>(m: &M, at: u64, aid: &Self::Aid, wider: Span, entries: &[Entry]) {
        let before = aid.window().len();
        aid.set_window(slots::stage::<N, M>(m, at, wider, aid.window(), entries));
        N::changed(m, at, aid.window(), &aid.probe, before..before + entries.len());
    }

    fn narrow<M: Medium>(m: &M, at: u64, aid: &Self::Aid, border: u64) {
        let window = aid.window();
        let (Ok(count) | Err(count)) = N::find(m, at, window, &aid.probe, border);
        aid.set_window(Window { count: count as u16, ..window });
    }

    fn recover<M: Medium>(m: &M, at: u64, aid: &Self::Aid, span: Span) -> Result<(), Broken> {
        aid.set_level(Self::level(m, at)?);
        let window = N::repair(m, at, span)?;
        aid.set_window(window);
        N::changed(m, at, aid.window(), &aid.probe, 0..window.len());
        Ok(())
    }

    fn check<M: Medium>(m: &M, at: u64, span: Span, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        N::inspect(m, at, span, report)
    }
}
