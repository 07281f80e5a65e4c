//! LMDB, through heed: a copy-on-write B+-tree in a mapped file. It is measured with a transaction for each read, and
//! with one that is kept.

use super::encoded::Encoded;
use super::store::{Store, Transacting, Wait};
use crate::conflict::plus_one;
use crate::entry::Words;
use crate::out::Outcome;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};
use std::cell::RefCell;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Address space to reserve; the file is only as large as its content.
const MAP_BYTES: usize = 64 << 30;

/// LMDB with a transaction of its own for each read.
pub(crate) struct LmdbTxn {
    env: Env,
    entries: Database<'static, Bytes, Bytes>,
}

impl LmdbTxn {
    fn with(directory: &Path, flags: EnvFlags) -> Outcome<Self> {
        let directory = directory.join("lmdb");
        std::fs::create_dir_all(&directory)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(2048);
        // SAFETY: without syncs a crash of the system may damage the file, but it is removed before the system ends.
        unsafe { options.flags(flags) };
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

    fn get_in<E: Encoded>(&self, transaction: &RoTxn<'_, WithTls>, key: E::Key<'_>) -> Outcome<Option<u64>> {
        self.entries.get(transaction, E::encode_key(&key).as_ref())?.map(E::read_encoded).transpose()
    }

    fn get_all_in<E: Encoded>(
        &self,
        transaction: &RoTxn<'_, WithTls>,
        keys: &[E::Key<'_>],
    ) -> Outcome<Vec<Option<u64>>> {
        keys.iter().map(|&key| self.get_in::<E>(transaction, key)).collect()
    }

    fn scan_in<E: Encoded>(
        &self,
        transaction: &RoTxn<'_, WithTls>,
        from: E::Key<'_>,
        mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool,
    ) -> Outcome<()> {
        let from = E::encode_key(&from);
        for entry in self.entries.range(transaction, &(Bound::Included(from.as_ref()), Bound::Unbounded))? {
            let (key, value) = entry?;
            if !each(E::decode_key(key)?, E::decode_value(value)?) {
                break;
            }
        }
        Ok(())
    }
}

impl Transacting for LmdbTxn {
    fn add_one(&self, keys: [u64; 2]) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        let counter = |key: u64| self.entries.get(&transaction, &key.to_be_bytes())?.map(Words::decode_key).transpose();
        let counters: [Outcome<Option<u64>>; 2] = keys.map(counter);
        for (key, counter) in keys.into_iter().zip(counters) {
            self.entries.put(&mut transaction, &key.to_be_bytes(), &plus_one(counter?).to_be_bytes())?;
        }
        Ok(transaction.commit()?)
    }
}

impl<E: Encoded> Store<E> for LmdbTxn {
    /// Commits that wait for the disk sync themselves: with `NO_SYNC`, a sync after them could write the page that says
    /// so before what it says. Without `WRITE_MAP` they take two thirds of the time.
    fn open(directory: &Path, wait: Wait) -> Outcome<Self> {
        let flags = if wait == Wait::Each { EnvFlags::empty() } else { EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP };
        Self::with(directory, flags)
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        Store::<E>::put_all(self, &[(key, value)])
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        self.get_in::<E>(&self.env.read_txn()?, key)
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        self.entries.delete(&mut transaction, E::encode_key(&key).as_ref())?;
        Ok(transaction.commit()?)
    }

    fn scan(&self, from: E::Key<'_>, each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        self.scan_in::<E>(&self.env.read_txn()?, from, each)
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in entries {
            let (key, value) = (E::encode_key(key), E::encode_value(value));
            self.entries.put(&mut transaction, key.as_ref(), value.as_ref())?;
        }
        Ok(transaction.commit()?)
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.env.force_sync()?)
    }

    fn put_all_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        Store::<E>::put_all(self, entries)
    }

    fn get_all(&self, keys: &[E::Key<'_>]) -> Outcome<Vec<Option<u64>>> {
        self.get_all_in::<E>(&self.env.read_txn()?, keys)
    }
}

/// A transaction that a thread reads in.
struct Kept {
    /// The store that it reads, and the number of writes that it sees.
    store: u64,
    writes: u64,
    transaction: RoTxn<'static, WithTls>,
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Ends this thread's transaction. LMDB gives no thread two, and keeps the pages that an old one sees.
fn end() {
    KEPT.take();
}

/// LMDB with one transaction per thread for all reads, until somebody writes. So a read sees all that was written
/// before.
pub(crate) struct Lmdb {
    /// Differs from store to store.
    number: u64,
    writes: AtomicU64,
    store: LmdbTxn,
}

impl Lmdb {
    fn of(store: LmdbTxn) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        Self { number: STORES.fetch_add(1, Ordering::Relaxed), writes: AtomicU64::new(0), store }
    }

    fn read<T>(&self, read: impl FnOnce(&RoTxn<'_, WithTls>) -> Outcome<T>) -> Outcome<T> {
        let writes = self.writes.load(Ordering::Acquire);
        KEPT.with_borrow_mut(|kept| {
            if kept.as_ref().is_none_or(|kept| (kept.store, kept.writes) != (self.number, writes)) {
                *kept = None;
                let transaction = self.store.env.clone().static_read_txn()?;
                *kept = Some(Kept { store: self.number, writes, transaction });
            }
            kept.as_ref().map_or_else(|| Err("no transaction".into()), |kept| read(&kept.transaction))
        })
    }

    fn written<T>(&self, write: impl FnOnce(&LmdbTxn) -> Outcome<T>) -> Outcome<T> {
        end();
        let result = write(&self.store);
        self.writes.fetch_add(1, Ordering::Release);
        result
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        end();
    }
}

impl<E: Encoded> Store<E> for Lmdb {
    fn open(directory: &Path, wait: Wait) -> Outcome<Self> {
        Ok(Self::of(Store::<E>::open(directory, wait)?))
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        self.written(|store| Store::<E>::put(store, key, value))
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        self.read(|transaction| self.store.get_in::<E>(transaction, key))
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        self.written(|store| Store::<E>::remove(store, key))
    }

    fn scan(&self, from: E::Key<'_>, each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        self.read(|transaction| self.store.scan_in::<E>(transaction, from, each))
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.written(|store| Store::<E>::put_all(store, entries))
    }

    fn sync(&self) -> Outcome<()> {
        Store::<E>::sync(&self.store)
    }

    fn put_all_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.written(|store| Store::<E>::put_all_durably(store, entries))
    }

    fn get_all(&self, keys: &[E::Key<'_>]) -> Outcome<Vec<Option<u64>>> {
        self.read(|transaction| self.store.get_all_in::<E>(transaction, keys))
    }
}
