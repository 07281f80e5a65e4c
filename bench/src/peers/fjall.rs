//! fjall: a log-structured merge tree. By default, it hands its log to the system after each write.

use super::encoded::Encoded;
use super::store::{Store, Wait};
use crate::out::Outcome;
use fjall::{Config, Keyspace, PartitionCreateOptions, PartitionHandle, PersistMode};
use std::path::Path;

pub(crate) struct Fjall {
    keyspace: Keyspace,
    entries: PartitionHandle,
}

impl Fjall {
    fn write<E: Encoded>(&self, entries: &[(E::Key<'_>, E::Value<'_>)], wait: Option<PersistMode>) -> Outcome<()> {
        let mut batch = self.keyspace.batch().durability(wait);
        for (key, value) in entries {
            batch.insert(&self.entries, E::encode_key(key).as_ref(), E::encode_value(value).as_ref());
        }
        Ok(batch.commit()?)
    }
}

impl<E: Encoded> Store<E> for Fjall {
    fn open(directory: &Path, _wait: Wait) -> Outcome<Self> {
        let keyspace = Config::new(directory.join("fjall")).open()?;
        let entries = keyspace.open_partition("bench", PartitionCreateOptions::default())?;
        Ok(Self { keyspace, entries })
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        Ok(self.entries.insert(E::encode_key(&key).as_ref(), E::encode_value(&value).as_ref())?)
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        self.entries.get(E::encode_key(&key))?.map(|value| E::read_encoded(&value)).transpose()
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        Ok(self.entries.remove(E::encode_key(&key).as_ref())?)
    }

    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        for entry in self.entries.range(E::encode_key(&from)..) {
            let (key, value) = entry?;
            if !each(E::decode_key(&key)?, E::decode_value(&value)?) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.write::<E>(entries, None)
    }

    fn put_all_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.write::<E>(entries, Some(PersistMode::SyncData))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.keyspace.persist(PersistMode::SyncData)?)
    }
}
