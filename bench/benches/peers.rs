//! `cargo bench`: the tree of this crate next to other ordered maps in memory, one thread.
//!
//! For stores, threads, more mixes and larger sizes: `bristlecone-bench --peers`.

use brie_tree::BTree;
use brie_tree::nonmax::NonMaxU64;
use bristlecone::medium::Dram;
use bristlecone::{OneLine, PTree, Pool, Volatile};
use congee::Congee;
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_skiplist::SkipMap;
use parking_lot::RwLock;
use scc::{Guard, TreeIndex};
use std::collections::BTreeMap;
use std::hint::black_box;

const N: u64 = 100_000;

/// A bijection, so that the keys are distinct and look random.
fn key(i: u64) -> u64 {
    (i ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// What is measured of each.
trait Map: Sized {
    const NAME: &str;
    fn empty() -> Self;
    fn insert(&mut self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    /// Of all values, in the order of the keys.
    fn sum(&self) -> u64;
}

fn filled<T: Map>() -> T {
    let mut map = T::empty();
    (0..N).for_each(|i| map.insert(key(i), i));
    map
}

fn of<T: Map>(group: &mut BenchmarkGroup<'_, WallTime>, verb: &str) {
    match verb {
        "insert" => group.bench_function(T::NAME, |b| {
            b.iter_batched(
                T::empty,
                |mut map| {
                    (0..N).for_each(|i| map.insert(key(i), i));
                    map
                },
                BatchSize::PerIteration,
            );
        }),
        "get" => {
            let map = filled::<T>();
            group.bench_function(T::NAME, |b| {
                b.iter(|| (0..N).filter(|&i| map.get(black_box(key(i))).is_some()).count())
            })
        }
        _ => {
            let map = filled::<T>();
            group.bench_function(T::NAME, |b| b.iter(|| map.sum()))
        }
    };
}

fn verbs(c: &mut Criterion) {
    for verb in ["insert", "get", "scan"] {
        let mut group = c.benchmark_group(format!("peers/{verb}"));
        group.throughput(Throughput::Elements(N)).sample_size(10);
        of::<PTree<OneLine, Volatile, Dram>>(&mut group, verb);
        of::<BTreeMap<u64, u64>>(&mut group, verb);
        of::<RwLock<BTreeMap<u64, u64>>>(&mut group, verb);
        of::<BTree<NonMaxU64, u64>>(&mut group, verb);
        of::<Congee<usize, usize>>(&mut group, verb);
        of::<TreeIndex<u64, u64>>(&mut group, verb);
        of::<SkipMap<u64, u64>>(&mut group, verb);
        group.finish();
    }
}

impl Map for PTree<OneLine, Volatile, Dram> {
    const NAME: &str = "bristlecone";

    fn empty() -> Self {
        let pool = Pool::options().max_capacity(64 << 20).create_on(Dram::zeroed(64 << 20)).expect("a pool in memory");
        pool.tree("bench").expect("an empty tree")
    }

    fn insert(&mut self, key: u64, value: u64) {
        PTree::insert(self, key, value).expect("room");
    }

    fn get(&self, key: u64) -> Option<u64> {
        PTree::get(self, key)
    }

    fn sum(&self) -> u64 {
        self.iter().map(|(_, value)| value).fold(0, u64::wrapping_add)
    }
}

impl Map for BTreeMap<u64, u64> {
    const NAME: &str = "BTreeMap";

    fn empty() -> Self {
        Self::new()
    }

    fn insert(&mut self, key: u64, value: u64) {
        BTreeMap::insert(self, key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        BTreeMap::get(self, &key).copied()
    }

    fn sum(&self) -> u64 {
        self.values().copied().fold(0, u64::wrapping_add)
    }
}

impl Map for RwLock<BTreeMap<u64, u64>> {
    const NAME: &str = "RwLock<BTreeMap>";

    fn empty() -> Self {
        Self::default()
    }

    fn insert(&mut self, key: u64, value: u64) {
        self.write().insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.read().get(&key).copied()
    }

    fn sum(&self) -> u64 {
        self.read().values().copied().fold(0, u64::wrapping_add)
    }
}

impl Map for BTree<NonMaxU64, u64> {
    const NAME: &str = "brie-tree";

    fn empty() -> Self {
        Self::new()
    }

    fn insert(&mut self, key: u64, value: u64) {
        BTree::insert(self, NonMaxU64::new(key).expect("a key below the greatest"), value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        BTree::get(self, NonMaxU64::new(key)?).copied()
    }

    fn sum(&self) -> u64 {
        self.values().copied().fold(0, u64::wrapping_add)
    }
}

impl Map for Congee<usize, usize> {
    const NAME: &str = "congee";

    fn empty() -> Self {
        Self::default()
    }

    fn insert(&mut self, key: u64, value: u64) {
        Congee::insert(self, key as usize, value as usize, &self.pin()).expect("memory");
    }

    fn get(&self, key: u64) -> Option<u64> {
        Congee::get(self, &(key as usize), &self.pin()).map(|value| value as u64)
    }

    fn sum(&self) -> u64 {
        let mut buffer = vec![(0, 0); N as usize];
        let found = self.range(&0, &usize::MAX, &mut buffer, &self.pin());
        buffer[..found].iter().map(|&(_, value)| value as u64).fold(0, u64::wrapping_add)
    }
}

impl Map for TreeIndex<u64, u64> {
    const NAME: &str = "scc TreeIndex";

    fn empty() -> Self {
        Self::new()
    }

    fn insert(&mut self, key: u64, value: u64) {
        self.upsert_sync(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.peek_with(&key, |_, value| *value)
    }

    fn sum(&self) -> u64 {
        self.iter(&Guard::new()).map(|(_, value)| *value).fold(0, u64::wrapping_add)
    }
}

impl Map for SkipMap<u64, u64> {
    const NAME: &str = "crossbeam SkipMap";

    fn empty() -> Self {
        Self::new()
    }

    fn insert(&mut self, key: u64, value: u64) {
        SkipMap::insert(self, key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        SkipMap::get(self, &key).map(|entry| *entry.value())
    }

    fn sum(&self) -> u64 {
        self.iter().map(|entry| *entry.value()).fold(0, u64::wrapping_add)
    }
}

criterion_group!(benches, verbs);
criterion_main!(benches);
