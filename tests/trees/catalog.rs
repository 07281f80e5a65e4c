//! Trees are opened, created, closed and dropped in parallel: a thread waits only for the tree that it wants.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Counted, Dram, Layer, Medium, Step};
use bristlecone::{Error, ErrorKind, IndexKind, OneLine, Options, PTree, Pool};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

type Tree = PTree<OneLine<7>, Any>;

const SIZE: u64 = 256 << 10;
/// Much longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

fn options() -> Options {
    Pool::options().segment_size(4096)
}

/// What happens to a fence of one thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The thread stops at the fence after this many others.
    Stops(u32),
    Panics,
}

/// A medium on which a thread can be stopped.
struct Gate {
    on: Any,
    fate: Mutex<Option<(ThreadId, Fate)>>,
    opened: Condvar,
    /// Notified when the thread has stopped.
    stopped: Mutex<Sender<()>>,
}

impl Gate {
    fn new(on: Any) -> (Arc<Self>, Receiver<()>) {
        let (stopped, has_stopped) = channel();
        let gate = Self { on, fate: Mutex::new(None), opened: Condvar::new(), stopped: Mutex::new(stopped) };
        (Arc::new(gate), has_stopped)
    }

    /// Sets the fate of this thread's next fences.
    fn set(&self, fate: Fate) {
        *self.fate.lock().unwrap() = Some((thread::current().id(), fate));
    }

    fn open(&self) {
        *self.fate.lock().unwrap() = None;
        self.opened.notify_all();
    }
}

impl Layer for Gate {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.on
    }

    fn fence(&self, step: Step) {
        let mut fate = self.fate.lock().unwrap();
        let mine = |fate: &Option<(ThreadId, Fate)>| {
            fate.filter(|(thread, _)| *thread == thread::current().id()).map(|(_, fate)| fate)
        };
        match mine(&fate) {
            Some(Fate::Stops(skipped @ 1..)) => *fate = Some((thread::current().id(), Fate::Stops(skipped - 1))),
            Some(Fate::Stops(0)) => {
                self.stopped.lock().unwrap().send(()).unwrap();
                while mine(&fate).is_some() {
                    fate = self.opened.wait(fate).unwrap();
                }
            }
            Some(Fate::Panics) => {
                *fate = None;
                drop(fate);
                panic!("as it was told");
            }
            None => {}
        }
        self.on.fence(step);
    }
}

/// A pool with the trees "a" and "b", with ten keys each.
fn two_trees() -> Vec<u64> {
    let pool = options().create_on(zeroed(SIZE)).unwrap();
    for name in ["a", "b"] {
        let tree: Tree = pool.tree_with(name, IndexKind::Volatile).unwrap();
        (0..10).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    }
    words_of(pool.medium())
}

/// The result of `work` on another thread, if it ends in time.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, is_done) = channel();
    thread::spawn(move || done.send(work()));
    is_done.recv_timeout(LONG).ok()
}

#[test]
fn trees_work_while_another_one_is_being_opened() {
    let (gate, has_stopped) = Gate::new(holding(two_trees()));
    let pool = options().open_on(Arc::clone(&gate) as Any).unwrap();
    let opener = thread::spawn({
        let (gate, pool) = (Arc::clone(&gate), pool.clone());
        move || {
            gate.set(Fate::Stops(0));
            let tree: Tree = pool.tree_with("a", IndexKind::Volatile).unwrap();
            tree.len()
        }
    });
    has_stopped.recv_timeout(LONG).unwrap();
    let others = in_time({
        let pool = pool.clone();
        move || {
            let b: Tree = pool.tree_with("b", IndexKind::Volatile).unwrap();
            assert_eq!(b.insert(10, 10).unwrap(), None);
            let c: Tree = pool.tree_with("c", IndexKind::Volatile).unwrap();
            assert_eq!(c.insert(1, 1).unwrap(), None);
            assert_eq!(pool.trees().unwrap().len(), 3);
            assert!(matches!(pool.drop_tree("c"), Err(Error { kind: ErrorKind::StillOpen { .. }, .. })));
            drop(c);
            pool.drop_tree("c").unwrap();
            drop(b);
            pool.tree_with::<OneLine<7>>("b", IndexKind::Volatile).unwrap().len()
        }
    });
    // Threads that want the same tree wait for it.
    let waited = AtomicBool::new(false);
    let (second, dropped) = thread::scope(|scope| {
        let second = scope.spawn(|| {
            let tree: Tree = pool.tree_with("a", IndexKind::Volatile).unwrap();
            waited.store(true, Ordering::Relaxed);
            tree.len()
        });
        let dropped = scope.spawn(|| {
            let dropped = pool.drop_tree("a");
            waited.store(true, Ordering::Relaxed);
            dropped
        });
        thread::sleep(Duration::from_millis(50));
        let too_early = waited.load(Ordering::Relaxed);
        gate.open();
        let results = (second.join().unwrap(), dropped.join().unwrap());
        assert!(!too_early, "a tree that is being opened was given away");
        results
    });
    assert_eq!(opener.join().unwrap(), 10);
    assert_eq!(others, Some(11), "another tree waited");
    // The drop came before the second thread opened the tree, or after it.
    assert!(second == 10 || (second == 0 && dropped.is_ok()), "{second} entries, {dropped:?}");
}

#[test]
fn trees_work_while_another_one_is_being_closed_or_created() {
    for creating in [false, true] {
        let (gate, has_stopped) = Gate::new(holding(two_trees()));
        let pool = options().open_on(Arc::clone(&gate) as Any).unwrap();
        let stopped = thread::spawn({
            let (gate, pool) = (Arc::clone(&gate), pool.clone());
            move || {
                let tree: Option<Tree> = (!creating).then(|| pool.tree_with("a", IndexKind::Volatile).unwrap());
                // The first fence is made under the lock of the segments.
                gate.set(Fate::Stops(1));
                drop(tree);
                if creating {
                    drop(pool.tree_with::<OneLine<7>>("new", IndexKind::Volatile).unwrap());
                }
            }
        });
        has_stopped.recv_timeout(LONG).unwrap();
        let other = in_time({
            let pool = pool.clone();
            move || {
                let other: Tree = pool.tree_with("other", IndexKind::Volatile).unwrap();
                other.insert(1, 1).unwrap();
                pool.tree_with::<OneLine<7>>("b", IndexKind::Volatile).unwrap().len()
            }
        });
        let same = thread::spawn({
            let pool = pool.clone();
            move || pool.tree_with::<OneLine<7>>(if creating { "new" } else { "a" }, IndexKind::Volatile).unwrap().len()
        });
        thread::sleep(Duration::from_millis(20));
        let too_early = same.is_finished();
        gate.open();
        assert!(!too_early);
        assert_eq!(other, Some(10), "another tree waited");
        assert_eq!(same.join().unwrap(), if creating { 0 } else { 10 });
        stopped.join().unwrap();
        let names: Vec<String> = pool.trees().unwrap().into_iter().map(|tree| tree.name).collect();
        assert_eq!(names.iter().filter(|name| *name == "new").count(), usize::from(creating), "{names:?}");
    }
}

/// Calls a function when a thread loads one word for the second time.
struct Trap {
    on: Any,
    word: u64,
    of: Mutex<Option<(ThreadId, u32)>>,
    does: Box<dyn Fn() + Send + Sync>,
}

impl Layer for Trap {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.on
    }

    fn load(&self, at: u64) -> u64 {
        if at == self.word {
            let mut of = self.of.lock().unwrap();
            match &mut *of {
                Some((thread, loads)) if *thread == thread::current().id() && *loads > 0 => *loads -= 1,
                Some((thread, _)) if *thread == thread::current().id() => {
                    *of = None;
                    drop(of);
                    (self.does)();
                }
                _ => {}
            }
        }
        self.on.load(at)
    }
}

#[test]
fn a_tree_is_listed_as_what_it_is_while_others_come_and_go() {
    let (ask, asked) = channel();
    let (did, done) = channel();
    let (ask, done) = (Mutex::new(ask), Mutex::new(done));
    // Waits as long as the other thread takes, or until it must be waiting itself.
    let does = Box::new(move || {
        ask.lock().unwrap().send(()).unwrap();
        let _ = done.lock().unwrap().recv_timeout(Duration::from_millis(200));
    });
    // The word of the first tree's root that holds the length of the name.
    let trap = Arc::new(Trap { on: zeroed(SIZE), word: 8192 + 56, of: Mutex::new(None), does });
    let pool = options().create_on(Arc::<Trap>::clone(&trap) as Any).unwrap();
    drop(pool.tree_with::<OneLine<7>>("a", IndexKind::Volatile).unwrap());
    thread::scope(|scope| {
        let other = pool.clone();
        scope.spawn(move || {
            asked.recv().unwrap();
            other.drop_tree("a").unwrap();
            drop(other.tree("another").unwrap());
            let _ = did.send(());
        });
        *trap.of.lock().unwrap() = Some((thread::current().id(), 1));
        let listed = pool.trees().unwrap();
        assert!(trap.of.lock().unwrap().is_none());
        let listed: Vec<_> = listed.iter().map(|tree| (&*tree.name, &*tree.layout)).collect();
        assert_eq!(listed, [("a", "one_line/7")]);
    });
}

#[test]
fn an_opening_that_panics_leaves_the_tree_to_others() {
    for name in ["a", "new"] {
        let (gate, _) = Gate::new(holding(two_trees()));
        let pool = options().open_on(Arc::clone(&gate) as Any).unwrap();
        let opener = thread::spawn({
            let (gate, pool) = (Arc::clone(&gate), pool.clone());
            move || {
                gate.set(Fate::Panics);
                drop(pool.tree_with::<OneLine<7>>(name, IndexKind::Volatile));
            }
        });
        assert!(opener.join().is_err());
        let again = in_time({
            let pool = pool.clone();
            move || {
                let tree: Tree = pool.tree_with(name, IndexKind::Volatile).unwrap();
                let len = tree.len();
                drop(tree);
                pool.drop_tree(name).unwrap();
                len
            }
        });
        assert_eq!(again, Some(if name == "a" { 10 } else { 0 }), "{name}");
        assert!(pool.check().unwrap().is_clean());
    }
}

/// Tries all orders of opening, the last drop and `drop_tree`, with threads that do nothing else.
#[test]
fn a_tree_is_opened_closed_and_dropped_by_all_at_once() {
    let pool = options().create_on(zeroed(SIZE)).unwrap();
    let rounds = if cfg!(miri) { 5 } else { 300 };
    thread::scope(|scope| {
        for id in 0..4u64 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..rounds {
                    let name = if (id + round) % 3 == 0 { "x" } else { "y" };
                    match (id + round) % 5 {
                        0 => match pool.drop_tree(name) {
                            Ok(())
                            | Err(Error { kind: ErrorKind::NoSuchTree { .. } | ErrorKind::StillOpen { .. }, .. }) => {}
                            Err(error) => panic!("{error}"),
                        },
                        _ => {
                            let tree: Tree = pool.tree_with(name, IndexKind::Volatile).unwrap();
                            let key = id << 32 | round;
                            assert_eq!(tree.insert(key, key).unwrap(), None);
                            // The tree is not dropped while a thread has a handle to it.
                            assert_eq!(tree.remove(key).unwrap(), Some(key));
                        }
                    }
                    assert!(pool.trees().unwrap().len() <= 2);
                }
            });
        }
    });
    assert!(pool.check().unwrap().is_clean());
    for name in ["x", "y"] {
        let _ = pool.drop_tree(name);
    }
    assert!(pool.trees().unwrap().is_empty());
    assert_eq!(pool.stat().available, options().create_on(zeroed(SIZE)).unwrap().stat().available);
}

/// The blocks of a tree's first segment hold zeros, so they are not written in full.
#[test]
fn the_first_leaves_of_a_new_tree_are_as_cheap_as_later_ones() {
    let counted = Arc::new(Counted::new(Dram::zeroed(32 << 20)));
    let pool = Pool::options().create_on(Arc::clone(&counted) as Any).unwrap();
    let tree: PTree<OneLine, Any> = pool.tree("t").unwrap();
    // Fewer leaves than a segment has.
    let (keys, before) = (39 * 1000, counted.counts());
    (1..=keys).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    let spent = counted.counts() - before;
    // An insert flushes one line; a split flushes two lines of the right leaf and one of the left. (It would be ten of
    // the right leaf if its block were not known to hold zeros.)
    let leaves = tree.check().leaves;
    assert!(leaves > 990, "{leaves}");
    assert!(spent.lines <= keys + 3 * leaves, "{} lines for {keys} inserts and {leaves} leaves", spent.lines);
    // With every other index, too.
    drop(tree);
    for persistent in [true, false] {
        let before = counted.counts();
        let lines = if persistent {
            let tree: PTree<OneLine, Any> = pool.tree_with("p", IndexKind::Persistent).unwrap();
            (1..=390).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
            counted.counts().lines - before.lines
        } else {
            let tree: PTree<OneLine, Any> = pool.tree_with("f", IndexKind::Flat).unwrap();
            (1..=390).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
            counted.counts().lines - before.lines
        };
        // This includes creating the tree.
        assert!(lines < 390 + 5 * 10 + 60, "{lines} lines");
    }
}
