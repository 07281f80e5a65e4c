//! Trees in words, for lists and for errors. The pool knows layouts, indexes and encodings only by their tags.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::entry::kind::kind_name;
use crate::error::{ErrorKind, Fault, Result};
use crate::medium::Medium;
use crate::papers::registry::{index_name, shown};
use crate::pool::roots::{Root, Signature};
use crate::pool::{Pool, PoolState, TreeInfo};
use std::fmt;

impl<M: Medium> Pool<M> {
    /// All trees in the pool, in no particular order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if a root entry is damaged.
    pub fn trees(&self) -> Result<Vec<TreeInfo>> {
        self.state.named(self.state.of_live_roots(|root| describe(&self.state, root)))
    }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Shows a handle of the tree, of the type of this name. Reads no leaf.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>, handle: &str) -> fmt::Result {
        let count = &self.leaves.count;
        let mut shown = f.debug_struct(handle);
        shown.field("name", &self.name()).field("layout", &N::NAME).field("index", &self.directory.kind());
        if count.is_whole() {
            shown.field("len", &count.sum());
        }
        shown.finish_non_exhaustive()
    }
}

/// Describes the tree of a root entry. The entry must not become another tree's meanwhile.
pub(super) fn describe<M: Medium>(pool: &PoolState<M>, root: Root) -> TreeInfo {
    let signature = root.signature(&pool.medium);
    let own = pool.segments.of_tree(root.slot).into_iter();
    TreeInfo {
        name: root.name(&pool.medium),
        layout: shown(signature),
        slots: signature.slots,
        index: index_name(signature.index),
        keys: signature.kinds.name_of_keys(),
        values: signature.kinds.name_of_values(),
        stored_keys: kind_name(signature.kinds.keys),
        stored_values: kind_name(signature.kinds.values),
        bytes: own.map(|segment| pool.segments.len(segment)).sum(),
        closed: root.closed(&pool.medium).is_some(),
    }
}

/// The fault of opening a tree as another kind of tree than it is.
pub(super) fn mismatch(tree: &str, found: Signature, expected: Signature) -> Fault {
    let tree = tree.to_owned();
    // Where both differ, the layout mostly follows from the kind of keys.
    if found.kinds != expected.kinds {
        let kinds = |of: Signature| format!("{} -> {}", of.kinds.name_of_keys(), of.kinds.name_of_values());
        ErrorKind::KindMismatch { tree, found: kinds(found), expected: kinds(expected) }.into()
    } else {
        let layout = |of: Signature| format!("{} with a {} index", shown(of), index_name(of.index));
        ErrorKind::LayoutMismatch { tree, found: layout(found), expected: layout(expected) }.into()
    }
}
