//! Every tree compared with `BTreeMap`: random histories, small nodes, all keys legal, with reopening in between.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::papers::{
    Append, Circular, CowSip, Fingerprint, Fingerprinted, Fixed, Linear, Logged, Sentinel, Versioned, crab,
};
use bristlecone::{IndexKind, Node, OneLine, PTree, Pool, WordNode};
use proptest::prelude::*;
use proptest::strategy::Strategy;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

const POOL: u64 = 512 << 10;

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

fn key() -> impl Strategy<Value = u64> {
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

fn options() -> bristlecone::Options {
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

fn cases() -> ProptestConfig {
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

macro_rules! follow_the_model {
    ($($name:ident: $layout:ty, $index:ident;)*) => {
        $(#[test]
        fn $name() {
            in_all_histories(stringify!($name), &|ops| follows_the_model::<$layout>(IndexKind::$index, ops));
        })*
    };
}

follow_the_model! {
    linear_5_volatile: Linear<5>, Volatile;
    linear_5_persistent: Linear<5>, Persistent;
    circular_4_persistent: Circular<4>, Persistent;
    circular_4_volatile: Circular<4>, Volatile;
    circular_8_persistent: Circular<8>, Persistent;
    one_line_7_volatile: OneLine<7>, Volatile;
    one_line_7_persistent: OneLine<7>, Persistent;
    one_line_39_volatile: OneLine, Volatile;
    sentinel_circular_16: Sentinel<Circular<16>>, Volatile;
    fingerprinted_linear_64: Fingerprinted<Linear<64>>, Volatile;
    crab_opt_4: CowSip<4, { crab::OPT }>, Volatile;
    cow_only_4: CowSip<4, { crab::COPY_ONLY }>, Persistent;
    append_3: Append<3>, Flat;
    append_fixed_4: Append<4, Fixed>, Persistent;
    fingerprint_4: Fingerprint<4>, Persistent;
    logged_4: Logged<4>, Persistent;
    versioned_4: Versioned<4>, Persistent;
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn bulk_load_is_insert_of_all(keys in prop::collection::btree_map(key(), any::<u64>(), 0..300)) {
        let pool = options().create_on(zeroed(POOL)).unwrap();
        let tree: PTree<Circular<8>, Any> = pool.tree_with("t", IndexKind::Persistent).unwrap();
        assert_eq!(tree.bulk_load(keys.clone()).unwrap(), keys.len() as u64);
        assert!(tree.check().is_clean());
        assert_eq!(tree.iter().collect::<BTreeMap<_, _>>(), keys);
        let mut model = keys.clone();
        for (&k, &v) in &keys {
            assert_eq!(tree.get(k), model.get(&k).copied());
            let other = k ^ 1;
            assert_eq!(tree.insert(other, 7).unwrap(), model.insert(other, 7));
            assert_eq!(tree.remove(k).unwrap(), model.remove(&k));
            model.insert(k, v);
            tree.insert(k, v).unwrap();
        }
        assert_eq!(tree.iter().collect::<BTreeMap<_, _>>(), model);
        assert!(tree.check().is_clean());
    }
}

/// Bytes of leaves per entry, without the last leaf, which holds at most the key MAX.
fn bytes_per_entry(tree: &PTree<OneLine, Any>) -> f64 {
    let report = tree.check();
    assert!(report.is_clean(), "{:?}", report.violations);
    ((report.leaves - 1) * <OneLine>::BYTES) as f64 / report.entries as f64
}

#[test]
fn keys_that_ascend_or_descend_fill_leaves() {
    let empty = || -> PTree<OneLine, Any> {
        let pool = options().create_on(zeroed(8 * POOL)).unwrap();
        pool.tree("t").unwrap()
    };
    const KEYS: u64 = 50_000;
    let ascending = empty();
    (0..KEYS).for_each(|key| assert_eq!(ascending.insert(key, key).unwrap(), None));
    let descending = empty();
    (0..KEYS).rev().for_each(|key| assert_eq!(descending.insert(key, key).unwrap(), None));
    let loaded = empty();
    loaded.bulk_load((0..KEYS).map(|key| (key, key))).unwrap();
    let random = empty();
    (0..KEYS).for_each(|i| assert_eq!(random.insert(i.wrapping_mul(0xbf58_476d_1ce4_e5b9), i).unwrap(), None));
    let bytes = [&ascending, &descending, &loaded, &random].map(bytes_per_entry);
    println!("{bytes:.2?}");
    assert!(bytes[0] < 16.5 && bytes[1] < 16.5 && bytes[2] < 18.0 && bytes[3] < 27.0, "{bytes:?}");
}
