//! What a compaction has done.

/// What [`Pool::compact`](crate::Pool::compact) has moved, and given back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The number of trees that were compacted.
    pub trees: u64,
    /// The number of leaves that were moved.
    pub leaves: u64,
    /// The number of nodes of persistent indexes that were moved.
    pub inner_nodes: u64,
    /// The number of records that were moved.
    pub records: u64,
    /// Bytes of these leaves, nodes and records.
    pub bytes: u64,
    /// The number of segments that became empty and went back to the pool.
    pub segments: u64,
    /// The names of trees that are closed, and whose types the pool does not know. Open them first.
    pub skipped: Vec<String>,
}

impl Compacted {
    /// Adds what was done in another tree.
    pub(crate) fn add(&mut self, other: Self) {
        self.trees += other.trees;
        self.leaves += other.leaves;
        self.inner_nodes += other.inner_nodes;
        self.records += other.records;
        self.bytes += other.bytes;
        self.segments += other.segments;
        self.skipped.extend(other.skipped);
    }
}
