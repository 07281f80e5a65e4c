//! Many keys at once, and keys in order.

use crate::medium::{Any, zeroed};
use crate::model::{POOL, cases, key, options};
use bristlecone::{IndexKind, Node, OneLine, PTree};
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn bulk_load_is_insert_of_all(keys in prop::collection::btree_map(key(), any::<u64>(), 0..300)) {
        let pool = options().create_on(zeroed(POOL)).unwrap();
        let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", IndexKind::Persistent).unwrap();
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
