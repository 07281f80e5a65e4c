//! Circular nodes: the run starts anywhere, wraps, and shifts the shorter way.

use crate::medium::Medium;
use crate::node::sorted::{self, Geometry, Side, Sorted, Window};
use crate::node::{LEAST_SLOTS, Node, Span, slots};
use core::hint::select_unpredictable;

/// A node whose slots form a ring: inserts and removals move the smaller half of the entries, as in Circ-Tree.
///
/// # Which of an equal pair counts
///
/// A shift moves entries of one half of the run only, outwards to make room and inwards to close a gap. In both cases
/// the outer copy is the whole one, so the half in which the pair lies tells which one counts. The three
/// `side_of_...` functions agree on where the halves part: a pair at `a`, `a + 1` of a run of `r` slots stems from
///
/// - an insert at `i` of `n = r - 1` entries: to the left for `2i < n`, then `a + 1 <= i`, so `2(a + 1) < r - 1`; to the
///   right for `2i >= n`, then `a >= i`, so `2a >= r - 1`;
/// - a removal at `i` of `n = r` entries: from the left for `2i < n - 1`, then `a + 1 <= i`, so `2(a + 1) < r - 1`; from
///   the right for `2i >= n - 1`, then `a >= i`, so `2a >= r - 1`.
///
/// # Source
///
/// Wang, Brihadiswarn, Jiang, Chattopadhyay: "Circ-Tree: A B+-Tree Variant with Circular Design for Persistent Memory",
/// IEEE Transactions on Computers. The power-of-two mask is its section 4.2, the search in one contiguous segment 5.1,
/// shifting 5.2 and 5.3.
#[derive(Debug, Clone, Copy)]
pub struct Circular<const SLOTS: usize>;

impl<const SLOTS: usize> Node for Circular<SLOTS> {
    const LAYOUT: u16 = 2;
    const NAME: &'static str = "circular";
    const SLOTS: usize = {
        assert!(SLOTS >= LEAST_SLOTS && SLOTS <= 4096, "a node has 4 to 4096 slots");
        assert!(SLOTS.is_power_of_two(), "a ring has a power of two of slots");
        SLOTS
    };
    const BYTES: u64 = sorted::bytes(SLOTS);
}

impl<const SLOTS: usize> Geometry for Circular<SLOTS> {
    #[inline]
    fn slot(base: usize, i: isize) -> usize {
        base.wrapping_add_signed(i) & (SLOTS - 1)
    }

    fn base(key: impl Fn(usize) -> u64, span: Span) -> Option<usize> {
        let full = |slot: usize| span.contains(key(slot));
        let before = |slot: usize| Self::slot(slot, -1);
        let all_full = (0..SLOTS).all(full);
        let starts = |slot: &usize| {
            // A full ring starts behind its one descent, any other run behind an empty slot.
            if all_full { key(before(*slot)) > key(*slot) } else { full(*slot) && !full(before(*slot)) }
        };
        let mut bases = (0..SLOTS).filter(starts);
        match (bases.next(), bases.next()) {
            (None, _) if !all_full => Some(0),
            (Some(base), None) => Some(base),
            _ => None,
        }
    }

    fn side_of_pair(i: usize, len: usize) -> Side {
        if 2 * (i + 1) < len - 1 { Side::Left } else { Side::Right }
    }

    #[inline]
    fn side_of_insert(i: usize, len: usize) -> Side {
        if 2 * i < len { Side::Left } else { Side::Right }
    }

    #[inline]
    fn side_of_remove(i: usize, len: usize) -> Side {
        if 2 * i < len - 1 { Side::Left } else { Side::Right }
    }
}

impl<const SLOTS: usize> Sorted for Circular<SLOTS> {
    type Geometry = Self;
    type Probe = ();

    #[inline]
    fn find<M: Medium>(m: &M, at: u64, run: Window, _probe: &(), key: u64) -> Result<usize, usize> {
        let (base, len) = (usize::from(run.base), run.len());
        let before_wrap = SLOTS - base;
        // A run that wraps is two ascending segments; that from slot 0 on holds the greater keys. Which one it is cannot be
        // predicted, so there is no branch.
        let wraps = len > before_wrap;
        let upper = wraps & (key >= slots::key(m, at, 0));
        let skipped = select_unpredictable(upper, before_wrap, 0);
        let first = select_unpredictable(upper, 0, base);
        let len = select_unpredictable(wraps & !upper, before_wrap, len - skipped);
        match slots::search(m, at, first, len, key) {
            Ok(i) => Ok(i + skipped),
            Err(i) => Err(i + skipped),
        }
    }
}
