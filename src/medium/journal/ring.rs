//! The ring: what was flushed and is not in the log yet, in memory that outlives the process.
//!
//! ```text
//! cell     | tag 8 | where 8 | up to eight words, 64 |            80 bytes
//! tag      | low half of the position and 1: 32 | check 32 |    a claim has no check; 0: nothing since the epoch began
//! where    | offset in words 48 | number of words 16 |
//! ```
//!
//! The invariants of cells, J1 to J5 and J22, are in `docs/journal.md`. What a ring begins with is in `head.rs`.

use super::frame::{Body, LogEntry, OnDisk};
use super::head;
use super::memory::{CELL, HEAD, Memory, cells};
use super::rule::{Rule, holds};
use super::sum::{KEYS, KeyedSum};
use crate::arch;
use crate::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::ops::Deref;
use std::sync::Arc;

/// It is added to the counter of positions when the ring is closed.
const CLOSED: u64 = 1 << 63;
/// How many cells further a cell is prefetched: the time of some changes.
const AHEAD: u64 = 12;

/// What appending to the ring came to.
#[must_use]
pub(super) enum Appended {
    /// The entry is in the cell of this position.
    Filled(u64),
    /// The entry has this position, whose cell is not free yet.
    Waits(u64),
    /// The ring is closed: the entry is dropped.
    Dropped,
}

/// What the cell of a position has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The entry at the position.
    Filled,
    /// A thread was about to fill it.
    Claimed,
    /// Nothing since it was cleared, or what was there some rounds of the ring before.
    Older,
    /// Something that no thread has stored.
    Damaged,
}

pub(super) struct Ring<R> {
    /// What `held` has, for threads that fill cells.
    now: AtomicPtr<Cells<R>>,
    held: Mutex<Arc<Cells<R>>>,
    /// The number of cells. A thread may see the number of a smaller ring before this one, which is a safe guess.
    count: Count,
    /// The next position.
    next: CachePadded<AtomicU64>,
    /// Positions below this one have a cell to fill.
    room: CachePadded<AtomicU64>,
    /// All positions below this one are in the log, and on the disk.
    synced: AtomicU64,
    /// No position from here on is filled.
    limit: AtomicU64,
}

/// A number that no other memory is ordered by, so models need not branch at it.
type Count = std::sync::atomic::AtomicU64;

/// The cells of an epoch.
pub(super) struct Cells<R> {
    memory: R,
    nonce: u64,
    /// One less than the number of cells.
    mask: u64,
}

impl<R: Memory> Cells<R> {
    fn new(memory: R, nonce: u64) -> Arc<Self> {
        let cells = cells(memory.words().len());
        assert!(cells.is_power_of_two(), "the number of cells is a power of two");
        Arc::new(Self { memory, nonce, mask: cells - 1 })
    }

    #[inline]
    fn cell(&self, position: u64) -> &[AtomicU64; CELL] {
        cell(self.memory.words(), position & self.mask)
    }
}

impl<R> Deref for Cells<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.memory
    }
}

/// Nothing limits the positions.
const NO_LIMIT: u64 = u64::MAX;

impl<R: Memory> Ring<R> {
    /// A ring in this memory; the positions below `synced` are in the log, and those below `next` are taken.
    pub(super) fn new(memory: R, nonce: u64, synced: u64, next: u64) -> Self {
        let alone = |value| CachePadded::new(AtomicU64::new(value));
        let held = Cells::new(memory, nonce);
        let cells = held.mask + 1;
        Self {
            now: AtomicPtr::new(Arc::as_ptr(&held).cast_mut()),
            held: Mutex::new(held),
            count: Count::new(cells),
            next: alone(next),
            room: alone(synced + cells),
            synced: AtomicU64::new(synced),
            limit: AtomicU64::new(NO_LIMIT),
        }
    }

    /// For a thread that fills the cell of a position with room, and for the leader.
    #[inline]
    fn now(&self) -> &Cells<R> {
        // SAFETY: it is what `held` has, or had when the caller began. That is dropped by `replace` only, which the
        // leader calls when each position with room is filled, and before others get room.
        unsafe { &*self.now.load(Ordering::Acquire) }
    }

    /// Takes back that the cells of a ring's memory have anything.
    pub(super) fn clear(memory: &R) {
        let tags = memory.words()[HEAD..].iter().step_by(CELL);
        tags.for_each(|tag| tag.store(0, Ordering::Relaxed));
        fence(Ordering::Release);
    }

    pub(super) fn into_memory(self) -> R {
        Arc::into_inner(self.held.into_inner()).expect("nobody else looks at it").memory
    }

    pub(super) fn memory(&self) -> Arc<Cells<R>> {
        Arc::clone(&self.held.lock())
    }

    /// Lets no more positions be filled. Returns the first position that is not filled: all below have a cell, or get
    /// one when there is room, and no thread touches a cell once they are filled.
    pub(super) fn shut(&self) -> u64 {
        if !holds(Rule::Shut) {
            return self.next();
        }
        self.limit_to(0);
        // A thread that takes a position after this finds the limit. One that has taken its position before may find
        // it, too, and waits until the next limit.
        let first = self.next.fetch_add(0, Ordering::AcqRel) & !CLOSED;
        self.limit_to(first);
        first
    }

    /// Goes on with other memory, of at least as many cells, in an epoch with another nonce. The ring is shut, and all
    /// that was filled is in the log.
    pub(super) fn replace(&self, memory: R, nonce: u64) {
        let cells = Cells::new(memory, nonce);
        // A thread that sees the old number takes less room than there is.
        assert!(cells.mask + 1 >= self.cells(), "another ring has as many cells");
        let mut held = self.held.lock();
        self.count.store(cells.mask + 1, Ordering::Relaxed);
        self.now.store(Arc::as_ptr(&cells).cast_mut(), Ordering::Release);
        *held = cells;
    }

    /// Lets positions be filled again.
    pub(super) fn open(&self) {
        self.limit_to(NO_LIMIT);
    }

    fn limit_to(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.set_synced(self.synced());
    }

    #[inline]
    pub(super) fn cells(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The next position that will be taken.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire) & !CLOSED
    }

    /// All positions below this one are on the disk.
    #[inline]
    pub(super) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Says that all positions below this one are on the disk. Called by the leader.
    pub(super) fn set_synced(&self, position: u64) {
        self.synced.store(position, Ordering::Release);
        let room = (position + self.cells()).min(self.limit.load(Ordering::Relaxed));
        self.room.store(room, Ordering::Release);
    }

    /// Says so to the next process, too, of the log with this salt (J24).
    pub(super) fn note(&self, salt: u64, known: OnDisk) {
        if holds(Rule::RingSynced) {
            head::note(self.memory().words(), salt, known);
        }
    }

    /// Whether a position's cell is free.
    #[inline]
    pub(super) fn has_room(&self, position: u64) -> bool {
        position < self.room.load(Ordering::Acquire)
    }

    /// Whether an eighth of the ring ends at a position.
    #[inline]
    pub(super) fn ends_part(&self, position: u64) -> bool {
        position & (self.cells() / 8 - 1) == 0
    }

    /// Appends words that the caller has stored.
    #[inline]
    pub(super) fn append(&self, entry: LogEntry, load: impl Fn(u64) -> u64) -> Appended {
        // After the stores, before they are read again (J1).
        let position = self.next.fetch_add(1, Ordering::AcqRel);
        if position & CLOSED != 0 {
            return Appended::Dropped;
        }
        if !self.has_room(position) && holds(Rule::Room) {
            return Appended::Waits(position);
        }
        self.fill(position, entry, load);
        Appended::Filled(position)
    }

    /// Fills the cell of a position that the caller has taken, and that is free.
    #[inline]
    pub(super) fn fill(&self, position: u64, entry: LogEntry, load: impl Fn(u64) -> u64) {
        let now = self.now();
        let cell = now.cell(position);
        // A cell that is half filled has a claim, not the tag of the position before.
        if holds(Rule::Claim) {
            cell[0].store(claim(position), Ordering::Relaxed);
        }
        fence(Ordering::Release);
        let place = entry.encode();
        let mut sum = KeyedSum::new(now.nonce, position, place);
        cell[1].store(place, Ordering::Relaxed);
        for ((stored, at), &key) in cell[2..].iter().zip(entry.words()).zip(&KEYS) {
            let word = load(at);
            sum.add(word, key);
            stored.store(word, Ordering::Relaxed);
        }
        // The next append waits for these stores, and for those of the cells to come it would wait longer. Once the tag
        // is stored, another ring may take the place of this one.
        arch::prefetch_to_store(now.cell(position + AHEAD));
        cell[0].store(sum.check() << 32 | claim(position), Ordering::Release);
    }

    /// Adds the entry at a position to the body of a frame, for a pool of `len` bytes, if it counts (already). The
    /// length is asked for after the entry is seen, which may lie in what the pool has just grown by.
    pub(super) fn append_to(&self, position: u64, len: impl FnOnce() -> u64, body: &mut Body) -> Content {
        let now = self.now();
        let cell = now.cell(position);
        match tagged(cell[0].load(Ordering::Acquire), position) {
            Content::Filled => {}
            other => return other,
        }
        take_from(cell, now.nonce, position, len, body)
    }

    /// The offsets of the words that entries name, of all positions from this one on that a cell has. Nobody appends
    /// meanwhile.
    pub(super) fn offsets(&self, from: u64) -> impl Iterator<Item = u64> {
        let (cells, next) = (self.memory(), self.next());
        let from = from.max(next.saturating_sub(self.cells()));
        (from..next).filter_map(move |position| {
            let entry = LogEntry::decode(cells.cell(position)[1].load(Ordering::Acquire), u64::MAX)?;
            Some(entry.bytes().start)
        })
    }

    /// Drops whatever is appended from now on. Called once.
    pub(super) fn close(&self) {
        self.next.fetch_add(CLOSED, Ordering::AcqRel);
    }

    /// Fills the cell of a position without an end, as a thread does that is killed meanwhile.
    #[cfg(test)]
    pub(super) fn half_fill(&self, position: u64, entry: LogEntry, load: impl Fn(u64) -> u64) {
        let memory = self.memory();
        let cell = memory.cell(position);
        if holds(Rule::Claim) {
            cell[0].store(claim(position), Ordering::Relaxed);
        }
        cell[1].store(entry.encode(), Ordering::Relaxed);
        cell[2].store(load(entry.bytes().start), Ordering::Relaxed);
    }

    /// Takes a position, as a thread does that fills its cell late, or is killed before.
    #[cfg(test)]
    pub(super) fn take_position(&self) -> u64 {
        self.next.fetch_add(1, Ordering::AcqRel)
    }
}

/// What the cell of a position has in a ring that a process has left, whose epoch has this nonce.
pub(super) fn content(words: &[AtomicU64], nonce: u64, position: u64) -> Content {
    let cells = cells(words.len());
    let cell = cell(words, position & (cells - 1));
    let tag = cell[0].load(Ordering::Acquire);
    match tagged(tag, position) {
        Content::Filled if is_right(cell, nonce, position) => return Content::Filled,
        Content::Filled => return Content::Damaged,
        Content::Claimed => return Content::Claimed,
        _ if tag == 0 => return Content::Older,
        _ => {}
    }
    // That of the position some rounds before: a thread that was killed had taken the ones in between.
    let rounds = claim(position).wrapping_sub(tag) & LOW;
    let is_here = rounds & (cells - 1) == 0;
    match position.checked_sub(rounds).filter(|_| is_here).map(|before| (tagged(tag, before), before)) {
        Some((Content::Filled, before)) if is_right(cell, nonce, before) => Content::Older,
        Some((Content::Claimed, _)) => Content::Older,
        _ => Content::Damaged,
    }
}

/// Adds the entry at a position to the body of a frame, of a ring that a process has left; not one that does not count.
pub(super) fn take_left(words: &[AtomicU64], nonce: u64, position: u64, len: u64, body: &mut Body) {
    if content(words, nonce, position) == Content::Filled {
        let _ = take_from(cell(words, position & (cells(words.len()) - 1)), nonce, position, || len, body);
    }
}

/// The tag of a cell is filled, and was read.
fn take_from(
    cell: &[AtomicU64; CELL],
    nonce: u64,
    position: u64,
    len: impl FnOnce() -> u64,
    body: &mut Body,
) -> Content {
    if !is_right(cell, nonce, position) {
        return Content::Damaged;
    }
    body.push(cell[1].load(Ordering::Relaxed), len(), cell[2..].iter().map(|word| word.load(Ordering::Relaxed)));
    Content::Filled
}

/// What a tag says of a position, before the words are looked at.
fn tagged(tag: u64, position: u64) -> Content {
    match (tag & LOW == claim(position), tag >> 32) {
        (true, 0) if tag != 0 => Content::Claimed,
        (true, check) if check > 0 => Content::Filled,
        _ => Content::Older,
    }
}

/// What a thread that has taken a position stores to its cell before it fills it: the low half of a tag.
fn claim(position: u64) -> u64 {
    position.wrapping_add(1) & LOW
}

const LOW: u64 = u32::MAX as u64;

/// Whether a cell, which is filled, has the check of what it has.
fn is_right(cell: &[AtomicU64; CELL], nonce: u64, position: u64) -> bool {
    check_of(cell, nonce, position) == Some(cell[0].load(Ordering::Relaxed) >> 32) || !holds(Rule::CellCheck)
}

/// The check that the content of a cell should have; `None` if it says that it has more words than a cell.
fn check_of(cell: &[AtomicU64; CELL], nonce: u64, position: u64) -> Option<u64> {
    let place = cell[1].load(Ordering::Relaxed);
    let mut sum = KeyedSum::new(nonce, position, place);
    for (word, &key) in cell[2..].get(..LogEntry::count_of(place))?.iter().zip(&KEYS) {
        sum.add(word.load(Ordering::Relaxed), key);
    }
    Some(sum.check())
}

#[inline]
fn cell(words: &[AtomicU64], index: u64) -> &[AtomicU64; CELL] {
    words[HEAD + index as usize * CELL..].first_chunk().expect("the memory has all cells")
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::super::sim::SimMemory;
    use super::*;

    const NONCE: u64 = 0x1234_5678_9abc_def0;

    /// Each bit of a cell that counts: then it does not count any more, or the words are not looked at.
    #[test]
    fn each_wrong_bit_of_a_cell_is_found() {
        for count in 1..=8 {
            let position = 5 + (count << 33);
            let ring = Ring::new(SimMemory::new(16), NONCE, position, position);
            let load = |at: u64| if count == 3 { 0 } else { at.wrapping_mul(0x1234_5678_9abc_def1) };
            assert!(matches!(ring.append(LogEntry::new(64, count), load), Appended::Filled(_)));
            let memory = ring.memory();
            let words = memory.words();
            let cell = cell(words, position % 16);
            assert_eq!(content(words, NONCE, position), Content::Filled);
            assert_ne!(content(words, NONCE + (1 << 40), position), Content::Filled, "a cell of another epoch");
            for (number, word) in cell[..2 + count as usize].iter().enumerate() {
                for bit in 0..64 {
                    word.fetch_xor(1 << bit, Ordering::Relaxed);
                    assert_eq!(content(words, NONCE, position), Content::Damaged, "word {number}, bit {bit}");
                    word.fetch_xor(1 << bit, Ordering::Relaxed);
                }
            }
            // The next round of the ring.
            assert_eq!(content(words, NONCE, position + 16), Content::Older);
            cell[0].store(claim(position + 16), Ordering::Relaxed);
            assert_eq!(content(words, NONCE, position + 16), Content::Claimed);
            cell[0].store(0, Ordering::Relaxed);
            assert_eq!(content(words, NONCE, position), Content::Older);
        }
    }
}
