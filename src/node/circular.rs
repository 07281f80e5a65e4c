//! Circular nodes: the run starts anywhere, wraps, and shifts the shorter way.

use crate::medium::Medium;
use crate::node::shift::Shift;
use crate::node::sorted::{self, RunEnd, RunGeometry, RunSearch, Sorted, Window};
use crate::node::sorted_ops::SortedOps;
use crate::node::space::InPlace;
use crate::node::{BlockAt, IndexKind, KeyRange, LEAST_SLOTS, Node, WordNode, Words, slots};
use core::hint::select_unpredictable;
use core::ops::Range;
use std::marker::PhantomData;

/// A node whose slots form a ring: inserts and removals move the smaller part of the entries, as in Circ-Tree.
///
/// # Which of an equal pair counts
///
/// A shift moves entries of one half of the run only, outwards to make room and inwards to close a gap. In both cases
/// the outer copy is the whole one, so the half in which the pair lies tells which one counts. The three `side_of_...`
/// functions agree on where the halves meet. A pair at `a`, `a + 1` of a run of `r` slots comes from
///
/// - an insert at `i` of `n = r - 1` entries: to the left for `2i < n`, then `a + 1 <= i`, so `2(a + 1) < r - 1`; to
///   the right for `2i >= n`, then `a >= i`, so `2a >= r - 1`;
/// - a removal at `i` of `n = r` entries: from the left for `2i < n - 1`, then `a + 1 <= i`, so `2(a + 1) < r - 1`;
///   from the right for `2i >= n - 1`, then `a >= i`, so `2a >= r - 1`.
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
    const IS_OWN: bool = true;
    const SLOTS: usize = {
        assert!(SLOTS >= LEAST_SLOTS && SLOTS <= 4096, "a node has 4 to 4096 slots");
        assert!(SLOTS.is_power_of_two(), "a ring has a power of two of slots");
        SLOTS
    };
    const BYTES: u64 = sorted::bytes(SLOTS);

    type Keys = Words;
    type Ops = SortedOps<Self>;
    type Space = InPlace;
}

impl<const SLOTS: usize> WordNode for Circular<SLOTS> {
    const INDEX: IndexKind = IndexKind::Persistent;
    type Inner = Self;
}

impl<const SLOTS: usize> Sorted for Circular<SLOTS> {
    type Geometry = CircularRun<Self>;
    type Search = CircularRun<Self>;
    type Changes = Shift;
}

/// The circular nodes of an index over leaves `N`, which have another layout.
pub struct CircularOver<N>(PhantomData<N>);

impl<N: WordNode> Node for CircularOver<N> {
    const LAYOUT: u16 = Circular::<4>::LAYOUT;
    const NAME: &'static str = Circular::<4>::NAME;
    const IS_OWN: bool = true;
    const SLOTS: usize = sorted::slots_over(N::BYTES);
    const BYTES: u64 = sorted::bytes(Self::SLOTS);

    type Keys = Words;
    type Ops = SortedOps<Self>;
    type Space = InPlace;
}

impl<N: WordNode> WordNode for CircularOver<N> {
    const INDEX: IndexKind = IndexKind::Persistent;
    type Inner = Self;
}

impl<N: WordNode> Sorted for CircularOver<N> {
    type Geometry = CircularRun<Self>;
    type Search = CircularRun<Self>;
    type Changes = Shift;
}

/// A run in the ring of the slots of `N`, whose number is a power of two.
pub struct CircularRun<N>(PhantomData<N>);

impl<N: WordNode> RunGeometry for CircularRun<N> {
    #[inline]
    fn slot(base: usize, i: isize) -> usize {
        base.wrapping_add_signed(i) & (N::SLOTS - 1)
    }

    fn base(key: impl Fn(usize) -> u64, range: KeyRange) -> Option<usize> {
        let full = |slot: usize| range.contains(key(slot));
        let before = |slot: usize| Self::slot(slot, -1);
        let all_full = (0..N::SLOTS).all(full);
        let starts = |slot: &usize| {
            // A full ring starts after its only descent, any other run after an empty slot.
            if all_full { key(before(*slot)) > key(*slot) } else { full(*slot) && !full(before(*slot)) }
        };
        let mut bases = (0..N::SLOTS).filter(starts);
        match (bases.next(), bases.next()) {
            (None, _) if !all_full => Some(0),
            (Some(base), None) => Some(base),
            _ => None,
        }
    }

    fn side_of_pair(i: usize, len: usize) -> RunEnd {
        if 2 * (i + 1) < len - 1 { RunEnd::Left } else { RunEnd::Right }
    }

    #[inline]
    fn side_of_insert(i: usize, len: usize) -> RunEnd {
        if 2 * i < len { RunEnd::Left } else { RunEnd::Right }
    }

    #[inline]
    fn side_of_remove(i: usize, len: usize) -> RunEnd {
        if 2 * i < len - 1 { RunEnd::Left } else { RunEnd::Right }
    }
}

impl<N: WordNode> RunSearch for CircularRun<N> {
    type Probe = ();

    #[inline]
    fn find(node: BlockAt<'_, impl Medium>, run: Window, _probe: &(), key: u64) -> Result<usize, usize> {
        Self::find_by(node, run, key, slots::search)
    }

    #[inline]
    fn changed(_node: BlockAt<'_, impl Medium>, _run: Window, _probe: &(), _positions: Range<usize>) {}
}

impl<N: WordNode> CircularRun<N> {
    /// Searches the one of the run's two contiguous segments that may have the key.
    #[inline]
    pub(crate) fn find_by<'a, M: Medium>(
        node: BlockAt<'a, M>,
        run: Window,
        key: u64,
        search: impl FnOnce(BlockAt<'a, M>, usize, usize, u64) -> Result<usize, usize>,
    ) -> Result<usize, usize> {
        let (base, len) = (usize::from(run.base), run.len());
        let before_wrap = N::SLOTS - base;
        // A run that wraps is two ascending segments, and the one from slot 0 on holds the greater keys. Which of them
        // has the key cannot be predicted, so there is no branch.
        let wraps = len > before_wrap;
        let upper = wraps & (key >= slots::key(node, 0));
        let skipped = select_unpredictable(upper, before_wrap, 0);
        let first = select_unpredictable(upper, 0, base);
        let len = select_unpredictable(wraps & !upper, before_wrap, len - skipped);
        match search(node, first, len, key) {
            Ok(i) => Ok(i + skipped),
            Err(i) => Err(i + skipped),
        }
    }
}
