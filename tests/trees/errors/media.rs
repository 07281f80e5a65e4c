//! Media of other kinds and with other access rights.

use super::full::tiny;
use super::{CAPACITY, Scratch, Small, options};
use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Mapped, Mapping, Medium};
use bristlecone::papers::{CircTree, Circular, Linear};
use bristlecone::{Error, ErrorKind, IndexKind, Map, PTree};
use std::fs;

#[test]
fn creating_on_a_used_medium_starts_from_nothing() {
    let pool = options().create_on(zeroed(CAPACITY)).unwrap();
    let tree: Small<Any> = pool.tree_with("t", IndexKind::Volatile).unwrap();
    (0..50).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    let words = words_of(pool.medium());
    let again = options().create_on(holding(words)).unwrap();
    assert!(again.trees().unwrap().is_empty());
    let tree: Small<Any> = again.tree_with("t", IndexKind::Volatile).unwrap();
    assert!(tree.is_empty());
    tree.insert(1, 2).unwrap();
    assert!(tree.check().is_clean());
    let again = options().open_on(holding(words_of(again.medium()))).unwrap();
    let tree: Small<Any> = again.tree_with("t", IndexKind::Volatile).unwrap();
    assert_eq!(tree.iter().collect::<Vec<_>>(), [(1, 2)]);
}

#[test]
fn a_pool_on_any_medium_can_be_opened_for_reading_only() {
    let pool = crate::plain().capacity(16 << 20).create_on(zeroed(16 << 20)).unwrap();
    let tree = pool.tree_with::<CircTree>("t", IndexKind::Volatile).unwrap();
    tree.insert(1, 2).unwrap();
    let words = words_of(pool.medium());
    let reader = crate::plain().read_only(true).open_on(holding(words.clone())).unwrap();
    assert!(matches!(
        reader.tree_with::<Circular<4>>("t", IndexKind::Volatile),
        Err(Error { kind: ErrorKind::ReadOnly { .. }, .. })
    ));
    assert!(matches!(reader.drop_tree("t"), Err(Error { kind: ErrorKind::ReadOnly { .. }, .. })));
    assert_eq!(reader.check().unwrap().entries, 1);
    assert_eq!(words_of(reader.medium()), words);
    // A medium has the length that it has.
    let larger = crate::plain().capacity(32 << 20).open_on(holding(words.clone())).err().unwrap();
    let (least, greatest) = (16 << 20, 16 << 20);
    assert!(matches!(larger.kind, ErrorKind::Capacity { asked, least: l, greatest: g }
        if (asked, l, g) == (32 << 20, least, greatest)));
    let refused = crate::plain().read_only(true).create_on(zeroed(16 << 20));
    assert!(matches!(refused.err(), Some(Error { kind: ErrorKind::ReadOnly { .. }, .. })));
}

#[test]
fn a_pool_grows_to_an_odd_size() {
    let scratch = Scratch::empty();
    let small = crate::plain().segment_size(4096);
    drop(small.clone().capacity(1 << 20).open(&scratch.path).unwrap());
    let grown = small.clone().capacity(2_000_003).open(&scratch.path).unwrap();
    assert_eq!(grown.stat().capacity, 2_000_003);
    let tree: PTree<Circular<4>> = grown.tree_with("t", IndexKind::Volatile).unwrap();
    tree.insert(1, 2).unwrap();
    drop((tree, grown));
    let again = small.open(&scratch.path).unwrap();
    assert_eq!(again.tree_with::<Circular<4>>("t", IndexKind::Volatile).unwrap().get(1), Some(2));
}

#[test]
fn what_is_stored_to_a_read_only_mapping_goes_nowhere() {
    let scratch = Scratch::empty();
    drop(options().open(&scratch.path).unwrap());
    let before = fs::read(&scratch.path).unwrap();
    let mapped = Mapped::open(&scratch.path, Mapping::Read).unwrap();
    mapped.store(0, 1);
    mapped.store_pair(64, [1, 2]);
    drop(mapped);
    assert!(fs::read(&scratch.path).unwrap() == before);
    let refused = options().create_on(Mapped::open(&scratch.path, Mapping::Read).unwrap());
    assert!(matches!(refused.err(), Some(Error { kind: ErrorKind::ReadOnly { .. }, .. })));
}

#[test]
fn nothing_of_what_a_medium_held_comes_back() {
    let used = tiny().create_on(zeroed(256 << 10)).unwrap();
    let tree: PTree<Linear<5>, Any> = used.tree_with("old", IndexKind::Volatile).unwrap();
    for key in 0..100 {
        tree.insert(key, key).unwrap();
    }
    let mut words = words_of(used.medium());
    // As a creation over the pool leaves it if it is interrupted at once; and with a first word that says nothing.
    for first in [u64::from_le_bytes(*b"BRISTLE?"), 0] {
        words[0] = first;
        words[512] = 0;
        let pool = tiny().create_on(holding(words.clone())).unwrap();
        assert!(pool.trees().unwrap().is_empty());
        let tree: PTree<Linear<5>, Any> = pool.tree_with("new", IndexKind::Volatile).unwrap();
        assert!(tree.is_empty());
        for key in 0..100 {
            tree.insert(key * 3, key).unwrap();
        }
        // After a crash, everything that was never written is read.
        let again = tiny().open_on(holding(words_of(pool.medium()))).unwrap();
        let tree: PTree<Linear<5>, Any> = again.tree_with("new", IndexKind::Volatile).unwrap();
        assert!(tree.iter().eq((0..100).map(|key| (key * 3, key))));
        assert!(tree.check().is_clean(), "{:?}", tree.check());
    }
}

#[test]
fn a_load_that_panics_takes_no_space() {
    let pool = tiny().create_on(zeroed(256 << 10)).unwrap();
    let map: Map<u64, Vec<u8>, Circular<4>, Any> = pool.map_with("m", IndexKind::Persistent).unwrap();
    let bytes = vec![7; 3000];
    for _ in 0..50 {
        let entries = (0..20).map(|key| {
            assert!(key < 15, "as asked");
            (key, &bytes[..key as usize * 200])
        });
        let load = std::panic::AssertUnwindSafe(|| map.bulk_load(entries));
        assert!(std::panic::catch_unwind(load).is_err());
        assert!(map.check().is_clean(), "{:?}", map.check());
    }
    assert_eq!(map.bulk_load((0..20).map(|key| (key, &bytes[..key as usize * 10]))).unwrap(), 20);
    assert!(map.check().is_clean(), "{:?}", map.check());
}
