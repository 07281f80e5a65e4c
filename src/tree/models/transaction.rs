//! Transactions over two leaves: against each other, against a reader of both, and against a split.

use super::{Model, Tree, Words, put};
use crate::node::OneLine;
use crate::sync::delay::Validation;

type Leaf = OneLine<3>;
type Of = Tree<Leaf>;

/// Two leaves, the first one full.
fn two_leaves(tree: &Of) {
    put(tree, &[10, 20, 30, 40]);
}

/// Writes both keys at once.
fn set_both(tree: &Of, value: u64) {
    let pool = tree.pool();
    let mut batch = pool.batch();
    batch.insert(tree, 10, value).unwrap();
    batch.insert(tree, 40, value).unwrap();
    batch.commit().unwrap();
}

/// Each reads both keys, and writes to one if the other one has not done so.
fn skewed() -> Words<Leaf> {
    fn unless_done(tree: &Of, key: u64) {
        let pool = tree.pool();
        pool.transaction(|tx| {
            let is_new = tx.get(tree, 10)? == Some(11) && tx.get(tree, 40)? == Some(41);
            if is_new { tx.insert(tree, key, 0) } else { Ok(()) }
        })
        .unwrap();
    }
    Model::new(two_leaves, [|tree| unless_done(tree, 10), |tree| unless_done(tree, 40)], |tree| {
        assert!((tree.get(10) == Some(0)) != (tree.get(40) == Some(0)))
    })
}

#[test]
fn loom_tree_transactions_that_read_what_the_other_writes() {
    skewed().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_transactions_that_do_not_look_again_are_found_wrong() {
    Model { left_out: Some(Validation::Reads), ..skewed() }.run();
}

/// What is read belongs to one moment.
fn read() -> Words<Leaf> {
    fn read_both(tree: &Of) {
        let pool = tree.pool();
        pool.transaction(|tx| {
            let (one, other) = (tx.get(tree, 10)?, tx.get(tree, 40)?);
            assert!([(Some(11), Some(41)), (Some(7), Some(7))].contains(&(one, other)));
            Ok::<_, crate::Error>(())
        })
        .unwrap();
    }
    Model::new(two_leaves, [|tree| set_both(tree, 7), read_both], |tree| assert_eq!(tree.get(10), tree.get(40)))
}

#[test]
fn loom_tree_reader_against_a_commit_of_two_leaves() {
    read().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_unversioned_reader_against_a_commit_is_found_wrong() {
    Model { left_out: Some(Validation::Version), ..read() }.run();
}

/// What is read belongs to one moment, also while another key of one of the leaves is written to: so what is read is
/// compared at the instant of a snapshot.
fn read_beside_a_writer() -> Words<Leaf> {
    fn read_again(tree: &Of) {
        let pool = tree.pool();
        pool.transaction(|tx| {
            let first = tx.get(tree, 10)?;
            _ = tree.update(30, 5)?;
            let seen = (first, tx.get(tree, 40)?, tx.get(tree, 10)?);
            assert!([(Some(11), Some(41), Some(11)), (Some(7), Some(7), Some(7))].contains(&seen));
            Ok::<_, crate::Error>(())
        })
        .unwrap();
    }
    Model::new(two_leaves, [read_again, |tree| set_both(tree, 7)], |tree| {
        assert_eq!((tree.get(10), tree.get(40), tree.pool().snapshots().memory), (Some(7), Some(7), 0));
    })
}

#[test]
fn loom_tree_reader_beside_a_writer_against_a_commit() {
    read_beside_a_writer().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_reader_that_compares_no_instants_is_found_wrong() {
    Model { left_out: Some(Validation::Moment), ..read_beside_a_writer() }.run();
}

#[test]
fn loom_tree_commit_against_commit() {
    let after = |tree: &Of| assert_eq!(tree.get(10), tree.get(40));
    Model::new(two_leaves, [|tree| set_both(tree, 1), |tree| set_both(tree, 2)], after).run();
}

/// A key that was read moves to another leaf meanwhile.
#[test]
fn loom_tree_commit_against_a_split() {
    fn move_one(tree: &Of) {
        let pool = tree.pool();
        pool.transaction(|tx| {
            let value = tx.get(tree, 30)?.unwrap();
            tx.insert(tree, 10, value)?;
            tx.remove(tree, 30)
        })
        .unwrap();
    }
    let after = |tree: &Of| assert!(tree.iter().eq([(10, 31), (15, 16), (20, 21), (40, 41)]));
    Model::new(two_leaves, [move_one, |tree| put(tree, &[15])], after).run();
}

/// A commit that splits a leaf itself, against a writer of a key that moves.
#[test]
fn loom_tree_commit_that_splits_against_a_writer() {
    fn add_two(tree: &Of) {
        let pool = tree.pool();
        let mut batch = pool.batch();
        batch.insert(tree, 15, 1).unwrap();
        batch.insert(tree, 45, 1).unwrap();
        batch.commit().unwrap();
    }
    let after = |tree: &Of| assert!(tree.iter().eq([(10, 11), (15, 1), (20, 21), (30, 5), (40, 41), (45, 1)]));
    let update = |tree: &Of| assert_eq!(tree.update(30, 5).unwrap(), Some(31));
    Model::new(two_leaves, [add_two, update], after).run();
}
