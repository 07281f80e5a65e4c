//! What threads may do to each other, one race at a time. The other thread's half is done by hand, or held where it is.

use super::directory::Directory;
use super::{PTree, TreeState};
use crate::chain::{Draft, NodeView};
use crate::error::{Error, ErrorKind};
use crate::medium::Medium;
use crate::medium::any::{Any, holding, words_of, zeroed};
use crate::node::IndexKind;
use crate::node::{Circular, NEXT, OneLine, SplitInPlace, WordNode};
use crate::papers::Append;
use crate::pool::{Options, Pool};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const POOL: u64 = 4 << 20;

fn options() -> Options {
    Pool::options().segment_size(4096)
}

/// A tree of the keys 0, 10, 20, ...
fn filled<N: WordNode>(index: IndexKind, keys: u64) -> PTree<N, Any> {
    let pool = options().create_on(zeroed(POOL)).unwrap();
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    (0..keys).for_each(|i| assert!(tree.insert(i * 10, i).is_ok()));
    tree
}

/// The views that readers have of all leaves.
fn views<N: WordNode>(state: &TreeState<N, Any>) -> Vec<NodeView<'_, N>> {
    let listed = state.find_leaves(state.head()).unwrap().listed;
    listed.iter().map(|&(_, at)| state.leaves.view(at).unwrap().unwrap()).collect()
}

/// A reader starts again only if what it read has changed.
#[test]
fn writers_that_change_nothing_disturb_no_reader() {
    fn with<N: WordNode>(index: IndexKind) {
        let tree = filled::<N>(index, 200);
        let state = &tree.state;
        let known = views(state);
        let undisturbed = |what: &str| assert!(known.iter().all(NodeView::validate), "{what} changed a version");
        assert_eq!(tree.compare_exchange(50, Some(9), Some(1)).unwrap(), Some(5));
        assert_eq!(tree.compare_exchange(51, Some(9), Some(1)).unwrap(), None);
        assert_eq!(tree.compare_exchange(50, None, Some(1)).unwrap(), Some(5));
        undisturbed("a refused exchange");
        assert_eq!(tree.update(77, 1).unwrap(), None);
        undisturbed("an update of a missing key");
        assert_eq!(tree.remove(77).unwrap(), None);
        undisturbed("a removal of a missing key");
        assert!(tree.check().is_clean() && tree.len() == 200);
        undisturbed("a check");
        state.close_record();
        undisturbed("a close record");
        let last = known.last().unwrap();
        state.directory.reset().unwrap();
        assert_eq!(tree.update(last.range.low(), 7).unwrap().unwrap() * 10, last.range.low());
        let (last, passed) = known.split_last().unwrap();
        assert!(
            passed.len() > 3 && passed.iter().all(NodeView::validate),
            "a writer that walked past changed a version"
        );
        assert!(!last.validate(), "an update that is not noticed");
    }
    with::<OneLine<7>>(IndexKind::Volatile);
    with::<Circular<4>>(IndexKind::Persistent);
    with::<Append<3>>(IndexKind::Volatile);
}

/// A thread that touches an inner node first holds its lock for a moment, and changes nothing.
#[test]
fn a_lock_taken_for_a_moment_is_no_damage() {
    let tree = filled::<Circular<4>>(IndexKind::Persistent, 300);
    let upper = tree.state.directory.upper().unwrap();
    let level = |&at: &u64| upper.chain().level(at).unwrap();
    let top = upper.nodes().unwrap().into_iter().max_by_key(level).unwrap();
    let wait = |spins: usize| (0..spins).for_each(|_| std::hint::spin_loop());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let held = upper.chain().lock(top).unwrap();
                wait(20);
                drop(held);
                wait(100);
            }
        });
        let work = || {
            (0..3000).try_for_each(|key| tree.insert(key, key).map(drop))?;
            (0..3000).filter(|key| key % 10 > 0).try_for_each(|key| tree.remove(key).map(drop))
        };
        let worked: Result<(), Error> = (0..5).try_for_each(|_| work());
        done.store(true, Ordering::Relaxed);
        worked.unwrap();
    });
    assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
    assert!(tree.check().is_clean());
}

/// Makes a leaf in the middle of the chain look as if it had left it, while `meanwhile` runs.
fn without_a_leaf<N: WordNode>(tree: &PTree<N, Any>, meanwhile: impl FnOnce(u64)) {
    let leaves = &tree.state.leaves;
    let (low, at) = tree.state.find_leaves(tree.state.head()).unwrap().listed[5];
    let leaf = leaves.lock(at).unwrap().unwrap();
    leaves.mark_dead(leaf);
    meanwhile(low);
    leaves.publish(at);
}

/// A thread that loses one race after the other waits until the chain is at rest. That is not damage.
#[test]
fn starvation_is_no_damage() {
    fn with<N: WordNode>(index: IndexKind) {
        let tree = filled::<N>(index, 100);
        let (begun, begins) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _restructuring = tree.state.restructuring.lock();
                without_a_leaf(&tree, |low| {
                    begun.send(low).unwrap();
                    thread::sleep(Duration::from_millis(50));
                });
            });
            let low = begins.recv().unwrap();
            let writer = scope.spawn({
                let tree = &tree;
                move || tree.insert(low + 1, 7)
            });
            assert_eq!(tree.get(low), Some(low / 10), "{:?}", tree.fault());
            assert_eq!(writer.join().unwrap().unwrap(), None);
        });
        assert!(tree.fault().is_none() && tree.check().is_clean());
    }
    with::<OneLine<7>>(IndexKind::Volatile);
    with::<Circular<4>>(IndexKind::Persistent);
}

/// A broken chain is detected by every search, and also by a thread that changes the chain.
#[test]
fn a_broken_chain_is_an_error() {
    fn with<N: WordNode<Ops: SplitInPlace>>(index: IndexKind) {
        let tree = filled::<N>(index, 100);
        without_a_leaf(&tree, |low| {
            let is_corrupt = |result| matches!(result, Err(Error { kind: ErrorKind::Corrupt { .. }, .. }));
            assert!(is_corrupt(tree.insert(low, 1).map(drop)));
            assert!(is_corrupt(tree.state.named(tree.state.rebalance(low))));
            assert!(tree.fault().is_none());
            assert_eq!(tree.get(low), None);
            assert!(tree.fault().is_some());
        });
    }
    with::<OneLine<7>>(IndexKind::Volatile);
    with::<Circular<4>>(IndexKind::Persistent);
}

/// The index leads to one leaf, the chain to another, and both own the key. No thread goes from one to the other
/// forever.
#[test]
fn two_leaves_that_own_a_key_are_an_error() {
    let tree = filled::<Append<3>>(IndexKind::Volatile, 200);
    let state = &tree.state;
    let key = 1000;
    // An update takes two slots.
    while state.leaves.has_room(&state.lock_owner(key).unwrap(), 2) {
        tree.update(key, 1).unwrap();
    }
    let full = state.lock_owner(key).unwrap();
    let (range, next) = (full.range(), state.leaves.next(full.at).unwrap().unwrap());
    drop(full);
    let left = state.lock_owner(range.low() - 1).unwrap().at;
    let twin = state.leaves.create(Draft { level: 0, low: &range.low(), range, next, entries: &[] }).unwrap().at;
    state.medium().store(left + NEXT, twin);
    assert!(matches!(tree.update(key, 2), Err(Error { kind: ErrorKind::Corrupt { .. }, .. })));
}

/// A tree that has one or two entries at any time. One thread adds the second one, another removes the first one,
/// further and further to the left.
#[test]
fn a_tree_that_never_was_empty_is_not() {
    let pool = options().create_on(zeroed(POOL)).unwrap();
    let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", IndexKind::Volatile).unwrap();
    // Some leaves, all empty except for the key between the last two.
    (0..60).for_each(|key| assert!(tree.insert(key * 10, key).is_ok()));
    (0..60).filter(|key| key % 6 > 0).for_each(|key| assert!(tree.remove(key * 10).is_ok()));
    let places: Vec<u64> = (0..10).rev().map(|place| place * 60).collect();
    places[1..].iter().for_each(|&key| assert!(tree.remove(key).unwrap().is_some()));
    let (turn, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let player = |number: usize| {
        let (tree, places, turn, done) = (&tree, &places, &turn, &done);
        move || {
            while !done.load(Ordering::Relaxed) {
                let now = turn.load(Ordering::Acquire);
                if now.div_ceil(2) % 2 == number {
                    let (here, next) = (places[now / 2 % 10], places[(now / 2 + 1) % 10]);
                    let was = if now % 2 == 0 { tree.insert(next, 1) } else { tree.remove(here) };
                    assert_eq!(was.unwrap().is_some(), now % 2 == 1);
                    turn.store(now + 1, Ordering::Release);
                }
                std::hint::spin_loop();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(player(0));
        scope.spawn(player(1));
        let stop = Instant::now() + Duration::from_millis(400);
        let (mut empty, mut wrong) = (0, 0);
        while Instant::now() < stop {
            empty += u64::from(tree.is_empty());
            wrong += u64::from(![1, 2].contains(&tree.len()));
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!((empty, wrong), (0, 0), "times empty, times another number than 1 or 2");
    });
}

/// The tree as a crash leaves it.
fn crashed<N: WordNode>(tree: &PTree<N, Any>) -> PTree<N, Any> {
    options().open_on(holding(words_of(tree.pool().medium()))).unwrap().tree_with("t", tree.index()).unwrap()
}

/// After a crash, threads count while other threads insert, remove, split and merge.
#[test]
fn counting_after_a_crash_is_exact_while_others_write() {
    fn with<N: WordNode>(index: IndexKind) {
        let before = filled::<N>(index, 3000);
        for round in 0..5 {
            let tree = crashed(&before);
            assert!(!tree.state.leaves.count.is_whole());
            thread::scope(|scope| {
                for number in 0..2 {
                    let tree = &tree;
                    scope.spawn(move || {
                        // From both ends to the middle, where the other thread leaves every key of this one alone.
                        let keys = |i: u64| if number == 0 { i * 10 } else { 29_990 - i * 10 };
                        for i in 0..700 {
                            if (i + round) % 3 == 0 {
                                assert_eq!(tree.insert(keys(i) + 5, 1).unwrap(), None);
                            } else {
                                assert!(tree.remove(keys(i)).unwrap().is_some());
                            }
                        }
                    });
                    scope.spawn(move || assert!((1500..3500).contains(&tree.len())));
                }
            });
            assert!(tree.state.leaves.count.is_whole());
            assert_eq!(tree.len(), tree.iter().count() as u64);
            assert!(tree.fault().is_none() && tree.check().is_clean());
        }
    }
    with::<OneLine<7>>(IndexKind::Volatile);
    with::<Circular<4>>(IndexKind::Persistent);
    with::<Append<3>>(IndexKind::Volatile);
}

/// The count does not wait for threads that split and merge, and they do not wait for it.
#[test]
fn counting_after_a_crash_keeps_nobody_waiting() {
    let tree = crashed(&filled::<OneLine<7>>(IndexKind::Volatile, 3000));
    let (counted, counts) = mpsc::channel();
    thread::scope(|scope| {
        let restructuring = tree.state.restructuring.lock();
        scope.spawn(|| counted.send(tree.len()).unwrap());
        let len = counts.recv_timeout(Duration::from_secs(20));
        drop(restructuring);
        assert_eq!(len, Ok(3000));
    });
}
