//! Trees that several threads open, close, create and drop.

use crate::medium::Any;
use crate::stress::{below, is_of, mark, outlives, pool, random, seed, sound, time, watched};
use bristlecone::{Error, ErrorKind, IndexKind, OneLine, PTree};
use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

/// Threads open, use and release one tree: every handle is to an open tree, and all threads find what any of them has
/// written.
fn come_and_go(index: IndexKind) {
    let pool = pool();
    let stop = Instant::now() + time();
    let models: Vec<BTreeMap<u64, u64>> = thread::scope(|scope| {
        let guest = |number: u64| {
            let pool = &pool;
            move || {
                seed(number);
                let mut model = BTreeMap::new();
                while Instant::now() < stop {
                    let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", index).unwrap();
                    for _ in 0..below(6) {
                        let (key, value) = (below(40) * 16 + number, random());
                        if below(3) > 0 {
                            assert_eq!(tree.insert(key, value).unwrap(), model.insert(key, value));
                        } else {
                            assert_eq!(tree.remove(key).unwrap(), model.remove(&key));
                        }
                    }
                    // If there were a close record now, an open after a crash would believe it.
                    let closed = pool.trees().unwrap()[0].closed;
                    assert!(!closed, "an open tree with a close record");
                    assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
                    drop(tree);
                    if below(4) == 0 {
                        thread::yield_now();
                    }
                }
                model
            }
        };
        let guests: Vec<_> = (0..4).map(|number| scope.spawn(guest(number))).collect();
        guests.into_iter().map(|guest| guest.join().unwrap()).collect()
    });
    let expected: BTreeMap<u64, u64> = models.into_iter().flatten().collect();
    let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", index).unwrap();
    assert!(tree.iter().eq(expected));
    sound(&tree);
    outlives(pool, tree);
}

#[test]
fn come_and_go_volatile() {
    watched("come and go", || come_and_go(IndexKind::Volatile));
}

#[test]
fn come_and_go_persistent() {
    watched("come and go", || come_and_go(IndexKind::Persistent));
}

/// Readers and a writer make the first touch of the nodes of a tree that was just opened.
fn first_touch(index: IndexKind) {
    const KEYS: u64 = 120;
    let pool = pool();
    let stop = Instant::now() + time();
    let mut round = 0;
    while Instant::now() < stop {
        round += 1;
        let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", index).unwrap();
        thread::scope(|scope| {
            for number in 0..4 {
                let tree = &tree;
                scope.spawn(move || {
                    seed(round * 8 + number);
                    for _ in 0..20 {
                        let key = below(KEYS);
                        let old = match (number, below(2)) {
                            (0, 0) => tree.insert(key, mark(key, random())).unwrap(),
                            (0, _) => tree.remove(key).unwrap(),
                            _ => tree.get(key),
                        };
                        old.into_iter().for_each(|value| is_of(key, value));
                    }
                });
            }
        });
        assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
    }
    let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", index).unwrap();
    sound(&tree);
    outlives(pool, tree);
}

#[test]
fn first_touch_volatile() {
    watched("first touch", || first_touch(IndexKind::Volatile));
}

#[test]
fn first_touch_persistent() {
    watched("first touch", || first_touch(IndexKind::Persistent));
}

#[test]
fn trees_made_and_dropped_by_all_leave_nothing_behind() {
    watched("make and drop", || {
        let pool = pool();
        let available = pool.stat().available;
        let stop = Instant::now() + time();
        thread::scope(|scope| {
            for number in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    seed(number);
                    while Instant::now() < stop {
                        if below(3) == 0 {
                            match pool.drop_tree("t") {
                                Ok(())
                                | Err(Error {
                                    kind: ErrorKind::StillOpen { .. } | ErrorKind::NoSuchTree { .. }, ..
                                }) => {}
                                Err(error) => panic!("{error}"),
                            }
                        } else {
                            let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", IndexKind::Persistent).unwrap();
                            for key in 0..below(60) {
                                tree.insert(key * 16 + number, mark(key * 16 + number, random())).unwrap();
                            }
                            tree.iter().for_each(|(key, value)| is_of(key, value));
                            assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
                        }
                    }
                });
            }
        });
        if !pool.trees().unwrap().is_empty() {
            let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", IndexKind::Persistent).unwrap();
            sound(&tree);
            drop(tree);
            pool.drop_tree("t").unwrap();
        }
        assert_eq!(pool.stat().available, available);
    });
}
