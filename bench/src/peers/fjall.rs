//! fjall: a log-structured merge tree. By default, it hands its log to the system after each write.

use super::store::{Store, bytes, number};
use crate::out::Outcome;
use fjall::{Config, Keyspace, PartitionCreateOptions, PartitionHandle, PersistMode};
use std::path::Path;

pub(crate) struct Fjall {
    keyspace: Keyspace,
    entries: PartitionHandle,
}

impl Store for Fjall {
    fn open(directory: &Path) -> Outcome<Self> {
        let keyspace = Config::new(directory.join("fjall")).open()?;
        let entries = keyspace.open_partition("bench", PartitionCreateOptions::default())?;
        Ok(Self { keyspace, entries })
    }

    fn put(&self, key: u64, value: u64) -> Outcome<()> {
        Ok(self.entries.insert(bytes(key), bytes(value))?)
    }

    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        self.entries.get(bytes(key))?.map(|value| number(&value)).transpose()
    }

    fn remove(&self, key: u64) -> Outcome<()> {
        Ok(self.entries.remove(bytes(key))?)
    }

    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Outcome<()> {
        for entry in self.entries.range(bytes(from)..) {
            let (key, value) = entry?;
            if !each(number(&key)?, number(&value)?) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        let mut batch = self.keyspace.batch();
        for &(key, value) in entries {
            batch.insert(&self.entries, bytes(key), bytes(value));
        }
        Ok(batch.commit()?)
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.keyspace.persist(PersistMode::SyncData)?)
    }
}
