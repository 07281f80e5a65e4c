//! The ring: what was flushed and is not in the log yet, in memory that outlives the process.
//!
//! The diagram of a cell and the invariants J1 to J5 are in `docs/journal.md`.

use super::frame::{Body, Entry};
use super::rule::{Rule, holds};
use crate::sync::{AtomicU64, Ordering, fence};

/// Words that the next process finds as this one left them.
pub(crate) trait Memory: Send + Sync + 'static {
    /// The words.
    fn words(&self) -> &[AtomicU64];
}

/// "BRISRING".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISRING");
/// Words before the first cell.
const HEAD: usize = 8;
/// Words of a cell.
const CELL: usize = 10;
/// It is added to the counter of positions when the ring is closed.
const CLOSED: u64 = 1 << 63;

/// Words that a ring of so many cells needs.
pub(crate) const fn words(cells: u64) -> usize {
    HEAD + cells as usize * CELL
}

/// Whose a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uuid: [u64; 2],
    /// The boot of the machine.
    pub(crate) boot: u64,
    /// What tells the log's file from a copy of it: device and inode.
    pub(crate) file: [u64; 2],
}

impl Owner {
    /// What a ring begins with.
    fn head(self, epoch: u64, cells: u64) -> [u64; HEAD] {
        [MAGIC, self.uuid[0], self.uuid[1], epoch, self.boot, cells, self.file[0], self.file[1]]
    }
}

/// What a ring begins with, and how many cells it has room for.
fn head_of<R: Memory>(memory: &R) -> ([u64; HEAD], u64) {
    let words = memory.words();
    let head = std::array::from_fn(|i| words.get(i).map_or(0, |word| word.load(Ordering::Acquire)));
    (head, words.len().saturating_sub(HEAD) as u64 / CELL as u64)
}

/// The epoch of a ring that belongs to somebody; 0 if it belongs to somebody else, or to nobody.
pub(super) fn epoch<R: Memory>(memory: &R, owner: Owner) -> u64 {
    let (head, cells) = head_of(memory);
    if head == owner.head(head[3], cells) { head[3] } else { 0 }
}

/// A word in a cache line of its own.
#[repr(align(64))]
struct Alone(AtomicU64);

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

pub(super) struct Ring<R> {
    memory: R,
    /// One less than the number of cells.
    mask: u64,
    /// The next position.
    next: Alone,
    /// All positions below this one are in the log, and on the disk.
    synced: Alone,
}

impl<R: Memory> Ring<R> {
    /// The ring that a process left: its positions from `written` on, up to the last one that counts. `None` if it is not
    /// the ring of this epoch and log, or if neither of the two has what came between them.
    pub(super) fn left(memory: &R, owner: Owner, epoch: u64, written: u64) -> Option<u64> {
        let (words, (head, cells)) = (memory.words(), head_of(memory));
        if head != owner.head(epoch, cells) || !cells.is_power_of_two() {
            return None;
        }
        let tags = (0..cells as usize).map(|cell| words[HEAD + cell * CELL].load(Ordering::Acquire));
        // A tag in a cell that is not its own is no tag.
        let counts = |(cell, tag): &(u64, u64)| *tag > written && (tag - 1) & (cells - 1) == *cell;
        let end = (0..).zip(tags).filter(counts).map(|(_, tag)| tag).max().unwrap_or(written);
        // By J4, whoever filled the last cell knew that what was there before is on the disk. If the log does not have it,
        // this is another log.
        (end - written <= cells && end < CLOSED).then_some(end)
    }

    /// A ring in this memory, which has zeros, or what [`left`](Self::left) has found; the positions below `synced` are in
    /// the log, and those below `next` are taken.
    pub(super) fn new(memory: R, synced: u64, next: u64) -> Self {
        let cells = (memory.words().len() - HEAD) as u64 / CELL as u64;
        assert!(cells.is_power_of_two(), "the number of cells is a power of two");
        let alone = |value| Alone(AtomicU64::new(value));
        Self { memory, mask: cells - 1, next: alone(next), synced: alone(synced) }
    }

    /// Forgets what is in a ring's memory.
    pub(super) fn clear(memory: &R) {
        memory.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Says whose the ring is from now on.
    pub(super) fn belongs_to(&self, owner: Owner, epoch: u64) {
        let head = owner.head(epoch, self.cells());
        // Cut: a ring of an epoch that does not count. The one before it is in the log.
        self.memory.words()[0].store(0, Ordering::Release);
        for (word, value) in self.memory.words().iter().zip(head).skip(1) {
            word.store(value, Ordering::Release);
        }
        self.memory.words()[0].store(head[0], Ordering::Release);
    }

    pub(super) fn into_memory(self) -> R {
        self.memory
    }

    pub(super) fn cells(&self) -> u64 {
        self.mask + 1
    }

    /// The next position that will be taken.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next.0.load(Ordering::Acquire) & !CLOSED
    }

    /// All positions below this one are on the disk.
    #[inline]
    pub(super) fn synced(&self) -> u64 {
        self.synced.0.load(Ordering::Acquire)
    }

    /// Says that all positions below this one are on the disk.
    pub(super) fn set_synced(&self, position: u64) {
        self.synced.0.store(position, Ordering::Release);
    }

    /// Whether a position's cell is free.
    #[inline]
    pub(super) fn has_room(&self, position: u64) -> bool {
        position < self.synced() + self.cells()
    }

    /// Whether an eighth of the ring ends at a position.
    #[inline]
    pub(super) fn ends_part(&self, position: u64) -> bool {
        position & (self.mask >> 3) == 0
    }

    /// Appends words that the caller has stored.
    #[inline]
    pub(super) fn append(&self, entry: Entry, load: impl Fn(u64) -> u64) -> Appended {
        // After the stores, before they are read again (J1).
        let position = self.next.0.fetch_add(1, Ordering::AcqRel);
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
    pub(super) fn fill(&self, position: u64, entry: Entry, load: impl Fn(u64) -> u64) {
        let cell = self.cell(position);
        // A cell that is half filled has no tag, not that of the position before.
        cell[0].store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        cell[1].store(entry.encode(), Ordering::Relaxed);
        for (word, at) in cell[2..].iter().zip(entry.words()) {
            word.store(load(at), Ordering::Relaxed);
        }
        cell[0].store(position + 1, Ordering::Release);
    }

    /// Adds the entry at a position to the body of a frame, for a pool of `len` bytes; false if it does not count (yet). The
    /// length is asked for after the entry is seen, which may lie in what the pool has just grown by.
    pub(super) fn take(&self, position: u64, len: impl FnOnce() -> u64, body: &mut Body) -> bool {
        Self::take_from(self.cell(position), position, len, body)
    }

    /// The same, of a ring that is only looked at.
    pub(super) fn look(memory: &R, position: u64, len: u64, body: &mut Body) -> bool {
        let cells = (memory.words().len() - HEAD) as u64 / CELL as u64;
        Self::take_from(cell(memory.words(), position & (cells - 1)), position, || len, body)
    }

    fn take_from(cell: &[AtomicU64; CELL], position: u64, len: impl FnOnce() -> u64, body: &mut Body) -> bool {
        if cell[0].load(Ordering::Acquire) != position + 1 {
            return false;
        }
        body.push(cell[1].load(Ordering::Relaxed), len(), cell[2..].iter().map(|word| word.load(Ordering::Relaxed)));
        true
    }

    /// Drops whatever is appended from now on. Called once.
    pub(super) fn close(&self) {
        self.next.0.fetch_add(CLOSED, Ordering::AcqRel);
    }

    /// Takes a position, as a thread does that fills its cell late, or is killed before.
    #[cfg(test)]
    pub(super) fn take_position(&self) -> u64 {
        self.next.0.fetch_add(1, Ordering::AcqRel)
    }

    #[inline]
    fn cell(&self, position: u64) -> &[AtomicU64; CELL] {
        cell(self.memory.words(), position & self.mask)
    }
}

#[inline]
fn cell(words: &[AtomicU64], index: u64) -> &[AtomicU64; CELL] {
    words[HEAD + index as usize * CELL..].first_chunk().expect("the memory has all cells")
}
