//! Descriptions of pools and trees, for reports.

use crate::medium::Domain;
use std::borrow::Cow;

/// A description of an open pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The path, or the medium's name.
    pub name: String,
    /// A number that no other pool has.
    pub uuid: [u64; 2],
    /// The on-media format.
    pub format: u64,
    /// The most bytes that the pool may take; 2^47 if it has no limit.
    pub capacity: u64,
    /// Bytes in a segment.
    pub segment: u64,
    /// Bytes that it takes: the header, and what its trees have.
    pub used: u64,
    /// Bytes that it may take beside these: what is left of the capacity. The disk may have fewer, and so may the
    /// addresses of the process, which the pool takes as it grows; see
    /// [`Options::addresses`](crate::Options::addresses).
    pub available: u64,
    /// The number of times that the pool was opened for writing.
    pub boots: u64,
    /// Whether the pool had been closed in order before this open.
    pub was_clean: bool,
    /// Whether the machine went down, or the disk failed, before all changes were on the disk. Such a pool only opens
    /// for reading, or [after a check](crate::Options::open_after_power_loss).
    pub power_loss: bool,
    /// The offset of a copy of the superblock that was damaged, or torn by a crash, when the pool was opened. The other
    /// one was whole, and an open for writing has written both anew.
    pub damaged_twin: Option<u64>,
    /// The durability domain, which says which crashes changes survive.
    pub durability: Domain,
}

/// A description of a tree in a pool, which is available without opening the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeInfo {
    /// Its name.
    pub name: String,
    /// Its node layout, with the number of slots, as in "circular/32".
    pub layout: String,
    /// The number of slots in a node.
    pub slots: u32,
    /// Its kind of index.
    pub index: &'static str,
    /// The kind of the keys, as in "string"; one with a [name of its own](crate::codec::Kind::own) as in "email
    /// (string)".
    pub keys: Cow<'static, str>,
    /// The kind of the values.
    pub values: Cow<'static, str>,
    /// What the keys are stored as: their kind, without a name of its own.
    pub stored_keys: Cow<'static, str>,
    /// What the values are stored as.
    pub stored_values: Cow<'static, str>,
    /// Bytes of all segments that belong to the tree.
    pub bytes: u64,
    /// Whether its close record is valid.
    pub closed: bool,
}
