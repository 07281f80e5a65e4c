//! What a check found.

use super::TreeInfo;
use crate::error::Broken;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The number of trees that were checked.
    pub trees: u64,
    /// The number of leaves that were checked.
    pub leaves: u64,
    /// The number of entries found.
    pub entries: u64,
    /// The number of levels that a search passes, including the leaves; for several trees, the greatest. An index in
    /// memory is taken as an open builds it.
    pub height: u64,
    /// Bytes of memory that open trees need at least, once all leaves were read: the shadows of the leaves in use, and
    /// an index in memory, as an open builds it. What an open tree really takes is
    /// [`PTree::memory`](crate::PTree::memory).
    pub memory: u64,
    /// The number of leaves with the trace of an interrupted shift. This is legal, and the next open for writing
    /// finishes it.
    pub unfinished: u64,
    /// The offset of the copy of the superblock that is damaged, or was torn by a crash. The other one is whole, and
    /// the next open for writing writes both anew; but if that is damaged before, the pool is lost.
    /// [`Pool::check`](crate::Pool::check) looks.
    pub damaged_twin: Option<u64>,
    /// The offset, in the log of a pool with a journal, of the copy of its header that is damaged. The other one is
    /// whole, and the next open for writing writes both anew. [`Pool::check`](crate::Pool::check) looks, in a pool that
    /// is open for reading only: any other one has been written to.
    pub damaged_log_twin: Option<u64>,
    /// Every broken invariant, with its offset.
    pub violations: Vec<Broken>,
    /// Trees that were not checked, because this program has no check for their layout with this number of slots:
    /// [`Pool::check`](crate::Pool::check) says which it has. [Name](crate::Pool::name_layout) the layouts before, open
    /// the trees with their types, or let `bristlecone check` look, which has the checks of all layouts of this crate.
    pub unchecked: Vec<TreeInfo>,
}

/// What a [report](Report::verdict) comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// All was checked, and no invariant is broken.
    Clean,
    /// No invariant is broken in what was checked, and not all was checked: see [`Report::unchecked`].
    Unchecked,
    /// An invariant is broken.
    Damaged,
}

impl Report {
    /// What the report comes to.
    pub fn verdict(&self) -> Verdict {
        match (self.violations.is_empty(), self.unchecked.is_empty()) {
            (true, true) => Verdict::Clean,
            (true, false) => Verdict::Unchecked,
            (false, _) => Verdict::Damaged,
        }
    }

    /// Whether all was checked, and no invariant is broken.
    pub fn is_clean(&self) -> bool {
        self.verdict() == Verdict::Clean
    }

    pub(crate) fn add(&mut self, broken: Broken) {
        // A damaged pool can break one invariant in every slot, and nobody reads more than this many.
        if self.violations.len() < 1000 {
            self.violations.push(broken);
        }
    }
}
