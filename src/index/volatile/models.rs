//! loom models: nodes of four entries, one writer, one reader. What the reader finds was posted; what stays, it finds.
//!
//! There is a negative control for words and one for strings: a reader that checks no version must be found wrong.

use super::InNodes;
use super::node::{IndexNode, NodeSlots};
use super::{VolatileIndex, image_of};
use crate::entry::byte_key::ByteKey;
use crate::index::models::{self, Reader, leaf_of, learn, post, withdraw};
use crate::index::separators::{Lows, Strings};

/// Runs a model with the real `floor`.
fn model(setup: fn(&VolatileIndex), write: fn(&VolatileIndex), key: u64, may: &'static [u64]) {
    run(setup, write, |index, key| index.floor(key), key, may);
}

fn run(
    setup: fn(&VolatileIndex),
    write: fn(&VolatileIndex),
    floor: fn(&VolatileIndex, u64) -> Option<u64>,
    key: u64,
    may: &'static [u64],
) {
    models::run(|| VolatileIndex::new(), setup, write, Reader { floor, looks: 1, preemptions: 2 }, key, may);
}

#[test]
fn loom_floor_against_a_shift() {
    model(|index| post(index, &[0, 30]), |index| post(index, &[20]), 35, &[30]);
}

/// The bottom node, which was the root, gets a parent and loses its upper half.
#[test]
fn loom_floor_against_the_first_split() {
    model(|index| post(index, &[0, 20, 30, 40]), |index| post(index, &[15]), 35, &[30]);
}

/// `[0 20 30 40] [50]`: 40 moves to a new node between the two.
#[test]
fn loom_floor_against_a_split() {
    model(|index| post(index, &[0, 20, 30, 40, 50]), |index| post(index, &[15]), 42, &[40]);
}

/// `[0 20 30 40] [50 60]`: the second node begins with 60 afterwards.
#[test]
fn loom_floor_against_a_new_least() {
    model(|index| post(index, &[0, 20, 30, 40, 50, 60]), |index| withdraw(index, &[50]), 55, &[50, 40]);
}

/// `[0 20 30 40] [50]`: 50 is removed with its node, and the old root goes, too.
#[test]
fn loom_floor_against_an_emptied_node() {
    model(|index| post(index, &[0, 20, 30, 40, 50]), |index| withdraw(index, &[50]), 55, &[50, 40]);
}

/// `[0] [50 60]` become `[0 60]`.
#[test]
fn loom_floor_against_a_merge() {
    let setup = |index: &VolatileIndex| {
        post(index, &[0, 20, 30, 40, 50, 60]);
        withdraw(index, &[20, 30, 40]);
    };
    model(setup, |index| withdraw(index, &[50]), 65, &[60]);
}

/// As with an emptied node, which then takes part in the first split.
#[test]
fn loom_floor_against_a_node_used_again() {
    let write = |index: &VolatileIndex| {
        withdraw(index, &[50]);
        post(index, &[15]);
    };
    model(|index| post(index, &[0, 20, 30, 40, 50]), write, 55, &[50, 40]);
}

/// The new root is a node that once was the root and held 50.
#[test]
fn loom_floor_against_a_root_used_again() {
    let setup = |index: &VolatileIndex| {
        learn(index, &[0, 50]);
        learn(index, &[0, 20]);
    };
    model(setup, |index| learn(index, &[0, 30]), 55, &[20, 30]);
}

/// The third tree uses the nodes of the first, but in different places.
#[test]
fn loom_floor_against_rebuilds() {
    let lows = |index: &VolatileIndex| learn(index, &[0, 20, 30, 40, 50]);
    let write = |index: &VolatileIndex| (0..2).for_each(|_| learn(index, &[0, 20, 30, 40, 50]));
    model(lows, write, 55, &[50]);
}

/// A descent that checks nothing.
fn unchecked<S: InNodes>(index: &VolatileIndex<S>, key: S::Key<'_>) -> Option<u64> {
    let (root, mut known) = (index.root.get()?, S::Known::default());
    let mut node = index.arena.get(root.id).ok()?;
    for _ in 0..root.height {
        node = index.arena.get(node.child(node.slot(&index.separators, key, &mut known))).ok()?;
    }
    Some(node.child(node.slot(&index.separators, key, &mut known)))
}

#[test]
#[should_panic]
fn loom_unchecked_shift_is_found_wrong() {
    run(|index| post(index, &[0, 30]), |index| post(index, &[20]), |index, key| unchecked(index, key), 35, &[30]);
}

#[test]
#[should_panic]
fn loom_unchecked_split_is_found_wrong() {
    run(
        |index| post(index, &[0, 20, 30, 40, 50]),
        |index| post(index, &[15]),
        |index, key| unchecked(index, key),
        42,
        &[40],
    );
}

/// `[0 20 30 40] [50]`, and no node is loaded from the pool yet: the first thread that needs one loads it.
#[test]
fn loom_floor_against_a_load() {
    let setup = |index: &VolatileIndex| {
        let (words, top) = image_of([0, 20, 30, 40, 50].map(|low| (low, leaf_of(low))).to_vec());
        let source = move |node, height, _| top.node((node, height), |i| words[i as usize], |_| true);
        assert!(index.restore(top, Box::new(source)));
    };
    model(setup, |index| post(index, &[15]), 42, &[40]);
}

/// Makes strings of numbers, in the same order. Those from 20 on have a long prefix, which the others do not have: once
/// such a one comes into a node, all heads of the node are others.
struct Prefixed;

fn prefixed(number: u64) -> Vec<u8> {
    [if number < 20 { "" } else { "prefixprefix" }, &format!("{number:02}")].concat().into_bytes()
}

impl Lows for Prefixed {
    fn with<R>(&self, name: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        read(&prefixed(name))
    }
}

type OfStrings = VolatileIndex<Strings<Prefixed>>;

/// Runs a model of an index of strings.
fn run_strings(
    setup: fn(&OfStrings),
    write: fn(&OfStrings),
    floor: fn(&OfStrings, u64) -> Option<u64>,
    preemptions: usize,
    key: u64,
    may: &'static [u64],
) {
    let new = || OfStrings::with_separators(Strings(Prefixed));
    models::run(new, setup, write, Reader { floor, looks: 1, preemptions }, key, may);
}

fn floor_of_string(index: &OfStrings, key: u64) -> Option<u64> {
    index.floor(ByteKey::at(&prefixed(key)))
}

#[test]
fn loom_floor_of_a_string_against_another_prefix() {
    run_strings(|index| post(index, &[0, 20, 30]), |index| post(index, &[15]), floor_of_string, 2, 35, &[30]);
}

#[test]
fn loom_floor_of_a_string_against_the_first_split() {
    run_strings(|index| post(index, &[0, 20, 30, 40]), |index| post(index, &[15]), floor_of_string, 2, 35, &[30]);
}

#[test]
fn loom_floor_of_a_string_against_a_split() {
    run_strings(|index| post(index, &[0, 20, 30, 40, 50]), |index| post(index, &[15]), floor_of_string, 1, 42, &[40]);
}

#[test]
fn loom_floor_of_a_string_against_a_merge() {
    let setup = |index: &OfStrings| {
        post(index, &[0, 15, 30, 40, 50, 60]);
        withdraw(index, &[15, 30, 40]);
    };
    run_strings(setup, |index| withdraw(index, &[50]), floor_of_string, 2, 65, &[60]);
}

#[test]
#[should_panic]
fn loom_unchecked_other_prefix_is_found_wrong() {
    let floor: fn(&OfStrings, u64) -> Option<u64> = |index, key| unchecked(index, ByteKey::at(&prefixed(key)));
    run_strings(|index| post(index, &[0, 20, 30]), |index| post(index, &[15]), floor, 2, 35, &[30]);
}
