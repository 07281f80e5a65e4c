//! Writes that happen together, without reads.

use super::Transaction;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::map::table::{Table, TableKey, ValueOf};
use crate::medium::{Mapped, Medium};
use crate::pool::Pool;

/// Writes over any trees and maps of a pool that happen together or not at all: a [`Transaction`] that reads nothing,
/// and so is never in conflict.
///
/// The last of several writes to a key counts.
///
/// # Crash consistency
///
/// Durable when [`commit`](Self::commit) returns. In flight at a crash: all writes, or none. Nobody sees a part of
/// them.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use bristlecone::{Map, Pool};
///
/// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a.pool"))?;
/// let names: Map<u64, String> = pool.map("names")?;
/// let ids: Map<String, u64> = pool.map("ids")?;
///
/// let mut batch = pool.batch();
/// for (id, name) in [(1, "ada"), (2, "bob")] {
///     batch.insert(&names, id, name)?;
///     batch.insert(&ids, name, id)?;
/// }
/// batch.commit()?;
/// assert_eq!((names.len(), ids.get("bob")?), (2, Some(2)));
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Debug)]
pub struct WriteBatch<'t, M: Medium = Mapped>(Transaction<'t, M>);

impl<M: Medium> Pool<M> {
    /// Begins a [batch](WriteBatch) of writes. It does nothing unless it is [committed](WriteBatch::commit).
    pub fn batch(&self) -> WriteBatch<'_, M> {
        WriteBatch(self.begin())
    }
}

impl<'t, M: Medium> WriteBatch<'t, M> {
    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// As [`Transaction::insert`].
    pub fn insert<T: Table<M>>(
        &mut self,
        table: &'t T,
        key: TableKey<'_, T, M>,
        value: ValueOf<'_, T, M>,
    ) -> Result<()> {
        self.0.insert(table, key, value)
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    ///
    /// As [`Transaction::remove`].
    pub fn remove<T: Table<M>>(&mut self, table: &'t T, key: TableKey<'_, T, M>) -> Result<()> {
        self.0.remove(table, key)
    }

    /// The number of keys that are written.
    pub fn len(&self) -> usize {
        self.0.writes()
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes all writes at once.
    ///
    /// # Errors
    ///
    /// As [`Transaction::commit`]; never [`ErrorKind::Conflict`].
    ///
    /// # Complexity
    ///
    /// As [`Transaction::commit`].
    pub fn commit(self) -> Result<()> {
        self.0.commit()
    }
}
