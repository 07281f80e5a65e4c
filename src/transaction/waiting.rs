//! Changes that find no space, and wait for what readers keep.

use crate::error::{Error, ErrorKind, Result};
use crate::map::Map;
use crate::medium::any::{Any, zeroed};
use crate::node::OneLine;
use crate::pool::Pool;
use crate::pool::patience::{Patience, instead};
use crate::tree::PTree;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::thread;

type Tree = PTree<OneLine<7>, Any>;
type Records = Map<u64, Vec<u8>, OneLine<7>, Any>;

/// How often a change waits at most; and on a thread that is reading.
const MOST: u32 = 64 + 3000;
const MOST_OF_READER: u32 = 64 + 30;

/// A value that takes a segment.
fn long(of: u64) -> Vec<u8> {
    vec![of as u8; 4000]
}

fn is_refused<T>(result: &Result<T>) -> bool {
    match result {
        Ok(_) => false,
        Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// A pool without free segments.
struct Full {
    pool: Pool<Any>,
    /// Its leaves are full.
    tree: Tree,
    /// It is empty.
    empty: Tree,
    /// It has the keys 0, 10, 20, ..., 290.
    map: Records,
    /// What can be removed.
    ballast: Records,
    /// What takes all the rest.
    _rest: Records,
}

/// What another thread has, and lets go of.
trait Kept {}

impl<T> Kept for T {}

/// An iterator that is put aside, which keeps all of the ballast.
fn iterator(of: &Full) -> Box<dyn Kept + '_> {
    let mut entries = of.ballast.iter();
    assert!(entries.next().unwrap().is_ok());
    Box::new(entries)
}

/// The snapshot of a transaction.
fn moment(of: &Full) -> Box<dyn Kept + '_> {
    Box::new(of.pool.state.moment().unwrap())
}

/// Keys of the ballast; the first one stays.
const BALLAST: u64 = 40;

impl Full {
    fn new() -> Self {
        Self::beside_trees(0)
    }

    /// A full pool with so many other trees.
    fn beside_trees(others: u64) -> Self {
        let pool = Pool::options().segment_size(4096).create_on(zeroed(512 << 10)).unwrap();
        (0..others).for_each(|other| drop(pool.tree_of::<OneLine<7>>(&other.to_string()).unwrap()));
        let (tree, empty) = (pool.tree_of("tree").unwrap(), pool.tree_of("empty").unwrap());
        let map: Records = pool.map_of("map").unwrap();
        let ballast: Records = pool.map_of("ballast").unwrap();
        (0..200).for_each(|key| assert_eq!(tree.insert(10 * key, key).unwrap(), None));
        (0..30).for_each(|key| assert!(!map.insert(10 * key, b"short").unwrap()));
        (0..BALLAST).for_each(|key| assert!(!ballast.insert(key, &long(key)).unwrap()));
        let rest: Records = pool.map_of("rest").unwrap();
        assert!((0..200).any(|key| is_refused(&rest.insert(key, &long(key)))));
        // What is left are free blocks of leaves. Then all leaves are full, too.
        let refused = (0..200 * 8).filter(|i| is_refused(&tree.insert(10 * (i / 8) + 1 + i % 8, 0))).count();
        assert!(refused > 1000, "{refused}");
        Self { pool, tree, empty, map, ballast, _rest: rest }
    }

    /// Removes the ballast, which readers may keep.
    fn remove(&self) {
        assert_eq!(self.ballast.remove_range(1..).unwrap(), BALLAST - 1);
    }

    fn sound(&self) {
        let report = self.pool.check().unwrap();
        assert!(report.is_clean(), "{:?}", report.violations);
        for (name, report) in [("tree", self.tree.check()), ("empty", self.empty.check())] {
            assert!(report.is_clean(), "{name}: {:?}", report.violations);
        }
        for (name, report) in [("map", self.map.check()), ("ballast", self.ballast.check())] {
            assert!(report.is_clean(), "{name}: {:?}", report.violations);
        }
    }

    /// Makes a change beside another thread that keeps all of the ballast. It lets go in the pause with this number,
    /// when it has done something else. Returns how many pauses there were, too.
    fn beside<R>(
        &self,
        keep: fn(&Self) -> Box<dyn Kept + '_>,
        (ends, first): (u32, impl FnOnce() + Send),
        change: impl FnOnce() -> R,
    ) -> (R, u32) {
        let (begun, has_begun) = channel();
        let (end, is_to_end) = channel::<()>();
        let (ended, has_ended) = channel();
        let pauses = Rc::new(Cell::new(0));
        let count = Rc::clone(&pauses);
        let result = thread::scope(|scope| {
            scope.spawn(move || {
                let kept = keep(self);
                begun.send(()).unwrap();
                // An error: the change has ended before.
                if is_to_end.recv().is_ok() {
                    first();
                    drop(kept);
                    ended.send(()).unwrap();
                }
            });
            has_begun.recv().unwrap();
            self.remove();
            let pause = move |tries| {
                assert_eq!(tries, count.get(), "each pause counts");
                count.set(tries + 1);
                if tries == ends {
                    end.send(()).unwrap();
                    has_ended.recv().unwrap();
                }
            };
            instead(pause, change)
        });
        (result, pauses.get())
    }
}

/// In the pause with this number, a reader lets go.
const SOON: u32 = 3;

/// A change that is refused in a full pool, but not if a reader lets go while it waits.
fn waits<R: std::fmt::Debug>(what: &str, change: impl Fn(&Full) -> Result<R>) {
    waits_in(Full::new, what, change);
}

fn waits_in<R: std::fmt::Debug>(new: impl Fn() -> Full, what: &str, change: impl Fn(&Full) -> Result<R>) {
    let full = new();
    assert!(is_refused(&instead(|_| panic!("there is no hope"), || change(&full))), "{what}");
    let (result, pauses) = full.beside(iterator, (SOON, || ()), || change(&full));
    assert!(result.is_ok() && pauses > SOON, "{what}, after {pauses} pauses: {result:?}");
    full.sound();
    let full = new();
    let (result, pauses) = full.beside(iterator, (u32::MAX, || ()), || change(&full));
    assert!(is_refused(&result) && pauses == MOST, "{what}, after {pauses} pauses: {result:?}");
    full.sound();
}

#[test]
fn a_change_waits_for_readers_of_any_tree() {
    let full = |key: u64| 10 * key + 9;
    waits("insert", |of| of.tree.insert(full(100), 0));
    waits("insert_batch", |of| {
        let entries: Vec<_> = (0..60).map(|key| (full(key), key)).collect();
        of.tree.insert_batch(&entries)
    });
    waits("bulk_load", |of| of.empty.bulk_load((0..1000).map(|key| (key, key))));
    waits("a new tree", |of| of.pool.tree_of::<OneLine<7>>("new").map(drop));
    // The first sixteen roots are at hand.
    waits_in(|| Full::beside_trees(16 - 5), "a new root", |of| of.pool.tree_of::<OneLine<7>>("new").map(drop));
    waits("a record", |of| of.map.insert(0, &long(0)));
    waits("records", |of| of.map.insert_batch(&(0..8).map(|key| (10 * key, long(key))).collect::<Vec<_>>()));
    waits("compare_exchange", |of| of.map.compare_exchange(10, Some(b"short"), Some(&long(1))));
    waits("update_with", |of| of.map.update_with(10, |_| Some(long(1))));
    waits("one write of a transaction", |of| {
        of.pool.transaction(|tx| {
            assert!(tx.get(&of.map, 20)?.is_some());
            tx.insert(&of.map, 10, &long(1))
        })
    });
    waits("a split by a transaction", |of| {
        of.pool.transaction(|tx| {
            assert!(tx.get(&of.map, 20)?.is_some());
            tx.insert(&of.tree, full(100), 0)
        })
    });
    waits("a transaction", |of| {
        of.pool.transaction(|tx| {
            assert!(tx.get(&of.map, 20)?.is_some() && tx.range(&of.map, 100..200)?.count() > 5);
            tx.insert(&of.tree, full(100), 0)?;
            (0..8).try_for_each(|key| tx.insert(&of.map, 10 * key, &long(key)))
        })
    });
    waits("the list of a transaction", |of| {
        let mut batch = of.pool.batch();
        (0..100).try_for_each(|key| batch.insert(&of.tree, 10 * key, 1))?;
        batch.commit()
    });
}

#[test]
fn a_batch_goes_on_where_it_has_waited() {
    let full = Full::new();
    // There is room for the first one.
    full.tree.remove(1).unwrap().unwrap();
    let before: Vec<_> = full.tree.iter().collect();
    let entries: Vec<_> = (0..120).map(|key| (10 * key + 9, key)).collect();
    // What others change meanwhile is not undone.
    let change = || assert_eq!(full.tree.remove(9).unwrap(), Some(0));
    let (inserted, pauses) = full.beside(iterator, (SOON, change), || full.tree.insert_batch(&entries));
    assert!(inserted.unwrap() == 120 && pauses > SOON);
    let mut after = [&before[..], &entries[1..]].concat();
    after.sort_unstable();
    assert_eq!(full.tree.iter().collect::<Vec<_>>(), after);
    full.sound();
}

/// A transaction keeps what others retire in the trees that it has read. It does not wait for itself.
#[test]
fn a_transaction_does_not_keep_what_it_waits_for() {
    for writes in 1..4 {
        let full = Full::new();
        let mut tx = full.pool.begin();
        assert!(tx.get(&full.ballast, 0).unwrap().is_some() && tx.range(&full.map, ..).unwrap().count() == 30);
        full.remove();
        assert!(is_refused(&instead(|_| (), || full.map.insert(5, &long(5)))), "the transaction keeps it");
        (0..writes).for_each(|i| tx.insert(&full.map, 5 + i, &long(i)).unwrap());
        instead(|_| panic!("nobody else keeps it"), || tx.commit()).unwrap();
        assert!((0..writes).all(|i| full.map.get(5 + i).unwrap() == Some(long(i))));
        full.sound();
    }
}

/// Two transactions. Each keeps what the other one waits for.
#[test]
fn transactions_do_not_wait_for_each_other() {
    let full = Full::new();
    let barrier = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for of in 0..2 {
            let (full, barrier) = (&full, &barrier);
            scope.spawn(move || {
                let mut tx = full.pool.begin();
                assert!(tx.get(&full.ballast, 0).unwrap().is_some());
                barrier.wait();
                if of == 0 {
                    full.remove();
                }
                barrier.wait();
                (0..8).for_each(|key| tx.insert(&full.map, 10 * (8 * of + key), &long(key)).unwrap());
                tx.commit().unwrap();
            });
        }
    });
    assert!((0..16).all(|key| full.map.get(10 * key).unwrap() == Some(long(key % 8))));
    full.sound();
}

/// What was read may be replaced by another record at the same place, once the transaction has let go of it.
#[test]
fn the_same_word_for_another_record_is_a_conflict() {
    for writes in 1..3 {
        let full = Full::new();
        let mut tx = full.pool.begin();
        assert_eq!(tx.get(&full.map, 20).unwrap().as_deref(), Some(&b"short"[..]));
        (0..writes).for_each(|i| tx.insert(&full.map, 200 + 10 * i, &long(i)).unwrap());
        let word = || full.map.state().get_seen(20).unwrap().0;
        let before = word();
        let change = || {
            full.map.insert(20, b"other").unwrap();
            // Now the space of the first one is used again.
            let fault = ErrorKind::OutOfSpace { wanted: 1, capacity: 1, source: None }.into();
            full.pool.state.wait_for_space(&mut Patience::default(), fault).unwrap();
            full.map.insert(20, b"third").unwrap();
            assert_eq!(word(), before);
        };
        let (result, pauses) = full.beside(iterator, (SOON, change), || tx.commit());
        assert!(matches!(result, Err(Error { kind: ErrorKind::Conflict, .. })) && pauses > SOON, "{result:?}");
        assert_eq!(full.map.get(200).unwrap().as_deref(), Some(&b"short"[..]));
        full.sound();
    }
}

#[test]
fn what_changes_while_a_transaction_waits_is_a_conflict() {
    for (same_leaf, writes) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
        let full = Full::new();
        let mut tx = full.pool.begin();
        assert!(tx.get(&full.map, 20).unwrap().is_some());
        (0..writes).for_each(|i| tx.insert(&full.map, 200 + 10 * i, &long(i)).unwrap());
        let change = || assert!(full.map.remove(if same_leaf { 20 } else { 290 }).unwrap());
        let (result, _) = full.beside(iterator, (SOON, change), || tx.commit());
        match result {
            Ok(()) => assert!(!same_leaf),
            Err(Error { kind: ErrorKind::Conflict, .. }) => assert!(same_leaf),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(full.map.get(200).unwrap() == Some(long(0)), !same_leaf);
        full.sound();
    }
}

/// A thread that keeps itself what it waits for is refused soon, and one that has a snapshot, which keeps what it sees,
/// at once.
#[test]
fn a_thread_does_not_wait_long_for_itself() {
    let count = |change: &dyn Fn() -> Result<bool>| {
        let pauses = Rc::new(Cell::new(0));
        let counted = Rc::clone(&pauses);
        assert!(is_refused(&instead(move |tries| counted.set(tries + 1), change)));
        pauses.get()
    };
    let full = Full::new();
    let mut entries = full.ballast.iter();
    assert!(entries.next().unwrap().is_ok());
    full.remove();
    let change = || full.map.insert(0, &long(0));
    assert_eq!(count(&change), MOST_OF_READER);
    let batch = || {
        let mut batch = full.pool.batch();
        (0..3).try_for_each(|key| batch.insert(&full.map, 10 * key, &long(0)))?;
        batch.commit().map(|()| true)
    };
    assert_eq!(count(&batch), MOST_OF_READER);
    let nested = || {
        full.pool.transaction(|tx| {
            assert!(tx.get(&full.map, 20)?.is_some());
            tx.insert(&full.map, 10, &long(0)).map(|()| true)
        })
    };
    assert_eq!(count(&nested), MOST_OF_READER);
    drop(entries);
    assert!(change().unwrap() && batch().unwrap() && nested().unwrap());
    full.sound();
    let full = Full::new();
    let snapshot = full.pool.snapshot();
    full.remove();
    let change = || full.map.insert(0, &long(0));
    assert_eq!(count(&change), 0);
    drop(snapshot);
    assert!(change().unwrap());
    full.sound();
}

/// What a transaction keeps in a snapshot of its own comes back by itself.
#[test]
fn a_change_waits_for_the_snapshots_of_transactions() {
    for soon in [true, false] {
        let full = Full::new();
        let ends = if soon { SOON } else { u32::MAX };
        let (result, pauses) = full.beside(moment, (ends, || ()), || full.map.insert(0, &long(0)));
        assert_eq!((is_refused(&result), pauses), if soon { (false, SOON + 1) } else { (true, MOST) });
        full.sound();
    }
}

/// However often it begins again because of conflicts, it waits as long as it would if there were none.
#[test]
fn a_transaction_in_conflict_does_not_wait_for_ever() {
    let full = Rc::new(Full::new());
    // It belongs to this thread, which soon gives up.
    let mut entries = full.ballast.iter();
    assert!(entries.next().unwrap().is_ok());
    full.remove();
    let count = Rc::new(Cell::new(0));
    let (counted, of) = (Rc::clone(&count), Rc::clone(&full));
    let pause = move |_| {
        counted.set(counted.get() + 1);
        assert!(counted.get() <= MOST_OF_READER, "it waits for ever");
        // Another entry of the leaf that it reads.
        assert!(of.map.insert(30, [b"short", b"other"][counted.get() as usize % 2]).unwrap());
    };
    let run = || {
        full.pool.transaction(|tx| {
            assert!(tx.get(&full.map, 20)?.is_some());
            tx.insert(&full.map, 200, &long(1))
        })
    };
    assert!(is_refused(&instead(pause, run)));
    assert_eq!(count.get(), MOST_OF_READER);
    drop(entries);
    run().unwrap();
    full.sound();
}

/// A word says all of a value that has no record, so it does not matter whether its leaf has changed meanwhile.
#[test]
fn what_changes_beside_words_while_a_transaction_waits_is_no_conflict() {
    for writes in 1..3 {
        let full = Full::new();
        let mut tx = full.pool.begin();
        assert_eq!(tx.get(&full.tree, 20).unwrap(), Some(2));
        assert!(tx.range(&full.tree, 1000..1001).unwrap().next().is_some());
        (0..writes).for_each(|i| tx.insert(&full.map, 200 + 10 * i, &long(i)).unwrap());
        let change = || {
            for key in (0..40).chain(990..1010).filter(|key| ![20, 1000].contains(key)) {
                full.tree.update(key, 7).unwrap();
            }
        };
        let (result, pauses) = full.beside(iterator, (SOON, change), || tx.commit());
        assert!(result.is_ok() && pauses > SOON, "{result:?}");
        assert_eq!(full.map.get(200).unwrap(), Some(long(0)));
        full.sound();
    }
}
