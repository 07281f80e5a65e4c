//! loom models: nodes of eight words, one writer, and one reader, which may look twice. What the reader finds was
//! posted; what stays, it finds; and it sees changes in their order.
//!
//! There are negative controls: readers that check less must be found wrong.

use super::FlatIndex;
use crate::index::image_of;
use crate::index::models::{self, Reader, leaf_of, learn, post, withdraw};

/// Runs a model with the real `floor`.
fn model(setup: fn(&FlatIndex), write: fn(&FlatIndex), key: u64, may: &'static [u64]) {
    run(setup, write, FlatIndex::floor, key, may);
}

fn run(
    setup: fn(&FlatIndex),
    write: fn(&FlatIndex),
    floor: fn(&FlatIndex, u64) -> Option<u64>,
    key: u64,
    may: &'static [u64],
) {
    models::run(new, setup, write, Reader { floor, looks: 2, preemptions: 2 }, key, may);
}

fn new() -> FlatIndex {
    FlatIndex::new(5, false).unwrap()
}

#[test]
fn loom_floor_against_a_shift() {
    model(|index| post(index, &[0, 30]), |index| post(index, &[20]), 35, &[30]);
}

#[test]
fn loom_floor_against_a_new_floor() {
    model(|index| post(index, &[0, 20]), |index| post(index, &[30]), 35, &[20, 30]);
}

/// `[0 20 30]` becomes `[0 15] [20] [30]`.
#[test]
fn loom_floor_against_a_spread() {
    model(|index| post(index, &[0, 20, 30]), |index| post(index, &[15]), 35, &[30]);
}

#[test]
fn loom_floor_against_a_new_floor_and_a_spread() {
    model(|index| post(index, &[0, 20, 30]), |index| post(index, &[15]), 17, &[0, 15]);
}

/// `[0] [20 25]`: the second parent begins with 25 afterwards.
#[test]
fn loom_floor_against_a_risen_separator() {
    let setup = |index: &FlatIndex| {
        learn(index, &[0, 20]);
        post(index, &[25]);
    };
    model(setup, |index| withdraw(index, &[20]), 22, &[20, 0]);
}

/// `[0] [20] [30]`: the second parent becomes empty; what then comes in its place is in the first.
#[test]
fn loom_floor_against_an_emptied_parent() {
    let write = |index: &FlatIndex| {
        withdraw(index, &[20]);
        post(index, &[22]);
    };
    model(|index| learn(index, &[0, 20, 30]), write, 25, &[20, 0, 22]);
}

/// `[0] [20] [30]`: parents become empty from right to left.
#[test]
fn loom_floor_against_emptied_parents() {
    model(|index| learn(index, &[0, 20, 30]), |index| withdraw(index, &[30, 20]), 35, &[30, 20, 0]);
}

/// `[0] [20] [30]`: parents become empty from left to right, so two separators rise at the end.
#[test]
fn loom_floor_against_separators_that_rise_together() {
    let setup = |index: &FlatIndex| {
        learn(index, &[0, 20, 30]);
        withdraw(index, &[20]);
    };
    model(setup, |index| withdraw(index, &[30]), 35, &[30, 0]);
}

/// The new nodes lie where those of the generation before the last lay. One look is enough, because there is one
/// answer.
#[test]
fn loom_floor_against_a_half_used_again() {
    let setup = |index: &FlatIndex| learn(index, &[0, 20, 30]);
    let write = |index: &FlatIndex| {
        learn(index, &[0, 30]);
        learn(index, &[0, 10, 20, 30]);
    };
    models::run(new, setup, write, Reader { floor: FlatIndex::floor, looks: 1, preemptions: 2 }, 35, &[30]);
}

/// `[0] [10] ... [80]` and `[90] [100] [110]` below one inner node each. The second one is not made yet: the first
/// thread that needs nodes makes those on its way.
#[test]
fn loom_floor_against_a_load() {
    fn model(write: fn(&FlatIndex), key: u64, may: &'static [u64]) {
        let setup = |index: &FlatIndex| {
            let (words, top) = image_of((0..12).map(|i| (i * 10, leaf_of(i * 10))).collect());
            let source = move |node, height, _| top.node((node, height), |i| words[i as usize], |_| true);
            assert!(index.restore(top, Box::new(source)));
        };
        let new = || FlatIndex::new(12, false).unwrap();
        models::run(new, setup, write, Reader { floor: FlatIndex::floor, looks: 1, preemptions: 2 }, key, may);
    }
    model(|index| post(index, &[105]), 107, &[100, 105]);
    model(|index| post(index, &[115]), 95, &[90]);
    model(|index| withdraw(index, &[100]), 115, &[110]);
}

/// Reads without checking versions.
fn unversioned(index: &FlatIndex, key: u64) -> Option<u64> {
    let root = index.root.get()?;
    let half = index.half(root);
    let parent = half.parent(half.ordinal(root.height, key).ok()?).ok()?;
    Some(parent.leaf(parent.slot(key)?))
}

/// A late read takes nodes of one generation for nodes of another.
fn unrooted(index: &FlatIndex, key: u64) -> Option<u64> {
    loop {
        let root = index.root.get()?;
        let half = index.half(root);
        let found = half.ordinal(root.height, key).and_then(|ordinal| {
            let parent = half.parent(ordinal)?;
            let version = parent.version().optimistic_read()?;
            let leaf = parent.slot(key).map(|slot| parent.leaf(slot));
            parent.version().validate(version).map(|()| leaf)
        });
        match found {
            Ok(Some(leaf)) => return Some(leaf),
            _ => loom::thread::yield_now(),
        }
    }
}

#[test]
#[should_panic]
fn loom_unversioned_shift_is_found_wrong() {
    run(|index| post(index, &[0, 30]), |index| post(index, &[20]), unversioned, 35, &[30]);
}

#[test]
#[should_panic]
fn loom_unrooted_half_is_found_wrong() {
    let write = |index: &FlatIndex| {
        learn(index, &[0, 30]);
        learn(index, &[0, 10, 20, 30]);
    };
    run(|index| learn(index, &[0, 20, 30]), write, unrooted, 35, &[30]);
}
