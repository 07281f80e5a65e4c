//! Segments that change their owners all the time, under readers that may know what was there before.

use super::Random;
use bristlecone::medium::Dram;
use bristlecone::{ByteLeaf, Error, ErrorKind, Map, OneLine, Options, PTree, Pool};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_millis(1200);

/// A value that says which tree and which key it belongs to, and shows whether it is whole.
fn record(tag: u64, key: u64, version: u64) -> Vec<u8> {
    let len = match version % 16 {
        0 => 3000 + version % 2000,
        1..=4 => version % 700,
        _ => version % 60,
    };
    let mut bytes = [tag << 32 | key, version].map(u64::to_le_bytes).concat();
    bytes.extend((0..len).map(|i| (key + version + i) as u8));
    bytes
}

fn verify(tag: u64, key: u64, bytes: &[u8]) {
    let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    assert!(bytes == record(tag, key, version), "a torn or foreign record under {key} of {tag}: {:?}", &bytes[..16]);
}

fn may_be_full<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(matches!(error.kind, ErrorKind::OutOfSpace { .. } | ErrorKind::SnapshotTooOld { .. }), "{error}");
            None
        }
    }
}

/// What the threads need of a map, whatever its keys are.
trait Tree: Sync {
    fn insert(&self, key: u64, version: u64) -> bool;
    fn remove(&self, key: u64) -> bool;
    fn get(&self, key: u64) -> bool;
    fn scan(&self, from: u64, most: usize, reverse: bool) -> usize;
    fn past(&self, pool: &Pool<Dram>, from: u64) -> usize;
    fn clear(&self);
    fn check(&self);
}

struct Numbers(u64, Map<u64, Vec<u8>, OneLine, Dram>);
struct Texts(u64, Map<String, Vec<u8>, ByteLeaf, Dram>);

fn text(key: u64) -> String {
    format!("{:03}-a key that is longer than a word-{key}", key * 7919 % 1000)
}

fn number(key: &str) -> u64 {
    key.rsplit('-').next().unwrap().parse().unwrap()
}

macro_rules! tree {
    ($type:ty, $own:expr, $lend:expr, $from:expr) => {
        impl Tree for $type {
            fn insert(&self, key: u64, version: u64) -> bool {
                may_be_full(self.1.insert($lend(&$own(key)), &record(self.0, key, version))).is_some()
            }

            fn remove(&self, key: u64) -> bool {
                may_be_full(self.1.remove($lend(&$own(key)))).unwrap_or(false)
            }

            fn get(&self, key: u64) -> bool {
                self.1.get($lend(&$own(key))).unwrap().is_some_and(|bytes| {
                    verify(self.0, key, &bytes);
                    true
                })
            }

            fn scan(&self, from: u64, most: usize, reverse: bool) -> usize {
                let verified = |entry: Result<(_, Vec<u8>), Error>| {
                    let (key, bytes) = entry.unwrap();
                    verify(self.0, $from(&key), &bytes);
                };
                let from = $own(from);
                let range = self.1.range($lend(&from)..);
                if reverse {
                    range.rev().take(most).map(verified).count()
                } else {
                    range.take(most).map(verified).count()
                }
            }

            fn past(&self, pool: &Pool<Dram>, from: u64) -> usize {
                let (snapshot, from) = (pool.snapshot(), $own(from));
                let mut all = Vec::new();
                for _ in 0..2 {
                    let Some(range) = may_be_full(snapshot.range(&self.1, $lend(&from)..)) else { return 0 };
                    let mut found = Vec::new();
                    for entry in range {
                        let Some((key, bytes)) = may_be_full(entry) else { return 0 };
                        verify(self.0, $from(&key), &bytes);
                        found.push((key, bytes));
                    }
                    all.push(found);
                    thread::yield_now();
                }
                assert!(all[0] == all[1], "a snapshot changes");
                all[0].len()
            }

            fn clear(&self) {
                may_be_full(self.1.clear());
            }

            fn check(&self) {
                let report = self.1.check();
                assert!(report.is_clean(), "{:?}", report.violations);
                assert_eq!(report.entries, self.1.iter().count() as u64);
                assert!(self.1.fault().is_none());
            }
        }
    };
}

tree!(Numbers, |key: u64| key, |key: &u64| *key, |key: &u64| *key);
tree!(Texts, text, String::as_str, |key: &String| number(key));

const KEYS: u64 = 300;

fn options() -> Options {
    crate::plain().segment_size(4096).snapshot_memory(4 << 20)
}

fn trees(pool: &Pool<Dram>) -> Vec<Box<dyn Tree>> {
    let number = |tag: u64| Box::new(Numbers(tag, pool.map(&format!("numbers {tag}")).unwrap())) as Box<dyn Tree>;
    let text = |tag: u64| Box::new(Texts(tag, pool.map(&format!("texts {tag}")).unwrap())) as Box<dyn Tree>;
    vec![number(0), text(1), number(2), text(3)]
}

/// Threads fill and empty trees by turns in a pool that has no room for all of them.
fn storm(capacity: u64) {
    let pool = options().capacity(capacity).create_on(Dram::zeroed(4 * capacity)).unwrap();
    let all = trees(&pool);
    let words: PTree<OneLine, Dram> = pool.tree("words").unwrap();
    let stop = Instant::now() + TIME;
    let [written, removed, read, seen] = [const { AtomicU64::new(0) }; 4];
    let count = |counter: &AtomicU64, n: u64| {
        counter.fetch_add(n, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        for thread in 0..3 {
            let (all, words, pool, written, removed) = (&all, &words, &pool, &written, &removed);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                let mut version = thread << 40;
                while Instant::now() < stop {
                    let tree = &all[random.below(4) as usize];
                    let from = random.below(KEYS);
                    for key in from..(from + 100).min(KEYS) {
                        version += 1 + random.below(7);
                        count(written, u64::from(tree.insert(key, version)));
                        if key % 3 == 0 {
                            may_be_full(words.insert(random.below(5000), version));
                        }
                    }
                    match random.below(12) {
                        0 => tree.clear(),
                        1 => drop(may_be_full(words.clear())),
                        2 => {
                            let name = format!("short {thread}");
                            let made = may_be_full(pool.map::<u64, Vec<u8>>(&name));
                            if let Some(short) = made {
                                (0..50).for_each(|key| {
                                    may_be_full(short.insert(key, &record(9, key, version)));
                                });
                                short
                                    .iter()
                                    .for_each(|entry| entry.map(|(key, bytes)| verify(9, key, &bytes)).unwrap());
                                drop(short);
                                // A snapshot may keep it open for a while.
                                while let Err(error) = pool.drop_tree(&name) {
                                    assert!(matches!(error.kind, ErrorKind::StillOpen { .. }), "{error}");
                                    thread::yield_now();
                                }
                            }
                        }
                        _ => {
                            let tree = &all[random.below(4) as usize];
                            (0..KEYS).filter(|_| random.below(8) > 0).for_each(|key| {
                                count(removed, u64::from(tree.remove(key)));
                            });
                            (0..5000).filter(|_| random.below(8) == 0).for_each(|key| {
                                may_be_full(words.remove(key));
                            });
                        }
                    }
                }
            });
        }
        for thread in 3..6 {
            let (all, words, pool, read, seen) = (&all, &words, &pool, &read, &seen);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                while Instant::now() < stop {
                    let tree = &all[random.below(4) as usize];
                    match random.below(5) {
                        0 => count(seen, tree.past(pool, random.below(KEYS)) as u64),
                        1 => count(read, tree.scan(random.below(KEYS), 50, random.below(2) == 0) as u64),
                        2 => drop(words.range(random.below(5000)..).take(100).count()),
                        _ => (0..20).for_each(|_| count(read, u64::from(tree.get(random.below(KEYS))))),
                    }
                }
            });
        }
    });
    println!("{capacity}: {written:?} written, {removed:?} removed, {read:?} read, {seen:?} in snapshots");
    assert!(written.into_inner() > 500 && removed.into_inner() > 200 && read.into_inner() > 500);
    all.iter().for_each(|tree| tree.check());
    assert!(words.check().is_clean(), "{:?}", words.check().violations);
    let crashed = pool.medium().words();
    drop((all, words));
    let report = pool.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.violations);
    let again = options().open_on(Dram::from_words(crashed)).unwrap();
    let all = trees(&again);
    all.iter().for_each(|tree| tree.check());
    // What is there can go, and then all is free.
    all.iter().for_each(|tree| tree.clear());
    drop(all);
    again.tree("words").unwrap().clear().unwrap();
    assert!(again.check().unwrap().is_clean());
    let names: Vec<String> = again.trees().unwrap().into_iter().map(|tree| tree.name).collect();
    names.iter().for_each(|name| again.drop_tree(name).unwrap());
    let stat = again.stat();
    assert!(stat.capacity - stat.available <= 16384, "{stat:?}");
}

#[test]
fn segments_change_their_owners_under_readers() {
    storm(512 << 10);
}

#[test]
fn segments_change_their_owners_where_most_fits() {
    storm(2 << 20);
}
