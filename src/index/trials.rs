//! The tests that every index in memory must pass.

use crate::effort::long;
use crate::random::Random;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) type Model = BTreeMap<u64, u64>;

/// An index under test.
pub(crate) trait TestedIndex: Sync {
    fn post(&self, low: u64, leaf: u64);
    fn withdraw(&self, low: u64) -> Option<u64>;
    fn learn(&self, model: &Model);
    fn floor(&self, key: u64) -> Option<u64>;
    fn len(&self) -> usize;
    fn all(&self) -> Vec<(u64, u64)>;
    /// Checks the invariants that hold between any two changes; returns the number of nodes.
    fn check(&self) -> Result<usize, String>;
}

/// Implements [`TestedIndex`] with the type's own methods, and a function `check` of its tests.
macro_rules! tested_index {
    ($index:ty) => {
        impl TestedIndex for $index {
            fn post(&self, low: u64, leaf: u64) {
                self.post(low, leaf);
            }

            fn withdraw(&self, low: u64) -> Option<u64> {
                self.withdraw(low)
            }

            fn learn(&self, model: &Model) {
                self.learn(model.iter().map(|(&low, &leaf)| (low, leaf)));
            }

            fn floor(&self, key: u64) -> Option<u64> {
                self.floor(key)
            }

            fn len(&self) -> usize {
                self.len()
            }

            fn all(&self) -> Vec<(u64, u64)> {
                let mut all = Vec::new();
                assert!(self.for_each(|low, leaf| all.push((low, leaf))));
                all
            }

            fn check(&self) -> Result<usize, String> {
                check(self)
            }
        }
    };
}
pub(crate) use tested_index;

/// How many cases of a property are tried: at most as many as `PROPTEST_CASES` says.
pub(crate) fn cases() -> ProptestConfig {
    let all = ProptestConfig::default();
    ProptestConfig { cases: if long() { all.cases } else { all.cases.min(24) }, ..all }
}

/// Without a pattern, but determined by its low.
pub(crate) fn leaf_of(low: u64) -> u64 {
    low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1
}

/// An index with the first separator alone, which always stays.
pub(crate) fn begun<S: TestedIndex>(index: S) -> (S, Model) {
    index.post(0, leaf_of(0));
    (index, Model::from([(0, leaf_of(0))]))
}

pub(crate) fn built<S: TestedIndex>(index: S, lows: impl IntoIterator<Item = u64>) -> (S, Model) {
    let model = model_of(std::iter::once(0).chain(lows).collect());
    index.learn(&model);
    (index, model)
}

/// The model of an index with these separators. It takes no iterator: a map is compiled with a sort for each type of
/// those.
fn model_of(lows: Vec<u64>) -> Model {
    lows.into_iter().map(|low| (low, leaf_of(low))).collect()
}

pub(crate) fn floor_in(model: &Model, key: u64) -> Option<u64> {
    model.range(..=key).next_back().map(|(_, &leaf)| leaf)
}

/// Removes from the model what the index would remove: the first separator stays.
pub(crate) fn remove_from(model: &mut Model, low: u64) -> Option<u64> {
    if low == 0 { None } else { model.remove(&low) }
}

pub(crate) fn same(index: &impl TestedIndex, model: &Model) {
    index.check().unwrap();
    assert!(index.all().into_iter().eq(model.iter().map(|(&low, &leaf)| (low, leaf))));
    assert_eq!(index.len(), model.len());
    let near = |key: u64| [key.wrapping_sub(1), key, key.wrapping_add(1)];
    for key in model.keys().copied().chain([0, u64::MAX / 2, u64::MAX]).flat_map(near) {
        assert_eq!(index.floor(key), floor_in(model, key), "floor of {key}");
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Insert(u64, u64),
    Remove(u64),
    /// The first separator, how many separators, and the distance between them.
    Rebuild(u64, u16, u16),
    Look(u64),
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    // No separator is MAX.
    let key = || prop_oneof![6 => 0..400u64, 1 => u64::MAX - 20..u64::MAX, 1 => 0..u64::MAX];
    prop_oneof![
        40 => (key(), any::<u64>()).prop_map(|(low, leaf)| Op::Insert(low, leaf)),
        40 => key().prop_map(Op::Remove),
        1 => (1..200u64, 0..300u16, 1..9u16).prop_map(|(low, count, step)| Op::Rebuild(low, count, step)),
        20 => key().prop_map(Op::Look),
    ]
}

pub(crate) fn does_what_a_map_does<S: TestedIndex>(
    (index, mut model): (S, Model),
    ops: Vec<Op>,
) -> Result<(), TestCaseError> {
    for op in ops {
        match op {
            Op::Insert(low, leaf) => {
                index.post(low, leaf);
                model.insert(low, leaf);
            }
            Op::Remove(low) => prop_assert_eq!(index.withdraw(low), remove_from(&mut model, low)),
            Op::Rebuild(low, count, step) => {
                let lows = (0..u64::from(count)).map(|i| low + i * u64::from(step));
                model = model_of(std::iter::once(0).chain(lows).collect());
                index.learn(&model);
            }
            Op::Look(key) => prop_assert_eq!(index.floor(key), floor_in(&model, key)),
        }
    }
    same(&index, &model);
    Ok(())
}

/// Grows, shrinks to a few separators, grows, and shrinks to nothing, in `steps` steps each; `most` is the range of the
/// lows.
pub(crate) fn grows_and_shrinks<S: TestedIndex>((index, mut model): (S, Model), most: u64, steps: u32) {
    let mut random = Random(0x1234_5678_9abc_def1);
    // (range of keys, inserts in ten changes)
    for (range, inserts) in [(most, 9), (most, 1), (most / 60, 7), (most, 9), (most, 0)] {
        for step in 0..steps {
            let low = random.below(range);
            if random.below(10) < inserts {
                index.post(low, leaf_of(low));
                model.insert(low, leaf_of(low));
            } else {
                assert_eq!(index.withdraw(low), remove_from(&mut model, low));
            }
            if step % (steps / 8) == 0 {
                index.check().unwrap();
            }
        }
        same(&index, &model);
    }
    for low in model.clone().into_keys() {
        assert_eq!(index.withdraw(low), remove_from(&mut model, low));
    }
    same(&index, &model);
}

pub(crate) fn every_order_of_inserts_and_removes<S: TestedIndex>(
    begun: impl Fn() -> (S, Model),
    count: u64,
    check_emptied: impl Fn(&S),
) {
    let shuffled = |seed| {
        let mut lows: Vec<u64> = (0..count).collect();
        let mut random = Random(seed);
        for i in (1..lows.len()).rev() {
            lows.swap(i, random.below(i as u64 + 1) as usize);
        }
        lows
    };
    let orders = [(0..count).collect(), (0..count).rev().collect(), shuffled(7)];
    for inserts in &orders {
        for removes in &orders {
            let (index, mut model) = begun();
            for &low in inserts {
                index.post(low, leaf_of(low));
                model.insert(low, leaf_of(low));
            }
            same(&index, &model);
            for (step, low) in removes.iter().enumerate() {
                assert_eq!(index.withdraw(*low), remove_from(&mut model, *low));
                if step as u64 % (count / 10) == count / 10 - 1 {
                    same(&index, &model);
                }
            }
            assert_eq!(index.len(), 1);
            check_emptied(&index);
        }
    }
}

/// `width` is about how many separators a node has room for.
pub(crate) fn all_keys_are_legal<S: TestedIndex>(
    begun: impl Fn() -> (S, Model),
    built: impl Fn(std::ops::RangeInclusive<u64>) -> (S, Model),
    width: u64,
) {
    let ends = [1, 2, 3, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 2, u64::MAX - 1];
    for set in 0..1u32 << ends.len() {
        let (index, mut model) = begun();
        same(&index, &model);
        for (_, low) in ends.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1) {
            index.post(*low, !low);
            model.insert(*low, !low);
        }
        same(&index, &model);
        for low in ends {
            assert_eq!(index.withdraw(low), model.remove(&low));
            same(&index, &model);
        }
    }
    // And at the first and last place of a full node.
    for around in [0, u64::MAX / 2 - width, u64::MAX - 3 * width - 1] {
        let (index, model) = built(around..=around + 3 * width);
        same(&index, &model);
    }
}

pub(crate) fn an_empty_index_takes_the_first_separator_only(index: &impl TestedIndex) {
    index.post(7, 70);
    assert_eq!((index.floor(9), index.len()), (None, 0));
    index.post(0, 1);
    assert_eq!((index.floor(9), index.withdraw(0), index.len()), (Some(1), None, 1));
    index.learn(&Model::new());
    assert_eq!((index.floor(9), index.len()), (None, 0));
}

/// Two writers, two readers. Every sixteenth low stays; each writer posts and withdraws in its own half of the others.
/// `churn` is what a writer does in one round.
pub(crate) fn stress<S: TestedIndex>(index: S, rounds: u64, keys: u64, churn: impl Fn(&S, u64, &mut Random) + Sync) {
    // One occurrence of a race is enough to find it, and watched runs are slow.
    let rounds = if cfg!(bristlecone_watched) { rounds.div_ceil(100) } else { rounds };
    let stays = |low: u64| low.is_multiple_of(16);
    let (index, _) = built(index, (0..keys).filter(|low| stays(*low)));
    let (writing, start) = (AtomicUsize::new(2), Barrier::new(4));
    std::thread::scope(|threads| {
        for writer in 0..2 {
            let (index, writing, start, churn) = (&index, &writing, &start, &churn);
            threads.spawn(move || {
                let mut random = Random(writer + 1);
                start.wait();
                (0..rounds).for_each(|_| churn(index, writer, &mut random));
                writing.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for reader in 0..2 {
            let (index, writing, start) = (&index, &writing, &start);
            threads.spawn(move || {
                let mut random = Random(reader + 77);
                start.wait();
                while writing.load(Ordering::Relaxed) > 0 {
                    let key = random.below(keys + 40);
                    let leaf = index.floor(key).expect("low 0 stays");
                    let least = key.min(keys - 1) / 16 * 16;
                    let found = (least..=key).any(|low| leaf == leaf_of(low));
                    assert!(found, "the floor of {key} is another's, though {least} stays");
                    let left = least.checked_sub(1).and_then(|key| index.floor(key));
                    assert!(left.is_none_or(|leaf| (least - 16..least).any(|low| leaf == leaf_of(low))));
                }
            });
        }
    });
    index.check().unwrap();
}

/// A low in this writer's half that does not stay.
pub(crate) fn changing(keys: u64, writer: u64, random: &mut Random) -> u64 {
    random.below(keys / 16) * 16 + 1 + random.below(7) * 2 + writer
}

/// `sixteens` is the number of separators that stay.
pub(crate) fn readers_never_miss_what_stays<S: TestedIndex>(index: S, sixteens: u64, rounds: u64) {
    let keys = 16 * sixteens;
    stress(index, rounds, keys, |index, writer, random| {
        let low = changing(keys, writer, random);
        if random.below(2) == 0 {
            index.post(low, leaf_of(low));
        } else if let Some(leaf) = index.withdraw(low) {
            assert_eq!(leaf, leaf_of(low));
        }
    });
}

/// Posts everything that may be posted, then withdraws it all.
pub(crate) fn readers_never_miss_while_nodes_come_and_go<S: TestedIndex>(index: S, sixteens: u64, rounds: u64) {
    let keys = 16 * sixteens;
    stress(index, rounds, keys, |index, writer, _| {
        let lows = (0..keys).filter(|low| !low.is_multiple_of(16) && low % 2 == writer);
        lows.clone().for_each(|low| index.post(low, leaf_of(low)));
        lows.for_each(|low| assert_eq!(index.withdraw(low), Some(leaf_of(low))));
    });
}

/// One writer replaces everything; meanwhile the other one posts and withdraws `inserts` separators per round.
pub(crate) fn readers_never_miss_during_rebuilds<S: TestedIndex>(index: S, sixteens: u64, rounds: u64, inserts: u64) {
    let keys = 16 * sixteens;
    stress(index, rounds, keys, |index, writer, random| {
        if writer == 0 {
            let every = 1 + random.below(15);
            let lows = (0..keys).filter(|low| low % 16 == 0 || low % 16 == every);
            index.learn(&model_of(lows.collect()));
        } else {
            for _ in 0..inserts {
                let low = changing(keys, 1, random);
                index.post(low, leaf_of(low));
                index.withdraw(changing(keys, 1, random));
            }
        }
    });
}
