//! The descriptors of leaves: what DRAM knows about each.

use super::key::Key;
use bristlecone::medium::LINE;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The number of a descriptor.
pub(super) type Id = u32;

/// No leaf follows.
const NONE: Id = Id::MAX;
/// The number of the first leaf, whose low key is empty.
pub(super) const FIRST: Id = 0;

/// One leaf. It stays the same when its elements move to another block.
///
/// It has lines of its own, so that a change does not slow down readers of other leaves.
#[repr(align(64))]
pub(super) struct Leaf {
    low: Box<[u8]>,
    low_head: u64,
    view: AtomicU64,
    next: AtomicU32,
    /// Changed under the lock.
    capacity: AtomicU32,
    lock: Mutex<()>,
}

/// The published elements of a leaf: the first `count` of the block `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    pub(super) at: u64,
    pub(super) count: usize,
}

impl View {
    const COUNT_BITS: u32 = 16;
    /// The most elements of a leaf.
    pub(super) const MOST: usize = (1 << Self::COUNT_BITS) - 1;

    /// Offsets of blocks are multiples of [`LINE`], so both fit.
    fn word(self) -> u64 {
        (self.at / LINE) << Self::COUNT_BITS | self.count as u64
    }

    fn from_word(word: u64) -> Self {
        Self { at: (word >> Self::COUNT_BITS) * LINE, count: word as usize & Self::MOST }
    }
}

impl Leaf {
    pub(super) fn new(low: Box<[u8]>, view: View, capacity: usize) -> Self {
        Self {
            low_head: Key::new(&low).head,
            low,
            view: AtomicU64::new(view.word()),
            next: AtomicU32::new(NONE),
            capacity: AtomicU32::new(capacity as u32),
            lock: Mutex::new(()),
        }
    }

    pub(super) fn low(&self) -> Key<'_> {
        Key { head: self.low_head, bytes: &self.low }
    }

    /// Whether its low key is not beyond a key.
    #[inline]
    pub(super) fn is_up_to(&self, key: Key<'_>) -> bool {
        key.cmp_with(self.low_head, || &self.low).is_ge()
    }

    /// Whether its low key comes before a key.
    #[inline]
    pub(super) fn is_before(&self, key: Key<'_>) -> bool {
        key.cmp_with(self.low_head, || &self.low).is_gt()
    }

    /// What readers see. What they need of [`next`](Self::next) they load after it.
    #[inline]
    pub(super) fn view(&self) -> View {
        View::from_word(self.view.load(Ordering::Acquire))
    }

    /// Publishes elements that are durable. Under the lock.
    pub(super) fn set_view(&self, view: View) {
        self.view.store(view.word(), Ordering::Release);
    }

    #[inline]
    pub(super) fn next(&self) -> Option<Id> {
        Some(self.next.load(Ordering::Acquire)).filter(|&next| next != NONE)
    }

    /// Under the lock.
    pub(super) fn set_next(&self, next: Option<Id>) {
        self.next.store(next.unwrap_or(NONE), Ordering::Release);
    }

    /// Under the lock.
    pub(super) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed) as usize
    }

    /// Under the lock.
    pub(super) fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity as u32, Ordering::Relaxed);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All descriptors, by number. They are never removed, so a reader may keep a number for as long as it likes.
pub(super) struct Leaves {
    len: AtomicU32,
    /// Each has twice as many as the one before.
    chunks: [OnceLock<Box<[OnceLock<Leaf>]>>; CHUNKS],
}

/// Descriptors of the first chunk.
const CHUNK: u32 = 64;
const CHUNKS: usize = (u32::BITS - CHUNK.ilog2()) as usize;

impl Leaves {
    pub(super) fn new() -> Self {
        Self { len: AtomicU32::new(0), chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// The chunk of a descriptor, and its place in there.
    #[inline]
    fn place(id: Id) -> (usize, usize) {
        let chunk = (id / CHUNK + 1).ilog2();
        (chunk as usize, (id - CHUNK * ((1 << chunk) - 1)) as usize)
    }

    pub(super) fn push(&self, leaf: Leaf) -> Id {
        let id = self.len.fetch_add(1, Ordering::Relaxed);
        let (chunk, i) = Self::place(id);
        let fresh = || (0..CHUNK << chunk).map(|_| OnceLock::new()).collect();
        let _ = self.chunks[chunk].get_or_init(fresh)[i].set(leaf);
        id
    }

    #[inline]
    pub(super) fn get(&self, id: Id) -> &Leaf {
        let (chunk, i) = Self::place(id);
        let leaf = self.chunks[chunk].get().and_then(|chunk| chunk[i].get());
        leaf.expect("a number names a descriptor")
    }

    /// Moves right from a leaf up to a key until the leaf is the last one for which `is_left` holds.
    #[inline]
    pub(super) fn walk(&self, mut id: Id, is_left: impl Fn(&Leaf) -> bool) -> Id {
        while let Some(next) = self.get(id).next().filter(|&next| is_left(self.get(next))) {
            id = next;
        }
        id
    }

    /// All leaves of the chain, in the order of their keys.
    pub(super) fn chain(&self) -> impl Iterator<Item = Id> {
        std::iter::successors(Some(FIRST), |&id| self.get(id).next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_place() {
        let mut places: Vec<(usize, usize)> = (0..1000).map(Leaves::place).collect();
        assert_eq!((places[0], places[63], places[64], places[192]), ((0, 0), (0, 63), (1, 0), (2, 0)));
        places.dedup();
        assert_eq!(places.len(), 1000);
        assert!(Leaves::place(NONE - CHUNK).0 < CHUNKS);
    }

    #[test]
    fn a_view_is_one_word() {
        let view = View { at: 123 * LINE, count: View::MOST };
        assert_eq!(View::from_word(view.word()), view);
    }
}
