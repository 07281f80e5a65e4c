//! Opening a tree against its last drop, against `drop_tree` and against renaming, including an orderly close.
//!
//! All of it is guarded by the catalogue's lock, which loom knows, so loom need not know the words of the pool. Loom
//! does not know reference counts: a `gate` tells it that the last handle is about to be dropped.

use super::{FIRST, Few, Tree, TreeState, check, image, options, put, spawn};
use crate::error::{Error, ErrorKind};
use crate::node::{IndexKind, Linear};
use crate::pool::Pool;
use crate::sync::delay::{Validation, leave_out};
use crate::sync::{AtomicU64, Ordering, set_sequential};
use std::sync::Arc;

type Of = Tree<Linear<2>>;

fn open(pool: &Pool<Arc<Few>>) -> Of {
    pool.tree_with("t", IndexKind::Volatile).unwrap()
}

/// Runs `act` while the last handle is dropped. `act` returns whether it saw what it should.
fn against_last_drop(act: fn(&Pool<Arc<Few>>) -> bool) {
    let words = image::<Tree<Linear<2>>>(IndexKind::Volatile, |tree| put(tree, &[10]), false);
    set_sequential(true);
    check(2, move || {
        let pool = options().open_on(Arc::new(Few::new(words.iter().copied(), FIRST))).unwrap();
        let tree = open(&pool);
        let gate = Arc::new(AtomicU64::new(0));
        let dropping = spawn({
            let gate = Arc::clone(&gate);
            move || {
                gate.fetch_add(1, Ordering::AcqRel);
                drop(tree);
            }
        });
        let right = Arc::new(std::sync::Mutex::new(false));
        let acting = spawn({
            let (pool, right) = (pool.clone(), Arc::clone(&right));
            move || {
                gate.load(Ordering::Acquire);
                *right.lock().unwrap() = act(&pool);
            }
        });
        dropping.join().unwrap();
        acting.join().unwrap();
        assert!(*right.lock().unwrap(), "found wrong");
        let left = open(&pool);
        let report = left.check();
        assert!(report.is_clean(), "{:?}", report.violations);
    });
}

fn opens(pool: &Pool<Arc<Few>>) -> bool {
    let tree = open(pool);
    tree.get(10) == Some(11) && tree.insert(20, 21).unwrap().is_none() && tree.fault().is_none()
}

#[test]
fn loom_tree_open_against_last_drop() {
    against_last_drop(opens);
}

#[test]
#[should_panic]
fn loom_tree_open_while_it_is_closed_is_found_wrong() {
    leave_out(Some(Validation::Settled));
    against_last_drop(opens);
}

#[test]
fn loom_tree_drop_tree_against_last_drop() {
    against_last_drop(|pool| match pool.drop_tree("t") {
        Ok(()) => open(pool).is_empty(),
        Err(Error { kind: ErrorKind::StillOpen { .. }, .. }) => true,
        Err(_) => false,
    });
}

#[test]
fn loom_tree_open_against_drop_tree() {
    let words = image::<Tree<Linear<2>>>(IndexKind::Volatile, |tree| put(tree, &[10]), true);
    set_sequential(true);
    check(2, move || {
        let pool = options().open_on(Arc::new(Few::new(words.iter().copied(), FIRST))).unwrap();
        let dropping = spawn({
            let pool = pool.clone();
            move || match pool.drop_tree("t") {
                Ok(()) | Err(Error { kind: ErrorKind::StillOpen { .. }, .. }) => {}
                Err(error) => panic!("{error}"),
            }
        });
        let tree = open(&pool);
        assert!(tree.get(10).is_none_or(|value| value == 11));
        dropping.join().unwrap();
        assert!(tree.check().is_clean() && tree.len() <= 1);
    });
}

/// Renames the tree while another thread looks for it under its old name. Whatever it finds, it is the tree, and knows
/// its new name at the end.
fn renamed_against_opening() {
    let words = image::<Of>(IndexKind::Volatile, |tree| put(tree, &[10]), true);
    set_sequential(true);
    check(2, move || {
        let pool = options().open_on(Arc::new(Few::new(words.iter().copied(), FIRST))).unwrap();
        let found = Arc::new(std::sync::Mutex::new(None));
        let opening = spawn({
            let (pool, found) = (pool.clone(), Arc::clone(&found));
            move || *found.lock().unwrap() = existing(&pool, "t")
        });
        pool.transaction(|tx| tx.rename_tree("t", "u")).unwrap();
        opening.join().unwrap();
        let tree = existing(&pool, "u").expect("it was renamed");
        assert_eq!((tree.name(), tree.get(10)), ("u".to_owned(), Some(11)));
        assert!(existing(&pool, "t").is_none());
    });
}

/// The tree of this name, if there is one.
fn existing(pool: &Pool<Arc<Few>>, name: &str) -> Option<Arc<TreeState<Linear<2>, Arc<Few>>>> {
    let kinds = (crate::entry::kind::U64, crate::entry::kind::U64);
    match pool.state.named(TreeState::open_existing(&pool.state, name, IndexKind::Volatile, kinds)) {
        Ok(tree) => Some(tree),
        Err(Error { kind: ErrorKind::NoSuchTree { .. }, .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn loom_tree_renamed_against_opening() {
    renamed_against_opening();
}

#[test]
#[should_panic]
fn loom_tree_renamed_while_it_is_opened_is_found_wrong() {
    leave_out(Some(Validation::Settled));
    renamed_against_opening();
}

#[test]
fn loom_tree_renamed_against_last_drop() {
    against_last_drop(|pool| {
        pool.transaction(|tx| tx.rename_tree("t", "u").and_then(|()| tx.rename_tree("u", "t"))).unwrap();
        pool.transaction(|tx| tx.rename_tree("t", "u")).unwrap();
        existing(pool, "t").is_none() && {
            pool.transaction(|tx| tx.rename_tree("u", "t")).unwrap();
            opens(pool)
        }
    });
}
