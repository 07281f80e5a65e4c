//! sled: a Bw-tree over a log.

use super::encoded::Encoded;
use super::store::{Store, Wait};
use crate::out::Outcome;
use sled::{Batch, Db};
use std::path::Path;

pub(crate) struct Sled(Db);

impl<E: Encoded> Store<E> for Sled {
    fn open(directory: &Path, _wait: Wait) -> Outcome<Self> {
        Ok(Self(sled::open(directory.join("sled"))?))
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        self.0.insert(E::encode_key(&key), E::encode_value(&value).as_ref())?;
        Ok(())
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        self.0.get(E::encode_key(&key))?.map(|value| E::read_encoded(&value)).transpose()
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        self.0.remove(E::encode_key(&key))?;
        Ok(())
    }

    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        for entry in self.0.range(E::encode_key(&from)..) {
            let (key, value) = entry?;
            if !each(E::decode_key(&key)?, E::decode_value(&value)?) {
                break;
            }
        }
        Ok(())
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        let mut batch = Batch::default();
        for (key, value) in entries {
            batch.insert(E::encode_key(key).as_ref(), E::encode_value(value).as_ref());
        }
        Ok(self.0.apply_batch(batch)?)
    }

    fn sync(&self) -> Outcome<()> {
        self.0.flush()?;
        Ok(())
    }
}
