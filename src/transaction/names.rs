//! Names of trees in transactions.

use super::Transaction;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::medium::Medium;
#[cfg(doc)]
use crate::pool::Pool;
use crate::pool::naming::NameChange;
use crate::pool::roots::check_name;

impl<M: Medium> Transaction<'_, M> {
    /// Gives a tree or map another name, when the transaction is committed.
    ///
    /// Handles, iterators and snapshots stay with the tree, whatever it is called. To create a tree in a transaction,
    /// create it under a name of its own before, fill it, and rename it in the transaction: until then, nobody takes it
    /// for what it is going to be.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TreeName`]. [`commit`](Self::commit) returns [`ErrorKind::NoSuchTree`] and
    /// [`ErrorKind::TreeExists`]; the names of several changes are looked at in the order of these.
    ///
    /// # Examples
    ///
    /// A table is replaced by a new one, while others go on reading the old one:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use bristlecone::{Map, Pool};
    ///
    /// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a.pool"))?;
    /// let old: Map<String, u64> = pool.map("prices")?;
    /// old.insert("apple", 1)?;
    ///
    /// let new: Map<String, u64> = pool.map("prices of tomorrow")?;
    /// new.bulk_load([("apple", 2), ("pear", 3)])?;
    /// pool.transaction(|tx| tx.swap_trees("prices", "prices of tomorrow"))?;
    /// assert_eq!((old.name(), new.name()), ("prices of tomorrow".to_owned(), "prices".to_owned()));
    ///
    /// drop(old);
    /// pool.drop_tree("prices of tomorrow")?;
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn rename_tree(&mut self, from: &str, to: &str) -> Result<()> {
        self.change_names([from, to], |[from, to]| NameChange::Rename(from, to))
    }

    /// Exchanges the names of two trees or maps, of whatever kinds, when the transaction is committed. As
    /// [`rename_tree`](Self::rename_tree).
    ///
    /// # Errors
    ///
    /// As [`rename_tree`](Self::rename_tree).
    pub fn swap_trees(&mut self, one: &str, other: &str) -> Result<()> {
        self.change_names([one, other], |[one, other]| NameChange::Swap(one, other))
    }

    /// Deletes a tree or map, when the transaction is committed. As [`Pool::drop_tree`].
    ///
    /// # Errors
    ///
    /// As [`rename_tree`](Self::rename_tree); `commit` also returns [`ErrorKind::StillOpen`].
    pub fn drop_tree(&mut self, name: &str) -> Result<()> {
        self.change_names([name], |[name]| NameChange::Drop(name))
    }

    fn change_names<const N: usize>(
        &mut self,
        names: [&str; N],
        change: impl FnOnce([String; N]) -> NameChange,
    ) -> Result<()> {
        self.pool.named(names.iter().try_for_each(|name| check_name(name)))?;
        self.names.push(change(names.map(str::to_owned)));
        Ok(())
    }
}
