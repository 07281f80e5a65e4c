//! The segment table: the only allocation metadata that is persistent.
//!
//! ```text
//! entry   | kind 8 | check 8 | tree 16 | unit 32 |     one word per segment, 0 = never used
//! ```
//!
//! Invariants:
//! - **T1** An entry changes by one 8-byte store, and is durable before a block of its segment is used.
//! - **T2** Segments are first used in ascending order: those from the first entry that is 0 on were never written to,
//!   and hold zeros. (Their entries may name a span that a crash cut short: an open for writing clears them.)
//! - **T3** A segment of nodes stays one until its tree is dropped (type-stable).

use crate::error::{Broken, Error, Result};
use crate::medium::Medium;
use crate::pool::format::Geometry;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// What a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Nothing, but it did once.
    Free = 1,
    /// Leaves of a tree.
    Leaf = 2,
    /// Inner nodes of a tree with a persistent index.
    Inner = 3,
    /// Records of one size class.
    Record = 4,
    /// The first segment of a record, or of a close record, larger than a segment's classes; unit = segments.
    Span = 5,
    /// A further segment of a span.
    Rest = 6,
}

/// A decoded table entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// The root slot of the owning tree.
    pub(crate) tree: u16,
    /// Bytes of a block; segments of a span.
    pub(crate) unit: u32,
}

impl Entry {
    pub(crate) fn new(kind: Kind, tree: u16, unit: u32) -> Self {
        Self { kind, tree, unit }
    }

    /// The word without its check.
    #[inline]
    fn bare(self) -> u64 {
        self.kind as u64 | u64::from(self.tree) << 16 | u64::from(self.unit) << 32
    }

    fn encode(self, segment: u32) -> u64 {
        self.bare() | check(self.bare(), segment) << 8
    }

    fn decode(word: u64, segment: u32) -> Option<Self> {
        if (word & CHECK) >> 8 != check(word & !CHECK, segment) {
            return None;
        }
        let kind = [Kind::Free, Kind::Leaf, Kind::Inner, Kind::Record, Kind::Span, Kind::Rest]
            .into_iter()
            .find(|&kind| kind as u64 == word & 0xff)?;
        Some(Self { kind, tree: (word >> 16) as u16, unit: (word >> 32) as u32 })
    }
}

/// Where in the word the check is.
const CHECK: u64 = 0xff00;

/// Eight bits that depend on all others and on the place.
fn check(word: u64, segment: u32) -> u64 {
    (word ^ u64::from(segment)).wrapping_add(0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56
}

/// The table, with a copy in DRAM of the part that is in use.
pub(crate) struct Segments {
    geometry: Geometry,
    first: u64,
    shift: u32,
    /// Entry words as validated at open and as assigned since.
    words: Box<[AtomicU64]>,
    state: Mutex<State>,
}

struct State {
    /// Segments from here on were never used.
    unused: u32,
    /// Used once, free now; descending, so that the lowest is popped first.
    free: Vec<u32>,
}

impl State {
    fn tidy(&mut self) {
        self.free.sort_unstable_by(|a, b| b.cmp(a));
        self.free.dedup();
    }
}

impl Segments {
    /// Reads the table.
    pub(crate) fn open<M: Medium>(m: &M, geometry: Geometry) -> Result<Self, Broken> {
        let count = geometry.segments();
        let mut words = Vec::with_capacity(count as usize);
        let mut free = Vec::new();
        for segment in 0..count {
            let at = geometry.table() + u64::from(segment) * 8;
            let word = m.load(at);
            if word == 0 {
                break;
            }
            let Some(entry) = Entry::decode(word, segment) else {
                return Err(Broken::new(at, "T1: segment table entry"));
            };
            if entry.kind == Kind::Free {
                free.push(segment);
            }
            words.push(AtomicU64::new(word));
        }
        free.reverse();
        let unused = words.len() as u32;
        words.resize_with(count as usize, || AtomicU64::new(0));
        let shift = geometry.segment.trailing_zeros();
        let state = Mutex::new(State { unused, free });
        Ok(Self { geometry, first: geometry.first(), shift, words: words.into(), state })
    }

    /// Clears the entries of segments that were never used, which a crash while a span was assigned may have left: they
    /// must not seem to be in use when those before them are.
    pub(crate) fn clear_unused<M: Medium>(&self, m: &M) {
        let unused = self.state.lock().unused;
        let mut any = false;
        for at in (unused..self.count()).map(|segment| self.at(segment)).filter(|&at| m.load(at) != 0) {
            m.store(at, 0);
            m.flush(at, 8);
            any = true;
        }
        if any {
            // Crash, until here: they are found again.
            m.fence();
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.words.len() as u32
    }

    pub(crate) fn size(&self) -> u64 {
        self.geometry.segment
    }

    /// The offset where a segment starts.
    pub(crate) fn start(&self, segment: u32) -> u64 {
        self.first + (u64::from(segment) << self.shift)
    }

    /// The segment that holds an offset, if any does.
    #[inline]
    pub(crate) fn of(&self, at: u64) -> Option<u32> {
        let segment = at.checked_sub(self.first)? >> self.shift;
        (segment < self.words.len() as u64).then_some(segment as u32)
    }

    /// The offset within its segment.
    #[inline]
    pub(crate) fn within(&self, at: u64) -> u64 {
        (at - self.first) & (self.geometry.segment - 1)
    }

    /// What a segment holds; `None` if it was never used.
    #[inline]
    pub(crate) fn entry(&self, segment: u32) -> Option<Entry> {
        let word = self.words.get(segment as usize)?.load(Ordering::Acquire);
        if word == 0 { None } else { Entry::decode(word, segment) }
    }

    /// Segments that hold, or held, something, with their entries.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u32, Entry)> {
        let unused = self.state.lock().unused;
        (0..unused).filter_map(|segment| Some((segment, self.entry(segment)?))).filter(|(_, e)| e.kind != Kind::Free)
    }

    /// The segments of one tree and kind (and unit, unless it is 0).
    pub(crate) fn owned(&self, tree: u16, kind: Kind, unit: u32) -> Vec<u32> {
        let of_tree = |e: &Entry| e.tree == tree && e.kind == kind && (unit == 0 || e.unit == unit);
        self.used().filter(|(_, entry)| of_tree(entry)).map(|(segment, _)| segment).collect()
    }

    /// Bytes up to the end of the last segment ever used: what must be reserved.
    pub(crate) fn high_water(&self) -> u64 {
        self.start(self.state.lock().unused)
    }

    /// True if `at` is the start of a block of exactly this entry's class.
    #[inline]
    pub(crate) fn is_block(&self, at: u64, wanted: Entry) -> bool {
        let Some(segment) = self.of(at) else { return false };
        let within = self.within(at);
        let unit = u64::from(wanted.unit);
        // The check was looked at when the entry was read.
        let word = self.words[segment as usize].load(Ordering::Acquire) & !CHECK;
        word == wanted.bare() && within.is_multiple_of(unit) && within + unit <= self.geometry.segment
    }

    /// Gives `count` adjacent segments to a tree. True with it if they hold zeros.
    pub(crate) fn assign<M: Medium>(&self, m: &M, entry: Entry, count: u32) -> Result<(u32, bool)> {
        let mut state = self.state.lock();
        let wanted = u64::from(count) * self.geometry.segment;
        let full =
            |source| Error::OutOfSpace { pool: m.name().to_owned(), wanted, capacity: self.geometry.capacity, source };
        let (segment, fresh) = if let Some(position) = run(&state.free, count) {
            // `free` descends: the run's lowest segment is its last element.
            let segment = state.free[position + count as usize - 1];
            state.free.drain(position..position + count as usize);
            (segment, false)
        } else {
            if self.count() - state.unused < count {
                return Err(full(None));
            }
            let segment = state.unused;
            // Space first, for the segments and for the table up to the 0 that ends it.
            let table = self.geometry.table();
            let entries = u64::from(segment + count + 1).min(u64::from(self.geometry.limit)) * 8;
            m.reserve(table, entries).map_err(|e| full(Some(e)))?;
            m.reserve(self.start(segment), wanted).map_err(|e| full(Some(e)))?;
            state.unused += count;
            (segment, true)
        };
        for i in 0..count {
            self.put(m, segment + i, if i == 0 { entry } else { Entry::new(Kind::Rest, entry.tree, 0) });
        }
        m.flush(self.at(segment), u64::from(count) * 8);
        // Crash: segments of a tree that nothing in it reaches; its next walk finds their blocks free, or releases them.
        // The fence is for other threads, which may take and commit blocks of the segment: their own fences do not wait
        // for this flush.
        m.fence();
        Ok((segment, fresh))
    }

    /// Takes segments back. Nothing may refer to them any more.
    pub(crate) fn release<M: Medium>(&self, m: &M, segments: impl IntoIterator<Item = u32>) {
        let mut state = self.state.lock();
        let before = state.free.len();
        for segment in segments {
            self.put(m, segment, Entry::new(Kind::Free, 0, 0));
            m.flush(self.at(segment), 8);
            state.free.push(segment);
        }
        if state.free.len() == before {
            return;
        }
        // Crash, until here: still the tree's, and reached by nothing; its next walk releases them again. Not later: after an
        // orderly close there is no walk, and the slot of a dropped tree may be another's.
        m.fence();
        state.tidy();
    }

    /// Where a segment's entry lies.
    fn at(&self, segment: u32) -> u64 {
        self.geometry.table() + u64::from(segment) * 8
    }

    fn put<M: Medium>(&self, m: &M, segment: u32, entry: Entry) {
        let word = entry.encode(segment);
        m.store(self.at(segment), word);
        self.words[segment as usize].store(word, Ordering::Release);
    }

    /// Bytes not yet given to any tree.
    pub(crate) fn available(&self) -> u64 {
        let state = self.state.lock();
        (u64::from(self.count() - state.unused) + state.free.len() as u64) * self.geometry.segment
    }
}

/// Position in a descending list of the first `count` elements that are adjacent numbers.
fn run(descending: &[u32], count: u32) -> Option<usize> {
    descending.windows(count as usize).rposition(|window| window[0] - window[window.len() - 1] == count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Dram;

    fn table() -> (Dram, Segments) {
        let geometry = Geometry { segment: 4096, limit: 8, trees: 4, capacity: 64 << 10 };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        (m, segments)
    }

    #[test]
    fn a_table_is_read_back_as_it_was_left() {
        let (m, segments) = table();
        let leaf = Entry::new(Kind::Leaf, 3, 128);
        assert_eq!(segments.assign(&m, leaf, 1).unwrap(), (0, true));
        assert_eq!(segments.assign(&m, Entry::new(Kind::Span, 3, 3), 3).unwrap(), (1, true));
        assert_eq!(segments.assign(&m, leaf, 1).unwrap(), (4, true));
        segments.release(&m, [1, 2, 3]);
        let again = Segments::open(&m, segments.geometry).unwrap();
        assert_eq!(again.owned(3, Kind::Leaf, 128), [0, 4]);
        assert_eq!(again.assign(&m, Entry::new(Kind::Span, 1, 2), 2).unwrap(), (1, false));
        assert_eq!(again.assign(&m, leaf, 1).unwrap(), (3, false));
        assert!(again.is_block(again.start(4) + 256, leaf));
        assert!(!again.is_block(again.start(4) + 64, leaf));
        assert!(!again.is_block(again.start(1), leaf));
        assert!(!again.is_block(12, leaf));
        assert!(!again.is_block(u64::MAX, leaf));
    }

    #[test]
    fn full_is_an_error_that_changes_nothing() {
        let (m, segments) = table();
        let record = Entry::new(Kind::Record, 0, 64);
        while segments.available() > 4096 {
            segments.assign(&m, record, 1).unwrap();
        }
        let before = m.words();
        assert!(matches!(segments.assign(&m, record, 2), Err(Error::OutOfSpace { .. })));
        assert_eq!(before, m.words());
        segments.assign(&m, record, 1).unwrap();
        assert!(matches!(segments.assign(&m, record, 1), Err(Error::OutOfSpace { .. })));
    }

    #[test]
    fn what_a_cut_assignment_left_is_cleared() {
        let (m, segments) = table();
        segments.assign(&m, Entry::new(Kind::Span, 0, 4), 4).unwrap();
        // Of the four entries, the first did not become durable.
        m.store(segments.at(0), 0);
        let again = Segments::open(&m, segments.geometry).unwrap();
        again.clear_unused(&m);
        again.assign(&m, Entry::new(Kind::Leaf, 0, 64), 1).unwrap();
        let third = Segments::open(&m, segments.geometry).unwrap();
        assert_eq!(third.used().count(), 1);
    }

    #[test]
    fn a_damaged_entry_is_named() {
        let (m, segments) = table();
        segments.assign(&m, Entry::new(Kind::Leaf, 0, 64), 1).unwrap();
        let at = segments.geometry.table();
        for bit in 0..64 {
            let word = m.load(at);
            m.store(at, word ^ 1 << bit);
            let broken = Segments::open(&m, segments.geometry).err();
            assert!(broken.is_none_or(|b| b.at == at));
            m.store(at, word);
        }
        m.store(at, m.load(at) ^ 0x0400);
        assert!(Segments::open(&m, segments.geometry).is_err());
    }
}
