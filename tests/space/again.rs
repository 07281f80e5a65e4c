//! Fill, empty, fill with something else: nothing may be refused that fits.
//!
//! What fits: records whose blocks, and 64 bytes of a leaf for each, take at most three fifths of the capacity. Of 16
//! MiB, a quarter may be two segments that two trees keep, because the last leaf of each lies there: a segment does not
//! become shorter while it has the same owner. An eighth is for the parts of segments that classes have and do not use
//! yet.

use super::{MIB, Random, Scratch, Values, block_for, crash, used, value};
use bristlecone::{Options, Pool};

const LENS: [u64; 10] = [10, 70, 250, 900, 3000, 12_000, 50_000, 200_000, 700_000, 3 << 20];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Emptied {
    Removed,
    Cleared,
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    Close,
    Kill,
}

/// How many records of a length fit into so many bytes.
fn fitting(bytes: u64, len: u64) -> u64 {
    bytes * 3 / 5 / (block_for(len) + 64)
}

struct Case {
    scratch: Scratch,
    number: u64,
    pool: Option<Pool>,
    capacity: u64,
}

impl Case {
    fn new(capacity: u64) -> Self {
        let mut new = Self { scratch: Scratch::in_memory(), number: 0, pool: None, capacity };
        new.open();
        new
    }

    fn options(&self) -> Options {
        crate::plain().capacity(self.capacity)
    }

    fn open(&mut self) {
        self.pool = Some(self.options().open(self.scratch.path(&self.number.to_string())).unwrap());
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap()
    }

    fn pause(&mut self, between: Between) {
        let path = self.scratch.path(&self.number.to_string());
        match between {
            Between::Nothing => return,
            Between::Close => self.pool.take().unwrap().close().unwrap(),
            Between::Kill => {
                self.number += 1;
                let copy = self.scratch.path(&self.number.to_string());
                crash(&path, &copy);
                self.pool = None;
                std::fs::remove_file(path).unwrap();
            }
        }
        self.open();
    }

    /// Fills a tree.
    #[track_caller]
    fn fill(&self, name: &str, len: u64, bytes: u64, story: &str) -> (Values, u64) {
        let map: Values = self.pool().map(name).unwrap_or_else(|error| panic!("{story}: {error}"));
        let count = fitting(bytes, len);
        for key in 0..count {
            if let Err(error) = map.insert(key.reverse_bits() >> 20 | key, &value(key, len)) {
                let of_trees: Vec<(String, u64)> =
                    self.pool().trees().unwrap().into_iter().map(|tree| (tree.name, tree.bytes)).collect();
                panic!("{story}: {key} of {count} records: {error}; {} used, {of_trees:?}", used(self.pool()));
            }
        }
        (map, count)
    }

    #[track_caller]
    fn holds(&self, map: &Values, len: u64, count: u64, story: &str) {
        assert_eq!(map.len(), count, "{story}");
        for key in (0..count).step_by(1 + count as usize / 64) {
            assert_eq!(map.get(key.reverse_bits() >> 20 | key).unwrap().unwrap(), value(key, len), "{story}");
        }
    }

    /// Fills a tree with records of one length, empties it, and fills it with those of another.
    fn refill(&mut self, (first, second): (u64, u64), between: Between, how: Emptied, story: &str) -> (Values, u64) {
        let (map, count) = self.fill("t", first, self.capacity, story);
        let keep = self.empty(map, count, how, between == Between::Nothing);
        self.pause(between);
        let (map, count) = self.fill("t", second, self.capacity, story);
        self.holds(&map, second, count, story);
        drop(keep);
        (map, count)
    }

    fn empty(&self, map: Values, count: u64, how: Emptied, keep: bool) -> Option<Values> {
        match how {
            Emptied::Removed => {
                (0..count).for_each(|key| assert!(map.remove(key.reverse_bits() >> 20 | key).unwrap()));
            }
            Emptied::Cleared => map.clear().unwrap(),
            Emptied::Dropped => {
                let name = map.name();
                drop(map);
                self.pool().drop_tree(&name).unwrap();
                return None;
            }
        }
        keep.then_some(map)
    }
}

/// All ordered pairs of lengths, each in a pool that has seen what came before.
fn pairs() -> Vec<(u64, u64)> {
    // An Eulerian circuit of the complete graph: each step uses the next edge of its node.
    let n = LENS.len();
    let mut next = vec![0; n];
    let (mut path, mut circuit) = (vec![0], Vec::new());
    while let Some(&at) = path.last() {
        if next[at] < n {
            next[at] += 1;
            path.push((at + next[at]) % n);
        } else {
            circuit.push(path.pop().unwrap());
        }
    }
    assert_eq!(circuit.len(), n * n + 1);
    circuit.windows(2).map(|pair| (LENS[pair[0]], LENS[pair[1]])).collect()
}

fn circuit(capacity: u64, between: &[Between], emptied: &[Emptied], step: usize) {
    let mut case = Case::new(capacity);
    for (i, (first, second)) in pairs().into_iter().enumerate().step_by(step) {
        let (between, how) = (between[i % between.len()], emptied[i / between.len() % emptied.len()]);
        let story = format!("{i}: {first}, {second}, {how:?}, {between:?}");
        let (map, count) = case.refill((first, second), between, how, &story);
        if i % 2 == 0 {
            // Another tree gets what this one had.
            let keep = case.empty(map, count, how, between == Between::Nothing);
            case.pause(between);
            let (map, count) = case.fill("other", second, capacity, &story);
            case.holds(&map, second, count, &story);
            case.empty(map, count, how, false);
            drop(keep);
        } else {
            case.empty(map, count, how, false);
        }
        if i % 16 == 0 {
            let report = case.pool().check().unwrap();
            assert!(report.is_clean(), "{story}: {report:?}");
        }
    }
}

const ALL: ([Between; 3], [Emptied; 3]) =
    ([Between::Nothing, Between::Close, Between::Kill], [Emptied::Removed, Emptied::Cleared, Emptied::Dropped]);

/// All cases take minutes; an ordinary run takes a part of them.
fn step(ordinary: usize) -> usize {
    if std::env::var("BRISTLECONE_SPACE").is_ok_and(|what| what == "all") {
        1
    } else {
        if super::long() { ordinary } else { 4 * ordinary + 1 }
    }
}

#[test]
fn a_small_pool_is_filled_with_one_size_after_the_other() {
    circuit(16 * MIB, &ALL.0, &ALL.1, step(13));
}

#[test]
fn a_larger_pool_is_filled_with_one_size_after_the_other() {
    circuit(64 * MIB, &ALL.0, &ALL.1, step(37));
}

#[test]
fn a_new_pool_is_filled_emptied_and_filled() {
    let mut random = Random::new(5);
    for (i, (first, second)) in pairs().into_iter().enumerate().step_by(step(17)) {
        let between = ALL.0[random.below(3) as usize];
        let how = ALL.1[random.below(3) as usize];
        let story = format!("{i}: {first}, {second}, {how:?}, {between:?}");
        let mut case = Case::new(16 * MIB);
        case.refill((first, second), between, how, &story);
    }
}

#[test]
fn two_trees_take_turns() {
    for (i, (first, second)) in pairs().into_iter().enumerate().skip(3).step_by(step(19)) {
        let capacity = 16 * MIB;
        let mut case = Case::new(capacity);
        let (between, how) = (ALL.0[i % 3], ALL.1[i / 3 % 3]);
        let story = format!("{i}: {first}, {second}, {how:?}, {between:?}");
        let (a, counted_a) = case.fill("a", first, capacity / 2, &story);
        let (b, counted_b) = case.fill("b", second, capacity / 2, &story);
        case.holds(&a, first, counted_a, &story);
        drop(case.empty(a, counted_a, how, false));
        drop(b);
        case.pause(between);
        let (a, counted_a) = case.fill("a", second, capacity / 2, &story);
        let b: Values = case.pool().map("b").unwrap();
        case.holds(&b, second, counted_b, &story);
        drop(case.empty(b, counted_b, how, false));
        drop(a);
        case.pause(between);
        let a: Values = case.pool().map("a").unwrap();
        case.holds(&a, second, counted_a, &story);
        let (b, counted_b) = case.fill("b", first, capacity / 2, &story);
        case.holds(&b, first, counted_b, &story);
    }
}

/// The records that a tree gives back last are retired for a while, and may lie in as many segments.
#[test]
fn what_one_tree_gave_back_another_gets() {
    let scratch = Scratch::in_memory();
    let pool = crate::plain().capacity(16 * MIB).open(scratch.path("a.pool")).unwrap();
    let [one, other]: [Values; 2] = ["one", "other"].map(|name| pool.map(name).unwrap());
    let words: bristlecone::PTree = pool.tree("words").unwrap();
    let mut random = Random::new(3);
    for round in 0..6 {
        let (map, len) = if round % 2 == 0 { (&one, 900) } else { (&other, 12_000) };
        if round < 4 {
            let count = fitting(16 * MIB, len);
            for key in 0..count {
                if let Err(error) = map.insert(key, &value(key, len)) {
                    panic!("round {round}: {key} of {count}: {error}");
                }
            }
            let mut keys: Vec<u64> = (0..count).collect();
            while !keys.is_empty() {
                assert!(map.remove(keys.swap_remove(random.below(keys.len() as u64) as usize)).unwrap());
            }
        } else {
            let count = 16 * MIB * 3 / 5 / 32;
            for key in 0..count {
                if let Err(error) = words.insert(key, key) {
                    panic!("words: {key} of {count}: {error}");
                }
            }
            words.clear().unwrap();
        }
    }
}
