//! New leaves in place of old ones: copy on write, and making room in a leaf that only grows, against readers and
//! writers.

use super::{Model, Tree, Words, put};
use crate::node::IndexKind;
use crate::papers::{Append, CowSip, crab};
use crate::sync::delay::Validation;

type Copied = CowSip<4, { crab::COPY_ONLY }>;

/// The second copy takes the block that the first one left.
fn copies() -> Words<Copied> {
    Model::new(
        |tree| put(tree, &[10, 20]),
        [|tree| put(tree, &[5, 7]), |tree| assert_eq!(tree.get(20), Some(21))],
        |tree| assert!(tree.keys(..).eq([5, 7, 10, 20])),
    )
}

#[test]
fn loom_tree_reader_against_copies() {
    copies().run();
}

#[test]
fn loom_tree_reader_against_copies_below_a_persistent_index() {
    type Of = Tree<Copied>;
    let read = |tree: &Of| assert_eq!(tree.get(50), Some(51));
    let model = Model::new(|tree| put(tree, &[10, 20, 30, 40, 50]), [|tree| put(tree, &[55, 57]), read], |_| ());
    Model { index: IndexKind::Persistent, ..model }.run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_unversioned_reader_against_copies_is_found_wrong() {
    Model { left_out: Some(Validation::Version), ..copies() }.run();
}

fn writers() -> Words<Copied> {
    Model::new(
        |tree| put(tree, &[10, 20]),
        [|tree| put(tree, &[5]), |tree| put(tree, &[15])],
        |tree| assert!(tree.keys(..).eq([5, 10, 15, 20])),
    )
}

#[test]
fn loom_tree_writer_against_a_copy() {
    writers().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_writer_to_a_copied_leaf_is_found_wrong() {
    Model { left_out: Some(Validation::Dead), ..writers() }.run();
}

type Grown = Append<4>;

/// Nine elements fill the leaf: the next one needs new leaves.
fn full(tree: &Tree<Grown>) {
    put(tree, &[10, 20, 30, 40, 50, 60, 70, 80, 90]);
}

#[test]
fn loom_tree_reader_against_a_renewal() {
    let read = |tree: &Tree<Grown>| assert_eq!(tree.get(90), Some(91));
    Model::new(full, [|tree| put(tree, &[45]), read], |tree| assert_eq!(tree.len(), 10)).run();
}

/// Each of two batches wants room in the same leaf.
fn batches() -> Words<Grown> {
    Model::new(
        full,
        [
            |tree| assert_eq!(tree.insert_batch(&[(15, 16)]).unwrap(), 1),
            |tree| assert_eq!(tree.insert_batch(&[(85, 86)]).unwrap(), 1),
        ],
        |tree| assert_eq!((tree.get(15), tree.get(85), tree.len()), (Some(16), Some(86), 11)),
    )
}

#[test]
fn loom_tree_batch_against_a_renewal() {
    Model { preemptions: 1, ..batches() }.run();
}
