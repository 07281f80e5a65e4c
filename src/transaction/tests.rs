//! Transactions whose leaves others write to all the time.

use super::Transaction;
use super::commit::{MANY, PASSES};
use crate::error::{Error, ErrorKind, Result};
use crate::map::Map;
use crate::medium::any::{Any, zeroed};
use crate::node::OneLine;
use crate::pool::{Options, Pool};
use crate::tree::PTree;

type Tree = PTree<OneLine, Any>;

const KEYS: u64 = 1000;

fn options() -> Options {
    Pool::options().segment_size(64 << 10)
}

/// A pool, and a tree with every tenth key.
fn filled(options: Options) -> (Pool<Any>, Tree) {
    let pool = options.create_on(zeroed(16 << 20)).unwrap();
    let tree = pool.tree("t").unwrap();
    (0..KEYS).for_each(|i| assert_eq!(tree.insert(10 * i, i).unwrap(), None));
    (pool, tree)
}

fn is_conflict<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error { kind: ErrorKind::Conflict, .. }))
}

/// Reads some keys, and writes next to each of them: so every pass finds a leaf that has changed.
fn read_beside_a_writer<'t>(tx: &mut Transaction<'t, Any>, tree: &'t Tree, keys: std::ops::Range<u64>) {
    for i in keys {
        assert_eq!(tx.get(tree, 10 * i).unwrap(), Some(i));
        tree.insert(10 * i + 1, 0).unwrap();
    }
}

/// A transaction that compares what it reads with a snapshot.
fn standing<'t>(pool: &'t Pool<Any>, tree: &'t Tree) -> Transaction<'t, Any> {
    let mut tx = pool.begin();
    read_beside_a_writer(&mut tx, tree, 0..2 * u64::from(PASSES));
    assert!(tx.moment.is_some());
    tx
}

fn instant(tx: &Transaction<'_, Any>) -> u64 {
    tx.moment.as_ref().unwrap().instant
}

/// Besides one pass for each read, there are a few for the whole transaction, however many reads and writes.
#[test]
fn others_who_write_all_the_time_cost_few_passes() {
    let (pool, tree) = filled(options());
    let map: Map<u64, String, _, Any> = pool.map("m").unwrap();
    (0..KEYS).for_each(|i| assert!(!map.insert(10 * i, &i.to_string()).unwrap()));
    for writes in 0..3 {
        let mut tx = pool.begin();
        for i in 0..KEYS {
            assert_eq!(tx.get(&tree, 10 * i).unwrap(), Some(i));
            assert_eq!(tx.get(&map, 10 * i).unwrap(), Some(i.to_string()));
            let near = tx.range(&tree, 10 * i..10 * i + 1).unwrap().next().unwrap().unwrap();
            assert_eq!(near, (10 * i, i));
            tree.insert(10 * i + 1, writes).unwrap();
            map.insert(10 * i + 1, "a neighbour").unwrap();
        }
        assert_eq!(tx.lost, PASSES);
        let at = instant(&tx);
        assert!(at <= 3, "a new snapshot for what has not changed: {at}");
        (0..writes).for_each(|i| tx.insert(&tree, 5 + i, i).unwrap());
        tx.commit().unwrap();
        assert_eq!(tree.get(5), (writes > 0).then_some(0));
        tree.remove(5).unwrap();
        tree.remove(6).unwrap();
    }
    let numbers = pool.snapshots();
    assert_eq!((numbers.open, numbers.memory, numbers.expired), (0, 0, 0));
    assert!(pool.check().unwrap().violations.is_empty());
}

/// Many reads are not compared one by one.
#[test]
fn many_reads_are_compared_with_a_snapshot() {
    let (pool, tree) = filled(options());
    let mut tx = pool.begin();
    for i in 0..3 * MANY as u64 {
        assert_eq!(tx.get(&tree, i).unwrap(), (i % 10 == 0).then_some(i / 10));
    }
    assert_eq!((tx.moment.is_some(), instant(&tx)), (true, 1));
    tree.insert(5, 5).unwrap();
    assert_eq!(tx.get(&tree, 9000).unwrap(), Some(900));
    assert!(is_conflict(tx.get(&tree, 5)));
}

#[test]
fn what_has_changed_since_is_read_if_all_else_has_not() {
    let (pool, tree) = filled(options());
    let mut tx = standing(&pool, &tree);
    let before = instant(&tx);
    // Own writes are what is read, whatever becomes of the key.
    tx.insert(&tree, 7000, 1).unwrap();
    tree.insert(7000, 2).unwrap();
    assert_eq!((tx.get(&tree, 7000).unwrap(), instant(&tx)), (Some(1), before));
    tree.insert(5000, 7).unwrap();
    assert_eq!(tx.get(&tree, 5000).unwrap(), Some(7));
    let after = instant(&tx);
    assert!(after > before);
    tree.insert(6001, 0).unwrap();
    assert_eq!(tx.range(&tree, 6000..6010).unwrap().count(), 2);
    assert!(instant(&tx) > after);
    tx.commit().unwrap();
    assert_eq!(tree.get(7000), Some(1));
}

#[test]
fn what_was_read_and_has_changed_is_a_conflict_at_the_latest_at_the_commit() {
    let (pool, tree) = filled(options());
    let change = |what: u64| match what {
        0 => drop(tree.update(20, 0).unwrap()),
        1 => drop(tree.remove(20).unwrap()),
        // A phantom.
        _ => drop(tree.insert(8005, 0).unwrap()),
    };
    let undo = || {
        tree.insert(20, 2).unwrap();
        tree.remove(8005).unwrap();
    };
    for what in 0..3 {
        let begin = || {
            let mut tx = standing(&pool, &tree);
            assert_eq!(tx.range(&tree, 8000..8010).unwrap().count(), 1);
            change(what);
            tx
        };
        // What else is read belongs to the moment before the change.
        let mut tx = begin();
        assert_eq!(tx.get(&tree, 4000).unwrap(), Some(400));
        tx.commit().unwrap();
        undo();
        for writes in 1..3 {
            let mut tx = begin();
            assert_eq!(tx.get(&tree, 4000).unwrap(), Some(400));
            (0..writes).for_each(|i| tx.insert(&tree, 105 + i, 0).unwrap());
            assert!(is_conflict(tx.commit()));
            assert_eq!(tree.get(105), None);
            undo();
        }
        // What changed later belongs to no moment at which the rest was true.
        let mut tx = begin();
        tree.update(4000, 400).unwrap();
        tree.insert(4000, 1).unwrap();
        assert!(is_conflict(tx.get(&tree, 4000)) && is_conflict(tx.get(&tree, 3000)) && is_conflict(tx.commit()));
        tree.insert(4000, 400).unwrap();
        undo();
        // A transaction that waits for a change by reading again and again sees that there was one.
        let mut tx = begin();
        assert!(is_conflict(if what < 2 {
            tx.get(&tree, 20).map(drop)
        } else {
            tx.range(&tree, 8000..8010).unwrap().try_for_each(|entry| entry.map(drop))
        }));
        drop(tx);
        undo();
    }
}

#[test]
fn a_tree_that_is_created_since_is_read() {
    let (pool, tree) = filled(options());
    let new: Tree;
    let mut tx = standing(&pool, &tree);
    new = pool.tree("new").unwrap();
    new.insert(1, 2).unwrap();
    assert_eq!((tx.get(&new, 1).unwrap(), tx.get(&new, 2).unwrap()), (Some(2), None));
    tx.insert(&new, 2, 3).unwrap();
    tx.commit().unwrap();
    assert_eq!(new.get(2), Some(3));
}

/// Snapshots of transactions give way to those of users; and without any memory, transactions do without.
#[test]
fn snapshots_of_transactions_expire_first_and_are_not_missed() {
    for limit in [0, 10 << 10] {
        let (pool, tree) = filled(options().snapshot_memory(limit));
        let snapshot = (limit > 0).then(|| pool.snapshot());
        for _ in 0..3 {
            let mut tx = pool.begin();
            read_beside_a_writer(&mut tx, &tree, 0..50);
            assert_eq!(tx.get(&tree, 9000).unwrap(), Some(900));
            tx.insert(&tree, 9000, 900).unwrap();
            assert_eq!(tx.has_expired, limit == 0);
            tx.commit().unwrap();
        }
        let numbers = pool.snapshots();
        assert_eq!((numbers.open, numbers.expired), (u64::from(limit > 0), 0));
        if let Some(snapshot) = snapshot {
            assert_eq!((snapshot.get(&tree, 1).unwrap(), snapshot.len(&tree).unwrap()), (None, KEYS));
        }
        assert_eq!(pool.snapshots().memory, 0);
    }
}

#[test]
fn a_tree_can_be_dropped_beside_a_transaction_that_does_not_use_it() {
    let (pool, tree) = filled(options());
    let other: Tree = pool.tree("other").unwrap();
    other.insert(1, 1).unwrap();
    let mut tx = standing(&pool, &tree);
    // It is frozen for the transaction's snapshot.
    other.insert(1, 2).unwrap();
    drop(other);
    pool.drop_tree("other").unwrap();
    assert!(matches!(pool.drop_tree("t"), Err(Error { kind: ErrorKind::StillOpen { .. }, .. })));
    read_beside_a_writer(&mut tx, &tree, 100..200);
    tx.insert(&tree, 2, 2).unwrap();
    tx.commit().unwrap();
    assert_eq!(tree.get(2), Some(2));
}
