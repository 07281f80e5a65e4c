//! RocksDB: a log-structured merge tree. By default, it hands its log to the system after each write.

use super::encoded::Encoded;
use super::store::{Store, Wait};
use crate::out::Outcome;
use rocksdb::{DB, Direction, IteratorMode, Options, WriteBatch, WriteOptions};
use std::path::Path;

pub(crate) struct RocksDb(DB);

fn batch<E: Encoded>(entries: &[(E::Key<'_>, E::Value<'_>)]) -> WriteBatch {
    let mut batch = WriteBatch::default();
    for (key, value) in entries {
        batch.put(E::encode_key(key), E::encode_value(value));
    }
    batch
}

impl<E: Encoded> Store<E> for RocksDb {
    fn open(directory: &Path, _wait: Wait) -> Outcome<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Ok(Self(DB::open(&options, directory.join("rocksdb"))?))
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        Ok(self.0.put(E::encode_key(&key), E::encode_value(&value))?)
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        self.0.get_pinned(E::encode_key(&key))?.map(|value| E::read_encoded(&value)).transpose()
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        Ok(self.0.delete(E::encode_key(&key))?)
    }

    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        let from = E::encode_key(&from);
        for entry in self.0.iterator(IteratorMode::From(from.as_ref(), Direction::Forward)) {
            let (key, value) = entry?;
            if !each(E::decode_key(&key)?, E::decode_value(&value)?) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        Ok(self.0.write(batch::<E>(entries))?)
    }

    fn put_all_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        Ok(self.0.write_opt(batch::<E>(entries), &options)?)
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.0.flush_wal(true)?)
    }

    fn get_all(&self, keys: &[E::Key<'_>]) -> Outcome<Vec<Option<u64>>> {
        let found = self.0.multi_get(keys.iter().map(|key| E::encode_key(key)));
        found.into_iter().map(|value| value?.map(|value| E::read_encoded(&value)).transpose()).collect()
    }
}
