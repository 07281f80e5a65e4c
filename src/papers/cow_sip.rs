//! Crab-tree's leaves: each change is a copy of the node, or a shift in place, whichever costs less.

use crate::medium::Costs;
use crate::node::counted::COUNT;
use crate::node::layout::{Merging, Policy};
use crate::node::linear::LinearRun;
use crate::node::shift::Shift;
use crate::node::sorted::{self, HEADER, Sorted};
use crate::node::sorted_ops::SortedOps;
use crate::node::space::InPlace;
use crate::node::{InNode, IndexKind, LEAST_SLOTS, Node, PER_LINE, WordNode, Words};

/// What a [`CowSip`] does in addition to Crab-tree's basic scheme.
pub mod crab {
    /// Blocks come from the tree's own space. Without it, each block that is taken or given back is recorded in the
    /// pool, durably, as an allocator of persistent memory does.
    pub const OWN_SPACE: u8 = 1;
    /// An insert into the lower half of a node makes a copy, whatever it costs.
    pub const PROBE: u8 = 2;
    /// A shift moves key and value by one store of 16 bytes, on a medium that keeps pairs whole.
    pub const PAIRS: u8 = 4;
    /// All of these: `Crab_opt`.
    pub const OPT: u8 = OWN_SPACE | PROBE | PAIRS;
    /// Every change makes a copy, unless another thread is in the way.
    pub const COPY_ONLY: u8 = 8;
    /// No change makes a copy.
    pub const SHIFT_ONLY: u8 = 16;
    /// As printed: the number of entries is stored and flushed with each shift (Algorithm 1, lines 32 and 33).
    pub const COUNT: u8 = 32;
    /// With [`PAIRS`], as printed: the 16 bytes are stored by an instruction that compares and swaps (section 5.3).
    pub const CAS: u8 = 64;
    /// As printed: a leaf that is less than half full merges with a neighbour that has room, or takes entries from both
    /// (section 4.4).
    pub const HALF: u8 = 128;
    /// Crab-tree's basic scheme as printed.
    pub const PRINTED: u8 = COUNT | HALF;
}

/// A sorted node of `SLOTS` entries from slot 0 on, which changes by copy on write or by shifting in place.
///
/// A copy costs two rounds of flushes, however many lines it has: one for the new node, and one for the pointer in its
/// left neighbour, which commits. A shift costs one round for each line that it touches. Which is cheaper follows from
/// the position, and from [what the medium costs](crate::medium::Costs).
///
/// Crab-tree counts the entries in a word that commits a shift. Here the keys alone determine the run. That saves a
/// round, and what Crab-tree's recovery finds by the count (section 4.5) is found by the one equal pair.
///
/// # Source
///
/// Wang, Chattopadhyay, Brihadiswarn: "Crab-tree: A Crash Recoverable B+-tree Variant for Persistent Memory with ARMv8
/// Architecture", ACM TECS 2020. `OPTIONS` are those of section 5, the forced ways of section 6.3, and what the basic
/// scheme does differently as printed.
///
/// # As printed
///
/// With [`crab::PRINTED`], a shift ends with the count, which is stored after the shift is durable, and is then
/// flushed: one line and one fence more. A copy has its count in the header line, which is flushed with the rest. A
/// leaf that is less than half full merges with a neighbour that has room for its entries, the left one first. If
/// neither has, it takes entries from both until it is more than half full.
///
/// # What differs
///
/// - After a crash, the keys alone tell what a leaf holds. The count does not decide: the first touch of a leaf stores
///   it anew, and a check accepts one that is one change behind.
/// - A split stores the new count of the left leaf after its link, which commits, and not before.
/// - The leaf that merges is the right one of the two, or its right neighbour merges into it, because the link of the
///   left one commits. An eighth of the slots stay free, so that the next inserts do not split what was merged; an
///   empty leaf always merges. In the paper, it is enough that all entries have room.
/// - What a leaf takes from its right neighbour is appended, and that neighbour is replaced by a copy of the rest. What
///   it takes from its left neighbour makes it be replaced by a copy itself. So each of the two commits with one link.
///   The paper shifts entries in place. A neighbour gives only what leaves it half full.
#[derive(Debug, Clone, Copy)]
pub struct CowSip<const SLOTS: usize, const OPTIONS: u8 = 0>;

const PAIRS_BY_CAS: u8 = crab::PAIRS | crab::CAS;

/// What a copy costs besides flushes, in nanoseconds: a block, two entries of the index, an allocation.
const COPYING: usize = 150;

/// The word of the header that says whether the block is in use. The count is in another one.
const MARK: u64 = 24;

impl<const SLOTS: usize, const OPTIONS: u8> CowSip<SLOTS, OPTIONS> {
    const fn has(option: u8) -> bool {
        OPTIONS & option != 0
    }

    /// Whether a change of a node with `len` entries costs less as a copy.
    fn copy_pays(costs: &dyn Fn() -> Costs, len: usize, change: InNode) -> bool {
        // The slots that a shift writes to, the length of the run after it, and whether the change is in the lower
        // half.
        let (written, after, low) = match change {
            InNode::Insert(place) => (place..len + 1, len + 1, place * 2 <= len),
            InNode::Remove(place) => (place..len, len - 1, place * 2 <= len),
        };
        // A full node splits. Entries that then go to its right half are copied anyway, with the new entry.
        if len == SLOTS && matches!(change, InNode::Insert(place) if place > len / 2) {
            return false;
        }
        if Self::has(crab::COPY_ONLY) || (Self::has(crab::PROBE) && low) {
            return true;
        }
        let costs = costs();
        let [round, copied, order, slot] = [costs.round, costs.copied, costs.order, costs.slot].map(|ns| ns as usize);
        let lines = written.end.div_ceil(PER_LINE) - written.start / PER_LINE;
        let orders = if Self::has(crab::PAIRS) { 1 } else { 2 };
        let counted = if Self::has(crab::COUNT) { round } else { 0 };
        let shift = lines * round + counted + written.len() * (slot + orders * order);
        let noted = if Self::has(crab::OWN_SPACE) { 0 } else { 2 * round };
        let copy = 2 * round + after.div_ceil(PER_LINE) * copied + after * slot + COPYING + noted;
        copy < shift
    }
}

impl<const SLOTS: usize, const OPTIONS: u8> Node for CowSip<SLOTS, OPTIONS> {
    // The first tags that were given out end at 63.
    const LAYOUT: u16 = if OPTIONS < 32 { 32 } else { 256 } + OPTIONS as u16;
    const NAME: &'static str = match OPTIONS {
        0 => "crab",
        crab::OWN_SPACE => "crab_space",
        crab::PROBE => "crab_probe",
        crab::PAIRS => "crab_pairs",
        3 => "crab_space_probe",
        5 => "crab_space_pairs",
        6 => "crab_probe_pairs",
        crab::OPT => "crab_opt",
        crab::COPY_ONLY => "cow_only",
        crab::SHIFT_ONLY => "sip_only",
        crab::PRINTED => "crab_printed",
        PAIRS_BY_CAS => "crab_pairs_cas",
        _ => panic!("options that exclude each other"),
    };
    const IS_OWN: bool = true;
    const SLOTS: usize = {
        assert!(SLOTS >= LEAST_SLOTS && SLOTS <= 4096, "a node has 4 to 4096 slots");
        SLOTS
    };
    const BYTES: u64 = sorted::bytes(SLOTS);

    type Keys = Words;
    type Ops = SortedOps<Self>;
    type Space = InPlace;

    const POLICY: Policy = Policy {
        copy_pays: if Self::has(crab::SHIFT_ONLY) { None } else { Some(Self::copy_pays) },
        in_use_at: if Self::has(crab::OWN_SPACE) { None } else { Some(MARK) },
        merging: if Self::has(crab::HALF) { Merging::LeftOrTake } else { Merging::LeftFirst },
        ..Policy::USUAL
    };
}

impl<const SLOTS: usize, const OPTIONS: u8> WordNode for CowSip<SLOTS, OPTIONS> {
    const INDEX: IndexKind = IndexKind::Volatile;
    type Inner = Self;
}

impl<const SLOTS: usize, const OPTIONS: u8> Sorted for CowSip<SLOTS, OPTIONS> {
    type Geometry = LinearRun;
    type Search = LinearRun;
    type Changes = Shift;

    const BY_PAIRS: bool = Self::has(crab::PAIRS);
    const BY_SWAPS: bool = Self::has(crab::CAS);
    const COUNTED: bool = Self::has(crab::COUNT);
}

const _: () = assert!(MARK + 8 <= HEADER && MARK != COUNT);
