use super::arena::Id;
use super::node::WIDTH;
use super::{Separators, freeze};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

type Model = BTreeMap<u64, u64>;

/// Of no pattern, and told by its low.
fn leaf_of(low: u64) -> u64 {
    low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

fn empty() -> Separators {
    Separators::new(1 << 20).unwrap()
}

/// An index of the first separator alone, which stays.
fn begun() -> (Separators, Model) {
    let index = empty();
    index.insert(0, leaf_of(0));
    (index, Model::from([(0, leaf_of(0))]))
}

fn built(lows: impl IntoIterator<Item = u64>) -> (Separators, Model) {
    let model: Model = std::iter::once(0).chain(lows).map(|low| (low, leaf_of(low))).collect();
    let index = empty();
    index.rebuild(model.iter().map(|(&low, &leaf)| (low, leaf)));
    (index, model)
}

fn floor_in(model: &Model, key: u64) -> Option<u64> {
    model.range(..=key).next_back().map(|(_, &leaf)| leaf)
}

/// What a removal does to the model: the first separator stays.
fn remove_from(model: &mut Model, low: u64) -> Option<u64> {
    if low == 0 { None } else { model.remove(&low) }
}

/// The shape of a subtree.
struct Shape {
    nodes: usize,
    separators: usize,
    /// The greatest separator.
    last: u64,
}

/// Invariants 1 and 2 below `id`, whose first separator is `least`.
fn shape(index: &Separators, id: Id, height: usize, least: u64) -> Result<Shape, String> {
    let node = index.arena.node(id);
    node.version().map_err(|_| "a node was left open")?;
    let mut all = Shape { nodes: 1, separators: 0, last: least };
    let mut before = None;
    for slot in 0..node.len() {
        let (low, child) = node.entry(slot, least);
        if slot > 0 && low <= all.last {
            return Err("lows do not ascend".into());
        }
        if height == 0 {
            all.separators += 1;
            all.last = low;
            continue;
        }
        let below = shape(index, child, height - 1, low)?;
        let children = index.arena.node(child).len();
        if before.replace(children).is_some_and(|before| before + children <= WIDTH / 2) {
            return Err("two neighbours hold half a node".into());
        }
        all = Shape { nodes: all.nodes + below.nodes, separators: all.separators + below.separators, ..below };
    }
    Ok(all)
}

/// The invariants that hold between any two changes; returns the nodes of the tree.
fn check(index: &Separators) -> Result<usize, String> {
    let root = index.root.get();
    let shape = match root {
        None => Shape { nodes: 0, separators: 0, last: 0 },
        Some(root) if root.height > 0 && index.arena.node(root.id).len() == 1 => {
            return Err("a root of one child".into());
        }
        Some(root) => shape(index, root.id, root.height, 0)?,
    };
    if shape.separators != index.len() {
        return Err(format!("{} separators, len() is {}", shape.separators, index.len()));
    }
    let (spare, all) = {
        let writer = index.writer.lock();
        (writer.spare.len(), writer.spare.touched())
    };
    if shape.nodes + spare != all {
        return Err(format!("{} nodes in the tree and {spare} spare, of {all}", shape.nodes));
    }
    let height = root.map_or(0, |root| root.height + 1);
    let most = shape.separators * 5 / WIDTH + 3 * height;
    if shape.nodes > most {
        return Err(format!("{} nodes for {} separators", shape.nodes, shape.separators));
    }
    Ok(shape.nodes)
}

fn same(index: &Separators, model: &Model) {
    check(index).unwrap();
    let mut all = Vec::new();
    index.for_each(|low, leaf| all.push((low, leaf)));
    assert!(all.iter().copied().eq(model.iter().map(|(&low, &leaf)| (low, leaf))));
    assert_eq!(index.len(), model.len());
    let near = |key: u64| [key.wrapping_sub(1), key, key.wrapping_add(1)];
    for key in model.keys().copied().chain([0, u64::MAX / 2, u64::MAX]).flat_map(near) {
        assert_eq!(index.floor(key), floor_in(model, key), "floor of {key}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Remove(u64),
    /// So many separators from there on, so far apart.
    Rebuild(u64, u16, u16),
    Look(u64),
}

fn op() -> impl Strategy<Value = Op> {
    // No separator is MAX.
    let key = || prop_oneof![6 => 0..400u64, 1 => u64::MAX - 20..u64::MAX, 1 => 0..u64::MAX];
    prop_oneof![
        40 => (key(), any::<u64>()).prop_map(|(low, leaf)| Op::Insert(low, leaf)),
        40 => key().prop_map(Op::Remove),
        1 => (1..200u64, 0..300u16, 1..9u16).prop_map(|(low, count, step)| Op::Rebuild(low, count, step)),
        20 => key().prop_map(Op::Look),
    ]
}

proptest! {
    #[test]
    fn does_what_a_map_does(ops in prop::collection::vec(op(), 0..1500)) {
        let (index, mut model) = begun();
        for op in ops {
            match op {
                Op::Insert(low, leaf) => {
                    index.insert(low, leaf);
                    model.insert(low, leaf);
                }
                Op::Remove(low) => prop_assert_eq!(index.remove(low), remove_from(&mut model, low)),
                Op::Rebuild(low, count, step) => {
                    let lows = (0..u64::from(count)).map(|i| low + i * u64::from(step));
                    model = std::iter::once(0).chain(lows).map(|low| (low, leaf_of(low))).collect();
                    index.rebuild(model.iter().map(|(&low, &leaf)| (low, leaf)));
                }
                Op::Look(key) => {
                    prop_assert_eq!(index.floor(key), floor_in(&model, key));
                }
            }
        }
        same(&index, &model);
    }
}

#[test]
fn grows_and_shrinks_through_three_levels() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let (index, mut model) = begun();
    // (range of keys, inserts in ten changes): up, down to a few, up, to nothing.
    for (range, inserts) in [(20_000, 9), (20_000, 1), (300, 7), (20_000, 9), (20_000, 0)] {
        for step in 0..80_000 {
            let low = random.below(range);
            if random.below(10) < inserts {
                index.insert(low, leaf_of(low));
                model.insert(low, leaf_of(low));
            } else {
                assert_eq!(index.remove(low), remove_from(&mut model, low));
            }
            if step % 10_000 == 0 {
                check(&index).unwrap();
            }
        }
        same(&index, &model);
    }
    for low in model.clone().into_keys() {
        assert_eq!(index.remove(low), remove_from(&mut model, low));
    }
    same(&index, &model);
}

#[test]
fn every_order_of_inserts_and_removes() {
    const COUNT: u64 = 10_000;
    let shuffled = |seed| {
        let mut lows: Vec<u64> = (0..COUNT).collect();
        let mut random = Random(seed);
        for i in (1..lows.len()).rev() {
            lows.swap(i, random.below(i as u64 + 1) as usize);
        }
        lows
    };
    let orders = [(0..COUNT).collect(), (0..COUNT).rev().collect(), shuffled(7)];
    for inserts in &orders {
        for removes in &orders {
            let (index, mut model) = begun();
            for &low in inserts {
                index.insert(low, leaf_of(low));
                model.insert(low, leaf_of(low));
            }
            same(&index, &model);
            for (step, low) in removes.iter().enumerate() {
                assert_eq!(index.remove(*low), remove_from(&mut model, *low));
                if step % 1000 == 999 {
                    same(&index, &model);
                }
            }
            assert_eq!((index.len(), check(&index)), (1, Ok(1)));
        }
    }
}

#[test]
fn ascending_inserts_fill_the_nodes() {
    let index = empty();
    for low in 0..100 * WIDTH as u64 {
        index.insert(low, low);
    }
    assert!(check(&index).unwrap() <= 105);
}

#[test]
fn all_keys_are_legal() {
    let ends = [1, 2, 3, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 2, u64::MAX - 1];
    for set in 0..1u32 << ends.len() {
        let (index, mut model) = begun();
        same(&index, &model);
        for (_, low) in ends.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1) {
            index.insert(*low, !low);
            model.insert(*low, !low);
        }
        same(&index, &model);
        for low in ends {
            assert_eq!(index.remove(low), model.remove(&low));
            same(&index, &model);
        }
    }
    // And where each of them is the first or last of a full node.
    for around in [0, u64::MAX / 2 - WIDTH as u64, u64::MAX - 3 * WIDTH as u64 - 1] {
        let (index, model) = built(around..=around + 3 * WIDTH as u64);
        same(&index, &model);
    }
}

#[test]
fn an_empty_index_takes_the_first_separator_only() {
    let index = empty();
    index.insert(7, 70);
    assert_eq!((index.floor(9), index.len()), (None, 0));
    index.insert(0, 1);
    assert_eq!((index.floor(9), index.remove(0), index.len()), (Some(1), None, 1));
    index.rebuild(std::iter::empty());
    assert_eq!((index.floor(9), index.len()), (None, 0));
}

#[test]
fn insert_replaces_the_leaf() {
    let (index, mut model) = built((0..1000).map(|low| low * 3));
    for low in (0..3000).step_by(7) {
        index.insert(low, 1);
        model.insert(low, 1);
    }
    same(&index, &model);
}

#[test]
fn rebuilds_of_every_size() {
    let sizes = (0..5000).filter(|size| *size < 300 || size % 61 == 0 || size % WIDTH as u64 <= 1);
    let again = empty();
    for size in sizes {
        let (index, mut model) = built((0..size).map(|low| low * 5));
        again.rebuild(model.iter().map(|(&low, &leaf)| (low, leaf)));
        same(&again, &model);
        // What was built in bulk goes on as if it had grown.
        for low in (0..size * 5).step_by(13) {
            index.insert(low, 1);
            model.insert(low, 1);
            assert_eq!(index.remove(low / 2), remove_from(&mut model, low / 2));
        }
        same(&index, &model);
    }
}

#[test]
fn memory_is_bounded_by_the_largest_tree() {
    let (index, _) = built(0..20_000);
    let nodes = || index.writer.lock().spare.touched();
    let mut random = Random(99);
    let mut settled = 0;
    for round in 0..30 {
        match round % 3 {
            0 => index.rebuild((0..20_000u32).map(|low| (low.into(), 0))),
            1 => (1..20_000).for_each(|low| assert!(index.remove(low).is_some())),
            // A window that moves: nodes come at one end and go at the other.
            _ => (0..60_000).for_each(|low| {
                index.insert(low, low);
                index.remove(low.saturating_sub(10_000 + random.below(10_000)));
            }),
        }
        check(&index).unwrap();
        if round == 5 {
            settled = nodes();
        }
    }
    assert!(nodes() <= settled + settled / 50, "{} nodes, {settled} after two rounds", nodes());
}

#[test]
fn thinned_out_nodes_merge() {
    let (index, mut model) = built(0..100_000);
    let before = check(&index).unwrap();
    for low in (0..100_000).filter(|low| low % WIDTH as u64 != 0) {
        assert_eq!(index.remove(low), remove_from(&mut model, low));
    }
    same(&index, &model);
    assert!(check(&index).unwrap() * 10 < before);
}

/// The checker must fail for a tree that is wrong.
#[test]
fn check_finds_faults() {
    type Fault = fn(&Separators);
    let root = |index: &Separators| index.root.get().unwrap().id;
    let faults: [(&str, Fault); 5] = [
        ("lows do not ascend", |index| {
            let root = index.arena.node(index.root.get().unwrap().id);
            root.set_low(3, root.low(3) + WIDTH as u64);
        }),
        ("lows do not ascend", |index| {
            let bottom = index.arena.node(index.arena.node(index.root.get().unwrap().id).child(2));
            bottom.set_low(2, bottom.low(1));
        }),
        ("left open", |index| {
            assert!(index.arena.node(index.arena.node(index.root.get().unwrap().id).child(1)).open())
        }),
        ("two neighbours", |index| {
            let root = index.arena.node(index.root.get().unwrap().id);
            (0..2).for_each(|slot| index.arena.node(root.child(slot)).truncate(WIDTH / 4));
        }),
        ("spare", |index| assert!(index.writer.lock().spare.take() > 0)),
    ];
    for (message, fault) in faults {
        let (index, _) = built(0..500);
        assert!(index.arena.node(root(&index)).len() > 3 && check(&index).is_ok());
        fault(&index);
        let found = check(&index).unwrap_err();
        assert!(found.contains(message), "{found}");
    }
}

/// Two writers, two readers. Every sixteenth low stays; the writers post and remove, each in their own half of the
/// others. `churn` is what a writer does in one round.
fn stress(rounds: u64, span: u64, churn: impl Fn(&Separators, u64, &mut Random) + Sync) {
    let stays = |low: u64| low.is_multiple_of(16);
    let (index, _) = built((0..span).filter(|low| stays(*low)));
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
                    let key = random.below(span + 40);
                    let leaf = index.floor(key).expect("low 0 stays");
                    let least = key.min(span - 1) / 16 * 16;
                    let found = (least..=key).any(|low| leaf == leaf_of(low));
                    assert!(found, "the floor of {key} is another's, though {least} stays");
                    let left = least.checked_sub(1).and_then(|key| index.floor(key));
                    assert!(left.is_none_or(|leaf| (least - 16..least).any(|low| leaf == leaf_of(low))));
                }
            });
        }
    });
    check(&index).unwrap();
}

/// A low of that writer's half that does not stay.
fn changing(span: u64, writer: u64, random: &mut Random) -> u64 {
    random.below(span / 16) * 16 + 1 + random.below(7) * 2 + writer
}

#[test]
fn readers_never_miss_what_stays() {
    let span = 16 * 500;
    stress(if cfg!(miri) { 20 } else { 1_000_000 }, span, |index, writer, random| {
        let low = changing(span, writer, random);
        if random.below(2) == 0 {
            index.insert(low, leaf_of(low));
        } else if let Some(leaf) = index.remove(low) {
            assert_eq!(leaf, leaf_of(low));
        }
    });
}

/// Filling and emptying a few nodes at a time splits, merges and uses again as often as can be.
#[test]
fn readers_never_miss_while_nodes_come_and_go() {
    let span = if cfg!(miri) { 16 * 10 } else { 16 * 40 };
    stress(if cfg!(miri) { 1 } else { 1500 }, span, |index, writer, _| {
        let lows = (0..span).filter(|low| !low.is_multiple_of(16) && low % 2 == writer);
        lows.clone().for_each(|low| index.insert(low, leaf_of(low)));
        lows.for_each(|low| assert_eq!(index.remove(low), Some(leaf_of(low))));
    });
}

#[test]
fn readers_never_miss_during_rebuilds() {
    let (span, inserts) = if cfg!(miri) { (16 * 15, 5) } else { (16 * 300, 200) };
    stress(if cfg!(miri) { 2 } else { 3000 }, span, |index, writer, random| {
        if writer == 0 {
            let every = 1 + random.below(15);
            let lows: Vec<u64> = (0..span).filter(|low| low % 16 == 0 || low % 16 == every).collect();
            index.rebuild(lows.into_iter().map(|low| (low, leaf_of(low))));
        } else {
            for _ in 0..inserts {
                let low = changing(span, 1, random);
                index.insert(low, leaf_of(low));
                index.remove(changing(span, 1, random));
            }
        }
    });
}

fn all(index: &Separators) -> Option<Model> {
    let mut all = Model::new();
    index.for_each(|low, leaf| assert!(all.insert(low, leaf).is_none())).then_some(all)
}

/// An index that has its nodes still to take from an image; those that are `damaged` are not to be had.
fn frozen(model: &Model, damaged: impl Fn(u64) -> bool + Send + Sync + 'static) -> Separators {
    let (words, top) = freeze(model.iter().map(|(&low, &leaf)| (low, leaf)).collect());
    let index = empty();
    let thaw = move |node| top.thaw(node, |i| words[i as usize], |_| true);
    assert!(index.restore(top, Box::new(move |node, height| thaw((node, height)).filter(|_| !damaged(node)))));
    index
}

#[test]
fn a_frozen_index_thaws_as_it_is_used() {
    let mut random = Random(4242);
    for size in [1, 2, 28, 29, 28 * 28, 28 * 28 + 1, 23_000] {
        let (_, mut model) = built((0..size).map(|low| low * 5));
        let mut index = frozen(&model, |_| false);
        assert_eq!((index.len(), all(&index).as_ref()), (model.len(), Some(&model)));
        for step in 0..4000 {
            let low = 1 + random.below(size * 5);
            match random.below(3) {
                0 => {
                    index.insert(low, !low);
                    model.insert(low, !low);
                }
                // Whole stretches go, so that nodes run empty next to others that are still frozen.
                1 => (low..low + 60).for_each(|low| assert_eq!(index.remove(low), model.remove(&low))),
                _ => assert_eq!(index.floor(low), floor_in(&model, low)),
            }
            if step % 500 == 0 {
                assert_eq!((index.len(), all(&index).as_ref()), (model.len(), Some(&model)));
            }
            if step % 1500 == 1499 {
                // Closed and opened in between.
                index = frozen(&all(&index).unwrap(), |_| false);
            }
        }
        let wanted: Vec<u64> = (0..size * 5).step_by(7).collect();
        assert!(wanted.iter().all(|&key| index.floor(key) == floor_in(&model, key)));
        index.rebuild(model.iter().map(|(&low, &leaf)| (low, leaf)));
        same(&index, &model);
    }
}

#[test]
fn a_damaged_image_is_forgotten_when_it_is_found_out() {
    let (_, model) = built((0..2000).map(|low| low * 5));
    for damaged in [0, 1, 40, 71, 72] {
        let uses: [fn(&Separators, u64); 3] = [
            |index, key| assert_eq!(index.floor(key), None),
            |index, key| index.insert(key, 7),
            |index, key| assert_eq!(index.remove(key), None),
        ];
        for lose in uses {
            let index = frozen(&model, move |node| node == damaged);
            assert!(!index.is_lost() && all(&index).is_none());
            (0..10_000).step_by(3).take_while(|_| !index.is_lost()).for_each(|key| {
                if floor_in(&model, key) != index.floor(key) {
                    assert!(index.is_lost());
                }
            });
            assert!(index.is_lost());
            lose(&index, 777);
            assert_eq!((index.floor(777), index.len()), (None, 0));
            index.rebuild(model.iter().map(|(&low, &leaf)| (low, leaf)));
            assert!(!index.is_lost());
            same(&index, &model);
        }
    }
}

#[test]
fn no_flipped_bit_of_an_image_is_believed() {
    let (words, top) = freeze((0..60).map(|low| (low * 3, low * 64)).collect());
    assert_eq!((top.nodes, top.height, top.len, top.words()), (4, 1, 60, words.len() as u64));
    let of = |words: &[u64], node| top.thaw(node, |i| words[i as usize], |at| at.is_multiple_of(64));
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
