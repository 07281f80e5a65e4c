//! Changes of leaves that become durable together with others: a layout says which words change, and stores none.

use super::layout::RangeOf;
use super::space::SplitInPlace;
use super::{Entry, NodeAt};
use crate::medium::Medium;

/// A change of one leaf, at the place that a search returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deferred {
    /// A new entry. There must be an empty slot.
    Insert(usize, Entry),
    /// Another value.
    Update(usize, u64),
    /// The entry is removed.
    Remove(usize),
}

/// The operations of layouts in which each change of an entry is some words of one leaf, whatever else changes: leaves
/// of which nothing is ever shifted.
#[diagnostic::on_unimplemented(
    message = "leaves of this layout take no part in transactions",
    note = "trees with the default leaves do: `OneLine`, and `ByteLeaf` for byte strings"
)]
pub trait Defer: SplitInPlace {
    /// Records a change in the hints of a leaf, and passes the words of its block that change to `put`, with their new
    /// values. The caller stores them before it unlocks the leaf. The next search in the leaf knows of the change.
    fn defer(node: NodeAt<'_, Self, impl Medium>, range: RangeOf<Self>, change: Deferred, put: impl FnMut(u64, u64));
}
