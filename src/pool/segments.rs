//! The segment table: the only persistent allocation metadata.
//!
//! The word of an entry, the invariants T1 to T5 and the steps P1 to P9 are in `docs/space.md`.

use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{Hint, LINE, Medium, Step};
use crate::memory::Zeroed;
use crate::pool::format::{Geometry, HEADER, ROOT_BYTES, ROOTS_AT_HAND};
use crate::pool::roots::NO_TREE;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::version;
use std::collections::VecDeque;
use std::io;

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
    fn of(number: u8) -> Option<Self> {
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
const LENGTH: u64 = (Geometry::PARTS - 1) << LENGTH_AT;
const CHECK_AT: u32 = 13;
const CHECK: u64 = 0xff << CHECK_AT;
const TREE_AT: u32 = 21;
const UNIT_AT: u32 = 37;

impl SegmentEntry {
    pub(crate) fn new(kind: SegmentKind, tree: u16, unit: u32) -> Self {
        Self { kind, tree, unit }
    }

    /// The word without its check bits, and without a length.
    #[inline]
    fn bare(self) -> u64 {
        self.kind as u64 | u64::from(self.tree) << TREE_AT | u64::from(self.unit / self.kind.scale()) << UNIT_AT
    }

    /// The word for a segment of which so many parts are in use.
    fn encode(self, parts: u64, segment: u32) -> u64 {
        let word = self.bare() | (parts - 1) << LENGTH_AT;
        word | check(word, segment) << CHECK_AT
    }

    fn decode(word: u64, segment: u32) -> Option<Self> {
        if (word & CHECK) >> CHECK_AT != check(word & !CHECK, segment) {
            return None;
        }
        let kind = SegmentKind::of((word & KIND) as u8)?;
        Some(Self { kind, tree: (word >> TREE_AT) as u16, unit: (word >> UNIT_AT) as u32 * kind.scale() })
    }
}

/// Eight bits that depend on all other bits and on the number of the segment.
fn check(word: u64, segment: u32) -> u64 {
    (word ^ u64::from(segment)).wrapping_add(0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56
}

/// This many segments may be idle. A few, so that a class whose last block comes and goes does not go to the file
/// system each time.
const IDLE: usize = 4;

/// The table, with a copy in DRAM of the part that is in use.
pub(crate) struct Segments {
    geometry: Geometry,
    shift: u32,
    /// Entry words as validated at the open and as assigned since. There is one for each segment that the medium may
    /// come to hold, which only costs address space.
    words: Zeroed<AtomicU64>,
    /// For each segment of a class, its position in the list of the class, whose lock guards it.
    positions: Zeroed<AtomicU64>,
    state: Mutex<State>,
}

struct State {
    /// Segments from this one on were never used.
    unused: u32,
    /// Segments that were used once and are free now. They descend, so that the lowest is popped first.
    free: Vec<u32>,
    /// Segments whose entries say what they were, and of which nobody has a block; the one that is idle for longest first.
    idle: VecDeque<u32>,
    /// The segments of roots, in their order.
    roots: Vec<u32>,
    /// Bytes of the header, and of the segments that are not free.
    used: u64,
}

impl State {
    fn add_free(&mut self, segments: &[u32]) {
        self.free.extend(segments);
        self.free.sort_unstable_by(|a, b| b.cmp(a));
        self.free.dedup();
    }
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
    pub(crate) fn open<M: Medium>(m: &M, geometry: Geometry) -> Result<Self, Fault> {
        let shift = geometry.segment.trailing_zeros();
        // The words of more would themselves take many addresses.
        const MANY: u64 = 1 << 20;
        let most = MANY.max((m.accessible() >> shift) * 2);
        // The last one may not be whole, in a file that is too short.
        let count = m.facts().len.div_ceil(geometry.segment).min(most).min(u32::MAX.into()) as usize;
        let zeroed = || Zeroed::<AtomicU64>::new(count).map_err(Fault::address_space);
        let state = State { unused: 0, free: Vec::new(), idle: VecDeque::new(), roots: Vec::new(), used: HEADER };
        let mut segments = Self { geometry, shift, words: zeroed()?, positions: zeroed()?, state: Mutex::new(state) };
        segments.read(m)?;
        Ok(segments)
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
                state.free.push(segment);
            } else {
                state.used += len;
            }
            if entry.kind == SegmentKind::Roots {
                roots.push((entry.unit, segment, at));
            }
            self.words[segment as usize].store(word, Ordering::Relaxed);
            state.unused = segment + 1;
        }
        if missing > 0 {
            return Err(ErrorKind::Truncated { expected: missing, found: present }.into());
        }
        state.free.reverse();
        roots.sort_unstable();
        if let Some((_, &(.., at))) = (0..).zip(&roots).find(|&(i, &(ordinal, ..))| i != ordinal) {
            return Err(Broken::new(at, "T1: segments of roots that do not follow each other").into());
        }
        state.roots = roots.into_iter().map(|(_, segment, _)| segment).collect();
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
    pub(crate) fn of(&self, at: u64) -> Option<u32> {
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
        let unit = (word >> UNIT_AT) as u32 * kind.scale();
        // The check bits were verified when the entry was read.
        (word & !(CHECK | LENGTH) == SegmentEntry { kind, tree, unit }.bare()).then(|| (unit, length(word, self.shift)))
    }

    /// Whether `at` is the start of a block of exactly this class.
    #[inline]
    pub(crate) fn is_block(&self, at: u64, wanted: SegmentEntry) -> bool {
        let Some(segment) = self.of(at) else { return false };
        let within = self.within(at);
        let unit = u64::from(wanted.unit);
        let word = self.words[segment as usize].load(Ordering::Acquire);
        // The check bits were verified when the entry was read.
        word & !(CHECK | LENGTH) == wanted.bare()
            && within.is_multiple_of(unit)
            && within + unit <= length(word, self.shift)
    }

    /// Whether a word lies in a segment that is in use, but for those of roots.
    pub(crate) fn holds(&self, at: u64) -> bool {
        let segment = self.of(at).filter(|&segment| self.within(at) < self.len(segment));
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

    /// The segments of one tree and kind (and unit, unless it is 0), but for those that are idle.
    pub(crate) fn owned(&self, tree: u16, kind: SegmentKind, unit: u32) -> Vec<u32> {
        let state = self.state.lock();
        let of_tree = |e: &SegmentEntry| e.tree == tree && e.kind == kind && (unit == 0 || e.unit == unit);
        let is_owned = |segment: &u32| self.entry(*segment).is_some_and(|entry| of_tree(&entry));
        (0..state.unused).filter(is_owned).filter(|segment| !state.idle.contains(segment)).collect()
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

    /// The position of a segment in the list of its class.
    #[inline]
    pub(super) fn position(&self, segment: u32) -> usize {
        self.positions[segment as usize].load(Ordering::Relaxed) as usize
    }

    /// Notes the position of a segment in the list of its class. The caller has locked the class.
    pub(super) fn set_position(&self, segment: u32, position: usize) {
        self.positions[segment as usize].store(position as u64, Ordering::Relaxed);
    }

    /// Gives a class more space (P1 to P4): a segment of `wanted` bytes, or less if there is no more, but at least `least`. If
    /// there is `own`, a segment that the class has and that is not whole, it is the one that gets this length.
    pub(crate) fn grow<M: Medium>(
        &self,
        m: &M,
        class: SegmentEntry,
        own: Option<u32>,
        (least, wanted): (u64, u64),
    ) -> Result<Grown, Fault> {
        let mut state = self.state.lock();
        if let Some(place) = state.idle.iter().rposition(|&segment| self.entry(segment) == Some(class)) {
            let segment = state.idle.remove(place).expect("found just now");
            version::announce();
            return Ok(Grown { segment, from: 0, to: self.len(segment), fresh: false });
        }
        let (least, wanted) = (self.length_for(least), self.length_for(wanted));
        let mut grown = self.grow_to(m, &mut state, class, own, wanted);
        if grown.as_ref().is_err_and(Fault::is_out_of_space) && least < wanted {
            grown = self.grow_to(m, &mut state, class, own, least);
        }
        version::announce();
        grown
    }

    fn grow_to<M: Medium>(
        &self,
        m: &M,
        state: &mut State,
        class: SegmentEntry,
        own: Option<u32>,
        to: u64,
    ) -> Result<Grown, Fault> {
        let from = own.map_or(0, |segment| self.len(segment));
        self.make_room(m, state, to - from)?;
        let (segment, fresh) = match own {
            Some(segment) => (segment, false),
            None => self.next(m, state, to)?,
        };
        self.reach(m, segment, 1, to)?;
        let is_whole = to == self.geometry.segment;
        if fresh && is_whole {
            m.hint(self.start(segment), to, Hint::Fresh);
        }
        self.reserve(m, state, self.start(segment) + from, to - from)?;
        if own.is_none() {
            self.claim(state, segment);
        }
        // From the half on, one page for the whole segment takes less time than the rest of the small ones. It takes more
        // space, too, but the class is likely to need that.
        let half = self.geometry.segment / 2;
        if own.is_some() && (is_whole || from < half && half <= to) {
            m.hint(self.start(segment), self.geometry.segment, Hint::Whole);
        }
        self.put(m, segment, class, to);
        m.flush(self.geometry.entry(segment), 8, Step::SegmentAssign);
        // The fence is for other threads that may take and commit blocks of the segment: their own fences do not wait for
        // this flush.
        m.fence(Step::SegmentAssign);
        state.used += to - from;
        Ok(Grown { segment, from, to, fresh })
    }

    /// A segment that is free, and whether it was never used. It stays free until it is [claimed](Self::claim).
    fn next<M: Medium>(&self, m: &M, state: &mut State, wanted: u64) -> Result<(u32, bool), Fault> {
        if state.free.is_empty() && self.assignable(state.unused) >= self.count() {
            let idle: Vec<u32> = state.idle.drain(..).collect();
            self.free(m, state, idle);
        }
        match state.free.last() {
            Some(&segment) => Ok((segment, false)),
            None => Ok((self.unused_run(m, state, 1, wanted)?, true)),
        }
    }

    /// The first of `count` adjacent segments that were never used, behind which the table is readable (T4).
    fn unused_run<M: Medium>(&self, m: &M, state: &State, count: u32, wanted: u64) -> Result<u32, Fault> {
        const PAGE: u64 = 4096;
        let mut first = self.assignable(state.unused);
        // A run does not reach over a part of the table.
        while let Some(header) = (first..first.saturating_add(count)).find(|&segment| self.geometry.is_header(segment))
        {
            first = self.assignable(header);
        }
        if u64::from(first) + u64::from(count) > self.words.len() as u64 {
            return Err(self.out_of_reach(wanted));
        }
        let next = self.assignable(first + count);
        let page = self.geometry.entry(next) / PAGE * PAGE;
        let known = self.geometry.entry(self.assignable(state.unused)) / PAGE * PAGE;
        if next < self.count() && page != known {
            // There may be several pages between them.
            let pages = (state.unused..=next).filter(|&segment| !self.geometry.is_header(segment));
            let mut pages: Vec<u64> = pages.map(|segment| self.geometry.entry(segment) / PAGE * PAGE).collect();
            pages.dedup();
            for page in pages.into_iter().filter(|&page| page >= HEADER) {
                m.reserve(page, PAGE.min(m.facts().len - page))
                    .map_err(Fault::space(wanted, self.geometry.capacity))?;
            }
        }
        Ok(first)
    }

    /// The first segment from this one on that can be assigned.
    fn assignable(&self, from: u32) -> u32 {
        (from..u32::MAX).find(|&segment| !self.geometry.is_header(segment)).unwrap_or(u32::MAX)
    }

    /// Takes a segment out of those that are free, or that were never used.
    fn claim(&self, state: &mut State, segment: u32) {
        match state.free.binary_search_by(|other| segment.cmp(other)) {
            Ok(place) => drop(state.free.remove(place)),
            Err(_) => state.unused = segment + 1,
        }
    }

    /// Frees idle segments until so many bytes more may be in use.
    fn make_room<M: Medium>(&self, m: &M, state: &mut State, bytes: u64) -> Result<(), Fault> {
        while state.used + bytes > self.geometry.capacity {
            let Some(oldest) = state.idle.pop_front() else { return Err(self.out_of_space(bytes)) };
            self.free(m, state, vec![oldest]);
        }
        Ok(())
    }

    /// Reserves space. If the disk is full, idle segments go first.
    fn reserve<M: Medium>(&self, m: &M, state: &mut State, at: u64, len: u64) -> Result<(), Fault> {
        let reserve = || m.reserve(at, len).map_err(Fault::space(len, self.geometry.capacity));
        match reserve() {
            Err(fault) if fault.is_out_of_space() && !state.idle.is_empty() => {
                let idle: Vec<u32> = state.idle.drain(..).collect();
                self.free(m, state, idle);
                reserve()
            }
            result => result,
        }
    }

    /// Makes segments accessible, whole, although only a part of them may take space: a late reader may look anywhere in a
    /// segment that was given back.
    fn reach<M: Medium>(&self, m: &M, first: u32, count: u32, wanted: u64) -> Result<(), Fault> {
        let end = self.start(first + count);
        if end <= m.accessible() {
            return Ok(());
        }
        m.reserve(end, 0).map_err(Fault::space(wanted, self.geometry.capacity))
    }

    #[cold]
    fn out_of_reach(&self, wanted: u64) -> Fault {
        let what = "the addresses that were set aside when the pool was opened are used up; open it again";
        let source = io::Error::new(io::ErrorKind::OutOfMemory, what);
        ErrorKind::OutOfSpace { wanted, capacity: self.geometry.capacity, source: Some(source) }.into()
    }

    #[cold]
    fn out_of_space(&self, wanted: u64) -> Fault {
        ErrorKind::OutOfSpace { wanted, capacity: self.geometry.capacity, source: None }.into()
    }

    /// Assigns adjacent segments with so many bytes to a tree. Returns the first one.
    pub(crate) fn assign_extent<M: Medium>(&self, m: &M, tree: u16, bytes: u64) -> Result<u32, Fault> {
        let size = self.geometry.segment;
        let bytes = bytes.max(8).next_multiple_of(self.geometry.step());
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let count = u32::try_from(bytes.div_ceil(size)).map_err(|_| self.out_of_space(bytes))?;
        let entry = SegmentEntry::new(SegmentKind::Extent, tree, count);
        let is_such = |&segment: &u32| self.entry(segment) == Some(entry) && self.len(segment) >= bytes;
        if count == 1
            && let Some(place) = state.idle.iter().rposition(is_such)
        {
            let segment = state.idle.remove(place).expect("found just now");
            version::announce();
            return Ok(segment);
        }
        self.make_room(m, state, bytes)?;
        let first = match run(&state.free, count) {
            Some(position) => state.free[position + count as usize - 1],
            None => {
                let first = self.unused_run(m, state, count, bytes)?;
                let skipped: Vec<u32> = (state.unused..first).filter(|&s| !self.geometry.is_header(s)).collect();
                let free = SegmentEntry::new(SegmentKind::Free, 0, 0);
                self.put_run(m, skipped.iter().map(|&segment| (segment, free, self.geometry.step())));
                state.unused = first;
                state.add_free(&skipped);
                first
            }
        };
        self.reach(m, first, count, bytes)?;
        self.reserve(m, state, self.start(first), bytes)?;
        (first..first + count).for_each(|segment| self.claim(state, segment));
        let entries = (0..count).map(|i| {
            let entry = if i == 0 { entry } else { SegmentEntry::new(SegmentKind::Rest, tree, 0) };
            (first + i, entry, (bytes - u64::from(i) * size).min(size))
        });
        self.put_run(m, entries);
        state.used += bytes;
        version::announce();
        Ok(first)
    }

    /// The bytes of an extent, of which `head` is the first segment. Only segments that the table really has for it count,
    /// and all but the last must be whole.
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
        let bytes: u64 = state.roots.iter().map(|&segment| self.len(segment)).sum();
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
        let segment = self.of(at).filter(|&segment| self.within(at) < self.len(segment));
        let kind = segment.and_then(|segment| self.entry(segment)).map(|entry| entry.kind);
        in_header.contains(&at) || kind == Some(SegmentKind::Roots)
    }

    /// Makes space for further root entries, which are free. The caller has locked the catalogue.
    pub(super) fn grow_roots<M: Medium>(&self, m: &M) -> Result<(), Fault> {
        let mut state = self.state.lock();
        let own = state.roots.last().copied().filter(|&segment| self.len(segment) < self.geometry.segment);
        let ordinal = state.roots.len() - usize::from(own.is_some());
        let class = SegmentEntry::new(SegmentKind::Roots, NO_TREE, ordinal as u32);
        let from = own.map_or(0, |segment| self.len(segment));
        let to = from + self.geometry.step();
        self.make_room(m, &mut state, to - from)?;
        let segment = match own {
            Some(segment) => segment,
            None => self.next(m, &mut state, to)?.0,
        };
        let at = self.start(segment);
        self.reach(m, segment, 1, to)?;
        self.reserve(m, &mut state, at + from, to - from)?;
        version::announce();
        // Entries that are free say so, before the table says that they are there.
        (at + from..at + to).step_by(8).for_each(|at| m.store(at, 0));
        m.flush(at + from, to - from, Step::RootsClear);
        m.fence(Step::RootsClear);
        if own.is_none() {
            self.claim(&mut state, segment);
            state.roots.push(segment);
        }
        self.put_run(m, std::iter::once((segment, class, to)));
        state.used += to - from;
        Ok(())
    }

    /// The length of a segment that has room for so many bytes.
    pub(crate) fn length_for(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.geometry.step()).min(self.geometry.segment)
    }

    /// Makes a segment of a class shorter: what lies behind this length is free, and no durable word names it (P8, P9).
    pub(crate) fn shorten<M: Medium>(&self, m: &M, class: SegmentEntry, segment: u32, to: u64) {
        let mut state = self.state.lock();
        let from = self.len(segment);
        if to >= from {
            return;
        }
        self.put(m, segment, class, to);
        m.flush(self.geometry.entry(segment), 8, Step::SegmentShorten);
        // Only then may the space go (T5).
        m.fence(Step::SegmentShorten);
        state.used -= from - to;
        punch(m, self.start(segment) + to, self.geometry.segment - to);
    }

    /// Takes over a segment of which nobody has a block any more, and no durable word names one (P5).
    pub(crate) fn retire<M: Medium>(&self, m: &M, segment: u32) {
        self.rest(m, &mut self.state.lock(), segment);
    }

    /// Lets a segment be idle. The one that is idle for longest goes if there are too many.
    fn rest<M: Medium>(&self, m: &M, state: &mut State, segment: u32) {
        state.idle.push_back(segment);
        if state.idle.len() > IDLE
            && let Some(oldest) = state.idle.pop_front()
        {
            self.free(m, state, vec![oldest]);
        }
    }

    /// Takes over the segments of an extent to which nothing refers any more, if it still is the tree's.
    ///
    /// In a damaged pool, two threads may give back the same extent, and by the second time it may be idle, or another
    /// tree's. So all of this is under one lock, under which segments are assigned, too.
    pub(crate) fn retire_extent<M: Medium>(&self, m: &M, head: u32, tree: u16) {
        let mut state = self.state.lock();
        match self.entry(head) {
            Some(SegmentEntry { kind: SegmentKind::Extent, tree: owner, unit: 1 }) if owner == tree => {
                if !state.idle.contains(&head) {
                    self.rest(m, &mut state, head);
                }
            }
            _ => self.release_of(m, &mut state, self.extent(head), |entry| entry.tree == tree),
        }
    }

    /// Frees those of these segments whose entries say, according to `is_own`, that they are the caller's. Nothing may
    /// refer to them any more.
    pub(crate) fn release<M: Medium>(
        &self,
        m: &M,
        segments: impl IntoIterator<Item = u32>,
        is_own: impl Fn(&SegmentEntry) -> bool,
    ) {
        self.release_of(m, &mut self.state.lock(), segments, is_own);
    }

    fn release_of<M: Medium>(
        &self,
        m: &M,
        state: &mut State,
        segments: impl IntoIterator<Item = u32>,
        is_own: impl Fn(&SegmentEntry) -> bool,
    ) {
        let own =
            |&segment: &u32| self.entry(segment).is_some_and(|entry| entry.kind != SegmentKind::Free && is_own(&entry));
        let released: Vec<u32> = segments.into_iter().filter(own).collect();
        if !released.is_empty() {
            state.idle.retain(|segment| !released.contains(segment));
            self.free(m, state, released);
        }
    }

    /// Frees the idle segments of a tree.
    pub(crate) fn release_idle<M: Medium>(&self, m: &M, tree: u16) {
        let mut state = self.state.lock();
        let is_own = |segment: &u32| self.entry(*segment).is_some_and(|entry| entry.tree == tree);
        let own: Vec<u32> = state.idle.iter().copied().filter(is_own).collect();
        state.idle.retain(|segment| !own.contains(segment));
        self.free(m, &mut state, own);
    }

    /// Frees segments that are in no list, durably, and gives their space to the file system (P6, P7).
    fn free<M: Medium>(&self, m: &M, state: &mut State, mut segments: Vec<u32>) {
        if segments.is_empty() {
            return;
        }
        segments.sort_unstable();
        segments.dedup();
        let lengths: Vec<u64> = segments.iter().map(|&segment| self.len(segment)).collect();
        let free = SegmentEntry::new(SegmentKind::Free, 0, 0);
        segments.iter().for_each(|&segment| self.put(m, segment, free, self.geometry.step()));
        let same_line = |&a: &u32, &b: &u32| self.geometry.entry(a) / LINE == self.geometry.entry(b) / LINE;
        for line in segments.chunk_by(same_line) {
            m.flush(self.geometry.entry(line[0]), 8, Step::SegmentRelease);
        }
        // This must not be later: after an orderly close there is no walk, and the slot of a dropped tree may become
        // another's. Only then may the space go (T5).
        m.fence(Step::SegmentRelease);
        for (&segment, len) in segments.iter().zip(lengths) {
            state.used -= len;
            // Whole: a file system may have put space behind the length, with a page that is larger than others.
            punch(m, self.start(segment), self.geometry.segment);
        }
        state.add_free(&segments);
    }

    /// Cuts off the free segments at the end of the pool (S2, S3). No tree is open, and none is opened meanwhile.
    pub(crate) fn cut<M: Medium>(&self, m: &M) -> io::Result<()> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let idle: Vec<u32> = state.idle.drain(..).collect();
        self.free(m, state, idle);
        let is_used = |segment: &u32| self.entry(*segment).is_some_and(|entry| entry.kind != SegmentKind::Free);
        let keep = (0..state.unused).rev().find(is_used).map_or(0, |last| last + 1);
        // What stays of the table has a 0 at its end, and the page of that (T4).
        m.truncate(self.start(self.assignable(keep)))?;
        // Crash: entries of free segments, some of which lie beyond the end of the file.
        let mut open: Option<u64> = None;
        for segment in (keep..state.unused).rev().filter(|&segment| !self.geometry.is_header(segment)) {
            self.words[segment as usize].store(0, Ordering::Release);
            let at = self.geometry.entry(segment);
            if at + 8 > m.accessible() {
                // It was cut off, too.
                continue;
            }
            match open {
                Some(last) if last / LINE == at / LINE => m.order(Step::SegmentCut),
                Some(last) => {
                    m.flush(last, 8, Step::SegmentCut);
                    m.fence(Step::SegmentCut);
                }
                None => {}
            }
            m.store(at, 0);
            open = Some(at);
        }
        if let Some(last) = open {
            m.flush(last, 8, Step::SegmentCut);
            m.fence(Step::SegmentCut);
        }
        state.unused = keep;
        state.free.retain(|&segment| segment < keep);
        Ok(())
    }

    /// Gives the space of free segments to the file system, which a crash may have kept (P7).
    pub(crate) fn punch_free<M: Medium>(&self, m: &M) {
        let state = self.state.lock();
        let is_there = |segment: &&u32| self.start(**segment + 1) <= m.accessible();
        state.free.iter().filter(is_there).for_each(|&segment| punch(m, self.start(segment), self.geometry.segment));
    }

    /// Calls `visit` with the offset and the length of each part of the pool that is in use: the header, the table with the
    /// 0 that ends it, and the segments. Adjacent segments are one part.
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
    fn put_run<M: Medium>(&self, m: &M, entries: impl Iterator<Item = (u32, SegmentEntry, u64)>) {
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
            self.put(m, segment, entry, len);
            open = Some(at);
        }
        if let Some(last) = open {
            m.flush(last, 8, Step::SegmentAssign);
            m.fence(Step::SegmentAssign);
        }
    }

    fn put<M: Medium>(&self, m: &M, segment: u32, entry: SegmentEntry, len: u64) {
        let parts = (len * Geometry::PARTS) >> self.shift;
        let word = entry.encode(parts, segment);
        m.store(self.geometry.entry(segment), word);
        self.words[segment as usize].store(word, Ordering::Release);
    }
}

/// The bytes of a segment that are in use, of which there are `1 << shift`.
#[inline]
fn length(word: u64, shift: u32) -> u64 {
    ((word & LENGTH) >> LENGTH_AT).wrapping_add(1) << (shift - Geometry::PARTS.trailing_zeros())
}

/// Gives space to the file system. If that cannot be, it is free all the same.
fn punch<M: Medium>(m: &M, at: u64, len: u64) {
    let _ = m.release(at, len);
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

    const SIZE: u64 = 4096;
    /// The first segment behind the header.
    const FIRST: u32 = (HEADER / SIZE) as u32;
    const LEAF: SegmentEntry = SegmentEntry { kind: SegmentKind::Leaf, tree: 3, unit: 128 };

    /// An empty table, with the space for so many segments.
    fn table(count: u64) -> (Dram, Segments) {
        let geometry = Geometry { segment: SIZE, capacity: HEADER + count * SIZE };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        (m, segments)
    }

    fn whole<M: Medium>(m: &M, segments: &Segments, class: SegmentEntry) -> u32 {
        segments.grow(m, class, None, (SIZE, SIZE)).unwrap().segment
    }

    #[test]
    fn a_table_is_read_back_as_it_was_left() {
        let (m, segments) = table(8);
        assert_eq!(
            segments.grow(&m, LEAF, None, (128, 128)).unwrap(),
            Grown { segment: FIRST, from: 0, to: SIZE / 2, fresh: true }
        );
        assert_eq!(segments.assign_extent(&m, 3, 2 * SIZE + 8).unwrap(), FIRST + 1);
        assert_eq!(whole(&m, &segments, LEAF), FIRST + 4);
        assert_eq!(segments.in_use(), HEADER + SIZE / 2 + 2 * SIZE + SIZE / 2 + SIZE);
        segments.release(&m, FIRST + 1..FIRST + 4, |entry| entry.tree == 3);
        let again = Segments::open(&m, segments.geometry).unwrap();
        assert_eq!(again.in_use(), segments.in_use());
        assert_eq!(again.owned(3, SegmentKind::Leaf, 128), [FIRST, FIRST + 4]);
        assert_eq!(again.assign_extent(&m, 1, 2 * SIZE).unwrap(), FIRST + 1);
        assert_eq!(whole(&m, &again, LEAF), FIRST + 3);
        let at = again.start(FIRST);
        assert!(again.is_block(at + SIZE / 2 - 128, LEAF));
        assert!(!again.is_block(at + SIZE / 2, LEAF), "behind the part that is in use");
        assert!(!again.is_block(at + 64, LEAF));
        assert!(!again.is_block(again.start(FIRST + 1), LEAF));
        assert!(!again.is_block(12, LEAF));
        assert!(!again.is_block(u64::MAX, LEAF));
        assert!(
            again.grow(&m, LEAF, Some(FIRST), (SIZE / 2 + 128, SIZE / 2 + 128)).is_ok_and(|grown| grown.to == SIZE)
        );
        assert!(again.is_block(at + SIZE / 2, LEAF));
    }

    #[test]
    fn what_is_idle_is_used_again_without_a_store_or_goes_to_others() {
        let (m, segments) = table(3);
        let other = SegmentEntry { tree: 4, ..LEAF };
        let own: Vec<u32> = (0..3).map(|_| whole(&m, &segments, LEAF)).collect();
        own[..2].iter().for_each(|&segment| segments.retire(&m, segment));
        let before = m.words();
        assert_eq!(segments.available(), 2 * SIZE);
        assert_eq!(segments.owned(3, SegmentKind::Leaf, 128), own[2..]);
        assert_eq!(whole(&m, &segments, LEAF), own[1]);
        assert_eq!(m.words(), before);
        assert_eq!(whole(&m, &segments, other), own[0]);
        assert_eq!(segments.entry(own[0]), Some(other));
        let full = segments.grow(&m, LEAF, None, (128, 128));
        assert!(full.is_err_and(|fault| fault.is_out_of_space()));
    }

    #[test]
    fn only_a_few_segments_are_idle() {
        let (m, segments) = table(20);
        let own: Vec<u32> = (0..20).map(|_| whole(&m, &segments, LEAF)).collect();
        own.iter().for_each(|&segment| segments.retire(&m, segment));
        let is_free = |&&segment: &&u32| segments.entry(segment).unwrap().kind == SegmentKind::Free;
        assert_eq!(own.iter().filter(is_free).count(), own.len() - IDLE);
        segments.release_idle(&m, 4);
        assert_eq!(own.iter().filter(is_free).count(), own.len() - IDLE);
        segments.release_idle(&m, 3);
        assert_eq!(own.iter().filter(is_free).count(), own.len());
        assert_eq!(segments.in_use(), HEADER);
    }

    #[test]
    fn an_extent_that_is_given_back_twice_is_idle_once() {
        let (m, segments) = table(8);
        let head = segments.assign_extent(&m, 1, SIZE).unwrap();
        (0..3).for_each(|_| segments.retire_extent(&m, head, 1));
        segments.retire_extent(&m, head, 2);
        assert_eq!(segments.in_use(), HEADER);
        assert_eq!(segments.assign_extent(&m, 1, SIZE).unwrap(), head);
        assert_eq!(segments.assign_extent(&m, 1, SIZE).unwrap(), head + 1);
        segments.retire_extent(&m, head, 1);
        segments.release_idle(&m, 1);
        assert_eq!(whole(&m, &segments, LEAF), head);
        segments.retire_extent(&m, head, 1);
        assert_eq!(segments.entry(head), Some(LEAF));
    }

    #[test]
    fn only_what_is_its_own_does_a_tree_give_back() {
        let (m, segments) = table(8);
        let give_back = |tree| segments.release(&m, [FIRST, FIRST + 1, FIRST + 7], |entry| entry.tree == tree);
        segments.assign_extent(&m, 1, 2 * SIZE).unwrap();
        give_back(1);
        assert_eq!(whole(&m, &segments, LEAF), FIRST);
        let before = (m.words(), segments.available());
        // Give back again, when one segment is another tree's, one is free, and one was never used.
        give_back(1);
        give_back(0);
        assert_eq!(before, (m.words(), segments.available()));
        assert_eq!(segments.entry(FIRST), Some(LEAF));
    }

    #[test]
    fn full_is_an_error_that_changes_nothing() {
        let (m, segments) = table(8);
        for _ in 0..7 {
            whole(&m, &segments, LEAF);
        }
        let before = m.words();
        assert!(segments.assign_extent(&m, 3, SIZE + 8).is_err_and(|fault| fault.is_out_of_space()));
        assert_eq!(before, m.words());
        // Less than is wanted is better than nothing.
        assert!(segments.grow(&m, LEAF, None, (128, SIZE)).is_ok());
        segments.assign_extent(&m, 3, 8).unwrap_err();
    }

    /// Promise 4 of the media makes the entries of a line durable in the order of the stores.
    #[test]
    fn the_entries_of_a_long_extent_become_durable_line_by_line() {
        let geometry = Geometry { segment: 1024, capacity: 1 << 20 };
        let m = Counted::new(Dram::zeroed(geometry.capacity));
        let segments = Segments::open(&m, geometry).unwrap();
        let before = m.counts();
        // The header takes 16 segments.
        assert_eq!(segments.assign_extent(&m, 0, 20 * 1024).unwrap(), 16);
        let counts = m.counts() - before;
        assert_eq!((counts.lines, counts.fences), (3, 3));
        // A cut between two of them.
        (24..36).for_each(|segment| m.store(geometry.entry(segment), 0));
        let again = Segments::open(&m, geometry).unwrap();
        assert_eq!(again.used().count(), 8);
        assert_eq!(again.extent(16).count(), 8);
    }

    #[test]
    fn runs_do_not_reach_over_parts_of_the_table() {
        let geometry = Geometry { segment: 1024, capacity: 4 << 20 };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        let class = SegmentEntry { unit: 64, ..LEAF };
        while segments.high_water() < 500 << 10 {
            segments.grow(&m, class, None, (1024, 1024)).unwrap();
        }
        // 512 to 515 hold the entries of the next group.
        assert_eq!(segments.assign_extent(&m, 5, 14 << 10).unwrap(), 516);
        let used = segments.in_use();
        let again = Segments::open(&m, geometry).unwrap();
        assert_eq!(again.in_use(), used);
        assert_eq!(again.extent(516).count(), 14);
        // What was left out is free.
        assert_eq!(again.grow(&m, class, None, (1024, 1024)).unwrap().segment, 500);
        let mut parts = Vec::new();
        let collect = |at, len| {
            parts.push(at..at + len);
            Ok(())
        };
        again.each_part(collect).unwrap();
        let of_table = geometry.entry(512)..geometry.entry(530) + 8;
        assert!(parts.contains(&of_table), "{parts:?}");
    }

    #[test]
    fn an_extent_has_no_more_than_the_segments_that_follow_it() {
        let pool = Pool::options().segment_size(4096).create_on(zeroed(1 << 20)).unwrap();
        let PoolState { segments, medium, .. } = &*pool.state;
        let head = segments.assign_extent(medium, 0, 8192).unwrap();
        let words = |words| pool.state.read_extent(0, segments.start(head), words).map(|words| words.len());
        assert_eq!([words(1024), words(1025)], [Some(1024), None]);
        // The entry claims more segments than the table has.
        segments.put(medium, head, SegmentEntry::new(SegmentKind::Extent, 0, 100), SIZE);
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
        let (m, segments) = table(8);
        let at = segments.geometry.entry(whole(&m, &segments, LEAF));
        for bit in 0..64 {
            let word = m.load(at);
            m.store(at, word ^ 1 << bit);
            let error = Segments::open(&m, segments.geometry).err();
            assert!(
                error.is_none_or(|error| matches!(error.kind(), ErrorKind::Corrupt { at: found, .. } if *found == at))
            );
            m.store(at, word);
        }
        m.store(at, m.load(at) ^ 1 << (CHECK_AT + 2));
        assert!(Segments::open(&m, segments.geometry).is_err());
    }
}
