//! All threads on the same few keys.

use super::{GHOST, THREADS, below, is_of, mark, outlives, pool, random, seed, sound, time, watched};
use crate::medium::Any;
use bristlecone::{ErrorKind, IndexKind, PTree, WordNode};
use std::thread;
use std::time::Instant;

/// All threads on the same few keys; some clear, load, and fail to load.
fn scramble<N: WordNode>(index: IndexKind) {
    const KEYS: u64 = 40;
    let pool = pool();
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    let stop = Instant::now() + time();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let tree = &tree;
            scope.spawn(move || {
                seed(number);
                while Instant::now() < stop {
                    for _ in 0..20 {
                        let key = below(KEYS);
                        let old = match below(10) {
                            0..=2 => tree.insert(key, mark(key, random())).unwrap(),
                            3..=6 => tree.remove(key).unwrap(),
                            7 => tree.update(key, mark(key, random())).unwrap(),
                            _ => tree.get(key),
                        };
                        old.into_iter().for_each(|value| is_of(key, value));
                    }
                    tree.range(5..30).for_each(|(key, value)| is_of(key, value));
                    tree.range(..).rev().for_each(|(key, value)| is_of(key, value));
                    let load = |end: Option<u64>| {
                        let ghost = if end.is_some() { GHOST } else { 0 };
                        (0..KEYS).chain(end).map(move |key| (key, mark(key, random()) | ghost))
                    };
                    match number {
                        0 => tree.clear().unwrap(),
                        1 => match tree.bulk_load(load(None)) {
                            Ok(n) => assert_eq!(n, KEYS),
                            Err(error) => assert!(matches!(error.kind, ErrorKind::NotEmpty { .. }), "{error}"),
                        },
                        2 => match tree.bulk_load(load(Some(0))) {
                            Ok(_) => panic!("loaded what was not sorted"),
                            Err(error) => {
                                assert!(
                                    matches!(error.kind, ErrorKind::NotEmpty { .. } | ErrorKind::Unsorted { .. }),
                                    "{error}"
                                );
                            }
                        },
                        3..=5 => (0..KEYS).for_each(|key| assert!(tree.remove(key).is_ok())),
                        _ => {}
                    }
                }
            });
        }
    });
    sound(&tree);
    outlives(pool, tree);
}

fn watched_scramble<N: WordNode>(index: IndexKind) {
    watched("scramble", || scramble::<N>(index));
}

in_every_layout!(watched_scramble);
