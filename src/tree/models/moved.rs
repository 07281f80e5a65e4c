//! A leaf that moves to another block, as it does when a tree is compacted, against readers, writers and a late post.

use super::{Model, Subject, Tree, Words, bytes, post, put};
use crate::node::{IndexKind, Linear, RefOf};
use crate::pool::Compacted;
use crate::sync::delay::Validation;
use crate::tree::compact::Everything;
use crate::tree::directory::Directory;

type Of = Tree<Linear<2>>;

/// Moves the leaf that owns the key.
fn moves<T: Subject>(tree: &T, key: RefOf<'_, T::Node>) {
    let mut done = Compacted::default();
    tree.state().move_leaf(key, &Everything, &mut done).unwrap();
    assert_eq!(done.leaves, 1);
}

/// `[10 20] [30]`: the first leaf moves, and its block becomes another leaf.
fn move_and_reuse(tree: &Of) {
    moves(tree, 10);
    put(tree, &[40, 50]);
}

fn against(other: fn(&Of), after: fn(&Of)) -> Words<Linear<2>> {
    Model::new(|tree| put(tree, &[10, 20, 30]), [move_and_reuse, other], after)
}

fn reader(tree: &Of) {
    assert_eq!((tree.get(10), tree.get(20)), (Some(11), Some(21)));
}

#[test]
fn loom_tree_reader_against_a_move() {
    against(reader, reader).run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_reader_against_a_move_without_a_version_is_found_wrong() {
    Model { left_out: Some(Validation::Version), ..against(reader, reader) }.run();
}

fn writer(tree: &Of) {
    assert_eq!(tree.update(20, 7).unwrap(), Some(21));
}

fn is_written(tree: &Of) {
    assert_eq!((tree.get(10), tree.get(20)), (Some(11), Some(7)));
}

#[test]
fn loom_tree_writer_against_a_move() {
    against(writer, is_written).run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_writer_into_a_leaf_that_has_moved_is_found_wrong() {
    Model { left_out: Some(Validation::Dead), ..against(writer, is_written) }.run();
}

/// The leaf that a split has made moves before it is posted.
#[test]
fn loom_tree_late_post_against_a_move() {
    for index in [IndexKind::Volatile, IndexKind::Persistent] {
        let mut model: Words<Linear<2>> = Model::new(
            |tree| put(tree, &[10, 20]),
            [post, |tree: &Of| moves(tree, 20)],
            |tree| {
                let owner = tree.state.lock_owner(20).unwrap().at;
                assert_eq!(tree.state.directory.floor(20), Some(owner));
            },
        );
        (model.index, model.before) = (index, super::split::split_unposted);
        model.run();
    }
}

/// `[a b c] [d e]`: the leaf to the left of one that is not posted yet moves, or the leaf itself. Afterwards no leaf
/// lags.
#[test]
fn loom_tree_late_post_of_bytes_against_a_move() {
    for mover in [|tree: &bytes::Tree| moves(tree, bytes::key("a")), |tree: &bytes::Tree| moves(tree, bytes::key("d"))]
    {
        let mut model = Model::new(
            |tree| bytes::put(tree, "abde", 1),
            [post, mover],
            |tree: &bytes::Tree| {
                assert!(!tree.lock_owner(bytes::key("a")).unwrap().range().lags());
            },
        );
        model.before = bytes::split_unposted;
        model.run();
    }
}
