//! The tables of a redb database.
//!
//! redb reads a table only as the types that it was created with. So there is a list of types, and a table of others is
//! refused.

use super::Copied;
use crate::out::Outcome;
use redb::{
    DatabaseError, MultimapTableHandle, ReadOnlyDatabase, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError, TableDefinition, TableError, TableHandle, Value,
};
use std::io::ErrorKind;
use std::path::Path;

/// A type of redb's keys and values, and that of a map which takes its place.
trait Type: redb::Key + 'static {
    type Of: bristlecone::Key + bristlecone::Value;

    fn key<'k>(key: &'k Self::SelfType<'_>) -> <Self::Of as bristlecone::Key>::Borrowed<'k>;
    fn value<'v>(value: &'v Self::SelfType<'_>) -> <Self::Of as bristlecone::Value>::Borrowed<'v>;
}

macro_rules! types {
    ($($theirs:ty => $ours:ty;)*) => {$(
        impl Type for $theirs {
            type Of = $ours;

            fn key<'k>(key: &'k Self::SelfType<'_>) -> <$ours as bristlecone::Key>::Borrowed<'k> {
                *key
            }

            fn value<'v>(value: &'v Self::SelfType<'_>) -> <$ours as bristlecone::Value>::Borrowed<'v> {
                *value
            }
        }
    )*

        /// The function for tables of such keys and values.
        fn with_types(keys: &str, values: &str) -> Option<CopyTable> {
            $(if keys == <$theirs>::type_name().name() {
                return with_values::<$theirs>(values);
            })*
            None
        }

        fn with_values<K: Type>(values: &str) -> Option<CopyTable> {
            $(if values == <$theirs>::type_name().name() {
                return Some(table::<K, $theirs>);
            })*
            None
        }
    };
}

types! {
    &'static [u8] => Vec<u8>;
    &'static str => String;
    u64 => u64;
}

type CopyTable = fn(&ReadTransaction, &str, &mut Copied<'_>) -> Outcome<()>;

pub(super) fn copy(path: &Path, to: &mut Copied<'_>) -> Outcome<()> {
    let wrong = |error: redb::Error| format!("{}: {error}", path.display());
    let database = ReadOnlyDatabase::open(path).map_err(|error| match error {
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
            format!("{}: it is no redb database", path.display())
        }
        DatabaseError::RepairAborted => {
            format!("{}: it was not closed, and is only read here; let redb open it once", path.display())
        }
        error => wrong(error.into()),
    })?;
    let transaction = database.begin_read().map_err(|error| wrong(error.into()))?;
    if let Some(table) = transaction.list_multimap_tables().map_err(|error| wrong(error.into()))?.next() {
        return Err(to.refused(table.name(), "it is a multimap table, a map has one value for a key"));
    }
    let mut tables = Vec::new();
    for handle in transaction.list_tables().map_err(|error| wrong(error.into()))? {
        // No table is opened as what it is not, so this tells what it is.
        let definition: TableDefinition<'_, (), ()> = TableDefinition::new(handle.name());
        let (keys, values) = match transaction.open_table(definition) {
            Err(TableError::TableTypeMismatch { key, value, .. }) => (key.name().to_owned(), value.name().to_owned()),
            Err(error) => return Err(wrong(error.into()).into()),
            Ok(_) => ("()".to_owned(), "()".to_owned()),
        };
        let Some(copy) = with_types(&keys, &values) else {
            let why =
                format!("its keys are {keys} and its values {values}, and only &[u8], &str and u64 can be imported");
            return Err(to.refused(handle.name(), &why));
        };
        tables.push((handle.name().to_owned(), copy));
    }
    to.open(&tables.iter().map(|(name, _)| &**name).collect::<Vec<_>>())?;
    tables.into_iter().try_for_each(|(name, copy)| copy(&transaction, &name, to))
}

fn table<K: Type, V: Type>(transaction: &ReadTransaction, name: &str, to: &mut Copied<'_>) -> Outcome<()> {
    let definition: TableDefinition<'_, K, V> = TableDefinition::new(name);
    let table = transaction.open_table(definition)?;
    to.table::<K::Of, V::Of>(name, |put| {
        for entry in table.iter()? {
            let (key, value) = entry?;
            put(K::key(&key.value()), V::value(&value.value()))?;
        }
        Ok(())
    })
}
