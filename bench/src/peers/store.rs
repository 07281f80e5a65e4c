//! What the stores have in common.
//!
//! They are set up for what a pool on an ordinary file system survives, which is a crash of the process and no more: no
//! write waits for the disk. Three of them give less by default, and are measured that way: redb's commits without
//! durability are lost with the process until a commit with durability follows, and sled hands its log to the system
//! twice a second. Redis loses everything. Every operation is a transaction of its own, as every operation of a tree
//! is.
//!
//! A synced store waits for the disk after every batch, and after every thousandth write that is not in a batch; Redis,
//! which cannot be asked, brings its log there each second.
//!
//! Where each change must survive a loss of power ([`Store::put_all_durably`]), each has the fastest of its own ways to
//! that.

use crate::conflict::Counters;
use crate::entry::{Entry, Words};
use crate::ordered_map::{Fault, OrderedMap};
use crate::out::Outcome;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many writes a synced store makes between two syncs.
const EVERY: u64 = 1000;

/// When a store waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    /// After each batch, and once in a while.
    Often,
    /// When it is told to: all its writes are [durable](Store::put_all_durably) ones.
    Each,
}

/// An ordered map in files.
pub(crate) trait Store<E: Entry>: Sync + Sized {
    /// Opens the store that has its files in this directory, or creates it.
    fn open(directory: &Path, wait: Wait) -> Outcome<Self>;
    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()>;
    /// Stores a new value for a key that is there.
    fn update(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        self.put(key, value)
    }
    /// Reads a value: see [`Entry::read`].
    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>>;
    fn remove(&self, key: E::Key<'_>) -> Outcome<()>;
    /// Passes the entries from a key on to `each`, in order, until `each` returns `false`.
    fn scan(&self, from: E::Key<'_>, each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()>;
    /// Puts all entries in one transaction.
    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()>;
    /// Waits until everything that was written is on the disk.
    fn sync(&self) -> Outcome<()>;

    /// Puts all entries in one transaction, which survives a loss of power when this returns.
    fn put_all_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.put_all(entries)?;
        self.sync()
    }

    /// Gets all values, in one transaction if that makes a difference.
    fn get_all(&self, keys: &[E::Key<'_>]) -> Outcome<Vec<Option<u64>>> {
        keys.iter().map(|&key| self.get(key)).collect()
    }
}

/// A store with transactions that both read and write.
pub(crate) trait Transacting: Store<Words> {
    /// Adds one to two counters, in one transaction.
    fn add_one(&self, keys: [u64; 2]) -> Outcome<()>;
}

/// They have one writer at a time, so no transaction is repeated.
impl<S: Transacting> Counters for S {
    fn create(&self, keys: &[u64]) -> Outcome<()> {
        self.put_all(&keys.iter().map(|&key| (key, 0)).collect::<Vec<_>>())
    }

    fn add(&self, keys: [u64; 2]) -> Outcome<u64> {
        self.add_one(keys).map(|()| 1)
    }

    fn sum(&self) -> Outcome<u64> {
        let mut sum = 0;
        self.scan(Words::least(), |_, counter| {
            sum += counter;
            true
        })?;
        Ok(sum)
    }
}

/// A store as a subject.
pub(crate) struct Stored<S, E> {
    store: S,
    fault: Fault,
    /// For a synced store: the writes so far.
    writes: Option<AtomicU64>,
    entries: PhantomData<E>,
}

impl<E: Entry, S: Store<E>> Stored<S, E> {
    /// Opens the store that has its files in this directory, or creates both.
    pub(crate) fn open(directory: &Path, wait: Wait) -> Outcome<Self> {
        std::fs::create_dir_all(directory)?;
        let (fault, writes) = (Fault::default(), (wait == Wait::Often).then(AtomicU64::default));
        Ok(Self { store: S::open(directory, wait)?, fault, writes, entries: PhantomData })
    }

    fn written(&self, result: Outcome<()>) {
        self.fault.note(result);
        if let Some(writes) = &self.writes
            && writes.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
        {
            self.fault.note(self.store.sync());
        }
    }
}

impl<E: Entry, S: Store<E>> OrderedMap<E> for Stored<S, E> {
    fn insert(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.written(self.store.put(key, value));
    }

    fn get(&self, key: E::Key<'_>) -> Option<u64> {
        self.fault.note(self.store.get(key)).flatten()
    }

    fn update(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.written(self.store.update(key, value));
    }

    fn remove(&self, key: E::Key<'_>) {
        self.written(self.store.remove(key));
    }

    fn scan(&self, from: E::Key<'_>, each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) {
        self.fault.note(self.store.scan(from, each));
    }

    fn insert_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) {
        self.fault.note(self.store.put_all_durably(entries));
    }

    fn fault(&self) -> Outcome<()> {
        self.fault.get()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.fault()?;
        self.store.sync()
    }

    fn multi_get(&self, keys: &[E::Key<'_>]) -> Vec<Option<u64>> {
        self.fault.note(self.store.get_all(keys)).unwrap_or_default()
    }

    fn insert_batch(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) {
        self.fault.note(self.store.put_all(entries));
        if self.writes.is_some() {
            self.fault.note(self.store.sync());
        }
    }
}
