//! Values that are records: they must be whole, and belong to the key that was asked for.

use super::{THREADS, below, options, pool, seed, time, watched};
use crate::medium::{Any, holding, words_of};
use bristlecone::{IndexKind, Map, Result, WordNode};
use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

/// A value that encodes its key, and shows whether it is whole.
fn record(key: u64, version: u64) -> Vec<u8> {
    let len = (key * 31 + version * 7) % 300;
    let mut bytes = [key, version].map(u64::to_le_bytes).concat();
    bytes.extend((0..len).map(|i| (key + version + i) as u8));
    bytes
}

fn version_of(key: u64, bytes: &[u8]) -> u64 {
    let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    assert_eq!(bytes, record(key, version), "a torn or foreign record under {key}");
    version
}

fn records<N: WordNode>(index: IndexKind) {
    let pool = pool();
    let map: Map<u64, Vec<u8>, N, Any> = pool.map_with("t", index).unwrap();
    let stop = Instant::now() + time();
    let models: Vec<BTreeMap<u64, u64>> = thread::scope(|scope| {
        let writer = |number: u64| {
            let map = &map;
            move || {
                seed(number);
                let mut model: BTreeMap<u64, u64> = BTreeMap::new();
                let mut version = 0;
                while Instant::now() < stop {
                    let key = below(20) * 8 + number;
                    version += 1;
                    match below(8) {
                        0..=3 => {
                            let old = map.insert(key, &record(key, version)).unwrap();
                            assert_eq!(old, model.insert(key, version).is_some());
                        }
                        4 => {
                            let new = map.insert_new(key, &record(key, version)).unwrap();
                            assert_eq!(new, !model.contains_key(&key));
                            model.entry(key).or_insert(version);
                        }
                        5 | 6 => assert_eq!(map.remove(key).unwrap(), model.remove(&key).is_some()),
                        _ => {
                            let found = map.get(key).unwrap().map(|bytes| version_of(key, &bytes));
                            assert_eq!(found, model.get(&key).copied());
                        }
                    }
                }
                model
            }
        };
        let writers: Vec<_> = (0..4).map(|number| scope.spawn(writer(number))).collect();
        for number in 4..THREADS {
            let map = &map;
            scope.spawn(move || {
                seed(number);
                let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
                while Instant::now() < stop {
                    let key = below(20) * 8 + below(4);
                    let backwards = below(2) == 0;
                    let found: Vec<_> = match below(3) {
                        0 => map.get(key).unwrap().map(|bytes| (key, bytes)).into_iter().collect(),
                        1 if backwards => map.range(key..).rev().map(Result::unwrap).collect(),
                        _ => map.range(..=key).map(Result::unwrap).collect(),
                    };
                    for (key, bytes) in found {
                        let version = version_of(key, &bytes);
                        let last = seen.insert(key, version).unwrap_or(0);
                        assert!(last <= version, "{key} went back from {last} to {version}");
                    }
                }
            });
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let model: BTreeMap<u64, Vec<u8>> =
        models.into_iter().flatten().map(|(key, version)| (key, record(key, version))).collect();
    let holds = |entries: Vec<(u64, Vec<u8>)>| assert!(entries.into_iter().eq(model.clone()));
    holds(map.iter().map(Result::unwrap).collect());
    assert!(map.check().is_clean(), "{:?}", map.check().violations);
    let crashed = words_of(pool.medium());
    drop(map);
    for words in [crashed, words_of(pool.medium())] {
        let pool = options().open_on(holding(words)).unwrap();
        let map: Map<u64, Vec<u8>, N, Any> = pool.map_with("t", index).unwrap();
        holds(map.iter().map(Result::unwrap).collect());
        assert!(map.check().is_clean(), "{:?}", map.check().violations);
    }
}

fn watched_records<N: WordNode>(index: IndexKind) {
    watched("records", || records::<N>(index));
}

in_every_layout!(watched_records);
