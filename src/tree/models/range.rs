//! Ranges against leaves that split, merge and leave the chain.

use super::{Model, Tree, Words, put, take};
use crate::node::Linear;
use crate::sync::delay::Validation;

type Of = Tree<Linear<2>>;

/// Keys ascend strictly. What is there throughout is seen, and nothing is seen but what was there at some time.
fn holds(keys: &[u64], stays: &[u64], comes: &[u64]) {
    assert!(keys.is_sorted_by(|one, next| one < next), "{keys:?}");
    assert!(stays.iter().all(|key| keys.contains(key)), "{keys:?}");
    assert!(keys.iter().all(|key| stays.contains(key) || comes.contains(key)), "{keys:?}");
}

fn both_ways(fill: fn(&Of), write: fn(&Of), forwards: fn(&Of), backwards: fn(&Of)) -> [Words<Linear<2>>; 2] {
    [forwards, backwards].map(|read| Model::new(fill, [write, read], |_| ()))
}

fn seen(tree: &Of) -> Vec<u64> {
    tree.keys(..).collect()
}

fn seen_backwards(tree: &Of) -> Vec<u64> {
    let mut keys: Vec<u64> = tree.keys(..).rev().collect();
    keys.reverse();
    keys
}

/// `[10 20] [30]` become `[10 15] [20] [30]`.
fn split() -> [Words<Linear<2>>; 2] {
    both_ways(
        |tree| put(tree, &[10, 20, 30]),
        |tree| put(tree, &[15]),
        |tree| holds(&seen(tree), &[10, 20, 30], &[15]),
        |tree| holds(&seen_backwards(tree), &[10, 20, 30], &[15]),
    )
}

/// `[10] [20] [30]` become `[10] [30]`, and those become `[5 7] [10] [30]` with the block of 20.
fn merge_and_reuse() -> [Words<Linear<2>>; 2] {
    both_ways(
        |tree| {
            put(tree, &[10, 20, 30, 15]);
            take(tree, &[15]);
        },
        |tree| {
            take(tree, &[20]);
            put(tree, &[5, 7]);
        },
        |tree| holds(&seen(tree), &[10, 30], &[5, 7, 20]),
        |tree| holds(&seen_backwards(tree), &[10, 30], &[5, 7, 20]),
    )
}

fn clear() -> [Words<Linear<2>>; 2] {
    both_ways(
        |tree| put(tree, &[10, 20, 30]),
        |tree| tree.clear().unwrap(),
        |tree| holds(&seen(tree), &[], &[10, 20, 30]),
        |tree| holds(&seen_backwards(tree), &[], &[10, 20, 30]),
    )
}

#[test]
fn loom_tree_range_against_split() {
    split().into_iter().for_each(Model::run);
}

#[test]
fn loom_tree_range_against_merge() {
    // These are long: every interruption costs dozens of executions.
    merge_and_reuse().into_iter().for_each(|model| Model { preemptions: 1, ..model }.run());
}

#[test]
fn loom_tree_range_against_clear() {
    clear().into_iter().for_each(Model::run);
}

#[test]
#[should_panic = "found wrong"]
fn loom_tree_unversioned_range_is_found_wrong() {
    let [forwards, _] = merge_and_reuse();
    Model { left_out: Some(Validation::Version), ..forwards }.run();
}
