//! The kinds of index that a tree may have above its leaves.

/// Where a tree keeps the levels above its leaves.
///
/// It is chosen when a tree is created, and written to the pool: [`Pool::tree_with`](crate::Pool::tree_with).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexKind {
    /// In DRAM: nothing above the leaves is flushed. An orderly close stores it, and after a crash it is rebuilt from
    /// the leaves.
    Volatile = 1,
    /// In the pool, in nodes of a sorted layout, as in Circ-Tree and FAST+FAIR: splits write to it durably, and after a
    /// crash it is repaired bottom-up instead of being rebuilt.
    Persistent = 2,
    /// In DRAM, in nodes without pointers, as in NV-Tree: the position of a node follows from its number. A leaf is
    /// added to its parent without moving anything else. When a parent is full, all nodes above the leaves are rebuilt,
    /// and parents that took more leaves than others become larger.
    ///
    /// It takes more memory than [`Volatile`](Self::Volatile): 1 KiB for each leaf when it is first built, and twice
    /// that after it was rebuilt.
    ///
    /// Source: Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-Adaptive Tree Structure for
    /// Non-Volatile Memory", IEEE Transactions on Computers 65 (2016).
    Flat = 3,
    /// As [`Flat`](Self::Flat), but all parents always have the same size: NV-Tree without being adaptive.
    FlatFixed = 4,
}

impl IndexKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Volatile, Self::Persistent, Self::Flat, Self::FlatFixed];

    /// The name in messages and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Volatile => "volatile",
            Self::Persistent => "persistent",
            Self::Flat => "flat",
            Self::FlatFixed => "flat_fixed",
        }
    }

    /// The kind with this tag in the pool; `None` if no kind has it.
    pub(crate) fn from_tag(tag: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u16 == tag)
    }
}
