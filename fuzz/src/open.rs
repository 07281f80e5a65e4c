//! Any bytes as a pool: errors or wrong values are allowed, but never a panic, an endless loop, or undefined behaviour.
//!
//! ```text
//! 0      the kind of the tree
//! 1      bit 0 records, bit 1 closed or in use, bit 2 the bytes are the pool itself, bit 3 checksums made right,
//!        bits 4 to 6 what keys are that are byte strings
//! 2      how many faults follow
//! ...    faults: word 16, how 8, value 8 (how says where the rest of the value comes from)
//! ...    what is done then, a byte or three each
//! ```
//!
//! Random bytes hardly ever get beyond the superblock. So most inputs are faults in a pool that was whole. After that
//! the checksums may be made right again, as an attacker would.

use crate::Seeds;
use crate::data::Data;
use crate::strings::{self, Strings};
use crate::trees::{self, HEADER, KIND_COUNT, Tree, holding, options, words_of, zeroed};
use bristlecone::IndexKind;
use bristlecone::papers::Circular;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Mutex, OnceLock};

const CAPACITY: u64 = HEADER + 40 * 1024;
const ROOTS: usize = 8192;
const TABLE: usize = ROOTS + 3 * 256;
/// More entries than any tree here has.
const ENDLESS: usize = 20_000;
const STEPS: usize = 48;

const RECORDS: u8 = 1;
const CLOSED: u8 = 2;
const BYTES: u8 = 4;
const FORGED: u8 = 8;
const STRINGS: u8 = 7 << 4;
/// Keys are less than this, or the greatest ones.
const FEW_KEYS: usize = 448;

pub fn run(data: &[u8]) {
    let mut data = Data(data);
    let (kind, what) = (data.byte(), data.byte());
    let words = if what & BYTES != 0 { pool_of(&mut data) } else { damaged(kind, what, &mut data) };
    use_it(kind, what & RECORDS != 0, &strings(what), words, data);
}

/// The keys, if they are byte strings.
fn strings(what: u8) -> Strings {
    static STRINGS_OF: [OnceLock<Strings>; strings::SEEDS.len()] = [const { OnceLock::new() }; strings::SEEDS.len()];
    let i = usize::from((what & STRINGS) >> 4) % STRINGS_OF.len();
    STRINGS_OF[i].get_or_init(|| Strings::read(&mut Data(strings::SEEDS[i]), FEW_KEYS)).clone()
}

/// The rest of the input, as a pool of 12 to 52 KiB.
fn pool_of(data: &mut Data<'_>) -> Vec<u64> {
    let mut bytes = std::mem::take(&mut data.0).to_vec();
    bytes.resize(bytes.len().clamp(HEADER as usize, CAPACITY as usize), 0);
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default())).collect()
}

/// A whole pool of one of the trees, in use or closed.
fn whole(kind: u8, what: u8) -> Vec<u64> {
    static IMAGES: Mutex<Option<HashMap<(usize, u8), Vec<u64>>>> = Mutex::new(None);
    let key = (trees::kind_number(kind), what & (RECORDS | CLOSED | STRINGS));
    let mut images = IMAGES.lock().unwrap();
    images.get_or_insert_default().entry(key).or_insert_with(|| fill(kind, what)).clone()
}

fn fill(kind: u8, what: u8) -> Vec<u64> {
    let medium = zeroed(CAPACITY);
    let pool = options().create_on(medium.clone()).unwrap();
    let records = what & RECORDS != 0;
    let tree = trees::kind(kind).open(&pool, "t", records, &strings(what)).unwrap();
    // Fewer entries where there is no room.
    let count = if records { 16 } else { 44 };
    let _ = (0..count).try_for_each(|n| tree.insert(n * 37 % 64, n).map(drop));
    let _ = tree.insert(u64::MAX, 1);
    let _ = (0..count).filter(|n| n % 9 < 4).try_for_each(|n| tree.remove(n * 37 % 64).map(drop));
    let in_use = words_of(&pool);
    drop(tree);
    if what & CLOSED == 0 {
        return in_use;
    }
    drop(pool);
    let mut words = vec![0; medium.accessible() as usize / 8];
    medium.load_words(0, &mut words);
    words
}

/// A whole pool with faults.
fn damaged(kind: u8, what: u8, data: &mut Data<'_>) -> Vec<u64> {
    let mut words = whole(kind, what);
    let first = HEADER as usize / 8;
    for _ in 0..data.byte() % 32 {
        // Most faults are in words that are in use: the header's few words, and the blocks.
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
    if what & FORGED != 0 {
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

fn use_it(kind: u8, records: bool, strings: &Strings, words: Vec<u64>, mut data: Data<'_>) {
    let kind = trees::kind(kind);
    // Only reading, which changes nothing.
    if let Ok(reader) = options().read_only(true).open_on(holding(words.clone())) {
        let _ = (reader.trees(), reader.check());
        assert!(reader.tree_with::<Circular<4>>("t", IndexKind::Volatile).is_err());
        assert!(words_of(&reader) == words);
    }
    let Ok(pool) = options().open_on(holding(words)) else { return };
    // A tree opened with other types is a mismatch.
    assert!(pool.map_with::<u8, bool, Circular<4>>("t", IndexKind::Volatile).is_err() || pool.trees().is_ok());
    let Ok(mut tree) = kind.open(&pool, "t", records, strings) else { return };
    for _ in 0..STEPS {
        if data.is_empty() {
            break;
        }
        match step(&*tree, &mut data) {
            Then::On => {}
            Then::Reopen => {
                drop(tree);
                tree = match kind.open(&pool, "t", records, strings) {
                    Ok(tree) => tree,
                    Err(_) => return,
                };
            }
        }
    }
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert!(tree.range(all, ENDLESS).is_ok_and(|entries| entries.len() < ENDLESS) || !tree.tells_values());
    tree.check();
    let in_use = words_of(&pool);
    drop(tree);
    let _ = (pool.check(), pool.drop_tree("t"));
    let _ = kind.open(&pool, "u", !records, strings).map(|tree| tree.insert(1, 1).map(drop));
    if let Ok(pool) = options().open_on(holding(in_use)) {
        let _ = kind.open(&pool, "t", records, strings).map(|tree| tree.backwards(all, ENDLESS).map(drop));
    }
}

/// What to do next with the tree.
enum Then {
    On,
    Reopen,
}

fn step(tree: &dyn Tree, data: &mut Data<'_>) -> Then {
    let (verb, key, value) = (data.byte(), data.byte(), data.byte());
    let key = if key == 255 { u64::MAX } else { key.into() };
    let value = u64::from(value);
    match verb % 12 {
        0..=3 => drop(tree.insert(key, value)),
        4 | 5 => drop(tree.remove(key)),
        6 => {
            let current = tree.get(key).unwrap_or(None);
            drop(tree.compare_exchange(key, current, (value % 2 == 0).then_some(value)));
        }
        7 => {
            let found = tree.range((Bound::Included(key), Bound::Unbounded), ENDLESS);
            assert!(found.is_err() || found.is_ok_and(|entries| entries.len() < ENDLESS));
        }
        8 => {
            let found = tree.backwards((Bound::Unbounded, Bound::Included(key)), ENDLESS);
            assert!(found.is_err() || found.is_ok_and(|entries| entries.len() < ENDLESS));
        }
        9 => drop((0..value % 64).try_for_each(|n| tree.insert(key.wrapping_add(n * 3), n).map(drop))),
        10 => drop((0..value % 64).try_for_each(|n| tree.remove(key.wrapping_add(n)).map(drop))),
        _ => match value % 5 {
            0 => drop(tree.clear()),
            1 => drop(tree.bulk_load(&(0..key % 64).map(|n| (n, n)).collect::<Vec<_>>())),
            2 => drop((tree.check(), tree.update(key, 1), tree.last(), tree.len(), tree.with_prefix(key, 1))),
            3 => drop(tree.insert_batch(&(0..key % 16).map(|n| (n * 7, n)).collect::<Vec<_>>())),
            _ => return Then::Reopen,
        },
    }
    Then::On
}

/// Every pool, whole and with a fault of every kind, used in every way; and one pool as bytes.
pub fn seeds() -> Seeds {
    let steps: Vec<u8> = (0..40u32).flat_map(|n| [n, n * 37, n * 11]).map(|word| word as u8).collect();
    let mut seeds = Seeds::new();
    // The last kind has byte strings, which are of five kinds.
    let last = KIND_COUNT as u8 - 1;
    for (kind, strings) in (0..last).map(|kind| (kind, 0)).chain((0..5).map(|n| (last + n, n << 4))) {
        let what = kind % 4 | strings;
        seeds.push((format!("whole-{kind}"), [&[kind, what, 0], &steps[..]].concat()));
        for how in [0, 1, 4, 7] {
            let w = u32::from(kind);
            let fault = |n: u32| [how * 29 + n * 50 + w, n * 5, how + n * 8, n * 17 + w];
            let faults: Vec<u8> = (0..4).flat_map(fault).map(|word| word as u8).collect();
            let forged = if how % 2 == 0 { 0 } else { FORGED };
            let what = (what + how as u8) % 4 | strings | forged;
            seeds.push((format!("damaged-{kind}-{how}"), [&[kind, what, 4], &faults[..], &steps[..]].concat()));
        }
    }
    let words = whole(0, CLOSED);
    let used = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    let bytes: Vec<u8> = words[..used].iter().flat_map(|word| word.to_le_bytes()).collect();
    // What once found something.
    for (name, bytes) in [
        ("free_twice", &include_bytes!("../seeds/open/free_twice")[..]),
        ("two_owners", include_bytes!("../seeds/open/two_owners")),
    ] {
        seeds.push((name.to_owned(), bytes.to_vec()));
    }
    seeds.push(("bytes".to_owned(), [&[0, BYTES], &bytes[..]].concat()));
    seeds
}
