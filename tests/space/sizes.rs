//! What is small takes little, and what is given back is free for all.

use super::{MIB, Random, Scratch, Values, crash, taken, used, value};
use bristlecone::medium::{Layer, Mapped, Mapping, Medium};
use bristlecone::{Map, PTree, Pool};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One after the other: a thread that holds the lock twice for reading waits for ever if another one wants to write in
/// between.
fn places() -> impl Iterator<Item = (&'static str, Scratch)> {
    type Place = (&'static str, fn() -> Scratch);
    let places: [Place; 2] = [("memory", Scratch::in_memory), ("disk", Scratch::on_disk)];
    places.into_iter().map(|(place, scratch)| (place, scratch()))
}

#[test]
fn a_small_pool_takes_little() {
    for (place, scratch) in places() {
        let path = scratch.path("a.pool");
        let pool = crate::plain().open(&path).unwrap();
        let first: PTree = pool.tree("first").unwrap();
        let one = taken(&path);
        assert!(one <= 256 << 10, "{place}: {one}");
        let mut last = one;
        let mut trees = Vec::new();
        for i in 0..40 {
            match i % 3 {
                0 => trees.push(pool.tree(&format!("tree {i}")).map(drop)),
                1 => trees.push(pool.map::<u64, Vec<u8>>(&format!("map {i}")).map(drop)),
                _ => trees.push(pool.map::<String, Vec<u8>>(&format!("byte map {i}")).map(drop)),
            }
            trees.last().unwrap().as_ref().unwrap();
            let now = taken(&path);
            // This is open or closed.
            assert!(now - last <= 64 << 10, "{place}: tree {i}: {}", now - last);
            last = now;
        }
        drop(first);
        pool.close().unwrap();
        println!("{place}: one tree {one}, 40 more {}, closed {}", last - one, taken(&path));
        assert!(taken(&path) <= last + (64 << 10), "{place}: closed: {}", taken(&path));
    }
}

/// The least that there is, as docs/space.md has it.
#[test]
fn an_emptied_tree_takes_a_page_and_another_one_when_it_is_closed() {
    const HEADER: u64 = 16_384;
    const PAGE: u64 = 4096;
    let scratch = Scratch::in_memory();
    let path = scratch.path("a.pool");
    let pool = crate::plain().open(&path).unwrap();
    let takes = |pool: &Pool, bytes: u64, what: &str| assert_eq!((used(pool), taken(&path)), (bytes, bytes), "{what}");
    takes(&pool, HEADER, "no tree");
    let map: Values = pool.map("m").unwrap();
    takes(&pool, HEADER + PAGE, "empty");
    map.insert(1, &value(1, 40)).unwrap();
    takes(&pool, HEADER + 2 * PAGE, "a record");
    map.insert(2, &value(2, 400)).unwrap();
    takes(&pool, HEADER + 3 * PAGE, "two records of different sizes");
    for key in 1..=2 {
        assert!(map.remove(key).unwrap());
    }
    takes(&pool, HEADER + 3 * PAGE, "emptied");
    drop(map);
    takes(&pool, HEADER + 2 * PAGE, "emptied and closed");
    pool.drop_tree("m").unwrap();
    takes(&pool, HEADER, "dropped");
}

#[test]
fn small_values_take_little_more_than_themselves() {
    const VALUES: u64 = 20_000;
    for (place, scratch) in places() {
        for random in [false, true] {
            let path = scratch.path(&format!("{random}.pool"));
            let pool = crate::plain().sync(false).open(&path).unwrap();
            let key = |i: u64| if random { i.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { i };
            let mut last = taken(&path);
            let mut step = |what: &str| {
                let now = taken(&path);
                let each = (now - last) as f64 / VALUES as f64;
                println!("{place}, random {random}: {what}: {each:.1} bytes each");
                last = now;
                each
            };
            let values: Values = pool.map("values").unwrap();
            (0..VALUES).for_each(|i| assert!(!values.insert(key(i), &value(i, 10)).unwrap()));
            assert!(step("u64 to 10 bytes") <= 80.0);
            let words: PTree = pool.tree("words").unwrap();
            (0..VALUES).for_each(|i| assert_eq!(words.insert(key(i), i).unwrap(), None));
            assert!(step("u64 to u64") <= 80.0);
            let strings: Map<String, Vec<u8>> = pool.map("strings").unwrap();
            (0..VALUES).for_each(|i| assert!(!strings.insert(&format!("{:020}", key(i)), &value(i, 10)).unwrap()));
            assert!(step("20 letters to 10 bytes") <= 160.0);
            let numbers: Map<String, u64> = pool.map("numbers").unwrap();
            (0..VALUES).for_each(|i| assert!(!numbers.insert(&format!("{:020}", key(i)), i).unwrap()));
            assert!(step("20 letters to u64") <= 160.0);
        }
    }
}

#[test]
fn a_close_record_of_a_small_tree_takes_a_page() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("a.pool");
    let pool = crate::plain().open(&path).unwrap();
    let map: Values = pool.map("m").unwrap();
    map.insert(1, b"one").unwrap();
    map.insert(2, b"two").unwrap();
    let open = (used(&pool), taken(&path));
    drop(map);
    let closed = (used(&pool), taken(&path));
    println!("close record: {} bytes used, {} taken", closed.0 - open.0, closed.1 - open.1);
    assert!((1..=4096).contains(&(closed.0 - open.0)));
    assert!(closed.1 - open.1 <= 4096);
    for _ in 0..50 {
        let map: Values = pool.map("m").unwrap();
        assert_eq!(map.len(), 2);
    }
    // Old records are given back.
    assert!(used(&pool) <= closed.0, "{} {}", used(&pool), closed.0);
    assert!(taken(&path) <= closed.1 + 4096);
}

#[test]
fn what_is_given_up_goes_back_to_the_file_system() {
    for (place, scratch) in places() {
        let path = scratch.path("a.pool");
        let open = || crate::plain().sync(false).open(&path).unwrap();
        let fill = |pool: &Pool, name: &str| {
            let map: Values = pool.map(name).unwrap();
            (0..20).for_each(|i| assert!(!map.insert(i, &value(i, 700_000)).unwrap()));
            (20..12_000).for_each(|i| assert!(!map.insert(i, &value(i, 900)).unwrap()));
            map
        };
        let pool = open();
        drop(pool.tree("other").unwrap());
        let before = (taken(&path), used(&pool));
        drop(fill(&pool, "dropped"));
        let full = taken(&path);
        assert!(full >= 24 * MIB);
        pool.drop_tree("dropped").unwrap();
        println!("{place}: {} -> {full} -> {} (drop_tree)", before.0, taken(&path));
        assert!(taken(&path) <= before.0 + (64 << 10), "{place}: {}", taken(&path));
        assert!(used(&pool) <= before.1, "{place}");
        let map = fill(&pool, "cleared");
        map.clear().unwrap();
        let cleared = taken(&path);
        drop(map);
        pool.close().unwrap();
        println!("{place}: {cleared} after clear, {} closed", taken(&path));
        // The segment of the last leaf keeps its length.
        assert!(taken(&path) <= before.0 + MIB, "{place}: {}", taken(&path));
        // Removals, one by one: less at once, the rest when it is closed.
        let pool = open();
        let map = fill(&pool, "removed");
        (0..12_000).for_each(|i| assert!(map.remove(i).unwrap()));
        println!("{place}: {} after removals", taken(&path));
        // Four idle segments, and the segment of the last leaf.
        assert!(taken(&path) <= before.0 + 11 * MIB, "{place}: {}", taken(&path));
        drop(map);
        pool.close().unwrap();
        println!("{place}: {} closed", taken(&path));
        assert!(taken(&path) <= before.0 + 2 * MIB, "{place}: {}", taken(&path));
        // What a killed process had freed, but not punched, or taken, but not used.
        let pool = open();
        let map = fill(&pool, "killed");
        map.clear().unwrap();
        let copy = scratch.path("copy.pool");
        crash(&path, &copy);
        drop(map);
        drop(pool);
        let pool = crate::plain().sync(false).open(&copy).unwrap();
        let map: Values = pool.map("killed").unwrap();
        assert_eq!(map.len(), 0);
        drop(map);
        drop(pool);
        println!("{place}: {} after a kill", taken(&copy));
        assert!(taken(&copy) <= before.0 + 3 * MIB, "{place}: {}", taken(&copy));
    }
}

#[test]
fn a_thousand_trees_have_one_pool() {
    const TREES: u64 = 1000;
    let scratch = Scratch::in_memory();
    let path = scratch.path("a.pool");
    let copy = scratch.path("copy.pool");
    let name = |i: u64| format!("tree number {i}");
    let begin = Instant::now();
    let pool = crate::plain().open(&path).unwrap();
    for i in 0..TREES {
        pool.tree(&name(i)).unwrap().insert(i, i + 1).unwrap();
    }
    println!("created: {:?}, {} bytes", begin.elapsed(), taken(&path));
    let begin = Instant::now();
    crash(&path, &copy);
    pool.close().unwrap();
    println!("copied and closed: {:?}", begin.elapsed());
    for path in [&path, &copy] {
        let begin = Instant::now();
        let pool = Pool::open(path).unwrap();
        let opened = begin.elapsed();
        assert_eq!(pool.trees().unwrap().len() as u64, TREES);
        let listed = begin.elapsed();
        let trees: Vec<PTree> = (0..TREES).map(|i| pool.tree(&name(i)).unwrap()).collect();
        (0..).zip(&trees).for_each(|(i, tree)| assert_eq!(tree.iter().collect::<Vec<_>>(), [(i, i + 1)]));
        println!("opened {opened:?}, listed {listed:?}, all trees {:?}", begin.elapsed());
        drop(trees);
        let dropped = [3, 17, 500, 998, 999].map(name);
        dropped.iter().for_each(|name| pool.drop_tree(name).unwrap());
        let before = used(&pool);
        // Their places are taken again, also by trees of other types.
        for name in &dropped {
            let map: Map<String, String> = pool.map(name).unwrap();
            assert!(map.is_empty());
            map.insert("key", "value").unwrap();
        }
        for i in (0..TREES).rev().filter(|i| !dropped.contains(&name(*i))) {
            assert_eq!(pool.tree(&name(i)).unwrap().get(i), Some(i + 1));
        }
        assert!(used(&pool) - before <= 5 * (64 << 10));
        let report = pool.check().unwrap();
        assert!(report.is_clean() && report.trees == TREES && report.entries == TREES, "{report:?}");
        let begin = Instant::now();
        pool.close().unwrap();
        println!("closed {:?}, {} bytes", begin.elapsed(), taken(path));
    }
}

/// A file that counts how often something is asked of its space.
struct Asked {
    of: Mapped,
    times: AtomicU64,
}

impl Layer for Asked {
    type Below = Mapped;

    fn below(&self) -> &Mapped {
        &self.of
    }

    fn reserve(&self, at: u64, len: u64) -> std::io::Result<()> {
        self.times.fetch_add(1, Ordering::Relaxed);
        self.of.reserve(at, len)
    }

    fn reserved_to(&self, at: u64) -> u64 {
        self.times.fetch_add(1, Ordering::Relaxed);
        self.of.reserved_to(at)
    }
}

/// Each question may look at all pages up to the next hole.
#[test]
fn a_file_in_memory_is_asked_once_for_what_has_no_holes() {
    const TREES: u64 = 100;
    const PAGE: usize = 4096;
    let scratch = Scratch::in_memory();
    let path = scratch.path("a.pool");
    let options = crate::plain().segment_size(64 << 10).sync(false);
    let pool = options.open(&path).unwrap();
    for i in 0..TREES {
        pool.tree(&i.to_string()).unwrap().insert(i, i + 1).unwrap();
    }
    let zeros: Values = pool.map("zeros").unwrap();
    zeros.insert(0, &vec![0; 100_000]).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let used = used(&pool);
    drop((zeros, pool));
    // The process was killed: nothing is closed.
    bytes.truncate(bytes.len() / PAGE * PAGE);
    for (copy, holes_from) in [("whole", bytes.len()), ("half", bytes.len() / 2), ("sparse", 0)] {
        let path = scratch.path(copy);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        for (page, at) in bytes.chunks(PAGE).zip((0..).step_by(PAGE)) {
            if at < holes_from || page.iter().any(|&byte| byte != 0) {
                file.write_all_at(page, at as u64).unwrap();
            }
        }
        let before = taken(&path);
        assert!(copy != "sparse" || before < used, "{before} of {used} bytes");
        for read_only in [true, false] {
            let mapping = if read_only { Mapping::Read } else { Mapping::Write };
            let of = Mapped::open(&path, mapping).unwrap();
            let in_memory = of.reserved_to(0) > 0;
            let asked = Arc::new(Asked { of, times: 0.into() });
            let pool = options.clone().read_only(read_only).open_on(Arc::clone(&asked)).unwrap();
            let tree: PTree<bristlecone::OneLine, _> = pool.tree("7").unwrap();
            assert_eq!(tree.get(7), Some(8));
            let times = asked.times.load(Ordering::Relaxed);
            println!("{copy}, read only {read_only}: {times} questions, {before} bytes before, {}", taken(&path));
            assert!(!in_memory || copy != "whole" || times < 10, "{copy}: {times}");
            assert!(read_only || taken(&path) >= used, "{copy}: {} of {used} bytes", taken(&path));
        }
    }
}

/// Bytes in use for each byte of the blocks that are alive, at worst.
fn churn(rounds: u64, live: u64, lens: &dyn Fn(&mut Random, u64) -> u64) -> f64 {
    let scratch = Scratch::in_memory();
    let path = scratch.path("a.pool");
    let pool = crate::plain().open(&path).unwrap();
    let map: Values = pool.map("m").unwrap();
    let empty = used(&pool);
    let mut random = Random::new(rounds);
    let mut alive: Vec<(u64, u64)> = Vec::new();
    let (mut next, mut bytes, mut worst) = (0, 0, 0.0_f64);
    let mut all = Vec::new();
    for round in 0..rounds {
        while bytes < live {
            let len = lens(&mut random, round);
            map.insert(next, &value(next, len)).unwrap();
            alive.push((next, len));
            bytes += super::block_for(len);
            next += 1;
        }
        // Two thirds of the leaves' slots.
        let blocks = bytes + alive.len() as u64 * 32;
        let ratio = (used(&pool) - empty) as f64 / blocks as f64;
        all.push((ratio * 100.0).round() / 100.0);
        worst = worst.max(ratio);
        let target = alive.len() / 4;
        while alive.len() > target {
            let (key, len) = alive.swap_remove(random.below(alive.len() as u64) as usize);
            assert!(map.remove(key).unwrap());
            bytes -= super::block_for(len);
        }
    }
    for &(key, len) in &alive {
        assert_eq!(map.get(key).unwrap().unwrap(), value(key, len));
    }
    println!("{rounds} rounds of {live}: {all:?}");
    worst
}

/// Any size; its logarithm is uniform.
fn any_len(random: &mut Random) -> u64 {
    let most = 10 << random.below(12);
    most / 2 + random.below(most)
}

#[test]
fn a_churn_of_sizes_takes_at_most_twice_what_is_alive() {
    let worst = churn(20, 4 * MIB, &|random, _| any_len(random));
    assert!(worst <= 2.0, "{worst}");
}

#[test]
#[ignore = "a measurement"]
fn larger_churns() {
    let mixed = churn(50, 100 * MIB, &|random, _| any_len(random));
    // Each round has sizes that the one before had not.
    let turns = churn(50, 100 * MIB, &|random, round| (20 << (round % 6 * 2)) + random.below(20 << (round % 6 * 2)));
    println!("worst: mixed {mixed:.2}, by turns {turns:.2}");
}
