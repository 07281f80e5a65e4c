//! Persistent blocks for the papers' stores, on a whole medium.
//!
//! The first line of the medium has eight root words, which belong to the user of the arena. Blocks follow.
//!
//! Only DRAM knows which blocks are in use, so that no allocation costs a flush. After a crash, those are in use that
//! the roots lead to: the user finds them, and [`recover`](Arena::recover) takes all others to be free.

use crate::out::Outcome;
use bristlecone::medium::{LINE, Medium, Step};
use crossbeam_epoch::Guard;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first block of a new arena.
const FIRST: u64 = LINE;

/// Four classes per doubling, as many as there are sizes.
const CLASSES: usize = 4 * 60;

/// The first line of the medium, and blocks behind it.
pub(crate) struct Arena<M: Medium> {
    medium: M,
    /// Everything from here on is free.
    end: AtomicU64,
    shards: [Arc<Shard>; SHARDS],
}

/// The number of threads that take and give blocks without waiting for each other.
pub(crate) const SHARDS: usize = 16;

/// Free blocks of each class, as far as there have been any.
#[derive(Default)]
struct Shard(Mutex<Vec<Vec<u64>>>);

impl Shard {
    fn classes(&self) -> MutexGuard<'_, Vec<Vec<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self, class: usize) -> Option<u64> {
        self.classes().get_mut(class)?.pop()
    }

    fn push(&self, class: usize, at: u64) {
        let mut classes = self.classes();
        if classes.len() <= class {
            classes.resize(class + 1, Vec::new());
        }
        classes[class].push(at);
    }
}

/// The shard of this thread.
pub(crate) fn home() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HOME: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
    }
    HOME.get()
}

/// The smallest class whose blocks hold so many bytes: up to eight lines, each number of lines has its own.
fn class(bytes: u64) -> usize {
    let lines = bytes.div_ceil(LINE).max(1);
    if lines <= 8 {
        return lines as usize - 1;
    }
    let last = lines - 1;
    let shift = last.ilog2() - 2;
    (last >> shift) as usize + 4 * shift as usize
}

/// The bytes of a block of a class.
fn block(class: usize) -> u64 {
    if class < 8 {
        return (class as u64 + 1) * LINE;
    }
    let shift = class / 4 - 1;
    ((class as u64 % 4 + 5) << shift) * LINE
}

impl<M: Medium> Arena<M> {
    /// An arena in which nothing is in use but the root words, which are zeros on a new medium.
    pub(crate) fn new(medium: M) -> Self {
        Self { medium, end: AtomicU64::new(FIRST), shards: Default::default() }
    }

    pub(crate) fn medium(&self) -> &M {
        &self.medium
    }

    /// The root word `i`, of eight.
    #[inline]
    pub(crate) fn root(&self, i: u64) -> u64 {
        self.medium.load(root_at(i))
    }

    /// Replaces a root word. It is durable when this returns, as is what this thread has flushed before, but a crash
    /// may keep the word without it.
    pub(crate) fn set_root(&self, i: u64, word: u64, step: Step) {
        self.medium.store(root_at(i), word);
        self.medium.flush(root_at(i), 8, step);
        self.medium.fence(step);
    }

    /// A block of so many bytes, at a multiple of [`LINE`]. Its content is anything.
    ///
    /// # Errors
    ///
    /// If the medium is full.
    pub(crate) fn take(&self, bytes: u64) -> Outcome<u64> {
        if bytes > self.medium.accessible() {
            return Err(self.full(bytes));
        }
        let (class, home) = (class(bytes), home());
        let own = self.shards[home].pop(class);
        own.or_else(|| self.fresh(block(class)))
            .or_else(|| self.steal(home, class))
            .or_else(|| self.reclaim(home, class))
            .ok_or_else(|| self.full(bytes))
    }

    /// A block that was never in use.
    fn fresh(&self, bytes: u64) -> Option<u64> {
        let len = self.medium.accessible();
        let grow = |end: u64| end.checked_add(bytes).filter(|&end| end <= len);
        self.end.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow).ok()
    }

    /// A block that another thread gave back, or the first part of a larger one.
    #[cold]
    fn steal(&self, home: usize, class: usize) -> Option<u64> {
        let shards = || (home..home + SHARDS).map(|i| &self.shards[i % SHARDS]);
        let (larger, at) =
            (class..CLASSES).find_map(|class| shards().find_map(|shard| shard.pop(class)).map(|at| (class, at)))?;
        self.scatter(at + block(class), at + block(larger));
        Some(at)
    }

    /// A block that was [retired](Self::retire), if its readers have let go. What this thread has retired waits for
    /// more of it, which a full medium would never give; and then for two more epochs.
    #[cold]
    fn reclaim(&self, home: usize, class: usize) -> Option<u64> {
        (0..3).find_map(|_| {
            crossbeam_epoch::pin().flush();
            self.steal(home, class)
        })
    }

    #[cold]
    fn full(&self, bytes: u64) -> Box<dyn std::error::Error> {
        format!("{}: no room for a block of {bytes} bytes", self.medium.facts().name).into()
    }

    /// Frees the block that [`take`](Self::take) gave for so many bytes: nobody reads it any more.
    pub(crate) fn give(&self, at: u64, bytes: u64) {
        self.shards[home()].push(class(bytes), at);
    }

    /// While this lives, no block is used again that was [retired](Self::retire) after the pinning.
    #[inline]
    pub(crate) fn pin(&self) -> Guard {
        crossbeam_epoch::pin()
    }

    /// Frees a block that others may still be reading: when all that have [pinned](Self::pin) have let go. No crash may
    /// make it reachable again.
    pub(crate) fn retire(&self, at: u64, bytes: u64) {
        let (shard, class) = (Arc::clone(&self.shards[home()]), class(bytes));
        crossbeam_epoch::pin().defer(move || shard.push(class, at));
    }

    /// Says which blocks are in use, after [`new`](Self::new) and before anything else: offsets and bytes. What is
    /// between them is free, and so is everything beyond the last.
    ///
    /// # Errors
    ///
    /// If two blocks overlap, or one is not where a block can be. Then the medium is damaged.
    pub(crate) fn recover(&self, used: impl Iterator<Item = (u64, u64)>) -> Outcome<()> {
        let mut used: Vec<(u64, u64)> = used.collect();
        used.sort_unstable();
        let mut end = FIRST;
        for (at, bytes) in used {
            if at < end || !self.holds(at, bytes) {
                return Err(format!("{}: no block of {bytes} bytes can be at {at}", self.medium.facts().name).into());
            }
            self.scatter(end, at);
            end = at + block(class(bytes));
        }
        self.end.store(end, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a block of so many bytes can be at this offset, which may be anything.
    pub(crate) fn holds(&self, at: u64, bytes: u64) -> bool {
        let len = self.medium.accessible();
        at >= FIRST && at.is_multiple_of(LINE) && bytes <= len && len.checked_sub(block(class(bytes))) >= Some(at)
    }

    /// Frees the lines from `at` to `end`, in blocks that are as large as possible.
    fn scatter(&self, mut at: u64, end: u64) {
        let shard = &self.shards[home()];
        while at < end {
            let fits = class(end - at);
            let class = if block(fits) > end - at { fits - 1 } else { fits };
            shard.push(class, at);
            at += block(class);
        }
    }

    /// Stores the parts one after the other from `at`, the last word padded with zeros, and flushes them. No fence.
    pub(crate) fn write(&self, at: u64, parts: &[&[u8]], step: Step) {
        let mut to = at;
        let mut put = |word: [u8; 8]| {
            self.medium.store(to, u64::from_le_bytes(word));
            to += 8;
        };
        let (mut word, mut filled) = ([0; 8], 0);
        for mut part in parts.iter().copied() {
            if filled > 0 {
                let (head, rest) = part.split_at(part.len().min(8 - filled));
                word[filled..][..head.len()].copy_from_slice(head);
                (filled, part) = (filled + head.len(), rest);
                if filled < 8 {
                    continue;
                }
                put(word);
            }
            let (whole, rest) = part.as_chunks();
            whole.iter().copied().for_each(&mut put);
            word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            filled = rest.len();
        }
        if filled > 0 {
            put(word);
        }
        self.medium.flush(at, to - at, step);
    }

    /// Passes `len` bytes from `at` on.
    #[inline]
    pub(crate) fn with<R>(&self, at: u64, len: usize, read: impl FnOnce(&[u8]) -> R) -> R {
        /// Longer ones are put together on the heap.
        const SHORT: usize = 32;
        let count = len.div_ceil(8);
        if count <= SHORT {
            let mut words = [0; SHORT];
            self.medium.load_words(at, &mut words[..count]);
            let mut bytes = [[0; 8]; SHORT];
            bytes.iter_mut().zip(&words[..count]).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
            return read(&bytes.as_flattened()[..len]);
        }
        let mut words = vec![0; count];
        self.medium.load_words(at, &mut words);
        let bytes: Vec<[u8; 8]> = words.into_iter().map(u64::to_le_bytes).collect();
        read(&bytes.as_flattened()[..len])
    }
}

fn root_at(i: u64) -> u64 {
    assert!(i < LINE / 8, "there are eight root words");
    i * 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use bristlecone::medium::Dram;

    fn arena(lines: u64) -> Arena<Dram> {
        Arena::new(Dram::zeroed(lines * LINE))
    }

    #[test]
    fn a_class_is_the_smallest_that_holds_its_bytes() {
        for bytes in 1..100_000 {
            let class = class(bytes);
            assert!(block(class) >= bytes && (class == 0 || block(class - 1) < bytes), "{bytes}");
        }
        assert!(class(u64::MAX) < CLASSES && arena(4).take(u64::MAX).is_err());
    }

    #[test]
    fn a_block_is_used_again_when_it_is_given_back() {
        let arena = arena(4);
        let blocks = [1, 64, 65].map(|bytes| arena.take(bytes));
        assert!(matches!(blocks, [Ok(64), Ok(128), Err(_)]));
        arena.give(64, 1);
        assert_eq!(arena.take(64).unwrap(), 64);
        assert_eq!(arena.take(64).unwrap(), 192);
        assert_eq!(arena.take(64).unwrap_err().to_string(), "memory: no room for a block of 64 bytes");
    }

    #[test]
    fn a_thread_uses_what_others_gave_back() {
        let arena = arena(9);
        let at = arena.take(512).unwrap();
        std::thread::scope(|scope| _ = scope.spawn(|| arena.give(at, 512)));
        let blocks: Vec<u64> = [64, 128, 320].iter().map(|&bytes| arena.take(bytes).unwrap()).collect();
        assert_eq!(blocks, [64, 128, 256]);
    }

    #[test]
    fn a_retired_block_is_used_again_only_when_no_reader_is_left() {
        let arena = arena(2);
        let at = arena.take(64).unwrap();
        let guard = arena.pin();
        std::thread::scope(|scope| {
            _ = scope.spawn(|| {
                arena.retire(at, 64);
                arena.pin().flush();
            })
        });
        assert!((0..100).all(|_| arena.take(64).is_err()));
        drop(guard);
        let mut tries = std::iter::repeat_with(|| {
            arena.pin().flush();
            arena.take(64).ok()
        });
        assert_eq!(tries.find_map(|block| block), Some(at));
    }

    #[test]
    fn a_full_medium_has_what_was_retired() {
        let arena = arena(2);
        let at = arena.take(64).unwrap();
        arena.retire(at, 64);
        // Other tests may have pinned.
        let mut tries = (0..1000).map(|_| {
            std::thread::yield_now();
            arena.take(64).ok()
        });
        assert_eq!(tries.find_map(|block| block), Some(at));
    }

    #[test]
    fn what_is_between_used_blocks_is_free() {
        let arena = arena(16);
        arena.recover([(5 * LINE, 65), (LINE, 1), (12 * LINE, 64)].into_iter()).unwrap();
        let sizes = [3 * LINE, 5 * LINE, 3 * LINE];
        assert_eq!(sizes.map(|bytes| arena.take(bytes).unwrap() / LINE), [2, 7, 13]);
        assert!(arena.take(1).is_err());
    }

    #[test]
    fn no_block_is_where_none_can_be() {
        let bad = [vec![(0, 1)], vec![(65, 1)], vec![(64, 65), (128, 1)], vec![(64, 1000)], vec![(!63, 1)]];
        for blocks in bad {
            assert!(arena(16).recover(blocks.iter().copied()).is_err(), "{blocks:?}");
        }
        assert!(!arena(16).holds(64, u64::MAX) && arena(16).holds(64, 14 * LINE));
    }

    #[test]
    fn bytes_are_read_as_they_were_written() {
        let arena = arena(64);
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for (first, second, len) in [(0, 0, 0), (3, 2, 5), (3, 8, 11), (8, 9, 21), (7, 1, 8), (300, 301, 1000)] {
            let parts = [&bytes[..first], &bytes[first..first + second], &bytes[first + second..len]];
            arena.write(64, &parts, Step::RecordWrite);
            arena.with(64, len, |found| assert_eq!(found, &bytes[..len]));
        }
    }

    #[test]
    fn root_words_are_kept() {
        let arena = arena(1);
        assert_eq!(arena.root(7), 0);
        arena.set_root(7, 5, Step::RootHead);
        assert_eq!(Arena::new(Dram::from_words(arena.medium().words())).root(7), 5);
    }
}
