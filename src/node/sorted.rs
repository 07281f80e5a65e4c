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
use crate::node::layout::{Checked, Layout, New};
use crate::node::{Entry, Node, SLOT, Span, slots};
use crate::sync::{AtomicU32, Ordering};

/// Offset of the word that says what the block is.
pub(super) const META: u64 = 16;
const NODE: u64 = 0x6e6f_6465 << 32;
/// Bytes of the header: one line.
pub(super) const HEADER: u64 = LINE;

/// Bytes of slots that are asked for ahead: of larger nodes, a search reads few lines.
const PREFETCHED: u64 = 16 * LINE;

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
pub enum Side {
    /// Towards the smaller keys.
    Left,
    /// Towards the greater keys.
    Right,
}

/// What a sorted node keeps in its shadow: the window, and the level.
///
/// ```text
/// window: | count 16 | base 16 |
/// ```
#[derive(Debug)]
pub struct Run {
    window: AtomicU32,
    level: AtomicU32,
}

// SAFETY: two numbers.
unsafe impl Zero for Run {
    fn zero() -> Self {
        Self { window: AtomicU32::new(0), level: AtomicU32::new(0) }
    }
}

impl Run {
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

/// A sorted layout: where the run lies, towards which side it shifts, and how it is searched. Everything else is common to
/// all.
pub trait Sorted: Node + Layout<Aid = Run, Inner = Self> {
    /// The slot of the `i`-th entry of a run that starts at `base`; `i` may be -1 and one beyond the run.
    fn slot(base: usize, i: isize) -> usize;

    /// Where the run starts, given which slots are not empty; `None` if they form no run.
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

    /// The position of the key in the run; as an error, the position of the first greater key.
    fn find<M: Medium>(m: &M, at: u64, window: Window, key: u64) -> Result<usize, usize>;
}

/// A place is a position in the run.
impl<N: Sorted> Layout for N {
    type Aid = Run;
    type Inner = N;

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
    fn len(aid: &Run) -> usize {
        aid.window().len()
    }

    #[inline]
    fn prefetch<M: Medium>(m: &M, at: u64, _key: u64) {
        m.prefetch(at + HEADER, (N::BYTES - HEADER).min(PREFETCHED));
    }

    fn prefetch_all<M: Medium>(m: &M, at: u64) {
        m.prefetch(at, N::BYTES.min(PREFETCHED));
    }

    #[inline]
    fn search<M: Medium>(m: &M, at: u64, aid: &Run, key: u64) -> Result<usize, usize> {
        N::find(m, at, aid.window(), key)
    }

    #[inline]
    fn value<M: Medium>(m: &M, at: u64, aid: &Run, place: usize) -> u64 {
        slots::value::<N, M>(m, at, aid.window(), place)
    }

    fn entries<M: Medium>(m: &M, at: u64, aid: &Run, (from, to): (u64, u64), out: &mut Vec<Entry>) -> usize {
        let window = aid.window();
        let (Ok(start) | Err(start)) = N::find(m, at, window, from);
        let entries = (start..window.len()).map(|i| slots::entry::<N, M>(m, at, window, i));
        out.clear();
        out.extend(entries.take_while(|(key, _)| *key <= to));
        out.len()
    }

    fn fill<M: Medium>(m: &M, at: u64, aid: &Run, new: New, entries: &[Entry], zeroed: bool) {
        aid.set_level(new.level);
        aid.set_window(slots::fill::<N, M>(m, at, new, entries, zeroed));
    }

    fn insert<M: Medium>(m: &M, at: u64, aid: &Run, place: usize, new: Entry) {
        aid.set_window(slots::insert::<N, M>(m, at, aid.window(), place, new));
    }

    fn update<M: Medium>(m: &M, at: u64, aid: &Run, place: usize, value: u64) {
        slots::update::<N, M>(m, at, aid.window(), place, value);
    }

    fn remove<M: Medium>(m: &M, at: u64, aid: &Run, span: Span, place: usize) {
        aid.set_window(slots::remove::<N, M>(m, at, span, aid.window(), place));
    }

    fn stage<M: Medium>(m: &M, at: u64, aid: &Run, wider: Span, entries: &[Entry]) {
        aid.set_window(slots::stage::<N, M>(m, at, wider, aid.window(), entries));
    }

    fn narrow<M: Medium>(m: &M, at: u64, aid: &Run, border: u64) {
        let window = aid.window();
        let (Ok(count) | Err(count)) = N::find(m, at, window, border);
        aid.set_window(Window { count: count as u16, ..window });
    }

    fn recover<M: Medium>(m: &M, at: u64, aid: &Run, span: Span) -> Result<(), Broken> {
        aid.set_level(Self::level(m, at)?);
        aid.set_window(slots::repair::<N, M>(m, at, span)?);
        Ok(())
    }

    fn check<M: Medium>(m: &M, at: u64, span: Span, report: impl FnMut(Broken)) -> Option<Checked> {
        slots::check::<N, M>(m, at, span, report)
    }
}
