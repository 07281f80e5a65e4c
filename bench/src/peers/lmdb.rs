//! LMDB, through heed: a copy-on-write B+-tree in a mapped file.

use super::store::Store;
use crate::out::Outcome;
use heed::byteorder::BigEndian;
use heed::types::U64;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

type Number = U64<BigEndian>;

/// Address space to reserve; the file is only as large as its content.
const MAP_BYTES: usize = 64 << 30;

pub(crate) struct Lmdb {
    env: Env,
    entries: Database<'static, Number, Number>,
}

impl Store for Lmdb {
    fn open(directory: &Path) -> Outcome<Self> {
        let directory = directory.join("lmdb");
        std::fs::create_dir_all(&directory)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(2048);
        // SAFETY: without syncs a crash of the system may damage the file, but it is removed before the system ends.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
        // SAFETY: only this program knows of the directory, so nothing else changes the mapped file, and no process
        // opens it twice.
        let env = unsafe { options.open(directory) }?;
        let entries = env
            .create_databases_and_commit(env.write_txn()?, |opener, transaction| {
                opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Self { env, entries })
    }

    fn put(&self, key: u64, value: u64) -> Outcome<()> {
        self.put_all(&[(key, value)])
    }

    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        let transaction = self.env.read_txn()?;
        Ok(self.entries.get(&transaction, &key)?)
    }

    fn remove(&self, key: u64) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        self.entries.delete(&mut transaction, &key)?;
        Ok(transaction.commit()?)
    }

    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Outcome<()> {
        let transaction = self.env.read_txn()?;
        for entry in self.entries.range(&transaction, &(from..))? {
            let (key, value) = entry?;
            if !each(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in entries {
            self.entries.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.env.force_sync()?)
    }

    fn get_all(&self, keys: &[u64]) -> Outcome<Vec<Option<u64>>> {
        let transaction = self.env.read_txn()?;
        keys.iter().map(|key| Ok(self.entries.get(&transaction, key)?)).collect()
    }
}
