//! Giving space back (P5 to P9), and cutting off the end (S2, S3).

use super::{SegmentEntry, SegmentKind, Segments, SegmentsState};
use crate::medium::{LINE, Medium, Step};
use crate::sync::Ordering;
use std::io;

/// This many segments may be idle. A few, so that a class whose last block comes and goes does not go to the file
/// system each time.
pub(super) const IDLE: usize = 4;

impl Segments {
    /// Makes a segment of a class shorter: what lies behind this length is free, and no durable word names it (P8, P9).
    pub(crate) fn shorten<M: Medium>(&self, m: &M, class: SegmentEntry, segment: u32, to: u64) {
        let mut state = self.state.lock();
        let from = self.len(segment);
        if to >= from {
            return;
        }
        self.set_entry(m, &mut state, segment, class, to);
        m.flush(self.geometry.entry(segment), 8, Step::SegmentShorten);
        // Only then may the space go (T5).
        m.fence(Step::SegmentShorten);
        state.used -= from - to;
        state.collapsed.take_if(|collapsed| *collapsed == segment);
        punch(m, self.start(segment) + to, self.geometry.segment - to);
    }

    /// Takes over a segment in which nobody has a block any more, and no durable word names a block (P5).
    pub(crate) fn retire<M: Medium>(&self, m: &M, segment: u32) {
        self.rest(m, &mut self.state.lock(), segment);
    }

    /// Lets a segment be idle. The one that is idle for longest goes if there are too many.
    fn rest<M: Medium>(&self, m: &M, state: &mut SegmentsState, segment: u32) {
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

    /// Frees each of these segments whose entry says, according to `is_own`, that it is the caller's. Nothing may refer
    /// to them any more.
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
        state: &mut SegmentsState,
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
    pub(super) fn free<M: Medium>(&self, m: &M, state: &mut SegmentsState, mut segments: Vec<u32>) {
        if segments.is_empty() {
            return;
        }
        segments.sort_unstable();
        segments.dedup();
        let lengths: Vec<u64> = segments.iter().map(|&segment| self.len(segment)).collect();
        let free = SegmentEntry::new(SegmentKind::Free, 0, 0);
        segments.iter().for_each(|&segment| self.set_entry(m, state, segment, free, self.geometry.step()));
        let same_line = |&a: &u32, &b: &u32| self.geometry.entry(a) / LINE == self.geometry.entry(b) / LINE;
        for line in segments.chunk_by(same_line) {
            m.flush(self.geometry.entry(line[0]), 8, Step::SegmentRelease);
        }
        // This must not be later: after an orderly close there is no walk, and the slot of a dropped tree may become
        // another's. Only then may the space go (T5).
        m.fence(Step::SegmentRelease);
        for (&segment, len) in segments.iter().zip(lengths) {
            state.used -= len;
            state.collapsed.take_if(|collapsed| *collapsed == segment);
            // Whole: a file system may have put space behind the length, with a page that is larger than others.
            punch(m, self.start(segment), self.geometry.segment);
        }
        state.free.extend(segments);
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
        state.free.split_off(&keep);
        Ok(())
    }

    /// Gives the space of free segments to the file system, which a crash may have kept (P7).
    pub(crate) fn punch_free<M: Medium>(&self, m: &M) {
        let state = self.state.lock();
        let is_there = |segment: &&u32| self.start(**segment + 1) <= m.accessible();
        state.free.iter().filter(is_there).for_each(|&segment| punch(m, self.start(segment), self.geometry.segment));
    }
}

/// Gives space to the file system. If that cannot be, it is free all the same.
fn punch<M: Medium>(m: &M, at: u64, len: u64) {
    let _ = m.release(at, len);
}
