//! Trees of byte strings with damage that no checksum tells, or whose checksums were made to fit.

use crate::damage::Bounded;
use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::{ByteLeaf, Error, ErrorKind, IndexKind, Map, Options, Pool, Result};
use std::sync::mpsc;
use std::time::Duration;

const POOL: u64 = 16 << 20;
/// Where the words of the first root entry are: its head, its close record, and the checksum of that in the upper half.
const HEAD: usize = 8192 / 8 + 3;
const CLOSED: usize = HEAD + 2;
const META: usize = HEAD + 3;
/// Words of a node in the image of an index.
const NODE: usize = 57;

type Of = Map<Vec<u8>, u64, ByteLeaf<4>, Any>;

fn options() -> Options {
    Pool::options().segment_size(16 << 10)
}

fn key(i: u64) -> Vec<u8> {
    format!("k{i:07}").into_bytes()
}

/// The words of a pool.
struct Image(Vec<u64>);

impl Image {
    /// A pool with so many keys; closed, or in use.
    fn of(keys: impl IntoIterator<Item = Vec<u8>>, closed: bool) -> Self {
        let pool = options().create_on(zeroed(POOL)).unwrap();
        let map = open(&pool).unwrap();
        (0..).zip(keys).for_each(|(i, key)| assert!(!map.insert(&key, i).unwrap()));
        let in_use = words_of(pool.medium());
        drop(map);
        Self(if closed { words_of(pool.medium()) } else { in_use })
    }

    fn leaves(&self) -> Vec<usize> {
        let next = |&at: &usize| Some(self.0[at] as usize / 8).filter(|&next| next != 0);
        std::iter::successors(Some(self.0[HEAD] as usize / 8), next).collect()
    }

    /// Flips a bit of a key where its record has it.
    fn flip_in_record(&mut self, key: &[u8], byte: usize) {
        let bytes: Vec<u8> = self.0[..1 << 15].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let behind_its_length = |found: &[u8]| found[0] == key.len() as u8 && found[1..] == *key;
        let at = bytes.windows(key.len() + 1).position(behind_its_length).unwrap() + 1 + byte;
        let mut word = self.0[at / 8].to_ne_bytes();
        word[at % 8] ^= 1;
        self.0[at / 8] = u64::from_ne_bytes(word);
    }

    /// Changes the fingerprint of each entry of a leaf.
    fn change_fingerprints(&mut self, leaf: usize) {
        self.0[leaf + 8..].chunks_mut(2).take(4).filter(|slot| slot[1] != 0).for_each(|slot| slot[1] ^= 2 << 56);
    }

    /// A pool in which a loop that never ends panics.
    fn bounded(self) -> Pool<Any> {
        options().open_on(Bounded::over(holding(self.0), 1_000_000)).unwrap()
    }

    /// Changes the first byte of the low of a leaf.
    fn damage_fence(&mut self, leaf: usize, byte: u8) {
        let word = &mut self.0[leaf + 2];
        let mut bytes = word.to_ne_bytes();
        bytes[0] = byte;
        *word = u64::from_ne_bytes(bytes);
    }

    /// Where the close record begins, and how many words precede the image of the index.
    fn closed(&self) -> (usize, usize) {
        let at = self.0[CLOSED] as usize / 8;
        (at, self.0[at] as usize)
    }

    /// How many nodes the image has.
    fn nodes(&self) -> usize {
        let (at, head) = self.closed();
        self.0[at + head - 3] as usize
    }

    fn node(&self, number: usize) -> Vec<(u64, u64)> {
        let (at, head) = self.closed();
        let words = &self.0[at + head + number * NODE..][..NODE];
        words[1..].chunks(2).take(words[0] as u32 as usize).map(|pair| (pair[0], pair[1])).collect()
    }

    fn set_node(&mut self, number: usize, height: u64, entries: &[(u64, u64)]) {
        let (at, head) = self.closed();
        let words: Vec<u64> = entries.iter().flat_map(|&(name, child)| [name, child]).collect();
        let crc = crc([number as u64, height].into_iter().chain(words.iter().copied()));
        let start = at + head + number * NODE;
        self.0[start] = entries.len() as u64 | u64::from(crc) << 32;
        self.0[start + 1..][..words.len()].copy_from_slice(&words);
    }

    fn set_height(&mut self, height: u64) {
        let (at, head) = self.closed();
        self.0[at + head - 2] = height;
        let crc = crc(self.0[at..at + head].iter().copied());
        self.0[META] = self.0[META] & 0xffff_ffff | u64::from(crc) << 32;
    }

    fn pool(self) -> Pool<Any> {
        options().open_on(holding(self.0)).unwrap()
    }
}

fn open(pool: &Pool<Any>) -> Result<Of> {
    pool.map_with("t", IndexKind::Volatile)
}

fn crc(words: impl IntoIterator<Item = u64>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    words.into_iter().for_each(|word| hasher.update(&word.to_ne_bytes()));
    hasher.finalize()
}

/// Does something that might not end.
#[track_caller]
fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("it ends, and does not panic");
}

/// Opens and reads everything. All keys are found, or it is told why not.
#[track_caller]
fn told(image: Image, keys: u64) {
    ends(move || {
        let pool = image.pool();
        let Ok(map) = open(&pool) else { return };
        let found = (0..keys).filter(|&i| map.get(&key(i)).unwrap() == Some(i)).count() as u64;
        let (up, down) = (map.iter().count() as u64, map.iter().rev().count() as u64);
        assert!([found, up, down] == [keys; 3] || map.fault().is_some(), "{found} found, {up} up, {down} down");
    });
}

#[test]
fn a_damaged_fence_key_is_told() {
    for (keys, leaf, closed) in [(1000, 56, true), (1000, 56, false), (8000, 1568, true), (8000, 1568, false)] {
        for byte in [0xff, b'A'] {
            let mut image = Image::of((0..keys).map(key), closed);
            let at = image.leaves()[leaf];
            image.damage_fence(at, byte);
            told(image, keys);
        }
    }
}

#[test]
fn an_image_with_few_of_the_leaves_is_not_believed() {
    for last in [false, true] {
        let mut image = Image::of((0..10).map(key), true);
        let (_, leaf) = *if last { image.node(0).pop() } else { image.node(0).first().copied() }.as_ref().unwrap();
        image.set_node(0, 0, &[(0, leaf)]);
        told(image, 10);
    }
}

#[test]
fn an_image_in_which_nodes_have_many_parents_is_not_believed() {
    let mut image = Image::of((0..8000).map(key), true);
    let leaf = image.node(0)[0].1;
    let nodes = image.nodes();
    image.set_node(0, 0, &[(0, leaf); 28]);
    (1..nodes).for_each(|i| image.set_node(i, i as u64, &[(0, i as u64 - 1); 28]));
    image.set_height(nodes as u64 - 1);
    told(image, 8000);
}

#[test]
fn an_image_of_absurd_height_is_not_believed() {
    let mut image = Image::of((0..1000).map(key), true);
    let root = image.nodes() - 1;
    let entries = image.node(root);
    image.set_node(root, 1 << 16, &entries);
    image.set_height(1 << 16);
    told(image, 1000);
}

#[test]
fn the_record_of_a_fence_key_is_checked() {
    let mut image = Image::of((0..100u64).map(|i| format!("{}{i:07}", "x".repeat(100)).into_bytes()), true);
    let leaf = image.leaves()[3];
    let record = image.0[leaf + 2] as usize / 8;
    assert_eq!(image.0[record] & 0xffff_ffff, image.0[leaf + 1] >> 32, "the length of the low");
    image.0[record] ^= 1 << 40;
    let map_report = open(&image.pool()).unwrap().check();
    assert!(map_report.violations.iter().any(|broken| broken.invariant.starts_with("V2")), "{map_report:?}");
}

/// One slot has got the offset of the record of an intact slot to its left.
#[test]
fn recovery_empties_no_slot_because_of_a_damaged_one() {
    let mut image = Image::of((0..100).map(key), false);
    let leaves = image.leaves();
    let slot = |leaf: usize| leaves[leaf] + 8 + 1;
    let (intact, damaged) = (image.0[slot(3)], image.0[slot(9)]);
    assert!(intact != 0 && damaged != 0 && intact >> 48 != damaged >> 48);
    image.0[slot(9)] = damaged >> 48 << 48 | intact << 16 >> 16;
    let pool = image.pool();
    assert!(open(&pool).is_err());
    assert_eq!(words_of(pool.medium())[slot(3)], intact);
}

#[track_caller]
fn is_damage<T>(result: Result<T>, invariant: &str) {
    match result.err() {
        Some(Error { kind: ErrorKind::Corrupt { invariant: found, .. }, .. }) => assert_eq!(found, invariant),
        other => panic!("{other:?} instead of {invariant}"),
    }
}

const OTHER_HEAD: &str = "N3: a head of another key";

#[test]
fn what_is_at_an_end_and_is_not_found_is_damage() {
    for (last, n) in [(false, 0), (true, 21)] {
        let pop = |image: Image| {
            let map = open(&image.bounded()).unwrap();
            if last { map.pop_last() } else { map.pop_first() }
        };
        let image = || Image::of((0..22).map(key), false);
        let mut other_key = image();
        other_key.flip_in_record(&key(n), 3);
        is_damage(pop(other_key), OTHER_HEAD);
        let mut not_found = image();
        let leaves = not_found.leaves();
        not_found.change_fingerprints(if last { leaves[leaves.len() - 1] } else { leaves[0] });
        is_damage(pop(not_found), "N3: an entry that is not found by its key");
        assert_eq!(pop(image()).unwrap(), Some((key(n), n)));
    }
}

#[test]
fn a_key_that_is_not_where_its_slot_says_is_told_and_all_others_are_shown() {
    for (n, byte) in [0, 11, 21].into_iter().flat_map(|n| [0, 3, 7].map(|byte| (n, byte))) {
        let mut image = Image::of((0..22).map(key), false);
        image.flip_in_record(&key(n), byte);
        let pool = image.bounded();
        let map = open(&pool).unwrap();
        let mut others: Vec<Vec<u8>> = (0..22).filter(|&i| i != n).map(key).collect();
        let shown = |entries: &mut dyn Iterator<Item = Result<(Vec<u8>, u64)>>| {
            let (good, bad): (Vec<_>, Vec<_>) = entries.partition(Result::is_ok);
            assert_eq!(bad.len(), 1, "{n} {byte}");
            bad.into_iter().for_each(|entry| is_damage(entry, OTHER_HEAD));
            good.into_iter().map(|entry| entry.unwrap().0).collect::<Vec<_>>()
        };
        assert_eq!(shown(&mut map.iter()), others);
        assert_eq!(shown(&mut map.clone().into_iter()), others);
        let mut entries = map.iter();
        let mut views = std::iter::from_fn(|| entries.next_with(|key, value| (key.decode(), value)));
        assert_eq!(shown(&mut views), others);
        assert!(map.fault().is_none());
        assert_eq!(map.keys(..).collect::<Vec<_>>(), others);
        assert!(map.fault().is_some());
        assert_eq!(map.values(..).filter(Result::is_ok).count(), 21);
        let snapshot = pool.snapshot();
        // Neither is the leaf as it is now, nor as it was.
        for _ in 0..2 {
            let before = snapshot.iter(&map).unwrap().collect::<Result<Vec<_>>>();
            is_damage(before, OTHER_HEAD);
            (0..22).filter(|&i| i != n).for_each(|i| assert!(map.insert(&key(i), i).unwrap()));
        }
        let mut transaction = pool.begin();
        is_damage(transaction.range(&map, ..).unwrap().collect::<Result<Vec<_>>>(), OTHER_HEAD);
        drop(transaction);
        is_damage(map.retain(|_, _| true), OTHER_HEAD);
        others.reverse();
        assert_eq!(shown(&mut map.iter().rev()), others);
        assert_eq!(shown(&mut map.clone().into_iter().rev()), others);
        is_damage(map.range(&key(n)[..]..).next().unwrap(), OTHER_HEAD);
    }
}

#[test]
fn a_key_that_is_there_twice_is_told() {
    // Their heads are equal, so only their records tell them apart.
    let keys = ["one head: 0", "one head: 1", "one head: 3"].map(|key| key.as_bytes().to_vec());
    let mut image = Image::of(keys.clone(), false);
    image.flip_in_record(&keys[0], 10);
    let map = open(&image.bounded()).unwrap();
    let read: Vec<_> = map.iter().collect();
    assert_eq!(read[0].as_ref().unwrap().0, keys[1]);
    assert_eq!(read[2].as_ref().unwrap().0, keys[2]);
    is_damage(read.into_iter().nth(1).unwrap(), "N3: a key twice in a leaf");
}
