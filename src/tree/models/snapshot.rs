//! Snapshots against writers, commits, splits, merges, and against each other.

use super::{Model, Tree, Words, put, take};
use crate::node::OneLine;
use crate::snapshot::Snapshot;
use crate::sync::delay::Validation;
use std::sync::Arc;

type Leaf = OneLine<3>;
type Of = Tree<Leaf>;
type Seen = Snapshot<Arc<super::Few>>;

/// Two leaves, the first one full.
fn two_leaves(tree: &Of) {
    put(tree, &[10, 20, 30, 40]);
}

fn get(snapshot: &Seen, tree: &Of, key: u64) -> Option<u64> {
    snapshot.get(tree, key).unwrap()
}

fn all(snapshot: &Seen, tree: &Of) -> Vec<(u64, u64)> {
    snapshot.iter(tree).unwrap().map(|entry| entry.unwrap()).collect()
}

/// One thread writes to two leaves, one after the other. A reader that sees the second change sees the first.
fn in_order() -> Words<Leaf> {
    fn write(tree: &Of) {
        tree.update(10, 1).unwrap();
        tree.update(40, 1).unwrap();
    }
    fn read(tree: &Of) {
        let snapshot = tree.pool().snapshot();
        let seen = (get(&snapshot, tree, 40), get(&snapshot, tree, 10));
        assert!([(Some(41), Some(11)), (Some(41), Some(1)), (Some(1), Some(1))].contains(&seen), "{seen:?}");
        assert_eq!((get(&snapshot, tree, 40), get(&snapshot, tree, 10)), seen);
    }
    Model::new(two_leaves, [write, read], |_| ())
}

#[test]
fn loom_tree_snapshot_against_a_writer() {
    in_order().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_snapshot_of_leaves_that_are_not_frozen_is_found_wrong() {
    Model { left_out: Some(Validation::Frozen), ..in_order() }.run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_snapshot_that_reads_without_versions_is_found_wrong() {
    Model { left_out: Some(Validation::Version), ..in_order() }.run();
}

#[test]
fn loom_tree_snapshot_against_a_commit_of_two_leaves() {
    fn write(tree: &Of) {
        let pool = tree.pool();
        let mut batch = pool.batch();
        batch.insert(tree, 10, 1).unwrap();
        batch.insert(tree, 40, 1).unwrap();
        batch.commit().unwrap();
    }
    fn read(tree: &Of) {
        let snapshot = tree.pool().snapshot();
        let seen = (get(&snapshot, tree, 10), get(&snapshot, tree, 40));
        assert!([(Some(11), Some(41)), (Some(1), Some(1))].contains(&seen), "{seen:?}");
        assert_eq!((get(&snapshot, tree, 10), get(&snapshot, tree, 40)), seen);
    }
    Model::new(two_leaves, [write, read], |_| ()).run();
}

/// A transaction writes one key if another one has not changed. A snapshot that sees that the other one has changed and
/// not what the transaction wrote would fit to no order of the three.
#[test]
fn loom_tree_snapshot_against_a_transaction_and_what_it_has_read() {
    fn unless_changed(tree: &Of) {
        let pool = tree.pool();
        pool.transaction(|tx| if tx.get(tree, 40)? == Some(41) { tx.insert(tree, 10, 1) } else { Ok(()) }).unwrap();
    }
    fn change_and_look(tree: &Of) {
        tree.update(40, 1).unwrap();
        let snapshot = tree.pool().snapshot();
        let seen = get(&snapshot, tree, 10);
        assert_eq!(tree.get(10), seen);
        assert_eq!(get(&snapshot, tree, 40), Some(1));
    }
    let after = |tree: &Of| assert!([Some(11), Some(1)].contains(&tree.get(10)));
    Model::new(two_leaves, [unless_changed, change_and_look], after).run();
}

#[test]
fn loom_tree_snapshot_against_a_split() {
    fn read(tree: &Of) {
        let snapshot = tree.pool().snapshot();
        let seen = all(&snapshot, tree);
        let mut states = vec![vec![(10, 11), (20, 21), (30, 31), (40, 41)]];
        states.push(vec![(10, 11), (15, 16), (20, 21), (30, 31), (40, 41)]);
        states.push(vec![(10, 11), (15, 16), (30, 31), (40, 41)]);
        assert!(states.contains(&seen), "{seen:?}");
        assert_eq!(all(&snapshot, tree), seen);
    }
    fn write(tree: &Of) {
        put(tree, &[15]);
        take(tree, &[20]);
    }
    Model::new(two_leaves, [write, read], |tree| assert!(tree.iter().eq([(10, 11), (15, 16), (30, 31), (40, 41)])))
        .run();
}

/// Leaves that merge, and whose blocks become other leaves.
#[test]
fn loom_tree_snapshot_against_a_merge() {
    fn read(tree: &Of) {
        let snapshot = tree.pool().snapshot();
        let seen = (get(&snapshot, tree, 40), get(&snapshot, tree, 30), get(&snapshot, tree, 25));
        let states = [(Some(41), Some(31), None), (None, Some(31), None), (None, None, None), (None, None, Some(26))];
        assert!(states.contains(&seen), "{seen:?}");
        let again = (get(&snapshot, tree, 40), get(&snapshot, tree, 30), get(&snapshot, tree, 25));
        assert_eq!(again, seen);
    }
    fn write(tree: &Of) {
        take(tree, &[40, 30]);
        put(tree, &[25]);
    }
    Model::new(two_leaves, [write, read], |tree| assert!(tree.iter().eq([(10, 11), (20, 21), (25, 26)]))).run();
}

/// What a snapshot sees passes from a newer one that is closed to it.
#[test]
fn loom_tree_snapshot_that_is_closed_against_a_writer() {
    fn read(tree: &Of) {
        let pool = tree.pool();
        let (old, new) = (pool.snapshot(), pool.snapshot());
        let seen = get(&old, tree, 10);
        drop(new);
        assert_eq!(get(&old, tree, 10), seen);
    }
    fn write(tree: &Of) {
        tree.update(10, 1).unwrap();
        tree.update(10, 2).unwrap();
    }
    let after = |tree: &Of| assert_eq!((tree.get(10), tree.pool().snapshots().memory), (Some(2), 0));
    Model::new(two_leaves, [write, read], after).run();
}

/// A writer that is so slow that the snapshot for which it freezes a leaf is closed, and another one open.
#[test]
fn loom_tree_snapshots_one_after_the_other_against_a_writer() {
    fn read(tree: &Of) {
        for _ in 0..2 {
            let snapshot = tree.pool().snapshot();
            let seen = get(&snapshot, tree, 10);
            assert_eq!(get(&snapshot, tree, 10), seen);
        }
    }
    let after = |tree: &Of| assert_eq!(tree.pool().snapshots().memory, 0);
    Model::new(two_leaves, [|tree| assert!(tree.update(10, 1).unwrap().is_some()), read], after).run();
}

/// Against a chain that is replaced as a whole.
#[test]
fn loom_tree_snapshot_against_a_clear() {
    fn read(tree: &Of) {
        let snapshot = tree.pool().snapshot();
        let seen = (get(&snapshot, tree, 40), get(&snapshot, tree, 10));
        assert!([(Some(41), Some(11)), (None, None)].contains(&seen), "{seen:?}");
        assert_eq!((get(&snapshot, tree, 40), get(&snapshot, tree, 10)), seen);
    }
    Model::new(two_leaves, [|tree| tree.clear().unwrap(), read], |tree| assert!(tree.is_empty())).run();
}
