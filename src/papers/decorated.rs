//! Which sorted layouts can have another search, and how large its probe is.

use crate::arch::simd::FortyBytes;
use crate::memory::Zero;
use crate::node::sorted::{RunSearch, Sorted};
use crate::node::{Circular, Linear, PER_LINE};
use crate::sync::AtomicU64;

/// A sorted layout that [`Sentinel`](super::Sentinel), [`Fingerprinted`](super::Fingerprinted) and
/// [`Scanned`](super::Scanned) can wrap.
///
/// The pool holds the same nodes with and without them, but a tree keeps the layout that it was created with.
pub trait Decorated: Sorted<Search: RunSearch<Probe = ()>> {
    /// Tag and name with sentinels.
    const SENTINEL: (u16, &'static str);
    /// Tag and name with fingerprints.
    const FINGERPRINTED: (u16, &'static str);
    /// Tag and name with sentinels, as printed, in leaves only.
    const SENTINEL_LEAVES: (u16, &'static str);
    /// Tag and name with fingerprints in leaves only.
    const FINGERPRINTED_LEAVES: (u16, &'static str);
    /// Tag and name when searched linearly.
    const SCANNED: (u16, &'static str);

    /// One key for each line.
    type Sentinels: Zero + AsRef<[AtomicU64]> + Send + Sync;
    /// One byte for each slot.
    type Prints: Zero + AsRef<[FortyBytes]> + Send + Sync;

    /// The position that a slot would have in a run from `base` on.
    fn position_of(base: usize, slot: usize) -> usize;
}

/// The nodes of a layout that gives `N` another search, with the tag and the name of this constant, and with these
/// inner nodes; everything else is as in `N`.
macro_rules! decorated_node {
    ($layout:ident, $tag_and_name:ident, inner: $inner:ty) => {
        impl<N: Decorated> $crate::node::Node for $layout<N> {
            const LAYOUT: u16 = N::$tag_and_name.0;
            const NAME: &'static str = N::$tag_and_name.1;
            const IS_OWN: bool = true;
            const SLOTS: usize = N::SLOTS;
            const BYTES: u64 = N::BYTES;

            type Keys = $crate::node::Words;
            type Ops = $crate::node::sorted_ops::SortedOps<Self>;
            type Space = $crate::node::space::InPlace;
        }

        impl<N: Decorated> $crate::node::WordNode for $layout<N> {
            const INDEX: $crate::node::IndexKind = $crate::node::IndexKind::Persistent;
            type Inner = $inner;
        }

        impl<N: Decorated> $crate::node::sorted::Sorted for $layout<N> {
            type Geometry = N::Geometry;
            type Search = Self;
            type Changes = $crate::node::shift::Shift;
        }
    };
}
pub(super) use decorated_node;

macro_rules! decorated {
    ($($layout:ident: [$($tag_and_name:ident = $value:expr),*], $position_of:expr;)*) => {
        $(decorated!(@ $layout: [$($tag_and_name = $value),*], $position_of; 4 8 16 32 64 128 256 512);)*
    };
    (@ $layout:ident: $constants:tt, $position_of:expr; $($slots:literal)*) => {
        $(decorated!(@@ $layout $slots: $constants, $position_of);)*
    };
    (@@ $layout:ident $slots:literal: [$($tag_and_name:ident = $value:expr),*], $position_of:expr) => {
        impl Decorated for $layout<$slots> {
            $(const $tag_and_name: (u16, &'static str) = $value;)*

            type Sentinels = [AtomicU64; $slots / PER_LINE];
            type Prints = [FortyBytes; usize::div_ceil($slots, size_of::<FortyBytes>())];

            #[inline]
            fn position_of(base: usize, slot: usize) -> usize {
                $position_of(base, slot, $slots)
            }
        }
    };
}

decorated! {
    Linear: [
        SENTINEL = (4, "sentinel_linear"),
        FINGERPRINTED = (6, "fingerprinted_linear"),
        SCANNED = (8, "scanned_linear"),
        SENTINEL_LEAVES = (104, "sentinel_leaves_linear"),
        FINGERPRINTED_LEAVES = (106, "fingerprinted_leaves_linear")
    ], |_base, slot, _slots| slot;
    Circular: [
        SENTINEL = (5, "sentinel_circular"),
        FINGERPRINTED = (7, "fingerprinted_circular"),
        SCANNED = (9, "scanned_circular"),
        SENTINEL_LEAVES = (105, "sentinel_leaves_circular"),
        FINGERPRINTED_LEAVES = (107, "fingerprinted_leaves_circular")
    ], |base: usize, slot: usize, slots: usize| slot.wrapping_sub(base) & (slots - 1);
}
