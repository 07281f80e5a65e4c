//! SQLite, through rusqlite: a B+-tree in a table, with a write-ahead log.

use super::store::{Store, Wait};
use crate::entry::{Bytes, Entry, Words};
use crate::out::Outcome;
use parking_lot::Mutex;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql, params};
use std::fs::File;
use std::path::{Path, PathBuf};

const PUT: &str = "INSERT OR REPLACE INTO bench VALUES (?1, ?2)";
const GET: &str = "SELECT value FROM bench WHERE key = ?1";
const REMOVE: &str = "DELETE FROM bench WHERE key = ?1";
const SCAN: &str = "SELECT key, value FROM bench WHERE key >= ?1 ORDER BY key";

pub(crate) struct Sqlite {
    path: PathBuf,
    /// The connections that are not in use: a connection is for one thread at a time.
    idle: Mutex<Vec<Connection>>,
    /// Writers wait here, in line. Where SQLite makes them wait, they sleep.
    writer: Mutex<()>,
}

/// Entries as SQLite keeps them.
pub(crate) trait Column: Entry {
    /// What makes the table.
    const TABLE: &str;
    type Sql<'e>: ToSql;

    fn to_key<'e>(key: &'e Self::Key<'_>) -> Self::Sql<'e>;
    fn to_value<'e>(value: &'e Self::Value<'_>) -> Self::Sql<'e>;
    fn of_key(key: ValueRef<'_>) -> Outcome<Self::Key<'_>>;
    fn of_value(value: ValueRef<'_>) -> Outcome<Self::Value<'_>>;
}

/// SQLite's integers are signed; this keeps the order.
impl Column for Words {
    const TABLE: &str = "CREATE TABLE IF NOT EXISTS bench (key INTEGER PRIMARY KEY, value INTEGER NOT NULL)";
    type Sql<'e> = i64;

    fn to_key(&key: &u64) -> i64 {
        (key ^ (1 << 63)).cast_signed()
    }

    fn to_value(&value: &u64) -> i64 {
        Self::to_key(&value)
    }

    fn of_key(key: ValueRef<'_>) -> Outcome<u64> {
        Ok(key.as_i64()?.cast_unsigned() ^ (1 << 63))
    }

    fn of_value(value: ValueRef<'_>) -> Outcome<u64> {
        Self::of_key(value)
    }
}

impl Column for Bytes {
    const TABLE: &str = "CREATE TABLE IF NOT EXISTS bench (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
    type Sql<'e> = &'e [u8];

    fn to_key<'e>(key: &'e &[u8]) -> &'e [u8] {
        key
    }

    fn to_value<'e>(value: &'e &[u8]) -> &'e [u8] {
        value
    }

    fn of_key(key: ValueRef<'_>) -> Outcome<&[u8]> {
        Ok(key.as_blob()?)
    }

    fn of_value(value: ValueRef<'_>) -> Outcome<&[u8]> {
        Ok(value.as_blob()?)
    }
}

impl Sqlite {
    fn connect(&self) -> Outcome<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        Ok(connection)
    }

    /// Lends a connection to `work`.
    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Outcome<T>) -> Outcome<T> {
        let idle = self.idle.lock().pop();
        let mut connection = idle.map_or_else(|| self.connect(), Ok)?;
        let result = work(&mut connection);
        self.idle.lock().push(connection);
        result
    }

    fn change(&self, work: impl FnOnce(&mut Connection) -> Outcome<()>) -> Outcome<()> {
        let _turn = self.writer.lock();
        self.with(work)
    }
}

fn get<E: Column>(connection: &Connection, key: E::Key<'_>) -> Outcome<Option<u64>> {
    let mut statement = connection.prepare_cached(GET)?;
    let mut rows = statement.query([E::to_key(&key)])?;
    rows.next()?.map(|row| E::of_value(row.get_ref(0)?).map(E::read)).transpose()
}

fn put_all<E: Column>(connection: &mut Connection, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
    let transaction = connection.transaction()?;
    let mut statement = transaction.prepare_cached(PUT)?;
    for (key, value) in entries {
        statement.execute(params![E::to_key(key), E::to_value(value)])?;
    }
    drop(statement);
    Ok(transaction.commit()?)
}

impl<E: Column> Store<E> for Sqlite {
    fn open(directory: &Path, _wait: Wait) -> Outcome<Self> {
        let sqlite = Self { path: directory.join("sqlite"), idle: Mutex::default(), writer: Mutex::default() };
        sqlite.change(|connection| Ok(connection.execute_batch(E::TABLE)?))?;
        Ok(sqlite)
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        self.change(|connection| {
            connection.prepare_cached(PUT)?.execute(params![E::to_key(&key), E::to_value(&value)])?;
            Ok(())
        })
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        self.with(|connection| get::<E>(connection, key))
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        self.change(|connection| {
            connection.prepare_cached(REMOVE)?.execute([E::to_key(&key)])?;
            Ok(())
        })
    }

    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(SCAN)?;
            let mut rows = statement.query([E::to_key(&from)])?;
            while let Some(row) = rows.next()? {
                if !each(E::of_key(row.get_ref(0)?)?, E::of_value(row.get_ref(1)?)?) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.change(|connection| put_all::<E>(connection, entries))
    }

    fn put_all_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.change(|connection| {
            // Each commit waits for the log, and when the log is copied to the table, that is waited for, too.
            connection.pragma_update(None, "synchronous", "FULL")?;
            put_all::<E>(connection, entries)
        })
    }

    fn sync(&self) -> Outcome<()> {
        // SQLite itself does the same at a commit that must be durable: everything that was written is in the log.
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        Ok(File::open(log)?.sync_data()?)
    }

    fn get_all(&self, keys: &[E::Key<'_>]) -> Outcome<Vec<Option<u64>>> {
        self.with(|connection| {
            let transaction = connection.transaction()?;
            keys.iter().map(|&key| get::<E>(&transaction, key)).collect()
        })
    }
}
