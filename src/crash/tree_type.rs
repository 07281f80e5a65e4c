//! The kinds of trees that the checkers work on.

use super::any_tree::{AnyTree, Numbers, OfNumbers, Records};
use super::key_shape::KeyShape;
use crate::error::Result;
use crate::medium::Medium;
use crate::node::{ByteLeaf, IndexKind, Node, WordNode};
use crate::pool::Pool;

/// The name of the tree.
pub(super) const TREE: &str = "t";

/// The values of the tree under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Numbers, in the slots; in trees of byte strings, in the records of the keys.
    Numbers,
    /// Byte strings, in records of all sizes.
    Records,
}

type Open<M> = fn(&Pool<M>, &TreeType<M>) -> Result<Box<dyn AnyTree>>;

/// A kind of tree. The rest of a checker does not know its types, so it is compiled once.
pub struct TreeType<M: Medium> {
    /// The size of a leaf in bytes.
    pub(crate) bytes: u64,
    /// How many entries fit into a leaf.
    pub(crate) slots: u64,
    /// Whether it is a map: maps have no batches, and do not compare and exchange.
    pub(crate) is_map: bool,
    open: Open<M>,
    index: IndexKind,
    keys: KeyShape,
}

impl<M: Medium> Clone for TreeType<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for TreeType<M> {}

impl<M: Medium> TreeType<M> {
    fn of<N: Node>(index: IndexKind, keys: KeyShape, is_map: bool, open: Open<M>) -> Self {
        Self { bytes: N::BYTES, slots: N::SLOTS as u64, is_map, open, index, keys }
    }

    /// Opens the tree, or creates it.
    pub(crate) fn open(&self, pool: &Pool<M>) -> Result<Box<dyn AnyTree>> {
        (self.open)(pool, self)
    }
}

/// A layout of leaves of which the checkers make trees.
pub trait Checkable: Node {
    /// The kind of tree with these leaves, this index, these values (as records like `R`) and, if they are byte strings,
    /// these keys.
    #[doc(hidden)]
    fn tree_type<R: Records, M: Medium>(index: IndexKind, values: Values, keys: KeyShape) -> TreeType<M>;
}

impl<N: WordNode> Checkable for N {
    fn tree_type<R: Records, M: Medium>(index: IndexKind, values: Values, keys: KeyShape) -> TreeType<M> {
        let open: Open<M> = match values {
            Values::Numbers => |pool, tree| Ok(Box::new(pool.tree_with::<N>(TREE, tree.index)?)),
            Values::Records => |pool, tree| {
                let map = pool.map_with::<u64, Vec<u8>, N>(TREE, tree.index)?;
                Ok(Box::new(OfNumbers::<Numbers, R, N, M>::new(map, Numbers)))
            },
        };
        TreeType::of::<N>(index, keys, values == Values::Records, open)
    }
}

impl<const SLOTS: usize> Checkable for ByteLeaf<SLOTS> {
    fn tree_type<R: Records, M: Medium>(index: IndexKind, values: Values, keys: KeyShape) -> TreeType<M> {
        let open: Open<M> = match values {
            Values::Numbers => |pool, tree| {
                let map = pool.map_with(TREE, tree.index)?;
                Ok(Box::new(OfNumbers::<KeyShape, Numbers, Self, M>::new(map, tree.keys)))
            },
            Values::Records => |pool, tree| {
                let map = pool.map_with(TREE, tree.index)?;
                Ok(Box::new(OfNumbers::<KeyShape, R, Self, M>::new(map, tree.keys)))
            },
        };
        TreeType::of::<Self>(index, keys, true, open)
    }
}
