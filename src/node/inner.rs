//! Which sizes there are of the leaves that do not sort their entries, and which inner nodes go with them.

use super::{Append, Circular, Linear, OneLine, Sorted};

/// A leaf of one of these sizes.
pub trait HasInner {
    /// The nodes of a persistent index: as large as the leaves, so that a small tree has several of them.
    type Inner: Sorted;
}

macro_rules! inner {
    ($([$($s:ident)?] $leaf:ty: $inner:ty,)*) => {
        $(impl$(<$s>)? HasInner for $leaf {
            type Inner = $inner;
        })*
    };
}

inner! {
    [] OneLine<3>: Circular<4>,
    [] OneLine<7>: Circular<4>,
    [] OneLine<39>: Circular<32>,
    [S] Append<3, S>: Linear<4>,
    [S] Append<4, S>: Linear<4>,
    [S] Append<8, S>: Linear<32>,
    [S] Append<16, S>: Linear<64>,
    [S] Append<32, S>: Linear<128>,
    [S] Append<64, S>: Linear<256>,
    [S] Append<128, S>: Linear<512>,
}
