//! `import`: copies the tables of another store to maps of the same names.
//!
//! Entries are inserted one by one, in their order there, which fills leaves as loading in bulk does. So no key is
//! taken twice, whatever order the store keeps, and nothing of it has to stay in memory.

mod lmdb;
mod redb;

use crate::out::{self, Outcome};
use crate::parse;
use bristlecone::{Error, ErrorKind, Key, Map, Pool, Value};
use clap::ValueEnum;
use serde_json::json;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Copy the tables of another store to maps of a pool
///
/// Each table becomes a map of the same name, which must not be there yet. If anything fails, no table is copied. The
/// store is only read.
///
/// LMDB: all databases become maps of bytes, the unnamed one with the name 'main'. A database with several values for a
/// key is refused. (One whose name is not UTF-8 is taken for an entry of the unnamed one.)
///
/// redb: tables whose keys and values are &[u8], &str or u64 become maps of bytes, texts or numbers. Others, and
/// multimap tables, are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the store is
    store: Store,
    /// Its file or, of LMDB, its directory
    path: PathBuf,
    /// The pool, which is created if it is not there
    pool: PathBuf,
    /// Bytes the pool may come to, as in 64M or 2G; a larger one than it has makes it grow [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    capacity: Option<u64>,
    /// Print one JSON object for each table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Store {
    Lmdb,
    Redb,
}

/// After how many entries a terminal is told.
const STEP: u64 = 1 << 20;

pub(crate) fn run(args: &Args) -> Outcome {
    let mut copied = Copied { args, pool: None, tables: Vec::new() };
    let outcome = match args.store {
        Store::Lmdb => lmdb::copy(&args.path, &mut copied),
        Store::Redb => redb::copy(&args.path, &mut copied),
    };
    match outcome {
        Ok(()) => copied.report()?,
        Err(error) => {
            copied.give_up();
            return Err(error);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The tables that were copied to the pool.
struct Copied<'a> {
    args: &'a Args,
    /// Opened when it is known that there is something to copy.
    pool: Option<Pool>,
    tables: Vec<Table>,
}

struct Table {
    name: String,
    entries: u64,
    seconds: f64,
}

impl Copied<'_> {
    /// Opens the pool, in which there must be no trees of these names.
    fn open(&mut self, names: &[&str]) -> Outcome<()> {
        if let Some(name) =
            names.iter().find(|name| name.is_empty() || name.len() > bristlecone::Options::MAX_TREE_NAME)
        {
            let limit = bristlecone::Options::MAX_TREE_NAME;
            return Err(self.refused(name, &format!("a map has a name of 1 to {limit} bytes")));
        }
        let mut options = Pool::options();
        if let Some(capacity) = self.args.capacity {
            options = options.capacity(capacity);
        }
        let pool = options.open(&self.args.pool)?;
        let trees = pool.trees()?;
        self.pool = Some(pool);
        match trees.iter().find(|tree| names.contains(&&*tree.name)) {
            Some(tree) => Err(format!("{}: tree '{}' is already there", self.args.pool.display(), tree.name).into()),
            None => Ok(()),
        }
    }

    /// The error that a table cannot be copied.
    fn refused(&self, table: &str, why: &str) -> Box<dyn std::error::Error> {
        format!("{}: table '{table}': {why}", self.args.path.display()).into()
    }

    /// Copies a table to a new map. `each` passes all entries to the function that it is given.
    fn table<K: Key, V: Value>(
        &mut self,
        name: &str,
        each: impl FnOnce(&mut dyn FnMut(K::Borrowed<'_>, V::Borrowed<'_>) -> Outcome<()>) -> Outcome<()>,
    ) -> Outcome<()> {
        let pool = self.pool.as_ref().ok_or("the pool is not open")?;
        let map: Map<K, V> = pool.map(name)?;
        let (start, is_watched) = (Instant::now(), stderr().is_terminal());
        self.tables.push(Table { name: name.to_owned(), entries: 0, seconds: 0.0 });
        let mut entries = 0;
        each(&mut |key, value| {
            if map.insert(key, value).map_err(|error| self.full(error))? {
                return Err(self.refused(name, "there are several values for a key, a map has one"));
            }
            entries += 1;
            if is_watched && entries % STEP == 0 {
                out::aside(&format!("{}: {} entries", out::shown(name), out::count(entries)));
            }
            Ok(())
        })?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(table) = self.tables.last_mut() {
            (table.entries, table.seconds) = (entries, seconds);
        }
        Ok(())
    }

    fn full(&self, error: Error) -> Box<dyn std::error::Error> {
        match error.kind {
            ErrorKind::OutOfSpace { source: None, .. } => {
                format!("{error}; import again with a larger --capacity").into()
            }
            _ => error.into(),
        }
    }

    /// Closes the pool, and says what is in it.
    fn report(mut self) -> Outcome<()> {
        self.pool.take().map_or(Ok(()), Pool::close)?;
        for Table { name, entries, seconds } in &self.tables {
            if self.args.json {
                out::json(&json!({ "table": name, "entries": entries, "seconds": out::rounded(*seconds, 6) }))?;
            } else {
                out::text(&format!("{}: {}", out::shown(name), out::counted(*entries, "entry", "entries")))?;
            }
        }
        if self.tables.is_empty() && !self.args.json {
            out::text("there are no tables")?;
        }
        Ok(())
    }

    /// Drops what was copied. An error is being reported, so nobody hears of another one.
    fn give_up(self) {
        for Table { name, .. } in &self.tables {
            let _ = self.pool.as_ref().map(|pool| pool.drop_tree(name));
        }
    }
}
