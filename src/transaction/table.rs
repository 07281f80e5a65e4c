//! What takes part in transactions: trees and maps with the default leaves.

use crate::codec::{Key, Value};
use crate::map::{KeysOf, Map};
use crate::medium::Medium;
use crate::node::{Defer, WordNode};
use crate::tree::{PTree, TreeNode, TreeState};

/// A [`PTree`] or a [`Map`] that takes part in [transactions](crate::Transaction): one with the default leaves,
/// [`OneLine`](crate::OneLine) or [`ByteLeaf`](crate::ByteLeaf).
///
/// Sealed.
pub trait Table<M: Medium> {
    /// The type of the keys.
    type Key: Key;

    /// The type of the values.
    type Value: Value;

    #[doc(hidden)]
    type Node: TreeNode<Keys = KeysOf<Self::Key>, Ops: Defer>;

    #[doc(hidden)]
    fn tree(&self) -> &TreeState<Self::Node, M>;
}

impl<N: WordNode<Ops: Defer>, M: Medium> Table<M> for PTree<N, M> {
    type Key = u64;
    type Value = u64;
    type Node = N;

    fn tree(&self) -> &TreeState<N, M> {
        &self.state
    }
}

impl<K: Key, V: Value, N: TreeNode<Keys = KeysOf<K>, Ops: Defer>, M: Medium> Table<M> for Map<K, V, N, M> {
    type Key = K;
    type Value = V;
    type Node = N;

    fn tree(&self) -> &TreeState<N, M> {
        self.state()
    }
}

/// The keys of a table, as methods take them.
pub(super) type KeyOf<'k, T, M> = <<T as Table<M>>::Key as Key>::Borrowed<'k>;
/// The values of a table, as methods take them.
pub(super) type ValueOf<'v, T, M> = <<T as Table<M>>::Value as Value>::Borrowed<'v>;
/// What the keys of a table's tree are.
pub(super) type TreeKeysOf<T, M> = KeysOf<<T as Table<M>>::Key>;
