//! Full disks and full pools: nothing is lost, and operations that need no space still work.

use super::{CAPACITY, SPAWNING, Scratch, Small, error, options};
use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Facts, Layer, Medium};
use bristlecone::papers::{Circular, Linear};
use bristlecone::{Error, ErrorKind, IndexKind, Map, Options, PTree, Pool, Result, WordNode};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

/// A medium on a disk that fills up: only a limited number of reservations succeed.
struct Filling {
    on: Any,
    left: AtomicU64,
}

impl Filling {
    fn new(on: Any, left: u64) -> Arc<Self> {
        Arc::new(Self { on, left: left.into() })
    }

    /// This medium, as the type that trees use.
    fn any(self: &Arc<Self>) -> Any {
        Arc::<Self>::clone(self)
    }

    fn allow(&self, reservations: u64) {
        self.left.store(reservations, Ordering::Relaxed);
    }
}

impl Layer for Filling {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.on
    }

    fn facts(&self) -> Facts<'_> {
        Facts { name: "filling disk", ..self.below().facts() }
    }

    fn reserve(&self, _at: u64, _len: u64) -> io::Result<()> {
        let less = |left: u64| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.map(|_| ()).map_err(|_| io::ErrorKind::StorageFull.into())
    }
}

/// Asserts that the error says that the disk is full.
fn full(error: &Error) {
    let ErrorKind::OutOfSpace { wanted, capacity, source: Some(source) } = &error.kind else { panic!("{error}") };
    assert_eq!((error.pool.as_str(), source.kind()), ("filling disk", io::ErrorKind::StorageFull));
    assert!(*wanted > 0 && *capacity > 0 && error.to_string().contains("filling disk"));
}

/// Keys in an order that splits leaves everywhere.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Inserts until there is no room; returns the content of the tree, and the error.
fn fill_up<N: WordNode, M: Medium>(tree: &PTree<N, M>) -> (BTreeMap<u64, u64>, Error) {
    let mut model = BTreeMap::new();
    loop {
        let key = scattered(model.len() as u64);
        match tree.insert(key, 1) {
            Ok(_) => model.insert(key, 1),
            Err(error) => return (model, error),
        };
    }
}

pub(super) fn tiny() -> Options {
    crate::plain().segment_size(1024)
}

fn same<N: WordNode, M: Medium>(tree: &PTree<N, M>, model: &BTreeMap<u64, u64>, when: &str) {
    assert!(tree.fault().is_none(), "{when}: {}", tree.fault().unwrap());
    assert_eq!(tree.len(), model.len() as u64, "{when}");
    assert!(tree.iter().eq(model.iter().map(|(&k, &v)| (k, v))), "{when}");
    assert!(model.iter().all(|(&k, &v)| tree.get(k) == Some(v)), "{when}");
    let report = tree.check();
    assert!(report.is_clean(), "{when}: {:?}", report.violations);
}

fn a_disk_fills_up<N: WordNode>(index: IndexKind) {
    let mut outcomes = [0; 4];
    for left in 0..60 {
        let when = format!("{left} reservations");
        let mut disk = Filling::new(zeroed(256 << 10), left);
        let pool = match tiny().create_on(disk.any()) {
            Ok(pool) => pool,
            Err(error) => {
                full(&error);
                outcomes[0] += 1;
                continue;
            }
        };
        let mut tree: PTree<N, Any> = match pool.tree_with("t", index) {
            Ok(tree) => tree,
            Err(error) => {
                full(&error);
                assert!(pool.trees().unwrap().is_empty());
                outcomes[1] += 1;
                disk.allow(u64::MAX);
                pool.tree_with("t", index).unwrap()
            }
        };
        let mut model = BTreeMap::new();
        let mut refused = 0;
        for n in 0..400 {
            let key = scattered(n);
            match tree.insert(key, n) {
                Ok(old) => assert_eq!(old, model.insert(key, n)),
                Err(error) => {
                    full(&error);
                    assert_eq!(tree.get(key), None);
                    refused += 1;
                    if refused < 4 {
                        same(&tree, &model, &when);
                    }
                }
            }
        }
        same(&tree, &model, &when);
        outcomes[2] += u64::from(refused > 0);
        outcomes[3] += u64::from(refused == 0);
        if refused > 0 {
            full(&error(tree.bulk_load((0..1000).map(|key| (key, key))).and_then(|_| tree.clear())).or_not_empty());
        }
        same(&tree, &model, &when);
        // Operations that need no space still work: replacing, removing, and inserting where there is room.
        for n in (0..400).step_by(3) {
            let key = scattered(n);
            assert_eq!(
                tree.update(key, 1).unwrap(),
                model.get_mut(&key).map(|old| std::mem::replace(old, 1)),
                "{when}"
            );
        }
        for n in (0..400).filter(|n| n % 4 != 1) {
            let key = scattered(n);
            assert_eq!(tree.remove(key).unwrap(), model.remove(&key), "{when}");
        }
        same(&tree, &model, &when);
        // Reopened while the disk is still full, orderly and not.
        for in_order in [true, false] {
            let crashed = words_of(&disk.on);
            drop(tree);
            let words = if in_order { words_of(&disk.on) } else { crashed };
            // Opening reserves what is reserved already.
            disk = Filling::new(holding(words), u64::MAX);
            let pool = tiny().open_on(disk.any()).unwrap();
            disk.allow(0);
            let reopened: PTree<N, Any> = pool.tree_with("t", index).unwrap();
            same(&reopened, &model, &when);
            tree = self::reopen(&pool, reopened);
        }
        // There is space again.
        disk.allow(u64::MAX);
        for n in 0..400 {
            let key = scattered(n);
            assert_eq!(tree.insert(key, n).unwrap(), model.insert(key, n), "{when}");
        }
        same(&tree, &model, &when);
        drop(tree);
        let pool = tiny().open_on(holding(words_of(&disk.on))).unwrap();
        same(&pool.tree_with::<N>("t", index).unwrap(), &model, &when);
    }
    assert!(outcomes.iter().all(|&n| n > 0), "not every outcome was met: {outcomes:?}");
}

/// Closes a tree and opens it again in the same pool, so that the old pool is no longer needed.
fn reopen<N: WordNode, M: Medium>(pool: &Pool<M>, tree: PTree<N, M>) -> PTree<N, M> {
    let index = tree.index();
    drop(tree);
    pool.tree_with("t", index).unwrap()
}

trait OrNotEmpty {
    fn or_not_empty(self) -> Error;
}

impl OrNotEmpty for Error {
    /// A tree that is not empty cannot be loaded, whether the disk is full or not.
    fn or_not_empty(self) -> Error {
        match self.kind {
            ErrorKind::NotEmpty { .. } => {
                let source = Some(io::ErrorKind::StorageFull.into());
                Error::new(self.pool, ErrorKind::OutOfSpace { wanted: 1, capacity: 1, source })
            }
            _ => self,
        }
    }
}

#[test]
fn a_disk_fills_up_linear_volatile() {
    a_disk_fills_up::<Linear<5>>(IndexKind::Volatile);
}

#[test]
fn a_disk_fills_up_linear_persistent() {
    a_disk_fills_up::<Linear<5>>(IndexKind::Persistent);
}

#[test]
fn a_disk_fills_up_circular_volatile() {
    a_disk_fills_up::<Circular<4>>(IndexKind::Volatile);
}

#[test]
fn a_disk_fills_up_circular_persistent() {
    a_disk_fills_up::<Circular<4>>(IndexKind::Persistent);
}

#[test]
fn a_disk_fills_up_circular_8_persistent() {
    a_disk_fills_up::<Circular<8>>(IndexKind::Persistent);
}

#[test]
fn a_bulk_load_onto_a_full_disk_loads_nothing() {
    fn with(index: IndexKind) {
        for left in 6..60 {
            let disk = Filling::new(zeroed(256 << 10), u64::MAX);
            let pool = tiny().create_on(disk.any()).unwrap();
            let tree: Small<Any> = pool.tree_with("t", index).unwrap();
            disk.allow(left);
            let entries = (0..120).map(|key| (key, !key));
            let before = BTreeMap::new();
            match tree.bulk_load(entries.clone()) {
                Ok(n) => assert_eq!(n, 120),
                Err(error) => {
                    full(&error);
                    same(&tree, &before, "after a failed load");
                    disk.allow(u64::MAX);
                    assert_eq!(tree.bulk_load(entries).unwrap(), 120);
                }
            }
            same(&tree, &(0..120).map(|key| (key, !key)).collect(), "after a load");
        }
    }
    with(IndexKind::Volatile);
    with(IndexKind::Persistent);
}

#[test]
fn a_disk_fills_up_with_records() {
    type Records = Map<u64, Vec<u8>, Circular<4>, Any>;
    let value = |key: u64| vec![key as u8; key as usize * 37 % 700];
    let mut refusals = 0;
    for left in 8..60 {
        let disk = Filling::new(zeroed(256 << 10), u64::MAX);
        let pool = tiny().create_on(disk.any()).unwrap();
        let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
        disk.allow(left);
        let mut model = BTreeMap::new();
        for n in 0..150 {
            let key = n * 7 % 60;
            match map.insert(key, &value(n)) {
                Ok(was_there) => assert_eq!(was_there, model.insert(key, value(n)).is_some()),
                Err(error) => {
                    full(&error);
                    refusals += 1;
                }
            }
            assert_eq!(map.get(key).unwrap(), model.get(&key).cloned());
        }
        let same = |map: &Records, model: &BTreeMap<u64, Vec<u8>>| {
            let all: Result<Vec<_>> = map.iter().collect();
            assert!(all.unwrap().into_iter().eq(model.clone()));
            assert!(map.check().is_clean(), "{:?}", map.check().violations);
        };
        same(&map, &model);
        disk.allow(u64::MAX);
        for key in 0..60 {
            map.insert(key, &value(key)).unwrap();
            model.insert(key, value(key));
        }
        same(&map, &model);
        let pool = tiny().open_on(holding(words_of(&disk.on))).unwrap();
        same(&pool.map_with("m", IndexKind::Volatile).unwrap(), &model);
    }
    assert!(refusals > 100, "{refusals}");
}

#[test]
fn a_full_disk_at_open_changes_nothing() {
    let pool = tiny().create_on(zeroed(256 << 10)).unwrap();
    let tree: Small<Any> = pool.tree_with("t", IndexKind::Persistent).unwrap();
    (0..100).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    let words = words_of(pool.medium());
    for left in [0, 1] {
        let seen = Filling::new(holding(words.clone()), left);
        full(&error(tiny().open_on(seen.any())));
        assert!(words_of(&seen.on) == words, "{left} reservations");
    }
}

#[test]
fn a_full_pool_says_how_large_it_is() {
    let scratch = Scratch::empty();
    let pool = options().open(&scratch.path).unwrap();
    let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
    let (mut model, refused) = fill_up(&tree);
    assert!(
        matches!(refused.kind, ErrorKind::OutOfSpace { wanted: 2048, capacity: CAPACITY, source: None, .. }),
        "{refused}"
    );
    scratch.named(&refused);
    assert!(refused.to_string().contains("65536"), "{refused}");
    same(&tree, &model, "full");
    // There is not even room for the record of an orderly close, so the next open walks.
    drop(tree);
    pool.close().unwrap();
    let pool = options().capacity(128 << 10).open(&scratch.path).unwrap();
    let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
    same(&tree, &model, "reopened");
    for n in 0..2000 {
        let key = scattered(n);
        assert_eq!(tree.insert(key, 2).unwrap(), model.insert(key, 2));
    }
    same(&tree, &model, "grown");
}

// A disk that is really full.

/// A file system of `kib` KiB in memory, if this process may mount one.
struct Tiny(PathBuf);

impl Tiny {
    fn mount(at: &Path, kib: u64) -> Option<Self> {
        let _alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(at);
        let mounted = command.output().is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: this process may not mount a tmpfs");
        }
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore)]
fn a_real_disk_fills_up() {
    let dir = tempfile::tempdir().unwrap();
    let Some(tiny) = Tiny::mount(dir.path(), 1024) else { return };
    let path = tiny.0.join("orders.pool");
    let ballast = tiny.0.join("ballast");
    let fill = |kib: usize| fs::write(&ballast, vec![1; kib << 10]).unwrap();
    let options = || crate::plain().capacity(64 << 20).segment_size(64 << 10);
    let refused = |error: &Error| {
        let ErrorKind::OutOfSpace { source: Some(source), .. } = &error.kind else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("orders.pool"), "{error}");
    };
    // At creation: not even the header fits.
    fill(1024);
    refused(&error(options().open(&path)));
    // At growth, in a split.
    fill(256);
    let pool = options().open(&path).unwrap();
    let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
    let (mut model, error) = fill_up(&tree);
    refused(&error);
    assert!(model.len() > 4000, "{}", model.len());
    same(&tree, &model, "full");
    let map: Result<Map<u64, Vec<u8>>> = pool.map("records");
    refused(&self::error(map));
    drop(tree);
    pool.close().unwrap();
    // The disk is still full.
    let pool = options().open(&path).unwrap();
    let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
    same(&tree, &model, "reopened");
    fs::remove_file(&ballast).unwrap();
    let more = (0..).map(scattered).filter(|key| !model.contains_key(key)).take(1000).collect::<Vec<_>>();
    for key in more {
        tree.insert(key, 2).unwrap();
        model.insert(key, 2);
    }
    same(&tree, &model, "with space again");
}
