//! Tests for all kinds of separators. Numbers stand for them: a number is the name, and encodings that keep the order
//! make it a string.

use super::InNodes;
use super::arena::Id;
use super::image_of;
use super::node::{IndexNode, NodeSlots, WIDTH};
use super::{VolatileIndex, Words};
use crate::effort::long;
use crate::index::separators::{Lows, Strings};
use crate::index::trials::{self, Model, Op, TestedIndex, floor_in, remove_from, same};
use crate::random::Random;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cmp::Ordering;

/// A kind of separators under test.
pub(super) trait Checked: InNodes {
    /// Checks what a node keeps of its separators.
    fn check(&self, node: &Self::Node) -> Result<(), String>;
}

impl Checked for Words {
    fn check(&self, _: &Self::Node) -> Result<(), String> {
        Ok(())
    }
}

impl<F: Lows> Checked for Strings<F> {
    fn check(&self, node: &Self::Node) -> Result<(), String> {
        node.check(self)
    }
}

/// Makes strings of numbers, in the same order.
struct Encoding(fn(u64) -> Vec<u8>);

impl Lows for Encoding {
    fn with<R>(&self, name: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        read(&self.0(name))
    }
}

/// The eight bytes of a number behind `SHARED` bytes that all strings share.
fn after<const SHARED: usize>(number: u64) -> Vec<u8> {
    [&[b'p'; SHARED][..], &number.to_be_bytes()].concat()
}

fn decimal(number: u64) -> Vec<u8> {
    format!("user{number:020}").into_bytes()
}

/// Two of three strings are the one before, and a zero.
fn stairs(number: u64) -> Vec<u8> {
    [&(number / 3).to_be_bytes()[..], &vec![0; (number % 3) as usize]].concat()
}

/// Most neighbours differ only far behind a byte in which others differ, so heads are equal wherever they begin.
fn apart(number: u64) -> Vec<u8> {
    [&(number / 5).to_be_bytes()[..], &[0xff; 20], &[(number % 5) as u8 * 60]].concat()
}

fn empty_of<S: InNodes>(separators: S) -> VolatileIndex<S> {
    VolatileIndex::with_separators(separators)
}

impl<S: Checked> TestedIndex for VolatileIndex<S> {
    fn post(&self, low: u64, leaf: u64) {
        self.post(low, leaf);
    }

    fn withdraw(&self, low: u64) -> Option<u64> {
        self.withdraw(low)
    }

    fn learn(&self, model: &Model) {
        self.learn(model.iter().map(|(&low, &leaf)| (low, leaf)));
    }

    fn floor(&self, number: u64) -> Option<u64> {
        floor(self, number)
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

fn floor<S: InNodes>(index: &VolatileIndex<S>, number: u64) -> Option<u64> {
    index.separators.with_key(number, |key| index.floor(key))
}

fn built<S: Checked>(
    empty: fn() -> VolatileIndex<S>,
    lows: impl IntoIterator<Item = u64>,
) -> (VolatileIndex<S>, Model) {
    trials::built(empty(), lows)
}

/// What `subtree` finds below a node.
struct Subtree {
    nodes: usize,
    separators: usize,
    /// The greatest separator.
    last: u64,
}

/// Checks invariants 1 and 2 below `id`, whose first separator is `least`.
fn subtree<S: Checked>(index: &VolatileIndex<S>, id: Id, height: usize, least: u64) -> Result<Subtree, String> {
    let node = index.arena.node(id);
    node.optimistic_read().map_err(|_| "a node was left open")?;
    index.separators.check(node)?;
    let mut all = Subtree { nodes: 1, separators: 0, last: least };
    let mut before = None;
    for slot in 0..node.len() {
        let (low, child) = node.entry(slot, least);
        let order = index.separators.with_key(low, |key| index.separators.order_of(all.last, key));
        if slot > 0 && order != Ordering::Less {
            return Err("lows do not ascend".into());
        }
        if height == 0 {
            all.separators += 1;
            all.last = low;
            continue;
        }
        let below = subtree(index, child, height - 1, low)?;
        let children = index.arena.node(child).len();
        if before.replace(children).is_some_and(|before| before + children <= WIDTH / 2) {
            return Err("two neighbours hold half a node".into());
        }
        all = Subtree { nodes: all.nodes + below.nodes, separators: all.separators + below.separators, ..below };
    }
    Ok(all)
}

/// Checks the invariants that hold between any two changes; returns the number of nodes.
pub(super) fn check<S: Checked>(index: &VolatileIndex<S>) -> Result<usize, String> {
    let root = index.root.get();
    let subtree = match root {
        None => Subtree { nodes: 0, separators: 0, last: 0 },
        Some(root) if root.height > 0 && index.arena.node(root.id).len() == 1 => {
            return Err("a root of one child".into());
        }
        Some(root) => subtree(index, root.id, root.height, 0)?,
    };
    if subtree.separators != index.len() {
        return Err(format!("{} separators, len() is {}", subtree.separators, index.len()));
    }
    let (spare, all) = {
        let writer = index.writer.lock();
        (writer.spare.len(), writer.spare.touched())
    };
    if subtree.nodes + spare != all {
        return Err(format!("{} nodes in the tree and {spare} spare, of {all}", subtree.nodes));
    }
    let height = root.map_or(0, |root| root.height + 1);
    let most = subtree.separators * 5 / WIDTH + 3 * height;
    if subtree.nodes > most {
        return Err(format!("{} nodes for {} separators", subtree.nodes, subtree.separators));
    }
    Ok(subtree.nodes)
}

fn does_what_a_map_does<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let ops = prop::collection::vec(trials::op(), 0..1500);
    let run = |ops: Vec<Op>| trials::does_what_a_map_does(trials::begun(empty()), ops);
    let mut runner = TestRunner::new(Config { source_file: Some(file!()), ..trials::cases() });
    runner.run(&ops, run).unwrap_or_else(|error| panic!("{error}"));
}

fn grows_and_shrinks_through_three_levels<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let (most, steps) = if long() { (20_000, 80_000) } else { (4000, 12_000) };
    trials::grows_and_shrinks(trials::begun(empty()), most, steps);
}

fn every_order_of_inserts_and_removes<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let check_emptied = |index: &VolatileIndex<S>| assert_eq!(check(index), Ok(1));
    let count = if long() { 10_000 } else { 2000 };
    trials::every_order_of_inserts_and_removes(|| trials::begun(empty()), count, check_emptied);
}

fn all_keys_are_legal<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    trials::all_keys_are_legal(|| trials::begun(empty()), |lows| built(empty, lows), WIDTH as u64);
}

fn an_empty_index_takes_the_first_separator_only<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    trials::an_empty_index_takes_the_first_separator_only(&empty());
}

fn readers_never_miss_what_stays<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let rounds = if cfg!(miri) {
        20
    } else if long() {
        1_000_000
    } else {
        60_000
    };
    trials::readers_never_miss_what_stays(empty(), 500, rounds);
}

/// Filling and emptying a few nodes at a time splits, merges and reuses nodes as often as possible.
fn readers_never_miss_while_nodes_come_and_go<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let (sixteens, rounds) = if cfg!(miri) { (10, 1) } else { (40, if long() { 1500 } else { 100 }) };
    trials::readers_never_miss_while_nodes_come_and_go(empty(), sixteens, rounds);
}

fn readers_never_miss_during_rebuilds<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let (sixteens, rounds, inserts) = if cfg!(miri) { (15, 2, 5) } else { (300, if long() { 3000 } else { 200 }, 200) };
    trials::readers_never_miss_during_rebuilds(empty(), sixteens, rounds, inserts);
}

fn ascending_inserts_fill_the_nodes<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let index = empty();
    for low in 0..100 * WIDTH as u64 {
        index.post(low, low);
    }
    assert!(check(&index).unwrap() <= 105);
}

fn insert_replaces_the_leaf<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let (index, mut model) = built(empty, (0..1000).map(|low| low * 3));
    for low in (0..3000).step_by(7) {
        index.post(low, 1);
        model.insert(low, 1);
    }
    same(&index, &model);
}

fn rebuilds_of_every_size<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let sizes =
        (0..if long() { 5000 } else { 900 }).filter(|size| *size < 300 || size % 61 == 0 || size % WIDTH as u64 <= 1);
    let again = empty();
    for size in sizes {
        let (index, mut model) = built(empty, (0..size).map(|low| low * 5));
        again.learn(model.iter().map(|(&low, &leaf)| (low, leaf)));
        same(&again, &model);
        // A tree that was built in bulk behaves as if it had grown.
        for low in (0..size * 5).step_by(13) {
            index.post(low, 1);
            model.insert(low, 1);
            assert_eq!(index.withdraw(low / 2), remove_from(&mut model, low / 2));
        }
        same(&index, &model);
    }
}

fn memory_is_bounded_by_the_largest_tree<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let count = if long() { 20_000 } else { 3000 };
    let (index, _) = built(empty, 0..count);
    let nodes = || index.writer.lock().spare.touched();
    let mut random = Random(99);
    let mut settled = 0;
    for round in 0..30 {
        match round % 3 {
            0 => index.learn((0..count as u32).map(|low| (low.into(), 0))),
            1 => (1..count).for_each(|low| assert!(index.withdraw(low).is_some())),
            // A moving window: nodes are added at one end and removed at the other.
            _ => (0..count * 3).for_each(|low| {
                index.post(low, low);
                index.withdraw(low.saturating_sub(count / 2 + random.below(count / 2)));
            }),
        }
        check(&index).unwrap();
        if round == 5 {
            settled = nodes();
        }
    }
    assert!(nodes() <= settled + settled / 50, "{} nodes, {settled} after two rounds", nodes());
}

fn thinned_out_nodes_merge<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let count = if long() { 100_000 } else { 20_000 };
    let (index, mut model) = built(empty, 0..count);
    let before = check(&index).unwrap();
    for low in (0..count).filter(|low| low % WIDTH as u64 != 0) {
        assert_eq!(index.withdraw(low), remove_from(&mut model, low));
    }
    same(&index, &model);
    assert!(check(&index).unwrap() * 10 < before);
}

fn relabel<S: InNodes>(index: &VolatileIndex<S>, node: &S::Node, slot: usize, name: u64) {
    node.open();
    node.relabel(&index.separators, slot, name);
    node.close();
}

/// The checker must find the fault in a damaged tree.
fn check_finds_faults<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    type Fault<S> = fn(&VolatileIndex<S>);
    let root = |index: &VolatileIndex<S>| index.root.get().unwrap().id;
    let faults: [(&str, Fault<S>); 5] = [
        ("lows do not ascend", |index| {
            let root = index.arena.node(index.root.get().unwrap().id);
            relabel(index, root, 3, root.name(3) + WIDTH as u64);
        }),
        ("lows do not ascend", |index| {
            let bottom = index.arena.node(index.arena.node(index.root.get().unwrap().id).child(2));
            relabel(index, bottom, 2, bottom.name(1));
        }),
        ("left open", |index| {
            assert!(index.arena.node(index.arena.node(index.root.get().unwrap().id).child(1)).open())
        }),
        ("two neighbours", |index| {
            let root = index.arena.node(index.root.get().unwrap().id);
            (0..2).for_each(|slot| index.arena.node(root.child(slot)).truncate(WIDTH / 4));
        }),
        ("spare", |index| assert!(index.writer.lock().spare.take_spare(&index.arena) > 0)),
    ];
    for (message, fault) in faults {
        let (index, _) = built(empty, 0..500);
        assert!(index.arena.node(root(&index)).len() > 3 && check(&index).is_ok());
        fault(&index);
        let found = check(&index).unwrap_err();
        assert!(found.contains(message), "{found}");
    }
}

fn all<S: InNodes>(index: &VolatileIndex<S>) -> Option<Model> {
    let mut all = Model::new();
    index.for_each(|low, leaf| assert!(all.insert(low, leaf).is_none())).then_some(all)
}

/// An index whose nodes are all still in an image; those that are `damaged` cannot be read.
fn reopened<S: InNodes>(
    index: VolatileIndex<S>,
    model: &Model,
    damaged: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> VolatileIndex<S> {
    let (words, top) = image_of(model.iter().map(|(&low, &leaf)| (low, leaf)).collect());
    let node_of = move |node| top.node(node, |i| words[i as usize], |_| true);
    assert!(index.restore(top, Box::new(move |node, height, _| node_of((node, height)).filter(|_| !damaged(node)))));
    index
}

fn an_index_is_loaded_as_it_is_used<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let mut random = Random(4242);
    for size in [1, 2, 28, 29, 28 * 28, 28 * 28 + 1, 23_000] {
        let (_, mut model) = built(empty, (0..size).map(|low| low * 5));
        let mut index = reopened(empty(), &model, |_| false);
        assert_eq!((index.len(), all(&index).as_ref()), (model.len(), Some(&model)));
        for step in 0..4000 {
            let low = 1 + random.below(size * 5);
            match random.below(3) {
                0 => {
                    index.post(low, !low);
                    model.insert(low, !low);
                }
                // Whole stretches are removed, so that nodes run empty next to others that are not loaded yet.
                1 => (low..low + 60).for_each(|low| assert_eq!(index.withdraw(low), model.remove(&low))),
                _ => assert_eq!(floor(&index, low), floor_in(&model, low)),
            }
            if step % 500 == 0 {
                assert_eq!((index.len(), all(&index).as_ref()), (model.len(), Some(&model)));
            }
            if step % 1500 == 1499 {
                // Closed and opened in between.
                index = reopened(empty(), &all(&index).unwrap(), |_| false);
            }
        }
        let wanted: Vec<u64> = (0..size * 5).step_by(7).collect();
        assert!(wanted.iter().all(|&key| floor(&index, key) == floor_in(&model, key)));
        index.learn(model.iter().map(|(&low, &leaf)| (low, leaf)));
        same(&index, &model);
    }
}

fn a_copy_in_parts_has_all_that_stays<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let mut random = Random(77);
    for size in [1, 28, 29, 900, 3000] {
        for is_loaded in [true, false] {
            let (index, mut model) = built(empty, (0..size).map(|low| low * 5));
            let index = if is_loaded { index } else { reopened(empty(), &model, |_| false) };
            let (mut stays, mut copied, mut from) = (model.clone(), Vec::new(), None::<u64>);
            loop {
                let most = 1 + random.below(90) as usize;
                let f = |low, leaf| copied.push((low, leaf));
                from = match from {
                    Some(low) => index.separators.with_key(low, |key| index.copy(Some(key), most, f, |next| next)),
                    None => index.copy(None, most, f, |next| next),
                }
                .unwrap();
                if from.is_none() {
                    break;
                }
                for _ in 0..random.below(30) {
                    let low = 1 + random.below(size * 5);
                    if random.one_in(2) {
                        index.post(low, !low);
                        model.insert(low, !low);
                    } else {
                        assert_eq!(index.withdraw(low), model.remove(&low));
                    }
                    stays.remove(&low);
                }
            }
            assert!(copied.is_sorted_by(|(one, _), (other, _)| one < other), "a separator twice");
            let copied: Model = copied.into_iter().collect();
            assert!(stays.iter().all(|(low, leaf)| copied.get(low) == Some(leaf)), "of {size}");
            assert!(copied.iter().all(|(low, leaf)| *leaf == !low || stays.contains_key(low) || *low % 5 == 0));
        }
    }
}

fn a_damaged_image_is_forgotten_when_it_is_found_out<S: Checked>(empty: fn() -> VolatileIndex<S>) {
    let (_, model) = built(empty, (0..2000).map(|low| low * 5));
    for damaged in [0, 1, 40, 71, 72] {
        let uses: [fn(&VolatileIndex<S>, u64); 3] = [
            |index, key| assert_eq!(floor(index, key), None),
            |index, key| index.post(key, 7),
            |index, key| assert_eq!(index.withdraw(key), None),
        ];
        for lose in uses {
            let index = reopened(empty(), &model, move |node| node == damaged);
            assert!(!index.is_lost() && all(&index).is_none());
            (0..10_000).step_by(3).take_while(|_| !index.is_lost()).for_each(|key| {
                if floor_in(&model, key) != floor(&index, key) {
                    assert!(index.is_lost());
                }
            });
            assert!(index.is_lost());
            lose(&index, 777);
            assert_eq!((floor(&index, 777), index.len()), (None, 0));
            index.learn(model.iter().map(|(&low, &leaf)| (low, leaf)));
            assert!(!index.is_lost());
            same(&index, &model);
        }
    }
}

#[test]
fn no_flipped_bit_of_an_image_is_believed() {
    let (words, top) = image_of((0..60).map(|low| (low * 3, low * 64)).collect());
    assert_eq!((top.nodes, top.height, top.len), (4, 1, 60));
    let all = words.len() as u64;
    assert!(top.fits(all) && !top.fits(all - 1) && !super::ImageTop { len: u64::MAX, ..top }.fits(all));
    let of = |words: &[u64], node| top.node(node, |i| words[i as usize], |at| at.is_multiple_of(64));
    for node in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        let sound = of(&words, node).unwrap();
        for bit in 0..words.len() * 64 {
            let mut words = words.clone();
            words[bit / 64] ^= 1 << (bit % 64);
            let found = of(&words, node);
            assert!(found.is_none_or(|found| found == sound));
        }
        assert_eq!(of(&words, (node.0, node.1 + 1)), None);
    }
    assert_eq!(of(&words, (4, 0)), None);
}

macro_rules! kinds {
    ($($kind:ident: $separators:ty = $new:expr, $tests:ident;)*) => {
        $(mod $kind {
            use super::*;

            fn empty() -> VolatileIndex<$separators> {
                empty_of($new)
            }

            $tests! {}
        })*
    };
}

/// What takes long is the same code for all strings.
macro_rules! all_tests {
    () => {
        short_tests! {}

        tests! {
            grows_and_shrinks_through_three_levels, every_order_of_inserts_and_removes, readers_never_miss_what_stays,
            readers_never_miss_while_nodes_come_and_go, readers_never_miss_during_rebuilds, rebuilds_of_every_size,
            memory_is_bounded_by_the_largest_tree
        }
    };
}

macro_rules! short_tests {
    () => {
        tests! {
            does_what_a_map_does, all_keys_are_legal, an_empty_index_takes_the_first_separator_only,
            ascending_inserts_fill_the_nodes, insert_replaces_the_leaf, thinned_out_nodes_merge, check_finds_faults,
            an_index_is_loaded_as_it_is_used, a_copy_in_parts_has_all_that_stays,
            a_damaged_image_is_forgotten_when_it_is_found_out
        }
    };
}

macro_rules! tests {
    ($($test:ident),*) => {
        $(#[test]
        fn $test() {
            super::$test(empty);
        })*
    };
}

kinds! {
    words: Words = Words, all_tests;
    numbers: Strings<Encoding> = Strings(Encoding(after::<0>)), short_tests;
    numbers_after_7: Strings<Encoding> = Strings(Encoding(after::<7>)), short_tests;
    numbers_after_300: Strings<Encoding> = Strings(Encoding(after::<300>)), short_tests;
    decimals: Strings<Encoding> = Strings(Encoding(decimal)), short_tests;
    stairs: Strings<Encoding> = Strings(Encoding(super::stairs)), short_tests;
    ties: Strings<Encoding> = Strings(Encoding(apart)), all_tests;
}
