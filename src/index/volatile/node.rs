//! What the nodes of the volatile index have in common: up to [`WIDTH`] children, with the separators between them,
//! under one version word.
//!
//! Word 0 is the version. Each other word says enough about the separator of its slot that a search compares all of
//! them at once. Slots behind the last one hold [`PAD`], which is below no key. So a search counts the words below the
//! key and needs no length. Slot 0 has no separator: a search enters a node only with a key that is not below the
//! separator of slot 0, which the parent knows.

use crate::arch;
use crate::arch::simd::{self, Compare, LaneSearch};
use crate::index::separators::Separators;
use crate::index::version::{IndexVersion, Moved};
use crate::memory::Zero;
use crate::sync::{AtomicU64, Ordering};

/// The most children of a node.
pub(super) const WIDTH: usize = simd::WORDS;

/// Entries of a node that is built in bulk: it leaves room for the first inserts.
pub(super) const FILL: usize = WIDTH - WIDTH / 8;

/// Marks a child that is still in the pool; the other bits are its number in the image.
pub(super) const NOT_LOADED: u64 = 1 << 63;

/// Words in a line.
const PER_LINE: usize = arch::LINE / size_of::<u64>();

/// The word of an empty slot.
pub(super) const PAD: u64 = i64::MAX as u64;

/// The sign bit. Flipping it makes signed comparison order unsigned numbers.
pub(super) const SIGN: u64 = 1 << 63;

/// Leaves that a scan learns of at once.
pub(crate) const RUN: usize = 8;

/// Prefetches words, which start at a line.
#[inline(always)]
pub(super) fn touch(words: &[AtomicU64; WIDTH]) {
    // This compiles to four instructions; a stepped iterator would compile to a loop.
    for line in words.as_chunks::<PER_LINE>().0 {
        arch::prefetch_of(line);
    }
}

/// What is the same for all kinds of separators. An entry is the name of a separator, and a child.
///
/// The words of a node change only between [`open`](Self::open) and [`close`](Self::close).
pub(crate) trait NodeSlots: Zero + Send + Sync + Sized + 'static {
    /// The words that a search compares. Word 0 is the version, odd while the node is open.
    fn words(&self) -> &simd::WordLanes;

    /// The children. Behind the last slot in use, their values are arbitrary.
    fn children(&self) -> &[AtomicU64; WIDTH];

    /// The name of the separator of a slot other than 0.
    fn name(&self, slot: usize) -> u64;

    /// The version under which to read the node.
    #[inline]
    fn optimistic_read(&self) -> Result<u64, Moved> {
        IndexVersion(&self.words()[0]).optimistic_read()
    }

    /// Whether everything read since [`optimistic_read`](Self::optimistic_read) belongs to this version.
    #[inline]
    fn validate(&self, version: u64) -> Result<(), Moved> {
        IndexVersion(&self.words()[0]).validate(version)
    }

    /// Prefetches the children while the words are compared.
    #[inline(always)]
    fn touch(&self) {
        touch(self.children());
    }

    /// Prefetches all lines that every search may read.
    #[inline(always)]
    fn touch_all(&self) {
        touch(self.words());
        touch(self.children());
    }

    /// The child at a slot and those at the slots behind it, in use or not; 0 behind the last slot.
    #[inline]
    fn run(&self, slot: usize) -> [u64; RUN] {
        core::array::from_fn(|i| self.children().get(slot + i).map_or(0, |child| child.load(Ordering::Relaxed)))
    }

    #[inline]
    fn child(&self, slot: usize) -> u64 {
        self.children()[slot].load(Ordering::Relaxed)
    }

    /// Name and child of a slot. `least` is the name of slot 0.
    fn entry(&self, slot: usize, least: u64) -> (u64, u64) {
        (if slot == 0 { least } else { self.name(slot) }, self.child(slot))
    }

    /// The number of children, which is at least one.
    fn len(&self) -> usize {
        simd::below(self.words(), PAD.cast_signed()) + 1
    }

    // Writing: only by the one writer, while the node is open.

    /// Keeps readers out. Returns false if the node was open.
    fn open(&self) -> bool {
        IndexVersion(&self.words()[0]).open()
    }

    /// Lets readers in again, under a version they have not seen.
    fn close(&self) {
        IndexVersion(&self.words()[0]).close();
    }

    fn set_child(&self, slot: usize, child: u64) {
        self.children()[slot].store(child, Ordering::Relaxed);
    }

    fn set_word(&self, slot: usize, word: u64) {
        debug_assert!(slot > 0);
        self.words()[slot].store(word, Ordering::Relaxed);
    }

    /// Drops all but the first `len` children, at least one.
    fn truncate(&self, len: usize) {
        for slot in len.max(1)..WIDTH {
            self.set_word(slot, PAD);
        }
    }

    /// Removes slot `at` from a node with `len` children, more than one.
    fn remove(&self, at: usize, len: usize);
}

/// Separators that an index in memory can hold.
pub trait InNodes: Separators {
    /// The nodes that hold them.
    type Node: IndexNode<Self>;
}

/// What depends on the kind of separators.
pub trait IndexNode<S: InNodes<Node = Self>>: NodeSlots {
    /// The slot of the greatest separator `<= key`; slot 0 if there is none. `known` holds for this node, and then for
    /// the child of that slot. `version`: of this node.
    fn slot_of(
        &self,
        separators: &S,
        key: S::Key<'_>,
        known: &mut S::Known,
        version: u64,
        compare: impl Compare,
    ) -> usize;

    /// As [`slot_of`](Self::slot_of), for the writer and for tests.
    fn slot(&self, separators: &S, key: S::Key<'_>, known: &mut S::Known) -> usize {
        let version = self.words()[0].load(Ordering::Relaxed);
        simd::search(Once { node: self, separators, key, known, version })
    }

    // Writing, as above.

    /// Puts another separator, not the one named 0, at a slot other than 0 in use. It lies between its neighbours.
    fn relabel(&self, separators: &S, slot: usize, name: u64);

    /// Makes `entries`, at least one and at most [`WIDTH`], the whole content of the node.
    fn fill(&self, separators: &S, entries: impl Iterator<Item = (u64, u64)>);

    /// Inserts `entry` at slot `at`, not 0, of a node with `len < WIDTH` children.
    fn insert(&self, separators: &S, at: usize, len: usize, entry: (u64, u64));

    /// Makes the entries of this node, which is full, from slot `cut` on the whole content of the open node `right`,
    /// and drops them here. `cut` is not 0.
    fn split(&self, separators: &S, cut: usize, right: &Self);

    /// Puts the entries of `right`, whose slot 0 has the name `low`, behind the entries of this node.
    fn absorb(&self, separators: &S, right: &Self, low: u64);
}

/// One search in one node.
struct Once<'s, 'k, S: InNodes> {
    node: &'s S::Node,
    separators: &'s S,
    key: S::Key<'k>,
    known: &'s mut S::Known,
    version: u64,
}

impl<S: InNodes> LaneSearch for Once<'_, '_, S> {
    type Found = usize;

    fn by(self, compare: impl Compare) -> usize {
        self.node.slot_of(self.separators, self.key, self.known, self.version, compare)
    }
}
