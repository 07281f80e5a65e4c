//! Trees whose types are chosen at run time: from names and numbers to the crate's generic types.

use crate::parse::{Index, Layout};

/// The nodes of a tree, and where its index lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) layout: Layout,
    pub(crate) slots: u32,
    pub(crate) index: Index,
}

impl Shape {
    /// A shape with nodes of the default size.
    pub(crate) fn usual(layout: Layout, index: Index) -> Self {
        Self { layout, slots: layout.usual_slots(), index }
    }
}

/// Runs `$body` with `$n` as the type of the nodes; `None` if nodes of this layout have none of these sizes. (`OneLine`
/// has one size.) Each type costs seconds of compile time.
macro_rules! with_type {
    ($shape:expr, [$($size:literal)*], $n:ident => $body:expr) => {
        match ($shape.layout, $shape.slots) {
            ($crate::parse::Layout::OneLine, 39) => {
                type $n = bristlecone::OneLine;
                Some($body)
            }
            $(($crate::parse::Layout::Linear, $size) => {
                type $n = bristlecone::papers::Linear<$size>;
                Some($body)
            }
            ($crate::parse::Layout::Circular, $size) => {
                type $n = bristlecone::papers::Circular<$size>;
                Some($body)
            })*
            _ => None,
        }
    };
}
pub(crate) use with_type;
