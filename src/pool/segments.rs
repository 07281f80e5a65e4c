//! The segment table: the only persistent allocation metadata.
//!
//! ```text
//! entry   | kind 4 | length 9 | check 8 | tree 16 | unit 27 |
//! kind    free, leaf, inner, record, extent, rest of an extent, roots
//! length  of the part of the segment that is in use, in 512ths of the segment, minus one
//! unit    the size of a block, in words; of an extent, how many segments it has; of roots, their position among these
//! ```
//!
//! The invariants T1 to T5 and the steps P1 to P9 are in `docs/space.md`.

mod entry;
mod giving;
mod owners;
mod taking;
#[cfg(all(test, not(bristlecone_loom)))]
mod tests;

use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{LINE, Medium, Step};
use crate::memory::Zeroed;
use crate::pool::format::{HEADER, PoolGeometry, ROOT_BYTES, ROOTS_AT_HAND};
use crate::sync::{AtomicU64, Mutex, Ordering};
use entry::length;
pub(crate) use entry::{NO_TREE, SegmentEntry, SegmentKind};
use owners::Owners;
use std::collections::{BTreeSet, VecDeque};

/// The table, with a copy in DRAM of the part that is in use.
pub(crate) struct Segments {
    geometry: PoolGeometry,
    shift: u32,
    /// Entry words as validated at the open and as assigned since. There is one for each segment that the medium may
    /// come to hold, which only costs address space.
    words: Zeroed<AtomicU64>,
    /// For each segment of a class, its position in the list of the class, whose lock guards it.
    positions: Zeroed<AtomicU64>,
    state: Mutex<SegmentsState>,
}

struct SegmentsState {
    /// Segments from this one on were never used.
    unused: u32,
    /// Segments that were used once and are free now. The lowest is taken first.
    free: BTreeSet<u32>,
    /// Which segments each tree has.
    owners: Owners,
    /// Segments whose entries say what they were, and in which nobody has a block; the one that is idle for longest
    /// first.
    idle: VecDeque<u32>,
    /// The segments of roots, in their order.
    roots: Vec<u32>,
    /// Bytes of the header, and of the segments that are not free.
    used: u64,
    /// The segment for which a page for all of it was asked for last. To ask again takes as long, although there is
    /// nothing to do.
    collapsed: Option<u32>,
}

/// Space that a class has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grown {
    pub(crate) segment: u32,
    /// The length that the class had of the segment before, and that it has now.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Whether the segment was never used before.
    pub(crate) fresh: bool,
}

impl Segments {
    /// Reads the table.
    pub(crate) fn open<M: Medium>(m: &M, geometry: PoolGeometry) -> Result<Self, Fault> {
        let mut segments = Self::empty(geometry, m.facts().len, m.accessible())?;
        segments.read(m)?;
        Ok(segments)
    }

    /// A table without entries, for a medium with so many bytes, of which so many can be accessed.
    fn empty(geometry: PoolGeometry, len: u64, accessible: u64) -> Result<Self, Fault> {
        let shift = geometry.segment.trailing_zeros();
        // The words of more would themselves take many addresses. Each segment in use takes a step of the capacity. So
        // there are no more of them, and some that are free, because an extent needs neighbours.
        const MANY: u64 = 1 << 20;
        let many = MANY.min((geometry.capacity / geometry.step()).saturating_mul(8));
        let most = many.max((accessible >> shift) * 2);
        // The last one may not be whole, in a file that is too short.
        let count = len.div_ceil(geometry.segment).min(most).min(u32::MAX.into()) as usize;
        let zeroed = || Zeroed::<AtomicU64>::sparse(count).map_err(Fault::address_space);
        let state = SegmentsState {
            unused: 0,
            free: BTreeSet::new(),
            owners: Owners::new(count)?,
            idle: VecDeque::new(),
            roots: Vec::new(),
            used: HEADER,
            collapsed: None,
        };
        Ok(Self { geometry, shift, words: zeroed()?, positions: zeroed()?, state: Mutex::new(state) })
    }

    /// The table of a pool that has no segments, for tests of nodes, which do not look at it.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        let geometry = PoolGeometry { segment: *PoolGeometry::SEGMENTS.start(), capacity: HEADER };
        Self::empty(geometry, HEADER, HEADER).expect("memory for a small table")
    }

    fn read<M: Medium>(&mut self, m: &M) -> Result<(), Fault> {
        const PAGE: u64 = 4096;
        let present = m.accessible();
        let mut roots = Vec::new();
        let state = self.state.get_mut();
        let (mut readable, mut missing) = (HEADER, 0);
        for segment in (0..u32::MAX).filter(|&segment| !self.geometry.is_header(segment)) {
            let at = self.geometry.entry(segment);
            // In a file that is refused, no hole is filled.
            if at + 8 > present || missing > 0 && at >= readable {
                break;
            }
            if at >= readable {
                // A copy of the file may have a hole here, which cannot be read where the disk is full (T4).
                let page = at / PAGE * PAGE;
                let len = PAGE.min(present - page);
                m.reserve(page, len).map_err(Fault::space(len, self.geometry.capacity))?;
                readable = page + len;
            }
            let word = m.load(at);
            if word == 0 {
                break;
            }
            let Some(entry) = SegmentEntry::decode(word, segment) else {
                if missing > 0 {
                    break;
                }
                return Err(Broken::new(at, "T1: segment table entry").into());
            };
            let len = length(word, self.shift);
            let end = (u64::from(segment) << self.shift) + len;
            if entry.kind != SegmentKind::Free && end > present {
                missing = end;
            }
            if missing > 0 {
                // The entries that follow only tell how long the file was.
                continue;
            }
            if segment as usize >= self.words.len() {
                // A free segment of a medium that cannot come to hold it.
                break;
            }
            if entry.kind == SegmentKind::Free {
                state.free.insert(segment);
            } else {
                state.used += len;
                state.owners.add(entry.tree, segment);
            }
            if entry.kind == SegmentKind::Roots {
                roots.push((entry, segment, len, at));
            }
            self.words[segment as usize].store(word, Ordering::Relaxed);
            state.unused = segment + 1;
        }
        if missing > 0 {
            return Err(ErrorKind::Truncated { expected: missing, found: present }.into());
        }
        roots.sort_unstable_by_key(|&(entry, ..)| entry.unit);
        let whole = self.geometry.segment;
        let follows = |i: u32, &(entry, _, len, _): &(SegmentEntry, u32, u64, u64)| {
            let is_last = i as usize + 1 == roots.len();
            entry == SegmentEntry::new(SegmentKind::Roots, NO_TREE, i) && (is_last || len == whole)
        };
        if let Some((_, &(.., at))) = (0..).zip(&roots).find(|&(i, root)| !follows(i, root)) {
            return Err(Broken::new(at, "T1: segments of roots that do not follow each other").into());
        }
        state.roots = roots.into_iter().map(|(_, segment, ..)| segment).collect();
        Ok(())
    }

    /// The number of segments that there may ever be while the pool is open.
    pub(crate) fn count(&self) -> u32 {
        self.words.len() as u32
    }

    pub(crate) fn size(&self) -> u64 {
        self.geometry.segment
    }

    /// The offset where a segment starts.
    pub(crate) fn start(&self, segment: u32) -> u64 {
        u64::from(segment) << self.shift
    }

    /// The segment that holds an offset, if any does.
    #[inline]
    pub(crate) fn holding(&self, at: u64) -> Option<u32> {
        let segment = at >> self.shift;
        (segment < self.words.len() as u64).then_some(segment as u32)
    }

    /// The offset within its segment.
    #[inline]
    pub(crate) fn within(&self, at: u64) -> u64 {
        at & (self.geometry.segment - 1)
    }

    #[inline]
    fn word(&self, segment: u32) -> u64 {
        #[cfg(all(test, not(bristlecone_loom)))]
        LOOKS.set(LOOKS.get() + 1);
        self.words.get(segment as usize).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The entry of a segment; `None` if the segment was never used.
    #[inline]
    pub(crate) fn entry(&self, segment: u32) -> Option<SegmentEntry> {
        SegmentEntry::decode(self.word(segment), segment)
    }

    /// The bytes of a segment that are in use.
    #[inline]
    pub(crate) fn len(&self, segment: u32) -> u64 {
        match self.word(segment) {
            0 => 0,
            word => length(word, self.shift),
        }
    }

    /// The unit of a segment of this kind and tree, and its length; `None` if it is another one.
    #[inline]
    pub(crate) fn unit(&self, segment: u32, kind: SegmentKind, tree: u16) -> Option<(u32, u64)> {
        let word = self.word(segment);
        // Each record that is read asks for this.
        SegmentEntry::is_owned(word, kind, tree).then(|| (entry::unit(word, kind), length(word, self.shift)))
    }

    /// Whether `at` is the start of a block of exactly this class.
    #[inline]
    pub(crate) fn is_block(&self, at: u64, wanted: SegmentEntry) -> bool {
        let Some(segment) = self.holding(at) else { return false };
        let within = self.within(at);
        let unit = u64::from(wanted.unit);
        let word = self.words[segment as usize].load(Ordering::Acquire);
        wanted.is_of(word) && within.is_multiple_of(unit) && within + unit <= length(word, self.shift)
    }

    /// Whether a word lies in a segment that is in use and holds no roots.
    pub(crate) fn holds(&self, at: u64) -> bool {
        let segment = self.holding(at).filter(|&segment| self.within(at) < self.len(segment));
        let kind = segment.and_then(|segment| self.entry(segment)).map(|entry| entry.kind);
        kind.is_some_and(|kind| !matches!(kind, SegmentKind::Free | SegmentKind::Roots))
    }

    /// Segments that are in use, with their entries.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u32, SegmentEntry)> {
        let unused = self.state.lock().unused;
        (0..unused)
            .filter_map(|segment| Some((segment, self.entry(segment)?)))
            .filter(|(_, e)| e.kind != SegmentKind::Free)
    }

    /// The segments of one tree and kind (and unit, unless it is 0), but for those that are idle. They ascend.
    pub(crate) fn owned(&self, tree: u16, kind: SegmentKind, unit: u32) -> Vec<u32> {
        let state = self.state.lock();
        let is_such = |e: SegmentEntry| e.kind == kind && (unit == 0 || e.unit == unit);
        let is_owned = |segment: &u32| self.entry(*segment).is_some_and(is_such);
        let owned = state.owners.owned_by(tree).filter(is_owned).filter(|segment| !state.idle.contains(segment));
        ascending(owned)
    }

    /// The segments of one tree. They ascend.
    pub(crate) fn of_tree(&self, tree: u16) -> Vec<u32> {
        ascending(self.state.lock().owners.owned_by(tree))
    }

    /// The offset of the end of the last segment ever used.
    pub(crate) fn high_water(&self) -> u64 {
        self.start(self.state.lock().unused)
    }

    /// Bytes of the header and of the segments that are in use.
    pub(crate) fn in_use(&self) -> u64 {
        let state = self.state.lock();
        state.used - state.idle.iter().map(|&segment| self.len(segment)).sum::<u64>()
    }

    /// Bytes that may still be assigned to trees.
    pub(crate) fn available(&self) -> u64 {
        self.geometry.capacity.saturating_sub(self.in_use())
    }

    /// Bytes behind the last whole block of each segment that is in use, which nothing can hold.
    pub(crate) fn slack(&self) -> u64 {
        let idle = self.state.lock().idle.clone();
        let is_of_blocks = |kind| matches!(kind, SegmentKind::Leaf | SegmentKind::Inner | SegmentKind::Record);
        let of_blocks = self.used().filter(|(segment, entry)| is_of_blocks(entry.kind) && !idle.contains(segment));
        of_blocks.map(|(segment, entry)| self.len(segment).checked_rem(entry.unit.into()).unwrap_or(0)).sum()
    }

    /// The bytes of the extent that begins with the segment `head`. Only segments that the table really has for it
    /// count, and all but the last must be whole.
    pub(crate) fn extent_bytes(&self, head: u32) -> u64 {
        let mut bytes = 0;
        for segment in self.extent(head) {
            bytes += self.len(segment);
            if self.len(segment) < self.geometry.segment {
                break;
            }
        }
        bytes
    }

    /// The segments of an extent.
    pub(crate) fn extent(&self, head: u32) -> impl Iterator<Item = u32> + '_ {
        let count = self.entry(head).map_or(1, |entry| entry.unit);
        let rest = (head + 1..head.saturating_add(count))
            .take_while(|&segment| self.entry(segment).is_some_and(|entry| entry.kind == SegmentKind::Rest));
        std::iter::once(head).chain(rest)
    }

    /// The number of root entries that there is space for.
    pub(super) fn roots(&self) -> u32 {
        let state = self.state.lock();
        // All but the last one are whole.
        let bytes = state
            .roots
            .last()
            .map_or(0, |&last| (state.roots.len() as u64 - 1) * self.geometry.segment + self.len(last));
        (u64::from(ROOTS_AT_HAND) + bytes / ROOT_BYTES).min(u64::from(NO_TREE)) as u32
    }

    /// The offset of a root entry.
    pub(super) fn root(&self, slot: u16) -> u64 {
        let Some(further) = slot.checked_sub(ROOTS_AT_HAND) else { return self.geometry.root(slot) };
        let at = u64::from(further) * ROOT_BYTES;
        let state = self.state.lock();
        self.start(state.roots[(at >> self.shift) as usize]) + self.within(at)
    }

    /// Whether a word lies in a root entry.
    pub(super) fn is_in_roots(&self, at: u64) -> bool {
        let in_header = self.geometry.root(0)..self.geometry.root(ROOTS_AT_HAND);
        let segment = self.holding(at).filter(|&segment| self.within(at) < self.len(segment));
        let kind = segment.and_then(|segment| self.entry(segment)).map(|entry| entry.kind);
        in_header.contains(&at) || kind == Some(SegmentKind::Roots)
    }

    /// The length of a segment that has room for so many bytes.
    pub(crate) fn length_for(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.geometry.step()).min(self.geometry.segment)
    }

    /// The position of a segment in the list of its class.
    #[inline]
    pub(super) fn position(&self, segment: u32) -> usize {
        self.positions[segment as usize].load(Ordering::Relaxed) as usize
    }

    /// Notes the position of a segment in the list of its class. The caller has locked the class.
    pub(super) fn set_position(&self, segment: u32, position: usize) {
        self.positions[segment as usize].store(position as u64, Ordering::Relaxed);
    }

    /// Calls `visit` with the offset and the length of each part of the pool that is in use: the header, the table with
    /// the 0 that ends it, and the segments. Adjacent segments are one part.
    pub(crate) fn each_part(&self, mut visit: impl FnMut(u64, u64) -> Result<(), Fault>) -> Result<(), Fault> {
        visit(0, HEADER)?;
        let unused = self.state.lock().unused;
        for entries in self.geometry.table(unused.min(self.count() - 1)) {
            visit(entries.start, entries.end - entries.start)?;
        }
        let mut open = 0..0;
        for (segment, _) in self.used() {
            let part = self.start(segment)..self.start(segment) + self.len(segment);
            if open.end == part.start {
                open.end = part.end;
            } else {
                let whole = std::mem::replace(&mut open, part);
                if !whole.is_empty() {
                    visit(whole.start, whole.end - whole.start)?;
                }
            }
        }
        if open.is_empty() { Ok(()) } else { visit(open.start, open.end - open.start) }
    }

    /// Stores the entries of segments, which ascend, such that they become durable in this order (T2). Durable when it
    /// returns.
    fn put_run<M: Medium>(
        &self,
        m: &M,
        state: &mut SegmentsState,
        entries: impl Iterator<Item = (u32, SegmentEntry, u64)>,
    ) {
        let mut open: Option<u64> = None;
        for (segment, entry, len) in entries {
            let at = self.geometry.entry(segment);
            match open {
                Some(last) if last / LINE == at / LINE => m.order(Step::SegmentAssign),
                Some(last) => {
                    m.flush(last, 8, Step::SegmentAssign);
                    m.fence(Step::SegmentAssign);
                }
                None => {}
            }
            self.set_entry(m, state, segment, entry, len);
            open = Some(at);
        }
        if let Some(last) = open {
            m.flush(last, 8, Step::SegmentAssign);
            m.fence(Step::SegmentAssign);
        }
    }

    fn set_entry<M: Medium>(&self, m: &M, state: &mut SegmentsState, segment: u32, entry: SegmentEntry, len: u64) {
        let is_used = |entry: &SegmentEntry| entry.kind != SegmentKind::Free;
        let owner = |entry: Option<SegmentEntry>| entry.filter(is_used).map(|entry| entry.tree);
        state.owners.change(segment, owner(self.entry(segment)), owner(Some(entry)));
        let parts = (len * PoolGeometry::PARTS) >> self.shift;
        let word = entry.encode(parts, segment);
        m.store(self.geometry.entry(segment), word);
        self.words[segment as usize].store(word, Ordering::Release);
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
thread_local!(static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

/// How often this thread has looked at the word of a segment.
#[cfg(all(test, not(bristlecone_loom)))]
pub(crate) fn looks() -> u64 {
    LOOKS.get()
}

fn ascending(segments: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut segments: Vec<u32> = segments.collect();
    segments.sort_unstable();
    segments
}

/// The positions of segments in an ascending list.
pub(crate) struct Places {
    first: u32,
    /// For each segment from the first to the last one of the list: its position plus one, or 0 if it is not in the
    /// list.
    behind: Vec<u32>,
}

impl Places {
    pub(crate) fn new(listed: &[u32]) -> Self {
        let first = listed.first().copied().unwrap_or(0);
        let mut behind = vec![0; listed.last().map_or(0, |&last| (last - first) as usize + 1)];
        (1..).zip(listed).for_each(|(i, &segment)| behind[(segment - first) as usize] = i);
        Self { first, behind }
    }

    /// The position of a segment; `None` if it is not in the list.
    #[inline]
    pub(crate) fn position(&self, segment: u32) -> Option<usize> {
        (self.behind.get(segment.checked_sub(self.first)? as usize)?.checked_sub(1)).map(|place| place as usize)
    }
}
