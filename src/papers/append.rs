//! NV-Tree's leaves: a log of inserts and removals.
//!
//! ```text
//! line 0   | next 8 | low 8 | lines 8 | count 8 | (unused)          |
//! line 1   | signs 8 | (unused) 8 | element 0: key, value | 1 | 2   |     sign: bit i for element i, 1 = removed
//! line 2   | signs 8 | (unused) 8 | element 3: key, value | 4 | 5   |
//! ```
//!
//! - **N3** Among the first `count` elements, the last one with a key decides: it is the entry, or says that the key
//!   was removed. All keys are owned.
//!
//! Every change appends: an insert one element, a removal a negative one, an update both. The store of `count` commits.
//! A full leaf is replaced by new ones with what is still valid; [`adaptive`](super::adaptive) decides how large they
//! are.

use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};
use crate::memory::{Halves, Zero};
use crate::node::layout::{Checked, Layout, NewNode, sound};
use crate::node::linear::{LeafSize, LinearOver};
use crate::node::space::{Renew, Renewal, Sizes, Takes};
use crate::node::{
    BlockAt, Entry, IndexKind, InnerOps, KeyRange, LOW, NEXT, Node, NodeAt, WordNode, Words, last_of_each,
};
use crate::papers::Logged;
use crate::papers::adaptive::{self, Balanced, Strategy, Workload};
use crate::papers::registry::tag_over;
use crate::sync::{AtomicU64, Ordering};
use std::marker::PhantomData;

/// An append-only leaf, with `LINES` lines at first (8, 16, 32, 64 or 128): two lines flushed and two fences per
/// change. `S` decides how large the leaves are that replace it, and `I` are the inner nodes of a persistent index.
///
/// # Source
///
/// Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-adaptive Tree Structure for Non-volatile
/// Memory", IEEE Transactions on Computers 2015: sections 4.3 and 4.4; `S` is section 5.
///
/// # As printed
///
/// The paper's NV-Tree with consistent inner nodes (its Figure 7) has those of LCB+-Tree: `Append<16, Fixed,
/// Logged<64>>`.
///
/// # What differs
///
/// Algorithm 2 appends without looking through the leaf. An insert here says what the key had before, and a tree counts
/// its entries, so each change looks for the key first.
#[derive(Debug, Clone, Copy)]
pub struct Append<const LINES: usize = 16, S = Balanced, I = LinearOver<Lines<LINES>>>(PhantomData<(S, I)>);

/// The size of a leaf of so many lines. The leaf itself cannot stand for it where its inner nodes are named.
#[derive(Debug, Clone, Copy)]
pub struct Lines<const LINES: usize>;

impl<const LINES: usize> LeafSize for Lines<LINES> {
    const LEAF: u64 = LINES as u64 * LINE;
}

const SIZE: u64 = 16;
const COUNT: u64 = 24;
/// Elements per line.
const PER_LINE: usize = 3;
/// A leaf never shrinks below this many lines.
const LEAST: u64 = 3;

impl<const LINES: usize, S: Strategy, I: WordNode<Ops: InnerOps>> Node for Append<LINES, S, I> {
    const LAYOUT: u16 = tag_over::<I>(S::TAG);
    const NAME: &'static str = match I::LAYOUT {
        _ if Self::IS_USUAL => S::NAME,
        Logged::<4>::LAYOUT => "append_over_logged",
        Logged::<4, true>::LAYOUT => "append_over_logged_whole",
        _ => "append_over_other",
    };
    const IS_OWN: bool = true;
    const SLOTS: usize = (LINES - 1) * PER_LINE;
    const BYTES: u64 = LINES as u64 * LINE;

    type Keys = Words;
    type Ops = Self;
    type Space = Renewal;
}

impl<const LINES: usize, S: Strategy, I: WordNode<Ops: InnerOps>> WordNode for Append<LINES, S, I> {
    const INDEX: IndexKind = match S::COUNTS {
        _ if !Self::IS_USUAL => IndexKind::Persistent,
        true => IndexKind::Flat,
        false => IndexKind::FlatFixed,
    };
    type Inner = I;
}

// Existing pools have inner nodes of these sizes.
const _: () = assert!(<Append<16> as WordNode>::Inner::SLOTS == 64 && <Append<128> as WordNode>::Inner::SLOTS == 512);
const _: () = assert!(<Append<3> as WordNode>::Inner::SLOTS == 4 && <Append<8> as WordNode>::Inner::SLOTS == 32);

/// The search hints of a leaf.
#[derive(Debug)]
pub struct EntryLog {
    /// The number of entries, and of elements.
    census: Halves,
    /// The number of reads, and of writes: an estimate, since two threads may count at once.
    tally: Halves,
    lines: AtomicU64,
}

// SAFETY: the type consists of numbers, for which zero bytes are the value 0, and it has no destructor.
unsafe impl Zero for EntryLog {
    fn zero() -> Self {
        Self { census: Halves::zero(), tally: Halves::zero(), lines: AtomicU64::zero() }
    }
}

#[inline]
fn line_of(i: usize) -> u64 {
    LINE + (i / PER_LINE) as u64 * LINE
}

#[inline]
fn key_at(i: usize) -> u64 {
    line_of(i) + 16 + (i % PER_LINE) as u64 * 16
}

/// Whether element `i` says that its key was removed.
#[inline]
fn is_negative(node: BlockAt<'_, impl Medium>, i: usize) -> bool {
    node.load(line_of(i)) >> (i % PER_LINE) & 1 == 1
}

/// Writes element `i`, which no reader sees yet.
fn write(node: BlockAt<'_, impl Medium>, i: usize, (key, value): Entry, negative: bool) {
    let bit = i % PER_LINE;
    // The signs behind it belong to elements that do not exist.
    let before = node.load(line_of(i)) & ((1 << bit) - 1);
    node.store(line_of(i), before | u64::from(negative) << bit);
    node.store_pair(key_at(i), [key, value]);
}

impl<const LINES: usize, S: Strategy, I: WordNode<Ops: InnerOps>> Append<LINES, S, I> {
    /// Whether the inner nodes are those that most trees have.
    const IS_USUAL: bool = Self::LAYOUT == S::TAG;

    /// Appends elements; the last line is flushed, not fenced.
    fn append(node: NodeAt<'_, Self, impl Medium>, elements: &[(Entry, bool)], there: usize) {
        let first = node.hints.census.get().1;
        let count = first + elements.len();
        for (i, &(entry, negative)) in (first..).zip(elements) {
            write(*node, i, entry, negative);
        }
        let start = line_of(first);
        node.flush(start, line_of(count - 1) + LINE - start, Step::AppendElements);
        node.fence(Step::AppendElements);
        node.store(COUNT, count as u64);
        node.flush(COUNT, 8, Step::AppendCount);
        node.hints.census.set(there, count);
    }

    /// The last element of each key, in ascending order of keys.
    fn last(node: BlockAt<'_, impl Medium>, count: usize, wanted: impl Fn(u64) -> bool) -> Vec<(u64, usize)> {
        let all = (0..count).map(|i| (node.load(key_at(i)), i));
        last_of_each(all.filter(|&(key, _)| wanted(key)).collect())
    }

    fn stored_size(node: BlockAt<'_, impl Medium>) -> u64 {
        node.load(SIZE)
    }

    fn capacity(lines: u64) -> usize {
        (lines as usize - 1) * PER_LINE
    }
}

/// A place is an element number.
impl<const LINES: usize, S: Strategy, I: WordNode<Ops: InnerOps>> Layout for Append<LINES, S, I> {
    type Node = Self;
    type Hints = EntryLog;

    #[inline]
    fn len(hints: &EntryLog) -> usize {
        hints.census.get().0
    }

    fn search(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Result<usize, usize> {
        let count = node.hints.census.get().1;
        match (0..count).rev().find(|&i| node.load(key_at(i)) == key) {
            Some(i) if !is_negative(*node, i) => Ok(i),
            _ => Err(count),
        }
    }

    #[inline]
    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64 {
        node.load(key_at(place) + 8)
    }

    fn entries(node: NodeAt<'_, Self, impl Medium>, (from, to): (u64, u64), out: &mut Vec<Entry>) -> usize {
        let last = Self::last(*node, node.hints.census.get().1, |key| (from..=to).contains(&key));
        let there = last.into_iter().filter(|&(_, i)| !is_negative(*node, i));
        out.clear();
        out.extend(there.map(|(key, i)| (key, node.load(key_at(i) + 8))));
        out.len()
    }

    fn fill(node: NodeAt<'_, Self, impl Medium>, new: NewNode) {
        let entries = new.entries;
        assert!(entries.len() <= Self::capacity(new.lines.into()), "a new leaf holds what it is made for");
        node.store(NEXT, new.next);
        node.store(LOW, new.low);
        node.store(SIZE, new.lines.into());
        node.store(COUNT, entries.len() as u64);
        for (i, &entry) in entries.iter().enumerate() {
            write(*node, i, entry, false);
        }
        node.flush(0, LINE + entries.len().div_ceil(PER_LINE) as u64 * LINE, Step::NodeFill);
        node.hints.census.set(entries.len(), entries.len());
        node.hints.lines.store(new.lines.into(), Ordering::Relaxed);
        node.hints.tally.set(0, 0);
    }

    fn insert(node: NodeAt<'_, Self, impl Medium>, _place: usize, new: Entry) {
        Self::append(node, &[(new, false)], node.hints.census.get().0 + 1);
    }

    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, value: u64) {
        let (key, old) = (node.load(key_at(place)), node.load(key_at(place) + 8));
        Self::append(node, &[((key, old), true), ((key, value), false)], node.hints.census.get().0);
    }

    fn remove(node: NodeAt<'_, Self, impl Medium>, _range: KeyRange, place: usize) {
        let (key, old) = (node.load(key_at(place)), node.load(key_at(place) + 8));
        Self::append(node, &[((key, old), true)], node.hints.census.get().0 - 1);
    }

    fn recover(node: NodeAt<'_, Self, impl Medium>, range: KeyRange) -> Result<(), Broken> {
        let there = sound::<Self>(*node, range)?.entries.len();
        node.hints.census.set(there, node.load(COUNT) as usize);
        node.hints.lines.store(Self::stored_size(*node), Ordering::Relaxed);
        node.hints.tally.set(0, 0);
        Ok(())
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        let (lines, count) = (Self::stored_size(node), node.load(COUNT));
        // That the block has this many lines was checked before.
        if lines < LEAST || count > Self::capacity(lines) as u64 {
            report(node.broken(COUNT, "N3: more elements than fit"));
            return None;
        }
        let last = Self::last(node, count as usize, |_| true);
        if let Some(&(_, i)) = last.iter().find(|&&(key, _)| !range.contains(key)) {
            report(node.broken(key_at(i), "N3: an element that is not owned"));
            return None;
        }
        let there = last.into_iter().filter(|&(_, i)| !is_negative(node, i));
        let entries = there.map(|(key, i)| (key, node.load(key_at(i) + 8))).collect();
        Some(Checked { entries, ..Checked::default() })
    }
}

impl<const LINES: usize, S: Strategy, I: WordNode<Ops: InnerOps>> Renew for Append<LINES, S, I> {
    type Sizes = Self;

    const TAKES: Takes = Takes { update: 2, remove: 1 };

    #[inline]
    fn taken(hints: &EntryLog) -> usize {
        hints.census.get().1
    }
}

impl<const LINES: usize, S: Strategy, I: WordNode<Ops: InnerOps>> Sizes<Self> for Append<LINES, S, I> {
    type Shared = Workload;

    /// The largest class is 32 times as large as the smallest.
    const CLASSES: usize = if S::COUNTS { 6 } else { 1 };

    fn bytes(node: BlockAt<'_, impl Medium>) -> u64 {
        Self::stored_size(node).saturating_mul(LINE)
    }

    fn lines(hints: &EntryLog) -> u32 {
        hints.lines.load(Ordering::Relaxed) as u32
    }

    #[inline]
    fn slots(hints: &EntryLog) -> usize {
        Self::capacity(hints.lines.load(Ordering::Relaxed))
    }

    fn resize(node: NodeAt<'_, Self, impl Medium>, shared: &Workload, most: u32, leaves: impl Fn() -> u64) -> u32 {
        let most = ((Self::BYTES << (Self::CLASSES - 1)) / LINE).min(most.into());
        let (hints, costs) = (node.hints, node.pool.m.costs());
        let old = hints.lines.load(Ordering::Relaxed);
        adaptive::lines::<S>((old, LEAST, most), PER_LINE as u64, costs, &hints.tally, shared, leaves) as u32
    }

    fn inherit(hints: &EntryLog, of: &EntryLog, heirs: usize) {
        let (reads, writes) = of.tally.get();
        hints.tally.set(reads / heirs, writes / heirs);
    }

    #[inline]
    fn searched(hints: &EntryLog, shared: &Workload) {
        if S::COUNTS {
            hints.tally.add(1, 0);
        }
        if S::PRINTED {
            shared.count(1, 0);
        }
    }

    #[inline]
    fn written(hints: &EntryLog, shared: &Workload, slots: usize) {
        if S::COUNTS {
            hints.tally.add(0, slots);
        }
        if S::PRINTED {
            shared.count(0, slots as u64);
        }
    }

    const HEAT_IS_WRITES: bool = S::PRINTED;

    fn writes(hints: &EntryLog) -> u64 {
        hints.tally.get().1 as u64
    }
}
