//! Many threads on one tree: nothing lost, nothing invented, nothing stuck.
//!
//! The trees have the smallest nodes, so that leaves split and merge all the time. Their medium often yields the
//! processor in the middle of an operation, so that threads meet at every place.

mod records;
mod scramble;
mod storm;

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Facts, Layer, Medium, Step};
use bristlecone::{Options, PTree, Pool, WordNode};
use std::cell::Cell;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const THREADS: u64 = 8;
pub(crate) const CAPACITY: u64 = 4 << 20;
/// How long each test runs.
pub(crate) fn time() -> Duration {
    if cfg!(miri) { Duration::from_secs(20) } else { Duration::from_millis(crate::part_of(800)) }
}

pub(crate) fn options() -> Options {
    Pool::options().segment_size(4096)
}

/// Memory that yields to another thread at every n-th access.
struct Jittery(Any);

thread_local! {
    static CHANCE: Cell<u64> = const { Cell::new(0x2545_f491_4f6c_dd1d) };
}

pub(crate) fn random() -> u64 {
    CHANCE.with(|chance| {
        let mut x = chance.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        chance.set(x);
        x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11
    })
}

pub(crate) fn below(limit: u64) -> u64 {
    random() % limit
}

/// Seeds this thread's random numbers.
pub(crate) fn seed(number: u64) {
    CHANCE.set((number + 1).wrapping_mul(0xa076_1d64_78bd_642f) | 1);
}

fn jitter() {
    if random() & 0xff == 0 {
        thread::yield_now();
    }
}

impl Layer for Jittery {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.0
    }

    fn facts(&self) -> Facts<'_> {
        Facts { name: "jittery", ..self.below().facts() }
    }

    fn load(&self, at: u64) -> u64 {
        jitter();
        self.0.load(at)
    }

    fn load_words(&self, at: u64, words: &mut [u64]) {
        words.iter_mut().zip((at..).step_by(8)).for_each(|(word, at)| *word = Layer::load(self, at));
    }

    fn store(&self, at: u64, value: u64) {
        jitter();
        self.0.store(at, value);
    }

    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        jitter();
        self.0.store_pair(at, pair);
    }

    fn fence(&self, step: Step) {
        jitter();
        self.0.fence(step);
    }
}

/// Runs `work`; ends the process with a message if it does not return.
pub(crate) fn watched<R>(what: &str, work: impl FnOnce() -> R) -> R {
    let (done, wait) = mpsc::channel::<()>();
    let what = what.to_owned();
    let dog = thread::spawn(move || {
        let patience = Duration::from_secs(if cfg!(miri) { 3600 } else { 120 });
        if wait.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{what}: no end after {patience:?}: a deadlock or an endless loop");
            std::process::abort();
        }
    });
    let result = work();
    drop(done);
    dog.join().unwrap();
    result
}

pub(crate) fn pool() -> Pool<Any> {
    options().create_on(Arc::new(Jittery(zeroed(CAPACITY))) as Any).unwrap()
}

pub(crate) fn sound<N: WordNode, M: Medium>(tree: &PTree<N, M>) {
    assert!(tree.fault().is_none(), "{}", tree.fault().unwrap());
    let report = tree.check();
    assert!(report.is_clean(), "{:?}", report.violations);
    assert_eq!(tree.iter().count() as u64, tree.len());
}

/// The content of the tree is the same after a crash now, and after closing and opening again.
pub(crate) fn outlives<N: WordNode>(pool: Pool<Any>, tree: PTree<N, Any>) {
    let (index, expected) = (tree.index(), tree.iter().collect::<Vec<_>>());
    let crashed = words_of(pool.medium());
    drop(tree);
    let closed = words_of(pool.medium());
    for words in [crashed, closed] {
        let pool = options().open_on(holding(words)).unwrap();
        let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
        assert!(tree.iter().eq(expected.iter().copied()));
        sound(&tree);
    }
}

/// Every value encodes its key, and whether it may be seen at all.
pub(crate) fn mark(key: u64, note: u64) -> u64 {
    key << 32 | note & 0x7fff_ffff
}

const GHOST: u64 = 1 << 31;

pub(crate) fn is_of(key: u64, value: u64) {
    assert_eq!(value >> 32, key, "the value of another key: {value:#x}");
    assert_eq!(value & GHOST, 0, "a value that was never loaded: {value:#x}");
}
