//! Reading records while other threads replace them: how often a record is copied, what an iterator holds on to, and
//! that the space is given back.

use crate::ending::Ending;
use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Layer, Medium};
use bristlecone::{Error, ErrorKind, IndexKind, Map, OneLine, Options, Pool, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

type Records = Map<u64, Vec<u8>, OneLine<7>, Any>;

fn options(_bytes: u64) -> Options {
    Pool::options().segment_size(4096)
}

fn pool(bytes: u64) -> Pool<Any> {
    options(bytes).create_on(zeroed(bytes)).unwrap()
}

fn sound(map: &Records) {
    assert!(map.fault().is_none(), "{}", map.fault().unwrap());
    let report = map.check();
    assert!(report.is_clean(), "{:?}", report.violations);
}

/// Counts the words that are loaded from one place, and lets another thread do something in between.
struct Watched {
    of: Any,
    place: Mutex<Range<u64>>,
    on: AtomicBool,
    loaded: AtomicU64,
    /// Asks the other thread for a change in between, and waits for it; `asks` is how many times are left.
    ask: Mutex<Option<SyncSender<()>>>,
    done: Mutex<Receiver<()>>,
    asks: AtomicU64,
}

impl Watched {
    fn loading(&self, at: u64, words: u64) {
        if self.on.load(Ordering::Relaxed) && self.place.lock().unwrap().contains(&at) {
            let before = self.loaded.fetch_add(words, Ordering::Relaxed);
            if before / 1000 != (before + words) / 1000 && self.asks.load(Ordering::Relaxed) > 0 {
                self.asks.fetch_sub(1, Ordering::Relaxed);
                self.ask.lock().unwrap().as_ref().unwrap().send(()).unwrap();
                self.done.lock().unwrap().recv().unwrap();
            }
        }
    }
}

impl Layer for Watched {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.of
    }

    fn load(&self, at: u64) -> u64 {
        self.loading(at, 1);
        self.of.load(at)
    }

    fn load_words(&self, at: u64, words: &mut [u64]) {
        self.loading(at, words.len() as u64);
        self.of.load_words(at, words);
    }
}

#[test]
fn a_long_record_is_copied_once_while_its_neighbour_is_written() {
    const WORDS: u64 = 10_000;
    let (ask, asked) = sync_channel(0);
    let (did, done) = sync_channel(0);
    let watched = Arc::new(Watched {
        of: zeroed(1 << 20),
        place: Mutex::new(0..0),
        on: false.into(),
        loaded: 0.into(),
        ask: Mutex::new(Some(ask)),
        done: Mutex::new(done),
        // Fewer than it takes until a reader of a leaf takes its lock.
        asks: 20.into(),
    });
    let pool = options(1 << 20).create_on(Arc::<Watched>::clone(&watched) as Any).unwrap();
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    let long = vec![0xa5; WORDS as usize * 8];
    map.insert(1, &long).unwrap();
    map.insert(2, b"neighbour").unwrap();
    let content = words_of(pool.medium());
    let start = content.windows(2).position(|pair| pair == [0xa5a5_a5a5_a5a5_a5a5; 2]).unwrap() as u64 * 8;
    *watched.place.lock().unwrap() = start..start + WORDS * 8;
    let loaded = thread::scope(|scope| {
        let neighbour = map.clone();
        scope.spawn(move || {
            while asked.recv().is_ok() {
                neighbour.insert(2, b"another").unwrap();
                did.send(()).unwrap();
            }
        });
        watched.on.store(true, Ordering::Relaxed);
        let copied = || watched.loaded.swap(0, Ordering::Relaxed);
        let got = (map.get(1).unwrap().unwrap() == long, copied());
        let lent = (map.get_with(1, |bytes| bytes == long).unwrap().unwrap(), copied());
        let passed = (map.range(..=1).next().unwrap().unwrap().1 == long, copied());
        watched.on.store(false, Ordering::Relaxed);
        // Ends the writer: it can no longer be asked.
        *watched.ask.lock().unwrap() = None;
        [got, lent, passed]
    });
    assert_eq!(loaded, [(true, WORDS); 3]);
    assert_eq!(watched.asks.load(Ordering::Relaxed), 0, "the neighbour was written meanwhile");
    sound(&map);
}

/// Values of 900 bytes.
fn value(key: u64, version: u64) -> Vec<u8> {
    [key, version].map(u64::to_le_bytes).concat().repeat(56)
}

#[test]
fn an_iterator_gives_the_values_that_its_leaf_had() {
    let pool = pool(1 << 20);
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    for key in 1..4 {
        map.insert(key, &value(key, 0)).unwrap();
    }
    let mut entries = map.iter();
    assert_eq!(entries.next().unwrap().unwrap(), (1, value(1, 0)));
    for version in 1..100 {
        map.insert(2, &value(2, version)).unwrap();
    }
    map.remove(3).unwrap();
    assert_eq!(entries.next_back().unwrap().unwrap(), (3, value(3, 0)));
    assert_eq!(entries.next().unwrap().unwrap(), (2, value(2, 0)));
    assert!(entries.next().is_none() && entries.next_back().is_none());
    // The iterator is at its end and holds on to nothing: the same space is used again and again.
    for version in 0..5000 {
        map.insert(2, &value(2, version)).unwrap();
    }
    drop(entries);
    sound(&map);
}

#[test]
fn what_an_iterator_holds_on_to_is_out_of_space_until_it_goes_on() {
    let pool = pool(256 << 10);
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    for key in 1..4 {
        map.insert(key, &value(key, 0)).unwrap();
    }
    let mut entries = map.iter();
    assert!(entries.next().unwrap().is_ok());
    let full = |version| match map.insert(3, &value(3, version)) {
        Ok(_) => false,
        Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => true,
        Err(other) => panic!("{other}"),
    };
    let last = (1..1000).find(|&version| full(version)).expect("nothing comes back");
    assert!(last > 50, "{last}");
    assert_eq!(map.get(3).unwrap().unwrap(), value(3, last - 1));
    assert!(entries.by_ref().map(Result::unwrap).eq([2, 3].map(|key| (key, value(key, 0)))));
    assert!(!(0..1000).any(full));
    sound(&map);
}

#[test]
fn segments_come_back_when_the_last_reader_goes() {
    let pool = pool(256 << 10);
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    map.insert(1, b"short").unwrap();
    let before = pool.stat().available;
    map.insert(2, &vec![7; 50_000]).unwrap();
    let mut entries = map.iter();
    assert!(entries.next().unwrap().is_ok());
    map.remove(2).unwrap();
    assert!(pool.stat().available < before);
    // Dropped on a different thread from the one where it began.
    thread::scope(|scope| scope.spawn(|| drop(entries)).join()).unwrap();
    assert_eq!(pool.stat().available, before);
    // A reader that never ends keeps the records until the map is closed.
    map.insert(2, &vec![7; 50_000]).unwrap();
    let mut entries = map.iter();
    assert!(entries.next().unwrap().is_ok());
    std::mem::forget(entries);
    map.remove(2).unwrap();
    sound(&map);
    let words = words_of(pool.medium());
    drop(map);
    // The map's close record has the smallest part of a segment.
    assert_eq!(pool.stat().available, before - 2048);
    // After a crash, the same space is available.
    let crashed = options(256 << 10).open_on(holding(words)).unwrap();
    sound(&crashed.map_with("m", IndexKind::Volatile).unwrap());
    assert_eq!(crashed.stat().available, before - 2048);
}

#[test]
fn constant_content_takes_constant_space() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 1000 };
    let pool = pool(512 << 10);
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    let long = |version: u64| vec![version as u8; 6000 + version as usize % 5000];
    for key in 0..8 {
        map.insert(key, &value(key, 0)).unwrap();
        map.insert(key + 8, &long(0)).unwrap();
    }
    let done = AtomicBool::new(false);
    // A reader that is not running may keep everything for a while.
    let insert = |key: u64, value: &[u8]| {
        while let Err(error) = map.insert(key, value) {
            assert!(matches!(error.kind, ErrorKind::OutOfSpace { .. }), "{error}");
        }
    };
    thread::scope(|scope| {
        let _ending = Ending(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for entry in map.iter() {
                        let (key, found) = entry.unwrap();
                        let version = if key < 8 { found[8].into() } else { found[0].into() };
                        let whole = if key < 8 { found[..8] == key.to_le_bytes() } else { found.len() >= 6000 };
                        assert!(
                            whole
                                && found
                                    .iter()
                                    .skip(16)
                                    .step_by(16)
                                    .all(|&byte| u64::from(byte) == if key < 8 { key } else { version })
                        );
                    }
                    map.get(3).unwrap().unwrap();
                    map.get_with(9, |bytes| assert!(bytes.iter().all(|&byte| byte == bytes[0]))).unwrap();
                }
            });
        }
        // 16 MB in total, in a pool of half a megabyte.
        let writers = [0, 1].map(|writer| {
            let insert = &insert;
            scope.spawn(move || {
                for version in 0..ROUNDS {
                    let key = writer * 4 + version % 4;
                    insert(key, &value(key, version));
                    insert(key + 8, &long(version));
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    sound(&map);
    let crashed = words_of(pool.medium());
    drop(map);
    let available = pool.stat().available;
    for words in [crashed, words_of(pool.medium())] {
        let pool = options(512 << 10).open_on(holding(words)).unwrap();
        let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
        sound(&map);
        assert_eq!(map.len(), 16);
        drop(map);
        assert_eq!(pool.stat().available, available);
    }
}

#[test]
fn a_record_of_two_slots_is_reported_and_harmless() {
    let pool = pool(256 << 10);
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    for key in 1..4 {
        map.insert(key, &value(key, 0)).unwrap();
    }
    let mut words = words_of(pool.medium());
    let record = |key: u64| words.windows(2).position(|pair| pair == [key, 0]).map(|i| i as u64 * 8 - 8);
    let (second, third) = (record(2).unwrap(), record(3).unwrap());
    let slot = words.iter().position(|&word| word == third).unwrap();
    words[slot] = second;
    let pool = options(256 << 10).open_on(holding(words)).unwrap();
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    let reports = |invariant: &str| {
        let report = map.check();
        assert!(report.violations.iter().any(|broken| broken.invariant.contains(invariant)), "{:?}", report.violations);
    };
    reports("a record of two slots");
    assert_eq!(map.get(3).unwrap().unwrap(), value(2, 0));
    assert!(map.remove(2).unwrap() && map.remove(3).unwrap());
    reports("free twice");
    // One block has two owners: this may cause wrong values and errors, but nothing worse.
    for version in 0..500 {
        for key in 2..40 {
            map.insert(key, &value(key, version)).unwrap();
            let _ = map.get(key);
        }
        map.iter().for_each(drop);
    }
    assert_eq!(map.get(1).unwrap().unwrap(), value(1, 0));
    map.clear().unwrap();
    map.insert(1, &value(1, 1)).unwrap();
    assert_eq!(map.get(1).unwrap().unwrap(), value(1, 1));
}

/// The root entry has no checksum over the offset of the close record.
#[test]
fn a_wrong_close_record_takes_no_record_along() {
    let pool = pool(256 << 10);
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    let long = vec![0xa5; 9000];
    for key in 1..20 {
        map.insert(key, &value(key, 0)).unwrap();
    }
    map.insert(20, &long).unwrap();
    drop(map);
    let mut words = words_of(pool.medium());
    let extent = words.windows(2).position(|pair| pair == [0xa5a5_a5a5_a5a5_a5a5; 2]).unwrap() as u64 * 8 - 8;
    let closed = 8192 / 8 + 5;
    assert!(words[closed] > 0 && words[closed] != extent);
    words[closed] = extent;
    let pool = options(256 << 10).open_on(holding(words)).unwrap();
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    // Another tree takes all the space that is available.
    let other: Records = pool.map_with("other", IndexKind::Volatile).unwrap();
    (0..).find(|&key| other.insert(key, &long).is_err());
    assert!(map.get(20).unwrap().unwrap() == long);
    (1..20).for_each(|key| assert!(map.get(key).unwrap().unwrap() == value(key, 0)));
    sound(&map);
    sound(&other);
}

#[test]
fn a_value_is_lent() {
    let pool = pool(1 << 20);
    let numbers: Map<u64, i32, OneLine<7>, Any> = pool.map_with("numbers", IndexKind::Volatile).unwrap();
    numbers.insert(1, -7).unwrap();
    assert_eq!(numbers.get_with(1, |number| number * 2).unwrap(), Some(-14));
    assert_eq!(numbers.get_with(2, |number| number * 2).unwrap(), None);
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    for len in [0, 1, 7, 8, 9, 127, 128, 129, 1023, 1024, 1025, 20_000] {
        let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
        map.insert(len, &bytes).unwrap();
        assert_eq!(map.get_with(len, |lent| lent == bytes).unwrap(), Some(true), "{len}");
        // The function that sees a value may change it.
        assert_eq!(
            map.get_with(len, |lent| map.insert(len, &lent[lent.len() / 2..])).unwrap().unwrap().ok(),
            Some(true)
        );
        assert_eq!(map.get(len).unwrap().unwrap(), bytes[len as usize / 2..]);
    }
    sound(&map);
}

/// `cargo test --release --test trees -- --ignored --nocapture a_long_get_beside`: how long a `get` of 64 MiB takes,
/// alone and beside a writer of its neighbour.
#[test]
#[ignore = "a measurement, which wants two quiet cores and optimised code"]
fn a_long_get_beside_a_writer_takes_as_long_as_alone() {
    let pool = Pool::options().create_on(zeroed(256 << 20)).unwrap();
    let map: Records = pool.map_with("m", IndexKind::Volatile).unwrap();
    map.insert(1, &vec![7; 64 << 20]).unwrap();
    map.insert(2, b"neighbour").unwrap();
    let get = || {
        let start = Instant::now();
        assert_eq!(map.get(1).unwrap().unwrap().len(), 64 << 20);
        start.elapsed()
    };
    let (writing, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (alone, beside, writes) = thread::scope(|scope| {
        let ending = Ending(&done);
        let writer = scope.spawn(|| {
            let mut writes = 0u64;
            while !done.load(Ordering::Relaxed) {
                if writing.load(Ordering::Relaxed) {
                    map.insert(2, &writes.to_le_bytes()).unwrap();
                    writes += 1;
                } else {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            writes
        });
        // In turn, so that both are affected by the machine's load in the same way.
        let get_while = |writes| {
            writing.store(writes, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(5));
            get()
        };
        let pairs: Vec<_> = (0..20).map(|_| (get_while(false), get_while(true))).collect();
        drop(ending);
        let best = |of: fn(&(Duration, Duration)) -> Duration| pairs.iter().map(of).min().unwrap();
        (best(|pair| pair.0), best(|pair| pair.1), writer.join().unwrap())
    });
    println!("alone {alone:?}, beside {writes} writes of a neighbour {beside:?}");
    assert!(beside < alone.mul_f64(1.2));
}
