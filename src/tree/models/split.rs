//! A split against a writer of a key that moves, and against a late post to the index.

use super::{Model, Tree, Words, post, put};
use crate::node::Linear;
use crate::sync::delay::Validation;

type Of = Tree<Linear<2>>;

/// `[10 20]` becomes `[10 15] [20]`, while 20 changes.
fn update_of_a_moved_key() -> Words<Linear<2>> {
    Model::new(
        |tree| put(tree, &[10, 20]),
        [|tree: &Of| put(tree, &[15]), |tree: &Of| assert_eq!(tree.update(20, 7).unwrap(), Some(21))],
        |tree| assert!(tree.iter().eq([(10, 11), (15, 16), (20, 7)])),
    )
}

#[test]
fn loom_tree_update_of_a_moved_key() {
    update_of_a_moved_key().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_update_of_a_moved_key_unowned_is_found_wrong() {
    Model { left_out: Some(Validation::Owner), ..update_of_a_moved_key() }.run();
}

/// Splits a leaf without posting the new leaf to the index.
pub(super) fn split_unposted(tree: &Of) {
    super::split_unposted(&tree.state, 15, 16);
}

/// `[10 15] [20]`: 20 is removed, its leaf leaves the chain, and the block becomes another leaf.
fn late_post(reused: bool) -> Words<Linear<2>> {
    let merge = |tree: &Of| assert_eq!(tree.remove(20).unwrap(), Some(21));
    let reuse = |tree: &Of| {
        assert_eq!(tree.remove(20).unwrap(), Some(21));
        put(tree, &[12, 11]);
    };
    let mut model = Model::new(
        |tree| put(tree, &[10, 20]),
        [post, if reused { reuse } else { merge }],
        |tree| assert_eq!(tree.get(10), Some(11)),
    );
    model.before = split_unposted;
    model
}

#[test]
fn loom_tree_late_post_against_merge() {
    late_post(false).run();
}

#[test]
fn loom_tree_late_post_against_reuse() {
    late_post(true).run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_late_post_unseen_merge_is_found_wrong() {
    Model { left_out: Some(Validation::Posted), ..late_post(false) }.run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_late_post_unseen_reuse_is_found_wrong() {
    Model { left_out: Some(Validation::Posted), ..late_post(true) }.run();
}
