//! Every tree compared with `BTreeMap`: random histories, small nodes, all keys legal, with reopening in between.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::{IndexKind, PTree, Pool, WordNode};
use proptest::prelude::*;
use proptest::strategy::Strategy;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

pub(crate) const POOL: u64 = 512 << 10;

#[derive(Debug, Clone)]
enum Op {
    Insert(u64, u64),
    Update(u64, u64),
    Exchange(u64, Option<u64>, Option<u64>),
    Remove(u64),
    Get(u64),
    MultiGet(Vec<u64>),
    Batch(Vec<(u64, u64)>),
    Range(u64, u64),
    RemoveRange(u64, u64),
    /// Keep the keys that leave this rest when divided by three.
    Retain(u64),
    /// Remove the first entry (true) or the last one.
    Pop(bool),
    /// Add one to the value of a key, or remove a key whose value is 2.
    UpdateWith(u64),
    /// After a crash, counting touches all leaves, so it is not done after each operation.
    Len,
    Clear,
    /// Close orderly (true) or drop the memory (false), and open again.
    Reopen(bool),
}

pub(crate) fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => 0..96u64,
        1 => Just(0u64),
        1 => Just(u64::MAX),
        1 => Just(u64::MAX - 1),
        2 => any::<u64>(),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (key(), 0..4u64).prop_map(|(k, v)| Op::Insert(k, v)),
        2 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Update(k, v)),
        2 => (key(), prop::option::of(0..4u64), prop::option::of(0..4u64)).prop_map(|(k, a, b)| Op::Exchange(k, a, b)),
        9 => key().prop_map(Op::Remove),
        3 => key().prop_map(Op::Get),
        1 => prop::collection::vec(key(), 0..40).prop_map(Op::MultiGet),
        1 => prop::collection::vec((key(), 0..4u64), 0..40).prop_map(Op::Batch),
        2 => Just(Op::Len),
        2 => (key(), key()).prop_map(|(a, b)| Op::Range(a.min(b), a.max(b))),
        1 => any::<bool>().prop_map(Op::Reopen),
        1 => Just(Op::Clear),
        2 => (key(), key()).prop_map(|(a, b)| Op::RemoveRange(a.min(b), a.max(b))),
        2 => (0..96u64, 0..30u64).prop_map(|(a, b)| Op::RemoveRange(a, a + b)),
        1 => (0..3u64).prop_map(Op::Retain),
        2 => any::<bool>().prop_map(Op::Pop),
        2 => key().prop_map(Op::UpdateWith),
    ]
}

pub(crate) fn options() -> bristlecone::Options {
    Pool::options().segment_size(4096)
}

fn follows_the_model<N: WordNode>(index: IndexKind, ops: Vec<Op>) {
    let mut pool = options().create_on(zeroed(POOL)).unwrap();
    let mut tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    let mut model = BTreeMap::new();
    for op in ops {
        match op {
            Op::Insert(k, v) => assert_eq!(tree.insert(k, v).unwrap(), model.insert(k, v)),
            Op::Update(k, v) => {
                let old = model.get_mut(&k).map(|old| std::mem::replace(old, v));
                assert_eq!(tree.update(k, v).unwrap(), old);
            }
            Op::Exchange(k, current, new) => {
                let old = model.get(&k).copied();
                if old == current {
                    match new {
                        Some(v) => model.insert(k, v),
                        None => model.remove(&k),
                    };
                }
                assert_eq!(tree.compare_exchange(k, current, new).unwrap(), old);
            }
            Op::Remove(k) => assert_eq!(tree.remove(k).unwrap(), model.remove(&k)),
            Op::Get(k) => assert_eq!(tree.get(k), model.get(&k).copied()),
            Op::MultiGet(keys) => {
                let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
                assert_eq!(tree.multi_get(&keys), expected);
            }
            Op::Batch(entries) => {
                let before = model.len();
                model.extend(entries.iter().copied());
                assert_eq!(tree.insert_batch(&entries).unwrap(), (model.len() - before) as u64);
            }
            Op::Len => {
                assert_eq!(tree.len(), model.len() as u64);
                assert_eq!(tree.is_empty(), model.is_empty());
            }
            Op::Range(a, b) => {
                let expected: Vec<_> = model.range(a..=b).map(|(&k, &v)| (k, v)).collect();
                assert_eq!(tree.range(a..=b).collect::<Vec<_>>(), expected);
                assert!(tree.keys(a..=b).eq(expected.iter().map(|(key, _)| *key)));
                assert!(tree.values(a..=b).eq(expected.iter().map(|(_, value)| *value)));
                assert_eq!(tree.clone().into_range(a..=b).collect::<Vec<_>>(), expected);
                let mut back: Vec<_> = tree.range(a..=b).rev().collect();
                back.reverse();
                assert_eq!(back, expected);
                // From both ends, in turn.
                let (mut range, mut ends) = (tree.range(a..=b), (Vec::new(), Vec::new()));
                while let Some(left) = range.next() {
                    ends.0.push(left);
                    ends.1.extend(range.next_back());
                }
                ends.0.extend(ends.1.into_iter().rev());
                assert_eq!(ends.0, expected);
            }
            Op::RemoveRange(a, b) => {
                let before = model.len();
                model.retain(|key, _| !(a..=b).contains(key));
                assert_eq!(tree.remove_range(a..=b).unwrap(), (before - model.len()) as u64);
            }
            Op::Retain(rest) => {
                let before = model.len();
                model.retain(|key, _| key % 3 == rest);
                assert_eq!(tree.retain(|key, _| key % 3 == rest).unwrap(), (before - model.len()) as u64);
            }
            Op::Pop(true) => assert_eq!(tree.pop_first().unwrap(), model.pop_first()),
            Op::Pop(false) => assert_eq!(tree.pop_last().unwrap(), model.pop_last()),
            Op::UpdateWith(k) => {
                let next = |old: Option<u64>| (old != Some(2)).then(|| old.unwrap_or(0).wrapping_add(1));
                let old = model.remove(&k);
                model.extend(next(old).map(|new| (k, new)));
                assert_eq!(tree.update_with(k, next).unwrap(), old);
            }
            Op::Clear => {
                tree.clear().unwrap();
                model.clear();
            }
            Op::Reopen(in_order) => {
                let words = if in_order {
                    drop(tree);
                    words_of(pool.medium())
                } else {
                    let words = words_of(pool.medium());
                    drop(tree);
                    words
                };
                drop(pool);
                pool = options().open_on(holding(words)).unwrap();
                tree = pool.tree_with("t", index).unwrap();
            }
        }
    }
    assert_eq!(tree.len(), model.len() as u64);
    assert_eq!(tree.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
    let report = tree.check();
    assert!(report.is_clean(), "{:?}", report.violations);
    assert!(tree.fault().is_none());
}

fn histories() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 0..400)
}

pub(crate) fn cases() -> ProptestConfig {
    let all = ProptestConfig::default();
    let cases = if cfg!(miri) { 2 } else { all.cases.min(crate::part_of(256) as u32) };
    ProptestConfig { cases, ..all }
}

/// What `proptest!` expands to, compiled once for all trees.
fn in_all_histories(test_name: &'static str, follows_the_model: &dyn Fn(Vec<Op>)) {
    let config = ProptestConfig { test_name: Some(test_name), source_file: Some(file!()), ..cases() };
    let outcome = TestRunner::new(config).run(&histories(), |ops| {
        follows_the_model(ops);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

fn follows<N: WordNode>(index: IndexKind) {
    in_all_histories(N::NAME, &|ops| follows_the_model::<N>(index, ops));
}

in_every_layout!(follows);
