//! What transactions, batches and snapshots do with a tree, in numbers.

use crate::trees::{Any, Bounds, Held, Of, Tree};
use bristlecone::{ByteLeaf, Key, Map, OneLine, PTree, Result, Snapshot, Table, Transaction, WriteBatch};

/// A tree that takes part in transactions and snapshots.
pub(crate) trait Tabled: Tree {
    fn get_in<'t>(&'t self, transaction: &mut Transaction<'t, Any>, key: u64) -> Result<Option<u64>>;
    fn contains_in<'t>(&'t self, transaction: &mut Transaction<'t, Any>, key: u64) -> Result<bool>;
    /// Entries in order, read from either end.
    fn range_in<'t>(
        &'t self,
        transaction: &mut Transaction<'t, Any>,
        bounds: Bounds,
        from_left: bool,
    ) -> Result<Vec<(u64, u64)>>;
    /// Sets the value of a key, or removes it.
    fn put_in<'t>(&'t self, transaction: &mut Transaction<'t, Any>, key: u64, value: Option<u64>) -> Result<()>;
    fn put_in_batch<'t>(&'t self, batch: &mut WriteBatch<'t, Any>, key: u64, value: Option<u64>) -> Result<()>;
    fn get_at(&self, snapshot: &Snapshot<Any>, key: u64) -> Result<Option<u64>>;
    /// Entries in order, read from either end.
    fn range_at(&self, snapshot: &Snapshot<Any>, bounds: Bounds, from_left: bool) -> Result<Vec<(u64, u64)>>;
    fn len_at(&self, snapshot: &Snapshot<Any>) -> Result<u64>;
}

/// A table whose keys stand for numbers.
pub(crate) trait Coded: Tree {
    type Table: Table<Any, Value: Held>;

    fn table(&self) -> &Self::Table;
    fn key(&self, number: u64) -> <<Self::Table as Table<Any>>::Key as Key>::Borrowed<'_>;
    fn number(&self, key: <Self::Table as Table<Any>>::Key) -> u64;
}

impl Coded for PTree<OneLine<7>, Any> {
    type Table = Self;

    fn table(&self) -> &Self {
        self
    }

    fn key(&self, number: u64) -> u64 {
        number
    }

    fn number(&self, key: u64) -> u64 {
        key
    }
}

impl Coded for Of<Map<u64, Vec<u8>, OneLine<7>, Any>> {
    type Table = Map<u64, Vec<u8>, OneLine<7>, Any>;

    fn table(&self) -> &Self::Table {
        &self.map
    }

    fn key(&self, number: u64) -> u64 {
        number
    }

    fn number(&self, key: u64) -> u64 {
        key
    }
}

impl<V: Held> Coded for Of<Map<Vec<u8>, V, ByteLeaf<4>, Any>> {
    type Table = Map<Vec<u8>, V, ByteLeaf<4>, Any>;

    fn table(&self) -> &Self::Table {
        &self.map
    }

    fn key(&self, number: u64) -> &[u8] {
        self.strings.string(number)
    }

    fn number(&self, key: Vec<u8>) -> u64 {
        self.strings.number(&key)
    }
}

type ValueOf<C> = <<C as Coded>::Table as Table<Any>>::Value;

/// Reads all entries from one end; returns them in order.
fn read<C: Coded>(
    coded: &C,
    mut entries: impl DoubleEndedIterator<Item = Result<(<C::Table as Table<Any>>::Key, ValueOf<C>)>>,
    from_left: bool,
) -> Result<Vec<(u64, u64)>> {
    let mut read = Vec::new();
    while let Some(entry) = if from_left { entries.next() } else { entries.next_back() } {
        let (key, value) = entry?;
        read.push((coded.number(key), value.number()));
    }
    if !from_left {
        read.reverse();
    }
    Ok(read)
}

impl<C: Coded> Tabled for C {
    fn get_in<'t>(&'t self, transaction: &mut Transaction<'t, Any>, key: u64) -> Result<Option<u64>> {
        Ok(transaction.get(self.table(), self.key(key))?.map(|value| value.number()))
    }

    fn contains_in<'t>(&'t self, transaction: &mut Transaction<'t, Any>, key: u64) -> Result<bool> {
        transaction.contains_key(self.table(), self.key(key))
    }

    fn range_in<'t>(
        &'t self,
        transaction: &mut Transaction<'t, Any>,
        (from, to): Bounds,
        from_left: bool,
    ) -> Result<Vec<(u64, u64)>> {
        let bounds = (from.map(|key| self.key(key)), to.map(|key| self.key(key)));
        read(self, transaction.range(self.table(), bounds)?, from_left)
    }

    fn put_in<'t>(&'t self, transaction: &mut Transaction<'t, Any>, key: u64, value: Option<u64>) -> Result<()> {
        match value.map(ValueOf::<C>::of) {
            Some(value) => transaction.insert(self.table(), self.key(key), value.held()),
            None => transaction.remove(self.table(), self.key(key)),
        }
    }

    fn put_in_batch<'t>(&'t self, batch: &mut WriteBatch<'t, Any>, key: u64, value: Option<u64>) -> Result<()> {
        match value.map(ValueOf::<C>::of) {
            Some(value) => batch.insert(self.table(), self.key(key), value.held()),
            None => batch.remove(self.table(), self.key(key)),
        }
    }

    fn get_at(&self, snapshot: &Snapshot<Any>, key: u64) -> Result<Option<u64>> {
        Ok(snapshot.get(self.table(), self.key(key))?.map(|value| value.number()))
    }

    fn range_at(&self, snapshot: &Snapshot<Any>, (from, to): Bounds, from_left: bool) -> Result<Vec<(u64, u64)>> {
        let bounds = (from.map(|key| self.key(key)), to.map(|key| self.key(key)));
        read(self, snapshot.range(self.table(), bounds)?, from_left)
    }

    fn len_at(&self, snapshot: &Snapshot<Any>) -> Result<u64> {
        snapshot.len(self.table())
    }
}
