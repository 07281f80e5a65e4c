//! Readers and writers against `clear`.

use super::{Model, Tree, Words, put, take};
use crate::node::Linear;
use crate::sync::delay::Validation;

type Of = Tree<Linear<2>>;

/// What is gone does not come back.
fn reader(tree: &Of) {
    let (first, second) = (tree.get(10), tree.get(10));
    assert!(first.is_none() || first == Some(11), "{first:?}");
    assert!(second.is_none() || second == first, "{second:?}");
}

#[test]
fn loom_tree_reader_against_clear() {
    Model::new(
        |tree: &Of| put(tree, &[10]),
        [|tree: &Of| tree.clear().unwrap(), reader],
        |tree| assert!(tree.is_empty()),
    )
    .run();
}

/// `[5] [10]` become `[10]`. The block of the former second leaf becomes the first leaf of the new, empty chain. A late
/// reader must not read it before it belongs to the tree.
fn block_used_again() -> Words<Linear<2>> {
    Model::new(
        |tree| {
            put(tree, &[5, 10, 7]);
            take(tree, &[7]);
        },
        [
            |tree| {
                take(tree, &[5]);
                tree.clear().unwrap();
            },
            reader,
        ],
        |tree| assert!(tree.is_empty()),
    )
}

#[test]
fn loom_tree_reader_against_clear_in_a_block_used_again() {
    block_used_again().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_chain_that_is_not_hidden_is_found_wrong() {
    Model { left_out: Some(Validation::Hidden), ..block_used_again() }.run();
}

/// What is written before `clear` is gone; what is written afterwards is there.
fn writer() -> Words<Linear<2>> {
    Model::new(
        |tree| put(tree, &[10]),
        [
            |tree| tree.clear().unwrap(),
            |tree| {
                put(tree, &[20]);
                let seen = tree.get(10);
                assert!(seen.is_none() || seen == Some(11), "{seen:?}");
            },
        ],
        |tree| assert!(tree.iter().all(|entry| entry == (20, 21))),
    )
}

#[test]
fn loom_tree_writer_against_clear() {
    writer().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_writer_to_a_dead_leaf_is_found_wrong() {
    Model { left_out: Some(Validation::Dead), ..writer() }.run();
}
