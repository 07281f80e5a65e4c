//! Transactions and batches of writes.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Counted, Dram};
use bristlecone::{ByteLeaf, Error, ErrorKind, IndexKind, Map, OneLine, PTree, Pool, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn pool() -> Pool<Any> {
    crate::plain().segment_size(64 << 10).create_on(zeroed(16 << 20)).unwrap()
}

type Tree = PTree<OneLine, Any>;

fn is_conflict<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error { kind: ErrorKind::Conflict, .. }))
}

#[test]
fn writes_are_seen_by_others_at_the_commit_and_by_oneself_at_once() {
    let pool = pool();
    let (numbers, names) = (pool.tree("numbers").unwrap(), pool.map::<String, String>("names").unwrap());
    numbers.insert(1, 10).unwrap();
    names.insert("gone", "soon").unwrap();
    let mut tx = pool.begin();
    tx.insert(&numbers, 1, 11).unwrap();
    tx.insert(&numbers, 2, 20).unwrap();
    tx.insert(&names, "new", "one").unwrap();
    tx.remove(&names, "gone").unwrap();
    assert_eq!([tx.get(&numbers, 1).unwrap(), tx.get(&numbers, 2).unwrap()], [Some(11), Some(20)]);
    assert_eq!(tx.get(&names, "new").unwrap().as_deref(), Some("one"));
    assert!(!tx.contains_key(&names, "gone").unwrap());
    let with_n: Vec<_> = tx.prefix(&names, "n").unwrap().map(|entry| entry.unwrap().0).collect();
    assert_eq!(with_n, ["new"]);
    assert_eq!((numbers.get(1), numbers.len(), names.len()), (Some(10), 1, 1));
    tx.commit().unwrap();
    assert_eq!(numbers.iter().collect::<Vec<_>>(), [(1, 11), (2, 20)]);
    assert_eq!(names.iter().map(Result::unwrap).collect::<Vec<_>>(), [("new".to_owned(), "one".to_owned())]);
    // Given up.
    let mut tx = pool.begin();
    tx.insert(&numbers, 3, 30).unwrap();
    drop(tx);
    assert_eq!((numbers.len(), names.len()), (2, 1));
    assert!(pool.check().unwrap().violations.is_empty());
}

#[test]
fn what_was_read_and_has_changed_is_a_conflict() {
    let pool = pool();
    let tree = pool.tree("t").unwrap();
    tree.insert(1, 10).unwrap();
    // Known at the commit, with one write and with several.
    for writes in 1..3 {
        let mut tx = pool.begin();
        let value = tx.get(&tree, 1).unwrap().unwrap();
        tree.insert(1, value + 1).unwrap();
        (0..writes).for_each(|i| tx.insert(&tree, 100 + i, 0).unwrap());
        assert!(is_conflict(tx.commit()));
        assert_eq!(tree.len(), 1);
    }
    // Known at the next read, and from then on.
    let mut tx = pool.begin();
    tx.get(&tree, 1).unwrap();
    tree.remove(1).unwrap();
    assert!(is_conflict(tx.get(&tree, 2)) && is_conflict(tx.get(&tree, 3)));
    assert!(is_conflict(tx.commit()));
    // Reads alone are true at the moment of the last one.
    let mut tx = pool.begin();
    assert_eq!(tx.get(&tree, 1).unwrap(), None);
    tree.insert(1, 5).unwrap();
    tx.commit().unwrap();
}

#[test]
fn neighbours_and_splits_are_no_conflict() {
    let pool = pool();
    let tree = pool.tree("t").unwrap();
    let map = pool.map::<String, u64>("m").unwrap();
    map.insert("k", 1).unwrap();
    tree.insert(500, 1).unwrap();
    for writes in 1..3 {
        let mut tx = pool.begin();
        assert_eq!(tx.get(&tree, 500).unwrap(), Some(1));
        assert_eq!(tx.get(&map, "k").unwrap(), Some(1));
        assert_eq!(tx.range(&tree, 400..600).unwrap().count(), 1);
        for i in (0..400).chain(600..1000) {
            tree.insert(i, i).unwrap();
            map.insert(&format!("{i}"), i).unwrap();
        }
        assert_eq!(tx.get(&tree, 500).unwrap(), Some(1));
        (0..writes).for_each(|i| tx.insert(&tree, 450 + i, 7).unwrap());
        tx.commit().unwrap();
        tree.remove(450).unwrap();
        tree.remove(451).unwrap();
    }
}

#[test]
fn phantoms_are_a_conflict() {
    let pool = pool();
    let tree = pool.tree("t").unwrap();
    let map = pool.map::<Vec<u8>, u64>("m").unwrap();
    for i in 0..1000u64 {
        tree.insert(10 * i, i).unwrap();
        map.insert(&(10 * i).to_be_bytes(), i).unwrap();
    }
    for key in [5, 55, 9_995] {
        let mut tx = pool.begin();
        assert_eq!(tx.range(&tree, ..10_000).unwrap().count(), 1000);
        tree.insert(key, 0).unwrap();
        tx.insert(&tree, 1_000_000, 0).unwrap();
        assert!(is_conflict(tx.commit()));
        tree.remove(key).unwrap();
        let mut tx = pool.begin();
        let (from, to) = (40u64.to_be_bytes(), 60u64.to_be_bytes());
        let none = tx.range(&map, &from[..].split_at(8).0[..8]..&to[..]).unwrap().count();
        assert_eq!(none, 2);
        map.insert(&55u64.to_be_bytes(), 0).unwrap();
        tx.insert(&tree, 1_000_000, 0).unwrap();
        assert!(is_conflict(tx.commit()));
        map.remove(&55u64.to_be_bytes()).unwrap();
    }
}

/// Two transactions that each read what the other one writes: only one of them may commit.
#[test]
fn writes_are_not_skewed() {
    let pool = pool();
    let (a, b) = (pool.tree("a").unwrap(), pool.tree("b").unwrap());
    a.insert(1, 1).unwrap();
    b.insert(1, 1).unwrap();
    let take = |pool: &Pool<Any>, from: &Tree| {
        pool.transaction(|tx| {
            let sum = tx.get(&a, 1)?.unwrap() + tx.get(&b, 1)?.unwrap();
            if sum == 2 { tx.insert(if from.name() == "a" { &a } else { &b }, 1, 0) } else { Ok(()) }
        })
    };
    for _ in 0..300 {
        std::thread::scope(|threads| {
            threads.spawn(|| take(&pool, &a).unwrap());
            threads.spawn(|| take(&pool, &b).unwrap());
        });
        assert_eq!(a.get(1).unwrap() + b.get(1).unwrap(), 1);
        a.insert(1, 1).unwrap();
        b.insert(1, 1).unwrap();
    }
}

/// Threads move amounts between accounts in two maps; the sum is the same in every transaction and at the end.
#[test]
fn sums_are_kept() {
    const ACCOUNTS: u64 = 40;
    let pool = pool();
    let tree = pool.tree("numbers").unwrap();
    let map = pool.map::<String, u64>("texts").unwrap();
    let name = |i: u64| format!("account {i}");
    for i in 0..ACCOUNTS {
        tree.insert(i, 100).unwrap();
        map.insert(&name(i), 100).unwrap();
    }
    let conflicts = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for thread in 0..4u64 {
            let (pool, tree, map, conflicts) = (&pool, &tree, &map, &conflicts);
            threads.spawn(move || {
                let mut seed = thread + 1;
                for round in 0..400 {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let (from, to) = (seed >> 33 & 7, seed >> 40 & 7);
                    let mut tries = 0;
                    pool.transaction(|tx| {
                        tries += 1;
                        let (rich, poor) = (tx.get(tree, from)?.unwrap(), tx.get(map, &name(to))?.unwrap());
                        let amount = rich.min(1 + seed % 9);
                        tx.insert(tree, from, rich - amount)?;
                        tx.insert(map, &name(to), poor + amount)?;
                        if round % 16 == 0 {
                            // And back, with all of them read.
                            let sum: u64 =
                                tx.range(tree, ..)?.map(|entry| entry.map(|(_, v)| v)).sum::<Result<u64>>()?;
                            let texts: u64 =
                                tx.range(map, ..)?.map(|entry| entry.map(|(_, v)| v)).sum::<Result<u64>>()?;
                            assert_eq!(sum + texts, 2 * 100 * ACCOUNTS);
                        }
                        Ok::<_, Error>(())
                    })
                    .unwrap();
                    conflicts.fetch_add(tries - 1, Ordering::Relaxed);
                }
            });
        }
    });
    let texts: u64 = map.iter().map(|entry| entry.unwrap().1).sum();
    assert_eq!(tree.iter().map(|(_, value)| value).sum::<u64>() + texts, 2 * 100 * ACCOUNTS);
    assert!(pool.check().unwrap().violations.is_empty());
}

/// New keys that need many splits, in any order, with some that are there and some that go.
#[test]
fn any_number_of_writes_happen_at_once() {
    for (count, step) in [(1, 1), (11, 1), (12, 7), (13, 1), (100, 3), (3000, 7), (3000, 1), (3000, 2999)] {
        let pool = pool();
        let (tree, map) = (pool.tree("t").unwrap(), pool.map::<String, String>("m").unwrap());
        let mut model = BTreeMap::new();
        for round in 0..3u64 {
            let mut batch = pool.batch();
            for i in 0..count {
                let key = (i * step % 3001) * 2 + round % 2;
                if (key + round) % 5 == 4 {
                    batch.remove(&tree, key).unwrap();
                    batch.remove(&map, &format!("{key:06}")).unwrap();
                    model.remove(&key);
                } else {
                    batch.insert(&tree, key, key + round).unwrap();
                    batch.insert(&map, &format!("{key:06}"), &format!("{}", key + round)).unwrap();
                    model.insert(key, key + round);
                }
            }
            batch.commit().unwrap();
            assert!(tree.iter().eq(model.iter().map(|(&key, &value)| (key, value))));
            let texts: Vec<_> = map.iter().map(Result::unwrap).collect();
            assert!(texts.into_iter().eq(model.iter().map(|(k, v)| (format!("{k:06}"), format!("{v}")))));
            assert_eq!((tree.len(), map.len()), (model.len() as u64, model.len() as u64));
            assert_eq!(pool.check().unwrap().violations, []);
        }
    }
}

#[test]
fn ranges_show_what_was_written() {
    let pool = pool();
    let (tree, map) = (pool.tree("t").unwrap(), pool.map::<Vec<u8>, Vec<u8>>("m").unwrap());
    let mut model = BTreeMap::new();
    let bytes = |i: u64| i.to_be_bytes().to_vec();
    for i in 0..500 {
        tree.insert(3 * i, i).unwrap();
        map.insert(&bytes(3 * i), &bytes(i)).unwrap();
        model.insert(3 * i, i);
    }
    let mut tx = pool.begin();
    for i in 0..400 {
        let key = i * 7 % 1600;
        if i % 3 == 0 {
            tx.remove(&tree, key).unwrap();
            tx.remove(&map, &bytes(key)).unwrap();
            model.remove(&key);
        } else {
            tx.insert(&tree, key, i).unwrap();
            tx.insert(&map, &bytes(key), &bytes(i)).unwrap();
            model.insert(key, i);
        }
    }
    for (from, to) in [(0, 2000), (0, 1), (17, 18), (100, 900), (1499, 1601), (1700, 1800)] {
        let expected: Vec<_> = model.range(from..to).map(|(&key, &value)| (key, value)).collect();
        let found: Vec<_> = tx.range(&tree, from..to).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, expected);
        let back: Vec<_> = tx.range(&tree, from..to).unwrap().rev().map(Result::unwrap).collect();
        assert!(back.iter().eq(expected.iter().rev()));
        let strings: Vec<_> = tx.range(&map, &bytes(from)[..]..&bytes(to)[..]).unwrap().map(Result::unwrap).collect();
        assert!(strings.into_iter().eq(expected.iter().map(|&(key, value)| (bytes(key), bytes(value)))));
        // From both ends in turns.
        let mut both = tx.range(&map, &bytes(from)[..]..&bytes(to)[..]).unwrap();
        let mut left = expected.iter().copied().collect::<std::collections::VecDeque<_>>();
        while let Some((key, value)) = left.pop_front() {
            assert_eq!(both.next().unwrap().unwrap(), (bytes(key), bytes(value)));
            let last = left.pop_back().map(|(key, value)| (bytes(key), bytes(value)));
            assert_eq!(both.next_back().transpose().unwrap(), last);
        }
        assert!(both.next().is_none() && both.next_back().is_none());
    }
    tx.commit().unwrap();
    assert!(tree.iter().eq(model));
}

/// Three rounds, whatever the number of keys and trees; one more with records; and a single write as without a
/// transaction.
#[test]
fn lines_and_fences() {
    let counted = Arc::new(Counted::new(Dram::zeroed(16 << 20)));
    let options = crate::plain().segment_size(64 << 10);
    let pool = options.create_on(Arc::clone(&counted) as Any).unwrap();
    let (a, b) = (pool.tree("a").unwrap(), pool.tree("b").unwrap());
    let map = pool.map::<u64, String>("m").unwrap();
    for i in 0..1000 {
        a.insert(i * 10, 0).unwrap();
        b.insert(i * 10, 0).unwrap();
        map.insert(i, "x").unwrap();
    }
    // The first one of a session says so in the superblock.
    let mut batch = pool.batch();
    batch.insert(&a, 0, 1).unwrap();
    batch.insert(&b, 0, 1).unwrap();
    batch.commit().unwrap();
    for (updates, list) in [(2u64, 1), (3, 1), (10, 4), (24, 8)] {
        let before = counted.counts();
        let mut batch = pool.batch();
        for i in 0..updates {
            // One leaf each.
            batch.insert(if i % 2 == 0 { &a } else { &b }, i * 400, i + 7).unwrap();
        }
        batch.commit().unwrap();
        let counts = counted.counts() - before;
        assert_eq!((counts.fences, counts.lines), (3, updates + list + 1), "{updates} updates");
    }
    // Two more for 25 words: the list is in an extent, for which the segment table changes.
    let before = counted.counts();
    let mut batch = pool.batch();
    (0..25).for_each(|i| batch.insert(&a, i * 400, i + 7).unwrap());
    batch.commit().unwrap();
    assert_eq!((counted.counts() - before).fences, 5);
    let before = counted.counts();
    let mut batch = pool.batch();
    batch.insert(&map, 1, "y").unwrap();
    batch.insert(&map, 900, "z").unwrap();
    batch.commit().unwrap();
    assert_eq!((counted.counts() - before).fences, 4);
    let before = counted.counts();
    let mut tx = pool.begin();
    let value = tx.get(&a, 50).unwrap().unwrap();
    tx.insert(&a, 50, value + 1).unwrap();
    tx.commit().unwrap();
    let counts = counted.counts() - before;
    assert_eq!((counts.fences, counts.lines), (1, 1));
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_half_done() {
    let (pool, other) = (pool(), pool());
    let (tree, foreign) = (pool.tree("t").unwrap(), other.tree("foreign").unwrap());
    let texts = pool.map::<String, String>("texts").unwrap();
    let mut tx = pool.begin();
    assert!(matches!(tx.get(&foreign, 1), Err(Error { kind: ErrorKind::OtherPool { tree }, .. }) if tree == "foreign"));
    assert!(matches!(tx.insert(&foreign, 1, 1), Err(Error { kind: ErrorKind::OtherPool { .. }, .. })));
    let long = "x".repeat(70_000);
    assert!(matches!(tx.insert(&texts, &long, "v"), Err(Error { kind: ErrorKind::KeyTooLong { .. }, .. })));
    tx.remove(&texts, &long).unwrap();
    assert_eq!(tx.get(&texts, &long).unwrap(), None);
    tx.commit().unwrap();
    // More than the pool has room for: before that everything fits, and after it nothing has changed.
    texts.insert("a", "1").unwrap();
    let mut tx = pool.begin();
    tx.insert(&tree, 1, 1).unwrap();
    for i in 0..200 {
        tx.insert(&texts, &format!("{i}"), &long.repeat(2)).unwrap();
    }
    assert!(matches!(tx.commit(), Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. })));
    assert_eq!((tree.len(), texts.len()), (0, 1));
    texts.insert("b", &long).unwrap();
    // A panic gives the transaction up.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.transaction(|tx| -> Result<()> {
            tx.insert(&tree, 1, 1)?;
            panic!("the caller's");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(tree.len(), 0);
    assert!(pool.check().unwrap().violations.is_empty());
    drop((tree, texts));
    pool.close().unwrap();
}

/// A thread that never ends its transaction stops nobody.
#[test]
fn a_transaction_left_open_locks_nothing() {
    let pool = pool();
    let tree = pool.tree("t").unwrap();
    let map: Map<u64, Vec<u8>, OneLine, Any> = pool.map("m").unwrap();
    map.insert(1, b"one").unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut tx = pool.begin();
            tx.get(&tree, 1).unwrap();
            tx.get(&map, 1).unwrap();
            tx.insert(&tree, 1, 1).unwrap();
            std::mem::forget(tx);
        });
    });
    tree.insert(1, 2).unwrap();
    map.insert(1, b"two").unwrap();
    pool.transaction(|tx| {
        tx.insert(&tree, 2, 2)?;
        tx.insert(&map, 2, b"two")
    })
    .unwrap();
    assert_eq!((tree.len(), map.len()), (2, 2));
}

/// What a transaction keeps from being used again is free after the close, even if it never ended.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn a_transaction_that_never_ends_takes_no_space_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let mut available = Vec::new();
    for round in 0..4u8 {
        let pool = crate::plain().capacity(8 << 20).segment_size(64 << 10).open(&path).unwrap();
        let map: Map<String, Vec<u8>> = pool.map("m").unwrap();
        map.insert("long", &[round; 100_000]).unwrap();
        map.insert("short", &[round; 100]).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut tx = pool.begin();
                tx.get(&map, "long").unwrap();
                tx.insert(&map, "other", &[1; 50_000]).unwrap();
                std::mem::forget(tx);
            });
        });
        for i in 0..10 {
            map.insert("long", &[i; 100_000]).unwrap();
            map.insert("short", &[i; 100]).unwrap();
        }
        drop(map);
        pool.close().unwrap();
        let pool = crate::plain().open(&path).unwrap();
        assert!(pool.check().unwrap().violations.is_empty());
        available.push(pool.stat().available);
    }
    assert!(available.iter().all(|&bytes| bytes == available[0]), "{available:?}");
}

/// Threads that find no list wait for one, also if they hold leaves and their lists take segments.
#[test]
fn more_threads_commit_than_there_are_lists() {
    let (threads, rounds) = if cfg!(miri) { (9, 2) } else { (24u64, 60) };
    let pool = pool();
    let (numbers, texts) = (pool.tree("numbers").unwrap(), pool.map::<String, u64>("texts").unwrap());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (pool, numbers, texts) = (&pool, &numbers, &texts);
            scope.spawn(move || {
                for round in 0..rounds {
                    let mut batch = pool.batch();
                    for i in 0..1 + (round * 13 + thread) % 40 {
                        batch.insert(numbers, i * threads + thread, round).unwrap();
                        batch.insert(texts, &format!("{i}-{thread}"), round).unwrap();
                    }
                    batch.commit().unwrap();
                    if round % 16 == thread % 16 {
                        let snapshot = pool.snapshot();
                        assert_eq!(snapshot.len(numbers).unwrap(), snapshot.len(texts).unwrap());
                    }
                }
            });
        }
    });
    assert_eq!(numbers.len(), texts.len());
    assert_eq!(pool.check().unwrap().violations, []);
}

/// Any batches on two trees of small leaves in a pool that is full now and then: each is done whole, or not at all.
#[test]
fn batches_in_small_pools() {
    type Texts = Map<Vec<u8>, Vec<u8>, ByteLeaf<4>, Any>;
    let mut refused = 0;
    for seed in 1..40u64 {
        let len = (26 + seed) << 10;
        let options = crate::plain().segment_size(1024);
        let mut pool = options.create_on(zeroed(len)).unwrap();
        let mut model = BTreeMap::new();
        let mut random = seed;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        // A few bytes that most keys share, so that some lows are records.
        let key_of = |key: u64| [&b"x".repeat(60 * (seed as usize % 2))[..], &key.to_be_bytes()].concat();
        for round in 0..60 {
            let tree: PTree<OneLine<7>, Any> = pool.tree_of("t").unwrap();
            let map: Texts = pool.map_with("m", IndexKind::Volatile).unwrap();
            let mut batch = pool.batch();
            let mut after = model.clone();
            for _ in 0..1 + next(if round % 7 == 0 { 60 } else { 8 }) {
                let (key, value) = (next(150), next(1000));
                if next(5) < 2 {
                    batch.remove(&tree, key).unwrap();
                    batch.remove(&map, &key_of(key)).unwrap();
                    after.remove(&key);
                } else {
                    batch.insert(&tree, key, value).unwrap();
                    batch.insert(&map, &key_of(key), &vec![value as u8; value as usize % 50]).unwrap();
                    after.insert(key, value);
                }
            }
            match batch.commit() {
                Ok(()) => model = after,
                Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => {
                    refused += 1;
                    // What is full can be emptied one by one.
                    let some: Vec<u64> = model.keys().copied().step_by(2).collect();
                    for key in some {
                        tree.remove(key).unwrap();
                        assert!(map.remove(&key_of(key)).unwrap());
                        model.remove(&key);
                    }
                }
                Err(error) => panic!("{error}"),
            }
            assert!(tree.iter().eq(model.iter().map(|(&key, &value)| (key, value))), "seed {seed}, round {round}");
            let texts: Vec<_> = map.iter().map(Result::unwrap).collect();
            let expected = |(&key, &value): (&u64, &u64)| (key_of(key), vec![value as u8; value as usize % 50]);
            assert!(texts.into_iter().eq(model.iter().map(expected)));
            assert_eq!(pool.check().unwrap().violations, []);
            if round % 5 == 4 {
                // As after a crash of the process.
                let words = words_of(pool.medium());
                drop((tree, map));
                pool = options.open_on(holding(words)).unwrap();
            }
        }
    }
    assert!(refused > 20, "only {refused} batches were too much for their pools");
}
