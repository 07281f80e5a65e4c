//! redb: a copy-on-write B+-tree.

use super::store::Store;
use crate::out::Outcome;
use redb::{Database, Durability, ReadableDatabase, Table, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("bench");

pub(crate) struct Redb(Database);

impl Redb {
    fn write(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Table<'_, u64, u64>) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(durability)?;
        change(&mut transaction.open_table(TABLE)?)?;
        Ok(transaction.commit()?)
    }
}

impl Store for Redb {
    fn open(directory: &Path) -> Outcome<Self> {
        let redb = Self(Database::create(directory.join("redb"))?);
        // Readers expect the table to exist.
        redb.sync()?;
        Ok(redb)
    }

    fn put(&self, key: u64, value: u64) -> Outcome<()> {
        self.put_all(&[(key, value)])
    }

    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        Ok(self.0.begin_read()?.open_table(TABLE)?.get(key)?.map(|value| value.value()))
    }

    fn remove(&self, key: u64) -> Outcome<()> {
        self.write(Durability::None, |table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Outcome<()> {
        for entry in self.0.begin_read()?.open_table(TABLE)?.range(from..)? {
            let (key, value) = entry?;
            if !each(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        self.write(Durability::None, |table| {
            for &(key, value) in entries {
                table.insert(key, value)?;
            }
            Ok(())
        })
    }

    fn sync(&self) -> Outcome<()> {
        // Earlier commits become durable with this one.
        self.write(Durability::Immediate, |_| Ok(()))
    }

    fn get_all(&self, keys: &[u64]) -> Outcome<Vec<Option<u64>>> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        keys.iter().map(|key| Ok(table.get(key)?.map(|value| value.value()))).collect()
    }
}
