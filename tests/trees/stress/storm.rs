//! Each thread writes its own keys, beside those of the others, and reads all keys.

use super::{THREADS, below, outlives, pool, random, seed, sound, time, watched};
use crate::medium::Any;
use bristlecone::{IndexKind, PTree, WordNode};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

// Keys are interleaved, so that every leaf belongs to several threads. Thread `t` has the keys `16 n + t`.

/// The keys `16 n` plus this are always there.
const PERMANENT: u64 = 14;
/// The keys `16 n` plus this are counted up by all threads.
const COUNTER: u64 = 15;

const GROUPS: u64 = 24;

fn storm<N: WordNode>(index: IndexKind) {
    let pool = pool();
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    for n in 0..GROUPS {
        tree.insert(n * 16 + PERMANENT, n).unwrap();
    }
    let stop = Instant::now() + time();
    let (tree, pool) = (&tree, &pool);
    let increments: Vec<AtomicU64> = (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
    let increments = &increments;
    let models: Vec<BTreeMap<u64, u64>> = thread::scope(|scope| {
        let writer = |number: u64| {
            move || {
                seed(number);
                let mut model = BTreeMap::new();
                while Instant::now() < stop {
                    // Sometimes mostly inserts, sometimes mostly removals: leaves fill up and run empty.
                    let growing = below(100) < 50;
                    for _ in 0..200 {
                        write(tree, number, growing, &mut model, increments);
                    }
                }
                model
            }
        };
        let writers: Vec<_> = (0..THREADS - 2).map(|number| scope.spawn(writer(number))).collect();
        for number in THREADS - 2..THREADS {
            scope.spawn(move || {
                seed(number);
                while Instant::now() < stop {
                    scan(tree);
                    let closed = pool.trees().unwrap()[0].closed;
                    assert!(!closed, "an open tree with a close record");
                }
            });
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let mut expected: BTreeMap<u64, u64> = models.into_iter().flatten().collect();
    expected.extend((0..GROUPS).map(|n| (n * 16 + PERMANENT, n)));
    for (n, count) in increments.iter().enumerate() {
        let count = count.load(Ordering::Relaxed);
        if count > 0 {
            expected.insert(n as u64 * 16 + COUNTER, count);
        }
    }
    assert!(tree.iter().eq(expected.iter().map(|(&k, &v)| (k, v))));
    sound(tree);
    outlives(pool.clone(), tree.clone());
}

fn write<N: WordNode>(
    tree: &PTree<N, Any>,
    number: u64,
    growing: bool,
    model: &mut BTreeMap<u64, u64>,
    increments: &[AtomicU64],
) {
    let group = below(GROUPS);
    let (key, value) = (group * 16 + number, random());
    match below(14) {
        0..=3 if growing => assert_eq!(tree.insert(key, value).unwrap(), model.insert(key, value)),
        0..=5 => assert_eq!(tree.remove(key).unwrap(), model.remove(&key)),
        6 => {
            let old = model.get_mut(&key).map(|old| std::mem::replace(old, value));
            assert_eq!(tree.update(key, value).unwrap(), old);
        }
        7 => {
            let old = model.get(&key).copied();
            assert_eq!(tree.compare_exchange(key, old, Some(value)).unwrap(), old);
            model.insert(key, value);
        }
        8 => {
            let old = model.get(&key).copied();
            assert_eq!(tree.compare_exchange(key, Some(value), None).unwrap(), old, "refused");
        }
        9 => {
            let counter = group * 16 + COUNTER;
            let mut seen = tree.get(counter);
            loop {
                let now = tree.compare_exchange(counter, seen, Some(seen.unwrap_or(0) + 1)).unwrap();
                if now == seen {
                    break;
                }
                assert!(now > seen, "a counter went from {seen:?} to {now:?}");
                seen = now;
            }
            increments[group as usize].fetch_add(1, Ordering::Relaxed);
        }
        10 => {
            // The thread's own keys in a range are found exactly.
            let to = key + below(80);
            let own = |(key, _): &(u64, u64)| key % 16 == number;
            assert!(tree.range(key..=to).filter(own).eq(model.range(key..=to).map(|(&k, &v)| (k, v))));
            assert!(tree.range(key..=to).rev().filter(own).eq(model.range(key..=to).rev().map(|(&k, &v)| (k, v))));
        }
        11 => {
            let entries: Vec<(u64, u64)> = (0..below(30)).map(|_| (below(GROUPS) * 16 + number, random())).collect();
            let before = model.len();
            model.extend(entries.iter().copied());
            assert_eq!(tree.insert_batch(&entries).unwrap(), (model.len() - before) as u64);
        }
        12 => {
            let keys: Vec<u64> = (0..below(40)).map(|_| below(GROUPS) * 16 + number).collect();
            assert!(tree.multi_get(&keys).into_iter().eq(keys.iter().map(|key| model.get(key).copied())));
        }
        _ => assert_eq!(tree.get(key), model.get(&key).copied()),
    }
}

fn scan<N: WordNode>(tree: &PTree<N, Any>) {
    let (mut last, mut permanent) = (None, 0);
    for (key, value) in tree.iter() {
        assert!(last.replace(key).is_none_or(|last| last < key), "{key} after {last:?}");
        if key % 16 == PERMANENT {
            assert_eq!((key / 16, value), (permanent, permanent), "missed");
            permanent += 1;
        }
    }
    assert_eq!(permanent, GROUPS);
    let mut last = None;
    for (key, _) in tree.iter().rev() {
        assert!(last.replace(key).is_none_or(|last| last > key), "{key} after {last:?}");
        if key % 16 == PERMANENT {
            permanent -= 1;
            assert_eq!(key / 16, permanent, "missed");
        }
    }
    assert_eq!(permanent, 0);
    for n in 0..GROUPS {
        assert_eq!(tree.get(n * 16 + PERMANENT), Some(n));
    }
}

fn watched_storm<N: WordNode>(index: IndexKind) {
    watched("storm", || storm::<N>(index));
}

in_every_layout!(watched_storm);
