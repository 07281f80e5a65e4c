//! Readers make progress, whatever is written at the same time.

use crate::ending::Ending;
use crate::medium::{Any, zeroed};
use crate::stress::{CAPACITY, options, sound, time, watched};
use bristlecone::{IndexKind, Map, OneLine, PTree, Pool};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
#[cfg_attr(miri, ignore)]
fn a_long_record_is_read_while_its_neighbours_change() {
    watched("a long record", || {
        let pool = Pool::options().create_on(zeroed(32 << 20)).unwrap();
        let map: Map<u64, Vec<u8>, OneLine<7>, Any> = pool.map_with("t", IndexKind::Volatile).unwrap();
        const READS: u32 = 20;
        let long = vec![7; 2 << 20];
        map.insert(1, &long).unwrap();
        map.insert(2, b"short").unwrap();
        let (reads, done) = (AtomicU32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let _ending = Ending(&done);
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
            let each = start.elapsed() / READS;
            assert!(each < Duration::from_secs(1), "{each:?} per read");
        });
    });
}

#[test]
fn a_hot_leaf_starves_nobody() {
    watched("a hot leaf", || {
        let pool = options().create_on(zeroed(CAPACITY)).unwrap();
        let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", IndexKind::Volatile).unwrap();
        tree.insert(0, 0).unwrap();
        let stop = Instant::now() + time();
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

/// The longest time that one operation of a reader and of six writers on one leaf takes: `cargo test --release
/// --test trees longest_waits -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn longest_waits_on_a_hot_leaf() {
    let pool = options().create_on(zeroed(CAPACITY)).unwrap();
    let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", IndexKind::Volatile).unwrap();
    (0..7).for_each(|key| assert!(tree.insert(key, key).is_ok()));
    let stop = Instant::now() + Duration::from_secs(3);
    let of = |work: &dyn Fn()| {
        let (mut times, mut longest, mut last) = (0u64, Duration::ZERO, Instant::now());
        while last < stop {
            work();
            let now = Instant::now();
            longest = longest.max(now - last);
            (times, last) = (times + 1, now);
        }
        (times, longest)
    };
    thread::scope(|scope| {
        let writer = |key| {
            let (tree, of) = (&tree, &of);
            scope.spawn(move || of(&|| assert!(tree.update(key, 1).unwrap().is_some())))
        };
        let writers: Vec<_> = (0..6).map(writer).collect();
        let (reads, longest) = of(&|| assert!(tree.get(6).is_some()));
        println!("reader: {reads} in 3 s, {longest:?} at most");
        let (writes, longest): (Vec<u64>, Vec<Duration>) =
            writers.into_iter().map(|writer| writer.join().unwrap()).unzip();
        println!("writers: {} in 3 s, {:?} at most", writes.iter().sum::<u64>(), longest.iter().max().unwrap());
    });
}
