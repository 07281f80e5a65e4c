//! The persistent index: readers against its changes, and its first touches after an open.

use super::{Model, Tree, Words, put, take};
use crate::index::Swept;
use crate::node::{IndexKind, Linear};
use crate::sync::delay::Validation;
use crate::tree::directory::Directory;

/// Inner nodes of four entries; a node with one entry is sparse enough to merge.
type Leaf = Linear<4>;
type Of = Tree<Leaf>;

fn tens(range: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    range.map(|ten| ten * 10).collect()
}

/// Four full leaves, which begin at 10, 50, 90 and 130, below one inner node without room.
fn four_leaves(tree: &Of) {
    put(tree, &tens(1..=16));
}

/// Two inner nodes: one with leaves from 0, 50 and 70, and one with leaves from 90 and 130. The last leaf of the second
/// has one entry too many to merge.
fn two_inner_nodes(tree: &Of) {
    four_leaves(tree);
    put(tree, &[85]);
    take(tree, &[85, 110, 120, 150, 160]);
}

/// Two inner nodes: one with two leaves, and one with leaves from 90 and 130.
fn two_sparse_inner_nodes(tree: &Of) {
    two_inner_nodes(tree);
    take(tree, &[60, 70]);
}

fn sees<const KEY: u64>(tree: &Of) {
    assert_eq!(tree.get(KEY), Some(KEY + 1));
}

fn at(fill: fn(&Of), write: fn(&Of), read: fn(&Of)) -> Words<Leaf> {
    Model { index: IndexKind::Persistent, ..Model::new(fill, [write, read], |_| ()) }
}

/// For the long changes, in which every interruption costs dozens of executions.
fn once(fill: fn(&Of), write: fn(&Of), read: fn(&Of)) {
    Model { preemptions: 1, ..at(fill, write, read) }.run();
}

#[test]
fn loom_tree_persistent_floor_against_post() {
    at(|tree| put(tree, &tens(1..=5)), |tree| put(tree, &[25]), sees::<40>).run();
}

#[test]
fn loom_tree_persistent_floor_against_the_first_node() {
    once(|tree| put(tree, &tens(1..=4)), |tree| put(tree, &[50]), sees::<40>);
}

#[test]
fn loom_tree_persistent_floor_against_split_and_growth() {
    at(four_leaves, |tree| put(tree, &[85]), sees::<80>).run();
    at(four_leaves, |tree| put(tree, &[85]), sees::<130>).run();
}

#[test]
fn loom_tree_persistent_floor_against_withdraw_and_share() {
    once(two_inner_nodes, |tree| take(tree, &[140]), sees::<130>);
    once(two_inner_nodes, |tree| take(tree, &[140]), sees::<70>);
}

#[test]
fn loom_tree_persistent_floor_against_merge_and_shrinking() {
    once(two_sparse_inner_nodes, |tree| take(tree, &[140]), sees::<130>);
    once(two_sparse_inner_nodes, |tree| take(tree, &[140]), sees::<50>);
}

/// All inner nodes move: the two below, and then the topmost one.
fn move_inner_nodes(tree: &Of) {
    let mut swept = Swept::nothing();
    let mut moved = 0;
    while let Some(bytes) = {
        let _restructuring = tree.state.restructuring.lock();
        tree.state.directory.move_next(&mut swept, &|_| true).unwrap()
    } {
        moved += u64::from(bytes > 0);
    }
    assert_eq!(moved, 3);
}

#[test]
fn loom_tree_persistent_floor_against_moves() {
    once(two_inner_nodes, move_inner_nodes, sees::<130>);
    once(two_inner_nodes, move_inner_nodes, sees::<50>);
    once(two_inner_nodes, move_inner_nodes, |tree| put(tree, &[25]));
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_persistent_unversioned_split_is_found_wrong() {
    Model { left_out: Some(Validation::Version), ..at(four_leaves, |tree| put(tree, &[85]), sees::<80>) }.run();
}

/// Nobody has touched the topmost node since the open. A reader that touches it second is in the way of the thread that
/// came first and goes on to lock the node below. That is not damage.
#[test]
fn loom_tree_first_touch_against_lock() {
    let lock = |tree: &Of| assert!(tree.state.directory.may_withdraw(130).unwrap());
    let floor = |tree: &Of| assert!(tree.state.directory.floor(40).is_some());
    let mut model = at(two_inner_nodes, lock, floor);
    (model.closed, model.preemptions) = (true, 3);
    model.run();
}
