//! RocksDB: a log-structured merge tree. By default, it hands its log to the system after each write.

use super::store::{Store, bytes, number};
use crate::out::Outcome;
use rocksdb::{DB, Direction, IteratorMode, Options, WriteBatch};
use std::path::Path;

pub(crate) struct RocksDb(DB);

impl Store for RocksDb {
    fn open(directory: &Path) -> Outcome<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Ok(Self(DB::open(&options, directory.join("rocksdb"))?))
    }

    fn put(&self, key: u64, value: u64) -> Outcome<()> {
        Ok(self.0.put(bytes(key), bytes(value))?)
    }

    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        self.0.get_pinned(bytes(key))?.map(|value| number(&value)).transpose()
    }

    fn remove(&self, key: u64) -> Outcome<()> {
        Ok(self.0.delete(bytes(key))?)
    }

    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Outcome<()> {
        for entry in self.0.iterator(IteratorMode::From(&bytes(from), Direction::Forward)) {
            let (key, value) = entry?;
            if !each(number(&key)?, number(&value)?) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        for &(key, value) in entries {
            batch.put(bytes(key), bytes(value));
        }
        Ok(self.0.write(batch)?)
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.0.flush_wal(true)?)
    }

    fn get_all(&self, keys: &[u64]) -> Outcome<Vec<Option<u64>>> {
        let found = self.0.multi_get(keys.iter().map(|&key| bytes(key)));
        found.into_iter().map(|value| value?.map(|value| number(&value)).transpose()).collect()
    }
}
