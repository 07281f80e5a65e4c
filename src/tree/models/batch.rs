//! Batches, which hold several leaves, against each other and against an operation that takes all of them.

use super::{Model, Tree, Words, put};
use crate::node::OneLine;
use crate::sync::delay::Validation;

type Leaf = OneLine<3>;
type Of = Tree<Leaf>;

/// Two leaves, the first one full.
fn two_leaves(tree: &Of) {
    put(tree, &[10, 20, 30, 40]);
}

/// Both batches want both leaves, and the first one splits.
fn batches() -> Words<Leaf> {
    Model::new(
        two_leaves,
        [
            |tree| assert_eq!(tree.insert_batch(&[(15, 1), (20, 1), (50, 1)]).unwrap(), 2),
            |tree| assert_eq!(tree.insert_batch(&[(30, 2), (60, 2)]).unwrap(), 1),
        ],
        |tree| assert!(tree.iter().eq([(10, 11), (15, 1), (20, 1), (30, 2), (40, 41), (50, 1), (60, 2)])),
    )
}

#[test]
fn loom_tree_batch_against_batch() {
    batches().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_batch_to_leaves_that_are_not_owned_is_found_wrong() {
    Model { left_out: Some(Validation::Owner), ..batches() }.run();
}

/// What was inserted before `clear` is gone; everything else is there.
fn batch_against_clear() -> Words<Leaf> {
    Model::new(
        two_leaves,
        [
            |tree| {
                tree.insert_batch(&[(15, 1), (50, 1)]).unwrap();
            },
            |tree| tree.clear().unwrap(),
        ],
        |tree| assert!(tree.iter().all(|entry| [(15, 1), (50, 1)].contains(&entry))),
    )
}

#[test]
fn loom_tree_batch_against_clear() {
    batch_against_clear().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_batch_to_a_dead_leaf_is_found_wrong() {
    Model { left_out: Some(Validation::Dead), ..batch_against_clear() }.run();
}
