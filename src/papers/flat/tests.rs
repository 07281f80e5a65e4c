use super::FlatIndex;
use super::half::{FAN, Numbering, above, child, fork};
use super::parent::{PACKED, ROOM, UNIT};
use crate::effort::long;
use crate::index::image_of;
use crate::index::trials::{self, Model, TestedIndex, floor_in, leaf_of, remove_from, same};
use crate::random::Random;
use proptest::prelude::*;
use std::cell::Cell;

trials::tested_index!(FlatIndex);

fn fixed() -> FlatIndex {
    FlatIndex::new(1 << 17, false).unwrap()
}

fn adaptive() -> FlatIndex {
    FlatIndex::new(1 << 17, true).unwrap()
}

const BOTH: [fn() -> FlatIndex; 2] = [fixed, adaptive];

fn built(lows: impl IntoIterator<Item = u64>) -> (FlatIndex, Model) {
    trials::built(fixed(), lows)
}

/// Checks invariants 1 to 3; returns the number of parents.
fn check(index: &FlatIndex) -> Result<usize, String> {
    let mut writer = index.writer.lock();
    index.load_all(&mut writer).ok_or("a damaged image")?;
    let Some(root) = index.root.get() else {
        return if index.len() == 0 { Ok(0) } else { Err("separators without a root".into()) };
    };
    let (half, numbering) = (index.half(root), writer.numbering);
    if (root.id, root.height) != (writer.generation, numbering.levels)
        || Numbering::over(numbering.parents) != numbering
    {
        return Err("the root is not the writer's".into());
    }
    let has_leaves = |ordinal: usize| half.parent(ordinal).is_ok_and(|parent| parent.len() > 0);
    // Whether some parent is below an inner node that has leaves below.
    let mut live = vec![0; numbering.inner()];
    for ordinal in (0..numbering.parents).filter(|&ordinal| has_leaves(ordinal)) {
        let mut id = numbering.first + ordinal;
        while id > 0 {
            id = above(id).0;
            live[id] += 1;
        }
    }
    if live != writer.live {
        return Err("parents with leaves are counted wrong".into());
    }
    let mut separators = 0;
    let mut next = u64::MAX;
    for ordinal in (0..numbering.parents).rev() {
        let parent = half.parent(ordinal).map_err(|_| "a parent without a place")?;
        parent.version().optimistic_read().map_err(|_| "a parent was left open")?;
        let least = if ordinal == 0 { u64::MAX } else { half.least(numbering, ordinal) };
        let lows: Vec<u64> = parent.entries().map(|(low, _)| low).collect();
        separators += lows.len();
        let Some(&last) = lows.last() else {
            let hidden = std::iter::successors(Some(numbering.first + ordinal), |&id| (id > 0).then(|| above(id).0))
                .skip(1)
                .any(|id| live[id] == 0);
            if least != next && !hidden {
                return Err("an empty parent owns something".into());
            }
            continue;
        };
        if lows[0].wrapping_sub(1) != least {
            return Err("a separator is not the first low".into());
        }
        if !lows.is_sorted_by(|a, b| a < b) || (next < u64::MAX && last > next) {
            return Err("lows do not ascend".into());
        }
        next = least;
    }
    for (id, &live) in live.iter().enumerate() {
        let words: Vec<u64> = (1..FAN)
            .filter(|&k| child(id, k) < numbering.inner() || (numbering.first..).contains(&child(id, k)))
            .map(|k| half.separator(child(id, k)).load(std::sync::atomic::Ordering::Relaxed))
            .collect();
        if live > 0 && !words.is_sorted() {
            return Err("separators do not ascend".into());
        }
    }
    if separators == index.len() { Ok(numbering.parents) } else { Err(format!("{separators}, not {}", index.len())) }
}

proptest! {
    #[test]
    fn does_what_a_map_does(ops in prop::collection::vec(trials::op(), 0..1500), of in 0..2usize) {
        trials::does_what_a_map_does(trials::begun(BOTH[of]()), ops)?;
    }
}

#[test]
fn grows_and_shrinks_through_all_levels() {
    for empty in BOTH {
        trials::grows_and_shrinks(trials::begun(empty()), 4000, 16_000);
    }
}

#[test]
fn every_order_of_inserts_and_removes() {
    for empty in BOTH {
        trials::every_order_of_inserts_and_removes(|| trials::begun(empty()), 1000, |_| ());
    }
}

#[test]
fn all_keys_are_legal() {
    trials::all_keys_are_legal(|| trials::begun(fixed()), built, UNIT as u64);
}

#[test]
fn an_empty_index_takes_the_first_separator_only() {
    trials::an_empty_index_takes_the_first_separator_only(&fixed());
}

#[test]
fn insert_replaces_the_leaf() {
    let (index, mut model) = built((0..500).map(|low| low * 3));
    for low in (0..1500).step_by(7) {
        index.post(low, 1);
        model.insert(low, 1);
    }
    same(&index, &model);
}

#[test]
fn rebuilds_of_every_size() {
    let again = fixed();
    for size in (0..1000).filter(|size| *size < 200 || size % 61 == 0 || size % FAN as u64 <= 1) {
        let (index, mut model) = built((0..size).map(|low| low * 5));
        assert_eq!(check(&index), Ok(model.len()));
        TestedIndex::learn(&again, &model);
        same(&again, &model);
        for low in (0..size * 5).step_by(13) {
            index.post(low, 1);
            model.insert(low, 1);
            assert_eq!(index.withdraw(low / 2), remove_from(&mut model, low / 2));
        }
        same(&index, &model);
    }
}

/// Whole inner nodes run empty, on several levels, from either side and from the middle.
#[test]
fn stretches_without_leaves() {
    const COUNT: u64 = 2 * (FAN * FAN * FAN) as u64;
    let stretches = [(1, COUNT), (1, COUNT - 1), (5, 700), (700, 80), (81, 729), (COUNT - 900, 900), (82, 81)];
    for (from, count) in stretches {
        let stretch = || from..(from + count).min(COUNT);
        let whole: Vec<u64> = stretch().collect();
        let backwards: Vec<u64> = stretch().rev().collect();
        let (odd, even): (Vec<u64>, Vec<u64>) = stretch().partition(|low| low % 2 == 1);
        for lows in [whole, backwards, [even, odd].concat()] {
            let (index, mut model) = built(0..COUNT);
            for (step, low) in lows.into_iter().enumerate() {
                assert_eq!(index.withdraw(low), model.remove(&low));
                if step % 300 == 0 {
                    check(&index).unwrap();
                    assert!((0..COUNT + 3).all(|key| index.floor(key) == floor_in(&model, key)));
                }
            }
            same(&index, &model);
            // Posted again, the lows go to the remaining parents, as long as there is room.
            for low in stretch().step_by(50) {
                index.post(low, 7);
                model.insert(low, 7);
            }
            same(&index, &model);
        }
    }
}

#[test]
fn a_full_parent_is_spread() {
    let index = fixed();
    for low in 0..=ROOM as u64 {
        assert_eq!(index.rebuilds().count, 0);
        index.post(low, leaf_of(low));
    }
    assert_eq!((index.rebuilds().count, check(&index)), (1, Ok(ROOM)));
    assert!(index.rebuilds().nanoseconds > 0);
    // The other parents take theirs without another rebuild.
    for low in 0..ROOM as u64 - 1 {
        index.post((low + 1) << 40, 1);
        index.withdraw((low + 1) << 40);
    }
    assert_eq!(index.rebuilds().count, 1);
}

#[test]
fn parents_that_grow_are_enlarged() {
    let rebuilds = |empty: fn() -> FlatIndex| {
        let index = empty();
        let last = Cell::new(0);
        (0..3000).for_each(|low| index.post(low, leaf_of(low)));
        assert!((0..3000).all(|key| index.floor(key) == Some(leaf_of(key))));
        index.parents(&index.writer.lock()).for_each(|parent| last.set(parent.units()));
        (index.rebuilds().count, last.get(), index.bytes())
    };
    let (often, unit, bytes) = rebuilds(fixed);
    let (seldom, units, more) = rebuilds(adaptive);
    println!("{often} rebuilds and {bytes} bytes, or {seldom} with {units} units and {more} bytes");
    assert_eq!(unit, 1);
    assert!(units > 20 && seldom * 10 < often && more < bytes * 4);
}

#[test]
fn parents_fall_back_to_one_size_if_there_is_no_room_for_larger_ones() {
    let (index, mut model) = trials::begun(FlatIndex::new(100, true).unwrap());
    for low in (0..100).chain((0..99).map(|i| 1000 - i)) {
        index.post(low, low);
        model.insert(low, low);
    }
    same(&index, &model);
}

#[test]
fn what_there_is_no_room_for_is_left_out() {
    for empty in [false, true] {
        let index = FlatIndex::new(16, empty).unwrap();
        index.post(0, leaf_of(0));
        for low in 1..200 {
            let before = index.len();
            index.post(low, leaf_of(low));
            assert!(index.len() == before + 1 || before > 16 * PACKED);
            // The index lags: every leaf that it returns was posted, and none lies too far right.
            let found = index.floor(low).unwrap();
            assert!((0..=low).any(|low| found == leaf_of(low)));
        }
        check(&index).unwrap();
        let len = index.len();
        assert!((16 * PACKED..200).contains(&len));
        // Now there is room again.
        assert!((1..150).filter_map(|low| index.withdraw(low)).count() > 20);
        index.post(10, leaf_of(10));
        assert_eq!(index.floor(12), Some(leaf_of(10)));
        index.learn((0..500u32).map(|low| (low.into(), leaf_of(low.into()))));
        assert_eq!((index.len(), check(&index)), (16 * PACKED, Ok(16)));
        assert_eq!(index.floor(400), Some(leaf_of(16 * PACKED as u64 - 1)));
    }
}

#[test]
fn memory_is_bounded_by_the_largest_set() {
    let (index, _) = built(0..2000);
    let mut random = Random(99);
    for round in 0..20 {
        match round % 3 {
            0 => (1..2000).for_each(|low| assert!(index.withdraw(low).is_some())),
            1 => (0..2000).for_each(|_| index.post(random.below(2000), 1)),
            _ => index.learn((0..2000u32).map(|low| (low.into(), 0))),
        }
        check(&index).unwrap();
    }
    assert!(index.bytes() <= 2 * Numbering::over(2000).bytes(2000));
}

#[test]
fn a_run_begins_with_the_floor_and_goes_on() {
    let (index, model) = built((0..100).map(|low| low * 10));
    let leaves: Vec<u64> = model.values().copied().chain([0; 10]).collect();
    for key in 0..1000 {
        let run = index.run_at_once(key).unwrap();
        assert_eq!(run[..], leaves[key as usize / 10..][..run.len()]);
    }
    (1..100).for_each(|low| assert!(index.withdraw(low * 10).is_some()));
    let run = index.run_at_once(500).unwrap();
    assert!(run[0] == leaf_of(0) && run[1..].iter().all(|&leaf| leaf == 0));
    assert_eq!(fixed().run_at_once(7), None);
}

#[test]
fn groups_are_found_side_by_side() {
    let (index, model) = built((0..100).map(|low| low * 10));
    let keys: Vec<u64> = (0..13).map(|i| i * 77).collect();
    let found = index.floors_at_once(&keys);
    assert!(keys.iter().zip(found).all(|(&key, found)| found == floor_in(&model, key)));
    assert!(found[13..].iter().all(Option::is_none));
}

#[test]
fn ids_lead_down_and_up() {
    for parents in [1, 2, FAN, FAN + 1, FAN * FAN, FAN * FAN + 1, 5000] {
        let numbering = Numbering::over(parents);
        assert!(FAN.pow(numbering.levels as u32) >= parents);
        assert!(numbering.levels == 0 || FAN.pow(numbering.levels as u32 - 1) < parents);
        let last = numbering.first + parents - 1;
        assert!(last == 0 || above(last).0 + 1 == numbering.inner());
        for id in 1..=last {
            let (node, k) = above(id);
            assert_eq!(child(node, k), id);
        }
        for ordinal in 1..parents {
            let id = fork(numbering.first + ordinal);
            assert!(above(id).1 > 0);
            // It begins with that parent.
            assert!(
                std::iter::successors(Some(id), |&id| Some(child(id, 0))).any(|id| id == numbering.first + ordinal)
            );
        }
    }
}

/// An index that begins with the image of these separators; those of its nodes that are `damaged` cannot be read.
fn restored(index: FlatIndex, model: &Model, damaged: fn(u64) -> bool) -> FlatIndex {
    let (words, top) = image_of(model.iter().map(|(&low, &leaf)| (low, leaf)).collect());
    let node_of = move |node| top.node(node, |i| words[i as usize], |_| true);
    assert!(index.restore(top, Box::new(move |node, height, _| node_of((node, height)).filter(|_| !damaged(node)))));
    assert_eq!(index.len(), model.len());
    index
}

fn multiples(count: u64) -> Model {
    (0..count).map(|i| (i * 5, leaf_of(i))).collect()
}

#[test]
fn a_restored_index_is_made_as_it_is_used() {
    for count in [1, 2, 8, 9, 10, 28, 29, 81, 82, 729, 730, 3000] {
        for empty in BOTH {
            let model = multiples(count);
            let fresh = || restored(empty(), &model, |_| false);
            let index = fresh();
            let first = index.bytes();
            assert!(index.all().into_iter().eq(model.clone()));
            assert_eq!(index.bytes(), first, "to show it does not take it up");
            // From either end, and in any order: each key is searched for before anything near it was.
            for backwards in [false, true] {
                let index = fresh();
                for i in 0..count * 5 {
                    let key = if backwards { count * 5 - i } else { i };
                    assert_eq!(index.floor(key), floor_in(&model, key));
                }
                same(&index, &model);
            }
            let index = fresh();
            let mut random = Random(count + 3);
            for _ in 0..300 {
                let key = random.below(count * 6);
                assert_eq!(index.floor(key), floor_in(&model, key));
            }
            assert_eq!(index.floor(u64::MAX), floor_in(&model, u64::MAX));
            same(&index, &model);
            assert_eq!(index.bytes(), Numbering::over(count as usize).bytes(count as usize));
        }
    }
}

/// The parents begin with two leaves, because there is room for no more parents.
#[test]
fn a_restored_index_of_few_parents() {
    for count in 17..=32 {
        let mut model = multiples(count);
        let index = restored(FlatIndex::new(16, true).unwrap(), &model, |_| false);
        for key in (0..count * 5).rev() {
            assert_eq!(index.floor(key), floor_in(&model, key));
        }
        same(&index, &model);
        let index = restored(FlatIndex::new(16, false).unwrap(), &model, |_| false);
        for low in (40..100).rev() {
            assert_eq!(index.withdraw(low), remove_from(&mut model, low));
        }
        same(&index, &model);
    }
    let index = FlatIndex::new(16, true).unwrap();
    let (_, top) = image_of(multiples(33).into_iter().collect());
    assert!(!index.restore(top, Box::new(|_, _, _| unreachable!("there is no room for it"))));
}

#[test]
fn a_scan_of_a_restored_index_asks_ahead() {
    let model = multiples(3000);
    let index = restored(fixed(), &model, |_| false);
    let leaves: Vec<u64> = model.values().copied().collect();
    let mut ahead = 0;
    for key in (0..15_000).step_by(5) {
        let run = index.run_at_once(key).unwrap();
        let known = run.iter().take_while(|&&leaf| leaf != 0).count();
        assert_eq!(run[..known], leaves[key as usize / 5..][..known]);
        ahead += known - 1;
    }
    assert!(ahead > 3000 * 2, "{ahead}");
    same(&index, &model);
}

#[test]
fn a_restored_index_is_changed_before_it_is_made() {
    for seed in 1..60 {
        let mut model = multiples(3 + seed * 17);
        let index = restored(BOTH[seed as usize % 2](), &model, |_| false);
        let mut random = Random(seed);
        let most = model.len() as u64 * 5;
        // Mostly removals of whole stretches, so that parents and inner nodes run empty beside those that are not made.
        for _ in 0..40 {
            let from = random.below(most);
            for low in from..(from + random.below(200)).min(most) {
                assert_eq!(index.withdraw(low), remove_from(&mut model, low));
            }
            let low = random.below(most);
            index.post(low, leaf_of(low));
            model.insert(low, leaf_of(low));
            let key = random.below(most);
            assert_eq!(index.floor(key), floor_in(&model, key));
        }
        assert!(index.all().into_iter().eq(model.clone()));
        same(&index, &model);
    }
}

#[test]
fn a_restored_index_takes_every_change() {
    for empty in BOTH {
        let model = multiples(700);
        trials::grows_and_shrinks((restored(empty(), &model, |_| false), model), 4000, 4000);
    }
    // Full parents, while the others are not made.
    let mut model = multiples(100);
    let index = restored(fixed(), &model, |_| false);
    for low in (0..500).rev() {
        index.post(low, leaf_of(low));
        model.insert(low, leaf_of(low));
    }
    same(&index, &model);
}

/// The bottom nodes have 28 separators; the nodes above the bottom are not read.
#[test]
fn a_damaged_image_is_given_up() {
    let model = multiples(600);
    let top = |damaged: fn(u64) -> bool| {
        let (words, top) = image_of(model.iter().map(|(&low, &leaf)| (low, leaf)).collect());
        fixed().restore(
            top,
            Box::new(move |node, height, _| {
                top.node((node, height), |i| words[i as usize], |_| true).filter(|_| !damaged(node))
            }),
        )
    };
    assert!(!top(|node| node == 0) && top(|node| node > 21));
    type Use = fn(&FlatIndex);
    let uses: [Use; 5] = [
        |index| assert_eq!(index.run_at_once(2700), None),
        |index| assert_eq!(index.floor(2700), None),
        |index| index.post(2701, 1),
        |index| assert_eq!(index.withdraw(2700), None),
        // Spreading the leaves of a full parent needs all of them.
        |index| (0..30).for_each(|low| index.post(low, 1)),
    ];
    for (i, of) in uses.into_iter().enumerate() {
        let index = restored(fixed(), &model, |node| node == 19);
        assert_eq!(index.floor(77), floor_in(&model, 77));
        assert!(!index.is_lost() && !index.for_each(|_, _| ()));
        of(&index);
        // Not even the first leaf, which would hide that the others must be learned.
        index.post(0, 1);
        assert!(index.is_lost() && index.len() == 0 && index.floor(77).is_none(), "{i}");
        TestedIndex::learn(&index, &model);
        assert!(!index.is_lost());
        same(&index, &model);
    }
    let (_, none) = image_of(Vec::new());
    assert!(!fixed().restore(none, Box::new(|_, _, _| None)));
}

#[test]
fn readers_never_miss_what_is_not_made_yet() {
    let model = multiples(4000);
    for _ in 0..if cfg!(miri) { 1 } else { 30 } {
        let index = restored(adaptive(), &model, |_| false);
        std::thread::scope(|scope| {
            let (index, model) = (&index, &model);
            scope.spawn(move || {
                let mut random = Random(77);
                for _ in 0..500 {
                    let low = random.below(4000) * 5 + 3;
                    index.post(low, leaf_of(!low));
                    if random.below(2) == 0 {
                        assert_eq!(index.withdraw(low), Some(leaf_of(!low)));
                    }
                }
            });
            for seed in 1..4 {
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..2000 {
                        let key = random.below(20_000);
                        let found = index.floor(key);
                        let own = key % 5 >= 3 && found == Some(leaf_of(!(key / 5 * 5 + 3)));
                        assert!(own || found == floor_in(model, key), "{key}");
                    }
                });
            }
        });
        index.check().unwrap();
    }
}

/// The checker must find the fault in a damaged index.
#[test]
fn check_finds_faults() {
    type Fault = fn(&FlatIndex);
    let faults: [(&str, Fault); 6] = [
        ("lows do not ascend", |index| parent(index, 20).post(1, (7, 7), true)),
        ("left open", |index| assert!(parent(index, 20).version().open())),
        ("not the first low", |index| parent(index, 20).post(0, (96, 96), false)),
        ("counted wrong", |index| parent(index, 20).remove(0)),
        ("owns something", |index| {
            index.withdraw(100);
            let (root, numbering) = (index.root.get().unwrap(), index.writer.lock().numbering);
            index.half(root).separator(fork(numbering.first + 20)).store(99, std::sync::atomic::Ordering::Relaxed);
        }),
        ("not 200", |index| index.len.store(200, std::sync::atomic::Ordering::Relaxed)),
    ];
    fn parent(index: &FlatIndex, ordinal: usize) -> super::Parent<'_> {
        index.half(index.root.get().unwrap()).parent(ordinal).unwrap()
    }
    for (message, fault) in faults {
        let (index, _) = built((0..300).map(|low| low * 5));
        assert!(check(&index).is_ok());
        fault(&index);
        let found = check(&index).unwrap_err();
        assert!(found.contains(message), "{found}");
    }
}

#[test]
fn readers_never_miss_what_stays() {
    let rounds = if cfg!(miri) {
        20
    } else if long() {
        200_000
    } else {
        20_000
    };
    for empty in BOTH {
        trials::readers_never_miss_what_stays(empty(), 100, rounds);
    }
}

/// Parents fill up and run empty, so that rebuilds happen as often as possible.
#[test]
fn readers_never_miss_while_parents_fill_and_empty() {
    let (sixteens, rounds) = if cfg!(miri) { (10, 1) } else { (20, if long() { 1000 } else { 60 }) };
    for empty in BOTH {
        trials::readers_never_miss_while_nodes_come_and_go(empty(), sixteens, rounds);
    }
}

#[test]
fn readers_never_miss_during_rebuilds() {
    let (sixteens, rounds, inserts) = if cfg!(miri) { (15, 2, 5) } else { (100, if long() { 2000 } else { 200 }, 50) };
    for empty in BOTH {
        trials::readers_never_miss_during_rebuilds(empty(), sixteens, rounds, inserts);
    }
}
