//! One record: where it may lie, and how its bytes are read.
//!
//! ```text
//! | length 32, CRC-32 of the bytes 32 | bytes, padded with zeros to whole words |
//! ```
//!
//! The invariants V1 and V2 are in `docs/design.md`, section 2.

use crate::error::Broken;
use crate::medium::{Hint, LINE, Medium};
use crate::pool::access::Access;
use crate::pool::segments::{SegmentKind, Segments};
use crate::sync::delay::delay;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The longest value, in bytes.
pub(crate) const RECORD_MAX: u64 = 1 << 30;
/// The most bytes of a record: a value, and what a tree of byte strings puts before it.
pub(super) const BYTES_MAX: u64 = RECORD_MAX + (1 << 17);
/// Bytes before the bytes of a record.
pub(crate) const HEADER: u64 = 8;
const SMALLEST: u64 = 32;

/// The sizes in words of the stack buffers of a reader.
const SHORT: usize = 16;
const LONGER: usize = 128;

/// The class sizes for a segment size: 32, 40, 48, 56, 64, 80, ... in multiples of 8.
pub(super) fn class_sizes(segment: u64) -> impl Iterator<Item = u64> {
    (0..).map(class_size).take_while(move |&size| size <= segment / 4)
}

/// The block size of a class.
#[inline]
fn class_size(number: usize) -> u64 {
    let doubled = SMALLEST << (number / 4);
    doubled + number as u64 % 4 * doubled / 4
}

/// The number of the smallest class that holds `size` bytes, if there are classes of that size.
#[inline]
pub(super) fn class_for(size: u64) -> usize {
    let size = size.max(SMALLEST);
    let doublings = size.ilog2() - SMALLEST.ilog2();
    let quarter = SMALLEST.ilog2() - 2 + doublings;
    // A shift for what would be a division by a quarter of the doubled size.
    let quarters = (size + (1 << quarter) - 1 - (SMALLEST << doublings)) >> quarter;
    (u64::from(doublings) * 4 + quarters) as usize
}

/// The number of the class with blocks of this size, if there is one.
#[inline]
pub(super) fn class_of(bytes: u32) -> Option<u16> {
    let doublings = bytes.checked_ilog2()?.checked_sub(SMALLEST.ilog2())?;
    let quarter = SMALLEST.ilog2() - 2 + doublings;
    (bytes.trailing_zeros() >= quarter).then(|| (doublings * 4 + (bytes >> quarter) - 4) as u16)
}

/// Where a record lies, according to the segment table.
pub(crate) enum Location {
    /// A block of the class with this number, and its size in bytes.
    Block(u16, u64),
    /// The first segment, the end of the segments, and the most bytes that these may have.
    Extent(u32, u32, u64),
}

/// The location of the record at `at`, if it can be a record of the tree.
#[inline]
pub(crate) fn locate(segments: &Segments, tree: u16, at: u64) -> Option<Location> {
    let segment = segments.holding(at)?;
    let Some((unit, len)) = segments.unit(segment, SegmentKind::Record, tree) else {
        return locate_extent(segments, tree, at, segment);
    };
    let (number, bytes) = (class_of(unit)?, u64::from(unit));
    let within = segments.within(at);
    // Offsets in a segment are 32 bits wide, and those are divided faster.
    let whole = bytes <= segments.size() / 4 && (within as u32).is_multiple_of(unit) && within + bytes <= len;
    whole.then_some(Location::Block(number, bytes))
}

#[cold]
#[inline(never)]
fn locate_extent(segments: &Segments, tree: u16, at: u64, segment: u32) -> Option<Location> {
    let (unit, _) = segments.unit(segment, SegmentKind::Extent, tree)?;
    let whole = unit >= 1 && unit <= segments.count() - segment && segments.within(at) == 0;
    whole.then(|| Location::Extent(segment, segment + unit, u64::from(unit) * segments.size()))
}

/// Reading the records of the tree. Nothing here keeps them from being used again: see
/// [`Reading`](super::records::Reading).
impl<M: Medium> Access<'_, M> {
    /// The length of the record at `at`.
    #[inline(always)]
    pub(crate) fn record_len(self, at: u64) -> Result<u64, Broken> {
        if let Some(Location::Block(_, bytes)) = locate(self.segments, self.tree, at) {
            let len = self.m.load(at) & 0xffff_ffff;
            if len <= bytes - HEADER {
                return Ok(len);
            }
        }
        self.extent_len(at)
    }

    #[cold]
    #[inline(never)]
    fn extent_len(self, at: u64) -> Result<u64, Broken> {
        match locate(self.segments, self.tree, at) {
            Some(Location::Extent(segment, end, bytes)) => {
                let len = self.m.load(at) & 0xffff_ffff;
                // Space is reserved only for the segments that the extent really has.
                let is_rest =
                    |segment| self.segments.entry(segment).is_some_and(|entry| entry.kind == SegmentKind::Rest);
                if len > (bytes - HEADER).min(BYTES_MAX) {
                    Err(Broken::new(at, "V2: record longer than its block"))
                } else if !(segment + 1..end).all(is_rest) {
                    Err(Broken::new(at, "V1: a slot points to an extent that is not whole"))
                } else if len > self.segments.extent_bytes(segment).saturating_sub(HEADER) {
                    Err(Broken::new(at, "V2: record longer than its block"))
                } else {
                    Ok(len)
                }
            }
            Some(Location::Block(..)) => Err(Broken::new(at, "V2: record longer than its block")),
            None => Err(Broken::new(at, "V1: a slot points to no record of its tree")),
        }
    }

    /// Prefetches the record at `at`, as far as a short key and a short value reach. There need not be one.
    #[inline]
    pub(crate) fn prefetch_record(self, at: u64) {
        let Some(segment) = self.segments.holding(at) else { return };
        if let Some((unit, _)) = self.segments.unit(segment, SegmentKind::Record, self.tree) {
            let line_of = |at: u64| self.m.hint(at / LINE * LINE, LINE, Hint::Soon);
            // The block may begin anywhere in a line. To ask for a line twice is cheaper than a branch that cannot be
            // predicted.
            let last = u64::from(unit).min(3 * LINE) - 1;
            line_of(at);
            line_of(at + last);
            if last > LINE {
                line_of(at + LINE);
            }
        }
    }

    /// Copies bytes of the record at `at`, from the byte `from` on. The record has as many.
    #[inline]
    pub(crate) fn copy_record(self, at: u64, from: u64, out: &mut [u8]) {
        // The pool is read in whole words.
        let skip = (from % 8) as usize;
        let mut next = at + HEADER + from - skip as u64;
        let mut word = || {
            let word = self.m.load(next).to_ne_bytes();
            next += 8;
            word
        };
        let (first, rest) = out.split_at_mut(out.len().min((8 - skip) % 8));
        if !first.is_empty() {
            first.copy_from_slice(&word()[skip..skip + first.len()]);
        }
        let (whole, last) = rest.as_chunks_mut::<8>();
        whole.iter_mut().for_each(|bytes| *bytes = word());
        if !last.is_empty() {
            last.copy_from_slice(&word()[..last.len()]);
        }
    }

    /// The bytes of the record at `at`.
    pub(crate) fn read_record(self, at: u64) -> Result<Vec<u8>, Broken> {
        let len = self.record_len(at)?;
        delay();
        Ok(self.record_bytes(at, 0, len))
    }

    /// Bytes of the record at `at`, from the byte `from` on. The record has as many.
    pub(crate) fn record_bytes(self, at: u64, from: u64, len: u64) -> Vec<u8> {
        let mut words = [[0; 8]; SHORT];
        if let Some(bytes) = self.load_record(at, (from, len), &mut words) {
            // Allocating zeros would take twice as long.
            return words.as_flattened()[bytes].to_vec();
        }
        let mut bytes = vec![0; len as usize];
        self.copy_record(at, from, &mut bytes);
        bytes
    }

    /// Applies `read` to a copy of `len` bytes of the record at `at`, from the byte `from` on. The record has as many.
    /// The copy is on the stack if it is short. `read` gets no reference to the pool, where the bytes could be changed
    /// through another slot of a damaged tree, or by another process.
    #[inline]
    pub(crate) fn with_record<R>(self, at: u64, part: (u64, u64), read: impl FnOnce(&[u8]) -> R) -> R {
        let mut words = [[0; 8]; SHORT];
        match self.load_record(at, part, &mut words) {
            Some(bytes) => read(&words.as_flattened()[bytes]),
            None => self.with_long_record(at, part, read),
        }
    }

    #[inline(never)]
    fn with_long_record<R>(self, at: u64, part: (u64, u64), read: impl FnOnce(&[u8]) -> R) -> R {
        let mut words = [[0; 8]; LONGER];
        match self.load_record(at, part, &mut words) {
            Some(bytes) => read(&words.as_flattened()[bytes]),
            None => read(&self.record_bytes(at, part.0, part.1)),
        }
    }

    /// Loads the words of the record at `at` in which a part of it lies: `len` bytes from the byte `from` on. Returns
    /// where these bytes are in the words; `None` if there is no room for them.
    #[inline]
    pub(crate) fn load_record(self, at: u64, (from, len): (u64, u64), words: &mut [[u8; 8]]) -> Option<Range<usize>> {
        let skip = from % 8;
        let bytes = skip as usize..(skip + len) as usize;
        let first = at + HEADER + from - skip;
        let words = words.get_mut(..bytes.end.div_ceil(8))?;
        // There need not be a word behind the last one.
        let lent = if words.is_empty() { None } else { self.m.lend(first, words.len()) };
        match lent {
            Some(from) => {
                words.iter_mut().zip(from).for_each(|(word, from)| *word = from.load(Ordering::Relaxed).to_ne_bytes())
            }
            None => {
                words.iter_mut().zip((first..).step_by(8)).for_each(|(word, at)| *word = self.m.load(at).to_ne_bytes())
            }
        }
        Some(bytes)
    }

    /// Checks the record's length and checksum.
    pub(crate) fn check_record(self, at: u64) -> Result<(), Broken> {
        let len = self.record_len(at)?;
        // Read piece by piece: in a damaged pool, a record may claim a length for which there are no bytes.
        let mut hasher = crc32fast::Hasher::new();
        let mut piece = [0; 4096];
        for from in (0..len).step_by(piece.len()) {
            let bytes = &mut piece[..(len - from).min(4096) as usize];
            self.copy_record(at, from, bytes);
            hasher.update(bytes);
        }
        if u64::from(hasher.finalize()) == self.m.load(at) >> 32 {
            Ok(())
        } else {
            Err(Broken::new(at, "V2: record checksum"))
        }
    }
}

/// A set of records of one tree: one bit for each block.
pub(crate) struct RecordSet<'s> {
    segments: &'s Segments,
    tree: u16,
    /// The first segment of the tree, which gets no others as long as there is the set.
    first: u32,
    /// By segment, from the first one on; empty for segments without a record in the set.
    bits: Vec<Vec<u64>>,
}

impl<'s> RecordSet<'s> {
    pub(crate) fn new(segments: &'s Segments, tree: u16) -> Self {
        let first = segments.of_tree(tree).first().copied().unwrap_or(0);
        Self { segments, tree, first, bits: Vec::new() }
    }

    /// The segment of a record, counted from the first one, and its number there.
    fn number(&self, at: u64) -> Option<(usize, u64)> {
        let segment = self.segments.holding(at)?.checked_sub(self.first)? as usize;
        match locate(self.segments, self.tree, at)? {
            Location::Block(_, bytes) => Some((segment, self.segments.within(at) / bytes)),
            Location::Extent(..) => Some((segment, 0)),
        }
    }

    /// Adds a record. False if it was in the set; `None` if there can be no record.
    pub(crate) fn insert(&mut self, at: u64) -> Option<bool> {
        let (segment, number) = self.number(at)?;
        if self.bits.len() <= segment {
            self.bits.resize(segment + 1, Vec::new());
        }
        let bits = &mut self.bits[segment];
        if bits.is_empty() {
            bits.resize((self.segments.size() / SMALLEST).div_ceil(64) as usize, 0);
        }
        let (word, bit) = (&mut bits[(number / 64) as usize], 1 << (number % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        Some(is_new)
    }

    /// Whether a record is in the set.
    pub(crate) fn contains(&self, at: u64) -> bool {
        let has = |(segment, number): (usize, u64)| {
            let word = self.bits.get(segment).and_then(|bits| bits.get((number / 64) as usize));
            word.is_some_and(|word| word >> (number % 64) & 1 == 1)
        };
        self.number(at).is_some_and(has)
    }
}
