//! SQLite, through rusqlite: a B+-tree in a table, with a write-ahead log.

use super::store::Store;
use crate::out::Outcome;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
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

/// SQLite's integers are signed; this keeps the order.
fn signed(number: u64) -> i64 {
    (number ^ (1 << 63)).cast_signed()
}

fn unsigned(number: i64) -> u64 {
    number.cast_unsigned() ^ (1 << 63)
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

fn get(connection: &Connection, key: u64) -> Outcome<Option<u64>> {
    let mut statement = connection.prepare_cached(GET)?;
    Ok(statement.query_row([signed(key)], |row| row.get(0)).optional()?.map(unsigned))
}

impl Store for Sqlite {
    fn open(directory: &Path) -> Outcome<Self> {
        let sqlite = Self { path: directory.join("sqlite"), idle: Mutex::default(), writer: Mutex::default() };
        sqlite.change(|connection| {
            let table = "CREATE TABLE IF NOT EXISTS bench (key INTEGER PRIMARY KEY, value INTEGER NOT NULL)";
            Ok(connection.execute_batch(table)?)
        })?;
        Ok(sqlite)
    }

    fn put(&self, key: u64, value: u64) -> Outcome<()> {
        self.change(|connection| {
            connection.prepare_cached(PUT)?.execute([signed(key), signed(value)])?;
            Ok(())
        })
    }

    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        self.with(|connection| get(connection, key))
    }

    fn remove(&self, key: u64) -> Outcome<()> {
        self.change(|connection| {
            connection.prepare_cached(REMOVE)?.execute([signed(key)])?;
            Ok(())
        })
    }

    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Outcome<()> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(SCAN)?;
            let mut rows = statement.query([signed(from)])?;
            while let Some(row) = rows.next()? {
                if !each(unsigned(row.get(0)?), unsigned(row.get(1)?)) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn put_all(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        self.change(|connection| {
            let transaction = connection.transaction()?;
            let mut statement = transaction.prepare_cached(PUT)?;
            for &(key, value) in entries {
                statement.execute(params![signed(key), signed(value)])?;
            }
            drop(statement);
            Ok(transaction.commit()?)
        })
    }

    fn sync(&self) -> Outcome<()> {
        // SQLite itself does the same at a commit that must be durable: everything that was written is in the log.
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        Ok(File::open(log)?.sync_data()?)
    }

    fn get_all(&self, keys: &[u64]) -> Outcome<Vec<Option<u64>>> {
        self.with(|connection| {
            let transaction = connection.transaction()?;
            keys.iter().map(|&key| get(&transaction, key)).collect()
        })
    }
}
