//! Many threads on one tree: nothing lost, nothing invented, nothing stuck.
//!
//! The trees are of the smallest nodes, so that leaves split and merge all the time, on a medium that gives the processor
//! away in the middle of things, so that threads meet at every place.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::Medium;
use bristlecone::{
    Append, Circular, CowSip, Error, Fingerprint, Flat, Index, Linear, Logged, Map, Node, OneLine, Options, PTree,
    Persistent, Pool, Result, Sentinel, Versioned, Volatile, crab, delegate_medium,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: u64 = 8;
const CAPACITY: u64 = 4 << 20;
/// How long each test goes on.
const TIME: Duration = if cfg!(miri) { Duration::from_secs(20) } else { Duration::from_millis(800) };

fn options() -> Options {
    Pool::options().segment_size(4096).max_capacity(CAPACITY).max_trees(4)
}

/// Memory whose every n-th access yields to another thread.
struct Jittery(Any);

thread_local! {
    static CHANCE: Cell<u64> = const { Cell::new(0x2545_f491_4f6c_dd1d) };
}

fn random() -> u64 {
    CHANCE.with(|chance| {
        let mut x = chance.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        chance.set(x);
        x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11
    })
}

fn below(limit: u64) -> u64 {
    random() % limit
}

/// Makes this thread's random numbers its own.
fn seed(number: u64) {
    CHANCE.set((number + 1).wrapping_mul(0xa076_1d64_78bd_642f) | 1);
}

fn jitter() {
    if random() & 0xff == 0 {
        thread::yield_now();
    }
}

impl Medium for Jittery {
    delegate_medium!(this => this.0; len domain reserve cas order flush);

    fn name(&self) -> &str {
        "jittery"
    }

    fn load(&self, at: u64) -> u64 {
        jitter();
        self.0.load(at)
    }

    fn store(&self, at: u64, value: u64) {
        jitter();
        self.0.store(at, value);
    }

    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        jitter();
        self.0.store_pair(at, pair);
    }

    fn fence(&self) {
        jitter();
        self.0.fence();
    }
}

/// Runs `work`; ends the process with a message if it does not come back.
fn watched<R>(what: &str, work: impl FnOnce() -> R) -> R {
    let (done, wait) = mpsc::channel::<()>();
    let what = what.to_owned();
    let dog = thread::spawn(move || {
        let patience = Duration::from_secs(if cfg!(miri) { 3600 } else { 120 });
        if wait.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{what}: no end after {patience:?}: a deadlock or an endless loop");
            std::process::abort();
        }
    });
    let result = work();
    drop(done);
    dog.join().unwrap();
    result
}

fn pool() -> Pool<Any> {
    options().create_on(Arc::new(Jittery(zeroed(CAPACITY))) as Any).unwrap()
}

fn sound<N: Node, I: Index, M: Medium>(tree: &PTree<N, I, M>) {
    assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
    let report = tree.check();
    assert!(report.is_clean(), "{:?}", report.violations);
    assert_eq!(tree.iter().count() as u64, tree.len());
}

/// What the tree holds is what it holds after a crash now, and after closing and opening again.
fn outlives<N: Node, I: Index>(pool: Pool<Any>, tree: PTree<N, I, Any>) {
    let expected: Vec<_> = tree.iter().collect();
    let crashed = words_of(pool.medium());
    drop(tree);
    let closed = words_of(pool.medium());
    for words in [crashed, closed] {
        let pool = options().open_on(holding(words)).unwrap();
        let tree: PTree<N, I, Any> = pool.tree("t").unwrap();
        assert!(tree.iter().eq(expected.iter().copied()));
        sound(&tree);
    }
}

// Keys are interleaved, so that every leaf belongs to several threads: `16 n + thread`, and

/// always there,
const PERMANENT: u64 = 14;
/// counted up by everybody.
const COUNTER: u64 = 15;

const GROUPS: u64 = 24;

fn storm<N: Node, I: Index>() {
    let pool = pool();
    let tree: PTree<N, I, Any> = pool.tree("t").unwrap();
    for n in 0..GROUPS {
        tree.insert(n * 16 + PERMANENT, n).unwrap();
    }
    let stop = Instant::now() + TIME;
    let (tree, pool) = (&tree, &pool);
    let increments: Vec<AtomicU64> = (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
    let increments = &increments;
    let models: Vec<BTreeMap<u64, u64>> = thread::scope(|scope| {
        let writer = |number: u64| {
            move || {
                seed(number);
                let mut model = BTreeMap::new();
                while Instant::now() < stop {
                    // Now mostly inserting, now mostly removing: leaves fill up and run empty.
                    let growing = below(100) < 50;
                    for _ in 0..200 {
                        write(tree, number, growing, &mut model, increments);
                    }
                }
                model
            }
        };
        let writers: Vec<_> = (0..THREADS - 2).map(|number| scope.spawn(writer(number))).collect();
        for number in THREADS - 2..THREADS {
            scope.spawn(move || {
                seed(number);
                while Instant::now() < stop {
                    scan(tree);
                    let closed = pool.trees().unwrap()[0].closed;
                    assert!(!closed, "an open tree with a close record");
                }
            });
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let mut expected: BTreeMap<u64, u64> = models.into_iter().flatten().collect();
    expected.extend((0..GROUPS).map(|n| (n * 16 + PERMANENT, n)));
    for (n, count) in increments.iter().enumerate() {
        let count = count.load(Ordering::Relaxed);
        if count > 0 {
            expected.insert(n as u64 * 16 + COUNTER, count);
        }
    }
    assert!(tree.iter().eq(expected.iter().map(|(&k, &v)| (k, v))));
    sound(tree);
    outlives(pool.clone(), tree.clone());
}

fn write<N: Node, I: Index>(
    tree: &PTree<N, I, Any>,
    number: u64,
    growing: bool,
    model: &mut BTreeMap<u64, u64>,
    increments: &[AtomicU64],
) {
    let group = below(GROUPS);
    let (key, value) = (group * 16 + number, random());
    match below(14) {
        0..=3 if growing => assert_eq!(tree.insert(key, value).unwrap(), model.insert(key, value)),
        0..=5 => assert_eq!(tree.remove(key).unwrap(), model.remove(&key)),
        6 => {
            let old = model.get_mut(&key).map(|old| std::mem::replace(old, value));
            assert_eq!(tree.update(key, value).unwrap(), old);
        }
        7 => {
            let old = model.get(&key).copied();
            assert_eq!(tree.compare_exchange(key, old, Some(value)).unwrap(), old);
            model.insert(key, value);
        }
        8 => {
            let old = model.get(&key).copied();
            assert_eq!(tree.compare_exchange(key, Some(value), None).unwrap(), old, "refused");
        }
        9 => {
            let counter = group * 16 + COUNTER;
            let mut seen = tree.get(counter);
            loop {
                let now = tree.compare_exchange(counter, seen, Some(seen.unwrap_or(0) + 1)).unwrap();
                if now == seen {
                    break;
                }
                assert!(now > seen, "a counter went from {seen:?} to {now:?}");
                seen = now;
            }
            increments[group as usize].fetch_add(1, Ordering::Relaxed);
        }
        10 => {
            // Its own keys of a range, exactly.
            let to = key + below(80);
            let own = |(key, _): &(u64, u64)| key % 16 == number;
            assert!(tree.range(key..=to).filter(own).eq(model.range(key..=to).map(|(&k, &v)| (k, v))));
            assert!(tree.range(key..=to).rev().filter(own).eq(model.range(key..=to).rev().map(|(&k, &v)| (k, v))));
        }
        11 => {
            let entries: Vec<(u64, u64)> = (0..below(30)).map(|_| (below(GROUPS) * 16 + number, random())).collect();
            let before = model.len();
            model.extend(entries.iter().copied());
            assert_eq!(tree.insert_batch(&entries).unwrap(), (model.len() - before) as u64);
        }
        12 => {
            let keys: Vec<u64> = (0..below(40)).map(|_| below(GROUPS) * 16 + number).collect();
            assert!(tree.multi_get(&keys).into_iter().eq(keys.iter().map(|key| model.get(key).copied())));
        }
        _ => assert_eq!(tree.get(key), model.get(&key).copied()),
    }
}

fn scan<N: Node, I: Index>(tree: &PTree<N, I, Any>) {
    let (mut last, mut permanent) = (None, 0);
    for (key, value) in tree.iter() {
        assert!(last.replace(key).is_none_or(|last| last < key), "{key} after {last:?}");
        if key % 16 == PERMANENT {
            assert_eq!((key / 16, value), (permanent, permanent), "missed");
            permanent += 1;
        }
    }
    assert_eq!(permanent, GROUPS);
    let mut last = None;
    for (key, _) in tree.iter().rev() {
        assert!(last.replace(key).is_none_or(|last| last > key), "{key} after {last:?}");
        if key % 16 == PERMANENT {
            permanent -= 1;
            assert_eq!(key / 16, permanent, "missed");
        }
    }
    assert_eq!(permanent, 0);
    for n in 0..GROUPS {
        assert_eq!(tree.get(n * 16 + PERMANENT), Some(n));
    }
}

macro_rules! storms {
    ($($name:ident $node:ty, $index:ty;)*) => {$(
        #[test]
        fn $name() {
            watched(stringify!($name), storm::<$node, $index>);
        }
    )*};
}

storms! {
    storm_circular_4_volatile Circular<4>, Volatile;
    storm_circular_4_persistent Circular<4>, Persistent;
    storm_linear_5_volatile Linear<5>, Volatile;
    storm_linear_5_persistent Linear<5>, Persistent;
    storm_circular_8_volatile Circular<8>, Volatile;
    storm_circular_8_persistent Circular<8>, Persistent;
    storm_one_line_7_volatile OneLine<7>, Volatile;
    storm_one_line_7_persistent OneLine<7>, Persistent;
    storm_one_line_39_volatile OneLine, Volatile;
    storm_sentinel_circular_16 Sentinel<Circular<16>>, Volatile;
    storm_cow_only_4_persistent CowSip<4, { crab::COPY_ONLY }>, Persistent;
    storm_cow_only_4_volatile CowSip<4, { crab::COPY_ONLY }>, Volatile;
    storm_append_3 Append<3>, Flat;
    storm_fingerprint_4 Fingerprint<4>, Volatile;
    storm_logged_4 Logged<4>, Persistent;
    storm_versioned_4 Versioned<4>, Volatile;
}

/// Every value tells its key, and whether it may be seen at all.
fn mark(key: u64, note: u64) -> u64 {
    key << 32 | note & 0x7fff_ffff
}

const GHOST: u64 = 1 << 31;

fn is_of(key: u64, value: u64) {
    assert_eq!(value >> 32, key, "the value of another key: {value:#x}");
    assert_eq!(value & GHOST, 0, "a value that was never loaded: {value:#x}");
}

/// All threads on the same few keys; some clear, load, and fail to load.
fn scramble<N: Node, I: Index>() {
    const KEYS: u64 = 40;
    let pool = pool();
    let tree: PTree<N, I, Any> = pool.tree("t").unwrap();
    let stop = Instant::now() + TIME;
    thread::scope(|scope| {
        for number in 0..THREADS {
            let tree = &tree;
            scope.spawn(move || {
                seed(number);
                while Instant::now() < stop {
                    for _ in 0..20 {
                        let key = below(KEYS);
                        let old = match below(10) {
                            0..=2 => tree.insert(key, mark(key, random())).unwrap(),
                            3..=6 => tree.remove(key).unwrap(),
                            7 => tree.update(key, mark(key, random())).unwrap(),
                            _ => tree.get(key),
                        };
                        old.into_iter().for_each(|value| is_of(key, value));
                    }
                    tree.range(5..30).for_each(|(key, value)| is_of(key, value));
                    tree.range(..).rev().for_each(|(key, value)| is_of(key, value));
                    let load = |end: Option<u64>| {
                        let ghost = if end.is_some() { GHOST } else { 0 };
                        (0..KEYS).chain(end).map(move |key| (key, mark(key, random()) | ghost))
                    };
                    match number {
                        0 => tree.clear().unwrap(),
                        1 => match tree.bulk_load(load(None)) {
                            Ok(n) => assert_eq!(n, KEYS),
                            Err(error) => assert!(matches!(error, Error::NotEmpty { .. }), "{error}"),
                        },
                        2 => match tree.bulk_load(load(Some(0))) {
                            Ok(_) => panic!("loaded what was not sorted"),
                            Err(error) => {
                                assert!(matches!(error, Error::NotEmpty { .. } | Error::Unsorted { .. }), "{error}");
                            }
                        },
                        3..=5 => (0..KEYS).for_each(|key| assert!(tree.remove(key).is_ok())),
                        _ => {}
                    }
                }
            });
        }
    });
    sound(&tree);
    outlives(pool, tree);
}

#[test]
fn scramble_circular_4_volatile() {
    watched("scramble", scramble::<Circular<4>, Volatile>);
}

#[test]
fn scramble_circular_4_persistent() {
    watched("scramble", scramble::<Circular<4>, Persistent>);
}

#[test]
fn scramble_linear_5_volatile() {
    watched("scramble", scramble::<Linear<5>, Volatile>);
}

#[test]
fn scramble_linear_5_persistent() {
    watched("scramble", scramble::<Linear<5>, Persistent>);
}

#[test]
fn scramble_one_line_7_volatile() {
    watched("scramble", scramble::<OneLine<7>, Volatile>);
}

#[test]
fn scramble_one_line_7_persistent() {
    watched("scramble", scramble::<OneLine<7>, Persistent>);
}

/// Threads open, use and let go of one tree: whoever holds it holds an open one, and all find what any has written.
fn come_and_go<I: Index>() {
    let pool = pool();
    let stop = Instant::now() + TIME;
    let models: Vec<BTreeMap<u64, u64>> = thread::scope(|scope| {
        let guest = |number: u64| {
            let pool = &pool;
            move || {
                seed(number);
                let mut model = BTreeMap::new();
                while Instant::now() < stop {
                    let tree: PTree<Circular<4>, I, Any> = pool.tree("t").unwrap();
                    for _ in 0..below(6) {
                        let (key, value) = (below(40) * 16 + number, random());
                        if below(3) > 0 {
                            assert_eq!(tree.insert(key, value).unwrap(), model.insert(key, value));
                        } else {
                            assert_eq!(tree.remove(key).unwrap(), model.remove(&key));
                        }
                    }
                    // A close record now would be believed by the open after a crash.
                    let closed = pool.trees().unwrap()[0].closed;
                    assert!(!closed, "an open tree with a close record");
                    assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
                    drop(tree);
                    if below(4) == 0 {
                        thread::yield_now();
                    }
                }
                model
            }
        };
        let guests: Vec<_> = (0..4).map(|number| scope.spawn(guest(number))).collect();
        guests.into_iter().map(|guest| guest.join().unwrap()).collect()
    });
    let expected: BTreeMap<u64, u64> = models.into_iter().flatten().collect();
    let tree: PTree<Circular<4>, I, Any> = pool.tree("t").unwrap();
    assert!(tree.iter().eq(expected));
    sound(&tree);
    outlives(pool, tree);
}

#[test]
fn come_and_go_volatile() {
    watched("come and go", come_and_go::<Volatile>);
}

#[test]
fn come_and_go_persistent() {
    watched("come and go", come_and_go::<Persistent>);
}

/// Readers and a writer come upon the nodes of a tree that was just opened, which nobody has looked at yet.
fn first_touch<I: Index>() {
    const KEYS: u64 = 120;
    let pool = pool();
    let stop = Instant::now() + TIME;
    let mut round = 0;
    while Instant::now() < stop {
        round += 1;
        let tree: PTree<Circular<4>, I, Any> = pool.tree("t").unwrap();
        thread::scope(|scope| {
            for number in 0..4 {
                let tree = &tree;
                scope.spawn(move || {
                    seed(round * 8 + number);
                    for _ in 0..20 {
                        let key = below(KEYS);
                        let old = match (number, below(2)) {
                            (0, 0) => tree.insert(key, mark(key, random())).unwrap(),
                            (0, _) => tree.remove(key).unwrap(),
                            _ => tree.get(key),
                        };
                        old.into_iter().for_each(|value| is_of(key, value));
                    }
                });
            }
        });
        assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
    }
    let tree: PTree<Circular<4>, I, Any> = pool.tree("t").unwrap();
    sound(&tree);
    outlives(pool, tree);
}

#[test]
fn first_touch_volatile() {
    watched("first touch", first_touch::<Volatile>);
}

#[test]
fn first_touch_persistent() {
    watched("first touch", first_touch::<Persistent>);
}

#[test]
fn trees_made_and_dropped_by_all_leave_nothing_behind() {
    watched("make and drop", || {
        let pool = pool();
        let available = pool.stat().available;
        let stop = Instant::now() + TIME;
        thread::scope(|scope| {
            for number in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    seed(number);
                    while Instant::now() < stop {
                        if below(3) == 0 {
                            match pool.drop_tree("t") {
                                Ok(()) | Err(Error::StillOpen { .. } | Error::NotFound { .. }) => {}
                                Err(error) => panic!("{error}"),
                            }
                        } else {
                            let tree: PTree<Circular<4>, Persistent, Any> = pool.tree("t").unwrap();
                            for key in 0..below(60) {
                                tree.insert(key * 16 + number, mark(key * 16 + number, random())).unwrap();
                            }
                            tree.iter().for_each(|(key, value)| is_of(key, value));
                            assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
                        }
                    }
                });
            }
        });
        if !pool.trees().unwrap().is_empty() {
            let tree: PTree<Circular<4>, Persistent, Any> = pool.tree("t").unwrap();
            sound(&tree);
            drop(tree);
            pool.drop_tree("t").unwrap();
        }
        assert_eq!(pool.stat().available, available);
    });
}

// Records.

/// A value that tells whose it is, and whether it is whole.
fn record(key: u64, version: u64) -> Vec<u8> {
    let len = (key * 31 + version * 7) % 300;
    let mut bytes = [key, version].map(u64::to_le_bytes).concat();
    bytes.extend((0..len).map(|i| (key + version + i) as u8));
    bytes
}

fn version_of(key: u64, bytes: &[u8]) -> u64 {
    let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    assert_eq!(bytes, record(key, version), "a torn or foreign record under {key}");
    version
}

fn records<N: Node, I: Index>() {
    type Records<N, I> = Map<u64, Vec<u8>, N, I, Any>;
    let pool = pool();
    let map: Records<N, I> = pool.map("t").unwrap();
    let stop = Instant::now() + TIME;
    let models: Vec<BTreeMap<u64, u64>> = thread::scope(|scope| {
        let writer = |number: u64| {
            let map = &map;
            move || {
                seed(number);
                let mut model: BTreeMap<u64, u64> = BTreeMap::new();
                let mut version = 0;
                while Instant::now() < stop {
                    let key = below(20) * 8 + number;
                    version += 1;
                    match below(8) {
                        0..=3 => {
                            let old = map.insert(key, &record(key, version)).unwrap();
                            assert_eq!(old, model.insert(key, version).is_some());
                        }
                        4 => {
                            let new = map.insert_new(key, &record(key, version)).unwrap();
                            assert_eq!(new, !model.contains_key(&key));
                            model.entry(key).or_insert(version);
                        }
                        5 | 6 => assert_eq!(map.remove(key).unwrap(), model.remove(&key).is_some()),
                        _ => {
                            let found = map.get(key).unwrap().map(|bytes| version_of(key, &bytes));
                            assert_eq!(found, model.get(&key).copied());
                        }
                    }
                }
                model
            }
        };
        let writers: Vec<_> = (0..4).map(|number| scope.spawn(writer(number))).collect();
        for number in 4..THREADS {
            let map = &map;
            scope.spawn(move || {
                seed(number);
                let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
                while Instant::now() < stop {
                    let key = below(20) * 8 + below(4);
                    let backwards = below(2) == 0;
                    let found: Vec<_> = match below(3) {
                        0 => map.get(key).unwrap().map(|bytes| (key, bytes)).into_iter().collect(),
                        1 if backwards => map.range(key..).rev().map(Result::unwrap).collect(),
                        _ => map.range(..=key).map(Result::unwrap).collect(),
                    };
                    for (key, bytes) in found {
                        let version = version_of(key, &bytes);
                        let last = seen.insert(key, version).unwrap_or(0);
                        assert!(last <= version, "{key} went back from {last} to {version}");
                    }
                }
            });
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let model: BTreeMap<u64, Vec<u8>> =
        models.into_iter().flatten().map(|(key, version)| (key, record(key, version))).collect();
    let holds = |entries: Vec<(u64, Vec<u8>)>| assert!(entries.into_iter().eq(model.clone()));
    holds(map.iter().map(Result::unwrap).collect());
    assert!(map.check().is_clean(), "{:?}", map.check().violations);
    let crashed = words_of(pool.medium());
    drop(map);
    for words in [crashed, words_of(pool.medium())] {
        let pool = options().open_on(holding(words)).unwrap();
        let map: Records<N, I> = pool.map("t").unwrap();
        holds(map.iter().map(Result::unwrap).collect());
        assert!(map.check().is_clean(), "{:?}", map.check().violations);
    }
}

#[test]
fn records_circular_4_volatile() {
    watched("records", records::<Circular<4>, Volatile>);
}

#[test]
fn records_linear_5_persistent() {
    watched("records", records::<Linear<5>, Persistent>);
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_long_record_is_read_while_its_neighbours_change() {
    watched("a long record", || {
        let pool = Pool::options().max_capacity(32 << 20).create_on(zeroed(32 << 20)).unwrap();
        let map: Map<u64, Vec<u8>, Circular<8>, Volatile, Any> = pool.map("t").unwrap();
        const READS: u32 = 20;
        let long = vec![7; 2 << 20];
        map.insert(1, &long).unwrap();
        map.insert(2, b"short").unwrap();
        let (reads, done) = (AtomicU32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    map.insert(2, b"other").unwrap();
                    map.insert(2, b"short").unwrap();
                }
            });
            let start = Instant::now();
            while reads.load(Ordering::Relaxed) < READS {
                assert!(map.get(1).unwrap().is_some_and(|bytes| bytes == long));
                assert!(map.range(..2).all(|entry| entry.unwrap().1 == long));
                reads.fetch_add(1, Ordering::Relaxed);
            }
            done.store(true, Ordering::Relaxed);
            let each = start.elapsed() / READS;
            assert!(each < Duration::from_secs(1), "{each:?} per read");
        });
    });
}

#[test]
fn a_hot_leaf_starves_nobody() {
    watched("a hot leaf", || {
        let pool = options().create_on(zeroed(CAPACITY)).unwrap();
        let tree: PTree<Circular<8>, Volatile, Any> = pool.tree("t").unwrap();
        tree.insert(0, 0).unwrap();
        let stop = Instant::now() + TIME;
        let reads: Vec<u64> = thread::scope(|scope| {
            for number in 1..5 {
                let tree = &tree;
                scope.spawn(move || {
                    while Instant::now() < stop {
                        tree.insert(number, 1).unwrap();
                        tree.remove(number).unwrap();
                    }
                });
            }
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut reads = 0;
                        while Instant::now() < stop {
                            assert_eq!(tree.get(0), Some(0));
                            assert_eq!(tree.first_key_value(), Some((0, 0)));
                            reads += 1;
                        }
                        reads
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert!(reads.iter().all(|&reads| reads > 100), "{reads:?}");
        sound(&tree);
    });
}
