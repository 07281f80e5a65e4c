//! One set of nodes: where they lie, and the way from the root to a parent.
//!
//! A reader may come late, while the set is being written for another generation. So whatever it reads leads to some
//! words of the same arrays, or nowhere.

use super::parent::{PACKED, Parent, UNIT};
use crate::index::Moved;
use crate::memory::Zeroed;
use crate::papers::search::partition;
use crate::sync::{AtomicU64, Ordering};
use std::io;

/// Children of an inner node.
pub(super) const FAN: usize = UNIT + 1;

/// Units in a half per parent, if some parents are enlarged.
const SPREAD: usize = 4;

/// The most parents, however many leaves there are: they take 128 GiB in each half. Beyond that, each parent begins
/// with more than one leaf.
const MOST: u64 = 1 << 27;

/// The word of a separator that is above all keys.
const NONE: u64 = u64::MAX;

/// Child `k` of an inner node.
#[inline]
pub(super) fn child(id: usize, k: usize) -> usize {
    id * FAN + 1 + k
}

/// The inner node that has `id` as child `k`, and `k`. Not for the root.
pub(super) fn above(id: usize) -> (usize, usize) {
    ((id - 1) / FAN, (id - 1) % FAN)
}

/// The ids of the nodes above and including a number of parents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbering {
    pub(super) parents: usize,
    /// Levels of inner nodes.
    pub(super) levels: usize,
    /// The id of the first parent.
    pub(super) first: usize,
}

impl Numbering {
    /// With as few levels as possible.
    pub(super) fn over(parents: usize) -> Self {
        let (mut levels, mut first, mut most) = (0, 0, 1usize);
        while most < parents {
            (levels, first, most) = (levels + 1, child(first, 0), most.saturating_mul(FAN));
        }
        Self { parents, levels, first }
    }

    /// The number of inner nodes' ids that are in use: all ids below it.
    pub(super) fn inner(self) -> usize {
        if self.levels == 0 { 0 } else { above(self.first).0 + self.parents.div_ceil(FAN) }
    }

    /// The ordinal of the first parent below a node, or of the node itself.
    pub(super) fn begins_with(self, mut id: usize) -> usize {
        while id < self.first {
            id = child(id, 0);
        }
        id - self.first
    }

    /// The size of the nodes in bytes, if the parents have this many units.
    pub(super) fn bytes(self, units: usize) -> u64 {
        (((self.inner() + units) * UNIT + self.parents) * size_of::<u64>()) as u64
    }
}

/// The number of levels that a rebuild with this many separators makes, and the size of the nodes in bytes.
pub(crate) fn built(separators: usize) -> (u64, u64) {
    let numbering = Numbering::over(separators);
    (numbering.levels as u64 + u64::from(separators > 0), numbering.bytes(separators))
}

/// See the [module](self).
pub(super) struct Half {
    /// [`UNIT`] words for each inner node, in the order of ids. The word of a separator is its low minus one, so that
    /// `low <= key` becomes `word < key`, which is never true for [`NONE`].
    inner: Zeroed<AtomicU64>,
    /// For each parent: its first unit in the lower half of a word, the number of its units in the upper half.
    places: Zeroed<AtomicU64>,
    /// The units of the parents.
    units: Zeroed<AtomicU64>,
}

impl Half {
    /// With room for `most` leaves.
    pub(super) fn new(most: u64, adaptive: bool) -> io::Result<Self> {
        let parents = most.clamp(1, MOST) as usize;
        let units = parents * if adaptive { SPREAD } else { 1 };
        Ok(Self {
            inner: Zeroed::new(Numbering::over(parents).inner() * UNIT)?,
            places: Zeroed::new(parents)?,
            units: Zeroed::new(units * UNIT)?,
        })
    }

    /// How many leaves each parent begins with if there are this many; `None` if there is not enough room.
    pub(super) fn leaves_each(&self, leaves: usize) -> Option<usize> {
        Some(leaves.div_ceil(self.places.len()).max(1)).filter(|&each| each <= PACKED)
    }

    /// The most leaves there is room for.
    pub(super) fn most_leaves(&self) -> usize {
        self.places.len() * PACKED
    }

    /// Whether there is room for parents with this many units in all.
    pub(super) fn has_room(&self, units: usize) -> bool {
        units <= self.units.len() / UNIT
    }

    /// The ordinal of the parent that owns the key, below this many levels of inner nodes.
    #[inline]
    pub(super) fn ordinal(&self, levels: usize, key: u64) -> Result<usize, Moved> {
        let (mut id, mut first) = (0, 0);
        for _ in 0..levels {
            id = self.next(id, key)?;
            first = child(first, 0);
        }
        Ok(id - first)
    }

    /// The child of an inner node that owns the key.
    #[inline]
    pub(super) fn next(&self, id: usize, key: u64) -> Result<usize, Moved> {
        let words = self.inner.get(id * UNIT..).and_then(|words| words.first_chunk::<UNIT>());
        let words = words.ok_or(Moved::NotLoaded)?;
        Ok(child(id, partition(UNIT, |at| words[at].load(Ordering::Relaxed) < key)))
    }

    /// A parent. If the ordinal was read during a write, there may be no such parent, or its words may belong to
    /// another one; and the parent may not be made yet.
    #[inline]
    pub(super) fn parent(&self, ordinal: usize) -> Result<Parent<'_>, Moved> {
        let place = self.places.get(ordinal).ok_or(Moved::NotLoaded)?.load(Ordering::Relaxed);
        let (start, units) = ((place & u64::from(u32::MAX)) as usize * UNIT, (place >> 32) as usize * UNIT);
        self.units.get(start..start + units).and_then(Parent::new).ok_or(Moved::NotLoaded)
    }

    // Only for the one writer.

    /// The word of the separator in front of a node; not for the first child of an inner node.
    pub(super) fn separator(&self, id: usize) -> &AtomicU64 {
        let (node, k) = above(id);
        &self.inner[node * UNIT + k - 1]
    }

    /// The separator in front of a parent, in the form of its word; not for the first parent.
    pub(super) fn least(&self, numbering: Numbering, ordinal: usize) -> u64 {
        if ordinal < numbering.parents {
            self.separator(fork(numbering.first + ordinal)).load(Ordering::Relaxed)
        } else {
            NONE
        }
    }

    /// Raises a separator.
    pub(super) fn raise(&self, id: usize, word: u64) {
        let separator = self.separator(id);
        debug_assert!(separator.load(Ordering::Relaxed) <= word);
        separator.store(word, Ordering::Relaxed);
    }

    /// Makes an empty parent from units that no other parent has. Parents are made in order.
    pub(super) fn make(&self, numbering: Numbering, ordinal: usize, low: u64, units: (usize, usize)) -> Parent<'_> {
        if ordinal > 0 {
            self.separator(fork(numbering.first + ordinal)).store(low - 1, Ordering::Relaxed);
        }
        self.place(ordinal, units)
    }

    /// Gives a parent its units: the first one, and how many.
    pub(super) fn place(&self, ordinal: usize, (start, units): (usize, usize)) -> Parent<'_> {
        self.places[ordinal].store(start as u64 | (units as u64) << 32, Ordering::Relaxed);
        self.parent(ordinal).expect("a parent has a unit")
    }

    /// Whether an inner node was never written. The word of its last separator is above 0 once it was.
    pub(super) fn is_blank(&self, id: usize) -> bool {
        self.inner[(id + 1) * UNIT - 1].load(Ordering::Relaxed) == 0
    }

    /// Makes an inner node that is blank, with these words of separators, which may be fewer than there is room for.
    pub(super) fn separate(&self, id: usize, separators: &[u64]) {
        let none = std::iter::repeat(&NONE);
        let words = self.inner[id * UNIT..][..UNIT].iter();
        words
            .zip(separators.iter().chain(none))
            .for_each(|(word, &separator)| word.store(separator, Ordering::Relaxed));
    }

    /// To be called when all parents are made: sets the separators behind the last child of each inner node to `NONE`.
    pub(super) fn end(&self, numbering: Numbering) {
        let mut last = numbering.first + numbering.parents - 1;
        while last > 0 {
            let (node, k) = above(last);
            self.inner[node * UNIT..][k..UNIT].iter().for_each(|word| word.store(NONE, Ordering::Relaxed));
            last = node;
        }
    }
}

/// The lowest node, from this one upwards, that begins with the same parent and is not the first child of its inner
/// node: both nodes have the same separator in front. Not for the first nodes of their levels.
pub(super) fn fork(mut id: usize) -> usize {
    while let (node, 0) = above(id) {
        id = node;
    }
    id
}
