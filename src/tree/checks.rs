//! Checking pools, and the checks that a program has: what checks a tree is compiled for each layout, so a program has
//! only the checks of the layouts that it names, beside some that every program has.
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
use super::describe::describe;
use crate::error::{Fault, Result};
use crate::medium::Medium;
use crate::node::{IndexKind, Keys};
use crate::papers::registry::{foreign, layouts};
use crate::pool::roots::Root;
use crate::pool::segments::SegmentKind;
use crate::pool::{Pool, PoolState, Report};
use parking_lot::RwLock;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The check of trees of one type.
struct Check<M: Medium> {
    run: fn(&Arc<PoolState<M>>, Root, IndexKind, &mut Report),
    /// See [`TreeNode::inner_bytes`].
    inner_bytes: Option<u64>,
}

impl<M: Medium> Clone for Check<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for Check<M> {}

/// A medium, and a layout: its tag, the hash of its name if it is not the crate's, and its slots. Types with one key
/// may differ in the sizes of their inner nodes.
type Key = (TypeId, u16, Option<u64>, u32);

/// The types that were named, each with a [`Check`].
type Named = HashMap<Key, Vec<(TypeId, Box<dyn Any + Send + Sync>)>>;

static NAMED: LazyLock<RwLock<Named>> = LazyLock::new(RwLock::default);

/// Names a layout: from now on, trees of it are checked.
pub(crate) fn name<N: TreeNode, M: Medium>() {
    // One that cannot be opened needs no check.
    let Ok(foreign) = foreign::<N>() else { return };
    let key = (TypeId::of::<M>(), N::LAYOUT, foreign, N::SLOTS as u32);
    let is_named =
        |named: &Named| named.get(&key).is_some_and(|types| types.iter().any(|(of, _)| *of == TypeId::of::<N>()));
    if is_named(&NAMED.read()) {
        return;
    }
    let mut named = NAMED.write();
    if !is_named(&named) {
        named.entry(key).or_default().push((TypeId::of::<N>(), Box::new(check_of::<N, M>())));
    }
}

/// The check for a tree; `None` if the program has none.
fn find<M: Medium>(pool: &PoolState<M>, root: Root, index: IndexKind) -> Option<Check<M>> {
    let of = root.signature(&pool.medium);
    let fits = |check: &Check<M>| {
        index != IndexKind::Persistent || check.inner_bytes.is_some_and(|bytes| may_have(pool, root, bytes))
    };
    let always = of.known().and_then(|layout| {
        #[allow(clippy::wildcard_imports, reason = "the names in the list")]
        use crate::{node::*, papers::*};
        macro_rules! if_it_is {
            ($type:ty) => {
                if layout == (<$type as Node>::LAYOUT, <$type as Node>::SLOTS) {
                    return Some(check_of::<$type, M>());
                }
            };
        }
        layouts!(each!(always if_it_is;));
        None
    });
    let key = (TypeId::of::<M>(), of.layout, of.foreign, of.slots);
    always.filter(fits).or_else(|| {
        let named = NAMED.read();
        named.get(&key)?.iter().filter_map(|(_, check)| check.downcast_ref().copied()).find(fits)
    })
}

/// Whether the inner nodes of a tree's index may have so many bytes: the block at its root says how many they have,
/// unless there is none, or it is no inner node of the tree, which a check reports.
fn may_have<M: Medium>(pool: &PoolState<M>, root: Root, bytes: u64) -> bool {
    let segments = &pool.segments;
    let top = segments.holding(root.index(&pool.medium)).and_then(|segment| segments.entry(segment));
    top.is_none_or(|top| top.kind != SegmentKind::Inner || top.tree != root.slot || u64::from(top.unit) == bytes)
}

fn check_of<N: TreeNode, M: Medium>() -> Check<M> {
    Check { run: check::<N, M>, inner_bytes: N::inner_bytes() }
}

fn check<N: TreeNode, M: Medium>(pool: &Arc<PoolState<M>>, root: Root, index: IndexKind, report: &mut Report) {
    let values = root.signature(&pool.medium).kinds.values;
    check_tree::<N, M>(pool, root, index, crate::entry::kind::is_record(values) || N::Keys::HAS_RECORDS, report);
}

impl<M: Medium> Pool<M> {
    /// Checks the trees of the pool. It changes nothing.
    ///
    /// It knows the default layouts, and [`CircTree`](crate::papers::CircTree),
    /// [`FastFairBinary`](crate::papers::FastFairBinary), these two with sentinels, and
    /// [`CrabTree`](crate::papers::CrabTree) with its options. Beside them, it knows every layout of which this process
    /// has opened a tree, in whatever pool, and those that it has [named](Self::name_layout). Other trees are
    /// [listed](Report::unchecked), and then the report is not [clean](Report::is_clean).
    ///
    /// It also looks at both [copies of the superblock](Report::damaged_twin), of which an open reads only one, and of
    /// the [header of a journal's log](Report::damaged_log_twin).
    ///
    /// It is meant for pools that are open for reading only, or for trees that are not being written to. After a crash,
    /// it sees what the crash left, unless a tree has been opened: then it sees what that has repaired, with
    /// `read_only` in memory.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) if not even the root entries can be read.
    pub fn check(&self) -> Result<Report> {
        self.state.named(self.check_all())
    }

    pub(super) fn check_all(&self) -> Result<Report, Fault> {
        let _walk = self.state.walked.read();
        let journal = self.state.medium.journal_stat().filter(|_| self.state.is_looked_at());
        let mut report = Report {
            damaged_twin: self.state.damaged_twin(),
            damaged_log_twin: journal.and_then(|stat| stat.recovered.damaged_twin),
            ..Report::default()
        };
        for root in self.state.live_roots()? {
            self.check_root(root, &mut report);
        }
        Ok(report)
    }

    /// Checks one tree, as [`check`](Self::check) does.
    ///
    /// # Errors
    ///
    /// [`NoSuchTree`](crate::ErrorKind::NoSuchTree); [`Corrupt`](crate::ErrorKind::Corrupt) if not even the root
    /// entries can be read.
    pub fn check_tree(&self, name: &str) -> Result<Report> {
        let _walk = self.state.walked.read();
        let mut report = Report::default();
        let root = self.state.named(self.state.find(name))?;
        self.check_root(root, &mut report);
        Ok(report)
    }

    fn check_root(&self, root: Root, report: &mut Report) {
        let state = &self.state;
        let index = IndexKind::from_tag(root.signature(&state.medium).index);
        match index.and_then(|index| Some((find(state, root, index)?, index))) {
            Some((check, index)) => {
                (check.run)(state, root, index, report);
                report.trees += 1;
            }
            None => report.unchecked.push(describe(state, root)),
        }
    }

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
