//! Compacting and shrinking: what a few blocks in use have kept is given back, while others read and write.

use super::{MIB, Random, Scratch, Values, block_for, crash, taken, used, value};
use bristlecone::{Error, ErrorKind, IndexKind, Map, OneLine, PTree, Pool, Report};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Bytes of a leaf of either form.
const LEAF: u64 = 640;
/// What is used may be more than the blocks that are alive by this factor, in hundredths.
const MOST: u64 = 135;

fn text(key: u64) -> String {
    format!("{:016x}", key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Bytes of the blocks that are in use.
fn alive(report: &Report, lens: impl Iterator<Item = u64>) -> u64 {
    report.leaves * LEAF + lens.map(block_for).sum::<u64>()
}

fn clean(report: &Report) {
    assert!(report.is_clean(), "{report:?}");
}

/// Fill, remove three quarters at random, refill with other sizes: what is used is close to what is alive.
#[test]
fn little_more_is_used_than_what_is_alive() {
    let scratch = Scratch::in_memory();
    let pool = crate::plain().open(scratch.path("a.pool")).unwrap();
    let words: PTree = pool.tree("words").unwrap();
    let map: Values = pool.map("records").unwrap();
    let texts: Map<String, Vec<u8>> = pool.map("texts").unwrap();
    let mut random = Random::new(7);
    let (mut in_words, mut of_map, mut of_texts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (count, rounds) = (60_000, [(10, 200), (300, 900), (20, 100), (1000, 4000)]);
    for (round, (least, most)) in rounds.into_iter().enumerate() {
        let fill = if round == 3 { count / 4 } else { count };
        for _ in 0..fill {
            let (key, len) = (random.below(1 << 40), least + random.below(most - least));
            words.insert(key, len).unwrap();
            in_words.insert(key, len);
            map.insert(key, &value(key, len)).unwrap();
            of_map.insert(key, len);
            texts.insert(&text(key), &value(key, len)).unwrap();
            of_texts.insert(key, len);
        }
        for keys in [&mut in_words, &mut of_map, &mut of_texts] {
            keys.retain(|_, _| random.below(4) == 0);
        }
        for key in words.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            if !in_words.contains_key(&key) {
                words.remove(key).unwrap();
            }
        }
        for key in map.keys(..).collect::<Vec<_>>() {
            if !of_map.contains_key(&key) {
                map.remove(key).unwrap();
            }
        }
        let kept: std::collections::BTreeSet<String> = of_texts.keys().map(|&key| text(key)).collect();
        for key in texts.keys(..).collect::<Vec<_>>() {
            if !kept.contains(&key) {
                texts.remove(&key).unwrap();
            }
        }
        let before = (used(&pool), taken(&scratch.path("a.pool")));
        let done = pool.compact().unwrap();
        let after = (used(&pool), taken(&scratch.path("a.pool")));
        let mut in_use = 0;
        // The pool checks a tree as it lies there, the handle also what it knows of free blocks.
        let report = words.check();
        clean(&report);
        in_use += report.leaves * LEAF;
        let report = map.check();
        clean(&report);
        in_use += alive(&report, of_map.values().map(|&len| 8 + len.next_multiple_of(8) - 8));
        let report = texts.check();
        clean(&report);
        // A record of an entry also has the key, and its length.
        in_use += alive(&report, of_texts.values().map(|&len| 17 + len));
        println!("round {round}: {before:?} to {after:?}, {in_use} alive, {done:?}");
        assert!(done.trees == 3 && done.segments > 0 && done.skipped.is_empty(), "{done:?}");
        assert!(after.0 * 100 <= in_use * MOST, "round {round}: {after:?} for {in_use}");
        // Negative control: without it, more is used.
        assert!(before.0 * 100 > in_use * MOST, "round {round}: {before:?} for {in_use}");
        assert!(after.1 < before.1);
        assert!(words.iter().eq(in_words.iter().map(|(&key, &len)| (key, len))));
        assert_eq!((map.len(), texts.len()), (of_map.len() as u64, of_texts.len() as u64));
        for (&key, &len) in of_map.iter().step_by(17) {
            assert_eq!(map.get(key).unwrap().unwrap(), value(key, len));
        }
        for (&key, &len) in of_texts.iter().step_by(17) {
            assert_eq!(texts.get(&text(key)).unwrap().unwrap(), value(key, len));
        }
    }
    // Once more moves nothing worth mentioning.
    let done = pool.compact().unwrap();
    assert!(done.segments <= 1, "{done:?}");
}

/// Keeps one key in `of`.
fn thin(map: &Values, count: u64, of: u64) {
    (0..count).filter(|key| key % of != 0).for_each(|key| assert!(map.remove(key).unwrap()));
}

fn filled(pool: &Pool, name: &str, count: u64, len: u64) -> Values {
    let map: Values = pool.map(name).unwrap();
    (0..count).for_each(|key| assert!(!map.insert(key, &value(key, len)).unwrap()));
    map
}

#[test]
fn closed_trees_are_opened_and_others_are_listed() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("a.pool");
    let pool = crate::plain().open(&path).unwrap();
    let map = filled(&pool, "map", 40_000, 100);
    thin(&map, 40_000, 8);
    let texts: Map<String, u64> = pool.map("texts").unwrap();
    (0..60_000).for_each(|key| assert!(!texts.insert(&text(key), key).unwrap()));
    (0..60_000).filter(|key| key % 8 != 0).for_each(|key| assert!(texts.remove(&text(key)).unwrap()));
    let other: PTree<OneLine<7>> = pool.tree_of("other").unwrap();
    other.insert(1, 2).unwrap();
    drop((map, texts, other));
    let before = used(&pool);
    let done = pool.compact().unwrap();
    assert_eq!((done.trees, &done.skipped[..]), (2, &["other".to_owned()][..]), "{done:?}");
    assert!(done.records > 0 && done.segments > 0 && used(&pool) < before / 2, "{done:?}, {before}, {}", used(&pool));
    // They are closed again, in order.
    assert!(pool.trees().unwrap().iter().all(|tree| tree.closed));
    pool.close().unwrap();
    let pool = Pool::open(&path).unwrap();
    clean(&pool.check().unwrap());
    let map: Values = pool.map("map").unwrap();
    (0..40_000).step_by(8).for_each(|key| assert_eq!(map.get(key).unwrap().unwrap(), value(key, 100)));
    let texts: Map<String, u64> = pool.map("texts").unwrap();
    (0..60_000).step_by(8).for_each(|key| assert_eq!(texts.get(&text(key)).unwrap(), Some(key)));
}

/// Two threads compact, others read, scan, write, read in transactions and in a snapshot.
fn busy(index: IndexKind, texts: bool) {
    let scratch = Scratch::in_memory();
    let path = scratch.path("a.pool");
    let pool = crate::plain().capacity(256 * MIB).open(&path).unwrap();
    let (words, map, other): (PTree, Values, Map<String, Vec<u8>>) =
        (pool.tree_with("words", index).unwrap(), pool.map("map").unwrap(), pool.map("texts").unwrap());
    let count = 20_000;
    let put = |key: u64, len: u64| {
        words.insert(key, len).unwrap();
        if texts {
            other.insert(&text(key), &value(key, len)).unwrap();
        } else {
            map.insert(key, &value(key, len)).unwrap();
        }
    };
    let take = |key: u64| {
        words.remove(key).unwrap();
        if texts { other.remove(&text(key)).unwrap() } else { map.remove(key).unwrap() }
    };
    (0..count).for_each(|key| put(key, 20 + key % 300));
    // Every eighth key stays as it is, for the readers.
    let (stop, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    let go_on = || !stop.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while go_on() {
                    let done = pool.compact().unwrap();
                    moved.fetch_add(done.leaves + done.records, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut random = Random::new(3);
            while go_on() {
                let key = random.below(count / 8) * 8;
                assert_eq!(words.get(key), Some(20 + key % 300));
                let found = if texts { other.get(&text(key)) } else { map.get(key) };
                assert_eq!(found.unwrap().unwrap(), value(key, 20 + key % 300));
            }
        });
        scope.spawn(|| {
            while go_on() {
                let snapshot = pool.snapshot();
                if texts {
                    let read = |key: u64| snapshot.get(&other, text(key).as_str()).unwrap().unwrap();
                    (0..count).step_by(80).for_each(|key| assert_eq!(read(key), value(key, 20 + key % 300)));
                } else {
                    let entries = snapshot.range(&map, ..).unwrap();
                    let kept = entries.map(Result::unwrap).filter(|(key, _)| key % 8 == 0);
                    assert!(kept.eq((0..count).step_by(8).map(|key| (key, value(key, 20 + key % 300)))));
                }
                drop(snapshot);
                let sum = pool
                    .transaction(|transaction| {
                        (0..count)
                            .step_by(400)
                            .try_fold(0, |sum, key| Ok::<u64, Error>(sum + transaction.get(&words, key)?.unwrap_or(0)))
                    })
                    .unwrap();
                assert_eq!(sum, (0..count).step_by(400).map(|key| 20 + key % 300).sum::<u64>());
                assert_eq!(words.iter().filter(|(key, _)| key % 8 == 0).count() as u64, count / 8);
            }
        });
        let mut random = Random::new(4);
        for round in 0..6 {
            for _ in 0..count * 2 {
                let key = random.below(count);
                if key.is_multiple_of(8) {
                    continue;
                }
                if (round % 2 == 0) == (random.below(8) == 0) {
                    put(key, random.below(900))
                } else {
                    take(key);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(moved.into_inner() > 0);
    [words.check(), map.check(), other.check()].iter().for_each(clean);
}

#[test]
fn others_go_on_while_a_pool_is_compacted() {
    busy(IndexKind::Volatile, false);
    busy(IndexKind::Persistent, true);
}

#[test]
fn a_process_that_is_killed_in_it_loses_nothing() {
    if let Some((path, step)) = super::child() {
        let pool = crate::plain().open(&path).unwrap();
        let map: Values = pool.map("map").unwrap();
        let texts: Map<String, u64> = pool.map("texts").unwrap();
        thread::spawn(move || {
            thread::sleep(std::time::Duration::from_micros(step.parse().unwrap()));
            let own = std::process::id() as libc::pid_t;
            // SAFETY: it ends this process.
            unsafe { libc::kill(own, libc::SIGKILL) };
        });
        // What moves once stays: so there is something to move again and again.
        for round in 0.. {
            for key in (0..30_000).filter(|key| key % 8 != 0) {
                if (key / 64 + round) % 3 == 0 {
                    map.insert(key, &value(key, 30 + (key + round) % 90)).unwrap();
                } else {
                    map.remove(key).unwrap();
                }
            }
            pool.compact().unwrap();
            assert_eq!(texts.len(), 3750);
        }
        return;
    }
    let scratch = Scratch::in_memory().for_processes();
    let path = scratch.path("a.pool");
    let (count, test) = (30_000, "compact::a_process_that_is_killed_in_it_loses_nothing");
    {
        let pool = crate::plain().open(&path).unwrap();
        let map = filled(&pool, "map", count, 60);
        thin(&map, count, 8);
        let texts: Map<String, u64> = pool.map("texts").unwrap();
        (0..count).for_each(|key| assert!(!texts.insert(&text(key), key).unwrap()));
        (0..count).filter(|key| key % 8 != 0).for_each(|key| assert!(texts.remove(&text(key)).unwrap()));
        drop((map, texts));
        pool.close().unwrap();
    }
    let mut random = Random::new(9);
    for _ in 0..super::part_of(8) {
        super::run_apart(test, &path, &(3000 + random.below(120_000)).to_string());
        let pool = crate::plain().open(&path).unwrap();
        let map: Values = pool.map("map").unwrap();
        let texts: Map<String, u64> = pool.map("texts").unwrap();
        [map.check(), texts.check()].iter().for_each(clean);
        for key in (0..count).step_by(8) {
            assert_eq!(map.get(key).unwrap().unwrap(), value(key, 60));
            assert_eq!(texts.get(&text(key)).unwrap(), Some(key));
        }
    }
}

/// An open snapshot, and a reader that is put aside, keep what they may read, and lose nothing.
#[test]
fn what_others_may_still_read_stays() {
    let scratch = Scratch::in_memory();
    let pool = crate::plain().open(scratch.path("a.pool")).unwrap();
    let map = filled(&pool, "map", 30_000, 80);
    thin(&map, 30_000, 8);
    let snapshot = pool.snapshot();
    let done = map.compact().unwrap();
    assert_eq!(done.records, 0, "{done:?}");
    let memory = pool.snapshots().memory;
    let seen: Vec<(u64, Vec<u8>)> = snapshot.range(&map, ..).unwrap().map(Result::unwrap).collect();
    assert!(seen.len() == 3750 && memory == 0, "{memory}");
    drop(snapshot);
    let mut reader = map.iter();
    let first = reader.next().unwrap().unwrap();
    assert_eq!(first, (0, value(0, 80)));
    let done = map.compact().unwrap();
    assert!(done.records > 0, "{done:?}");
    let rest: Vec<(u64, Vec<u8>)> = reader.map(Result::unwrap).collect();
    assert_eq!(rest, seen[1..]);
    // What it kept comes back by itself.
    let kept = used(&pool);
    map.compact().unwrap();
    assert!(used(&pool) < kept, "{kept}");
    clean(&map.check());
}

/// Compacting takes no space, and what it withholds is there for a change that needs it.
#[test]
fn a_full_pool_is_compacted() {
    let scratch = Scratch::in_memory();
    let pool = crate::plain().capacity(16 * MIB).open(scratch.path("a.pool")).unwrap();
    let map: Values = pool.map("map").unwrap();
    let count = (0..).find(|&key| map.insert(key, &value(key, 200)).is_err()).unwrap();
    thin(&map, count, 16);
    // Records of another size fit only where segments are given back.
    let big = |key: u64| value(key, 100_000);
    let fits = |from: u64| (from..).find(|&key| map.insert(key, &big(key)).is_err()).unwrap() - from;
    let without = fits(1 << 40);
    let done = map.compact().unwrap();
    assert!(done.segments > 0, "{done:?}");
    let with = fits(1 << 41);
    assert!(with > 60 && with > 2 * without, "{with} after {without}");
    (0..count).step_by(16).for_each(|key| assert_eq!(map.get(key).unwrap().unwrap(), value(key, 200)));
    clean(&map.check());
}

#[test]
fn a_shrunken_pool_has_a_shorter_file_and_grows_again() {
    for journal in [None, Some(bristlecone::Journal::OnRequest)] {
        let scratch = Scratch::on_disk();
        let path = scratch.path("a.pool");
        let mut options = crate::plain().capacity(256 * MIB);
        if let Some(journal) = journal {
            options = options.journal(journal);
        }
        let pool = options.open(&path).unwrap();
        let keep = filled(&pool, "keep", 1000, 100);
        let large = filled(&pool, "large", 30_000, 1000);
        match pool.shrink() {
            Err(Error { kind: ErrorKind::StillOpen { mut trees }, .. }) => {
                trees.sort();
                assert_eq!(trees, ["keep", "large"]);
            }
            other => panic!("{other:?}"),
        }
        drop((keep, large));
        pool.drop_tree("large").unwrap();
        // The close record of the other one lies at the end. This opens it, and closes it again.
        pool.compact().unwrap();
        let before = fs::metadata(&path).unwrap().len();
        let cut = pool.shrink().unwrap();
        let after = fs::metadata(&path).unwrap().len();
        // With a journal, the file becomes longer in longer steps.
        assert!(cut > 20 * MIB && before - after >= cut && after <= 8 * MIB, "{before} {after} {cut}");
        assert_eq!(pool.shrink().unwrap(), 0);
        clean(&pool.check().unwrap());
        let again = filled(&pool, "again", 30_000, 1000);
        clean(&again.check());
        drop(again);
        pool.drop_tree("again").unwrap();
        pool.compact().unwrap();
        assert!(pool.shrink().unwrap() > 20 * MIB);
        // As after a kill.
        if journal.is_none() {
            let copy = scratch.path("copy.pool");
            crash(&path, &copy);
            let pool = options.open(&copy).unwrap();
            let keep: Values = pool.map("keep").unwrap();
            assert_eq!(keep.get(999).unwrap().unwrap(), value(999, 100));
            clean(&filled(&pool, "more", 30_000, 1000).check());
        }
        pool.close().unwrap();
        let pool = options.open(&path).unwrap();
        let keep: Values = pool.map("keep").unwrap();
        assert!(keep.len() == 1000 && keep.get(999).unwrap().unwrap() == value(999, 100));
        clean(&filled(&pool, "more", 30_000, 1000).check());
    }
}

/// A check has no handle of the tree that it walks. So the file must not become shorter meanwhile.
#[test]
fn the_file_is_not_cut_under_a_check() {
    let scratch = Scratch::in_memory();
    let pool = crate::plain().open(scratch.path("a.pool")).unwrap();
    let stop = AtomicBool::new(false);
    let (checks, cuts) = thread::scope(|threads| {
        let checks = threads.spawn(|| {
            let mut checks = 0;
            while !stop.load(Ordering::Relaxed) {
                // What it finds while a tree is dropped says nothing.
                drop(pool.check());
                drop(pool.check_tree("t"));
                checks += 1;
            }
            checks
        });
        let mut cuts = 0;
        for _ in 0..40 {
            let tree: PTree = pool.tree("t").unwrap();
            tree.bulk_load((0..300_000).map(|key| (key, key))).unwrap();
            drop(tree);
            thread::sleep(std::time::Duration::from_millis(3));
            pool.drop_tree("t").unwrap();
            cuts += u64::from(pool.shrink().unwrap() > 0);
        }
        stop.store(true, Ordering::Relaxed);
        (checks.join().expect("a check has come to what was cut off"), cuts)
    });
    assert!(checks > 0 && cuts > 0, "{checks} checks, {cuts} cuts");
}
