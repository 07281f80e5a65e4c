//! What a pool and its trees are, for reports.

use crate::medium::Domain;

/// What an open pool is, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The path, or the medium's name.
    pub name: String,
    /// A number that no other pool has.
    pub uuid: [u64; 2],
    /// The on-media format.
    pub format: u64,
    /// Bytes there may be.
    pub capacity: u64,
    /// Bytes in a segment.
    pub segment: u64,
    /// Bytes not yet given to a tree.
    pub available: u64,
    /// How often the pool was opened for writing.
    pub boots: u64,
    /// Whether it had been closed in order before this open.
    pub was_clean: bool,
    /// Whether the machine went down before all changes were on the disk: the pool opens for reading only, or
    /// [after a check](crate::Options::open_after_power_loss).
    pub power_loss: bool,
    /// What a crash takes away.
    pub durability: Domain,
}

/// What a tree in a pool is, without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeInfo {
    /// Its name.
    pub name: String,
    /// Its node layout, with the number of slots, as in "circular/32".
    pub layout: String,
    /// The slots of a node.
    pub slots: u32,
    /// Its kind of index.
    pub index: &'static str,
    /// What the keys are.
    pub keys: &'static str,
    /// What the values are.
    pub values: &'static str,
    /// Bytes of segments it has.
    pub bytes: u64,
    /// Whether its close record is valid.
    pub closed: bool,
}
