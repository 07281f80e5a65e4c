//! The word of an entry.

use crate::pool::format::PoolGeometry;

/// The number that stands for no tree. Those of trees are less.
pub(crate) const NO_TREE: u16 = 0xffff;

/// What a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SegmentKind {
    /// Nothing now, but it held something once.
    Free = 1,
    /// Leaves of a tree.
    Leaf = 2,
    /// Inner nodes of a tree with a persistent index.
    Inner = 3,
    /// Records of one size class.
    Record = 4,
    /// The first segment of a close record, or of a record that is too long for the size classes. The unit is the
    /// number of segments.
    Extent = 5,
    /// A further segment of an extent.
    Rest = 6,
    /// Root entries. The unit is the position among the segments of this kind.
    Roots = 7,
}

impl SegmentKind {
    #[inline]
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Free,
            2 => Self::Leaf,
            3 => Self::Inner,
            4 => Self::Record,
            5 => Self::Extent,
            6 => Self::Rest,
            7 => Self::Roots,
            _ => return None,
        })
    }

    /// The number by which a unit is divided where it is stored: sizes of blocks are whole words.
    #[inline]
    const fn scale(self) -> u32 {
        if matches!(self, Self::Leaf | Self::Inner | Self::Record) { 8 } else { 1 }
    }
}

/// What a segment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) kind: SegmentKind,
    /// The root slot of the owning tree.
    pub(crate) tree: u16,
    /// The size of a block in bytes; for an extent, the number of its segments.
    pub(crate) unit: u32,
}

/// Where the parts of an entry's word lie.
const KIND: u64 = 0xf;
const LENGTH_AT: u32 = 4;
const LENGTH: u64 = (PoolGeometry::PARTS - 1) << LENGTH_AT;
pub(super) const CHECK_AT: u32 = 13;
const CHECK: u64 = 0xff << CHECK_AT;
const TREE_AT: u32 = 21;
const UNIT_AT: u32 = 37;

impl SegmentEntry {
    pub(crate) fn new(kind: SegmentKind, tree: u16, unit: u32) -> Self {
        Self { kind, tree, unit }
    }

    /// Whether a word is the entry of a segment like this, of any length. Its check bits were verified when it was
    /// read.
    #[inline]
    pub(super) fn is_of(self, word: u64) -> bool {
        word & !(CHECK | LENGTH) == self.bare()
    }

    /// Whether a word is the entry of a segment of this kind and tree, of any unit and length.
    #[inline]
    pub(super) fn is_owned(word: u64, kind: SegmentKind, tree: u16) -> bool {
        word & (KIND | u64::from(u16::MAX) << TREE_AT) == kind as u64 | u64::from(tree) << TREE_AT
    }

    /// The word without its check bits, and without a length.
    #[inline]
    fn bare(self) -> u64 {
        self.kind as u64 | u64::from(self.tree) << TREE_AT | u64::from(self.unit / self.kind.scale()) << UNIT_AT
    }

    /// The word for a segment that has so many parts in use.
    pub(super) fn encode(self, parts: u64, segment: u32) -> u64 {
        let word = self.bare() | (parts - 1) << LENGTH_AT;
        word | check(word, segment) << CHECK_AT
    }

    pub(super) fn decode(word: u64, segment: u32) -> Option<Self> {
        if (word & CHECK) >> CHECK_AT != check(word & !CHECK, segment) {
            return None;
        }
        let kind = SegmentKind::from_number((word & KIND) as u8)?;
        Some(Self { kind, tree: (word >> TREE_AT) as u16, unit: unit(word, kind) })
    }
}

/// The unit that the word of a segment of this kind says.
#[inline]
pub(super) fn unit(word: u64, kind: SegmentKind) -> u32 {
    (word >> UNIT_AT) as u32 * kind.scale()
}

/// Eight bits that depend on all other bits and on the number of the segment.
fn check(word: u64, segment: u32) -> u64 {
    (word ^ u64::from(segment)).wrapping_add(0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56
}

/// The bytes that are in use in a segment of `1 << shift` bytes.
#[inline]
pub(super) fn length(word: u64, shift: u32) -> u64 {
    ((word & LENGTH) >> LENGTH_AT).wrapping_add(1) << (shift - PoolGeometry::PARTS.trailing_zeros())
}
