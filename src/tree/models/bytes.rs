//! Readers and writers of byte strings against a split, a merge, and a record that is used again.
//!
//! The index says which leaf owns a key (I3): a leaf that the index may be behind says that it lags, and what the index
//! named is asked for again once the version of the leaf was read. A short value is copied without a pin: the version
//! of the leaf tells whether its slot pointed to the record all the time.

use super::medium::Few;
use super::{Model, Subject};
use crate::entry::byte_key::ByteKey;
use crate::entry::kind::U64;
use crate::entry::raw::Raw;
use crate::node::{ByteLeaf, ByteStrings, IndexKind};
use crate::pool::Pool;
use crate::sync::delay::Validation;
use crate::tree::Form;
use crate::tree::TreeState;
use std::sync::Arc;

type Leaf = ByteLeaf<4>;
type State = TreeState<Leaf, Arc<Few>>;
pub(super) type Tree = Arc<State>;

impl Subject for Tree {
    type Node = Leaf;

    fn open(pool: &Pool<Arc<Few>>, index: IndexKind) -> Self {
        TreeState::open(&pool.state, "t", index, (U64, U64)).unwrap()
    }

    fn state(&self) -> &State {
        self
    }

    fn known(&self) -> Vec<(u64, u64)> {
        self.directory.known()
    }
}

/// Sets the value of each key, which is a letter, to the number.
pub(super) fn put(tree: &Tree, keys: &str, value: u64) {
    for key in keys.as_bytes() {
        tree.put_if(ByteKey::at(&[*key]), Raw::Word(value), |_| true).unwrap();
    }
}

pub(super) fn key(letter: &str) -> ByteKey<'_> {
    ByteKey::at(letter.as_bytes())
}

/// Splits a leaf without posting the new leaf to the index.
pub(super) fn split_unposted(tree: &Tree) {
    let (word, written) = tree.write_durably(key("c"), Raw::Word(1)).unwrap();
    super::split_unposted(tree, key("c"), word);
    written.keep();
}

/// Removes keys that are there.
fn take(tree: &Tree, keys: &str) {
    keys.as_bytes().iter().for_each(|key| assert!(tree.remove_value(ByteKey::at(&[*key])).unwrap()));
}

fn get(tree: &Tree, key: &str) -> Option<u64> {
    let word = |value: Raw<&[u8]>| match value {
        Raw::Word(word) => word,
        Raw::Bytes(bytes) => panic!("{bytes:?} is no number"),
    };
    ByteStrings::get_with(tree, ByteKey::at(key.as_bytes()), U64, word).unwrap()
}

/// `[a b d e]` becomes `[a b c] [d e]`.
fn split(other: fn(&Tree), after: fn(&Tree)) -> Model<Tree> {
    Model::new(|tree| put(tree, "abde", 1), [|tree| put(tree, "c", 1), other], after)
}

fn reader_of_what_moves(tree: &Tree) {
    assert_eq!(get(tree, "d"), Some(1));
}

fn writer_of_what_moves(tree: &Tree) {
    put(tree, "d", 2);
}

#[test]
fn loom_tree_reader_of_bytes_against_a_split() {
    split(reader_of_what_moves, reader_of_what_moves).run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_reader_of_bytes_that_asks_no_leaf_whether_it_lags_is_found_wrong() {
    Model { left_out: Some(Validation::Lag), ..split(reader_of_what_moves, reader_of_what_moves) }.run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_reader_of_bytes_that_asks_the_index_once_is_found_wrong() {
    Model { left_out: Some(Validation::Still), ..split(reader_of_what_moves, reader_of_what_moves) }.run();
}

#[test]
fn loom_tree_writer_of_bytes_against_a_split() {
    split(writer_of_what_moves, |tree| assert_eq!(get(tree, "d"), Some(2))).run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_writer_of_bytes_that_does_not_own_is_found_wrong() {
    let model = split(writer_of_what_moves, |tree| assert_eq!(get(tree, "d"), Some(2)));
    Model { left_out: Some(Validation::Owner), ..model }.run();
}

/// `[a b c] [d]` becomes `[a b c]`, and then `[a b c] [d]`.
fn merge(reader: fn(&Tree)) -> Model<Tree> {
    Model::new(
        |tree| {
            put(tree, "abdec", 1);
            take(tree, "e");
        },
        [
            |tree| {
                take(tree, "d");
                put(tree, "d", 2);
            },
            reader,
        ],
        |tree| assert_eq!(["a", "b", "c", "d"].map(|key| get(tree, key)), [Some(1), Some(1), Some(1), Some(2)]),
    )
}

#[test]
fn loom_tree_reader_of_bytes_against_a_merge() {
    merge(|tree| assert_eq!(get(tree, "c"), Some(1))).run();
}

#[test]
fn loom_tree_reader_of_bytes_that_go_against_a_merge() {
    merge(|tree| assert!(matches!(get(tree, "d"), None | Some(1 | 2)))).run();
}

/// The record of `a` is replaced, and `b` gets its block.
fn reuse() -> Model<Tree> {
    Model::new(
        |tree| put(tree, "a", 1),
        [
            |tree| {
                put(tree, "a", 2);
                let records = tree.leaves.records.as_ref().unwrap();
                // Nobody holds an epoch: the reader copies.
                (0..3).for_each(|_| records.collect(&tree.pool.medium, &tree.pool.segments));
                put(tree, "b", 3);
            },
            |tree| {
                let seen = get(tree, "a");
                assert!(matches!(seen, Some(1 | 2)), "{seen:?}");
            },
        ],
        |tree| assert_eq!(["a", "b"].map(|key| get(tree, key)), [Some(2), Some(3)]),
    )
}

#[test]
fn loom_tree_reader_without_a_pin_against_a_record_used_again() {
    reuse().run();
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_unversioned_reader_against_a_record_used_again_is_found_wrong() {
    Model { left_out: Some(Validation::Version), ..reuse() }.run();
}
