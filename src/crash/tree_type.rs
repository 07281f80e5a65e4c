//! The kinds of trees that the checkers work on.

use super::any_tree::{AnyTree, AsKey, AsValue, Numbers, OfNumbers, Records};
use super::history::{self, History};
use super::key_shape::KeyShape;
use super::two_trees::TwoTrees;
use crate::error::Result;
use crate::map::LeafFor;
use crate::medium::any::Any;
use crate::node::{ByteLeaf, Defer, IndexKind, Node, OneLine, WordNode};
use crate::pool::Pool;
use std::marker::PhantomData;

/// The name of the tree.
pub(crate) const TREE: &str = "t";

/// The values of the tree under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Numbers, in the slots; in trees of byte strings, in the records of the keys.
    Numbers,
    /// Byte strings, in records of all sizes.
    Records,
}

type Open = fn(&Pool<Any>, &TreeType) -> Result<Box<dyn AnyTree>>;

/// A kind of tree. The rest of a checker does not know its types, so it is compiled once.
#[derive(Clone, Copy)]
pub struct TreeType {
    /// The size of a leaf in bytes.
    pub(crate) bytes: u64,
    /// How many entries fit into a leaf.
    pub(crate) slots: u64,
    /// Whether it consists of [two trees](Two).
    pub(crate) is_two: bool,
    open: Open,
    index: IndexKind,
    keys: KeyShape,
}

impl TreeType {
    fn of<N: Node>(index: IndexKind, keys: KeyShape, open: Open) -> Self {
        Self { bytes: N::BYTES, slots: N::SLOTS as u64, is_two: false, open, index, keys }
    }

    /// How many times as large a pool must be as for a single tree: so large that nothing is ever refused for want of
    /// space. Snapshots of two trees keep several records for each key.
    pub(crate) fn pools(&self) -> u64 {
        if self.is_two { 4 } else { 1 }
    }

    /// All short histories.
    pub(crate) fn histories(&self) -> Vec<History> {
        if self.is_two { history::of_two(self.slots) } else { history::all(self.slots) }
    }

    /// A random history of `len` operations.
    pub(crate) fn random(&self, seed: u64, len: usize) -> History {
        let random = if self.is_two { history::random_of_two } else { history::random };
        random(seed, len, self.slots)
    }

    /// Opens the tree, or creates it.
    pub(crate) fn open(&self, pool: &Pool<Any>) -> Result<Box<dyn AnyTree>> {
        (self.open)(pool, self)
    }
}

/// A layout of leaves from which the checkers make trees.
pub trait Checkable {
    /// Its name on the command line.
    const NAME: &'static str;
    /// How many entries fit into a leaf.
    const SLOTS: usize;

    /// The kind of tree with these leaves, this index, these values (as records like `R`) and, if they are byte
    /// strings, these keys.
    #[doc(hidden)]
    fn tree_type<R: Records>(index: IndexKind, values: Values, keys: KeyShape) -> TreeType;
}

impl<N: WordNode> Checkable for N {
    const NAME: &'static str = <N as Node>::NAME;
    const SLOTS: usize = <N as Node>::SLOTS;

    fn tree_type<R: Records>(index: IndexKind, values: Values, keys: KeyShape) -> TreeType {
        let open: Open = match values {
            Values::Numbers => |pool, tree| Ok(Box::new(pool.tree_with::<N>(TREE, tree.index)?)),
            Values::Records => |pool, tree| {
                let map = pool.map_with::<u64, Vec<u8>, N>(TREE, tree.index)?;
                Ok(Box::new(OfNumbers::<Numbers, R, N, Any>::new(map, Numbers)))
            },
        };
        TreeType::of::<N>(index, keys, open)
    }
}

impl<const SLOTS: usize> Checkable for ByteLeaf<SLOTS> {
    const NAME: &'static str = <Self as Node>::NAME;
    const SLOTS: usize = SLOTS;

    fn tree_type<R: Records>(index: IndexKind, values: Values, keys: KeyShape) -> TreeType {
        let open: Open = match values {
            Values::Numbers => |pool, tree| {
                let map = pool.map_with(TREE, tree.index)?;
                Ok(Box::new(OfNumbers::<KeyShape, Numbers, Self, Any>::new(map, tree.keys)))
            },
            Values::Records => |pool, tree| {
                let map = pool.map_with(TREE, tree.index)?;
                Ok(Box::new(OfNumbers::<KeyShape, R, Self, Any>::new(map, tree.keys)))
            },
        };
        TreeType::of::<Self>(index, keys, open)
    }
}

/// Two trees with leaves of the layout `N`, whose changes are made together.
#[derive(Debug)]
pub struct Two<N>(PhantomData<N>);

/// The name of the second one.
const OTHER: &str = "u";

fn two<K: AsKey, V: AsValue, N: LeafFor<K::Key, Ops: Defer>>(
    pool: &Pool<Any>,
    index: IndexKind,
    keys: K,
) -> Result<Box<dyn AnyTree>> {
    let tree = |name| Ok(OfNumbers::<K, V, N, Any>::new(pool.map_with(name, index)?, keys));
    Ok(Box::new(TwoTrees::new(pool, [tree(TREE)?, tree(OTHER)?])))
}

impl<const SLOTS: usize> Checkable for Two<OneLine<SLOTS>> {
    const NAME: &'static str = "two_one_line";
    const SLOTS: usize = SLOTS;

    fn tree_type<R: Records>(index: IndexKind, values: Values, keys: KeyShape) -> TreeType {
        let open: Open = match values {
            Values::Numbers => |pool, tree| two::<Numbers, Numbers, OneLine<SLOTS>>(pool, tree.index, Numbers),
            Values::Records => |pool, tree| two::<Numbers, R, OneLine<SLOTS>>(pool, tree.index, Numbers),
        };
        TreeType { is_two: true, ..TreeType::of::<OneLine<SLOTS>>(index, keys, open) }
    }
}

impl<const SLOTS: usize> Checkable for Two<ByteLeaf<SLOTS>> {
    const NAME: &'static str = "two_bytes";
    const SLOTS: usize = SLOTS;

    fn tree_type<R: Records>(index: IndexKind, values: Values, keys: KeyShape) -> TreeType {
        let open: Open = match values {
            Values::Numbers => |pool, tree| two::<KeyShape, Numbers, ByteLeaf<SLOTS>>(pool, tree.index, tree.keys),
            Values::Records => |pool, tree| two::<KeyShape, R, ByteLeaf<SLOTS>>(pool, tree.index, tree.keys),
        };
        TreeType { is_two: true, ..TreeType::of::<ByteLeaf<SLOTS>>(index, keys, open) }
    }
}
