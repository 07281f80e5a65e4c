//! Windows of live keys that slide over all keys: the space that they leave is used again, and the ends stay quick to
//! find.

use crate::medium::{Any, zeroed};
use bristlecone::medium::{Layer, Medium};
use bristlecone::{IndexKind, PTree, Pool, WordNode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the words that are read.
struct Reads {
    on: Any,
    words: AtomicU64,
}

impl Reads {
    fn during<R>(&self, work: impl FnOnce() -> R) -> (R, u64) {
        let before = self.words.load(Ordering::Relaxed);
        let result = work();
        (result, self.words.load(Ordering::Relaxed) - before)
    }
}

impl Layer for Reads {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.on
    }

    fn load(&self, at: u64) -> u64 {
        self.words.fetch_add(1, Ordering::Relaxed);
        self.on.load(at)
    }

    fn load_words(&self, at: u64, words: &mut [u64]) {
        self.words.fetch_add(words.len() as u64, Ordering::Relaxed);
        self.on.load_words(at, words);
    }
}

/// The number of live keys.
const WINDOW: u64 = 60;
/// The number of steps: what they insert has several times the size of the pool.
const STEPS: u64 = if cfg!(miri) { 200 } else { 4000 };

/// The direction in which the window moves.
#[derive(Debug, Clone, Copy)]
enum Way {
    Up,
    Down,
    /// Each key is in a different place.
    Scattered,
}

impl Way {
    fn key(self, step: u64) -> u64 {
        match self {
            Self::Up => 1 + step,
            Self::Down => u64::MAX - 1 - step,
            Self::Scattered => step.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }
}

/// How many words may be read to find the entry at one end: those of a few leaves, and of as many levels of an index.
fn few<N: WordNode>() -> u64 {
    200 + 8 * N::BYTES / 8
}

fn slides<N: WordNode>(index: IndexKind, way: Way) {
    let when = format!("{} {:?} {way:?}", N::NAME, index);
    let size = 96 << 10;
    let options = Pool::options().segment_size(4096);
    let reads = Arc::new(Reads { on: zeroed(size), words: AtomicU64::new(0) });
    let pool = options.create_on(Arc::clone(&reads) as Any).unwrap();
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    let mut memory = 0;
    for step in 0..STEPS {
        tree.insert(way.key(step), step).unwrap_or_else(|error| panic!("{when}, step {step}: {error}"));
        let Some(oldest) = step.checked_sub(WINDOW) else { continue };
        let (first, words) = reads.during(|| match way {
            Way::Up => tree.first_key_value(),
            Way::Down => tree.last_key_value(),
            Way::Scattered => Some((way.key(oldest), oldest)),
        });
        assert_eq!(first, Some((way.key(oldest), oldest)), "{when}");
        assert!(words < few::<N>(), "{when}, step {step}: {words} words for the entry at the end");
        assert_eq!(tree.remove(way.key(oldest)).unwrap(), Some(oldest), "{when}");
        if step == STEPS / 4 {
            memory = tree.memory();
        }
    }
    assert_eq!(tree.len(), WINDOW, "{when}");
    let report = tree.check();
    assert!(report.is_clean(), "{when}: {:?}", report.violations);
    // Two neighbours together hold more than half a leaf.
    assert!(report.leaves <= 2 + WINDOW, "{when}: {} leaves", report.leaves);
    assert!(tree.memory() <= memory * 2, "{when}: {memory} bytes of memory became {}", tree.memory());
}

/// Takes all of many entries from one end.
fn pops<N: WordNode>(index: IndexKind, front: bool) {
    let when = format!("{} {:?} {front}", N::NAME, index);
    let size = 1 << 20;
    let options = Pool::options().segment_size(4096);
    let reads = Arc::new(Reads { on: zeroed(size), words: AtomicU64::new(0) });
    let pool = options.create_on(Arc::clone(&reads) as Any).unwrap();
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    let keys: Vec<u64> = (0..STEPS / 2).map(|i| Way::Scattered.key(i)).collect();
    keys.iter().for_each(|&key| assert_eq!(tree.insert(key, key).unwrap(), None));
    for left in (0..keys.len()).rev() {
        let end = || if front { tree.first_key_value() } else { tree.last_key_value() };
        let (found, words) = reads.during(end);
        assert!(words < few::<N>(), "{when}, {left} left: {words} words for the entry at the end");
        let (key, _) = found.unwrap();
        assert_eq!(tree.remove(key).unwrap(), Some(key), "{when}");
    }
    let report = tree.check();
    assert!(report.is_clean() && report.entries == 0, "{when}: {:?}", report.violations);
    assert!(report.leaves <= 4, "{when}: {} leaves of an empty tree", report.leaves);
}

fn windows<N: WordNode>(index: IndexKind) {
    [Way::Up, Way::Down, Way::Scattered].into_iter().for_each(|way| slides::<N>(index, way));
    [true, false].into_iter().for_each(|front| pops::<N>(index, front));
}

in_every_layout!(windows);
