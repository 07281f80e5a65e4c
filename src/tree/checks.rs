//! The checks that this program has: what checks a tree is compiled for each layout, so a program has only the checks
//! of the layouts that it names, beside some that every program has.
//!
//! ```text
//!   every program     the defaults, and the published layouts with linear, circular, sentinel and copied nodes, each
//!                     in the size of its paper
//!   + named           what the program opened as a tree, or named: since then, until it ends, whatever pool it is in
//! ```
//!
//! A tree of another layout is reported as one that was not checked.

use super::TreeNode;
use super::check::check_tree;
use crate::medium::Medium;
use crate::node::{IndexKind, Keys};
use crate::papers::registry::{foreign, layouts};
use crate::pool::roots::{Root, Signature};
use crate::pool::{Pool, PoolState, Report};
use parking_lot::RwLock;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Checks a tree of one layout.
type Check<M> = fn(&Arc<PoolState<M>>, Root, IndexKind, &mut Report);

/// A medium, and a layout: its tag, the hash of its name if it is not the crate's, and its slots.
type Key = (TypeId, u16, Option<u64>, u32);

/// The named layouts, each with a [`Check`].
static NAMED: LazyLock<RwLock<HashMap<Key, Box<dyn Any + Send + Sync>>>> = LazyLock::new(RwLock::default);

/// Names a layout: from now on, trees of it are checked.
pub(crate) fn name<N: TreeNode, M: Medium>() {
    // One that cannot be opened needs no check.
    let Ok(foreign) = foreign::<N>() else { return };
    let key = (TypeId::of::<M>(), N::LAYOUT, foreign, N::SLOTS as u32);
    if !NAMED.read().contains_key(&key) {
        let check: Check<M> = check::<N, M>;
        NAMED.write().insert(key, Box::new(check));
    }
}

/// The check for a tree; `None` if the program has none.
pub(super) fn find<M: Medium>(of: &Signature) -> Option<Check<M>> {
    let always = of.known().and_then(|layout| {
        #[allow(clippy::wildcard_imports, reason = "the names in the list")]
        use crate::{node::*, papers::*};
        macro_rules! if_it_is {
            ($type:ty) => {
                if layout == (<$type as Node>::LAYOUT, <$type as Node>::SLOTS) {
                    return Some(check::<$type, M> as Check<M>);
                }
            };
        }
        layouts!(each!(always if_it_is;));
        None
    });
    let key = (TypeId::of::<M>(), of.layout, of.foreign, of.slots);
    always.or_else(|| NAMED.read().get(&key)?.downcast_ref().copied())
}

fn check<N: TreeNode, M: Medium>(pool: &Arc<PoolState<M>>, root: Root, index: IndexKind, report: &mut Report) {
    let values = root.signature(&pool.medium).kinds.values;
    check_tree::<N, M>(pool, root, index, crate::kind::is_record(values) || N::Keys::HAS_RECORDS, report);
}

impl<M: Medium> Pool<M> {
    /// Names a layout of nodes, so that [`check`](Self::check) knows it from now on, in this process, on this medium.
    ///
    /// Opening a tree does the same. So this is for programs that check trees that they never open, and for what looks
    /// before a pool is open: [`open_after_power_loss`](crate::Options::open_after_power_loss).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.pool");
    /// use bristlecone::papers::Circular;
    /// use bristlecone::Pool;
    ///
    /// <Pool>::name_layout::<Circular<32>>();
    /// # Pool::options().capacity(16 << 20).open(&path)?.close()?;
    /// let report = Pool::options().read_only(true).open(&path)?.check()?;
    /// assert!(report.is_clean()); // also if there are trees of that layout
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn name_layout<N: TreeNode>() {
        name::<N, M>();
    }

    /// [Names](Self::name_layout) all layouts of this crate: the papers' in the sizes of their papers, and `Linear` and
    /// `Circular` with powers of two up to 512 slots. It takes a while to compile.
    pub fn name_all_layouts() {
        #[allow(clippy::wildcard_imports, reason = "the names in the list")]
        use crate::{node::*, papers::*};
        macro_rules! name {
            ($type:ty) => {
                name::<$type, M>();
            };
        }
        layouts!(each!(all name;));
    }
}
