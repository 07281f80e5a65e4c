//! redb: a copy-on-write B+-tree.

use super::store::{Store, Transacting, Wait};
use crate::conflict::plus_one;
use crate::entry::{Bytes, Entry, Words};
use crate::out::Outcome;
use redb::{Database, Durability, Key, ReadableDatabase, ReadableTable, Table, TableDefinition, Value};
use std::path::Path;

/// Entries as redb keeps them.
pub(crate) trait Column: Entry {
    type K: Key + 'static;
    type V: Value + 'static;

    fn to_key<'e>(key: &'e Self::Key<'_>) -> <Self::K as Value>::SelfType<'e>;
    fn to_value<'e>(value: &'e Self::Value<'_>) -> <Self::V as Value>::SelfType<'e>;
    fn of_key<'e>(key: &'e <Self::K as Value>::SelfType<'_>) -> Self::Key<'e>;
    fn of_value<'e>(value: &'e <Self::V as Value>::SelfType<'_>) -> Self::Value<'e>;
}

impl Column for Words {
    type K = u64;
    type V = u64;

    fn to_key(&key: &u64) -> u64 {
        key
    }

    fn to_value(&value: &u64) -> u64 {
        value
    }

    fn of_key(&key: &u64) -> u64 {
        key
    }

    fn of_value(&value: &u64) -> u64 {
        value
    }
}

impl Column for Bytes {
    type K = &'static [u8];
    type V = &'static [u8];

    fn to_key<'e>(key: &'e &[u8]) -> &'e [u8] {
        key
    }

    fn to_value<'e>(value: &'e &[u8]) -> &'e [u8] {
        value
    }

    fn of_key<'e>(key: &'e &[u8]) -> &'e [u8] {
        key
    }

    fn of_value<'e>(value: &'e &[u8]) -> &'e [u8] {
        value
    }
}

fn table<E: Column>() -> TableDefinition<'static, E::K, E::V> {
    TableDefinition::new("bench")
}

pub(crate) struct Redb(Database);

impl Redb {
    fn write<E: Column>(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Table<'_, E::K, E::V>) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(durability)?;
        change(&mut transaction.open_table(table::<E>())?)?;
        Ok(transaction.commit()?)
    }

    fn put_with<E: Column>(&self, durability: Durability, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.write::<E>(durability, |table| {
            for (key, value) in entries {
                table.insert(E::to_key(key), E::to_value(value))?;
            }
            Ok(())
        })
    }
}

impl Transacting for Redb {
    fn add_one(&self, [first, second]: [u64; 2]) -> Outcome<()> {
        self.write::<Words>(Durability::None, |table| {
            let found = [first, second].map(|key| Ok(table.get(key)?.map(|counter| counter.value())));
            let [one, other]: [Outcome<_>; 2] = found;
            table.insert(first, plus_one(one?))?;
            table.insert(second, plus_one(other?))?;
            Ok(())
        })
    }
}

impl<E: Column> Store<E> for Redb {
    fn open(directory: &Path, _wait: Wait) -> Outcome<Self> {
        let redb = Self(Database::create(directory.join("redb"))?);
        // Readers expect the table to exist.
        Store::<E>::sync(&redb)?;
        Ok(redb)
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        Store::<E>::put_all(self, &[(key, value)])
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        let table = self.0.begin_read()?.open_table(table::<E>())?;
        Ok(table.get(E::to_key(&key))?.map(|value| E::read(E::of_value(&value.value()))))
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        self.write::<E>(Durability::None, |table| {
            table.remove(E::to_key(&key))?;
            Ok(())
        })
    }

    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        for entry in self.0.begin_read()?.open_table(table::<E>())?.range(E::to_key(&from)..)? {
            let (key, value) = entry?;
            if !each(E::of_key(&key.value()), E::of_value(&value.value())) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.put_with::<E>(Durability::None, entries)
    }

    fn put_all_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.put_with::<E>(Durability::Immediate, entries)
    }

    fn sync(&self) -> Outcome<()> {
        // Earlier commits become durable with this one.
        self.write::<E>(Durability::Immediate, |_| Ok(()))
    }

    fn get_all(&self, keys: &[E::Key<'_>]) -> Outcome<Vec<Option<u64>>> {
        let table = self.0.begin_read()?.open_table(table::<E>())?;
        let get = |key| Ok(table.get(E::to_key(key))?.map(|value| E::read(E::of_value(&value.value()))));
        keys.iter().map(get).collect()
    }
}
