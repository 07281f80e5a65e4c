//! What can be seen of a pool that is only read, and that its files stay as they are.

use super::{Scratch, Trees, error, filled, options, reading, still, text};
use bristlecone::medium::{Mapped, Mapping};
use bristlecone::{ErrorKind, IndexKind, Journal, Map, OneLine};
use std::fs;

const CHANGES: u64 = 6000;

#[test]
fn a_closed_pool_is_read_and_stays_as_it_is() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let content = filled(&path, CHANGES);
    let before = still(&path);
    for _ in 0..2 {
        let pool = reading().open(&path).unwrap();
        for _ in 0..2 {
            // Each tree is closed, and opened again.
            let trees = Trees::open(&pool).unwrap();
            assert_eq!(trees.content(), content);
        }
        assert!(pool.check().unwrap().is_clean());
        assert!(pool.trees().unwrap().iter().all(|tree| tree.closed));
        pool.sync().unwrap();
        pool.close().unwrap();
        assert_eq!(still(&path), before);
    }
    // The control: a writer leaves its traces, and what it wrote is seen.
    let pool = options().open(&path).unwrap();
    Trees::open(&pool).unwrap().change(CHANGES).unwrap();
    pool.close().unwrap();
    assert_ne!(still(&path), before);
    assert_ne!(Trees::open(&reading().open(&path).unwrap()).unwrap().content(), content);
}

#[test]
fn a_pool_that_a_crash_left_is_recovered_in_memory() {
    let scratch = Scratch::new();
    let (path, left) = (scratch.path("open"), scratch.path("left"));
    let pool = options().open(&path).unwrap();
    let trees = Trees::open(&pool).unwrap();
    (0..CHANGES).for_each(|number| trees.change(number).unwrap());
    let content = trees.content();
    // What a killed process leaves.
    fs::copy(&path, &left).unwrap();
    drop((trees, pool));
    let before = still(&left);
    let pool = reading().open(&left).unwrap();
    assert!(!pool.stat().was_clean);
    for _ in 0..2 {
        let trees = Trees::open(&pool).unwrap();
        assert_eq!(trees.content(), content);
    }
    // Together with other readers.
    let again = reading().open(&left).unwrap();
    let (one, two) = (Trees::open(&pool).unwrap(), Trees::open(&again).unwrap());
    assert_eq!((one.content(), two.content()), (content.clone(), content.clone()));
    drop((one, two, pool, again));
    assert_eq!(still(&left), before);
    // It is still one that a crash left, and as good as before.
    let pool = options().open(&left).unwrap();
    assert!(!pool.stat().was_clean);
    assert_eq!(Trees::open(&pool).unwrap().content(), content);
}

#[test]
fn many_read_at_once_and_a_writer_waits_for_them() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let content = filled(&path, 500);
    let before = still(&path);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let pool = reading().open(&path).unwrap();
                let refused = error(options().open(&path));
                assert!(matches!(refused.kind, ErrorKind::InUse), "{refused}");
                assert_eq!(Trees::open(&pool).unwrap().content(), content);
            });
        }
    });
    assert_eq!(still(&path), before);
    let writer = options().open(&path).unwrap();
    let refused = error(reading().open(&path));
    assert!(matches!(refused.kind, ErrorKind::InUse));
    // It says why, and what to do.
    let told = refused.to_string();
    assert!(told.contains("a.pool") && told.contains("locks are in its own memory") && told.contains("wait"), "{told}");
    drop(writer);
    drop(reading().open(&path).unwrap());
}

#[test]
fn snapshots_transactions_and_backups_read() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let pool = options().open(&path).unwrap();
    let (words, texts): (_, Map<String, u64>) = (pool.tree("words").unwrap(), pool.map("texts").unwrap());
    for key in 0..3000 {
        words.insert(key, key + 1).unwrap();
        texts.insert(&text(key), key).unwrap();
    }
    let left = scratch.path("left");
    fs::copy(&path, &left).unwrap();
    drop((words, texts));
    pool.close().unwrap();
    for path in [path, left] {
        let before = still(&path);
        let pool = reading().open(&path).unwrap();
        let (words, texts): (_, Map<String, u64>) = (pool.tree("words").unwrap(), pool.map("texts").unwrap());
        let snapshot = pool.snapshot();
        assert_eq!(snapshot.len(&words).unwrap() + snapshot.len(&texts).unwrap(), 6000);
        let mut tx = pool.begin();
        assert_eq!(tx.get(&words, 7).unwrap(), Some(8));
        assert_eq!(tx.get(&texts, text(7).as_str()).unwrap(), Some(7));
        tx.commit().unwrap();
        drop(snapshot);
        let copy = path.with_extension("copy");
        let backup = pool.backup(&copy).unwrap();
        assert_eq!((backup.trees, backup.entries), (2, 6000));
        drop((words, texts, pool));
        fs::remove_file(copy).unwrap();
        assert_eq!(still(&path), before);
    }
}

#[test]
fn a_journal_is_looked_at_too() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let pool = options().sync(true).journal(Journal::OnRequest).open(&path).unwrap();
    let trees = Trees::open(&pool).unwrap();
    (0..500).for_each(|number| trees.change(number).unwrap());
    let content = trees.content();
    drop(trees);
    pool.close().unwrap();
    let before = still(&path);
    assert_eq!(before.len(), 3);
    let pool = reading().open(&path).unwrap();
    assert_eq!(Trees::open(&pool).unwrap().content(), content);
    drop(pool);
    assert_eq!(still(&path), before);
}

#[test]
fn an_index_in_the_pool_is_completed_in_memory_beyond_the_end_of_the_file() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    // Segments as small as they can be: nearly each post of an inner node takes another one.
    let options = || crate::plain().segment_size(1024).sync(false);
    let pool = options().open(&path).unwrap();
    let tree = pool.tree_with::<OneLine>("t", IndexKind::Persistent).unwrap();
    (0..20_000).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    let left = scratch.path("left");
    fs::copy(&path, &left).unwrap();
    drop((tree, pool));
    // Forget the index: the open must post all leaves again.
    let mut bytes = fs::read(&left).unwrap();
    let root = (0..16).map(|slot| 8192 + slot * 256).find(|&at| bytes[at..at + 8] != [0; 8]).unwrap();
    assert_ne!(bytes[root + 32..root + 40], [0; 8]);
    bytes[root + 32..root + 40].fill(0);
    fs::write(&left, &bytes).unwrap();
    let before = still(&left);
    let pool = options().read_only(true).open(&left).unwrap();
    let tree = pool.tree_with::<OneLine>("t", IndexKind::Persistent).unwrap();
    assert!(tree.iter().eq((0..20_000).map(|key| (key, key))));
    assert!((0..20_000).all(|key| tree.get(key) == Some(key)));
    assert!(tree.check().is_clean(), "{:?}", tree.check());
    drop((tree, pool));
    // A mapping that cannot grow: the index lags, which does no harm.
    let short = Mapped::open(&left, Mapping::Read).unwrap();
    let pool = options().open_on(short).unwrap();
    let tree = pool.tree_with::<OneLine>("t", IndexKind::Persistent).unwrap();
    assert!((0..20_000).all(|key| tree.get(key) == Some(key)));
    assert!(matches!(error(tree.insert(1, 1)).kind, ErrorKind::ReadOnly { .. }));
    drop((tree, pool));
    assert_eq!(still(&left), before);
}
