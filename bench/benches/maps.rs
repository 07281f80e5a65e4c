//! `cargo bench`: the trees of bristlecone next to other ordered maps in memory, one thread, nothing flushed.
//!
//! For lines and fences, stores, threads, larger sizes, and opening after a crash: `bristlecone-bench`.

use bristlecone_bench::{Map, Mix, maps};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const N: u64 = 100_000;

fn mixes(c: &mut Criterion) {
    for mix in [Mix::Insert, Mix::Get, Mix::Scan] {
        let mut group = c.benchmark_group(mix.name());
        group.throughput(Throughput::Elements(N)).sample_size(10);
        for name in maps() {
            let empty = || Map::empty(&name, N).expect("an empty map");
            group.bench_function(&name, |b| {
                if mix == Mix::Insert {
                    b.iter_custom(|times| (0..times).map(|_| empty().time(mix)).sum());
                } else {
                    let mut map = empty();
                    map.fill();
                    b.iter_custom(|times| (0..times).map(|_| map.time(mix)).sum());
                    map.end().expect("nothing goes wrong");
                }
            });
        }
        group.finish();
    }
}

criterion_group!(benches, mixes);
criterion_main!(benches);
