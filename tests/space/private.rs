//! What a journal keeps in private memory, and gives back while the pool is open.

use super::Scratch;
use bristlecone::{Journal, Map, Pool};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KIB: u64 = 1 << 10;

type Strings = Map<Vec<u8>, Vec<u8>>;

/// Keys in any order.
fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn open(path: &Path, budget: u64) -> Pool {
    Pool::options().journal(Journal::Every(Duration::from_millis(2))).private_memory(budget).open(path).unwrap()
}

/// Bytes of the mappings of a file that are this process's own.
fn anonymous(path: &Path) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let (name, mut is_of_file, mut bytes) = (path.to_str().unwrap(), false, 0);
    for line in maps.lines() {
        if line.split(' ').next().is_some_and(|word| word.contains('-')) {
            is_of_file = line.ends_with(name);
        } else if let Some(kib) = line.strip_prefix("Anonymous:").filter(|_| is_of_file) {
            bytes += kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * KIB;
        }
    }
    bytes
}

/// A pool of some megabytes, changed all over, takes no more private memory than it may; and nothing is missing.
#[test]
fn private_memory_stays_within_its_budget() {
    const BUDGET: u64 = 512 * KIB;
    const ENTRIES: u64 = 20_000;
    let scratch = Scratch::on_disk();
    let path = scratch.path("a.pool");
    for (budget, is_within) in [(BUDGET, true), (1 << 30, false)] {
        let pool = open(&path, budget);
        let map: Strings = pool.map("m").unwrap();
        let mut most = 0;
        for round in 0..2 {
            for i in 0..ENTRIES {
                map.insert(&key(i), &[round as u8; 100]).unwrap();
                if i % 1000 == 999 {
                    most = most.max(anonymous(&path));
                }
            }
        }
        let journal = pool.journal().unwrap();
        println!("{most} bytes of {budget}: {journal:?}");
        assert_eq!(journal.budget, Some(budget));
        // What the ring names alone is not counted yet.
        assert_eq!(most <= 2 * BUDGET, is_within, "{most} bytes were private: {journal:?}");
        assert_eq!(journal.evicted > 0, is_within, "{journal:?}");
        assert!((0..ENTRIES).all(|i| map.get(&key(i)).unwrap().is_some_and(|value| value == [1; 100])));
        drop(map);
        assert!(pool.check().unwrap().violations.is_empty());
        pool.close().unwrap();
    }
}

/// Threads that each own some keys see what they have written, always, and so does the next open.
#[test]
fn threads_see_what_they_have_written_while_pages_go() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 6_000;
    const KEYS: u64 = 3_000;
    let scratch = Scratch::on_disk();
    let path = scratch.path("a.pool");
    let pool = open(&path, 64 * KIB);
    let map: Strings = pool.map("m").unwrap();
    let words = pool.tree("words").unwrap();
    let is_done = AtomicBool::new(false);
    let models: Vec<BTreeMap<u64, u64>> = std::thread::scope(|scope| {
        let write = |thread: u64| {
            let (map, words, pool) = (&map, &words, &pool);
            move || {
                let mut model = BTreeMap::new();
                for round in 0..ROUNDS {
                    let i = (round * 7919 + round / 5) % KEYS * THREADS + thread;
                    let expected = model.get(&i).map(|&value: &u64| vec![value as u8; 60]);
                    assert_eq!(map.get(&key(i)).unwrap(), expected, "of thread {thread}, round {round}");
                    assert_eq!(words.get(i), model.get(&i).copied());
                    match round % 8 {
                        0 if expected.is_some() => {
                            map.remove(&key(i)).unwrap();
                            words.remove(i).unwrap();
                            model.remove(&i);
                        }
                        1 => {
                            let mut batch = pool.batch();
                            batch.insert(map, &key(i), &[round as u8; 60]).unwrap();
                            batch.insert(words, i, round).unwrap();
                            batch.commit().unwrap();
                            model.insert(i, round);
                        }
                        _ => {
                            map.insert(&key(i), &[round as u8; 60]).unwrap();
                            words.insert(i, round).unwrap();
                            model.insert(i, round);
                        }
                    }
                }
                model
            }
        };
        let writers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(write(thread))).collect();
        let reader = scope.spawn(|| {
            let mut scans = 0u64;
            while !is_done.load(Ordering::Relaxed) {
                let keys: Vec<u64> = words.keys(..).collect();
                assert!(keys.is_sorted());
                scans += 1;
                if scans.is_multiple_of(4) {
                    drop(pool.snapshot());
                }
            }
        });
        let models = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        models
    });
    let all: BTreeMap<u64, u64> = models.into_iter().flatten().collect();
    let journal = pool.journal().unwrap();
    println!("{journal:?}");
    assert!(journal.evicted > 1000, "{journal:?}");
    let are_there = |pool: &Pool| {
        let (map, words): (Strings, _) = (pool.map("m").unwrap(), pool.tree("words").unwrap());
        assert!(words.iter().eq(all.iter().map(|(&key, &value)| (key, value))));
        assert!(
            all.iter().all(|(&i, &value)| map.get(&key(i)).unwrap().is_some_and(|found| found == [value as u8; 60]))
        );
        assert!(pool.check().unwrap().violations.is_empty());
    };
    are_there(&pool);
    drop((map, words, pool));
    are_there(&open(&path, 64 * KIB));
}
