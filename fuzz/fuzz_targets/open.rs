//! Any bytes as a pool: an error or wrong values; never a panic, never an endless loop, never undefined behaviour.
//!
//! ```text
//! 0      what: bits 0 to 2 the tree, bit 3 closed or in use, bit 4 the bytes are the pool itself, bit 5 checksums made right
//! 1      how many faults follow
//! ...    faults: word 16, how 8, value 8 (how says where the rest of the value comes from)
//! ...    what is done then, a byte or three each
//! ```
//!
//! Random bytes hardly ever get beyond the superblock. So most inputs are faults in a pool that was whole, and after that the
//! checksums may be made right again, as somebody with bad intentions would.
//!
//! `BRISTLECONE_WRITE_SEEDS=fuzz/seeds/open cargo fuzz run open` writes the seeds.
#![no_main]

use bristlecone::medium::Dram;
use bristlecone::{Circular, Index, Linear, Map, Node, Options, PTree, Persistent, Pool, Volatile};
use libfuzzer_sys::fuzz_target;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const HEADER: u64 = 12288;
const CAPACITY: u64 = HEADER + 40 * 1024;
const ROOTS: usize = 8192;
const TABLE: usize = ROOTS + 3 * 256;
const TREES: u8 = 8;
/// More than any tree here has entries.
const ENDLESS: usize = 100_000;

fn options() -> Options {
    Pool::options().segment_size(1024).max_capacity(CAPACITY).max_trees(3)
}

fuzz_target!(init: begin(), |data: &[u8]| {
    let _watched = Watched::new();
    let mut data = Data(data);
    let what = data.byte();
    let words = if what & 16 != 0 { data.pool() } else { damaged(what, &mut data) };
    let rest = data.0;
    match what % TREES {
        0 => tree::<Circular<4>, Volatile>(words, rest),
        1 => tree::<Circular<4>, Persistent>(words, rest),
        2 => tree::<Linear<4>, Volatile>(words, rest),
        3 => tree::<Linear<4>, Persistent>(words, rest),
        4 => map::<Circular<4>, Volatile>(words, rest),
        5 => map::<Circular<4>, Persistent>(words, rest),
        6 => map::<Linear<4>, Volatile>(words, rest),
        _ => map::<Linear<4>, Persistent>(words, rest),
    }
});

/// Reads the input; beyond its end there are zeros.
struct Data<'d>(&'d [u8]);

impl Data<'_> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().map_or((0, self.0), |(&byte, rest)| (byte, rest));
        self.0 = rest;
        byte
    }

    fn word16(&mut self) -> u64 {
        u64::from(self.byte()) | u64::from(self.byte()) << 8
    }

    fn pool(&mut self) -> Vec<u64> {
        let mut bytes = std::mem::take(&mut self.0).to_vec();
        bytes.resize(bytes.len().max(CAPACITY as usize), 0);
        bytes.truncate(4 * CAPACITY as usize);
        bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default())).collect()
    }
}

/// A whole pool of one of the trees, in use or closed.
fn whole(what: u8) -> &'static [u64] {
    static IMAGES: [OnceLock<Vec<u64>>; 2 * TREES as usize] = [const { OnceLock::new() }; 2 * TREES as usize];
    IMAGES[usize::from(what % (2 * TREES))].get_or_init(|| {
        let pool = options().create_on(Dram::zeroed(CAPACITY)).unwrap();
        let closed = what & 8 != 0;
        match what % TREES {
            0 => fill_tree::<Circular<4>, Volatile>(&pool, closed),
            1 => fill_tree::<Circular<4>, Persistent>(&pool, closed),
            2 => fill_tree::<Linear<4>, Volatile>(&pool, closed),
            3 => fill_tree::<Linear<4>, Persistent>(&pool, closed),
            4 => fill_map::<Circular<4>, Volatile>(&pool, closed),
            5 => fill_map::<Circular<4>, Persistent>(&pool, closed),
            6 => fill_map::<Linear<4>, Volatile>(&pool, closed),
            _ => fill_map::<Linear<4>, Persistent>(&pool, closed),
        }
    })
}

fn fill_tree<N: Node, I: Index>(pool: &Pool<Dram>, closed: bool) -> Vec<u64> {
    let tree: PTree<N, I, Dram> = pool.tree("t").unwrap();
    for n in 0..44 {
        tree.insert(n * 37 % 64, n).unwrap();
    }
    tree.insert(u64::MAX, 1).unwrap();
    for n in (0..44).filter(|n| n % 9 < 4) {
        tree.remove(n * 37 % 64).unwrap();
    }
    image(pool, tree, closed)
}

fn fill_map<N: Node, I: Index>(pool: &Pool<Dram>, closed: bool) -> Vec<u64> {
    let map: Map<u64, Vec<u8>, N, I, Dram> = pool.map("t").unwrap();
    for n in 0..24 {
        map.insert(n * 37 % 64, &record(n as u8)).unwrap();
    }
    for n in (0..24).filter(|n| n % 9 < 4) {
        map.remove(n * 37 % 64).unwrap();
    }
    image(pool, map, closed)
}

fn record(n: u8) -> Vec<u8> {
    vec![n; [0, 3, 24, 60, 200, 1500, 32][usize::from(n % 7)]]
}

fn image<T>(pool: &Pool<Dram>, open: T, closed: bool) -> Vec<u64> {
    let in_use = pool.medium().words();
    drop(open);
    if closed { pool.medium().words() } else { in_use }
}

/// A whole pool with faults.
fn damaged(what: u8, data: &mut Data<'_>) -> Vec<u64> {
    let mut words = whole(what % (2 * TREES)).to_vec();
    let first = HEADER as usize / 8;
    for _ in 0..data.byte() % 32 {
        // Mostly in what is in use: the header's few words, and the blocks.
        let at = match data.word16() as usize % 4096 {
            near if near < 48 => near / 16 * 512 + near % 16,
            near if near < 128 => ROOTS / 8 + (near - 48) % 32,
            near if near < 192 => TABLE / 8 + near - 128,
            far => first + (far - 192) % (words.len() - first),
        };
        let (how, value) = (data.byte(), data.byte());
        let old = words[at];
        words[at] = match how % 8 {
            0 => old ^ u64::from(value) << (how / 8 % 8 * 8),
            1 => HEADER + u64::from(value) * 128 + u64::from(how / 8),
            2 => words[(at + usize::from(value)) % 4096],
            3 => u64::from(value),
            4 => u64::MAX - u64::from(value),
            5 => old.wrapping_add(u64::from(value)),
            6 => old.wrapping_sub(u64::from(value)),
            _ => u64::from(value) << 32 | old & 0xffff_ffff,
        };
    }
    if what & 32 != 0 {
        forge(&mut words);
    }
    words
}

fn crc(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    crc32fast::hash(&bytes).into()
}

/// Makes every checksum right: of the superblocks, the roots, the close records and the segment table.
fn forge(words: &mut [u64]) {
    for twin in [0, 512] {
        let crc = crc(&words[twin..twin + 15]);
        words[twin + 15] = crc | !crc << 32;
    }
    for root in (ROOTS / 8..TABLE / 8).step_by(32) {
        if words[root] != 0 {
            let fixed = [&[words[root + 1], words[root + 2], words[root + 7]], &words[root + 8..root + 23]].concat();
            words[root] = words[root] & 0xffff_ffff | crc(&fixed) << 32;
        }
        let (closed, len) = (words[root + 5] as usize / 8, words[root + 6] as u32 as usize);
        if let Some(record) = words.get(closed..closed.saturating_add(len)) {
            words[root + 6] = len as u64 | crc(record) << 32;
        }
    }
    for segment in 0..40 {
        let word = words[TABLE / 8 + segment] & !0xff00;
        if word != 0 {
            let check = (word ^ segment as u64).wrapping_add(0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
            words[TABLE / 8 + segment] = word | check << 8;
        }
    }
}

fn open(words: Vec<u64>) -> Option<Pool<Dram>> {
    let pool = options().open_on(Dram::from_words(words)).ok()?;
    let _ = pool.trees();
    let _ = pool.check();
    // Reading only: nothing changes.
    let before = pool.medium().words();
    if let Ok(reader) = options().read_only(true).open_on(Dram::from_words(before.clone())) {
        let _ = reader.check();
        assert!(reader.tree::<Circular<4>, Volatile>("t").is_err());
    }
    // Any other tree of that name is a mismatch.
    let _ = pool.map::<u8, bool, Circular<8>, Volatile>("t").map(|map| map.iter().take(ENDLESS).count());
    Some(pool)
}

fn tree<N: Node, I: Index>(words: Vec<u64>, steps: &[u8]) {
    let Some(pool) = open(words) else { return };
    let Ok(mut tree) = pool.tree::<N, I>("t") else { return };
    let mut data = Data(steps);
    for _ in 0..96 {
        if data.0.is_empty() {
            break;
        }
        let (verb, key, value) = (data.byte(), data.byte(), data.byte());
        let key = if key == 255 { u64::MAX } else { key.into() };
        let value = value.into();
        match verb % 12 {
            0..=3 => drop(tree.insert(key, value)),
            4 | 5 => drop(tree.remove(key)),
            6 => drop(tree.compare_exchange(key, tree.get(key), (value % 2 == 0).then_some(value))),
            7 => assert!(tree.range(key..).take(ENDLESS).count() < ENDLESS),
            8 => assert!(tree.range(..=key).rev().take(ENDLESS).count() < ENDLESS),
            9 => drop((0..value).try_for_each(|n| tree.insert(key.wrapping_add(n * 3), n).map(drop))),
            10 => drop((0..value).try_for_each(|n| tree.remove(key.wrapping_add(n)).map(drop))),
            _ => match value % 4 {
                0 => drop(tree.clear()),
                1 => drop(tree.bulk_load((0..key % 256).map(|n| (n, n)))),
                2 => drop((tree.check(), tree.update(key, 1), tree.last_key_value())),
                _ => {
                    drop(tree);
                    tree = match pool.tree("t") {
                        Ok(tree) => tree,
                        Err(_) => return,
                    };
                }
            },
        }
    }
    assert!(tree.iter().take(ENDLESS).count() < ENDLESS);
    tree.check();
    drop(tree);
    let words = pool.medium().words();
    let _ = pool.drop_tree("t");
    let _ = pool.tree::<N, I>("u").map(|tree| tree.insert(1, 1));
    if let Ok(pool) = options().open_on(Dram::from_words(words)) {
        let _ = pool.tree::<N, I>("t").map(|tree| tree.iter().rev().take(ENDLESS).count());
    }
}

fn map<N: Node, I: Index>(words: Vec<u64>, steps: &[u8]) {
    let Some(pool) = open(words) else { return };
    let Ok(mut map) = pool.map::<u64, Vec<u8>, N, I>("t") else { return };
    let mut data = Data(steps);
    for _ in 0..96 {
        if data.0.is_empty() {
            break;
        }
        let (verb, key, value) = (data.byte(), data.byte(), data.byte());
        let key = key.into();
        match verb % 8 {
            0..=2 => drop(map.insert(key, &record(value))),
            3 => drop(map.remove(key)),
            4 => drop((map.get(key), map.insert_new(key, &record(value)))),
            5 => assert!(map.range(key..).take(ENDLESS).count() < ENDLESS),
            6 => drop((0..value.into()).try_for_each(|n| map.remove(key + n).map(drop))),
            _ => match value % 4 {
                0 => drop(map.clear()),
                1 => drop(map.bulk_load((0..key % 64).map(|n| (n, &b"loaded"[..])))),
                2 => drop((map.check(), map.update(key, b"u"), map.iter().rev().take(ENDLESS).count())),
                _ => {
                    drop(map);
                    map = match pool.map("t") {
                        Ok(map) => map,
                        Err(_) => return,
                    };
                }
            },
        }
    }
    assert!(map.iter().take(ENDLESS).count() < ENDLESS);
    map.check();
    drop(map);
    let words = pool.medium().words();
    let _ = pool.drop_tree("t");
    if let Ok(pool) = options().open_on(Dram::from_words(words)) {
        let _ = pool.map::<u64, Vec<u8>, N, I>("t").map(|map| map.iter().rev().take(ENDLESS).count());
    }
}

/// When the input at work was begun.
static BEGUN: Mutex<Option<Instant>> = Mutex::new(None);

struct Watched;

impl Watched {
    fn new() -> Self {
        *BEGUN.lock().unwrap() = Some(Instant::now());
        Self
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        *BEGUN.lock().unwrap() = None;
    }
}

/// Ends the process if an input takes too long: the fuzzer itself would wait for 20 minutes.
fn begin() {
    if let Some(folder) = std::env::var_os("BRISTLECONE_WRITE_SEEDS") {
        seeds(folder.as_ref());
        std::process::exit(0);
    }
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let begun = *BEGUN.lock().unwrap();
            if begun.is_some_and(|begun| begun.elapsed() > Duration::from_secs(60)) {
                eprintln!("an endless loop or a deadlock");
                std::process::abort();
            }
        }
    });
}

/// Inputs to start from: every pool, whole and with a fault of every kind, used in every way; and one as bytes.
fn seeds(folder: &std::path::Path) {
    std::fs::create_dir_all(folder).unwrap();
    let write = |name: String, bytes: Vec<u8>| std::fs::write(folder.join(name), bytes).unwrap();
    let steps: Vec<u8> = (0..40u32).flat_map(|n| [n, n * 37, n * 11]).map(|word| word as u8).collect();
    for what in 0..2 * TREES {
        write(format!("whole-{what}"), [&[what, 0], &steps[..]].concat());
        for how in [0, 1, 4, 7] {
            let w = u32::from(what);
            let fault = |n: u32| [how * 29 + n * 50 + w, n * 5, how + n * 8, n * 17 + w];
            let faults: Vec<u8> = (0..4).flat_map(fault).map(|word| word as u8).collect();
            let forged = if how % 2 == 0 { 0 } else { 32 };
            write(format!("damaged-{what}-{how}"), [&[what | forged, 4], &faults[..], &steps[..]].concat());
        }
    }
    let used = |words: &[u64]| words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    for what in [1, 8] {
        let words = whole(what);
        let bytes = words[..used(words)].iter().flat_map(|word| word.to_le_bytes());
        write(format!("bytes-{what}"), std::iter::once(16 | what % TREES).chain(bytes).collect());
    }
}
