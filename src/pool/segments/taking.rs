//! Taking space: for classes, extents and root entries (P1 to P4).

use super::{Grown, NO_TREE, SegmentEntry, SegmentKind, Segments, SegmentsState};
use crate::error::{ErrorKind, Fault};
use crate::medium::{Hint, Medium, Step};
use crate::pool::format::HEADER;
use crate::sync::version;
use std::collections::BTreeSet;
use std::io;

impl Segments {
    /// Gives a class more space (P1 to P4): a segment of `wanted` bytes, or less if there is no more, but at least
    /// `least`. If there is `own`, a segment that the class has and that is not whole, it is the one that gets this
    /// length.
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
        state: &mut SegmentsState,
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
        // From the half on, one page for the whole segment takes less time than the rest of the small ones. It takes
        // more space, too, but the class is likely to need that.
        let half = self.geometry.segment / 2;
        let is_large = is_whole || from < half && half <= to;
        if own.is_some() && is_large && state.collapsed != Some(segment) {
            m.hint(self.start(segment), self.geometry.segment, Hint::Whole);
            state.collapsed = Some(segment);
        }
        self.set_entry(m, state, segment, class, to);
        m.flush(self.geometry.entry(segment), 8, Step::SegmentAssign);
        // The fence is for other threads that may take and commit blocks of the segment: their own fences do not wait
        // for this flush.
        m.fence(Step::SegmentAssign);
        state.used += to - from;
        Ok(Grown { segment, from, to, fresh })
    }

    /// A segment that is free, and whether it was never used. It stays free until it is [claimed](Self::claim).
    fn next<M: Medium>(&self, m: &M, state: &mut SegmentsState, wanted: u64) -> Result<(u32, bool), Fault> {
        if state.free.is_empty() && self.assignable(state.unused) >= self.count() {
            let idle: Vec<u32> = state.idle.drain(..).collect();
            self.free(m, state, idle);
        }
        match state.free.first() {
            Some(&segment) => Ok((segment, false)),
            None => Ok((self.unused_run(m, state, 1, wanted)?, true)),
        }
    }

    /// The first of `count` adjacent segments that were never used, behind which the table is readable (T4).
    fn unused_run<M: Medium>(&self, m: &M, state: &SegmentsState, count: u32, wanted: u64) -> Result<u32, Fault> {
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
    pub(super) fn assignable(&self, from: u32) -> u32 {
        (from..u32::MAX).find(|&segment| !self.geometry.is_header(segment)).unwrap_or(u32::MAX)
    }

    /// Takes a segment out of those that are free, or that were never used.
    fn claim(&self, state: &mut SegmentsState, segment: u32) {
        if !state.free.remove(&segment) {
            state.unused = segment + 1;
        }
    }

    /// Frees idle segments until so many bytes more may be in use.
    fn make_room<M: Medium>(&self, m: &M, state: &mut SegmentsState, bytes: u64) -> Result<(), Fault> {
        while state.used + bytes > self.geometry.capacity {
            let Some(oldest) = state.idle.pop_front() else { return Err(self.out_of_space(bytes)) };
            self.free(m, state, vec![oldest]);
        }
        Ok(())
    }

    /// Reserves space. If the disk is full, idle segments go first.
    fn reserve<M: Medium>(&self, m: &M, state: &mut SegmentsState, at: u64, len: u64) -> Result<(), Fault> {
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

    /// Makes segments accessible, whole, although only a part of them may take space: a late reader may look anywhere
    /// in a segment that was given back.
    fn reach<M: Medium>(&self, m: &M, first: u32, count: u32, wanted: u64) -> Result<(), Fault> {
        let end = self.start(first + count);
        if end <= m.accessible() {
            return Ok(());
        }
        m.reserve(end, 0).map_err(Fault::space(wanted, self.geometry.capacity))
    }

    #[cold]
    fn out_of_reach(&self, wanted: u64) -> Fault {
        let what = "the pool has as many segments as it may have while it is open; open it again";
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
        let mut place = run(&state.free, count);
        if place.is_none() && !state.idle.is_empty() && self.unused_run(m, state, count, bytes).is_err() {
            let idle: Vec<u32> = state.idle.drain(..).collect();
            self.free(m, state, idle);
            place = run(&state.free, count);
        }
        let first = match place {
            Some(first) => first,
            None => {
                let first = self.unused_run(m, state, count, bytes)?;
                let skipped: Vec<u32> = (state.unused..first).filter(|&s| !self.geometry.is_header(s)).collect();
                let free = SegmentEntry::new(SegmentKind::Free, 0, 0);
                self.put_run(m, state, skipped.iter().map(|&segment| (segment, free, self.geometry.step())));
                state.unused = first;
                state.free.extend(skipped);
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
        self.put_run(m, state, entries);
        state.used += bytes;
        version::announce();
        Ok(first)
    }

    /// Makes space for further root entries, which are free. The caller has locked the catalogue.
    pub(in crate::pool) fn grow_roots<M: Medium>(&self, m: &M) -> Result<(), Fault> {
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
        self.put_run(m, &mut state, std::iter::once((segment, class, to)));
        state.used += to - from;
        Ok(())
    }
}

/// The first of the lowest `count` adjacent free segments.
fn run(free: &BTreeSet<u32>, count: u32) -> Option<u32> {
    let mut run = 0..0;
    for &segment in free {
        run = if segment == run.end { run.start..segment + 1 } else { segment..segment + 1 };
        if run.end - run.start == count {
            return Some(run.start);
        }
    }
    None
}
