//! The segment table: the only persistent allocation metadata.
//!
//! The word of an entry and the invariants T1 to T3 are in `docs/design.md`, section 2.

use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{Hint, LINE, Medium, Step};
use crate::memory::Zeroed;
use crate::pool::format::Geometry;
use crate::sync::{AtomicU64, Mutex, Ordering};

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
}

impl SegmentKind {
    #[inline]
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Free,
            2 => Self::Leaf,
            3 => Self::Inner,
            4 => Self::Record,
            5 => Self::Extent,
            6 => Self::Rest,
            _ => return None,
        })
    }
}

/// A decoded table entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) kind: SegmentKind,
    /// The root slot of the owning tree.
    pub(crate) tree: u16,
    /// The size of a block in bytes; for an extent, the number of its segments.
    pub(crate) unit: u32,
}

impl SegmentEntry {
    pub(crate) fn new(kind: SegmentKind, tree: u16, unit: u32) -> Self {
        Self { kind, tree, unit }
    }

    /// The word without its check bits.
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
        let kind = SegmentKind::of(word as u8)?;
        Some(Self { kind, tree: (word >> 16) as u16, unit: (word >> 32) as u32 })
    }
}

/// The bits of the word that hold the check.
const CHECK: u64 = 0xff00;

/// Eight bits that depend on all other bits and on the number of the segment.
fn check(word: u64, segment: u32) -> u64 {
    (word ^ u64::from(segment)).wrapping_add(0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56
}

/// This many entries of an extent become durable at once, in any order. The entries of a longer extent become durable
/// one part after the other. This limits how far an open for writing must look for what a crash left.
const AT_ONCE: u32 = 8192;

/// The table, with a copy in DRAM of the part that is in use.
pub(crate) struct Segments {
    geometry: Geometry,
    first: u64,
    shift: u32,
    /// Entry words as validated at the open and as assigned since. There is one for each segment that the pool may
    /// have. A file may claim to have many, but that only costs address space.
    words: Zeroed<AtomicU64>,
    state: Mutex<State>,
}

struct State {
    /// Segments from this one on were never used.
    unused: u32,
    /// Segments that were used once and are free now. They descend, so that the lowest is popped first.
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
    pub(crate) fn open<M: Medium>(m: &M, geometry: Geometry) -> Result<Self, Fault> {
        let words = Zeroed::<AtomicU64>::new(geometry.segments() as usize);
        let words = words.map_err(Fault::address_space)?;
        let (mut unused, mut free) = (0, Vec::new());
        for (segment, in_memory) in (0..).zip(words.iter()) {
            let at = geometry.table() + u64::from(segment) * 8;
            let word = m.load(at);
            if word == 0 {
                break;
            }
            let Some(entry) = SegmentEntry::decode(word, segment) else {
                return Err(Broken::new(at, "T1: segment table entry").into());
            };
            if entry.kind == SegmentKind::Free {
                free.push(segment);
            }
            in_memory.store(word, Ordering::Relaxed);
            unused = segment + 1;
        }
        free.reverse();
        let shift = geometry.segment.trailing_zeros();
        let state = Mutex::new(State { unused, free });
        Ok(Self { geometry, first: geometry.first(), shift, words, state })
    }

    /// Clears the entries of segments that were never used. A crash while an extent was assigned may have left them,
    /// and they must not appear to be in use once those before them are.
    ///
    /// A page for which there is no space was never written to, and reading it on a full disk may kill the process.
    pub(crate) fn clear_unused<M: Medium>(&self, m: &M) -> Result<(), Fault> {
        const PAGE: u64 = 4096;
        let unused = self.state.lock().unused;
        let end = self.count().min(unused.saturating_add(AT_ONCE));
        let mut stale = Vec::new();
        let mut readable = self.at(unused);
        let mut segment = unused;
        while segment < end {
            let at = self.at(segment);
            let len = ((at + 1).next_multiple_of(PAGE)).min(self.at(end)) - at;
            let next = segment + (len / 8) as u32;
            match m.reserve(at, len) {
                Ok(()) => {
                    stale.extend((segment..next).filter(|&segment| m.load(self.at(segment)) != 0));
                    readable = at + len;
                }
                Err(source) => {
                    let fault = Fault::space(len, self.geometry.capacity)(source);
                    if !fault.is_out_of_space() {
                        return Err(fault);
                    }
                }
            }
            segment = next;
        }
        stale.iter().for_each(|&segment| m.store(self.at(segment), 0));
        // All of them: the zeros of an open that was killed may be in caches only.
        if m.facts().leaves_unflushed || !stale.is_empty() {
            m.flush(self.at(unused), readable - self.at(unused), Step::SegmentForget);
            m.fence(Step::SegmentForget);
        }
        Ok(())
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

    /// The entry of a segment; `None` if the segment was never used.
    #[inline]
    pub(crate) fn entry(&self, segment: u32) -> Option<SegmentEntry> {
        let word = self.words.get(segment as usize)?.load(Ordering::Acquire);
        if word == 0 { None } else { SegmentEntry::decode(word, segment) }
    }

    /// The unit of a segment of this kind and tree; `None` if it is another one.
    #[inline]
    pub(crate) fn unit(&self, segment: u32, kind: SegmentKind, tree: u16) -> Option<u32> {
        // The check bits were verified when the entry was read.
        let word = self.words.get(segment as usize)?.load(Ordering::Acquire) & !CHECK;
        let unit = (word >> 32) as u32;
        (word == SegmentEntry { kind, tree, unit }.bare()).then_some(unit)
    }

    /// Segments that are in use, with their entries.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u32, SegmentEntry)> {
        let unused = self.state.lock().unused;
        (0..unused)
            .filter_map(|segment| Some((segment, self.entry(segment)?)))
            .filter(|(_, e)| e.kind != SegmentKind::Free)
    }

    /// The segments of one tree and kind (and unit, unless it is 0).
    pub(crate) fn owned(&self, tree: u16, kind: SegmentKind, unit: u32) -> Vec<u32> {
        let of_tree = |e: &SegmentEntry| e.tree == tree && e.kind == kind && (unit == 0 || e.unit == unit);
        self.used().filter(|(_, entry)| of_tree(entry)).map(|(segment, _)| segment).collect()
    }

    /// The offset of the end of the last segment ever used. Space must be reserved up to there.
    pub(crate) fn high_water(&self) -> u64 {
        self.start(self.state.lock().unused)
    }

    /// Whether `at` is the start of a block of exactly this class.
    #[inline]
    pub(crate) fn is_block(&self, at: u64, wanted: SegmentEntry) -> bool {
        let Some(segment) = self.of(at) else { return false };
        let within = self.within(at);
        let unit = u64::from(wanted.unit);
        // The check bits were verified when the entry was read.
        let word = self.words[segment as usize].load(Ordering::Acquire) & !CHECK;
        word == wanted.bare() && within.is_multiple_of(unit) && within + unit <= self.geometry.segment
    }

    /// Assigns `count` adjacent segments to a tree. Also returns whether they hold zeros.
    pub(crate) fn assign<M: Medium>(&self, m: &M, entry: SegmentEntry, count: u32) -> Result<(u32, bool), Fault> {
        let mut state = self.state.lock();
        let wanted = u64::from(count) * self.geometry.segment;
        let capacity = self.geometry.capacity;
        let (segment, fresh) = if let Some(position) = run(&state.free, count) {
            // `free` descends, so the run's lowest segment is its last element.
            let segment = state.free[position + count as usize - 1];
            state.free.drain(position..position + count as usize);
            (segment, false)
        } else {
            if self.count() - state.unused < count {
                return Err(ErrorKind::OutOfSpace { wanted, capacity, source: None }.into());
            }
            let segment = state.unused;
            // Reserve space first: for the segments, and for the table up to the 0 that ends it.
            let table = self.geometry.table();
            let entries = u64::from(segment + count + 1).min(u64::from(self.geometry.limit)) * 8;
            m.reserve(table, entries).map_err(Fault::space(wanted, capacity))?;
            m.reserve(self.start(segment), wanted).map_err(Fault::space(wanted, capacity))?;
            m.hint(self.start(segment), wanted, Hint::Fresh);
            state.unused += count;
            (segment, true)
        };
        for part in (0..count).step_by(AT_ONCE as usize) {
            let behind = count.min(part.saturating_add(AT_ONCE));
            for i in part..behind {
                self.put(
                    m,
                    segment + i,
                    if i == 0 { entry } else { SegmentEntry::new(SegmentKind::Rest, entry.tree, 0) },
                );
            }
            m.flush(self.at(segment + part), u64::from(behind - part) * 8, Step::SegmentAssign);
            // The fence is for the next part (T2), and for other threads that may take and commit blocks of the
            // segment: their own fences do not wait for this flush.
            m.fence(Step::SegmentAssign);
        }
        Ok((segment, fresh))
    }

    /// Stores an entry beyond the first segment that was never used, at the start of a line, as a crash may leave it.
    #[cfg(feature = "crash")]
    pub(super) fn cut_extent<M: Medium>(&self, m: &M) {
        let unused = self.state.lock().unused;
        let in_next_line = |&segment: &u32| self.at(segment).is_multiple_of(LINE);
        if let Some(segment) = (unused + 1..self.count()).find(in_next_line) {
            m.store(self.at(segment), SegmentEntry::new(SegmentKind::Rest, 0, 0).encode(segment));
            m.flush(self.at(segment), 8, Step::SegmentAssign);
            m.fence(Step::SegmentAssign);
        }
    }

    /// Takes back those segments whose entries say, according to `is_own`, that they are the caller's. Nothing may
    /// refer to them any more.
    ///
    /// The entries are checked under the same lock under which segments are assigned. In a damaged pool, two threads
    /// may give back the same extent, and by the second time it may already belong to another tree.
    pub(crate) fn release<M: Medium>(
        &self,
        m: &M,
        segments: impl IntoIterator<Item = u32>,
        is_own: impl Fn(&SegmentEntry) -> bool,
    ) {
        let mut state = self.state.lock();
        let own =
            |&segment: &u32| self.entry(segment).is_some_and(|entry| entry.kind != SegmentKind::Free && is_own(&entry));
        let mut released: Vec<u32> = segments.into_iter().filter(own).collect();
        if released.is_empty() {
            return;
        }
        released.sort_unstable();
        released.iter().for_each(|&segment| self.put(m, segment, SegmentEntry::new(SegmentKind::Free, 0, 0)));
        self.flush_entries(m, &released, Step::SegmentRelease);
        // This must not be later: after an orderly close there is no walk, and the slot of a dropped tree may become
        // another's.
        m.fence(Step::SegmentRelease);
        state.free.extend(released);
        state.tidy();
    }

    /// Flushes the entries of segments, which ascend. Each line is flushed once.
    fn flush_entries<M: Medium>(&self, m: &M, segments: &[u32], step: Step) {
        let same_line = |&a: &u32, &b: &u32| self.at(a) / LINE == self.at(b) / LINE;
        segments.chunk_by(same_line).for_each(|entries| m.flush(self.at(entries[0]), 8, step));
    }

    /// The offset of a segment's entry.
    fn at(&self, segment: u32) -> u64 {
        self.geometry.table() + u64::from(segment) * 8
    }

    fn put<M: Medium>(&self, m: &M, segment: u32, entry: SegmentEntry) {
        let word = entry.encode(segment);
        m.store(self.at(segment), word);
        self.words[segment as usize].store(word, Ordering::Release);
    }

    /// Bytes not yet assigned to any tree.
    pub(crate) fn available(&self) -> u64 {
        let state = self.state.lock();
        (u64::from(self.count() - state.unused) + state.free.len() as u64) * self.geometry.segment
    }
}

/// The positions of segments in an ascending list.
pub(crate) struct Places {
    /// For each segment up to the last one of the list: its position plus one, or 0 if it is not in the list.
    behind: Vec<u32>,
}

impl Places {
    pub(crate) fn new(listed: &[u32]) -> Self {
        let mut behind = vec![0; listed.last().map_or(0, |&last| last as usize + 1)];
        (1..).zip(listed).for_each(|(i, &segment)| behind[segment as usize] = i);
        Self { behind }
    }

    /// The position of a segment; `None` if it is not in the list.
    #[inline]
    pub(crate) fn of(&self, segment: u32) -> Option<usize> {
        (self.behind.get(segment as usize)?.checked_sub(1)).map(|place| place as usize)
    }
}

/// Position in a descending list of the last `count` elements that are adjacent numbers: the lowest ones.
fn run(descending: &[u32], count: u32) -> Option<usize> {
    descending.windows(count as usize).rposition(|window| window[0] - window[window.len() - 1] == count - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::medium::any::zeroed;
    use crate::medium::{Counted, Dram};
    use crate::pool::{Pool, PoolState};

    fn table() -> (Dram, Segments) {
        let geometry = Geometry { segment: 4096, limit: 8, trees: 4, capacity: 64 << 10 };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        (m, segments)
    }

    #[test]
    fn a_table_is_read_back_as_it_was_left() {
        let (m, segments) = table();
        let leaf = SegmentEntry::new(SegmentKind::Leaf, 3, 128);
        assert_eq!(segments.assign(&m, leaf, 1).unwrap(), (0, true));
        assert_eq!(segments.assign(&m, SegmentEntry::new(SegmentKind::Extent, 3, 3), 3).unwrap(), (1, true));
        assert_eq!(segments.assign(&m, leaf, 1).unwrap(), (4, true));
        segments.release(&m, [1, 2, 3], |entry| entry.tree == 3);
        let again = Segments::open(&m, segments.geometry).unwrap();
        assert_eq!(again.owned(3, SegmentKind::Leaf, 128), [0, 4]);
        assert_eq!(again.assign(&m, SegmentEntry::new(SegmentKind::Extent, 1, 2), 2).unwrap(), (1, false));
        assert_eq!(again.assign(&m, leaf, 1).unwrap(), (3, false));
        assert!(again.is_block(again.start(4) + 256, leaf));
        assert!(!again.is_block(again.start(4) + 64, leaf));
        assert!(!again.is_block(again.start(1), leaf));
        assert!(!again.is_block(12, leaf));
        assert!(!again.is_block(u64::MAX, leaf));
    }

    #[test]
    fn only_what_is_its_own_does_a_tree_give_back() {
        let (m, segments) = table();
        let give_back = |tree| segments.release(&m, [0, 1, 7], |entry| entry.tree == tree);
        segments.assign(&m, SegmentEntry::new(SegmentKind::Extent, 1, 2), 2).unwrap();
        give_back(1);
        let leaf = SegmentEntry::new(SegmentKind::Leaf, 2, 128);
        assert_eq!(segments.assign(&m, leaf, 1).unwrap(), (0, false));
        let before = (m.words(), segments.available());
        // Give back again, when one segment is another tree's, one is free, and one was never used.
        give_back(1);
        give_back(0);
        assert_eq!(before, (m.words(), segments.available()));
        assert_eq!(segments.entry(0), Some(leaf));
    }

    #[test]
    fn full_is_an_error_that_changes_nothing() {
        let (m, segments) = table();
        let record = SegmentEntry::new(SegmentKind::Record, 0, 64);
        while segments.available() > 4096 {
            segments.assign(&m, record, 1).unwrap();
        }
        let before = m.words();
        assert!(segments.assign(&m, record, 2).is_err_and(|fault| fault.is_out_of_space()));
        assert_eq!(before, m.words());
        segments.assign(&m, record, 1).unwrap();
        assert!(segments.assign(&m, record, 1).is_err_and(|fault| fault.is_out_of_space()));
    }

    #[test]
    fn what_a_cut_assignment_left_is_cleared() {
        let (m, segments) = table();
        segments.assign(&m, SegmentEntry::new(SegmentKind::Extent, 0, 4), 4).unwrap();
        // The first of the four entries did not become durable.
        m.store(segments.at(0), 0);
        let again = Segments::open(&m, segments.geometry).unwrap();
        again.clear_unused(&m).unwrap();
        again.assign(&m, SegmentEntry::new(SegmentKind::Leaf, 0, 64), 1).unwrap();
        let third = Segments::open(&m, segments.geometry).unwrap();
        assert_eq!(third.used().count(), 1);
    }

    #[test]
    fn the_entries_of_a_long_span_become_durable_in_parts() {
        let count = 2 * AT_ONCE + 5;
        let geometry = Geometry { segment: 1024, limit: count + 3, trees: 1, capacity: 0 };
        let geometry = Geometry { capacity: geometry.greatest(), ..geometry };
        let m = Counted::new(Dram::zeroed(geometry.capacity));
        let segments = Segments::open(&m, geometry).unwrap();
        let before = m.counts();
        segments.assign(&m, SegmentEntry::new(SegmentKind::Extent, 0, count), count).unwrap();
        assert_eq!((m.counts() - before).fences, 3);
        // Everything that a cut in the second part may leave is cleared: all of that part but the first entry, which is
        // 0.
        (AT_ONCE..=AT_ONCE).chain(2 * AT_ONCE..count).for_each(|segment| m.store(segments.at(segment), 0));
        let again = Segments::open(&m, geometry).unwrap();
        assert_eq!(again.used().count() as u32, AT_ONCE);
        again.clear_unused(&m).unwrap();
        assert!((AT_ONCE..count).all(|segment| m.load(again.at(segment)) == 0));
        // No further than that: the rest of the table is not even read.
        m.store(again.at(count), 7);
        again.clear_unused(&m).unwrap();
        assert_eq!(m.load(again.at(count)), 7);
    }

    #[test]
    fn a_span_has_no_more_than_the_segments_that_follow_it() {
        let pool = Pool::options().segment_size(4096).max_capacity(1 << 20).create_on(zeroed(1 << 20)).unwrap();
        let PoolState { segments, medium, .. } = &*pool.state;
        let (head, _) = segments.assign(medium, SegmentEntry::new(SegmentKind::Extent, 0, 2), 2).unwrap();
        let words = |words| pool.state.read_extent(0, segments.start(head), words).map(|words| words.len());
        assert_eq!([words(1024), words(1025)], [Some(1024), None]);
        // The entry claims more segments than the table has.
        segments.put(medium, head, SegmentEntry::new(SegmentKind::Extent, 0, 100));
        assert_eq!([words(1024), words(1025)], [Some(1024), None]);
    }

    #[test]
    fn places_are_those_in_the_list() {
        let places = Places::new(&[2, 3, 7]);
        assert_eq!([2, 3, 7].map(|segment| places.of(segment)), [Some(0), Some(1), Some(2)]);
        assert!([0, 1, 4, 6, 8, u32::MAX].iter().all(|&segment| places.of(segment).is_none()));
        assert_eq!(Places::new(&[]).of(0), None);
    }

    #[test]
    fn a_damaged_entry_is_named() {
        let (m, segments) = table();
        segments.assign(&m, SegmentEntry::new(SegmentKind::Leaf, 0, 64), 1).unwrap();
        let at = segments.geometry.table();
        for bit in 0..64 {
            let word = m.load(at);
            m.store(at, word ^ 1 << bit);
            let error = Segments::open(&m, segments.geometry).err();
            assert!(
                error.is_none_or(|error| matches!(error.kind(), ErrorKind::Corrupt { at: found, .. } if *found == at))
            );
            m.store(at, word);
        }
        m.store(at, m.load(at) ^ 0x0400);
        assert!(Segments::open(&m, segments.geometry).is_err());
    }
}
