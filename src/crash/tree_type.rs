//! The trees that are crashed: a tree of numbers, or one whose values are records.

use super::byte_keys::{KeyShape, Shaped};
use super::campaign::Campaign;
use super::history::{batch, bulk};
use crate::error::{Error, ErrorKind, Result};
use crate::map::Map;
use crate::medium::Sim;
use crate::node::{ByteLeaf, IndexKind, WordNode};
use crate::pool::Pool;
use crate::tree::{PTree, Report};

/// The name of the tree.
pub(super) const TREE: &str = "t";

/// The values of the tree under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Numbers, in the slots.
    Numbers,
    /// Byte strings, in records of all sizes.
    Records,
}

/// An open tree of any kind. Values are numbers in the model.
pub(super) trait AnyTree {
    /// True if the key had a value.
    fn insert(&self, key: u64, value: u64) -> Result<bool>;
    /// True if the key had a value.
    fn remove(&self, key: u64) -> Result<bool>;
    fn get(&self, key: u64) -> Result<Option<u64>>;
    fn entries(&self, reverse: bool) -> Result<Vec<(u64, u64)>>;
    fn clear(&self) -> Result<()>;
    fn bulk_load(&self, n: u64) -> Result<u64>;
    fn insert_batch(&self, n: u64) -> Result<()>;
    fn check(&self) -> Report;
}

type Open = fn(&Pool<Sim>, &TreeType) -> Result<Box<dyn AnyTree>>;

/// A kind of tree. The rest of the checker does not know its types, so it is compiled once.
#[derive(Clone, Copy)]
pub struct TreeType {
    /// How many entries fit into a leaf.
    pub(super) slots: u64,
    open: Open,
    index: IndexKind,
    keys: KeyShape,
}

/// A layout of leaves of which the checker makes trees.
pub trait Crashed {
    /// The kind of tree with these leaves.
    #[doc(hidden)]
    fn tree_type(index: IndexKind, values: Values, keys: KeyShape) -> TreeType;
}

impl<N: WordNode> Crashed for N {
    fn tree_type(index: IndexKind, values: Values, keys: KeyShape) -> TreeType {
        let open: Open = match values {
            Values::Numbers => |pool, tree| Ok(Box::new(pool.tree_with::<N>(TREE, tree.index)?)),
            Values::Records => |pool, tree| Ok(Box::new(pool.map_with::<u64, Vec<u8>, N>(TREE, tree.index)?)),
        };
        TreeType { slots: N::SLOTS as u64, open, index, keys }
    }
}

impl<const SLOTS: usize> Crashed for ByteLeaf<SLOTS> {
    fn tree_type(index: IndexKind, values: Values, keys: KeyShape) -> TreeType {
        let open: Open = match values {
            Values::Numbers => |pool, tree| {
                Ok(Box::new(Shaped::<u64, SLOTS> { map: pool.map_with(TREE, tree.index)?, shape: tree.keys }))
            },
            Values::Records => |pool, tree| {
                Ok(Box::new(Shaped::<Vec<u8>, SLOTS> { map: pool.map_with(TREE, tree.index)?, shape: tree.keys }))
            },
        };
        TreeType { slots: SLOTS as u64, open, index, keys }
    }
}

impl TreeType {
    /// The kind of tree that a campaign is about.
    pub(super) fn of<N: Crashed>(campaign: &Campaign) -> Self {
        N::tree_type(campaign.index, campaign.values, campaign.keys)
    }

    /// Opens the tree, or creates it.
    pub(super) fn open(&self, pool: &Pool<Sim>) -> Result<Box<dyn AnyTree>> {
        (self.open)(pool, self)
    }
}

/// Numbers in the slots.
impl<N: WordNode> AnyTree for PTree<N, Sim> {
    fn insert(&self, key: u64, value: u64) -> Result<bool> {
        Ok(self.insert(key, value)?.is_some())
    }

    fn remove(&self, key: u64) -> Result<bool> {
        Ok(self.remove(key)?.is_some())
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.get(key))
    }

    fn entries(&self, reverse: bool) -> Result<Vec<(u64, u64)>> {
        Ok(if reverse { self.iter().rev().collect() } else { self.iter().collect() })
    }

    fn clear(&self) -> Result<()> {
        self.clear()
    }

    fn bulk_load(&self, n: u64) -> Result<u64> {
        self.bulk_load(bulk(n))
    }

    fn insert_batch(&self, n: u64) -> Result<()> {
        self.insert_batch(&batch(n).collect::<Vec<_>>()).map(drop)
    }

    fn check(&self) -> Report {
        self.check()
    }
}

/// The error for bytes that are not whole.
pub(super) fn torn() -> Error {
    Error::new("simulated", ErrorKind::Corrupt { at: 0, invariant: "V2: a torn record" })
}

/// A record for a number: of different classes, of several lines, or with segments of its own.
pub(super) fn record(value: u64) -> Vec<u8> {
    const LENGTHS: [usize; 5] = [8, 24, 60, 200, 2600];
    let len = LENGTHS[(value % LENGTHS.len() as u64) as usize];
    let mut bytes = value.to_le_bytes().repeat(len.div_ceil(8));
    bytes.truncate(len);
    bytes
}

/// The number of a record; an error for bytes that are not such a record.
pub(super) fn number(record_found: &[u8]) -> Result<u64> {
    let value = record_found.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    value.filter(|&value| record(value) == record_found).ok_or_else(torn)
}

/// Records that the slots point to.
impl<N: WordNode> AnyTree for Map<u64, Vec<u8>, N, Sim> {
    fn insert(&self, key: u64, value: u64) -> Result<bool> {
        self.insert(key, &record(value))
    }

    fn remove(&self, key: u64) -> Result<bool> {
        self.remove(key)
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.get(key)?.map(|bytes| number(&bytes)).transpose()
    }

    fn entries(&self, reverse: bool) -> Result<Vec<(u64, u64)>> {
        let entry = |entry: Result<(u64, Vec<u8>)>| entry.and_then(|(key, bytes)| Ok((key, number(&bytes)?)));
        if reverse { self.iter().rev().map(entry).collect() } else { self.iter().map(entry).collect() }
    }

    fn clear(&self) -> Result<()> {
        self.clear()
    }

    fn bulk_load(&self, n: u64) -> Result<u64> {
        let entries: Vec<(u64, Vec<u8>)> = bulk(n).map(|(key, value)| (key, record(value))).collect();
        self.bulk_load(entries.iter().map(|(key, bytes)| (*key, &bytes[..])))
    }

    /// Maps have no batches, so entries are inserted one after the other. A crash leaves fewer states than a batch may.
    fn insert_batch(&self, n: u64) -> Result<()> {
        batch(n).try_for_each(|(key, value)| self.insert(key, &record(value)).map(drop))
    }

    fn check(&self) -> Report {
        self.check()
    }
}
