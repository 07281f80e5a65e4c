//! The kinds of index that a tree may have above its leaves.

/// Where a tree keeps the levels above its leaves.
///
/// It is chosen when a tree is created, and written into the pool: [`Pool::tree_with`](crate::Pool::tree_with).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// In DRAM: nothing above the leaves is flushed. It is stored by an orderly close, and rebuilt from the leaves after a
    /// crash.
    Volatile = 1,
    /// In the pool, in nodes of a sorted layout, as in Circ-Tree and FAST+FAIR: splits write it durably, and after a crash it
    /// is repaired bottom-up instead of rebuilt.
    Persistent = 2,
    /// In DRAM, in nodes without pointers, as in NV-Tree: where a node is follows from its number. A leaf is added to its
    /// parent without moving anything else; when a parent is full, all nodes above the leaves are built anew, and parents
    /// that took more leaves than others are made larger.
    ///
    /// It takes more memory than [`Volatile`](Self::Volatile): 1 KiB for each leaf when it is built, and twice that when it
    /// was built anew.
    ///
    /// Source: Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-Adaptive Tree Structure for Non-Volatile
    /// Memory", IEEE Transactions on Computers 65 (2016).
    Flat = 3,
    /// As [`Flat`](Self::Flat), with parents of one size whatever the load: NV-Tree without being adaptive.
    FlatFixed = 4,
}

impl IndexKind {
    /// All of them.
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

    /// The kind with this tag in the pool; `None` if there is none.
    pub(crate) fn of(tag: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u16 == tag)
    }
}
