//! Other openers, other access rights; sizes and options.

use super::{CAPACITY, FIRST, SPAWNING, Scratch, Small, error, holds_the_fifty, options};
use crate::medium::zeroed;
use bristlecone::papers::Circular;
use bristlecone::{Error, ErrorKind, IndexKind};
use std::fs;
use std::sync::PoisonError;

#[test]
fn a_second_opener_is_refused() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
    for options in [options(), options().create(false), options().read_only(true), options().capacity(1 << 20)] {
        let error = error(options.open(&scratch.path));
        assert!(matches!(error.kind, ErrorKind::InUse), "{error}");
        scratch.named(&error);
    }
    // It is refused under another name, too.
    let link = scratch.path.with_file_name("link.pool");
    fs::hard_link(&scratch.path, &link).unwrap();
    assert!(matches!(error(options().open(&link)).kind, ErrorKind::InUse));
    tree.insert(1000, 1).unwrap();
    tree.remove(1000).unwrap();
    drop(tree);
    pool.close().unwrap();
    scratch.unharmed();
}

#[test]
fn readers_exclude_writers_and_not_each_other() {
    let scratch = Scratch::pool();
    let before = scratch.bytes();
    let one = options().read_only(true).open(&scratch.path).unwrap();
    let two = options().read_only(true).open(&scratch.path).unwrap();
    assert!(matches!(error(options().open(&scratch.path)).kind, ErrorKind::InUse));
    assert_eq!(one.trees().unwrap(), two.trees().unwrap());
    holds_the_fifty(&one);
    let tree: Small = two.tree_with("t", IndexKind::Volatile).unwrap();
    for error in [error(tree.insert(50, 1)), error(tree.remove(1)), error(tree.clear()), error(one.drop_tree("t"))] {
        assert!(matches!(error.kind, ErrorKind::ReadOnly { .. }), "{error}");
        scratch.named(&error);
    }
    drop(tree);
    assert!(one.check().unwrap().is_clean());
    drop((one, two));
    assert!(before == scratch.bytes());
    scratch.unharmed();
}

const CHILD: &str = "BRISTLECONE_TEST_CHILD";

/// Not a test of its own: it runs in the other process of `another_process_is_refused`.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let error = error(options().open(path));
    println!("child: {} {error}", matches!(error.kind, ErrorKind::InUse));
}

#[test]
#[cfg_attr(miri, ignore)]
fn another_process_is_refused() {
    let mut scratch = Scratch::pool();
    scratch._calm = None;
    let alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
    let pool = options().open(&scratch.path).unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output =
        command.args(["--exact", "errors::openers::child", "--nocapture"]).env(CHILD, &scratch.path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("child: true") && said.contains("orders.pool"), "{said}");
    drop(alone);
    pool.close().unwrap();
    scratch.unharmed();
}

#[test]
fn a_read_only_file_is_named_and_can_be_read() {
    let scratch = Scratch::pool();
    let mut permissions = fs::metadata(&scratch.path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&scratch.path, permissions.clone()).unwrap();
    let before = scratch.bytes();
    for options in [options(), options().create(false)] {
        let error = error(options.open(&scratch.path));
        assert!(matches!(error.kind, ErrorKind::ReadOnly { .. }), "{error}");
        scratch.named(&error);
    }
    let pool = options().read_only(true).open(&scratch.path).unwrap();
    assert!(pool.check().unwrap().is_clean());
    holds_the_fifty(&pool);
    drop(pool);
    assert!(before == scratch.bytes());
    #[expect(clippy::permissions_set_readonly_false, reason = "a scratch file of this test")]
    permissions.set_readonly(false);
    fs::set_permissions(&scratch.path, permissions).unwrap();
    scratch.unharmed();
}

#[test]
fn creating_at_the_same_time_loses_nothing() {
    for round in 0..if cfg!(miri) { 2 } else { 300 } {
        let scratch = Scratch::empty();
        let create = |key: u64| {
            let path = &scratch.path;
            move || {
                let pool = match options().open(path) {
                    Ok(pool) => pool,
                    Err(Error { kind: ErrorKind::InUse, .. }) => return false,
                    Err(error) => panic!("{error}"),
                };
                let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
                tree.insert(key, key).unwrap();
                true
            }
        };
        // While a pool is being created, it is in use; before that, there may be an empty file for a moment.
        let look = || {
            for _ in 0..50 {
                match options().create(false).open(&scratch.path) {
                    Ok(_) | Err(Error { kind: ErrorKind::InUse | ErrorKind::NotFound, .. }) => {}
                    Err(Error { kind: ErrorKind::NotAPool { found: "an empty file" }, .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let acknowledged: Vec<bool> = std::thread::scope(|scope| {
            scope.spawn(look);
            let threads: Vec<_> = (0..4).map(|key| scope.spawn(create(key))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let pool = options().open(&scratch.path).unwrap();
        let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
        for (key, acknowledged) in acknowledged.into_iter().enumerate() {
            assert_eq!(tree.contains_key(key as u64), acknowledged, "round {round}, key {key}");
        }
    }
}

// Sizes and options.

#[test]
fn a_capacity_out_of_range_names_the_range() {
    let scratch = Scratch::empty();
    let (low, high) = (FIRST as u64 + 3 * 4096, 1 << 47);
    for asked in [0, 1, 4096, low - 1] {
        let error = error(options().capacity(asked).open(&scratch.path));
        match &error.kind {
            ErrorKind::Capacity { asked: a, least, greatest } => {
                assert_eq!((*a, *least, *greatest), (asked, low, high))
            }
            other => panic!("{other}"),
        }
        scratch.named(&error);
        assert!(error.to_string().contains(&low.to_string()), "{error}");
        assert!(!scratch.path.exists(), "a file for {asked} bytes");
    }
    let error = error(crate::plain().capacity(u64::MAX).open(&scratch.path));
    assert!(matches!(error.kind, ErrorKind::Capacity { asked: u64::MAX, .. }), "{error}");
    assert!(!scratch.path.exists());
    options().capacity(low).open(&scratch.path).unwrap();
}

#[test]
fn impossible_options_are_named() {
    let scratch = Scratch::empty();
    for (options, given) in [
        (options().segment_size(0), 0),
        (options().segment_size(512), 512),
        (options().segment_size(3000), 3000),
        (options().segment_size(2 << 30), 2 << 30),
        (options().segment_size(u64::MAX), u64::MAX),
    ] {
        let error = error(options.open(&scratch.path));
        assert!(matches!(error.kind, ErrorKind::InvalidOption { given: g, .. } if g == given), "{error}");
        assert!(error.to_string().contains(&given.to_string()), "{error}");
        assert!(!scratch.path.exists());
    }
    // A node that does not fit into a segment.
    let pool = options().segment_size(1024).create_on(zeroed(1 << 20)).unwrap();
    let error = error(pool.tree_with::<Circular<64>>("wide", IndexKind::Volatile));
    assert!(matches!(error.kind, ErrorKind::InvalidOption { given: 1024, .. }), "{error}");
    assert!(pool.trees().unwrap().is_empty());
}

#[test]
fn a_pool_grows_by_reopening() {
    let scratch = Scratch::pool();
    let pool = options().capacity(256 << 10).open(&scratch.path).unwrap();
    assert_eq!(pool.stat().capacity, 256 << 10);
    holds_the_fifty(&pool);
    let tree: Small = pool.tree_with("more", IndexKind::Volatile).unwrap();
    let mut inserted = 0;
    while tree.insert(inserted, 1).is_ok() {
        inserted += 1;
    }
    assert!(inserted * 16 > CAPACITY, "{inserted} entries in the grown pool");
    drop(tree);
    pool.close().unwrap();
    // A smaller capacity changes nothing.
    let pool = options().capacity(CAPACITY).open(&scratch.path).unwrap();
    assert_eq!(pool.stat().capacity, 256 << 10);
    assert_eq!(pool.tree_with::<Circular<4>>("more", IndexKind::Volatile).unwrap().len(), inserted);
    holds_the_fifty(&pool);
    drop(pool);
    let before = scratch.bytes();
    let error = error(options().capacity(1 << 50).open(&scratch.path));
    assert!(matches!(error.kind, ErrorKind::Capacity { asked, .. } if asked == 1 << 50), "{error}");
    scratch.named(&error);
    assert!(before == scratch.bytes());
    scratch.unharmed();
}
