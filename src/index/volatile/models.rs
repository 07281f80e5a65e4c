//! loom models: nodes of four entries, one writer, one reader. Whatever the reader sees was posted, and what stays is found.

use super::Separators;
use loom::sync::Arc;
use loom::thread;

fn leaf_of(low: u64) -> u64 {
    low + 1000
}

/// `lows` are posted, then `write` runs against `floor(key)`, whose low must be one of `may`.
fn model(lows: &'static [u64], write: fn(&Separators), key: u64, may: &'static [u64]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.max_branches = 20_000;
    builder.check(move || {
        let index = Arc::new(Separators::new());
        lows.iter().for_each(|low| index.insert(*low, leaf_of(*low)));
        let writer = thread::spawn({
            let index = Arc::clone(&index);
            move || write(&index)
        });
        let (low, leaf) = index.floor(key).expect("something stays");
        assert!(may.contains(&low), "floor({key}) is {low}");
        assert_eq!(leaf, leaf_of(low));
        writer.join().unwrap();
    });
}

fn insert(index: &Separators, low: u64) {
    index.insert(low, leaf_of(low));
}

#[test]
fn floor_against_a_shift() {
    model(&[10, 30], |index| insert(index, 20), 35, &[30]);
}

#[test]
fn floor_against_the_first_split() {
    model(&[10, 20, 30, 40], |index| insert(index, 15), 35, &[30]);
}

#[test]
fn floor_against_a_split() {
    model(&[10, 20, 30, 40, 50], |index| insert(index, 45), 55, &[50]);
}

#[test]
fn floor_against_a_new_least() {
    // [10 20 30 40] [50]: 50 goes with its node, and the root with that.
    model(&[10, 20, 30, 40, 50], |index| assert!(index.remove(50).is_some()), 55, &[50, 40]);
    // The second node begins with 60 then, and the root says so.
    model(&[10, 20, 30, 40, 50, 60], |index| assert!(index.remove(50).is_some()), 55, &[50, 40]);
}

#[test]
fn floor_against_a_merge() {
    // [10 20 30 40] [50 60]; one entry each, they become one node.
    let thin = |index: &Separators| {
        for low in [20, 30, 40] {
            index.remove(low);
        }
    };
    model(&[10, 20, 30, 40, 50, 60], thin, 65, &[60]);
}

#[test]
fn floor_against_a_node_used_again() {
    // The node of 50 is taken out, and used for what 15 splits off at the other end.
    let write = |index: &Separators| {
        index.remove(50);
        insert(index, 15);
    };
    model(&[10, 20, 30, 40, 50], write, 55, &[50, 40]);
}

#[test]
fn floor_against_a_rebuild() {
    let write = |index: &Separators| {
        index.rebuild([10, 20, 25].into_iter().map(|low| (low, leaf_of(low))));
        index.rebuild([20, 22].into_iter().map(|low| (low, leaf_of(low))));
    };
    model(&[10, 20], write, 22, &[20, 22]);
}
