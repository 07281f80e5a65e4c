//! Changes of names in transactions.

use crate::ending::Ending;
use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Counted, Dram};
use bristlecone::papers::CircTree;
use bristlecone::{Error, ErrorKind, Map, PTree, Pool, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn pool() -> Pool<Any> {
    crate::plain().segment_size(64 << 10).create_on(zeroed(16 << 20)).unwrap()
}

fn names<M: bristlecone::medium::Medium>(pool: &Pool<M>) -> Vec<String> {
    let mut names: Vec<String> = pool.trees().unwrap().into_iter().map(|tree| tree.name).collect();
    names.sort();
    names
}

#[track_caller]
fn fails_with(result: Result<()>, text: &str) {
    let error = result.expect_err(text).to_string();
    assert!(error.ends_with(text), "{error}");
}

#[test]
fn trees_of_all_kinds_change_names_together_with_entries() {
    let pool = pool();
    let log = pool.tree("log").unwrap();
    let map: Map<String, u64, _, Any> = pool.map("map").unwrap();
    let ring = pool.tree_of::<CircTree>("ring").unwrap();
    map.insert("of", 1).unwrap();
    ring.insert(1, 10).unwrap();
    let snapshot = pool.snapshot();
    pool.transaction(|tx| {
        tx.insert(&log, 1, 1)?;
        tx.swap_trees("map", "ring")?;
        tx.rename_tree("log", "a very long name of a tree that is the journal of this pool")
    })
    .unwrap();
    // Handles and snapshots stay with their trees.
    assert_eq!((map.name(), ring.name()), ("ring".to_owned(), "map".to_owned()));
    assert_eq!(log.name(), "a very long name of a tree that is the journal of this pool");
    assert_eq!((map.get("of").unwrap(), ring.get(1), log.get(1)), (Some(1), Some(10), Some(1)));
    assert_eq!((snapshot.get(&map, "of").unwrap(), snapshot.get(&log, 1).unwrap()), (Some(1), None));
    assert!(matches!(pool.tree("map"), Err(Error { kind: ErrorKind::LayoutMismatch { .. }, .. })));
    drop((snapshot, log, map, ring));
    // One after the other, and nothing of it is there before all of it is.
    pool.transaction(|tx| {
        tx.drop_tree("ring")?;
        tx.rename_tree("map", "x")?;
        tx.rename_tree("a very long name of a tree that is the journal of this pool", "map")?;
        tx.rename_tree("x", "ring")
    })
    .unwrap();
    assert_eq!(names(&pool), ["map", "ring"]);
    let again = crate::plain().segment_size(64 << 10).open_on(holding(words_of(pool.medium()))).unwrap();
    assert_eq!(names(&again), ["map", "ring"]);
    assert_eq!(again.tree("map").unwrap().get(1), Some(1));
    assert_eq!(again.tree_of::<CircTree>("ring").unwrap().get(1), Some(10));
    assert!(again.check().unwrap().violations.is_empty());
}

#[test]
fn names_that_cannot_be_are_refused_and_nothing_is_half_done() {
    let pool = pool();
    let (one, other) = (pool.tree("one").unwrap(), pool.tree("other").unwrap());
    let fails = |change: &dyn Fn(&mut bristlecone::Transaction<'_, Any>) -> Result<()>, text: &str| {
        let before = words_of(pool.medium());
        let mut tx = pool.begin();
        change(&mut tx).unwrap();
        fails_with(tx.commit(), text);
        assert!(before == words_of(pool.medium()));
    };
    fails(&|tx| tx.rename_tree("none", "new"), "tree 'none': not found");
    fails(&|tx| tx.rename_tree("one", "other"), "there is already a tree 'other'");
    fails(&|tx| tx.rename_tree("one", "one"), "there is already a tree 'one'");
    fails(&|tx| tx.swap_trees("one", "none"), "tree 'none': not found");
    fails(&|tx| tx.drop_tree("none"), "tree 'none': not found");
    fails(&|tx| tx.drop_tree("one"), "tree 'one' is still open, by a handle or in a snapshot");
    // What comes later in the transaction, and what came before.
    fails(&|tx| tx.rename_tree("one", "two").and_then(|()| tx.rename_tree("one", "three")), "tree 'one': not found");
    let mut tx = pool.begin();
    tx.insert(&one, 1, 1).unwrap();
    tx.insert(&other, 1, 1).unwrap();
    tx.drop_tree("gone").unwrap();
    fails_with(tx.commit(), "tree 'gone': not found");
    assert!(one.is_empty() && other.is_empty());
    let mut tx = pool.begin();
    assert!(matches!(tx.rename_tree("one", ""), Err(Error { kind: ErrorKind::TreeName { .. }, .. })));
    assert!(matches!(tx.drop_tree(&"x".repeat(121)), Err(Error { kind: ErrorKind::TreeName { .. }, .. })));
    // Nothing is left of the changes of names that were refused.
    tx.swap_trees("one", "one").unwrap();
    tx.commit().unwrap();
    // A transaction that is given up.
    let mut tx = pool.begin();
    tx.rename_tree("one", "two").unwrap();
    drop(tx);
    assert_eq!(names(&pool), ["one", "other"]);
    // What was read has changed.
    let mut tx = pool.begin();
    assert_eq!(tx.get(&one, 7).unwrap(), None);
    tx.rename_tree("one", "two").unwrap();
    one.insert(7, 7).unwrap();
    assert!(matches!(tx.commit(), Err(Error { kind: ErrorKind::Conflict, .. })));
    assert_eq!((names(&pool).len(), one.name()), (2, "one".to_owned()));
}

#[test]
fn a_name_is_as_long_as_it_may_be() {
    let pool = pool();
    let [short, long] = ["s".to_owned(), "l".repeat(120)];
    pool.tree(&short).unwrap().insert(1, 1).unwrap();
    pool.tree(&long).unwrap().insert(2, 2).unwrap();
    pool.transaction(|tx| tx.swap_trees(&short, &long)).unwrap();
    pool.transaction(|tx| tx.rename_tree(&short, "x")).unwrap();
    assert_eq!((pool.tree("x").unwrap().get(2), pool.tree(&long).unwrap().get(1)), (Some(2), Some(1)));
}

#[test]
fn names_that_follow_from_what_was_read_are_there() {
    let pool = pool();
    let versions = pool.tree("versions").unwrap();
    drop(pool.tree("data-0").unwrap());
    let (threads, renames) = if cfg!(miri) { (2, 5) } else { (4, 200) };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..renames {
                    let renamed = pool.transaction(|tx| {
                        let now = tx.get(&versions, 0)?.unwrap_or(0);
                        tx.insert(&versions, 0, now + 1)?;
                        tx.rename_tree(&format!("data-{now}"), &format!("data-{}", now + 1))
                    });
                    renamed.unwrap();
                }
            });
        }
    });
    assert_eq!(names(&pool), [format!("data-{}", threads * renames), "versions".to_owned()]);
}

#[test]
fn lines_and_fences() {
    let options = crate::plain().segment_size(64 << 10);
    let counted = Arc::new(Counted::new(Dram::zeroed(16 << 20)));
    let pool = options.create_on(Arc::clone(&counted) as Any).unwrap();
    ["a", "b"].iter().for_each(|name| drop(pool.tree(name).unwrap()));
    let tree = pool.tree("c").unwrap();
    pool.transaction(|tx| tx.swap_trees("a", "b")).unwrap();
    let spent = |change: &dyn Fn()| {
        let before = counted.counts();
        change();
        let now = counted.counts();
        (now.lines - before.lines, now.fences - before.fences)
    };
    // The state and one word of the name of each tree, in two lines: a list of two lines, four lines, and the end of
    // the list.
    assert_eq!(spent(&|| pool.transaction(|tx| tx.swap_trees("a", "b")).unwrap()), (7, 3));
    let with_entry = || {
        pool.transaction(|tx| {
            tx.insert(&tree, 1, 1)?;
            tx.swap_trees("a", "b")
        })
    };
    assert_eq!(spent(&|| with_entry().unwrap()).1, 3);
}

/// Readers find under each name what belongs to it, in snapshots and backups, whatever is renamed meanwhile.
#[test]
#[cfg_attr(miri, ignore = "files")]
fn names_and_entries_change_at_one_instant() {
    let dir = tempfile::tempdir().unwrap();
    let pool = crate::plain().capacity(64 << 20).open(dir.path().join("pool")).unwrap();
    let trees: [PTree; 3] = ["0", "1", "2"].map(|name| pool.tree(name).unwrap());
    for (tree, number) in trees.iter().zip(0..) {
        tree.insert(0, number).unwrap();
    }
    let stop = AtomicBool::new(false);
    let says = |tree: &PTree, name: u64| tree.get(0) == Some(name);
    std::thread::scope(|scope| {
        let _ending = Ending(&stop);
        for (one, other) in [(0, 1), (1, 2), (2, 0)] {
            let (pool, trees, stop) = (&pool, &trees, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // The trees that have these names now, as far as anybody can tell before the commit.
                    let swapped = pool.transaction(|tx| {
                        let mut named = [None; 2];
                        for tree in trees {
                            let number = tx.get(tree, 0)?;
                            for (name, place) in [one, other].iter().zip(&mut named) {
                                if number == Some(*name) {
                                    *place = Some(tree);
                                }
                            }
                        }
                        let [Some(first), Some(second)] = named else {
                            panic!("a transaction sees half of another one")
                        };
                        tx.insert(first, 0, other)?;
                        tx.insert(second, 0, one)?;
                        tx.swap_trees(&one.to_string(), &other.to_string())
                    });
                    swapped.unwrap();
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // A thread that opens a tree by its name waits for no thread that waits for it.
                drop(pool.tree("0").unwrap());
                drop(pool.tree("3").unwrap());
                match pool.transaction(|tx| tx.rename_tree("3", "4").and_then(|()| tx.drop_tree("4"))) {
                    Ok(()) | Err(Error { kind: ErrorKind::StillOpen { .. }, .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for i in 0..60 {
            let path = dir.path().join(format!("copy {i}"));
            pool.backup(&path).unwrap();
            let copy = Pool::open(&path).unwrap();
            (0..3).for_each(|name| assert!(says(&copy.tree(&name.to_string()).unwrap(), name), "backup {i}"));
            copy.close().unwrap();
            std::fs::remove_file(path).unwrap();
        }
    });
    for tree in &trees {
        assert!(says(tree, tree.name().parse().unwrap()));
    }
    assert!(pool.check().unwrap().violations.is_empty());
    drop(trees);
    pool.close().unwrap();
    let pool = Pool::open(dir.path().join("pool")).unwrap();
    (0..3).for_each(|name| assert!(says(&pool.tree(&name.to_string()).unwrap(), name)));
}
