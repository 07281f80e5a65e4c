//! A segment table with words that are wrong, and whose check bits are right.

use super::{Random, value};
use bristlecone::medium::Dram;
use bristlecone::{ByteLeaf, IndexKind, Map, OneLine, Options, PTree, Pool};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const TREES: u64 = 24;
const TABLE: usize = 12288 / 8;
const SEGMENT: u64 = 1024;
const CAPACITY: u64 = 256 << 10;

type Numbers = Map<u64, Vec<u8>, OneLine, Dram>;
type Texts = Map<String, Vec<u8>, ByteLeaf, Dram>;

fn options() -> Options {
    crate::plain().segment_size(SEGMENT)
}

fn grow(pool: &Pool<Dram>, tree: u64, from: u64) {
    let name = format!("t{tree}");
    match tree % 4 {
        0 => {
            let Ok(tree) = pool.tree_with::<OneLine>(&name, IndexKind::Volatile) else { return };
            (from..from + 20).for_each(|key| drop(tree.insert(key, key)));
        }
        1 => {
            let Ok(tree) = pool.tree_with::<OneLine>(&name, IndexKind::Persistent) else { return };
            (from..from + 40).for_each(|key| drop(tree.insert(key, key)));
        }
        2 => {
            let Ok(map): Result<Numbers, _> = pool.map(&name) else { return };
            (from..from + 10).for_each(|key| drop(map.insert(key, &value(key, key * 37 % 200))));
            let _ = map.insert(from + 10, &value(from + 10, 1500));
        }
        _ => {
            let Ok(map): Result<Texts, _> = pool.map(&name) else { return };
            (from..from + 10).for_each(|key| drop(map.insert(&format!("key {key}"), &value(key, key * 23 % 100))));
        }
    }
}

fn look_and_shrink(pool: &Pool<Dram>, tree: u64) {
    const MANY: usize = 10_000;
    let name = format!("t{tree}");
    match tree % 4 {
        0 | 1 => {
            let index = if tree.is_multiple_of(4) { IndexKind::Volatile } else { IndexKind::Persistent };
            let Ok(tree): Result<PTree<OneLine, Dram>, _> = pool.tree_with(&name, index) else { return };
            assert!(tree.iter().take(MANY).count() < MANY);
            tree.check();
            (0..60).for_each(|key| drop(tree.remove(key)));
            let _ = tree.clear();
        }
        2 => {
            let Ok(map): Result<Numbers, _> = pool.map(&name) else { return };
            assert!(map.iter().take(MANY).count() < MANY);
            map.check();
            (0..10).for_each(|key| drop((map.get(key), map.remove(key))));
            let _ = map.clear();
        }
        _ => {
            let Ok(map): Result<Texts, _> = pool.map(&name) else { return };
            assert!(map.iter().take(MANY).count() < MANY);
            map.check();
            (0..10).for_each(|key| drop((map.get(&format!("key {key}")), map.remove(&format!("key {key}")))));
            let _ = map.clear();
        }
    }
}

/// A pool in use, and the same pool closed.
fn images() -> [Vec<u64>; 2] {
    let pool = options().capacity(CAPACITY).create_on(Dram::zeroed(CAPACITY * 2)).unwrap();
    (0..TREES).for_each(|tree| grow(&pool, tree, 0));
    // Some segments are free.
    pool.drop_tree("t5").unwrap();
    pool.drop_tree("t18").unwrap();
    let words = pool.medium().words();
    let live: Numbers = pool.map("t2").unwrap();
    live.insert(3, b"changed").unwrap();
    let crashed = pool.medium().words();
    drop((live, words));
    let names = pool.trees().unwrap().len() as u64;
    assert_eq!(names, TREES - 2);
    assert!(pool.check().unwrap().is_clean());
    // An orderly close writes the superblock last, which an image of an open medium has not.
    drop(pool);
    let again = std::sync::Arc::new(Dram::from_words(crashed.clone()));
    let shared = options().open_on(std::sync::Arc::clone(&again)).unwrap();
    drop(shared);
    [crashed, again.words()]
}

fn exercise(words: &[u64]) -> bool {
    let Ok(pool) = options().open_on(Dram::from_words(words.iter().copied())) else { return false };
    pool.stat();
    let _ = pool.trees();
    let _ = pool.check();
    (0..TREES).for_each(|tree| grow(&pool, tree, 5));
    let _ = pool.compact();
    (0..TREES).for_each(|tree| look_and_shrink(&pool, tree));
    let _ = pool.check();
    (0..TREES).step_by(3).for_each(|tree| drop(pool.drop_tree(&format!("t{tree}"))));
    (TREES..TREES + 4).for_each(|tree| grow(&pool, tree, 0));
    let _ = (pool.compact(), pool.shrink());
    let _ = pool.close();
    true
}

fn with_check(word: u64, segment: u64) -> u64 {
    let word = word & !(0xff << 13);
    word | ((word ^ segment).wrapping_add(0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) << 13
}

#[test]
fn a_wrong_table_is_an_error_or_a_pool_that_works() {
    let cases: u64 = match std::env::var("BRISTLECONE_SPACE") {
        Ok(what) if what == "all" => 40_000,
        _ => 300,
    };
    let mut random = Random::new(cases);
    let (mut opened, mut slowest) = (0, std::time::Duration::ZERO);
    let images = images();
    for image in &images {
        assert!(exercise(image), "the image itself");
    }
    let used: Vec<u64> = (0..512).filter(|&segment| images[0][TABLE + segment as usize] != 0).collect();
    assert!(used.len() > 50, "{}", used.len());
    for case in 0..cases {
        let mut words = images[(case % 2) as usize].clone();
        let mut changed = Vec::new();
        for _ in 0..1 + random.below(3) {
            // Up to one behind the end.
            let segment = match random.below(used.len() as u64 + 1) {
                n if n < used.len() as u64 => used[n as usize],
                _ => used.last().unwrap() + 1,
            };
            let word = words[TABLE + segment as usize];
            let other = words[TABLE + used[random.below(used.len() as u64) as usize] as usize];
            let (field, width): (u32, u64) = [(0, 4), (4, 9), (21, 16), (37, 27)][random.below(4) as usize];
            let mask = ((1 << width) - 1) << field;
            let new = match random.below(6) {
                0 => word ^ 1 << (field + random.below(width) as u32),
                1 => word & !mask | other & mask,
                2 => other,
                3 => word & !mask | (word.wrapping_add(1 << field)) & mask,
                4 => word & !mask | (random.below(1 << width) << field),
                // Another kind, in most cases one that exists.
                _ => word & !0xf | random.below(9),
            };
            let new = if random.below(30) == 0 { new } else { with_check(new, segment) };
            words[TABLE + segment as usize] = new;
            changed.push((segment, word, new));
        }
        let begin = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| exercise(&words))) {
            Ok(is_open) => opened += u64::from(is_open),
            Err(_) => panic!("case {case}: {changed:x?}"),
        }
        slowest = slowest.max(begin.elapsed());
    }
    println!("{opened} of {cases} opened, the slowest case took {slowest:?}");
    assert!(opened > cases / 10 && opened < cases);
}

/// One byte of a key in a record is wrong, so its entry is not found by it. Records of this size are copied one at a
/// time.
#[test]
fn a_damaged_key_ends_compacting() {
    let pool = crate::plain().create_on(Dram::zeroed(64 << 20)).unwrap();
    let map: Texts = pool.map("t").unwrap();
    let key = |i: u64| format!("key {i:03}");
    (0..36).for_each(|i| assert!(!map.insert(&key(i), &vec![i as u8; 300_000]).unwrap()));
    (0..36).filter(|i| i % 6 > 1).for_each(|i| assert!(map.remove(&key(i)).unwrap()));
    // A record begins with a word, and then has the length of the key.
    drop(map);
    let (mut words, wanted) = (pool.medium().words(), u64::from_ne_bytes(*b"\x07key 018"));
    *words.iter_mut().find(|word| **word == wanted).unwrap() = u64::from_ne_bytes(*b"\x07kez 018");
    // Closed in order, the tree opens without a look at its leaves.
    let pool = crate::plain().open_on(Dram::from_words(words)).unwrap();
    let map: Texts = pool.map("t").unwrap();
    let (send, ended) = mpsc::channel();
    std::thread::spawn(move || send.send(map.compact().map_err(|error| error.to_string())));
    let error = ended.recv_timeout(Duration::from_secs(30)).expect("it ends").unwrap_err();
    assert!(error.contains("not found by its key"), "{error}");
}

/// Segments in use as a whole, where the table says that not one block of their class fits.
#[test]
fn segments_without_a_block_are_compacted_without_a_panic() {
    const SIZE: u64 = 64 << 10;
    let cases = if std::env::var_os("BRISTLECONE_SPACE").is_some() { 40 } else { 6 };
    let mut shortened = 0;
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let options = crate::plain().segment_size(SIZE);
        let medium = Arc::new(Dram::zeroed(16 << 20));
        let pool = options.create_on(Arc::clone(&medium)).unwrap();
        let map: Map<u64, Vec<u8>, OneLine, Arc<Dram>> = pool.map("t").unwrap();
        (0..400u64).for_each(|key| assert!(!map.insert(key, &key.to_ne_bytes().repeat(2000)).unwrap()));
        let words = medium.words();
        let is_of_records = |segment: &u64| {
            let word = words[TABLE + *segment as usize];
            word & 0xf == 4 && (word >> 37) * 8 == 16384
        };
        let mut full = Vec::new();
        for segment in (0..256).filter(is_of_records) {
            let removed = random.below(8).saturating_sub(4);
            for block in 0..removed {
                assert!(map.remove(words[((segment * SIZE + block * 16384) / 8 + 1) as usize]).unwrap());
            }
            if removed == 0 {
                full.push(segment);
            }
        }
        drop(map);
        pool.close().unwrap();
        let mut words = medium.words();
        for segment in full.into_iter().filter(|_| random.below(4) > 0) {
            let word = &mut words[TABLE + segment as usize];
            *word = with_check(*word & !(0x1ff << 4) | 31 << 4, segment);
            shortened += 1;
        }
        let pool = options.open_on(Dram::from_words(words)).unwrap();
        let Ok(map) = pool.map::<u64, Vec<u8>>("t") else { continue };
        let compacted = catch_unwind(AssertUnwindSafe(|| drop(map.compact())));
        assert!(compacted.is_ok(), "seed {seed}");
    }
    assert!(shortened > cases * 5, "{shortened}");
}
