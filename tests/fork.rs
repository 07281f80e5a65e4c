//! A child that came by `fork` has its parent's handles, and must leave its parent's pool alone.
//!
//! The process that forks is a separate one, with one thread: the test program runs itself again.
#![cfg(target_os = "linux")]

use bristlecone::{Error, ErrorKind, Map, PTree, Pool, Result};
use std::io::{BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Options without a journal, whatever the file system of the directory for temporary files: what is tested here is the
/// pool's file alone.
fn plain() -> bristlecone::Options {
    bristlecone::Pool::options().journal(bristlecone::Journal::None)
}

const POOL: &str = "BRISTLECONE_TEST_FORK_POOL";
const KEYS: u64 = 500;

/// Runs a part of this program in a separate process, on a pool; returns when the process says that it is ready.
fn run(part: &str, pool: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", part, "--ignored", "--nocapture", "--test-threads=1"]).env(POOL, pool);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"), "{part} failed");
    child
}

/// Called in a part: says that everything went well so far, and waits for the end.
fn ready() {
    println!("\nready");
    let _ = std::io::stdin().read(&mut [0]);
}

fn pool_of_this_part() -> PathBuf {
    std::env::var_os(POOL).expect("run by a test").into()
}

/// Runs `work` in a child; panics if it panics there.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the process has one thread, so the child finds every lock free, including the allocator's.
    match unsafe { libc::fork() } {
        0 => {
            let done = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: it ends the child before the child reaches what the test program does next.
            unsafe { libc::_exit(i32::from(!done)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: it is a child of this process, and `status` has room for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed");
        }
    }
}

#[track_caller]
fn refused<T>(result: Result<T>) {
    let error = result.err().expect("a change of somebody else's pool");
    assert!(matches!(error.kind, ErrorKind::Forked), "{error}");
}

#[test]
fn a_child_neither_unlocks_nor_closes_nor_writes() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().join("a.pool");
    let mut parent = run("forks_with_handles", &path);
    let error = Pool::open(&path).expect_err("the parent has the pool");
    assert!(matches!(error.kind, ErrorKind::InUse), "{error}");
    parent.kill().unwrap();
    parent.wait().unwrap();

    let mut parent = run("forks_before_it_reads", &path);
    parent.kill().unwrap();
    parent.wait().unwrap();

    let before = std::fs::read(&path).unwrap();
    let mut parent = run("forks_while_it_reads", &path);
    let error = Pool::open(&path).expect_err("the parent reads the pool");
    assert!(matches!(error.kind, ErrorKind::InUse), "{error}");
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(std::fs::read(&path).unwrap() == before);

    let pool = Pool::open(&path).unwrap();
    assert!(!pool.stat().was_clean);
    let tree: PTree = pool.tree("tree").unwrap();
    assert!(tree.iter().eq((0..=KEYS).map(|key| (key, key))));
    let map: Map<u64, Vec<u8>> = pool.map("map").unwrap();
    assert_eq!(map.len(), KEYS);
    assert!(map.iter().map(Result::unwrap).eq((0..KEYS).map(|key| (key, key.to_string().into_bytes()))));
    assert!(tree.check().is_clean() && map.check().is_clean());
    assert_eq!(pool.trees().unwrap().len(), 4);
}

/// What a parent only reads is not its child's either.
#[test]
#[ignore = "a part of a test"]
fn forks_while_it_reads() {
    let pool = plain().read_only(true).open(pool_of_this_part()).unwrap();
    let tree: PTree = pool.tree("tree").unwrap();
    let all = || tree.iter().eq((0..=KEYS).map(|key| (key, key)));
    assert!(all());
    let unread: Map<String, u64> = pool.map("texts").unwrap();
    in_child(|| {
        refused(tree.insert(7, 8));
        refused(pool.tree("tree"));
        refused(pool.tree("new"));
        refused(pool.drop_tree("empty"));
        assert!(all() && pool.metrics().trees.is_empty());
        // What cannot be read is not the end.
        let mut entries = unread.iter();
        refused(entries.next().unwrap());
        assert!(entries.next().is_none());
        refused(unread.iter().next_back().unwrap());
        refused(unread.first_key_value());
        assert_eq!(unread.keys(..).count(), 0);
        // Dropping a handle unlocks nothing.
        drop((tree.clone(), pool.clone()));
    });
    let error = tree.insert(7, 8).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::ReadOnly { .. }), "{error}");
    assert!(all() && pool.metrics().trees.len() == 2);
    assert_eq!(unread.iter().map(Result::unwrap).count() as u64, KEYS);
    ready();
}

#[test]
#[ignore = "a part of a test"]
fn forks_with_handles() {
    let path = pool_of_this_part();
    let pool = plain().capacity(64 << 20).open(&path).unwrap();
    let tree: PTree = pool.tree("tree").unwrap();
    let map: Map<u64, Vec<u8>> = pool.map("map").unwrap();
    let empty: Map<u64, Vec<u8>> = pool.map("empty").unwrap();
    let texts: Map<String, u64> = pool.map("texts").unwrap();
    for key in 0..KEYS {
        tree.insert(key, key).unwrap();
        texts.insert(&key.to_string(), key).unwrap();
        map.insert(key, key.to_string().as_bytes()).unwrap();
    }
    let snapshot = pool.snapshot();
    tree.update(9, 90).unwrap();
    let handles = (tree, map, empty, pool, snapshot);
    let (tree, map, empty, pool, snapshot) = &handles;
    let before = std::fs::read(&path).unwrap();
    in_child(|| {
        refused(tree.insert(7, 8));
        refused(tree.insert(u64::MAX, 8));
        refused(tree.update(7, 8));
        refused(tree.remove(7));
        refused(tree.compare_exchange(7, Some(7), None));
        refused(tree.insert_batch(&[(7, 8), (1000, 1)]));
        refused(tree.clear());
        refused(map.insert(7, b"eight"));
        refused(map.update(7, b"eight"));
        refused(map.insert_new(1000, b"eight"));
        refused(map.remove(7));
        refused(map.clear());
        refused(tree.update_with(7, |_| Some(8)));
        refused(tree.remove_range(..));
        refused(tree.retain(|_, _| false));
        refused(tree.pop_first());
        refused(tree.pop_last());
        refused(tree.extend([(7, 8)]));
        refused(map.compare_exchange(7, Some(b"7"), None));
        refused(map.compare_exchange(7, Some(b"7"), Some(b"8")));
        refused(map.update_with(7, |_| None));
        refused(map.update_with(7, |_| Some(vec![8])));
        refused(map.replace(7, b"eight"));
        refused(map.take(7));
        refused(map.pop_first());
        refused(map.retain(|_, _| false));
        refused(map.remove_range(..));
        refused(map.insert_batch(&[(7, b"eight")]));
        refused(texts.remove_range("1".."2"));
        refused(texts.retain(|_, _| false));
        refused(texts.pop_last());
        refused(texts.update_with("7", |_| Some(8)));
        refused(texts.extend([("7", 8)]));
        refused(empty.bulk_load([(1, &b"one"[..])]));
        refused(pool.tree("new"));
        refused(pool.drop_tree("empty"));
        assert_eq!((tree.get(7), tree.len()), (Some(7), KEYS));
        assert_eq!(map.get(8).unwrap().as_deref(), Some(&b"8"[..]));
        // What the parent changes is not frozen for the child.
        refused(snapshot.get(tree, 9));
        refused(snapshot.len(map));
        refused(snapshot.range(map, ..).map(|_| ()));
        refused(pool.snapshot().get(tree, 9));
        refused(pool.backup(path.with_extension("backup")));
        assert_eq!(pool.snapshots().open, 0);
        // A pool that the child opens is its own.
        let own = plain().capacity(64 << 20).open(path.with_extension("own")).unwrap();
        own.tree("t").unwrap().insert(1, 2).unwrap();
        own.close().unwrap();
        assert!(matches!(Pool::open(&path), Err(Error { kind: ErrorKind::InUse, .. })));
        refused(pool.clone().close());
        // All handles. (The parent's handles are separate.)
        // SAFETY: the child ends without using the originals again.
        drop(unsafe { std::ptr::read(&raw const handles) });
    });
    assert!(before == std::fs::read(&path).unwrap(), "a child changed the pool");
    assert_eq!((snapshot.get(tree, 9).unwrap(), pool.snapshots().open), (Some(9), 1));
    tree.update(9, 9).unwrap();
    assert_eq!(tree.insert(KEYS, KEYS).unwrap(), None);
    ready();
}

#[test]
#[ignore = "a part of a test"]
fn forks_before_it_reads() {
    let told = Arc::new(AtomicUsize::new(0));
    let in_function = Arc::clone(&told);
    let patience = std::time::Duration::from_secs(60);
    let options = plain().slow(patience, patience).on_event(move |_| _ = in_function.fetch_add(1, Ordering::SeqCst));
    let pool = options.create(false).open(pool_of_this_part()).unwrap();
    assert!(!pool.stat().was_clean);
    let tree: PTree = pool.tree("tree").unwrap();
    // That pool and tree were recovered was told, and the thread that did so is gone. One waits for this one.
    while told.load(Ordering::SeqCst) < 2 || std::fs::read_dir("/proc/self/task").unwrap().count() > 2 {}
    let handles = (tree, pool);
    let (tree, _) = &handles;
    in_child(|| {
        // The first read of a leaf finishes what a crash interrupted in it.
        assert_eq!(tree.get(7), None);
        refused(tree.fault().map_or(Ok(()), Err));
        // All handles. That the parent's pool is closed is not told, by no thread.
        // SAFETY: the child ends without using the originals again.
        drop(unsafe { std::ptr::read(&raw const handles) });
        assert_eq!(told.load(Ordering::SeqCst), 2);
        assert_eq!(std::fs::read_dir("/proc/self/task").unwrap().count(), 1);
    });
    assert_eq!(tree.get(7), Some(7));
    assert!(tree.fault().is_none());
    ready();
}
