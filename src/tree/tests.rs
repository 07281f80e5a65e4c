//! Trees over a flat index. Its nodes are small in unit tests, so it has several levels and is rebuilt all the time.

use super::PTree;
use super::directory::Directory;
use crate::error::ErrorKind;
use crate::medium::any::{Any, holding, words_of, zeroed};
use crate::node::IndexKind;
use crate::node::{Circular, OneLine, WordNode};
use crate::pool::segments::SegmentKind;
use crate::pool::{Options, Pool};
use std::collections::BTreeMap;

const POOL: u64 = 4 << 20;

fn options() -> Options {
    Pool::options().segment_size(4096)
}

fn created() -> Pool<Any> {
    options().create_on(zeroed(POOL)).unwrap()
}

fn opened(words: Vec<u64>) -> Pool<Any> {
    options().open_on(holding(words)).unwrap()
}

/// Closes the tree in order and returns the pool's words.
fn closed<N: WordNode>(tree: PTree<N, Any>) -> Vec<u64> {
    let pool = tree.pool();
    drop(tree);
    words_of(pool.medium())
}

fn scattered(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn filled<N: WordNode>(index: IndexKind, keys: u64) -> PTree<N, Any> {
    let tree = created().tree_with("t", index).unwrap();
    (0..keys).for_each(|i| assert!(tree.insert(scattered(i), i).is_ok()));
    tree
}

fn same<N: WordNode>(tree: &PTree<N, Any>, model: &BTreeMap<u64, u64>) {
    assert!(tree.iter().eq(model.iter().map(|(&key, &value)| (key, value))));
    let keys: Vec<u64> = model.keys().copied().take(100).collect();
    assert!(tree.multi_get(&keys).into_iter().eq(keys.iter().map(|key| model.get(key).copied())));
    let report = tree.check();
    assert!(report.is_clean(), "{:?}", report.violations);
    assert!(tree.fault().is_none());
}

fn follows_the_model<N: WordNode>(index: IndexKind, seed: u64) {
    let mut random = seed;
    let mut below = |end: u64| {
        random = scattered(random ^ (random >> 29)) + 1;
        (random >> 20) % end
    };
    let mut tree: PTree<N, Any> = created().tree_with("t", index).unwrap();
    let mut model = BTreeMap::new();
    let mut rebuilds = 0;
    // (first key, keys, inserts in ten changes): fills, thins out, goes on in one place, and is emptied.
    for (round, (from, keys, inserts)) in
        [(0, 3000, 8), (0, 3000, 2), (500, 200, 6), (0, 3000, 0)].into_iter().enumerate()
    {
        for _ in 0..3000 {
            let (key, value) = (from + below(keys), below(1000));
            if below(10) < inserts {
                assert_eq!(tree.insert(key, value).unwrap(), model.insert(key, value));
            } else {
                assert_eq!(tree.remove(key).unwrap(), model.remove(&key));
            }
            let key = below(keys);
            assert_eq!(tree.get(key), model.get(&key).copied());
        }
        same(&tree, &model);
        rebuilds += tree.index_rebuilds().0;
        let words = if round % 2 == 0 { closed(tree) } else { words_of(tree.pool().medium()) };
        tree = opened(words).tree_with("t", index).unwrap();
        same(&tree, &model);
    }
    assert!(rebuilds > 0);
    tree.clear().unwrap();
    assert_eq!(tree.bulk_load((0..2000).map(|key| (key, key))).unwrap(), 2000);
    same(&tree, &(0..2000).map(|key| (key, key)).collect());
}

#[test]
fn trees_over_a_flat_index_do_what_maps_do() {
    follows_the_model::<OneLine<7>>(IndexKind::Flat, 1);
    follows_the_model::<Circular<4>>(IndexKind::Flat, 2);
    follows_the_model::<OneLine<7>>(IndexKind::FlatFixed, 3);
}

/// What an open learns from the record is what the close knew.
#[test]
fn a_flat_index_is_restored_from_its_image() {
    fn with<N: WordNode>(index: IndexKind) {
        let tree = filled::<N>(index, 4000);
        let known = tree.state.directory.image();
        assert!(known.1.len > 500);
        let tree: PTree<N, Any> = opened(closed(tree)).tree_with("t", index).unwrap();
        assert_eq!(tree.state.directory.image(), known);
        // The record, with what was not read of it, stays until the next close.
        assert!(!tree.state.pool.segments.owned(tree.state.root.slot, SegmentKind::Extent, 0).is_empty());
        assert_eq!((tree.len(), tree.index_rebuilds().0), (4000, 0));
        assert!((0..4000).all(|i| tree.get(scattered(i)) == Some(i)));
        assert!(tree.check().is_clean() && tree.memory() > 0);
    }
    with::<OneLine<7>>(IndexKind::Flat);
    with::<Circular<4>>(IndexKind::Flat);
    with::<OneLine<7>>(IndexKind::FlatFixed);
}

#[test]
fn the_leaves_are_found_if_the_image_is_damaged() {
    let tree = filled::<OneLine<7>>(IndexKind::Flat, 2000);
    let (known, root) = (tree.state.directory.image(), tree.state.root);
    let words = closed(tree);
    let record = root.closed(&holding(words.clone())).unwrap();
    let image = record.at + 8 * words[(record.at / 8) as usize];
    for at in [image, image + 8 * 3, image + 8 * 57 * 4 + 16] {
        let mut words = words.clone();
        words[(at / 8) as usize] ^= 1 << 9;
        let tree: PTree<OneLine<7>, Any> = opened(words).tree_with("t", IndexKind::Flat).unwrap();
        assert!((0..2000).all(|i| tree.get(scattered(i)) == Some(i)));
        assert_eq!(tree.state.directory.image(), known);
        assert!(tree.check().is_clean());
    }
}

#[test]
fn a_pool_knows_a_flat_index() {
    let tree = filled::<OneLine<7>>(IndexKind::Flat, 500);
    let pool = tree.pool();
    assert_eq!(pool.trees().unwrap()[0].index, "flat");
    let report = pool.check().unwrap();
    assert!(report.is_clean() && report.entries == 500 && report.height > 3, "{report:?}");
    drop(tree);
    for error in [
        pool.tree_with::<OneLine<7>>("t", IndexKind::Volatile).map(drop).unwrap_err(),
        pool.tree_with::<OneLine<7>>("t", IndexKind::FlatFixed).map(drop).unwrap_err(),
    ] {
        assert!(
            matches!(&error.kind, ErrorKind::LayoutMismatch { found, .. } if found.contains("flat index")),
            "{error}"
        );
    }
}

#[test]
fn readers_and_writers_of_a_flat_index() {
    let tree = filled::<OneLine<7>>(IndexKind::Flat, 0);
    let threads = 3;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let tree = &tree;
            scope.spawn(move || {
                let keys = || (0..3000).map(|i| i * threads + thread);
                for key in keys() {
                    assert_eq!(tree.insert(key, !key).unwrap(), None);
                    assert_eq!(
                        tree.get(key / 2 / threads * threads + thread),
                        Some(!(key / 2 / threads * threads + thread))
                    );
                }
                keys().filter(|key| key % 5 > 0).for_each(|key| assert_eq!(tree.remove(key).unwrap(), Some(!key)));
            });
        }
    });
    same(&tree, &(0..3000 * threads).filter(|key| key % 5 == 0).map(|key| (key, !key)).collect());
}

#[cfg(feature = "crash")]
#[test]
fn a_flat_index_outlives_every_crash() {
    use crate::crash::Campaign;
    use crate::medium::Model;

    let of = |index, model| {
        let mut campaign = Campaign::new(model);
        campaign.index = index;
        campaign
    };
    for outcome in [
        of(IndexKind::Flat, Model::Weak).random::<OneLine<7>>(20, 40, |_, _| ()),
        of(IndexKind::FlatFixed, Model::Tso).random::<Circular<4>>(20, 40, |_, _| ()),
    ] {
        outcome.violations.iter().for_each(|violation| println!("{violation}"));
        println!("{} points, {} states", outcome.points, outcome.states);
        assert!(outcome.complete && outcome.violations.is_empty());
    }
}
