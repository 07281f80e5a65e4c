//! Snapshots, against copies of what trees held.

use crate::ending::Ending;
use crate::medium::{Any, zeroed};
use bristlecone::{ByteLeaf, Error, ErrorKind, IndexKind, Map, OneLine, Options, PTree, Pool, Result, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn options() -> Options {
    crate::plain().segment_size(16 << 10)
}

fn pool() -> Pool<Any> {
    options().create_on(zeroed(16 << 20)).unwrap()
}

type Numbers = PTree<OneLine<7>, Any>;
type Blobs = Map<u64, Vec<u8>, OneLine<7>, Any>;
type Names = Map<String, String, ByteLeaf<4>, Any>;

/// Random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}

/// What three trees hold.
#[derive(Clone, Default, PartialEq, Debug)]
struct Content {
    numbers: BTreeMap<u64, u64>,
    blobs: BTreeMap<u64, Vec<u8>>,
    names: BTreeMap<String, String>,
}

struct Trees {
    pool: Pool<Any>,
    numbers: Numbers,
    blobs: Blobs,
    names: Names,
}

impl Trees {
    fn open(pool: &Pool<Any>) -> Self {
        Self {
            numbers: pool.tree_of("numbers").unwrap(),
            blobs: pool.map_of("blobs").unwrap(),
            names: pool.map_with("names", IndexKind::Volatile).unwrap(),
            pool: pool.clone(),
        }
    }

    fn read(&self, snapshot: &Snapshot<Any>) -> Result<Content> {
        Ok(Content {
            numbers: snapshot.iter(&self.numbers)?.collect::<Result<_>>()?,
            blobs: snapshot.iter(&self.blobs)?.rev().collect::<Result<_>>()?,
            names: snapshot.iter(&self.names)?.collect::<Result<_>>()?,
        })
    }

    /// One random change.
    fn change(&self, random: &mut Random, content: &mut Content) {
        const KEYS: u64 = 200;
        let (key, value) = (random.below(KEYS), random.below(1000));
        let name = format!("{:0width$}", key, width = 1 + key as usize % 5);
        let blob = vec![value as u8; value as usize % 90];
        match random.below(60) {
            0..12 => {
                self.numbers.insert(key, value).unwrap();
                content.numbers.insert(key, value);
            }
            12..22 => {
                self.blobs.insert(key, &blob).unwrap();
                content.blobs.insert(key, blob);
            }
            22..32 => {
                self.names.insert(&name, &value.to_string()).unwrap();
                content.names.insert(name, value.to_string());
            }
            32..40 => {
                self.numbers.remove(key).unwrap();
                content.numbers.remove(&key);
            }
            40..46 => {
                self.blobs.remove(key).unwrap();
                content.blobs.remove(&key);
            }
            46..52 => {
                self.names.remove(&name).unwrap();
                content.names.remove(&name);
            }
            52..55 => {
                let mut batch = self.pool.batch();
                for i in 0..random.below(30) {
                    let key = (key + i * 7) % KEYS;
                    batch.insert(&self.numbers, key, i).unwrap();
                    content.numbers.insert(key, i);
                    batch.insert(&self.blobs, key, &blob).unwrap();
                    content.blobs.insert(key, blob.clone());
                    batch.remove(&self.names, &key.to_string()).unwrap();
                    content.names.remove(&key.to_string());
                }
                batch.commit().unwrap();
            }
            55..58 => {
                let entries: Vec<(u64, u64)> = (0..random.below(40)).map(|i| ((key + i * 3) % KEYS, i)).collect();
                self.numbers.insert_batch(&entries).unwrap();
                content.numbers.extend(entries);
            }
            58 => {
                // Seldom all three.
                if random.below(3) == 0 {
                    self.numbers.clear().unwrap();
                    content.numbers.clear();
                    self.numbers.bulk_load((0..value % 50).map(|i| (i * 2, i))).unwrap();
                    content.numbers.extend((0..value % 50).map(|i| (i * 2, i)));
                }
                self.blobs.clear().unwrap();
                content.blobs.clear();
            }
            _ => {
                self.names.clear().unwrap();
                content.names.clear();
                self.names.bulk_load([("a", "b"), ("c", "d")]).unwrap();
                content.names.extend([("a".into(), "b".into()), ("c".into(), "d".into())]);
            }
        }
    }

    /// Compares a snapshot with what there was.
    fn compare(&self, random: &mut Random, snapshot: &Snapshot<Any>, was: &Content) {
        assert_eq!(self.read(snapshot).unwrap(), *was);
        assert_eq!(snapshot.len(&self.numbers).unwrap(), was.numbers.len() as u64);
        assert_eq!(snapshot.len(&self.names).unwrap(), was.names.len() as u64);
        assert_eq!(snapshot.is_empty(&self.blobs).unwrap(), was.blobs.is_empty());
        for _ in 0..20 {
            let key = random.below(220);
            let name = key.to_string();
            assert_eq!(snapshot.get(&self.numbers, key).unwrap(), was.numbers.get(&key).copied());
            assert_eq!(snapshot.get(&self.blobs, key).unwrap(), was.blobs.get(&key).cloned());
            assert_eq!(snapshot.contains_key(&self.names, &name).unwrap(), was.names.contains_key(&name));
            let (from, to) = (key, key + random.below(60));
            // From both ends in turn.
            let mut range = snapshot.range(&self.numbers, from..to).unwrap();
            let mut wanted = was.numbers.range(from..to).map(|(&key, &value)| (key, value));
            loop {
                let is_left = random.below(2) == 0;
                let found = if is_left { range.next() } else { range.next_back() };
                let next = if is_left { wanted.next() } else { wanted.next_back() };
                assert_eq!(found.map(Result::unwrap), next);
                if next.is_none() {
                    break;
                }
            }
            let (from, to) = (name.clone(), format!("{name}5"));
            let found: Vec<_> =
                snapshot.range(&self.names, &from[..]..&to[..]).unwrap().rev().map(Result::unwrap).collect();
            let wanted = was.names.range::<str, _>((Bound::Included(&from[..]), Bound::Excluded(&to[..]))).rev();
            assert!(found.iter().map(|(key, value)| (key, value)).eq(wanted));
            let found = snapshot.prefix(&self.names, &name[..]).unwrap().map(|entry| entry.unwrap().0);
            assert!(found.eq(was.names.keys().filter(|key| key.starts_with(&name)).cloned()));
        }
    }

    fn check(&self) {
        let violations = self.pool.check().unwrap().violations;
        assert!(violations.is_empty(), "{violations:?}");
        for report in [self.numbers.check(), self.blobs.check(), self.names.check()] {
            assert!(report.is_clean(), "{report:?}");
        }
    }
}

/// Random changes, with snapshots that are opened and closed in any order.
fn history(seed: u64, steps: u64, most: u64) {
    let mut random = Random(seed * 2 + 1);
    let pool = pool();
    let trees = Trees::open(&pool);
    let mut now = Content::default();
    let mut snapshots: Vec<(Snapshot<Any>, Content)> = Vec::new();
    for step in 0..steps {
        match random.below(24) {
            0 if (snapshots.len() as u64) < most => snapshots.push((pool.snapshot(), now.clone())),
            1 if !snapshots.is_empty() => {
                let i = random.below(snapshots.len() as u64) as usize;
                let (snapshot, was) = snapshots.swap_remove(i);
                trees.compare(&mut random, &snapshot, &was);
            }
            2 if step % 4 == 0 => {
                for (snapshot, was) in &snapshots {
                    trees.compare(&mut random, snapshot, was);
                }
                trees.check();
            }
            _ => trees.change(&mut random, &mut now),
        }
    }
    snapshots.iter().for_each(|(snapshot, was)| trees.compare(&mut random, snapshot, was));
    snapshots.clear();
    trees.check();
    let numbers = pool.snapshots();
    assert_eq!((numbers.open, numbers.memory, numbers.expired), (0, 0, 0));
    assert_eq!(trees.read(&pool.snapshot()).unwrap(), now);
    drop(trees);
    let reopened = Trees::open(&pool);
    reopened.check();
    assert_eq!(reopened.read(&pool.snapshot()).unwrap(), now);
}

#[test]
fn random_histories_are_what_copies_of_the_trees_are() {
    let (histories, steps) = if cfg!(miri) { (2, 150) } else { (crate::part_of(60), 1500) };
    (0..histories).for_each(|seed| history(seed, steps, 1 + seed % 9));
}

#[test]
fn a_tree_that_is_created_later_is_empty_and_one_that_is_closed_stays() {
    let pool = pool();
    let first: PTree<OneLine, Any> = pool.tree("first").unwrap();
    first.insert(1, 10).unwrap();
    drop(first);
    let before = pool.snapshot();
    // Opened, changed and closed: the snapshot keeps it open.
    let first: PTree<OneLine, Any> = pool.tree("first").unwrap();
    first.insert(1, 11).unwrap();
    drop(first);
    let second: PTree<OneLine, Any> = pool.tree("second").unwrap();
    second.insert(2, 20).unwrap();
    drop(second);
    assert!(matches!(pool.drop_tree("first"), Err(Error { kind: ErrorKind::StillOpen { .. }, .. })));
    let (first, second): (PTree<OneLine, Any>, PTree<OneLine, Any>) =
        (pool.tree("first").unwrap(), pool.tree("second").unwrap());
    assert_eq!((before.get(&first, 1).unwrap(), before.get(&second, 2).unwrap()), (Some(10), None));
    assert!(before.is_empty(&second).unwrap() && before.len(&second).unwrap() == 0);
    let after = pool.snapshot();
    assert_eq!((after.get(&first, 1).unwrap(), after.get(&second, 2).unwrap()), (Some(11), Some(20)));
    // A new tree of an old name is another tree.
    drop((first, second, before));
    let middle = pool.snapshot();
    drop(after);
    pool.drop_tree("second").unwrap();
    let second: PTree<OneLine, Any> = pool.tree("second").unwrap();
    second.insert(2, 21).unwrap();
    assert_eq!(middle.get(&second, 2).unwrap(), None);
    drop((second, middle));
    pool.drop_tree("second").unwrap();
    pool.close().unwrap();
}

#[test]
fn what_takes_too_much_memory_expires_and_the_oldest_first() {
    let pool = options().snapshot_memory(20_000).create_on(zeroed(16 << 20)).unwrap();
    let tree: PTree<OneLine, Any> = pool.tree("t").unwrap();
    let map: Map<u64, String, OneLine, Any> = pool.map("m").unwrap();
    for key in 0..500 {
        tree.insert(key, key).unwrap();
        map.insert(key, "first").unwrap();
    }
    let old = pool.snapshot();
    for key in 0..100 {
        tree.insert(key, 0).unwrap();
        map.insert(key, "second").unwrap();
    }
    let new = pool.snapshot();
    assert_eq!(
        (old.get(&map, 7).unwrap().as_deref(), new.get(&map, 7).unwrap().as_deref()),
        (Some("first"), Some("second"))
    );
    let mut range = old.iter(&map).unwrap();
    assert_eq!(range.next().unwrap().unwrap(), (0, "first".to_owned()));
    for key in 0..500 {
        tree.insert(key, 1).unwrap();
        map.insert(key, "third").unwrap();
        if pool.snapshots().expired == 1 {
            break;
        }
    }
    let is_too_old = |error: &Error| matches!(error.kind, ErrorKind::SnapshotTooOld { limit: 20_000 });
    assert!(is_too_old(&old.get(&tree, 7).unwrap_err()) && is_too_old(&old.len(&map).unwrap_err()));
    assert!(range.by_ref().any(|entry| entry.is_err_and(|error| is_too_old(&error))) && range.next().is_none());
    assert_eq!((new.get(&tree, 7).unwrap(), new.get(&map, 8).unwrap().as_deref()), (Some(0), Some("second")));
    let numbers = pool.snapshots();
    assert_eq!((numbers.open, numbers.expired), (1, 1));
    assert!(numbers.memory <= 20_000, "{numbers:?}");
    // What a clear would freeze is too much, too.
    map.clear().unwrap();
    assert!(is_too_old(&new.get(&tree, 7).unwrap_err()));
    let last = pool.snapshot();
    assert_eq!((last.len(&map).unwrap(), last.get(&tree, 7).unwrap()), (0, Some(1)));
    drop((old, new));
    assert!(map.check().is_clean() && tree.check().is_clean());
    assert_eq!(pool.snapshots().expired, 2);
}

#[test]
fn trees_of_another_pool_are_refused() {
    let (one, other) = (pool(), pool());
    let tree: PTree<OneLine, Any> = other.tree("t").unwrap();
    let refused = |error: Error| matches!(error.kind, ErrorKind::OtherPool { .. });
    let snapshot = one.snapshot();
    assert!(refused(snapshot.get(&tree, 1).unwrap_err()) && refused(snapshot.range(&tree, ..).unwrap_err()));
}

/// A snapshot, and what it showed first.
type Kept = (Snapshot<Any>, Vec<(u64, u64)>);

/// While threads move amounts between keys of two trees, all snapshots have the same sum.
#[test]
fn every_snapshot_is_of_one_instant() {
    const KEYS: u64 = 60;
    let pool = pool();
    let accounts: PTree<OneLine<7>, Any> = pool.tree_of("accounts").unwrap();
    let names: Map<String, u64, ByteLeaf<4>, Any> = pool.map_with("names", IndexKind::Volatile).unwrap();
    let log: Map<u64, String, OneLine<7>, Any> = pool.map_of("log").unwrap();
    for key in 0..KEYS {
        accounts.insert(key, 100).unwrap();
        names.insert(&key.to_string(), 100).unwrap();
    }
    let (done, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let transfers = if cfg!(miri) { 30 } else { 6000 };
    std::thread::scope(|threads| {
        let _ending = Ending(&done);
        let writers: Vec<_> = (1..3)
            .map(|thread| {
                let (pool, accounts, names, log) = (&pool, &accounts, &names, &log);
                threads.spawn(move || {
                    let mut random = Random(thread);
                    for i in 0..transfers {
                        let (from, to) = (random.below(KEYS), random.below(KEYS).to_string());
                        pool.transaction(|tx| {
                            let (one, other) = (tx.get(accounts, from)?.unwrap_or(0), tx.get(names, &to)?.unwrap_or(0));
                            if one > 0 {
                                // An entry that is empty is removed.
                                if one == 1 {
                                    tx.remove(accounts, from)?
                                } else {
                                    tx.insert(accounts, from, one - 1)?
                                }
                                tx.insert(names, &to, other + 1)?;
                            } else if other > 0 {
                                tx.insert(names, &to, other - 1)?;
                                tx.insert(accounts, from, 1)?;
                            }
                            Ok::<_, Error>(())
                        })
                        .unwrap();
                        // Numbers that this thread writes one after the other.
                        log.insert(thread << 32 | i, "written").unwrap();
                        if i % 3 == 2 {
                            log.remove(thread << 32 | (i - 2)).unwrap();
                        }
                    }
                })
            })
            .collect();
        for reader in 0..2 {
            let (pool, accounts, names, log, done, seen) = (&pool, &accounts, &names, &log, &done, &seen);
            threads.spawn(move || {
                let mut kept: Vec<Kept> = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let snapshot = pool.snapshot();
                    let read = || -> Vec<(u64, u64)> { snapshot.iter(accounts).unwrap().map(Result::unwrap).collect() };
                    let first = read();
                    let sum: u64 = first.iter().map(|&(_, amount)| amount).sum::<u64>()
                        + snapshot.iter(names).unwrap().rev().map(|entry| entry.unwrap().1).sum::<u64>();
                    assert_eq!(sum, 200 * KEYS);
                    assert_eq!(first, read());
                    // Each thread's numbers up to the last one are there, but for the ones that were removed.
                    let numbers: BTreeSet<u64> = snapshot.iter(log).unwrap().map(|entry| entry.unwrap().0).collect();
                    for thread in 1..3 {
                        let of = || numbers.range(thread << 32..(thread + 1) << 32).map(|number| number & 0xffff_ffff);
                        if let Some(last) = of().next_back() {
                            let removed = |i: u64| {
                                i.is_multiple_of(3)
                                    && (i + 2 < last || i + 2 == last && !numbers.contains(&(thread << 32 | i)))
                            };
                            assert!(of().eq((0..=last).filter(|&i| !removed(i))));
                        }
                    }
                    seen.fetch_add(1, Ordering::Relaxed);
                    kept.push((snapshot, first));
                    if kept.len() > 3 {
                        let (old, first) = kept.swap_remove(reader);
                        assert!(old.iter(accounts).unwrap().map(Result::unwrap).eq(first));
                    }
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert!(seen.into_inner() > 0);
    assert_eq!(pool.snapshots().memory, 0);
    assert!(accounts.check().is_clean() && names.check().is_clean() && log.check().is_clean());
}

/// While threads move amounts between two trees and create and drop others, a backup is of one instant.
#[test]
#[cfg_attr(miri, ignore)]
fn a_backup_is_of_one_instant() {
    const KEYS: u64 = 3000;
    let dir = tempfile::tempdir().unwrap();
    let pool = crate::plain().capacity(64 << 20).open(dir.path().join("a.pool")).unwrap();
    let accounts = pool.tree("accounts").unwrap();
    let names: Map<String, String> = pool.map("names").unwrap();
    for key in 0..KEYS {
        accounts.insert(key, 100).unwrap();
        names.insert(&key.to_string(), "100").unwrap();
    }
    let (path, done) = (dir.path().join("b.pool"), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let _ending = Ending(&done);
        for seed in 1..3 {
            let (pool, accounts, names, done) = (&pool, &accounts, &names, &done);
            threads.spawn(move || {
                let mut random = Random(seed);
                while !done.load(Ordering::Relaxed) {
                    let (from, to) = (random.below(KEYS), random.below(KEYS).to_string());
                    pool.transaction(|tx| {
                        let one = tx.get(accounts, from)?.unwrap();
                        let other: u64 = tx.get(names, &to)?.unwrap().parse().unwrap();
                        if one > 0 {
                            tx.insert(accounts, from, one - 1)?;
                            tx.insert(names, &to, &(other + 1).to_string())?;
                        }
                        Ok::<_, Error>(())
                    })
                    .unwrap();
                    if random.below(50) == 0 {
                        let name = format!("other {seed}");
                        pool.tree(&name).unwrap().insert(seed, from).unwrap();
                        // A backup may have it open.
                        match pool.drop_tree(&name) {
                            Ok(()) | Err(Error { kind: ErrorKind::StillOpen { .. }, .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        for round in 0..5 {
            let mut told = 0;
            let backup = pool.backup_with(&path, |progress| told += u64::from(progress.done == progress.of)).unwrap();
            assert!(told >= backup.trees && backup.trees >= 2 && backup.entries >= 2 * KEYS, "{backup:?}");
            let copy = Pool::open(&path).unwrap();
            assert_eq!(copy.stat().segment, pool.stat().segment);
            let copied: Map<String, String> = copy.map("names").unwrap();
            let sum: u64 = copied.iter().map(|entry| entry.unwrap().1.parse::<u64>().unwrap()).sum();
            let accounts = copy.tree("accounts").unwrap();
            assert_eq!(accounts.iter().map(|entry| entry.1).sum::<u64>() + sum, 200 * KEYS);
            // It can be written to.
            copied.insert("new", "1").unwrap();
            drop((copied, accounts));
            assert!(copy.check().unwrap().violations.is_empty());
            copy.close().unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(pool.snapshots().open, 0, "round {round}");
        }
    });
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "files")]
fn a_backup_has_all_trees_of_its_instant_while_others_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let pool = crate::plain().capacity(64 << 20).open(dir.path().join("pool")).unwrap();
    let stays: PTree = pool.tree("stays").unwrap();
    stays.bulk_load((0..1000).map(|key| (key, key))).unwrap();
    let (pool, stop) = (&pool, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _ending = Ending(stop);
        // A tree that is dropped leaves its slot to another one, which may have the same name.
        let come_and_go = |names: &[&str]| {
            for name in names.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                match pool.drop_tree(name) {
                    Ok(()) | Err(Error { kind: ErrorKind::StillOpen { .. }, .. }) => {}
                    Err(Error { kind: ErrorKind::NoSuchTree { .. }, .. }) => {
                        pool.tree(name).unwrap().bulk_load([(1, 1)]).unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        };
        scope.spawn(move || come_and_go(&["a", "b", "c", "d"]));
        scope.spawn(move || come_and_go(&["e"]));
        for i in 0..100 {
            let path = dir.path().join(format!("copy {i}"));
            let told = pool.backup(&path).unwrap();
            let copy = crate::plain().read_only(true).open(&path).unwrap();
            let (trees, report) = (copy.trees().unwrap(), copy.check().unwrap());
            assert_eq!((trees.len() as u64, report.entries), (told.trees, told.entries));
            assert!(trees.iter().any(|tree| tree.name == "stays") && report.entries >= 1000);
            std::fs::remove_file(path).unwrap();
        }
    });
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_pool_that_is_full_can_be_backed_up() {
    let dir = tempfile::tempdir().unwrap();
    let pool = crate::plain().capacity(16 << 20).open(dir.path().join("pool")).unwrap();
    let loaded = |i: u64| {
        let tree: PTree = pool.tree(&i.to_string()).ok()?;
        tree.bulk_load((0..10_000).map(|key| (key, key))).ok().map(|_| tree)
    };
    let trees: Vec<PTree> = (0..).map_while(loaded).collect();
    // The one that was refused is empty, or not there.
    let _ = pool.drop_tree(&trees.len().to_string());
    let told = pool.backup(dir.path().join("copy")).unwrap();
    assert_eq!((told.trees, told.entries), (trees.len() as u64, trees.len() as u64 * 10_000));
}

#[test]
#[cfg_attr(miri, ignore = "files")]
fn a_backup_that_fails_leaves_nothing_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let pool = pool();
    let tree: PTree<OneLine, Any> = pool.tree("t").unwrap();
    tree.insert(1, 10).unwrap();
    let exists = |error: &Error| match &error.kind {
        ErrorKind::Io { source, .. } => source.kind() == std::io::ErrorKind::AlreadyExists,
        _ => false,
    };
    for (there, to) in [("a", "a"), ("b.part", "b")] {
        std::fs::write(path(there), "precious").unwrap();
        let error = pool.backup(path(to)).unwrap_err();
        assert!(exists(&error) && error.to_string().contains(to), "{error}");
        assert_eq!(std::fs::read_to_string(path(there)).unwrap(), "precious");
    }
    assert!(matches!(pool.backup(path("no/such")).unwrap_err().kind, ErrorKind::Io { .. }));
    let other: PTree<OneLine<7>, Any> = pool.tree_of("small").unwrap();
    let error = pool.backup(path("c")).unwrap_err();
    assert!(
        matches!(&error.kind, ErrorKind::NotInSnapshots { tree, layout } if tree == "small" && layout == "one_line/7")
    );
    drop(other);
    pool.drop_tree("small").unwrap();
    assert_eq!(pool.backup(path("c")).unwrap().entries, 1);
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "b.part", "c"]);
    assert_eq!(Pool::open(path("c")).unwrap().tree("t").unwrap().get(1), Some(10));
}
