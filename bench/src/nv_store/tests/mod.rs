//! What a store must do.

mod crash;
mod damage;
mod model;
mod subject;
mod threads;

use super::{NvStore, Options};
use bristlecone::medium::{Dram, Medium};
use std::collections::BTreeMap;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Leaves that are soon full, and parents that are.
const TINY: Options = Options { capacity: 3, keys: 2 };

fn in_memory(options: Options) -> NvStore<Dram> {
    NvStore::open(Dram::zeroed(1 << 22), options).unwrap()
}

fn entries<M: Medium>(store: &NvStore<M>) -> Entries {
    let mut all = Entries::new();
    store.scan(b"", |key, value| all.insert(key.to_vec(), value.to_vec()).is_none());
    all
}
