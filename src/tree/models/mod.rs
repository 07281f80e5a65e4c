//! loom models of whole trees: the real pool, chain, index and verbs, with leaves of two to four slots, on a
//! [medium](medium::Few) whose nodes loom knows.
//!
//! A model is a tree as it was opened, what is done to it before threads race, and what each thread does. The threads
//! assert what they see. When all are done, the tree must be [sound](sound). Negative controls run the same model with
//! one validation left out, and must be found wrong.
//!
//! The models leave out the following, for these reasons:
//!
//! - Memory that is weaker than sequentially consistent. The models of single nodes show what it does to one node, and
//!   which fences that needs.
//! - What happens within a volatile index. It has models of its own, by which an access appears to be one step; here it
//!   is one.
//! - Reference counts and `OnceLock`, which loom does not know. Each access is one step.
//! - Which shard of the count a thread has. All threads have the same one.
//! - The words of the header. They are read and written under locks that loom knows.

mod batch;
mod bytes;
mod clear;
mod copy;
mod medium;
mod merge;
mod moved;
mod open;
mod persistent;
mod range;
mod snapshot;
mod split;
mod transaction;

use super::directory::WordDirectory;
use super::{PTree, TreeNode, TreeState};
use crate::error::Broken;
use crate::node::{IndexKind, RefOf, SplitInPlace, WordNode};
use crate::pool::format::HEADER;
use crate::pool::{Options, Pool};
use crate::sync::delay::{Validation, leave_out};
use crate::sync::set_sequential;
use loom::thread;
use medium::Few;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Tree<N> = PTree<N, Arc<Few>>;

/// A model of a tree of words.
type Words<N> = Model<Tree<N>>;

/// A handle of a tree that has models.
trait Subject: Clone + Send + Sync + 'static {
    type Node: TreeNode;

    fn open(pool: &Pool<Arc<Few>>, index: IndexKind) -> Self;

    fn state(&self) -> &TreeState<Self::Node, Arc<Few>>;

    /// The names and offsets of the leaves that an index in memory knows.
    fn known(&self) -> Vec<(u64, u64)>;
}

impl<N: WordNode> Subject for Tree<N> {
    type Node = N;

    fn open(pool: &Pool<Arc<Few>>, index: IndexKind) -> Self {
        pool.tree_with("t", index).unwrap()
    }

    fn state(&self) -> &TreeState<N, Arc<Few>> {
        &self.state
    }

    fn known(&self) -> Vec<(u64, u64)> {
        let mut known = Vec::new();
        if let WordDirectory::Volatile(separators) = &self.state.directory {
            separators.for_each(|low, leaf| known.push((low, leaf)));
        }
        known
    }
}

const SEGMENT: u64 = 1024;
/// The offset of the first segment that is not one of the header's.
const FIRST: u64 = HEADER.next_multiple_of(SEGMENT);
const SEGMENTS: u64 = 3;

fn options() -> Options {
    Pool::options().segment_size(SEGMENT)
}

type Act<T> = fn(&T);

/// A tree, and what is done to it.
struct Model<T: Subject> {
    /// What fills the tree that is opened, once for all executions.
    fill: Act<T>,
    /// The kind of index of the tree.
    index: IndexKind,
    /// Whether the tree was closed in order. If not, it is opened as after a crash.
    closed: bool,
    /// What is done before the threads begin.
    before: Act<T>,
    /// What the threads do. The first one runs as long as nobody is in its way.
    threads: Vec<Act<T>>,
    /// What must hold when all threads are done, besides that the tree is sound.
    after: Act<T>,
    left_out: Option<Validation>,
    /// How often a thread that could go on may be interrupted.
    preemptions: usize,
}

impl<T: Subject> Model<T> {
    fn new<const K: usize>(fill: Act<T>, threads: [Act<T>; K], after: Act<T>) -> Self {
        Self {
            fill,
            index: IndexKind::Volatile,
            closed: false,
            before: |_| (),
            threads: threads.into(),
            after,
            left_out: None,
            preemptions: 2,
        }
    }

    /// Runs every interleaving.
    fn run(self) {
        let Self { fill, index, closed, before, threads, after, left_out, preemptions } = self;
        let image = image(index, fill, closed);
        leave_out(left_out);
        set_sequential(true);
        let threads = Arc::new(threads);
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        check(preemptions, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let m = Arc::new(Few::new(image.iter().copied(), FIRST));
            let tree = T::open(&options().open_on(Arc::clone(&m)).unwrap(), index);
            before(&tree);
            m.model(SEGMENTS * SEGMENT);
            // A thread that panics must end in order: what it holds belongs to this execution.
            let failed = Arc::new(AtomicBool::new(false));
            let act = |act: Act<T>| {
                let (tree, failed) = (tree.clone(), Arc::clone(&failed));
                move || {
                    if catch_unwind(AssertUnwindSafe(|| act(&tree))).is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            };
            let threads: Vec<_> = threads.iter().map(|&thread| spawn(act(thread))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            act(sound)();
            act(after)();
            // Not closed in order: the close is not what is modelled, and it takes long.
            tree.state().note::<()>(Err(Broken::new(0, "the end")));
            drop(tree);
            assert!(!failed.load(Ordering::Relaxed), "found wrong");
        });
        println!("{} executions", runs.load(Ordering::Relaxed));
    }
}

/// Runs every interleaving of what `model` spawns.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 100_000;
    let model = Arc::new(model);
    builder.check(move || {
        let model = Arc::clone(&model);
        spawn(move || model()).join().unwrap();
    });
}

/// A thread whose stack is large enough for the whole tree: loom's own stacks have 32 KiB.
fn spawn(act: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::Builder::new().stack_size(1 << 15).spawn(act).unwrap()
}

/// The words of a pool with a tree that was filled.
fn image<T: Subject>(index: IndexKind, fill: Act<T>, closed: bool) -> Vec<u64> {
    let image = Arc::new(std::sync::Mutex::new(Vec::new()));
    let words = Arc::clone(&image);
    check(0, move || {
        let m = Arc::new(Few::new((0..FIRST + SEGMENTS * SEGMENT).step_by(8).map(|_| 0), FIRST));
        let tree = T::open(&options().create_on(Arc::clone(&m)).unwrap(), index);
        fill(&tree);
        if !closed {
            *words.lock().unwrap() = m.words();
        }
        drop(tree);
        if closed {
            *words.lock().unwrap() = m.words();
        }
    });
    Arc::try_unwrap(image).unwrap().into_inner().unwrap()
}

/// Asserts that nothing is broken and that the index names leaves of the chain only.
fn sound(tree: &impl Subject) {
    let state = tree.state();
    assert!(state.fault().is_none(), "{:?}", state.fault());
    let report = state.check();
    assert!(report.is_clean(), "{:?}", report.violations);
    let leaves = state.find_leaves(state.head()).unwrap().listed;
    for (name, leaf) in tree.known() {
        assert!(leaves.contains(&(name, leaf)), "{name} is not at {leaf}");
    }
}

/// Inserts keys that are not there, each with its successor as value.
fn put<N: WordNode>(tree: &Tree<N>, keys: &[u64]) {
    keys.iter().for_each(|&key| assert_eq!(tree.insert(key, key + 1).unwrap(), None));
}

thread_local! {
    /// The name and the offset of the leaf that a split made, and of the one that was split.
    static UNPOSTED: std::cell::Cell<(u64, u64, u64)> = const { std::cell::Cell::new((0, 0, 0)) };
}

/// Inserts a key and its word into a full leaf, and does not post the new leaf to the index.
fn split_unposted<N: TreeNode<Ops: SplitInPlace>>(state: &TreeState<N, Arc<Few>>, key: RefOf<'_, N>, word: u64) {
    let mut leaf = state.lock_owner(key).unwrap();
    let right = state.leaves.insert_by_split(&mut leaf, 0, (key, word)).unwrap();
    state.leaves.count.add(1);
    UNPOSTED.set((state.leaves.name(right.at), right.at, leaf.at));
}

/// Posts the leaf that the split made.
fn post<T: Subject>(tree: &T) {
    let (name, at, from) = UNPOSTED.get();
    tree.state().post(name, at, from).unwrap();
}

/// Removes keys that are there.
fn take<N: WordNode>(tree: &Tree<N>, keys: &[u64]) {
    keys.iter().for_each(|&key| assert_eq!(tree.remove(key).unwrap(), Some(key + 1)));
}
