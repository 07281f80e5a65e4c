//! Blocks of one class. Which of them are free is known in DRAM only, so taking one costs no flush.
//!
//! After a crash, the blocks that a tree reaches are in use and all others are free. Nothing can leak.
//!
//! A class of nodes keeps one free block back, from its first segment on, for a node that replaces another one. A
//! removal or an update may have to replace a node even when the disk is full. It replaces one node at a time, because
//! it holds the tree's mutex, and the block of the replaced node refills the reserve. So a class never needs more than
//! one reserved block. No particular block is reserved: the reserve is whichever block is left last.

use crate::delay::delay;
use crate::error::Fault;
use crate::medium::Medium;
use crate::pool::segments::{Places, SegmentEntry, SegmentKind, Segments};
use crate::sync::Mutex;

/// A block that was just taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Its offset.
    pub(crate) at: u64,
    /// True if it durably holds zeros.
    pub(crate) zeroed: bool,
}

/// The blocks of one tree, kind and size.
pub(crate) struct Blocks {
    class: SegmentEntry,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Blocks that were given back, or found unused at open.
    free: Vec<u64>,
    /// Blocks from `next` to `end`, in the newest segment, have not been handed out yet.
    next: u64,
    end: u64,
    zeroed: bool,
    /// A block left over from the previous segment, which is handed out last.
    left: Option<u64>,
}

impl State {
    /// The number of blocks of the newest segment that have not been handed out yet.
    fn fresh(&self, unit: u64) -> usize {
        ((self.end - self.next) / unit) as usize
    }

    /// The number of blocks that can be taken without another segment.
    fn available(&self, unit: u64) -> usize {
        self.free.len() + self.fresh(unit) + usize::from(self.left.is_some())
    }
}

impl Blocks {
    /// A class without blocks.
    pub(crate) fn new(class: SegmentEntry) -> Self {
        Self { class, state: Mutex::new(State::default()) }
    }

    /// Finds the class's blocks from its segments. The free ones are those for which `used` returns false.
    pub(crate) fn recover(&self, segments: &Segments, mut used: impl FnMut(u64) -> bool) {
        let mut state = self.state.lock();
        *state = State::default();
        for segment in segments.owned(self.class.tree, self.class.kind, self.class.unit) {
            state.free.extend(self.blocks_of(segments, segment).filter(|&at| !used(at)));
        }
        // Blocks are popped from the end, so the lowest offset comes last.
        state.free.reverse();
    }

    /// Finds the class's blocks from its segments. The free ones are all that are not in `used`.
    pub(crate) fn recover_except(&self, segments: &Segments, used: impl Iterator<Item = u64>) {
        let per_segment = (segments.size() / u64::from(self.class.unit)) as usize;
        let owned = segments.owned(self.class.tree, self.class.kind, self.class.unit);
        let place = Places::new(&owned);
        // Numbered within the class's own segments, because the segments of all other classes may be many.
        let number = |at: u64| {
            let place = segments.of(at).and_then(|segment| place.of(segment)).expect("a block lies in a segment");
            place * per_segment + (segments.within(at) / u64::from(self.class.unit)) as usize
        };
        let mut is_used = vec![false; owned.len() * per_segment];
        // `used` may also contain blocks of other sizes.
        used.filter(|&at| segments.is_block(at, self.class)).for_each(|at| is_used[number(at)] = true);
        self.recover(segments, |at| is_used[number(at)]);
    }

    /// Sets the class's free blocks. Returns false if the list cannot be right: an offset that is no block, or that is
    /// free twice, would end up in two nodes.
    #[must_use]
    pub(crate) fn restore(&self, segments: &Segments, free: impl Iterator<Item = u64>) -> bool {
        let free: Vec<u64> = free.collect();
        let mut sorted = free.clone();
        sorted.sort_unstable();
        let is_sound =
            sorted.is_sorted_by(|one, next| one < next) && sorted.iter().all(|&at| segments.is_block(at, self.class));
        *self.state.lock() = State { free, ..State::default() };
        is_sound
    }

    fn blocks_of(&self, segments: &Segments, segment: u32) -> impl DoubleEndedIterator<Item = u64> + use<> {
        let (start, unit) = (segments.start(segment), u64::from(self.class.unit));
        (0..segments.size() / unit).map(move |i| start + i * unit)
    }

    pub(crate) fn class(&self) -> SegmentEntry {
        self.class
    }

    /// A block for the caller alone. In a class of nodes, it never takes the last free one.
    pub(crate) fn take<M: Medium>(&self, m: &M, segments: &Segments) -> Result<Taken, Fault> {
        let reserve = if self.class.kind == SegmentKind::Record { 0 } else { 1 };
        self.take_but(reserve, m, segments)
    }

    /// A block for the caller alone. The caller must hold the tree's mutex until it has given back another block of the
    /// class in exchange.
    pub(crate) fn take_in_exchange<M: Medium>(&self, m: &M, segments: &Segments) -> Result<Taken, Fault> {
        self.take_but(0, m, segments)
    }

    /// The same, but leaves `reserve` blocks free.
    fn take_but<M: Medium>(&self, reserve: usize, m: &M, segments: &Segments) -> Result<Taken, Fault> {
        delay();
        let mut state = self.state.lock();
        let unit = u64::from(self.class.unit);
        while state.available(unit) <= reserve {
            let (segment, zeroed) = segments.assign(m, self.class, 1)?;
            let start = segments.start(segment);
            if state.fresh(unit) > 0 {
                state.left = Some(state.next);
            }
            state.next = start;
            state.end = start + segments.size();
            state.zeroed = zeroed;
        }
        if let Some(at) = state.free.pop() {
            return Ok(Taken { at, zeroed: false });
        }
        if state.fresh(unit) == 0
            && let Some(at) = state.left.take()
        {
            return Ok(Taken { at, zeroed: false });
        }
        let at = state.next;
        state.next += unit;
        Ok(Taken { at, zeroed: state.zeroed })
    }

    /// A block for the caller alone, if one can be had without taking another segment.
    pub(crate) fn take_at_hand(&self) -> Option<Taken> {
        delay();
        let mut state = self.state.lock();
        if let Some(at) = state.free.pop() {
            return Some(Taken { at, zeroed: false });
        }
        let unit = u64::from(self.class.unit);
        let at = state.next;
        (state.fresh(unit) > 0).then(|| {
            state.next += unit;
            Taken { at, zeroed: state.zeroed }
        })
    }

    /// Gives a block back.
    pub(crate) fn give(&self, at: u64) {
        self.give_all(std::iter::once(at));
    }

    /// Gives blocks back.
    pub(crate) fn give_all(&self, blocks: impl Iterator<Item = u64>) {
        delay();
        self.state.lock().free.extend(blocks);
    }

    /// All blocks that are currently free.
    pub(crate) fn free(&self) -> Vec<u64> {
        let state = self.state.lock();
        let unit = u64::from(self.class.unit);
        let fresh = 0..state.fresh(unit) as u64;
        state.free.iter().copied().chain(state.left).chain(fresh.map(|i| state.next + i * unit)).collect()
    }

    /// The number of all blocks, including free ones.
    pub(crate) fn total(&self, segments: &Segments) -> u64 {
        let owned = segments.owned(self.class.tree, self.class.kind, self.class.unit).len() as u64;
        owned * (segments.size() / u64::from(self.class.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Dram;
    use crate::pool::format::Geometry;

    #[test]
    fn what_is_free_twice_or_no_block_is_not_believed() {
        let geometry = Geometry { segment: 4096, limit: 8, trees: 4, capacity: 64 << 10 };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        let blocks = Blocks::new(SegmentEntry::new(SegmentKind::Leaf, 1, 256));
        let at = blocks.take(&m, &segments).unwrap().at;
        let restored = |free: &[u64]| blocks.restore(&segments, free.iter().copied());
        assert!(restored(&[]) && restored(&[at]) && restored(&[at + 256, at, at + 512]));
        for wrong in [&[at, at][..], &[at, at + 256, at], &[at + 8], &[at, 0], &[u64::MAX], &[at + 4096]] {
            assert!(!restored(wrong), "{wrong:?}");
        }
    }
}
