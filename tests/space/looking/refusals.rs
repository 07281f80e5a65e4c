//! What would change something is refused, and changes nothing: not even in memory.

use super::{Scratch, Trees, error, filled, options, reading, still};
use bristlecone::medium::{Mapped, Mapping};
use bristlecone::{Error, ErrorKind, IndexKind, Map, OneLine, PTree, Pool, Result};
use std::fs;
use std::path::Path;

fn refused<T>(what: &str, result: Result<T>) {
    match result {
        Err(Error { kind: ErrorKind::ReadOnly { why }, pool, .. }) => {
            assert!(pool.ends_with("a.pool") && why.contains("opened for reading only"), "{what}: {pool}: {why}");
        }
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what} must be refused"),
    }
}

/// Asks for every change that there is. Returns what was not refused, if `may` says that it may be.
fn everything(pool: &Pool, refused: &dyn Fn(&str, Result<()>)) {
    let words: PTree = pool.tree("volatile").unwrap();
    let circ = pool.tree_of::<bristlecone::papers::CircTree>("circ").unwrap();
    let nv = pool.tree_of::<bristlecone::papers::NvTree>("nv").unwrap();
    let texts: Map<String, Vec<u8>> = pool.map("texts").unwrap();
    let values: Map<u64, Vec<u8>> = pool.map("values").unwrap();
    let old = words.iter().next().unwrap();
    refused("insert", words.insert(1 << 40, 1).map(drop));
    refused("insert the same", words.insert(old.0, old.1).map(drop));
    refused("insert", circ.insert(1 << 40, 1).map(drop));
    refused("insert", nv.insert(1 << 40, 1).map(drop));
    refused("insert_batch", words.insert_batch(&[(1, 1), (1 << 40, 2)]).map(drop));
    refused("insert_batch", circ.insert_batch(&[(1, 1)]).map(drop));
    refused("update", words.update(old.0, 7).map(drop));
    refused("update what is not there", words.update(1 << 41, 7).map(drop));
    refused("compare_exchange", words.compare_exchange(1 << 41, None, Some(3)).map(drop));
    refused("remove", words.remove(old.0).map(drop));
    refused("remove what is not there", circ.remove(1 << 41).map(drop));
    refused("clear", words.clear());
    refused("clear", nv.clear());
    refused("bulk_load", circ.bulk_load([(1, 2)]).map(drop));
    refused("insert a text", texts.insert("new", b"new").map(drop));
    refused("remove a text", texts.remove("new").map(drop));
    refused("clear texts", texts.clear());
    refused("insert a value", values.insert(1 << 40, b"new").map(drop));
    refused("remove a value", values.remove(1).map(drop));
    refused(
        "a transaction",
        pool.transaction(|tx| {
            let old = tx.get(&words, 1)?;
            tx.insert(&words, 1, old.unwrap_or(0) + 1)
        }),
    );
    refused(
        "a transaction of two",
        pool.transaction(|tx| {
            tx.insert(&words, 1, 1)?;
            tx.insert(&texts, "new", b"new")
        }),
    );
    refused("a name", pool.transaction(|tx| tx.rename_tree("volatile", "other")));
    refused("two names", pool.transaction(|tx| tx.swap_trees("volatile", "circ")));
    let mut batch = pool.batch();
    let filled = (0..100).try_for_each(|key| batch.insert(&words, key, key));
    refused("a batch", filled.and_then(|()| batch.commit()));
    drop((words, circ, nv, texts, values));
    refused("drop_tree", pool.drop_tree("lcb"));
}

#[test]
fn nothing_is_changed() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let content = filled(&path, 3000);
    let before = still(&path);
    let pool = reading().open(&path).unwrap();
    let trees = Trees::open(&pool).unwrap();
    assert_eq!(trees.content(), content);
    everything(&pool, &|what, result| refused(what, result));
    assert_eq!(trees.content(), content);
    drop(trees);
    // Also where the trees are opened for the first time now, and the pool was left by a crash.
    let again = scratch.path("left/a.pool");
    fs::create_dir(scratch.path("left")).unwrap();
    let writer = {
        drop(pool);
        options().open(&path).unwrap()
    };
    fs::copy(&path, &again).unwrap();
    drop(writer);
    let left = still(&again);
    let pool = reading().open(&again).unwrap();
    everything(&pool, &|what, result| refused(what, result));
    assert_eq!(Trees::open(&pool).unwrap().content(), content);
    drop(pool);
    assert_eq!(still(&again), left);
    assert_ne!(still(&path), before);
    // The control: in a copy in memory, all of this is done.
    let pool = options().open_on(Mapped::open(&path, Mapping::Copy).unwrap()).unwrap();
    let made = std::cell::Cell::new(0);
    everything(&pool, &|what, result| {
        let may_fail = ["bulk_load", "two names"];
        assert!(result.is_ok() || may_fail.contains(&what), "{what}: {result:?}");
        made.set(made.get() + usize::from(result.is_ok()));
    });
    assert!(made.get() > 20, "{}", made.get());
}

#[test]
fn what_is_not_there_or_is_another_is_told() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    filled(&path, 100);
    let pool = reading().open(&path).unwrap();
    assert!(matches!(
        error(pool.tree_of::<bristlecone::papers::CircTree>("nv")).kind,
        ErrorKind::LayoutMismatch { .. }
    ));
    assert!(matches!(error(pool.map::<u32, u64>("volatile")).kind, ErrorKind::KindMismatch { .. }));
    assert!(matches!(error(pool.tree("")).kind, ErrorKind::TreeName { .. }));
    for error in [
        error(pool.tree("new")),
        error(pool.tree_of::<bristlecone::papers::CircTree>("new")),
        error(pool.tree_with::<OneLine>("new", IndexKind::Persistent)),
        error(pool.map::<String, u64>("new")),
    ] {
        assert!(matches!(&error.kind, ErrorKind::NoSuchTree { tree } if tree == "new"), "{error}");
    }
    assert!(matches!(error(reading().open(scratch.path("missing"))).kind, ErrorKind::NotFound));
    assert!(!scratch.path("missing").exists());
}

/// The superblock names another boot, as after a crash of the machine.
fn outlived(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    for twin in [0, 4096] {
        let at = twin + 96;
        bytes[at..at + 8].copy_from_slice(&12345u64.to_le_bytes());
        let crc = u64::from(crc32fast::hash(&bytes[twin..twin + 120]));
        bytes[twin + 120..twin + 128].copy_from_slice(&(crc | !crc << 32).to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn after_a_crash_of_the_machine_a_pool_is_checked_and_not_read() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    filled(&path, 500);
    // The control: a pool of this boot is read.
    drop(Trees::open(&reading().open(&path).unwrap()).unwrap());
    outlived(&path);
    let before = still(&path);
    let pool = reading().open(&path).unwrap();
    assert!(pool.stat().power_loss && pool.check().unwrap().is_clean());
    for error in [
        error(pool.tree("volatile")),
        error(pool.tree("new")),
        error(pool.map::<String, Vec<u8>>("texts")),
        error(pool.backup(scratch.path("copy"))),
    ] {
        assert!(matches!(error.kind, ErrorKind::PowerLoss), "{error}");
    }
    drop(pool);
    assert_eq!(still(&path), before);
}

#[test]
fn unknown_features_that_readers_may_ignore_are_ignored() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let content = filled(&path, 500);
    let mut bytes = fs::read(&path).unwrap();
    for twin in [0, 4096] {
        bytes[twin + 24..twin + 32].copy_from_slice(&(1u64 << 60).to_le_bytes());
        let crc = u64::from(crc32fast::hash(&bytes[twin..twin + 120]));
        bytes[twin + 120..twin + 128].copy_from_slice(&(crc | !crc << 32).to_le_bytes());
    }
    fs::write(&path, bytes).unwrap();
    let before = still(&path);
    assert!(matches!(error(options().open(&path)).kind, ErrorKind::Features { .. }));
    assert_eq!(Trees::open(&reading().open(&path).unwrap()).unwrap().content(), content);
    assert_eq!(still(&path), before);
}

/// Damage is found, and the file stays as it is, whatever is asked for.
#[test]
fn damaged_and_cut_pools_stay_as_they_are() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    filled(&path, 1500);
    let bytes = fs::read(&path).unwrap();
    let (mut refusals, mut opened) = (0, 0);
    for round in 0..60usize {
        let mut wrong = bytes.clone();
        if round % 6 == 0 {
            wrong.truncate(bytes.len() * (round + 6) / 70);
        } else {
            (0..40).for_each(|i| {
                let at = (round * 7919 + i * 104_729) * 61 % wrong.len();
                wrong[at] ^= 1 << (i % 8);
            });
        }
        fs::write(&path, wrong).unwrap();
        let before = still(&path);
        match reading().open(&path) {
            Err(_) => refusals += 1,
            Ok(pool) => {
                opened += 1;
                let _ = pool.check();
                if let Ok(tree) = pool.tree("volatile") {
                    let _ = (tree.iter().count(), tree.len(), tree.fault());
                }
                if let Ok(tree) = pool.tree_with::<OneLine>("persistent", IndexKind::Persistent) {
                    let _ = (tree.iter().rev().count(), (0..1000).filter_map(|key| tree.get(key)).count());
                }
                if let Ok(texts) = pool.map::<String, Vec<u8>>("texts") {
                    let _ = texts.iter().count();
                }
            }
        }
        assert_eq!(still(&path), before);
    }
    assert!(refusals > 5 && opened > 5, "{refusals} {opened}");
}
