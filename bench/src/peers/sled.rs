//! sled: a Bw-tree over a log.

use super::store::{Store, bytes, number};
use crate::out::Outcome;
use sled::{Batch, Db};
use std::path::Path;

pub(crate) struct Sled(Db);

impl Store for Sled {
    fn open(directory: &Path) -> Outcome<Self> {
        Ok(Self(sled::open(directory.join("sled"))?))
    }

    fn put(&self, key: u64, value: u64) -> Outcome<()> {
        self.0.insert(bytes(key), &bytes(value))?;
        Ok(())
    }

    fn get(&self, key: u64) -> Outcome<Option<u64>> {
        self.0.get(bytes(key))?.map(|value| number(&value)).transpose()
    }

    fn remove(&self, key: u64) -> Outcome<()> {
        self.0.remove(bytes(key))?;
        Ok(())
    }

    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) -> Outcome<()> {
        for entry in self.0.range(bytes(from)..) {
            let (key, value) = entry?;
            if !each(number(&key)?, number(&value)?) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(u64, u64)]) -> Outcome<()> {
        let mut batch = Batch::default();
        for &(key, value) in entries {
            batch.insert(&bytes(key), &bytes(value));
        }
        Ok(self.0.apply_batch(batch)?)
    }

    fn sync(&self) -> Outcome<()> {
        self.0.flush()?;
        Ok(())
    }
}
