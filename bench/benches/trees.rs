//! `cargo bench`: the trees of this crate next to `BTreeMap`, one thread, in memory, nothing flushed.
//!
//! For lines and fences, larger sizes, and opening after a crash: `bristlecone-bench`.

use bristlecone::medium::Dram;
use bristlecone::{Circular, Linear, Node, OneLine, PTree, Pool, Volatile};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use std::collections::BTreeMap;
use std::hint::black_box;

const N: u64 = 100_000;

/// A bijection, so that the keys are distinct and look random.
fn key(i: u64) -> u64 {
    (i ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn tree<L: Node>() -> PTree<L, Volatile, Dram> {
    let pool = Pool::options().max_capacity(64 << 20).create_on(Dram::zeroed(64 << 20)).expect("a pool in memory");
    pool.tree("bench").expect("an empty tree")
}

fn filled<L: Node>() -> PTree<L, Volatile, Dram> {
    let tree = tree();
    for i in 0..N {
        tree.insert(key(i), i).expect("room");
    }
    tree
}

fn of_layout<L: Node>(group: &mut BenchmarkGroup<'_, WallTime>, verb: &str) {
    let name = format!("{}/{}", L::NAME, L::SLOTS);
    match verb {
        "insert" => group.bench_function(name, |b| {
            b.iter_batched(
                tree::<L>,
                |tree| {
                    for i in 0..N {
                        tree.insert(key(i), i).expect("room");
                    }
                    tree
                },
                BatchSize::PerIteration,
            );
        }),
        "get" => {
            let tree = filled::<L>();
            group.bench_function(name, |b| b.iter(|| (0..N).filter(|&i| tree.get(black_box(key(i))).is_some()).count()))
        }
        _ => {
            let tree = filled::<L>();
            group.bench_function(name, |b| b.iter(|| tree.iter().map(|(_, value)| value).fold(0, u64::wrapping_add)))
        }
    };
}

fn verbs(c: &mut Criterion) {
    for verb in ["insert", "get", "scan"] {
        let mut group = c.benchmark_group(verb);
        group.throughput(Throughput::Elements(N)).sample_size(10);
        of_layout::<OneLine>(&mut group, verb);
        of_layout::<Circular<32>>(&mut group, verb);
        of_layout::<Circular<64>>(&mut group, verb);
        of_layout::<Linear<32>>(&mut group, verb);
        let map: BTreeMap<u64, u64> = (0..N).map(|i| (key(i), i)).collect();
        group.bench_function("BTreeMap", |b| match verb {
            "insert" => b.iter(|| {
                let mut map = BTreeMap::new();
                map.extend((0..N).map(|i| (key(i), i)));
                map.len()
            }),
            "get" => b.iter(|| (0..N).filter(|&i| map.contains_key(&black_box(key(i)))).count()),
            _ => b.iter(|| map.values().copied().fold(0, u64::wrapping_add) as usize),
        });
        group.finish();
    }
}

criterion_group!(benches, verbs);
criterion_main!(benches);
