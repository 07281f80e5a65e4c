//! Blocks of one class. Which of them are free is known in DRAM only, so taking one costs no flush.
//!
//! After a crash, the blocks that a tree reaches are in use and all others are free. Nothing can leak.
//!
//! A class has a bitmap for each of its segments, and remembers a few blocks that were given back last: these are
//! likely to be in a cache. A segment all of whose blocks are free leaves the class (P5).
//!
//! A class of nodes keeps one free block back, from its first segment on, for a node that replaces another one. A
//! removal or an update may have to replace a node even when the disk is full. It replaces one node at a time, because
//! it holds the tree's mutex, and the block of the replaced node refills the reserve. So a class never needs more than
//! one reserved block. No particular block is reserved: the reserve is whichever block is left last.
//!
//! While a tree is compacted, some segments of a class are *closed*, or their ends are (K1): free blocks there count as
//! withheld, not as free. What would fail for want of space opens them again, so that compacting takes nothing from
//! anybody (K-D).

mod part;
#[cfg(test)]
mod tests;

use crate::error::Fault;
use crate::medium::Medium;
use crate::memory::OF_ALLOCATOR;
use crate::pool::segments::{Grown, SegmentEntry, SegmentKind, Segments};
use crate::sync::delay::delay;
use crate::sync::{Mutex, MutexGuard};
use part::{SegmentBlocks, Unit};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

/// A block that was just taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenBlock {
    /// Its offset.
    pub(crate) at: u64,
    /// True if it durably holds zeros.
    pub(crate) zeroed: bool,
}

/// The blocks of one tree, kind and size.
pub(crate) struct Blocks {
    class: SegmentEntry,
    state: Mutex<Lazy>,
}

/// The state of a class, which takes memory only from when it has blocks: a tree has dozens of classes for records, and
/// a small one uses few of them.
#[derive(Default)]
struct Lazy(Option<Box<ClassState>>);

impl Deref for Lazy {
    type Target = ClassState;

    #[inline]
    fn deref(&self) -> &ClassState {
        static NONE: ClassState = ClassState::new(Unit { bytes: 1, reciprocal: 0 });
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Lazy {
    #[inline]
    fn deref_mut(&mut self) -> &mut ClassState {
        self.0.as_deref_mut().expect("it is made before the state of a class changes")
    }
}

struct ClassState {
    /// The size of the blocks.
    unit: Unit,
    parts: Vec<SegmentBlocks>,
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

impl ClassState {
    const fn new(unit: Unit) -> Self {
        Self {
            unit,
            parts: Vec::new(),
            open: Vec::new(),
            current: None,
            at_hand: Vec::new(),
            total: 0,
            free: 0,
            withheld: 0,
            closed: 0,
            emptied: 0,
        }
    }

    /// The part in which a block lies, and the number of the block there; `None` if it is not one of the class.
    #[inline]
    fn find(&mut self, segments: &Segments, at: u64) -> Option<(&mut SegmentBlocks, u32)> {
        let unit = self.unit;
        let segment = segments.holding(at)?;
        let part = self.parts.get_mut(segments.position(segment)).filter(|part| part.segment == segment)?;
        // Offsets in a segment are 32 bits wide.
        let block = unit.block_at(segments.within(at) as u32)?;
        (block < part.blocks).then_some((part, block))
    }

    /// Takes this block, if it is one of the class, and free.
    #[inline]
    fn take_known(&mut self, segments: &Segments, at: u64) -> bool {
        let is_taken = self.find(segments, at).is_some_and(|(part, block)| part.take_this(block));
        if is_taken {
            self.free -= 1;
        }
        is_taken
    }

    /// A free block, if there is one.
    #[inline]
    fn take_free(&mut self, segments: &Segments) -> Option<TakenBlock> {
        let unit = self.unit;
        while let Some(at) = self.at_hand.pop() {
            if self.take_known(segments, at) {
                return Some(TakenBlock { at, zeroed: false });
            }
        }
        loop {
            if let Some(part) = self.current.and_then(|current| self.parts.get_mut(current))
                && part.available() > 0
            {
                self.free -= 1;
                let (block, zeroed) = part.take_first();
                return Some(TakenBlock { at: segments.start(part.segment) + unit.start(block), zeroed });
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

    fn add(&mut self, segments: &Segments, part: SegmentBlocks) {
        segments.set_position(part.segment, self.parts.len());
        self.total += u64::from(part.blocks);
        self.free += u64::from(part.free);
        self.parts.push(part);
        self.open(self.parts.len() - 1);
    }

    /// Takes a part out of the class.
    fn remove(&mut self, segments: &Segments, position: usize) -> SegmentBlocks {
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
    fn free_without(&self, part: &SegmentBlocks) -> u64 {
        self.free - u64::from(part.available())
    }

    /// Closes the sparsest parts, as long as the others have room for all that is in use, and for `reserve` blocks; and
    /// the end of the next one. `blocks_for` rounds the number of blocks that a part must have up to one that it can
    /// have. Adds the segments to `victims`.
    fn close_sparse(
        &mut self,
        segments: &Segments,
        reserve: u64,
        blocks_for: impl Fn(u64) -> u32,
        victims: &mut Vec<u32>,
    ) {
        let used = |part: &SegmentBlocks| u64::from(part.blocks - part.free);
        let of_part = |part: &SegmentBlocks| (used(part), u64::from(part.blocks), part.segment);
        // In a damaged pool, a part may be too short for one block.
        let has_blocks = |part: &&SegmentBlocks| part.blocks > 0;
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
            let is_open = |at: &u64| self.find(segments, *at).is_some_and(|(part, block)| !part.is_closed(block));
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
        Self { class, state: Mutex::new(Lazy::default()) }
    }

    /// The state, made if need be.
    #[inline]
    fn made(&self) -> MutexGuard<'_, Lazy> {
        let mut state = self.state.lock();
        if state.0.is_none() {
            self.make(&mut state);
        }
        state
    }

    #[cold]
    fn make(&self, state: &mut Lazy) {
        state.0 = Some(Box::new(ClassState::new(Unit::new(self.class.unit))));
    }

    /// Finds the class's blocks from its segments. The free ones are those for which `used` returns false.
    pub(crate) fn recover(&self, segments: &Segments, mut used: impl FnMut(u64) -> bool) {
        self.find_parts(segments, |part, blocks| {
            part.blocks = blocks;
            part.bits = vec![0; blocks.div_ceil(64) as usize];
            let segment = part.segment;
            for block in (0..blocks).filter(|&block| !used(self.at(segments, segment, block))) {
                part.give(block);
            }
        });
    }

    /// Makes the class's parts of its segments anew. `fill` adds so many blocks to each.
    fn find_parts(&self, segments: &Segments, mut fill: impl FnMut(&mut SegmentBlocks, u32)) {
        let owned = segments.owned(self.class.tree, self.class.kind, self.class.unit);
        let mut state = self.state.lock();
        *state = Lazy::default();
        if !owned.is_empty() {
            self.make(&mut state);
        }
        // The first segment is used first.
        for segment in owned.into_iter().rev() {
            let mut part = SegmentBlocks::new(segment, false);
            fill(&mut part, self.blocks_in(segments.len(segment)));
            state.add(segments, part);
        }
    }

    /// Finds the class's blocks from its segments. The free ones are all that are not in `used`.
    pub(crate) fn recover_except(&self, segments: &Segments, used: impl Iterator<Item = u64>) {
        self.recover(segments, |_| false);
        let mut state = self.state.lock();
        if state.total == 0 {
            return;
        }
        for at in used {
            // There may also be blocks of other sizes.
            state.take_known(segments, at);
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
        *state = Lazy::default();
        if words.next() != Some(class_word(self.class)) || words.next() != Some(owned.len() as u64) {
            return false;
        }
        if !owned.is_empty() {
            self.make(&mut state);
        }
        let mut listed = Vec::with_capacity(owned.len());
        for _ in 0..owned.len() {
            let Some(word) = words.next() else { return false };
            let (segment, free) = ((word >> 32) as u32, word as u32);
            if owned.binary_search(&segment).is_err() {
                return false;
            }
            let mut part = SegmentBlocks::new(segment, false);
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

    /// Appends what is known of the class at a moment when others may take blocks and give them back: its segments, and
    /// which of their blocks are free. Those that are `unused` count as free.
    pub(crate) fn image(&self, segments: &Segments, unused: &[u64], words: &mut Vec<u64>) {
        let mut state = self.state.lock();
        let mut free: HashMap<u32, Vec<u32>> = HashMap::new();
        if state.total > 0 {
            for &at in unused {
                if let Some((part, block)) = state.find(segments, at) {
                    free.entry(part.segment).or_default().push(block);
                }
            }
        }
        words.extend([class_word(self.class), state.parts.len() as u64]);
        for part in &state.parts {
            words.extend([u64::from(part.segment), u64::from(part.blocks)]);
            let first = words.len();
            words.extend(&part.bits);
            for &block in free.get(&part.segment).into_iter().flatten() {
                words[first + block as usize / 64] |= 1 << (block % 64);
            }
        }
    }

    /// Takes over what an [image](Self::image) says of the segments that the class still has. In others nothing is in
    /// use, nor in what segments have become longer by. Returns false if it cannot be right.
    #[must_use]
    pub(crate) fn restore_image(&self, segments: &Segments, words: &mut std::slice::Iter<'_, u64>) -> bool {
        let mut known: HashMap<u64, (u32, Vec<u64>)> = HashMap::new();
        let (true, Some(&parts)) = (words.next() == Some(&class_word(self.class)), words.next()) else { return false };
        for _ in 0..parts {
            let (Some(&segment), Some(&blocks)) = (words.next(), words.next()) else { return false };
            if blocks > u64::from(self.blocks_in(segments.size())) {
                return false;
            }
            let len = blocks.div_ceil(64) as usize;
            let bits: Vec<u64> = words.by_ref().copied().take(len).collect();
            if bits.len() < len {
                return false;
            }
            known.insert(segment, (blocks as u32, bits));
        }
        self.find_parts(segments, |part, blocks| {
            part.lengthen(blocks);
            if let Some((blocks, bits)) = known.get(&u64::from(part.segment)) {
                for (i, (own, free)) in (0..).zip(part.bits.iter_mut().zip(bits)) {
                    // Blocks behind those of the image are new.
                    let known = blocks.saturating_sub(i * 64);
                    *own &= free | if known < 64 { !0 << known } else { 0 };
                }
                part.free = part.bits.iter().map(|word| word.count_ones()).sum();
            }
        });
        true
    }

    /// Notes that a block is in use, if it is one of the class. Nobody takes blocks meanwhile.
    pub(crate) fn note_used(&self, segments: &Segments, at: u64) {
        let mut state = self.state.lock();
        if state.total > 0 {
            state.take_known(segments, at);
        }
    }

    /// The number of blocks in so many bytes from the start of a segment.
    fn blocks_in(&self, bytes: u64) -> u32 {
        (bytes / u64::from(self.class.unit)) as u32
    }

    /// Where a block begins in its segment.
    fn start(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.class.unit)
    }

    /// The offset of a block.
    fn at(&self, segments: &Segments, segment: u32, block: u32) -> u64 {
        segments.start(segment) + self.start(block)
    }

    /// The number of free blocks that a class keeps back.
    fn reserve(&self) -> u64 {
        u64::from(self.class.kind != SegmentKind::Record)
    }

    /// A block for the caller alone. In a class of nodes, it never takes the last free one.
    pub(crate) fn allocate<M: Medium>(&self, m: &M, segments: &Segments) -> Result<TakenBlock, Fault> {
        self.take_but(self.reserve(), m, segments)
    }

    /// A block for the caller alone. The caller must hold the tree's mutex until it has given back another block of the
    /// class in exchange.
    pub(crate) fn take_in_exchange<M: Medium>(&self, m: &M, segments: &Segments) -> Result<TakenBlock, Fault> {
        self.take_but(0, m, segments)
    }

    /// A block for the caller alone. Leaves `reserve` blocks free.
    fn take_but<M: Medium>(&self, reserve: u64, m: &M, segments: &Segments) -> Result<TakenBlock, Fault> {
        delay();
        let mut state = self.made();
        while state.free <= reserve {
            match self.grow(&mut state, m, segments) {
                // What is withheld may be the reserve, which another node has refilled (K-D).
                Err(fault) if !fault.is_out_of_space() || !state.open_again() => return Err(fault),
                _ => {}
            }
        }
        Ok(state.take_free(segments).expect("as many blocks are free as are counted"))
    }

    /// Gets more blocks: a quarter of what the class has, so that little of it is unused; a whole segment, once it has
    /// one, because these are filled in huge pages.
    #[cold]
    fn grow<M: Medium>(&self, state: &mut ClassState, m: &M, segments: &Segments) -> Result<(), Fault> {
        let unit = u64::from(self.class.unit);
        // Not by bytes: a whole segment may have some at its end that are too few for a block.
        let has_whole = state.total >= u64::from(self.blocks_in(segments.size()));
        let more = if has_whole { segments.size() } else { state.total * unit / 4 };
        let end = |part: &SegmentBlocks| (u64::from(part.blocks) + 1) * unit;
        let is_short = |part: &&SegmentBlocks| {
            part.closed.is_none() && segments.len(part.segment) < segments.size() && end(part) <= segments.size()
        };
        let own = state.parts.iter().rev().find(is_short);
        let (from, least) = own.map_or((0, unit), |part| (segments.len(part.segment), end(part)));
        let own = own.map(|part| part.segment);
        let Grown { segment, from, to, fresh } = segments.grow(m, self.class, own, (least, least.max(from + more)))?;
        let blocks = self.blocks_in(to);
        if from == 0 {
            let mut part = SegmentBlocks::new(segment, fresh);
            part.lengthen(blocks);
            state.add(segments, part);
            return Ok(());
        }
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
    pub(crate) fn take_at_hand(&self, segments: &Segments) -> Option<TakenBlock> {
        delay();
        self.made().take_free(segments)
    }

    /// A block for what is moved out of closed ones. It takes more space only if other threads have taken the room that
    /// there was; `None` if there is none.
    pub(crate) fn take_to_move<M: Medium>(&self, m: &M, segments: &Segments) -> Option<TakenBlock> {
        delay();
        let mut state = self.made();
        while state.free <= self.reserve() {
            self.grow(&mut state, m, segments).ok()?;
        }
        state.take_free(segments)
    }

    /// Closes the sparsest segments, and the end of the next one (K1), and adds them to `victims`. The caller
    /// [opens](Self::settle) them again.
    pub(crate) fn close_sparse(&self, segments: &Segments, victims: &mut Vec<u32>) {
        delay();
        let unit = u64::from(self.class.unit);
        let blocks_for = |blocks: u64| self.blocks_in(segments.length_for(blocks * unit));
        let mut state = self.state.lock();
        if state.total > 0 {
            state.close_sparse(segments, self.reserve(), blocks_for, victims);
        }
    }

    /// Whether a block is closed.
    pub(crate) fn is_withheld(&self, segments: &Segments, at: u64) -> bool {
        let mut state = self.state.lock();
        state.closed > 0 && state.find(segments, at).is_some_and(|(part, block)| part.is_closed(block))
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
    pub(crate) fn open_all<M: Medium>(&self, m: &M, segments: &Segments) {
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
            segments.shorten(m, self.class, part.segment, segments.length_for(self.start(from)));
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
        let mut state = self.made();
        for at in blocks {
            self.give_one(&mut state, m, segments, at);
        }
    }

    fn give_one<M: Medium>(&self, state: &mut ClassState, m: &M, segments: &Segments, at: u64) {
        // In a damaged pool, two slots may name one block. By the second time, it may even be another tree's.
        let Some((part, block)) = state.find(segments, at) else { return };
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
    fn withdraw<M: Medium>(&self, state: &mut ClassState, m: &M, segments: &Segments, position: usize) {
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

    /// Bytes of memory that this takes, beside itself.
    pub(crate) fn memory(&self) -> u64 {
        let state = self.state.lock();
        let Lazy(Some(state)) = &*state else { return 0 };
        let of_part = size_of::<SegmentBlocks>() + size_of::<u64>() + OF_ALLOCATOR;
        let lists = state.open.capacity() * size_of::<u32>() + state.at_hand.capacity() * size_of::<u64>();
        let bits = state.total / u64::from(u8::BITS);
        (size_of::<ClassState>() + state.parts.capacity() * of_part + lists + 4 * OF_ALLOCATOR) as u64 + bits
    }

    /// The number of all blocks, including free ones.
    pub(crate) fn total(&self) -> u64 {
        self.state.lock().total
    }
}

/// The word that names a class in a close record.
fn class_word(class: SegmentEntry) -> u64 {
    u64::from(class.unit) << 32 | class.kind as u64
}
