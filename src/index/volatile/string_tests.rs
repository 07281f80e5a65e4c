//! Tests of the index with strings of all shapes, which a map of strings does as well.

use super::VolatileIndex;
use super::image::image_of;
use super::node::WIDTH;
use super::tests::check;
use crate::effort::long;
use crate::entry::byte_key::ByteKey;
use crate::index::separators::{Lows, Strings};
use crate::random::Random;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

/// The lows of leaves, by name.
#[derive(Default)]
struct Kept {
    strings: RwLock<Vec<Box<[u8]>>>,
    reads: AtomicUsize,
    /// Every string is the empty one: a planted bug.
    lies: AtomicBool,
}

impl Lows for Arc<Kept> {
    fn with<R>(&self, name: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let string = self.strings.read().unwrap().get(name as usize - 1).cloned().unwrap_or_default();
        read(if self.lies.load(Ordering::Relaxed) { &[] } else { &string })
    }
}

impl Kept {
    /// The name of a new leaf with this low.
    fn name(&self, string: &[u8]) -> u64 {
        let mut strings = self.strings.write().unwrap();
        strings.push(string.into());
        strings.len() as u64
    }
}

type Index = VolatileIndex<Strings<Arc<Kept>>>;

/// An index and what it should be: separators, with their names and leaves.
struct Trial {
    kept: Arc<Kept>,
    index: Index,
    model: BTreeMap<Vec<u8>, (u64, u64)>,
}

impl Trial {
    /// With the first separator alone.
    fn new() -> Self {
        let kept = Arc::new(Kept::default());
        let index = VolatileIndex::with_separators(Strings(Arc::clone(&kept)));
        index.post(0, 77);
        Self { kept, index, model: BTreeMap::from([(Vec::new(), (0, 77))]) }
    }

    /// Posts a new leaf. It takes over the separator if there is one.
    fn post(&mut self, low: &[u8]) {
        let leaf = self.kept.name(low);
        self.index.post(leaf, leaf);
        let name = if low.is_empty() { 0 } else { leaf };
        self.model.insert(low.to_vec(), (name, leaf));
    }

    fn withdraw(&mut self, low: &[u8]) {
        let Some((name, leaf)) = self.model.get(low).copied().filter(|(name, _)| *name > 0) else {
            let leaf = self.kept.name(low);
            assert_eq!(self.index.withdraw(leaf), None, "no leaf of that name is there");
            return;
        };
        assert_eq!(self.index.withdraw(name), Some(leaf));
        self.model.remove(low);
    }

    fn look(&self, key: &[u8]) {
        let (at, before) = (ByteKey::at(key), ByteKey::before(key));
        let found = self.model.range(..=key.to_vec()).next_back().map(|(_, (_, leaf))| *leaf);
        assert_eq!(self.index.floor(at), found, "{key:?}");
        assert_eq!(self.index.floor_at_once(at), found);
        assert_eq!(self.index.named_at_once(at).map(|named| named.leaf()), found);
        assert_eq!(self.index.run_at_once(at).map(|run| run[0]), found);
        if !key.is_empty() {
            let left = self.model.range(..key.to_vec()).next_back().map(|(_, (_, leaf))| *leaf);
            assert_eq!(self.index.floor(before), left, "before {key:?}");
        }
    }

    /// Compares everything.
    fn same(&self) {
        check(&self.index).unwrap();
        let mut all = Vec::new();
        assert!(self.index.for_each(|name, leaf| all.push((name, leaf))));
        assert!(all.iter().eq(self.model.values()));
        let lows: Vec<&Vec<u8>> = self.model.keys().collect();
        for low in &lows {
            let (last, but_last) = low.split_last().map_or((0, &[][..]), |(last, but_last)| (*last, but_last));
            self.look(low);
            self.look(but_last);
            self.look(&[low, &[0][..]].concat());
            self.look(&[low, &[0xff; 9][..]].concat());
            self.look(&[but_last, &[last.wrapping_add(1)]].concat());
            self.look(&[but_last, &[last.wrapping_sub(1), 0xff]].concat());
        }
        for group in lows.chunks(11) {
            let keys: Vec<ByteKey<'_>> = group.iter().map(|low| ByteKey::at(low)).collect();
            let found = self.index.floors_at_once(&keys);
            let named = self.index.nameds_at_once(&keys);
            for ((low, found), named) in group.iter().zip(found).zip(&named) {
                assert_eq!(found, Some(self.model[*low].1));
                assert_eq!(named.as_ref().map(|named| (named.leaf(), named.still())), found.map(|leaf| (leaf, true)));
            }
        }
    }

    /// Learns everything anew, or takes it from an image.
    fn reopen(&mut self, learns: bool) {
        let pairs: Vec<(u64, u64)> = self.model.values().copied().collect();
        if learns {
            self.index.learn(pairs.into_iter());
            return;
        }
        let (words, top) = image_of(pairs);
        self.index = VolatileIndex::with_separators(Strings(Arc::clone(&self.kept)));
        let node = move |node, height, _| top.node((node, height), |i| words[i as usize], |_| true);
        assert!(self.index.restore(top, Box::new(node)));
        let mut len = 0;
        assert!(self.index.for_each(|_, _| len += 1) && len == self.model.len());
        // Loads all nodes.
        self.model.keys().for_each(|low| self.look_again(low));
    }

    fn look_again(&self, low: &[u8]) {
        assert_eq!(self.index.floor(ByteKey::at(low)), Some(self.model[low].1));
    }
}

type Shape = fn(&mut Random) -> Vec<u8>;

/// Up to `most` of these bytes, so that many strings are equal, or the start of others.
fn of(random: &mut Random, bytes: &[u8], most: u64) -> Vec<u8> {
    (0..random.below(most + 1)).map(|_| bytes[random.below(bytes.len() as u64) as usize]).collect()
}

fn shared(random: &mut Random, shared: usize, most: u64) -> Vec<u8> {
    [&vec![b's'; shared][..], &of(random, b"\0ab\xff", most)].concat()
}

const SHAPES: [Shape; 12] = [
    |random| of(random, b"\0", 2000),
    |random| of(random, b"\xff", 2000),
    |random| of(random, b"\0\xff", 12),
    |random| of(random, b"\0a\xff", 30),
    |random| of(random, b"abcdefgh", 5),
    |random| (0..16).map(|_| random.next() as u8).collect(),
    |random| shared(random, 7, 6),
    |random| shared(random, 8, 6),
    |random| shared(random, 9, 12),
    |random| shared(random, 16, 20),
    |random| shared(random, 300, 6),
    // Several groups; the strings of a group share much.
    |random| {
        let group = random.below(7) as usize;
        [&[b'a' + group as u8][..], &vec![0xff; 20 * group], &random.below(500).to_be_bytes()].concat()
    },
];

#[test]
fn does_what_a_map_of_strings_does() {
    let steps = if cfg!(miri) {
        60
    } else if long() {
        3000
    } else {
        900
    };
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let mut random = Random(0x9e37 + number as u64);
        let mut trial = Trial::new();
        for step in 0..steps {
            // It grows, shrinks and grows.
            let inserts = if step / (steps / 3) == 1 { 2 } else { 8 };
            let string = shape(&mut random);
            match random.below(12) {
                0 => trial.look(&string),
                1 => trial.withdraw(&string),
                choice if choice < 2 + inserts => trial.post(&string),
                _ => {
                    let some = trial.model.range(string..).next().map(|(low, _)| low.clone());
                    trial.withdraw(&some.unwrap_or_default());
                }
            }
            if step % (steps / 6) == 0 {
                trial.same();
                trial.reopen(random.below(2) == 0);
                trial.same();
            }
        }
        trial.same();
    }
}

#[test]
fn ascending_and_descending_loads() {
    let count = if cfg!(miri) {
        70
    } else if long() {
        2000
    } else {
        500
    };
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let mut random = Random(0x51ab + number as u64);
        let mut strings: Vec<Vec<u8>> = (0..count).map(|_| shape(&mut random)).collect();
        strings.sort_unstable();
        for descends in [false, true] {
            let mut trial = Trial::new();
            strings.iter().for_each(|string| trial.post(string));
            trial.same();
            let half = count / 2;
            strings.iter().take(half).for_each(|string| trial.withdraw(string));
            trial.same();
            if !descends {
                strings.reverse();
            }
        }
    }
}

/// The longest strings there are, which differ in their last byte, or share more than can be skipped.
#[test]
fn the_longest_strings() {
    let mut trial = Trial::new();
    let letters = vec![b'l'; 1 << 16];
    for last in (0..2 * WIDTH as u8).rev() {
        trial.post(&[&letters[1..], &[last * 3]].concat());
        trial.post(&[&letters[..20_000], &[last * 2]].concat());
    }
    trial.post(&letters);
    check(&trial.index).unwrap();
    for last in (0..=255).step_by(if long() { 1 } else { 5 }) {
        trial.look(&[&letters[1..], &[last]].concat());
        trial.look(&[&letters[..20_000], &[last, 7]].concat());
    }
    trial.look(&letters);
    trial.look(&letters[..9]);
    trial.look(b"m");
}

/// Heads that differ decide alone. Equal ones do not: without the strings, answers would be wrong.
#[test]
fn only_ties_are_settled_by_strings() {
    let floor_reads = |trial: &Trial, keys: &[Vec<u8>]| {
        let before = trial.kept.reads.load(Ordering::Relaxed);
        keys.iter().for_each(|key| trial.look_again(key));
        trial.kept.reads.load(Ordering::Relaxed) - before
    };
    let wrong = |trial: &Trial, keys: &[Vec<u8>]| {
        trial.kept.lies.store(true, Ordering::Relaxed);
        let right = |key: &&Vec<u8>| trial.index.floor(ByteKey::at(key)) == Some(trial.model[*key].1);
        let wrong = keys.len() - keys.iter().filter(right).count();
        trial.kept.lies.store(false, Ordering::Relaxed);
        wrong
    };
    // Those of a group differ only behind the bytes of a head, wherever it begins, and the groups differ before.
    let mut ties = Trial::new();
    for group in b'a'..b'e' {
        (0..5).for_each(|last| ties.post(&[&[group][..], &[b'-'; 30], &[last]].concat()));
    }
    ties.same();
    let keys: Vec<Vec<u8>> = ties.model.keys().skip(1).cloned().collect();
    assert!(floor_reads(&ties, &keys) >= keys.len());
    assert!(wrong(&ties, &keys) > 0);

    let mut clear = Trial::new();
    (0..30u64).for_each(|i| clear.post(&[&b"clear"[..], &(i * 2).to_be_bytes()].concat()));
    clear.same();
    let between: Vec<Vec<u8>> = (0..30u64).map(|i| [&b"clear"[..], &(i * 2 + 1).to_be_bytes()].concat()).collect();
    let before = clear.kept.reads.load(Ordering::Relaxed);
    between.iter().for_each(|key| assert!(clear.index.floor(ByteKey::at(key)).is_some()));
    assert_eq!(clear.kept.reads.load(Ordering::Relaxed), before);
}

/// A leaf takes over the separator of another one, wherever that is stored.
#[test]
fn another_leaf_with_the_same_separator() {
    let mut trial = Trial::new();
    let strings: Vec<Vec<u8>> = (0..1500u32).map(|i| format!("string{i:06}").into_bytes()).collect();
    strings.iter().for_each(|string| trial.post(string));
    strings.iter().for_each(|string| trial.post(string));
    trial.post(b"");
    trial.same();
    assert_eq!(trial.index.len(), strings.len() + 1);
    strings.iter().for_each(|string| trial.withdraw(string));
    trial.same();
}

/// What was named stays named until its bottom node changes.
#[test]
fn an_answer_holds_until_its_node_changes() {
    let mut trial = Trial::new();
    let string = |i: u32| format!("string{i:06}").into_bytes();
    (0..1000).for_each(|i| trial.post(&string(i * 2)));
    let ask = |trial: &Trial, i: u32| {
        // The index outlives what it named.
        let named = trial.index.named_at_once(ByteKey::at(&string(i))).unwrap();
        (named.leaf(), named.still())
    };
    assert_eq!(ask(&trial, 100), (trial.model[&string(100)].1, true));
    let index = &trial.index;
    let named = |i: u32| index.named_at_once(ByteKey::at(&string(i))).unwrap();
    let (near, far) = (named(101), named(1801));
    assert!(near.still() && far.still());
    let leaf = trial.kept.name(&string(101));
    index.post(leaf, leaf);
    assert!(!near.still() && far.still());
    let near = named(101);
    assert_eq!(near.leaf(), leaf);
    assert_eq!(index.withdraw(leaf), Some(leaf));
    assert!(!near.still() && far.still());
    index.learn(std::iter::once((0, 1)));
    assert!(!far.still());
}
