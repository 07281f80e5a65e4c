//! Figures about pools that are open.

use super::{Scratch, Trees, filled, options, reading};
use bristlecone::papers::{CircTree, CrabTree, NvTree};
use bristlecone::stat::{Metrics, TreeMetrics};
use bristlecone::{IndexKind, Map, OneLine, PTree, Pool};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

const HEADER: u64 = 16384;

fn only(metrics: Metrics) -> TreeMetrics {
    let [tree] = metrics.trees.try_into().unwrap();
    tree
}

#[test]
fn keys_leaves_splits_and_merges_are_counted() {
    let scratch = Scratch::new();
    let pool = options().open(scratch.path("a.pool")).unwrap();
    assert_eq!(pool.metrics().trees, []);
    let tree: PTree = pool.tree("t").unwrap();
    let new = only(pool.metrics());
    assert_eq!((&*new.name, new.keys, new.leaves, new.fill), ("t", Some(0), 2, Some(0.0)));
    assert_eq!((new.splits, new.merges, new.retries, new.lock_waits), (0, 0, 0, 0));
    for key in 0..10_000u64 {
        tree.insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key).unwrap();
    }
    let full = only(pool.metrics());
    let report = tree.check();
    assert_eq!((full.keys, full.leaves), (Some(10_000), report.leaves));
    // Each split adds a leaf.
    assert_eq!((full.splits, full.merges), (report.leaves - 2, 0));
    assert_eq!(full.memory, tree.memory());
    let fill = full.fill.unwrap();
    assert!((fill - 10_000.0 / ((full.leaves - 1) as f64 * 39.0)).abs() < 1e-9 && fill > 0.5 && fill < 0.9, "{fill}");
    // One thread is in nobody's way, whatever it reads.
    assert_eq!(tree.iter().count(), 10_000);
    assert!(tree.get(u64::MAX).is_none() && tree.get(7).is_none());
    assert_eq!((full.retries, full.lock_waits), (0, 0));
    for key in 0..9_900u64 {
        tree.remove(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
    }
    let empty = only(pool.metrics());
    let report = tree.check();
    assert_eq!((empty.keys, empty.leaves), (Some(100), report.leaves));
    assert_eq!(empty.leaves, 2 + empty.splits - empty.merges);
    assert!(empty.merges > 100);
    assert_eq!((empty.retries, empty.lock_waits), (0, 0));
    tree.clear().unwrap();
    assert_eq!(only(pool.metrics()).keys, Some(0));
}

/// A thread that asks for figures all the time is in nobody's way: a tree without a handle can be dropped, and the pool
/// be cut.
#[test]
fn a_look_keeps_no_tree_open() {
    let scratch = Scratch::new();
    let pool = options().open(scratch.path("a.pool")).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut looks = 0;
                    while !ends.load(Ordering::Relaxed) {
                        looks += 1;
                        pool.metrics();
                    }
                    looks
                })
            })
            .collect();
        let changed: Result<(), bristlecone::Error> = (0..60).try_for_each(|key| {
            pool.tree("t")?.insert(key, key)?;
            if key % 2 == 0 { pool.shrink().map(drop) } else { Ok(()) }?;
            pool.drop_tree("t")
        });
        ends.store(true, Ordering::Relaxed);
        assert!(looks.into_iter().map(|look| look.join().unwrap()).sum::<u32>() > 0);
        changed.unwrap();
    });
}

/// Every byte is accounted for.
#[test]
fn the_bytes_add_up() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let pool = options().open(&path).unwrap();
    let empty = pool.metrics();
    assert_eq!((empty.used, empty.reusable, empty.wasted), (HEADER, 0, 0));
    assert_eq!(empty.free, pool.stat().available);
    let tree: PTree = pool.tree("t").unwrap();
    let mut tops = 0;
    for round in 0..20_000u64 {
        if round % 5 < 4 { tree.insert(round, 1) } else { tree.remove(round / 2) }.unwrap();
        if round % 100 == 0 {
            let metrics = pool.metrics();
            let leaves = only(metrics.clone()).leaves;
            assert_eq!(metrics.used, HEADER + leaves * 640 + metrics.reusable + metrics.wasted, "{metrics:?}");
            tops = tops.max(metrics.reusable);
        }
    }
    assert!(tops > 640);
    let before = pool.metrics();
    // What is behind the last leaf of each segment of 64 KiB.
    assert!(before.wasted >= before.used / (64 << 10) * (65_536 % 640), "{before:?}");
    drop(tree);
    // The close record is an extent of its own; the leaves waste what they did, though nobody has them open.
    let after = pool.metrics();
    assert_eq!((after.reusable, after.trees.len()), (0, 0));
    assert_eq!(after.wasted, before.wasted);
    // Records, too, and what was removed is reusable.
    let map: Map<u64, Vec<u8>> = pool.map("m").unwrap();
    (0..1000).for_each(|key| assert!(!map.insert(key, &[7; 100]).unwrap()));
    let full = pool.metrics();
    (0..1000).step_by(2).for_each(|key| assert!(map.remove(key).unwrap()));
    // What readers may know is not reusable yet; an insert finds that they have gone.
    (0..10).for_each(|key| assert!(!map.insert(key * 2, &[7; 100]).unwrap()));
    let half = pool.metrics();
    assert!(half.reusable > full.reusable, "{full:?} {half:?}");
    let limited = options().capacity(64 << 20).open(scratch.path("b.pool")).unwrap().metrics();
    assert_eq!(limited.used + limited.free, 64 << 20);
}

#[test]
fn layouts_of_all_kinds_count() {
    let scratch = Scratch::new();
    let pool = options().open(scratch.path("a.pool")).unwrap();
    fn put<N: bristlecone::WordNode>(tree: &PTree<N>, key: u64) {
        assert_eq!(tree.insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key).unwrap(), None);
    }
    fn take<N: bristlecone::WordNode>(tree: &PTree<N>, key: u64) {
        assert_eq!(tree.remove(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap(), Some(key));
    }
    fn fill<N: bristlecone::WordNode>(pool: &Pool, tree: PTree<N>) {
        for round in 0..2 {
            let there = if round == 0 { 3000 } else { 2990 };
            (0..there).for_each(|key| put(&tree, key));
            let full = only(pool.metrics());
            assert!(full.splits > 0 && full.keys == Some(3000), "{full:?}");
            assert_eq!(full.leaves, tree.check().leaves);
            (0..2990u64).for_each(|key| take(&tree, key));
            let empty = only(pool.metrics());
            assert_eq!((empty.keys, empty.leaves), (Some(10), tree.check().leaves));
            assert!(empty.merges > 0, "{}, {round}: {empty:?}", tree.name());
            assert!(empty.fill.is_none_or(|fill| (0.0..=1.0).contains(&fill)));
        }
        drop(tree);
    }
    fill(&pool, pool.tree_with::<OneLine>("persistent", IndexKind::Persistent).unwrap());
    fill(&pool, pool.tree_of::<CircTree>("circ").unwrap());
    fill(&pool, pool.tree_of::<NvTree>("nv").unwrap());
    fill(&pool, pool.tree_of::<CrabTree>("crab").unwrap());
    let texts: Map<String, u64> = pool.map("texts").unwrap();
    (0..3000).for_each(|key| assert!(!texts.insert(&format!("{key}"), key).unwrap()));
    let full = only(pool.metrics());
    assert_eq!((full.keys, full.leaves), (Some(3000), texts.check().leaves));
    assert_eq!(full.leaves, full.splits + 1);
    (0..3000).for_each(|key| assert!(texts.remove(&format!("{key}")).unwrap()));
    let empty = only(pool.metrics());
    assert_eq!((empty.keys, empty.leaves), (Some(0), 1 + empty.splits - empty.merges));
}

#[test]
fn keys_are_unknown_after_a_crash_until_somebody_asks() {
    let scratch = Scratch::new();
    let (path, left) = (scratch.path("a.pool"), scratch.path("left"));
    let pool = options().open(&path).unwrap();
    let tree = pool.tree("t").unwrap();
    (0..5000).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    fs::copy(&path, &left).unwrap();
    let before = only(pool.metrics());
    for options in [reading(), options()] {
        let pool = options.open(&left).unwrap();
        let tree = pool.tree("t").unwrap();
        let after = only(pool.metrics());
        assert_eq!((after.keys, after.fill, after.leaves), (None, None, before.leaves));
        // Nor does it read leaves to find out: what is read for the first time is no retry.
        assert!((0..5000).all(|key| tree.get(key) == Some(key)));
        assert_eq!(only(pool.metrics()).retries, 0);
        assert_eq!(tree.len(), 5000);
        let after = only(pool.metrics());
        assert_eq!((after.keys, after.fill), (Some(5000), before.fill));
    }
}

#[test]
fn threads_that_are_in_each_others_way_are_counted() {
    let scratch = Scratch::new();
    let pool = options().open(scratch.path("a.pool")).unwrap();
    let tree = pool.tree("t").unwrap();
    (0..20).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    let done = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|threads| {
        for thread in 0..3u64 {
            let (tree, done) = (&tree, &done);
            threads.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    for key in 0..20 {
                        tree.insert(key, thread).unwrap();
                        assert!(tree.get(key).is_some());
                    }
                }
            });
        }
        loop {
            let found = only(pool.metrics());
            if found.retries > 0 && found.lock_waits > 0 {
                break;
            }
            assert!(start.elapsed().as_secs() < 60, "{found:?}");
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Whatever happens between the looks at keys and at leaves.
#[test]
fn leaves_are_never_more_than_full() {
    let scratch = Scratch::new();
    let pool = options().open(scratch.path("a.pool")).unwrap();
    let tree = pool.tree("t").unwrap();
    let (done, looks) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut full = 0;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..60 {
                tree.bulk_load((0..20_000).map(|key| (key, key))).unwrap();
                // A whole look at the full tree.
                let before = looks.load(Ordering::Relaxed);
                while looks.load(Ordering::Relaxed) < before + 2 {
                    std::thread::yield_now();
                }
                tree.clear().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let found = only(pool.metrics());
            assert!(found.fill.is_some_and(|fill| (0.0..=1.0).contains(&fill)), "{found:?}");
            full += u32::from(found.keys == Some(20_000));
            looks.fetch_add(1, Ordering::Relaxed);
        }
    });
    let looks = looks.into_inner();
    // The control: both were seen.
    assert!(full > 0 && full < looks, "{full} {looks}");
}

#[test]
fn what_is_only_read_is_measured() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    filled(&path, 3000);
    let pool = reading().open(&path).unwrap();
    assert_eq!(pool.metrics().trees, []);
    assert_eq!(pool.metrics().used, pool.stat().used);
    let trees = Trees::open(&pool).unwrap();
    let metrics = pool.metrics();
    assert_eq!(metrics.trees.len(), 10);
    assert!(metrics.trees.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert!(metrics.trees.iter().all(|tree| tree.keys == Some(2000)), "{metrics:?}");
    assert!(metrics.trees.iter().all(|tree| tree.splits + tree.merges == 0));
    drop(trees);
}
