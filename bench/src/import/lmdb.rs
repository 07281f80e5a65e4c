//! The databases of an LMDB environment.

use super::Copied;
use crate::out::Outcome;
use heed::types::Bytes;
use heed::{CommitOrAbort, EnvFlags, EnvOpenOptions, MdbError};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

type Database<'e> = heed::Database<'e, Bytes, Bytes>;

/// The map for the entries of the unnamed database.
const UNNAMED: &str = "main";
/// The most databases that are opened.
const MOST: u32 = 10_000;
/// Bytes of the record that stands for a database among the entries of the unnamed one.
const RECORD: usize = 48;

pub(super) fn copy(path: &Path, to: &mut Copied<'_>) -> Outcome<()> {
    let wrong = |error| format!("{}: {error}", path.display());
    let file = if path.is_dir() { path.join("data.mdb") } else { path.to_owned() };
    // LMDB says of an empty file that its descriptor is bad.
    if fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()))?.len() == 0 {
        return Err(format!("{}: an empty file is no LMDB database", file.display()).into());
    }
    let mut options = EnvOpenOptions::new();
    options.max_dbs(MOST);
    let mut flags = EnvFlags::READ_ONLY;
    flags.set(EnvFlags::NO_SUB_DIR, !path.is_dir());
    // SAFETY: these flags let nothing be written, and do not leave out LMDB's own lock.
    unsafe { options.flags(flags) };
    // SAFETY: the file is mapped. A process that changes it does so through LMDB, which keeps the pages that a
    // transaction sees.
    let env = unsafe { options.open(path) }.map_err(wrong)?;
    let transaction = env.read_txn().map_err(wrong)?;
    let copied = env.open_databases_and_commit(transaction, |opener, transaction| {
        let open = |name: Option<&str>| opener.open_database::<Bytes, Bytes>(transaction, name);
        let mut databases: BTreeMap<&str, Database<'_>> = BTreeMap::new();
        let mut has_own = false;
        let unnamed = open(None)?.ok_or(heed::Error::Mdb(MdbError::NotFound))?;
        for entry in unnamed.iter(transaction)? {
            let (key, value) = entry?;
            match name(key, value).map(|name| (name, open(Some(name)))) {
                Some((name, Ok(Some(database)))) => drop(databases.insert(name, database)),
                None | Some((_, Ok(None) | Err(heed::Error::Mdb(MdbError::Incompatible)))) => has_own = true,
                Some((_, Err(error))) => return Err(Wrong::Lmdb(error)),
            }
        }
        let mut names: Vec<&str> = databases.keys().copied().collect();
        if has_own && names.contains(&UNNAMED) {
            return Err(Wrong::Other(
                to.refused(UNNAMED, "the unnamed database, which has entries, would get this name"),
            ));
        }
        names.extend(has_own.then_some(UNNAMED));
        to.open(&names)?;
        let is_database = |key: &[u8]| std::str::from_utf8(key).is_ok_and(|name| databases.contains_key(name));
        for (name, database) in &databases {
            to.table::<Vec<u8>, Vec<u8>>(name, |put| {
                for entry in database.iter(transaction)? {
                    let (key, value) = entry?;
                    put(key, value)?;
                }
                Ok(())
            })?;
        }
        if has_own {
            to.table::<Vec<u8>, Vec<u8>>(UNNAMED, |put| {
                for entry in unnamed.iter(transaction)? {
                    let (key, value) = entry?;
                    if !is_database(key) {
                        put(key, value)?;
                    }
                }
                Ok(())
            })?;
        }
        // The transaction has only read.
        Ok(CommitOrAbort::<(), ()>::Abort(()))
    });
    copied.map(drop).map_err(|error| match error {
        Wrong::Lmdb(error) => wrong(error).into(),
        Wrong::Other(error) => error,
    })
}

/// The name that an entry of the unnamed database may stand for.
fn name<'e>(key: &'e [u8], value: &[u8]) -> Option<&'e str> {
    let name = std::str::from_utf8(key).ok()?;
    (value.len() == RECORD && !name.contains('\0')).then_some(name)
}

/// An error, which LMDB's functions hand through.
enum Wrong {
    Lmdb(heed::Error),
    Other(Box<dyn std::error::Error>),
}

impl From<heed::Error> for Wrong {
    fn from(error: heed::Error) -> Self {
        Self::Lmdb(error)
    }
}

impl From<Box<dyn std::error::Error>> for Wrong {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        Self::Other(error)
    }
}
