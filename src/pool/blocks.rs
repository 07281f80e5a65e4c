//! Blocks of one class. Which of them are free is known in DRAM only, so taking one costs no flush.
//!
//! After a crash, the blocks that a tree reaches are in use and all others are free. Nothing can leak.
//!
//! A class has a bitmap for each of its segments, and remembers a few blocks that were given back last: these are likely
//! to be in a cache. A segment all of whose blocks are free leaves the class (P5).
//!
//! A class of nodes keeps one free block back, from its first segment on, for a node that replaces another one. A
//! removal or an update may have to replace a node even when the disk is full. It replaces one node at a time, because
//! it holds the tree's mutex, and the block of the replaced node refills the reserve. So a class never needs more than
//! one reserved block. No particular block is reserved: the reserve is whichever block is left last.
//!
//! While a tree is compacted, some segments of a class are *closed*, or their ends are (K1): free blocks there count as
//! withheld, not as free. What would fail for want of space opens them again, so that compacting takes nothing from anybody
//! (K-D).

use crate::delay::delay;
use crate::error::Fault;
use crate::medium::Medium;
use crate::pool::segments::{Grown, SegmentEntry, SegmentKind, Segments};
use crate::sync::{Mutex, MutexGuard};

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
    unit: Unit,
    state: Mutex<State>,
}

/// The size of the blocks, in bytes.
#[derive(Clone, Copy)]
struct Unit {
    bytes: u32,
    /// `2^64` divided by it, rounded up. A product with that takes a third of the time of a division, and is exact for
    /// numbers of 32 bits.
    reciprocal: u64,
}

impl Unit {
    fn new(bytes: u32) -> Self {
        Self { bytes, reciprocal: u64::MAX / u64::from(bytes.max(2)) + 1 }
    }

    /// Where a block begins in its segment.
    #[inline]
    fn start(self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.bytes)
    }

    /// The number of the block that begins at an offset in a segment; `None` if none does.
    #[inline]
    fn block_at(self, within: u32) -> Option<u32> {
        let block = ((u128::from(within) * u128::from(self.reciprocal)) >> 64) as u32;
        (block.wrapping_mul(self.bytes) == within).then_some(block)
    }
}

/// The blocks of one segment.
#[derive(Default)]
struct Part {
    segment: u32,
    /// The number of blocks in the part of the segment that is in use.
    blocks: u32,
    /// The number of bits that are set.
    free: u32,
    /// Whether it is among [`State::open`].
    is_open: bool,
    /// If present: what lies from this block on is closed.
    closed: Option<u32>,
    /// The number of closed blocks that are free.
    withheld: u32,
    /// If present: what lies from this block on was never handed out, and holds zeros.
    fresh: Option<u32>,
    /// No word before this one has a bit that is set.
    first: u32,
    /// One for each block: set if it is free.
    bits: Vec<u64>,
}

#[derive(Default)]
struct State {
    parts: Vec<Part>,
    /// Segments that may have free blocks. The last one is used first.
    open: Vec<u32>,
    /// The position of that one among the parts, if it is known. It is forgotten wherever either list changes.
    current: Option<usize>,
    /// Blocks that were given back last. They may be taken by now, or their segment may have left the class.
    at_hand: Vec<u64>,
    /// The number of all blocks, and of those that are free and not closed.
    total: u64,
    free: u64,
    /// The number of closed blocks that are free, and of parts with closed blocks.
    withheld: u64,
    closed: usize,
    /// How many closed parts have become empty.
    emptied: u64,
}

/// How many blocks are remembered.
const AT_HAND: usize = 64;

impl Part {
    fn new(segment: u32, fresh: bool) -> Self {
        Self { segment, fresh: fresh.then_some(0), ..Self::default() }
    }

    /// Takes the first free block, of which there is one. Also tells whether it was never handed out.
    #[inline]
    fn take(&mut self) -> (u32, bool) {
        while self.bits[self.first as usize] == 0 {
            self.first += 1;
        }
        let word = &mut self.bits[self.first as usize];
        let block = self.first * 64 + word.trailing_zeros();
        *word &= *word - 1;
        self.free -= 1;
        let is_fresh = self.fresh.is_some_and(|fresh| block >= fresh);
        if is_fresh {
            self.fresh = Some(block + 1);
        }
        (block, is_fresh)
    }

    /// Takes this block, if it is free.
    #[inline]
    fn take_this(&mut self, block: u32) -> bool {
        let (word, bit) = (&mut self.bits[block as usize / 64], 1 << (block % 64));
        let is_free = *word & bit != 0;
        *word &= !bit;
        self.free -= u32::from(is_free);
        is_free
    }

    /// Gives a block back. False if it was free.
    #[inline]
    fn give(&mut self, block: u32) -> bool {
        let (place, bit) = (block / 64, 1 << (block % 64));
        let word = &mut self.bits[place as usize];
        let is_new = *word & bit == 0;
        *word |= bit;
        self.first = self.first.min(place);
        self.free += u32::from(is_new);
        is_new
    }

    /// Whether a block is closed.
    fn is_closed(&self, block: u32) -> bool {
        self.closed.is_some_and(|from| block >= from)
    }

    /// The number of blocks that may be handed out.
    fn available(&self) -> u32 {
        self.free - self.withheld
    }

    /// How many blocks are free from this one on.
    fn free_from(&self, block: u32) -> u32 {
        let Some((first, rest)) = self.bits.get(block as usize / 64..).and_then(<[u64]>::split_first) else { return 0 };
        (first >> (block % 64)).count_ones() + rest.iter().map(|word| word.count_ones()).sum::<u32>()
    }

    /// Gives up the blocks from this one on, which are free.
    fn shorten(&mut self, blocks: u32) {
        self.bits.truncate(blocks.div_ceil(64) as usize);
        if let Some(last) = self.bits.last_mut().filter(|_| !blocks.is_multiple_of(64)) {
            *last &= (1 << (blocks % 64)) - 1;
        }
        self.free -= self.blocks - blocks;
        self.blocks = blocks;
        self.first = self.first.min(self.bits.len() as u32 - 1);
        // When it gets longer again, there may be something.
        self.fresh = None;
    }

    /// Adds blocks, which are free, until there are so many.
    fn lengthen(&mut self, blocks: u32) {
        self.bits.resize(blocks.div_ceil(64) as usize, 0);
        let whole = self.blocks.next_multiple_of(64).min(blocks)..blocks / 64 * 64;
        let single = (self.blocks..whole.start).chain(whole.end.max(whole.start)..blocks);
        for block in single {
            self.give(block);
        }
        if whole.start < whole.end {
            self.bits[whole.start as usize / 64..whole.end as usize / 64].fill(u64::MAX);
            self.free += whole.end - whole.start;
            self.first = self.first.min(whole.start / 64);
        }
        self.blocks = blocks;
    }
}

impl State {
    /// The part in which a block lies, and the number of the block there; `None` if it is not one of the class.
    #[inline]
    fn find(&mut self, segments: &Segments, at: u64, unit: Unit) -> Option<(&mut Part, u32)> {
        let segment = segments.of(at)?;
        let part = self.parts.get_mut(segments.position(segment)).filter(|part| part.segment == segment)?;
        // Offsets in a segment are 32 bits wide.
        let block = unit.block_at(segments.within(at) as u32)?;
        (block < part.blocks).then_some((part, block))
    }

    /// A free block, if there is one.
    #[inline]
    fn take(&mut self, segments: &Segments, unit: Unit) -> Option<Taken> {
        while let Some(at) = self.at_hand.pop() {
            if self.find(segments, at, unit).is_some_and(|(part, block)| part.take_this(block)) {
                self.free -= 1;
                return Some(Taken { at, zeroed: false });
            }
        }
        loop {
            if let Some(part) = self.current.and_then(|current| self.parts.get_mut(current))
                && part.available() > 0
            {
                self.free -= 1;
                let (block, zeroed) = part.take();
                return Some(Taken { at: segments.start(part.segment) + unit.start(block), zeroed });
            }
            self.find_current(segments)?;
        }
    }

    /// Finds a part that has free blocks. `None` if there is none.
    #[cold]
    fn find_current(&mut self, segments: &Segments) -> Option<()> {
        while let Some(&segment) = self.open.last() {
            let position = segments.position(segment);
            match self.parts.get_mut(position).filter(|part| part.segment == segment) {
                Some(part) if part.available() > 0 => {
                    self.current = Some(position);
                    return Some(());
                }
                Some(part) => part.is_open = false,
                // The segment has left the class.
                None => {}
            }
            self.open.pop();
        }
        self.current = None;
        None
    }

    /// Notes that a part has free blocks.
    #[inline]
    fn open(&mut self, position: usize) {
        let part = &mut self.parts[position];
        if !std::mem::replace(&mut part.is_open, true) {
            self.open.push(part.segment);
            self.current = None;
        }
    }

    fn add(&mut self, segments: &Segments, part: Part) {
        segments.set_position(part.segment, self.parts.len());
        self.total += u64::from(part.blocks);
        self.free += u64::from(part.free);
        self.parts.push(part);
        self.open(self.parts.len() - 1);
    }

    /// Takes a part out of the class.
    fn remove(&mut self, segments: &Segments, position: usize) -> Part {
        self.current = None;
        let part = self.parts.swap_remove(position);
        if let Some(moved) = self.parts.get(position) {
            segments.set_position(moved.segment, position);
        }
        self.total -= u64::from(part.blocks);
        self.closed -= usize::from(part.closed.is_some());
        self.free -= u64::from(part.available());
        self.withheld -= u64::from(part.withheld);
        part
    }

    /// The number of free blocks that would be left without a part.
    fn free_without(&self, part: &Part) -> u64 {
        self.free - u64::from(part.available())
    }

    /// Closes the sparsest parts, as long as the others have room for all that is in use, and for `reserve` blocks; and the
    /// end of the next one. `blocks_for` rounds the number of blocks that a part must have up to one that it can have. Adds
    /// the segments to `victims`.
    fn close_sparse(
        &mut self,
        segments: &Segments,
        (unit, reserve): (Unit, u64),
        blocks_for: impl Fn(u64) -> u32,
        victims: &mut Vec<u32>,
    ) {
        let used = |part: &Part| u64::from(part.blocks - part.free);
        let of_part = |part: &Part| (used(part), u64::from(part.blocks), part.segment);
        // In a damaged pool, a part may be too short for one block.
        let has_blocks = |part: &&Part| part.blocks > 0;
        let mut by_use: Vec<(u64, u64, u32)> = self.parts.iter().filter(has_blocks).map(of_part).collect();
        // The least part of a segment first; of equal ones, the last of the file.
        by_use.sort_unstable_by(|(used, blocks, segment), (other_used, other_blocks, other)| {
            (used * other_blocks).cmp(&(other_used * blocks)).then(other.cmp(segment))
        });
        let needed = self.parts.iter().map(used).sum::<u64>() + reserve;
        let mut kept = self.total;
        for (_, blocks, segment) in by_use {
            // As many of its blocks must stay.
            let stay = (needed + blocks).saturating_sub(kept);
            kept -= blocks;
            let from = if stay == 0 { 0 } else { blocks_for(stay) };
            if u64::from(from) < blocks {
                self.close(segments, segment, from);
                victims.push(segment);
            }
            if stay > 0 {
                break;
            }
        }
        if self.closed > 0 {
            let at_hand = std::mem::take(&mut self.at_hand);
            let is_open = |at: &u64| self.find(segments, *at, unit).is_some_and(|(part, block)| !part.is_closed(block));
            let at_hand = at_hand.into_iter().filter(is_open).collect();
            self.at_hand = at_hand;
        }
    }

    /// Closes the blocks of a part from this one on.
    fn close(&mut self, segments: &Segments, segment: u32, from: u32) {
        let part = &mut self.parts[segments.position(segment)];
        part.closed = Some(from);
        part.withheld = part.free_from(from);
        self.closed += 1;
        self.free -= u64::from(part.withheld);
        self.withheld += u64::from(part.withheld);
    }

    /// Opens all that is closed. False if that gives no free block.
    fn open_again(&mut self) -> bool {
        let has_free = self.withheld > 0;
        for position in 0..self.parts.len() {
            let part = &mut self.parts[position];
            part.withheld = 0;
            if part.closed.take().is_some() && part.free > 0 {
                self.open(position);
            }
        }
        self.free += std::mem::take(&mut self.withheld);
        self.closed = 0;
        has_free
    }
}

impl Blocks {
    /// A class without blocks.
    pub(crate) fn new(class: SegmentEntry) -> Self {
        Self { class, unit: Unit::new(class.unit), state: Mutex::new(State::default()) }
    }

    /// Finds the class's blocks from its segments. The free ones are those for which `used` returns false.
    pub(crate) fn recover(&self, segments: &Segments, mut used: impl FnMut(u64) -> bool) {
        let mut state = self.state.lock();
        *state = State::default();
        // The first segment is used first.
        for segment in segments.owned(self.class.tree, self.class.kind, self.class.unit).into_iter().rev() {
            let mut part = Part::new(segment, false);
            part.blocks = self.blocks_in(segments.len(segment));
            part.bits = vec![0; part.blocks.div_ceil(64) as usize];
            for block in (0..part.blocks).filter(|&block| !used(self.at(segments, segment, block))) {
                part.give(block);
            }
            state.add(segments, part);
        }
    }

    /// Finds the class's blocks from its segments. The free ones are all that are not in `used`.
    pub(crate) fn recover_except(&self, segments: &Segments, used: impl Iterator<Item = u64>) {
        self.recover(segments, |_| false);
        let mut state = self.state.lock();
        for at in used {
            // There may also be blocks of other sizes.
            if state.find(segments, at, self.unit).is_some_and(|(part, block)| part.take_this(block)) {
                state.free -= 1;
            }
        }
    }

    /// Appends what an orderly close knows of the class: its segments, and which of their blocks are free.
    pub(crate) fn record(&self, words: &mut Vec<u64>) {
        let state = self.state.lock();
        words.extend([class_word(self.class), state.parts.len() as u64]);
        for part in &state.parts {
            words.push(u64::from(part.segment) << 32 | u64::from(part.free));
            if part.is_partly_free() {
                words.extend(&part.bits);
            }
        }
    }

    /// Takes over what a [record](Self::record) says. Returns false if it cannot be right: a segment that is not the
    /// class's, or that is missing, or bits that do not fit.
    #[must_use]
    pub(crate) fn restore(&self, segments: &Segments, words: &mut impl Iterator<Item = u64>) -> bool {
        let owned = segments.owned(self.class.tree, self.class.kind, self.class.unit);
        let mut state = self.state.lock();
        *state = State::default();
        if words.next() != Some(class_word(self.class)) || words.next() != Some(owned.len() as u64) {
            return false;
        }
        let mut listed = Vec::with_capacity(owned.len());
        for _ in 0..owned.len() {
            let Some(word) = words.next() else { return false };
            let (segment, free) = ((word >> 32) as u32, word as u32);
            if owned.binary_search(&segment).is_err() {
                return false;
            }
            let mut part = Part::new(segment, false);
            part.blocks = self.blocks_in(segments.len(segment));
            part.free = free;
            let len = part.blocks.div_ceil(64) as usize;
            part.bits = if part.is_partly_free() { words.by_ref().take(len).collect() } else { vec![0; len] };
            if free == part.blocks {
                let blocks = std::mem::take(&mut part.blocks);
                part.free = 0;
                part.lengthen(blocks);
            }
            let set: u32 = part.bits.iter().map(|word| word.count_ones()).sum();
            let beyond = part.bits.last().map_or(0, |&last| last.checked_shr(part.blocks % 64).unwrap_or(0));
            let fits = part.blocks > 0 && part.bits.len() == len && set == free;
            if !fits || !part.blocks.is_multiple_of(64) && beyond != 0 {
                return false;
            }
            listed.push(segment);
            state.add(segments, part);
        }
        listed.sort_unstable();
        listed == owned
    }

    /// The number of blocks in so many bytes from the start of a segment.
    fn blocks_in(&self, bytes: u64) -> u32 {
        (bytes / u64::from(self.class.unit)) as u32
    }

    /// The offset of a block.
    fn at(&self, segments: &Segments, segment: u32, block: u32) -> u64 {
        segments.start(segment) + self.unit.start(block)
    }

    /// The number of free blocks that a class keeps back.
    fn reserve(&self) -> u64 {
        u64::from(self.class.kind != SegmentKind::Record)
    }

    /// A block for the caller alone. In a class of nodes, it never takes the last free one.
    pub(crate) fn take<M: Medium>(&self, m: &M, segments: &Segments) -> Result<Taken, Fault> {
        self.take_but(self.reserve(), m, segments)
    }

    /// A block for the caller alone. The caller must hold the tree's mutex until it has given back another block of the
    /// class in exchange.
    pub(crate) fn take_in_exchange<M: Medium>(&self, m: &M, segments: &Segments) -> Result<Taken, Fault> {
        self.take_but(0, m, segments)
    }

    /// The same, but leaves `reserve` blocks free.
    fn take_but<M: Medium>(&self, reserve: u64, m: &M, segments: &Segments) -> Result<Taken, Fault> {
        delay();
        let mut state = self.state.lock();
        while state.free <= reserve {
            match self.grow(&mut state, m, segments) {
                // What is withheld may be the reserve, which another node has refilled (K-D).
                Err(fault) if !fault.is_out_of_space() || !state.open_again() => return Err(fault),
                _ => {}
            }
        }
        Ok(state.take(segments, self.unit).expect("as many blocks are free as are counted"))
    }

    /// Gets more blocks: a quarter of what the class has, so that little of it is unused; a whole segment, once it has one,
    /// because these are filled in huge pages.
    #[cold]
    fn grow<M: Medium>(&self, state: &mut MutexGuard<'_, State>, m: &M, segments: &Segments) -> Result<(), Fault> {
        let unit = u64::from(self.class.unit);
        let bytes = state.total * unit;
        let more = if bytes < segments.size() { bytes / 4 } else { segments.size() };
        let end = |part: &Part| (u64::from(part.blocks) + 1) * unit;
        let is_short = |part: &&Part| {
            part.closed.is_none() && segments.len(part.segment) < segments.size() && end(part) <= segments.size()
        };
        let own = state.parts.iter().rev().find(is_short);
        let (from, least) = own.map_or((0, unit), |part| (segments.len(part.segment), end(part)));
        let own = own.map(|part| part.segment);
        let Grown { segment, from, to, fresh } = segments.grow(m, self.class, own, (least, least.max(from + more)))?;
        let blocks = self.blocks_in(to);
        if from == 0 {
            let mut part = Part::new(segment, fresh);
            part.lengthen(blocks);
            state.add(segments, part);
            return Ok(());
        }
        let state = &mut **state;
        let position = segments.position(segment);
        let part = &mut state.parts[position];
        let more = blocks - part.blocks;
        part.lengthen(blocks);
        state.open(position);
        state.total += u64::from(more);
        state.free += u64::from(more);
        Ok(())
    }

    /// A block for the caller alone, if one can be had without more space.
    pub(crate) fn take_at_hand(&self, segments: &Segments) -> Option<Taken> {
        delay();
        self.state.lock().take(segments, self.unit)
    }

    /// A block for what is moved out of closed ones. It takes more space only if other threads have taken the room that there
    /// was; `None` if there is none.
    pub(crate) fn take_to_move<M: Medium>(&self, m: &M, segments: &Segments) -> Option<Taken> {
        delay();
        let mut state = self.state.lock();
        while state.free <= self.reserve() {
            self.grow(&mut state, m, segments).ok()?;
        }
        state.take(segments, self.unit)
    }

    /// Closes the sparsest segments, and the end of the next one (K1), and adds them to `victims`. The caller
    /// [opens](Self::settle) them again.
    pub(crate) fn close_sparse(&self, segments: &Segments, victims: &mut Vec<u32>) {
        delay();
        let unit = u64::from(self.class.unit);
        let blocks_for = |blocks: u64| self.blocks_in(segments.length_for(blocks * unit));
        self.state.lock().close_sparse(segments, (self.unit, self.reserve()), blocks_for, victims);
    }

    /// Whether a block is closed.
    pub(crate) fn is_withheld(&self, segments: &Segments, at: u64) -> bool {
        let mut state = self.state.lock();
        state.closed > 0 && state.find(segments, at, self.unit).is_some_and(|(part, block)| part.is_closed(block))
    }

    /// How many closed segments have become empty, ever.
    pub(crate) fn emptied(&self) -> u64 {
        self.state.lock().emptied
    }

    /// The number of segments with closed blocks.
    pub(crate) fn closed(&self) -> usize {
        self.state.lock().closed
    }

    /// Opens what is closed (K7). Closed ends of segments that have become empty are given back.
    pub(crate) fn settle<M: Medium>(&self, m: &M, segments: &Segments) {
        delay();
        let mut state = self.state.lock();
        if state.closed == 0 {
            return;
        }
        let mut given = (0, 0);
        for part in &mut state.parts {
            let Some(from) = part.closed.filter(|&from| from > 0 && part.withheld == part.blocks - from) else {
                continue;
            };
            let blocks = u64::from(part.blocks - from);
            part.shorten(from);
            (part.closed, part.withheld) = (None, 0);
            given = (given.0 + blocks, given.1 + 1);
            segments.shorten(m, self.class, part.segment, segments.length_for(self.unit.start(from)));
        }
        state.total -= given.0;
        state.withheld -= given.0;
        state.closed -= given.1;
        state.open_again();
        drop(state);
        self.release(m, segments);
    }

    /// Gives a block back. No durable word names it.
    pub(crate) fn give<M: Medium>(&self, m: &M, segments: &Segments, at: u64) {
        self.give_all(m, segments, std::iter::once(at));
    }

    /// Gives blocks back. No durable word names them.
    pub(crate) fn give_all<M: Medium>(&self, m: &M, segments: &Segments, blocks: impl Iterator<Item = u64>) {
        delay();
        let mut state = self.state.lock();
        for at in blocks {
            self.give_one(&mut state, m, segments, at);
        }
    }

    fn give_one<M: Medium>(&self, state: &mut State, m: &M, segments: &Segments, at: u64) {
        // In a damaged pool, two slots may name one block. By the second time, it may even be another tree's.
        let Some((part, block)) = state.find(segments, at, self.unit) else { return };
        if !part.give(block) {
            return;
        }
        let (is_empty, is_closed) = (part.free == part.blocks, part.is_closed(block));
        let position = segments.position(part.segment);
        if is_closed {
            part.withheld += 1;
            state.withheld += 1;
        } else {
            state.open(position);
            state.free += 1;
        }
        if is_empty && state.free_without(&state.parts[position]) >= self.reserve() {
            self.withdraw(state, m, segments, position);
            return;
        }
        if is_closed {
            return;
        }
        if state.at_hand.len() == AT_HAND {
            state.at_hand.drain(..AT_HAND / 2);
        }
        state.at_hand.push(at);
    }

    /// Takes a part all of whose blocks are free out of the class (P5).
    #[cold]
    fn withdraw<M: Medium>(&self, state: &mut State, m: &M, segments: &Segments, position: usize) {
        let part = state.remove(segments, position);
        state.emptied += u64::from(part.closed.is_some());
        segments.retire(m, part.segment);
    }

    /// Gives the segments that hold nothing back to the pool: after a recovery, some of them were never taken.
    pub(crate) fn release<M: Medium>(&self, m: &M, segments: &Segments) {
        let mut state = self.state.lock();
        let mut position = 0;
        while let Some(part) = state.parts.get(position) {
            if part.free == part.blocks && state.free_without(part) >= self.reserve() {
                self.withdraw(&mut state, m, segments, position);
            } else {
                position += 1;
            }
        }
    }

    /// All blocks that are currently free.
    pub(crate) fn free(&self, segments: &Segments) -> Vec<u64> {
        let state = self.state.lock();
        let mut free = Vec::new();
        for part in &state.parts {
            let is_free = |block: &u32| part.bits[*block as usize / 64] >> (block % 64) & 1 == 1;
            free.extend((0..part.blocks).filter(is_free).map(|block| self.at(segments, part.segment, block)));
        }
        free
    }

    /// The number of blocks in use.
    pub(crate) fn in_use(&self) -> u64 {
        let state = self.state.lock();
        state.total - state.free - state.withheld
    }

    /// Bytes of the blocks that are free.
    pub(crate) fn spare(&self) -> u64 {
        let state = self.state.lock();
        (state.free + state.withheld) * u64::from(self.class.unit)
    }

    /// The number of all blocks, including free ones.
    pub(crate) fn total(&self) -> u64 {
        self.state.lock().total
    }
}

impl Part {
    fn is_partly_free(&self) -> bool {
        self.free > 0 && self.free < self.blocks
    }
}

/// The word that names a class in a close record.
fn class_word(class: SegmentEntry) -> u64 {
    u64::from(class.unit) << 32 | class.kind as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Dram;
    use crate::pool::format::Geometry;

    #[test]
    fn blocks_begin_at_multiples_of_their_size() {
        for bytes in [8, 16, 24, 64, 192, 704, 4096, 3 << 20, u32::MAX / 2 + 1] {
            let unit = Unit::new(bytes);
            let last = u32::MAX / bytes;
            for block in [0, 1, 2, 3, 7, 100, last / 2, last - 1, last].into_iter().filter(|&block| block <= last) {
                let at = block * bytes;
                assert_eq!(unit.block_at(at), Some(block));
                assert!(unit.block_at(at + 1).is_none() && unit.block_at(at.wrapping_sub(1)).is_none());
            }
        }
    }

    #[test]
    fn a_record_that_does_not_fit_the_table_is_not_believed() {
        let geometry = Geometry { segment: 4096, capacity: 64 << 10 };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        let class = SegmentEntry::new(SegmentKind::Leaf, 1, 256);
        let blocks = Blocks::new(class);
        let taken: Vec<u64> = (0..20).map(|_| blocks.take(&m, &segments).unwrap().at).collect();
        blocks.give(&m, &segments, taken[3]);
        let mut words = Vec::new();
        blocks.record(&mut words);
        let restored = |words: &[u64]| Blocks::new(class).restore(&segments, &mut words.iter().copied());
        assert!(restored(&words));
        let again = Blocks::new(class);
        assert!(again.restore(&segments, &mut words.iter().copied()));
        let sorted = |mut free: Vec<u64>| {
            free.sort_unstable();
            free
        };
        assert_eq!(sorted(again.free(&segments)), sorted(blocks.free(&segments)));
        for i in 0..words.len() {
            for bit in [0, 7, 33, 63] {
                let mut wrong = words.clone();
                wrong[i] ^= 1 << bit;
                assert!(!restored(&wrong), "word {i}, bit {bit}");
            }
            assert!(!restored(&words[..i]));
        }
    }

    /// A class of leaves, or of records, with this many segments of 16 blocks, and of each only some blocks in use.
    fn sparse(kind: SegmentKind, used: &[u32]) -> (Dram, Segments, Blocks) {
        let geometry = Geometry { segment: 4096, capacity: 16384 + 4096 * used.len() as u64 };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        let blocks = Blocks::new(SegmentEntry::new(kind, 1, 256));
        let reserve = usize::from(kind == SegmentKind::Leaf);
        let mut taken = Vec::new();
        while blocks.total() < used.len() as u64 * 16 || taken.len() + reserve < used.len() * 16 {
            taken.push(blocks.take(&m, &segments).unwrap().at);
        }
        taken.sort_unstable();
        for (part, &used) in taken.chunks(16).zip(used) {
            part.iter().skip(used as usize).for_each(|&at| blocks.give(&m, &segments, at));
        }
        (m, segments, blocks)
    }

    fn closed(segments: &Segments, blocks: &Blocks) -> Vec<u32> {
        let mut victims = Vec::new();
        blocks.close_sparse(segments, &mut victims);
        victims
    }

    #[test]
    fn the_sparsest_segments_are_closed_as_long_as_they_fit_into_the_others() {
        let first = 16384 / 4096;
        let victims_of = |kind, used: &[u32]| {
            let (m, segments, blocks) = sparse(kind, used);
            let victims = closed(&segments, &blocks);
            assert_eq!(blocks.closed(), victims.len());
            assert_eq!(blocks.in_use(), used.iter().map(|&used| u64::from(used)).sum::<u64>());
            blocks.settle(&m, &segments);
            assert_eq!(blocks.closed(), 0);
            victims.into_iter().map(|segment| segment - first).collect::<Vec<_>>()
        };
        use SegmentKind::{Leaf, Record};
        assert_eq!(victims_of(Record, &[3, 10, 2, 15]), [2, 0]);
        // What fits exactly.
        assert_eq!(victims_of(Record, &[8, 8]), [1]);
        // What needs one block more keeps half of a segment, which is as little as a segment of this size can have.
        assert_eq!(victims_of(Record, &[8, 9]), [0]);
        // Leaves keep one block back.
        assert_eq!(victims_of(Leaf, &[8, 8]), [1]);
        assert_eq!(victims_of(Leaf, &[7, 8]), [0]);
        assert_eq!(victims_of(Record, &[16, 16, 15]), [0; 0]);
        assert_eq!(victims_of(Record, &[9]), [0; 0]);
        assert_eq!(victims_of(Record, &[8]), [0]);
        assert_eq!(victims_of(Leaf, &[8]), [0; 0]);
    }

    #[test]
    fn the_end_of_a_segment_is_given_back() {
        let (m, segments, blocks) = sparse(SegmentKind::Record, &[16]);
        let block = |block: u64| 4 * 4096 + block * 256;
        (2..15).for_each(|i| blocks.give(&m, &segments, block(i)));
        assert_eq!(closed(&segments, &blocks), [4]);
        assert!(blocks.is_withheld(&segments, block(15)) && blocks.is_withheld(&segments, block(8)));
        assert!(!blocks.is_withheld(&segments, block(7)));
        // Negative control: what is in use there keeps it.
        blocks.settle(&m, &segments);
        assert_eq!((blocks.total(), segments.len(4), blocks.closed()), (16, 4096, 0));
        assert_eq!(closed(&segments, &blocks), [4]);
        let used = segments.in_use();
        let moved = blocks.take_to_move(&m, &segments).unwrap().at;
        assert!((block(2)..block(8)).contains(&moved));
        blocks.give(&m, &segments, block(15));
        blocks.settle(&m, &segments);
        assert_eq!((blocks.total(), blocks.in_use(), segments.len(4), blocks.closed()), (8, 3, 2048, 0));
        assert_eq!(segments.in_use(), used - 2048);
        // It gets longer again, and each block is handed out once.
        let mut taken: Vec<u64> =
            std::iter::from_fn(|| blocks.take(&m, &segments).ok()).map(|taken| taken.at).collect();
        taken.extend([block(0), block(1), moved]);
        taken.sort_unstable();
        assert_eq!(taken, (0..16).map(block).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_handed_out_from_closed_segments() {
        let (m, segments, blocks) = sparse(SegmentKind::Record, &[3, 12, 16]);
        let in_first = |at: u64| segments.of(at) == Some(4);
        // The blocks that were given back last are handed out first: without closing, they come from there.
        let taken = blocks.take(&m, &segments).unwrap().at;
        blocks.give(&m, &segments, taken);
        assert_eq!(closed(&segments, &blocks), [4]);
        assert!(blocks.is_withheld(&segments, 4 * 4096) && !blocks.is_withheld(&segments, 5 * 4096));
        blocks.give(&m, &segments, 4 * 4096 + 256);
        let moved: Vec<u64> = std::iter::from_fn(|| blocks.take_to_move(&m, &segments)).map(|taken| taken.at).collect();
        assert!(moved.len() == 4 && !moved.iter().any(|&at| in_first(at)));
        assert!(blocks.take_at_hand(&segments).is_none());
        // Negative control: opened again, it hands them out.
        blocks.settle(&m, &segments);
        assert!(in_first(blocks.take_at_hand(&segments).unwrap().at));
    }

    #[test]
    fn a_closed_segment_that_becomes_empty_leaves_its_class() {
        let (m, segments, blocks) = sparse(SegmentKind::Leaf, &[2, 9]);
        assert_eq!(closed(&segments, &blocks), [4]);
        for block in 0..2 {
            let new = blocks.take_to_move(&m, &segments).unwrap();
            assert!(!new.zeroed && segments.of(new.at) == Some(5));
            assert_eq!(blocks.closed(), 1);
            blocks.give(&m, &segments, 4 * 4096 + block * 256);
        }
        assert_eq!((blocks.closed(), blocks.emptied(), blocks.total(), blocks.in_use()), (0, 1, 16, 11));
        assert_eq!(segments.owned(1, SegmentKind::Leaf, 256), [5]);
        assert!(!blocks.is_withheld(&segments, 4 * 4096));
    }

    /// The block that refills the reserve may lie in a closed segment (K-D).
    #[test]
    fn what_is_withheld_is_there_for_who_finds_no_space() {
        let (m, segments, blocks) = sparse(SegmentKind::Leaf, &[4, 11]);
        assert_eq!(closed(&segments, &blocks), [4]);
        // All the space that there is: a node is moved by others, too, until one free block is left.
        let mut taken: Vec<u64> =
            std::iter::from_fn(|| blocks.take_to_move(&m, &segments)).map(|taken| taken.at).collect();
        assert_eq!(taken.len(), 4);
        taken.push(blocks.take_in_exchange(&m, &segments).unwrap().at);
        // The block that is given back in exchange.
        blocks.give(&m, &segments, 4 * 4096);
        assert_eq!(blocks.closed(), 1);
        taken.push(blocks.take_in_exchange(&m, &segments).unwrap().at);
        assert_eq!((blocks.closed(), segments.of(taken[5])), (0, Some(4)));
        // Negative control: where nothing is withheld, there is nothing to open.
        let (m, segments, blocks) = sparse(SegmentKind::Record, &[16]);
        assert!(blocks.take(&m, &segments).unwrap_err().is_out_of_space());
    }
}
