//! Every verb of trees and maps on small pools, for tools that watch or emulate each access to memory and are slow:
//! AddressSanitizer, ThreadSanitizer, Miri, an emulator of another CPU. An ordinary build leaves this out:
//! `tests/trees` tests the same more thoroughly.
#![cfg(bristlecone_watched)]

use bristlecone::medium::{Dram, Medium};
use bristlecone::papers::{Append, Circular};
use bristlecone::{IndexKind, Map, OneLine, Options, PTree, Pool, WordNode};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

/// Options without a journal, whatever the file system of the directory for temporary files: what is tested here is the
/// pool's file alone.
fn plain() -> bristlecone::Options {
    bristlecone::Pool::options().journal(bristlecone::Journal::None)
}

type Any = Arc<dyn Medium>;

const CAPACITY: u64 = 128 << 10;
const KEYS: u64 = if cfg!(miri) { 24 } else { 400 };
const ROUNDS: u64 = if cfg!(miri) { 1 } else { 50 };

fn options() -> Options {
    plain().segment_size(4096)
}

fn pool() -> Pool<Any> {
    options().create_on(Arc::new(Dram::zeroed(CAPACITY)) as Any).unwrap()
}

/// A pool with the current content of this one, as a crash leaves it.
fn copied(pool: &Pool<Any>) -> Pool<Any> {
    let mut words = vec![0; pool.medium().accessible() as usize / 8];
    pool.medium().load_words(0, &mut words);
    options().open_on(Arc::new(Dram::from_words(words)) as Any).unwrap()
}

fn holds<N: WordNode>(tree: &PTree<N, Any>, model: &BTreeMap<u64, u64>) {
    let entries = || model.iter().map(|(&key, &value)| (key, value));
    assert!(tree.iter().eq(entries()) && tree.iter().rev().eq(entries().rev()));
    assert_eq!((tree.len(), tree.is_empty()), (model.len() as u64, model.is_empty()));
    assert_eq!((tree.first_key_value(), tree.last_key_value()), (entries().next(), entries().next_back()));
    assert!(tree.fault().is_none() && tree.check().is_clean(), "{:?}", tree.check().violations);
}

/// One thread: leaves fill, split, empty, merge and are used again; the pool is left by a crash, and closed.
fn does_what_a_map_does<N: WordNode>(index: IndexKind, pool: Pool<Any>) {
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    let mut model = BTreeMap::new();
    for key in (0..KEYS).map(|i| i * 37 % KEYS).chain([u64::MAX, u64::MAX - 1]) {
        assert_eq!(tree.insert(key, key).unwrap(), model.insert(key, key));
    }
    for key in (0..KEYS).step_by(7) {
        assert_eq!(tree.update(key, 1).unwrap(), model.insert(key, 1));
        assert_eq!(tree.compare_exchange(key, Some(1), Some(2)).unwrap(), model.insert(key, 2));
        assert_eq!(tree.get(key), Some(2));
    }
    holds(&tree, &model);
    for key in (0..KEYS).filter(|key| key % 8 > 0) {
        assert_eq!(tree.remove(key).unwrap(), model.remove(&key));
    }
    let batch: Vec<_> = (KEYS..KEYS + 30).map(|key| (key, 3)).collect();
    assert_eq!(tree.insert_batch(&batch).unwrap(), 30);
    model.extend(batch);
    let keys: Vec<_> = (0..KEYS).step_by(3).collect();
    assert_eq!(tree.multi_get(&keys), keys.iter().map(|key| model.get(key).copied()).collect::<Vec<_>>());
    assert!(tree.keys(8..=KEYS).eq(model.range(8..=KEYS).map(|(&key, _)| key)));
    holds(&tree, &model);

    let crashed = copied(&pool);
    let recovered: PTree<N, Any> = crashed.tree_with("t", index).unwrap();
    holds(&recovered, &model);
    drop(recovered);
    let reopened = copied(&crashed);
    let tree: PTree<N, Any> = reopened.tree_with("t", index).unwrap();
    holds(&tree, &model);
    tree.clear().unwrap();
    holds(&tree, &BTreeMap::new());
    assert_eq!(tree.bulk_load(model.clone()).unwrap(), model.len() as u64);
    holds(&tree, &model);
    drop(tree);
    reopened.drop_tree("t").unwrap();
    reopened.close().unwrap();
}

/// Two threads that write, each its own keys in leaves that they share, and one that reads.
fn threads<N: WordNode>(index: IndexKind, pool: Pool<Any>) {
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    let tree = &tree;
    let writer = |number: u64| {
        move || {
            for round in 0..ROUNDS {
                let keys = || (0..KEYS / 4).map(|i| i * 2 + number);
                keys().for_each(|key| assert_eq!(tree.insert(key, round).unwrap(), None));
                keys().for_each(|key| assert_eq!(tree.update(key, key).unwrap(), Some(round)));
                keys().for_each(|key| assert_eq!(tree.remove(key).unwrap(), Some(key)));
                tree.insert_batch(&keys().map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
                if round + 1 < ROUNDS {
                    keys().for_each(|key| assert_eq!(tree.get(key).and(tree.remove(key).unwrap()), Some(key)));
                }
            }
        }
    };
    thread::scope(|scope| {
        let writers = [scope.spawn(writer(0)), scope.spawn(writer(1))];
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
            assert!(tree.iter().is_sorted() && tree.range(KEYS / 8..).rev().is_sorted_by(|a, b| a > b));
            assert!(tree.len() <= KEYS / 2);
            tree.multi_get(&[0, 1, KEYS / 4, KEYS]);
        }
    });
    holds(tree, &(0..KEYS / 4 * 2).map(|key| (key, key)).collect());
}

/// A record whose first byte determines its length and content; some records take segments of their own.
fn record(version: u64) -> Vec<u8> {
    let version = version as u8;
    vec![version; 1 + usize::from(version % 5) * 40 + if version % 16 == 3 { 5000 } else { 0 }]
}

/// Records that are replaced, removed and used again while other threads read them.
fn records<N: WordNode>(index: IndexKind, pool: Pool<Any>) {
    let map: Map<u64, Vec<u8>, N, Any> = pool.map_with("t", index).unwrap();
    let is_whole = |bytes: &[u8]| assert_eq!(bytes, record(bytes[0].into()));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for version in 0..ROUNDS * 4 {
                (0..12).for_each(|key| assert_eq!(map.insert(key, &record(key + version)).unwrap(), version > 0));
                assert!(map.update(5, &record(version)).unwrap());
                assert!(map.remove(7).unwrap() && map.insert_new(7, &record(version)).unwrap());
            }
        });
        while !writer.is_finished() {
            map.get_with(3, is_whole).unwrap();
            map.get(7).unwrap().as_deref().map(is_whole);
            map.iter().for_each(|entry| is_whole(&entry.unwrap().1));
            map.range(4..).rev().take(3).for_each(|entry| is_whole(&entry.unwrap().1));
        }
    });
    let expected: Vec<_> = map.iter().map(Result::unwrap).collect();
    assert!(expected.len() == 12 && map.check().is_clean());
    let crashed = copied(&pool);
    let recovered: Map<u64, Vec<u8>, N, Any> = crashed.map_with("t", index).unwrap();
    assert!(recovered.iter().map(Result::unwrap).eq(expected));
}

#[test]
fn one_line_does_what_a_map_does() {
    does_what_a_map_does::<OneLine<7>>(IndexKind::Volatile, pool());
}

#[test]
fn circular_does_what_a_map_does() {
    does_what_a_map_does::<Circular<4>>(IndexKind::Persistent, pool());
}

#[test]
fn append_does_what_a_map_does() {
    does_what_a_map_does::<Append<3>>(IndexKind::Flat, pool());
}

#[test]
fn threads_on_one_line() {
    threads::<OneLine<7>>(IndexKind::Volatile, pool());
}

#[test]
fn threads_on_circular() {
    threads::<Circular<4>>(IndexKind::Persistent, pool());
}

#[test]
fn threads_on_append() {
    threads::<Append<3>>(IndexKind::Flat, pool());
}

#[test]
fn records_are_whole() {
    records::<Circular<4>>(IndexKind::Persistent, pool());
}

/// Every verb, threads and records, in a mapped file.
#[cfg(not(miri))]
#[test]
fn a_file_does_what_memory_does() {
    use bristlecone::medium::{Mapped, Mapping};
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = dir.path().join(name);
        options().capacity(CAPACITY).open(&path).unwrap().close().unwrap();
        options().open_on(Arc::new(Mapped::open(&path, Mapping::Write).unwrap()) as Any).unwrap()
    };
    does_what_a_map_does::<OneLine<7>>(IndexKind::Volatile, file("alone"));
    threads::<OneLine<7>>(IndexKind::Volatile, file("threads"));
    records::<Circular<4>>(IndexKind::Persistent, file("records"));
}
