//! A reader against leaves that merge or share entries, and whose blocks become other leaves.

use super::{Model, Tree, Words, put, take};
use crate::node::Linear;
use crate::sync::delay::Validation;

type Leaf = Linear<2>;

/// `[10] [20]` become `[10]`, and that becomes `[5 7] [10]`, with the block that held 20.
fn merge_and_reuse(reader: fn(&Tree<Leaf>)) -> Words<Leaf> {
    Model::new(
        |tree| {
            put(tree, &[10, 20, 15]);
            take(tree, &[15]);
        },
        [
            |tree| {
                take(tree, &[20]);
                put(tree, &[5, 7]);
            },
            reader,
        ],
        |tree| assert!(tree.iter().eq([(5, 6), (7, 8), (10, 11)])),
    )
}

fn reader_of_what_moves(tree: &Tree<Leaf>) {
    assert_eq!(tree.get(10), Some(11));
}

fn reader_of_what_goes(tree: &Tree<Leaf>) {
    let seen = tree.get(20);
    assert!(seen.is_none() || seen == Some(21), "{seen:?}");
}

#[test]
fn loom_tree_reader_against_a_block_used_again() {
    merge_and_reuse(reader_of_what_moves).run();
}

#[test]
fn loom_tree_reader_of_what_goes_against_a_block_used_again() {
    merge_and_reuse(reader_of_what_goes).run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_unversioned_reader_against_a_block_used_again_is_found_wrong() {
    Model { left_out: Some(Validation::Version), ..merge_and_reuse(reader_of_what_moves) }.run();
}

/// `[10] [20 30]` become `[20] [30]`, with another block for 30.
fn share(reader: fn(&Tree<Leaf>)) -> Words<Leaf> {
    Model::new(
        |tree| {
            put(tree, &[10, 20, 15, 30]);
            take(tree, &[15]);
        },
        [|tree| take(tree, &[10]), reader],
        |tree| assert!(tree.iter().eq([(20, 21), (30, 31)])),
    )
}

#[test]
fn loom_tree_reader_against_leaves_that_share() {
    share(|tree| assert_eq!(tree.get(20), Some(21))).run();
    share(|tree| assert_eq!(tree.get(30), Some(31))).run();
}
