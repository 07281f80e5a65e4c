//! Nodes: sorted runs of 16-byte slots in a block, behind one header line.
//!
//! ```text
//! line 0   | next 8 | low 8 | meta 8 | (unused)            |     meta: layout 16, level 16, "node" 32
//! line 1   | slot 0: key 8, value 8 | slot 1 | slot 2 | slot 3 |
//! line 2   | slot 4 | ...
//! ```
//!
//! Invariants, true after every single 8-byte store that becomes durable (so in every crash state):
//!
//! - **N1** A node owns `[low, next.low)`; the last of a chain owns `[low, MAX)`; the node with `low` = MAX owns just
//!   that key. `low` and `meta` never change while the block is in a chain.
//! - **N2** A slot is empty if and only if its key lies outside the owned range. There is no count, no bitmap and no
//!   reserved key or value.
//! - **N3** The slots that are not empty form one contiguous run, in ascending order of keys, with at most one pair of
//!   adjacent equal keys: the trace of an unfinished shift. Of such a pair the one nearer to the end of the run towards
//!   which the layout was shifting counts ([`Side`]); the other one's value means nothing.
//! - **N4** Lows ascend strictly along a chain, so a walk ends whatever the bytes.
//!
//! What a node contains thus follows from its header line, its neighbour's `low` and its keys, at any time. Where the
//! run starts and how long it is (the [`Window`]) is kept in the volatile shadow.

mod circular;
mod linear;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod shadow;
pub(crate) mod slots;

pub use circular::Circular;
pub use linear::Linear;

use crate::error::Broken;
use crate::medium::{LINE, Medium};

/// An entry: key, value.
pub(crate) type Entry = (u64, u64);

/// Offset of the word that points to the right neighbour; 0 = none.
pub(crate) const NEXT: u64 = 0;
/// Offset of the smallest key owned.
pub(crate) const LOW: u64 = 8;
const META: u64 = 16;
const NODE: u64 = 0x6e6f_6465 << 32;
/// Bytes of the header: one line.
pub(crate) const HEADER: u64 = LINE;
/// Bytes of a slot.
pub(crate) const SLOT: u64 = 16;

/// Fewer slots than this make no tree: with two, a full inner node splits into one entry and two, at every level and with
/// every insert at its end. The models of single leaves do with two.
const LEAST_SLOTS: usize = if cfg!(loom) { 2 } else { 4 };

/// The keys that a node owns: `[low, high)`, or MAX alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    low: u64,
    width: u64,
}

impl Span {
    /// From `low` up to, not including, `high`; `low` = MAX owns MAX.
    pub(crate) fn new(low: u64, high: u64) -> Self {
        Self { low, width: if low == u64::MAX { 1 } else { high.saturating_sub(low) } }
    }

    pub(crate) fn from_parts(low: u64, width: u64) -> Self {
        Self { low, width }
    }

    /// The smallest key owned.
    pub fn low(self) -> u64 {
        self.low
    }

    /// The smallest key beyond; 0 for the node that owns MAX.
    pub fn high(self) -> u64 {
        self.low.wrapping_add(self.width)
    }

    pub(crate) fn width(self) -> u64 {
        self.width
    }

    /// Whether the key is owned: one subtraction and one comparison.
    #[inline]
    pub fn contains(self, key: u64) -> bool {
        key.wrapping_sub(self.low) < self.width
    }

    /// A key that is never owned by a node with this `low`, whatever its right neighbour.
    #[inline]
    pub(crate) fn marker(self) -> u64 {
        self.low.wrapping_sub(1)
    }
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

    pub(crate) fn pack(self) -> u32 {
        u32::from(self.base) | u32::from(self.count) << 16
    }

    pub(crate) fn unpack(word: u32) -> Self {
        Self { base: word as u16, count: (word >> 16) as u16 }
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

mod sealed {
    pub trait Sealed {}
    impl<const SLOTS: usize> Sealed for super::Linear<SLOTS> {}
    impl<const SLOTS: usize> Sealed for super::Circular<SLOTS> {}
}

/// A node layout: what differs between the kinds of sorted nodes.
///
/// A layout decides where the run lies, towards which side it shifts, and how it is searched. Everything else (filling,
/// shifting store by store, scrubbing) is common to all. Sealed: a layout is proven together with the crate.
pub trait Node: sealed::Sealed + Send + Sync + Sized + 'static {
    /// The tag in the pool.
    const LAYOUT: u16;
    /// The name in messages and on the command line.
    const NAME: &'static str;
    /// Entries that fit.
    const SLOTS: usize;
    /// Bytes of a block: the header line and the slots, in whole lines.
    const BYTES: u64 = (HEADER + Self::SLOTS as u64 * SLOT).next_multiple_of(LINE);

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

    /// The position of the key in the run, or where it would be.
    ///
    /// # Errors
    ///
    /// The position of the first greater key, if the key is not there.
    fn search<M: Medium>(m: &M, at: u64, window: Window, key: u64) -> Result<usize, usize>;
}

/// The meta word of a node.
pub(crate) fn meta<N: Node>(level: u16) -> u64 {
    u64::from(N::LAYOUT) | u64::from(level) << 16 | NODE
}

/// Checks that a block holds a node of this layout, and tells its level.
pub(crate) fn level_of<N: Node, M: Medium>(m: &M, at: u64) -> Result<u16, Broken> {
    let word = m.load(at + META);
    let level = (word >> 16) as u16;
    if word == meta::<N>(level) {
        Ok(level)
    } else {
        Err(Broken::new(at + META, "N1: not a node of the tree's layout"))
    }
}

/// Names of a layout's and an index's tags.
pub(crate) fn layout_names(layout: u16, index: u16) -> (&'static str, &'static str) {
    let layout = match layout {
        Linear::<4>::LAYOUT => Linear::<4>::NAME,
        Circular::<4>::LAYOUT => Circular::<4>::NAME,
        _ => "unknown",
    };
    let index = match index {
        1 => "volatile",
        2 => "persistent",
        _ => "unknown",
    };
    (layout, index)
}

/// Runs `$body` with `$n` standing for the layout of a tag and a number of slots; `None` for one not in the list.
///
/// Layouts are types; what works on any pool (the check, the command line) gets from numbers to types here.
#[doc(hidden)]
#[macro_export]
macro_rules! with_layout {
    ($layout:expr, $slots:expr, $n:ident => $body:expr) => {
        $crate::with_layout!(@ $layout, $slots, $n => $body;
            Linear: 4 5 8 16 32 64 128 256 512;
            Circular: 4 8 16 32 64 128 256 512;)
    };
    (@ $layout:expr, $slots:expr, $n:ident => $body:expr; $($of:ident: $($size:literal)*;)*) => {
        match ($layout, $slots) {
            $($((<$crate::$of<$size> as $crate::Node>::LAYOUT, $size) => {
                type $n = $crate::$of<$size>;
                Some($body)
            })*)*
            _ => None,
        }
    };
}
