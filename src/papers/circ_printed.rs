//! Circ-Tree as the paper prints it, part by part.

use crate::medium::Medium;
use crate::node::circular::CircularRun;
use crate::node::layout::{Merging, Policy};
use crate::node::shift::Shift;
use crate::node::sorted::{RunSearch, Sorted, Window};
use crate::node::sorted_ops::SortedOps;
use crate::node::space::InPlace;
use crate::node::{BlockAt, Circular, IndexKind, Node, WordNode, Words, slots};
use core::ops::Range;

/// What a [`CircularPrinted`] does as Circ-Tree's paper prints it, and not as [`Circular`] does it.
pub mod circ {
    /// Base and count are stored and flushed with each insert and removal (Algorithm 1, lines 20 to 22, 39 and 40).
    pub const COUNT: u8 = 1;
    /// The search of one contiguous segment is linear (section 5.1).
    pub const LINEAR: u8 = 2;
    /// A node that is less than half full merges with its right neighbour, if that has room (section 5.3).
    pub const HALF: u8 = 4;
    /// All of these.
    pub const PRINTED: u8 = COUNT | LINEAR | HALF;
}

/// A [`Circular`] node with parts of Circ-Tree as the paper prints them: all of them by default.
///
/// ```text
/// line 0   | next 8 | low 8 | meta 8 | (unused) 8 | base 32, count 32 | (unused)     |
/// line 1   | slot 0: key 8, value 8 | slot 1 | slot 2 | slot 3 |
///   ...
/// ```
///
/// # Source
///
/// Wang, Brihadiswarn, Jiang, Chattopadhyay: "Circ-Tree: A B+-Tree Variant with Circular Design for Persistent Memory",
/// IEEE Transactions on Computers, sections 4.1, 5.1 to 5.3 and Algorithm 1.
///
/// # As printed
///
/// - Base and count are one word. It is stored after what an insert, a removal or a split has changed is durable, and
///   is then flushed: one line and one fence more for each change.
/// - A search compares with the key at slot 0 to choose one of two contiguous segments, and scans it from its start.
/// - A node merges when it is less than half full: with its right neighbour only, only under the same parent, and only
///   if all entries have room. Otherwise it stays as it is.
///
/// # What differs
///
/// - After a crash, the keys alone tell what a node holds, as in [`Circular`]. The word does not decide: the first
///   touch of a node stores it anew, and a check accepts one that is one change behind. In the paper, cases 1 and 2 of
///   its section 5.5 compare the word with the array.
/// - The entries of a merge move into the left one of the two nodes, which the paper empties. Here each node owns the
///   keys from its lower end to its neighbour's, so the link of the left node is the one word that can commit a merge.
/// - An eighth of the slots stay free in a merge, so that the next inserts do not split what was merged; an empty node
///   always merges. In the paper, it is enough that all entries have room.
/// - A split does not overwrite the entries that have moved with zeros. The left node does not own them any more, and
///   so they are empty slots.
/// - The marker of an empty slot is a key that the node does not own. In the paper it is the value 0, so no value may
///   be 0, or occur twice in a node.
#[derive(Debug, Clone, Copy)]
pub struct CircularPrinted<const SLOTS: usize, const PARTS: u8 = { circ::PRINTED }>;

impl<const SLOTS: usize, const PARTS: u8> CircularPrinted<SLOTS, PARTS> {
    const fn has(part: u8) -> bool {
        PARTS & part != 0
    }
}

impl<const SLOTS: usize, const PARTS: u8> Node for CircularPrinted<SLOTS, PARTS> {
    const LAYOUT: u16 = 96 + PARTS as u16;
    const NAME: &'static str = match PARTS {
        circ::COUNT => "circ_count",
        circ::LINEAR => "circ_linear",
        circ::HALF => "circ_half",
        circ::PRINTED => "circ_printed",
        _ => panic!("no such combination of parts"),
    };
    const IS_OWN: bool = true;
    const SLOTS: usize = Circular::<SLOTS>::SLOTS;
    const BYTES: u64 = Circular::<SLOTS>::BYTES;

    type Keys = Words;
    type Ops = SortedOps<Self>;
    type Space = InPlace;

    const POLICY: Policy = Policy {
        merging: if Self::has(circ::HALF) { Merging::RightOnly } else { Merging::RightFirst },
        ..Policy::USUAL
    };
}

impl<const SLOTS: usize, const PARTS: u8> WordNode for CircularPrinted<SLOTS, PARTS> {
    const INDEX: IndexKind = IndexKind::Persistent;
    type Inner = Self;
}

impl<const SLOTS: usize, const PARTS: u8> Sorted for CircularPrinted<SLOTS, PARTS> {
    type Geometry = CircularRun<Self>;
    type Search = Self;
    type Changes = Shift;

    const COUNTED: bool = Self::has(circ::COUNT);
}

impl<const SLOTS: usize, const PARTS: u8> RunSearch for CircularPrinted<SLOTS, PARTS> {
    type Probe = ();

    #[inline]
    fn find(node: BlockAt<'_, impl Medium>, run: Window, _probe: &(), key: u64) -> Result<usize, usize> {
        if Self::has(circ::LINEAR) {
            CircularRun::<Self>::find_by(node, run, key, slots::scan)
        } else {
            CircularRun::<Self>::find_by(node, run, key, slots::search)
        }
    }

    #[inline]
    fn changed(_node: BlockAt<'_, impl Medium>, _run: Window, _probe: &(), _positions: Range<usize>) {}
}
