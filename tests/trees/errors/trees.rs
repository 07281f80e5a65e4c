//! Trees that are of another kind than requested.

use super::{CAPACITY, Scratch, Small, error, holds_the_fifty, options};
use crate::medium::{Any, words_of, zeroed};
use bristlecone::papers::{Circular, Linear};
use bristlecone::{Error, ErrorKind, IndexKind, Map, PTree};

#[test]
fn another_layout_size_index_or_kind_is_a_mismatch() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    let layout = |error: Error, found: &str, expected: &str| {
        assert!(matches!(error.kind, ErrorKind::LayoutMismatch { .. }), "{error}");
        for part in ["'t'", found, expected] {
            assert!(error.to_string().contains(part), "{part} is missing: {error}");
        }
    };
    for open in [true, false] {
        let held: Option<Small> = open.then(|| pool.tree_with("t", IndexKind::Volatile).unwrap());
        layout(error(pool.tree_with::<Linear<5>>("t", IndexKind::Volatile)), "circular/4", "linear/5");
        layout(error(pool.tree_with::<Circular<8>>("t", IndexKind::Volatile)), "circular/4", "circular/8");
        layout(error(pool.tree_with::<Circular<4>>("t", IndexKind::Persistent)), "volatile", "persistent");
        let kind = |error: Error, expected: &str| {
            assert!(matches!(error.kind, ErrorKind::KindMismatch { .. }), "{error}");
            for part in ["'t'", "u64 -> u64", expected] {
                assert!(error.to_string().contains(part), "{part} is missing: {error}");
            }
        };
        kind(error(pool.map_with::<u64, Vec<u8>, Circular<4>>("t", IndexKind::Volatile)), "u64 -> bytes");
        kind(error(pool.map_with::<i64, u64, Circular<4>>("t", IndexKind::Volatile)), "i64 -> u64");
        kind(error(pool.map_with::<u64, (), Circular<4>>("t", IndexKind::Volatile)), "u64 -> ()");
        drop(held);
    }
    // The plain tree and the map of words are the same thing.
    let map: Map<u64, u64, Circular<4>> = pool.map_with("t", IndexKind::Volatile).unwrap();
    assert_eq!(map.get(7).unwrap(), Some(21));
    drop(map);
    pool.close().unwrap();
    scratch.unharmed();
}

#[test]
fn tree_names_have_limits() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    for name in ["", &"x".repeat(121), &"é".repeat(61)] {
        let error = error(pool.tree_with::<Circular<4>>(name, IndexKind::Volatile));
        assert!(matches!(error.kind, ErrorKind::TreeName { len, limit: 120 } if len == name.len()), "{error}");
    }
    for name in ["x", &"x".repeat(120), "é\0\n"] {
        let tree: Small = pool.tree_with(name, IndexKind::Volatile).unwrap();
        assert_eq!(tree.name(), name);
        tree.insert(1, name.len() as u64).unwrap();
    }
    pool.close().unwrap();
    let pool = options().open(&scratch.path).unwrap();
    let mut names: Vec<_> = pool.trees().unwrap().into_iter().map(|tree| tree.name).collect();
    names.sort();
    assert_eq!(names, ["t", "x", &"x".repeat(120), "é\0\n"]);
    pool.drop_tree("x").unwrap();
    pool.tree_with::<Circular<4>>("x", IndexKind::Volatile).unwrap();
    holds_the_fifty(&pool);
}

#[test]
fn a_tree_that_is_open_or_missing_is_not_dropped() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
    let error = error(pool.drop_tree("t"));
    assert!(error.to_string().ends_with("tree 't' is still open, by a handle or in a snapshot"), "{error}");
    scratch.named(&error);
    assert_eq!(tree.get(1), Some(3));
    let missing = self::error(pool.drop_tree("u"));
    assert!(
        matches!(missing.kind, ErrorKind::NoSuchTree { .. }) && missing.to_string().ends_with("tree 'u': not found"),
        "{missing}"
    );
    scratch.named(&missing);
    assert!(matches!(self::error(pool.drop_tree("")).kind, ErrorKind::TreeName { len: 0, .. }));
    let unnamed = pool.check_tree("u").unwrap_err();
    assert_eq!(unnamed.to_string(), missing.to_string());
    drop(tree);
    pool.drop_tree("t").unwrap();
    assert!(pool.trees().unwrap().is_empty());
    assert!(matches!(self::error(pool.drop_tree("t")).kind, ErrorKind::NoSuchTree { .. }));
}

#[test]
fn a_pool_with_live_handles_is_not_closed() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
    let error = error(pool.close());
    assert!(matches!(&error.kind, ErrorKind::StillOpen { trees, .. } if trees == &["t"]), "{error}");
    scratch.named(&error);
    // The pool stays open through the tree's handle.
    tree.insert(50, 150).unwrap();
    assert!(matches!(self::error(options().open(&scratch.path)).kind, ErrorKind::InUse));
    let pool = tree.pool();
    let other = pool.clone();
    drop(tree);
    let error = self::error(pool.close());
    assert!(matches!(&error.kind, ErrorKind::StillOpen { trees, .. } if trees.is_empty()), "{error}");
    other.close().unwrap();
    let pool = options().open(&scratch.path).unwrap();
    assert!(pool.stat().was_clean);
    assert_eq!(pool.tree_with::<Circular<4>>("t", IndexKind::Volatile).unwrap().remove(50).unwrap(), Some(150));
    drop(pool);
    scratch.unharmed();
}

#[test]
fn the_place_of_a_dropped_tree_is_as_good_as_new() {
    fn with(index: IndexKind) {
        let pool = options().create_on(zeroed(CAPACITY)).unwrap();
        let available = pool.stat().available;
        for round in 0..20 {
            let tree: PTree<Linear<5>, Any> = pool.tree_with("a", index).unwrap();
            assert!(tree.is_empty());
            (0..100).for_each(|key| assert_eq!(tree.insert(key, round).unwrap(), None));
            assert!(tree.check().is_clean());
            drop(tree);
            pool.drop_tree("a").unwrap();
            assert_eq!(pool.stat().available, available, "round {round}");
            // Another layout works in the same place, too.
            let tree: PTree<Circular<8>, Any> = pool.tree_with("a", index).unwrap();
            (0..100).for_each(|key| assert_eq!(tree.insert(key, round).unwrap(), None));
            drop(tree);
            pool.drop_tree("a").unwrap();
        }
    }
    with(IndexKind::Volatile);
    with(IndexKind::Persistent);
}

#[test]
fn bulk_load_refuses_and_changes_nothing() {
    fn with(index: IndexKind) {
        let pool = options().create_on(zeroed(CAPACITY)).unwrap();
        let tree: Small<Any> = pool.tree_with("bulk", index).unwrap();
        for (keys, at) in
            [(vec![5, 4], 1), (vec![1, 2, 3, 3], 3), (vec![0, u64::MAX, u64::MAX], 2), (vec![u64::MAX, 0], 1)]
        {
            let error = error(tree.bulk_load(keys.into_iter().map(|key| (key, 0))));
            assert!(matches!(error.kind, ErrorKind::Unsorted { position } if position == at), "{error}");
            assert!(error.to_string().contains(&at.to_string()), "{error}");
            assert!(tree.is_empty() && tree.iter().next().is_none());
            assert!(tree.check().is_clean(), "{:?}", tree.check().violations);
        }
        let error = error(tree.bulk_load((0..300).chain([7]).map(|key| (key, 0))));
        assert!(matches!(error.kind, ErrorKind::Unsorted { position: 300 }), "{error}");
        tree.insert(3, 4).unwrap();
        let error = self::error(tree.bulk_load([(1, 1)]));
        assert!(matches!(&error.kind, ErrorKind::NotEmpty { tree } if tree == "bulk"), "{error}");
        assert_eq!(tree.iter().collect::<Vec<_>>(), [(3, 4)]);
        assert!(tree.check().is_clean());
        tree.remove(3).unwrap();
        assert_eq!(tree.bulk_load((0..300).map(|key| (key, key))).unwrap(), 300);
        assert!(tree.check().is_clean());
    }
    with(IndexKind::Volatile);
    with(IndexKind::Persistent);
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_record_that_is_too_long_is_refused() {
    // This memory is never touched, so it is not really allocated.
    let huge = vec![0; (1 << 30) + 1];
    let pool = options().create_on(zeroed(CAPACITY)).unwrap();
    let map: Map<u64, Vec<u8>, Circular<4>, Any> = pool.map_with("m", IndexKind::Volatile).unwrap();
    map.insert(1, b"one").unwrap();
    let before = words_of(pool.medium());
    for error in [
        error(map.insert(1, &huge)),
        error(map.insert(2, &huge)),
        error(map.update(1, &huge)),
        error(map.insert_new(2, &huge)),
    ] {
        assert!(
            matches!(error.kind, ErrorKind::RecordTooLong { len, limit } if len == limit + 1 && limit == 1 << 30),
            "{error}"
        );
        assert!(error.to_string().contains("1073741824"), "{error}");
    }
    // A record within the limit, but larger than the pool.
    let error = error(map.insert(2, &huge[..100_000]));
    assert!(matches!(error.kind, ErrorKind::OutOfSpace { capacity: CAPACITY, source: None, .. }), "{error}");
    assert!(before == words_of(pool.medium()));
    map.clear().unwrap();
    assert!(matches!(self::error(map.bulk_load([(1, &b"x"[..]), (2, &huge)])).kind, ErrorKind::RecordTooLong { .. }));
    assert!(map.is_empty() && map.check().is_clean());
}
