//! Nodes: blocks of 16-byte slots, behind the two words that every layout begins with.
//!
//! ```text
//! | next 8 | low 8 | what the layout says ...
//! ```
//!
//! Invariants, true after every single 8-byte store that becomes durable (so in every crash state):
//!
//! - **N1** A node owns `[low, next.low)`; the last of a chain owns `[low, MAX)`; the node with `low` = MAX owns just
//!   that key. `low` never changes while the block is in a chain.
//! - **N2** A slot is empty if and only if its key lies outside the owned range. There is no count, no bitmap and no
//!   reserved key or value.
//! - **N3** The slots that are not empty are what the layout says: see [`sorted`] and [`one_line`].
//! - **N4** Lows ascend strictly along a chain, so a walk ends whatever the bytes.
//!
//! What a node contains thus follows from its two words, its neighbour's `low` and its keys, at any time. What speeds up
//! the search in it is kept in the volatile [`shadow`].

mod adaptive;
mod append;
mod circular;
mod cow_sip;
mod decorated;
mod fingerprint;
mod fingerprinted;
mod hash;
mod inner;
mod layout;
mod linear;
mod logged;
#[cfg(all(test, loom))]
mod models;
mod one_line;
mod scanned;
mod sentinel;
pub(crate) mod shadow;
mod slots;
mod sorted;
mod versioned;

pub use adaptive::{Aggressive, Balanced, Conservative, Fixed, Strategy};
pub use append::Append;
pub use circular::Circular;
pub use cow_sip::{CowSip, crab};
pub use decorated::Decorated;
pub use fingerprint::Fingerprint;
pub use fingerprinted::Fingerprinted;
pub(crate) use layout::{Checked, InNode, Layout, New};
pub use linear::Linear;
pub use logged::Logged;
pub use one_line::OneLine;
pub use scanned::Scanned;
pub use sentinel::Sentinel;
pub(crate) use sorted::Sorted;
pub use versioned::Versioned;

use crate::delay::delay;
use crate::medium::{LINE, Medium};

/// An entry: key, value.
pub(crate) type Entry = (u64, u64);

/// Offset of the word that points to the right neighbour; 0 = none.
pub(crate) const NEXT: u64 = 0;
/// Offset of the smallest key owned.
pub(crate) const LOW: u64 = 8;
/// Bytes of a slot.
pub(crate) const SLOT: u64 = 16;
/// Slots in a line.
const PER_LINE: usize = (LINE / SLOT) as usize;

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

/// A node layout: where its entries lie, how they are found, and how one of them changes.
///
/// Sealed, because a layout is proven together with the crate: its operations are not public.
pub trait Node: Layout {
    /// The tag in the pool.
    const LAYOUT: u16;
    /// The name in messages and on the command line.
    const NAME: &'static str;
    /// Entries that fit.
    const SLOTS: usize;
    /// Bytes of a block: whole lines.
    const BYTES: u64;
}

/// Of the pairs with equal keys the last, in the order of the keys.
pub(crate) fn last_of_each<T: Copy>(mut pairs: Vec<(u64, T)>) -> Vec<(u64, T)> {
    pairs.sort_by_key(|&(key, _)| key);
    pairs.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            *kept = *later;
        }
        same
    });
    pairs
}

/// Makes `next` the right neighbour; durable when it returns. The commit of every structural change.
pub(crate) fn link<M: Medium>(m: &M, at: u64, next: u64) {
    delay();
    m.store(at + NEXT, next);
    delay();
    m.flush(at + NEXT, 8);
    // Crash: the chain before the change, or after it. What the store moved out of the owned range is empty by N2, what
    // it moved into the range was staged before.
    m.fence();
}

/// Runs `$body` with `$n` standing for the layout of a tag and a number of slots; `None` for one not in the list.
///
/// Layouts are types: what works on any pool gets from numbers to types here.
macro_rules! with_layout {
    ($layout:expr, $slots:expr, $n:ident => $body:expr) => {
        $crate::node::with_layout!(@ $layout, $slots, $n => $body;
            Linear<4> Linear<5> Linear<8> Linear<16> Linear<32> Linear<64> Linear<128> Linear<256> Linear<512>
            Circular<4> Circular<8> Circular<16> Circular<32> Circular<64> Circular<128> Circular<256> Circular<512>
            OneLine<7> OneLine<39>
            Sentinel<Linear<64>> Sentinel<Circular<64>>
            Fingerprinted<Linear<64>> Fingerprinted<Circular<64>>
            Scanned<Linear<64>> Scanned<Circular<64>>
            CowSip<64> CowSip<64, { crab::OPT }> CowSip<64, { crab::COPY_ONLY }> CowSip<64, { crab::SHIFT_ONLY }>
            Append<16> Append<16, Fixed> Append<16, Conservative> Append<16, Aggressive>
            Fingerprint<32> Logged<64> Versioned<32>)
    };
    (@ $layout:expr, $slots:expr, $n:ident => $body:expr; $($type:ty)*) => {{
        #[allow(clippy::wildcard_imports, reason = "the names in the list")]
        use $crate::node::*;
        match ($layout, $slots) {
            $(shape if shape == (<$type as Node>::LAYOUT, <$type as Node>::SLOTS as u32) => {
                type $n = $type;
                Some($body)
            })*
            _ => None,
        }
    }};
}
pub(crate) use with_layout;

/// Names of a layout's and an index's tags.
pub(crate) fn layout_names(layout: u16, index: u16) -> (&'static str, &'static str) {
    macro_rules! names {
        ($($type:ty)*) => { [$((<$type as Node>::LAYOUT, <$type as Node>::NAME)),*] };
    }
    // Of whatever size.
    let names = names!(Linear<4> Circular<4> OneLine Sentinel<Linear<4>> Sentinel<Circular<4>>
        Fingerprinted<Linear<4>> Fingerprinted<Circular<4>> Scanned<Linear<4>> Scanned<Circular<4>>
        CowSip<4, 0> CowSip<4, 1> CowSip<4, 2> CowSip<4, 3> CowSip<4, 4> CowSip<4, 5> CowSip<4, 6> CowSip<4, 7>
        CowSip<4, { crab::COPY_ONLY }> CowSip<4, { crab::SHIFT_ONLY }>
        Append<3> Append<3, Fixed> Append<3, Conservative> Append<3, Aggressive>
        Fingerprint<4> Logged<4> Versioned<4>);
    let layout = names.iter().find(|(tag, _)| *tag == layout).map_or("unknown", |(_, name)| name);
    let index = match index {
        1 => "volatile",
        2 => "persistent",
        3 => "flat",
        4 => "flat_fixed",
        _ => "unknown",
    };
    (layout, index)
}
