//! One node of the volatile index: up to [`WIDTH`] entries `(low, child)` under one version word.
//!
//! ```text
//! head      | version | word of slot 8 | word of slot 16 | ... | word of slot 56 |
//! lows      8 lines: | word of slot 8g | word of slot 8g + 1 | ... | word of slot 8g + 7 |
//! children  8 lines, as the lows
//! ```
//!
//! The word of a low is `low - 1` (wrapping), so that `low <= key` reads `word < key`; slots behind the last entry hold
//! [`PAD`], which is below no key. So a search counts words below the key and needs no length. Slot 0 is never
//! compared: who enters a node has `key >= low` of slot 0 from the parent, or is in the leftmost node of its level,
//! where slot 0 is as good as any. That is why slot 0 alone may hold `low = 0`, whose word is `PAD`, too.
//!
//! A search reads one line of the head, one of the lows, one of the children, each found by the one before: three
//! misses in a row. [`Node::touch`] makes them one: with 450,000 separators and cold caches, 111 ns instead of 294.
//! Of the widths from 16 to 128, 64 was the fastest over all sizes.

use crate::sync::{AtomicU64, Ordering, fence};

/// Words in one line, and lines of lows in one node: then the heads fill, with the version, one line.
const LANES: usize = if cfg!(loom) { 2 } else { 8 };

/// The most entries of a node.
pub(super) const WIDTH: usize = LANES * LANES;

/// The word of an empty slot.
const PAD: u64 = u64::MAX;

type Line = [AtomicU64; LANES];

/// Somebody wrote what was being read: start again from the root.
#[derive(Debug)]
pub(super) struct Moved;

/// See the [module](self). Its words change only between [`open`](Node::open) and [`close`](Node::close).
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// Word 0 is the version, odd while the node is open; word `g` repeats the first word of `lows[g]`.
    head: Line,
    lows: [Line; LANES],
    children: [Line; LANES],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Node>() == 64 * (1 + 2 * LANES));

impl Node {
    pub(super) fn new() -> Self {
        let padded = |_| core::array::from_fn(|_| AtomicU64::new(PAD));
        Self {
            head: core::array::from_fn(|word| AtomicU64::new(if word == 0 { 0 } else { PAD })),
            lows: core::array::from_fn(padded),
            children: core::array::from_fn(padded),
        }
    }

    // The version: a sequence lock with one writer.

    /// The version to read the node under.
    #[inline]
    pub(super) fn version(&self) -> Result<u64, Moved> {
        let version = self.head[0].load(Ordering::Acquire);
        if version.is_multiple_of(2) { Ok(version) } else { Err(Moved) }
    }

    /// Whether everything read since [`version`](Node::version) belongs together.
    #[inline]
    pub(super) fn unchanged(&self, version: u64) -> Result<(), Moved> {
        fence(Ordering::Acquire);
        if self.head[0].load(Ordering::Relaxed) == version { Ok(()) } else { Err(Moved) }
    }

    /// Turns readers away. Returns false if the node was open.
    pub(super) fn open(&self) -> bool {
        let version = self.head[0].load(Ordering::Relaxed);
        let closed = version.is_multiple_of(2);
        if closed {
            self.head[0].store(version + 1, Ordering::Relaxed);
            fence(Ordering::Release);
        }
        closed
    }

    /// Lets readers in, under a version they have not seen.
    pub(super) fn close(&self) {
        let version = self.head[0].load(Ordering::Relaxed);
        debug_assert!(!version.is_multiple_of(2));
        self.head[0].store(version + 1, Ordering::Release);
    }

    // Reading.

    /// Asks for the lines a search may want, all at once, where the search itself would wait for one after the other.
    ///
    /// The values do not matter, and safe Rust has no prefetch. The compiler keeps atomic loads; if it ever drops them,
    /// only time is lost.
    #[inline]
    pub(super) fn touch(&self) {
        if !cfg!(loom) {
            for line in self.lows.iter().chain(&self.children) {
                line[0].load(Ordering::Relaxed);
            }
        }
    }

    /// The slot of the greatest low `<= key`; slot 0 if there is none.
    #[inline]
    pub(super) fn slot(&self, key: u64) -> usize {
        let group = below(&self.head, key);
        group * LANES + below(&self.lows[group], key)
    }

    #[inline]
    pub(super) fn low(&self, slot: usize) -> u64 {
        self.lows[slot / LANES][slot % LANES].load(Ordering::Relaxed).wrapping_add(1)
    }

    #[inline]
    pub(super) fn child(&self, slot: usize) -> u64 {
        self.children[slot / LANES][slot % LANES].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn entry(&self, slot: usize) -> (u64, u64) {
        (self.low(slot), self.child(slot))
    }

    /// The number of entries, if there is one at all.
    pub(super) fn len(&self) -> usize {
        self.slot(PAD) + 1
    }

    // Writing: for the one writer, while the node is open.

    pub(super) fn set_low(&self, slot: usize, low: u64) {
        self.set_word(slot, low.wrapping_sub(1));
    }

    pub(super) fn set_child(&self, slot: usize, child: u64) {
        self.children[slot / LANES][slot % LANES].store(child, Ordering::Relaxed);
    }

    fn set_word(&self, slot: usize, word: u64) {
        let (group, lane) = (slot / LANES, slot % LANES);
        self.lows[group][lane].store(word, Ordering::Relaxed);
        if lane == 0 && group > 0 {
            self.head[group].store(word, Ordering::Relaxed);
        }
    }

    fn set(&self, slot: usize, (low, child): (u64, u64)) {
        self.set_low(slot, low);
        self.set_child(slot, child);
    }

    /// Makes `entries`, at most [`WIDTH`], all the node holds.
    pub(super) fn fill(&self, entries: impl Iterator<Item = (u64, u64)>) {
        self.truncate(self.append(0, entries));
    }

    /// Puts `entries` behind the first `len`; returns how many there are now.
    pub(super) fn append(&self, mut len: usize, entries: impl Iterator<Item = (u64, u64)>) -> usize {
        for entry in entries {
            self.set(len, entry);
            len += 1;
        }
        len
    }

    /// Drops all but the first `len` entries.
    pub(super) fn truncate(&self, len: usize) {
        for slot in len..WIDTH {
            self.set_word(slot, PAD);
        }
    }

    /// Puts `entry` into slot `at` of a node of `len < WIDTH` entries.
    pub(super) fn insert(&self, at: usize, len: usize, entry: (u64, u64)) {
        for slot in (at..len).rev() {
            self.set(slot + 1, self.entry(slot));
        }
        self.set(at, entry);
    }

    /// Takes slot `at` out of a node of `len` entries.
    pub(super) fn remove(&self, at: usize, len: usize) {
        for slot in at + 1..len {
            self.set(slot - 1, self.entry(slot));
        }
        self.set_word(len - 1, PAD);
    }
}

/// How many of a line's words, but for the first, are below `key`.
///
/// All are loaded at once and no branch depends on them. That LLVM does not vectorise atomic loads costs little here:
/// binary search over the same line has fewer instructions and measured 5 to 30 % slower.
#[inline]
fn below(line: &Line, key: u64) -> usize {
    line[1..].iter().map(|word| usize::from(word.load(Ordering::Relaxed) < key)).sum()
}
