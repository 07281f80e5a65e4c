//! Records: byte values in the pool, reached by offset from a slot.
//!
//! The words of a record and the invariants V1 and V2 are in `docs/design.md`, section 2. Section 6 says when the space
//! of a record is used again.
//!
//! A record lies in a block of the smallest class that holds it. There are four classes per doubling, from 32 bytes up
//! to a quarter of a segment. A longer record has adjacent segments of its own (an extent). The last one is as long as
//! it needs.
//!
//! Retired records are in no list of free blocks and need none: after a crash they are free because no slot points to
//! them, and before an orderly close all of them are given back.

use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{Medium, Step};
use crate::pool::access::Access;
use crate::pool::blocks::Blocks;
use crate::pool::epochs::{Epochs, HEAVY, Pin, Staying, reads_here};
use crate::pool::patience::{YIELDS, give_way};
use crate::pool::record::{BYTES_MAX, HEADER, Location, RecordSet, class_for, class_sizes, locate};
use crate::pool::segments::{SegmentEntry, SegmentKind, Segments};
use crate::sync::delay::delay;
use crate::sync::version;
use std::collections::HashSet;

/// How often a writer sleeps for readers before a class takes another segment.
const SLEEPS_BEFORE_GROWTH: u32 = 8;

/// The records of one tree.
pub(crate) struct Records {
    tree: u16,
    /// One class of blocks per size, ascending.
    classes: Box<[Blocks]>,
    /// Records that no slot points to any longer.
    epochs: Epochs<Retired>,
}

/// A record that no slot points to any longer.
#[derive(Debug, Clone, Copy)]
struct Retired {
    at: u64,
    /// The number of its class; `None` if the record has segments of its own.
    class: Option<u16>,
}

impl Records {
    pub(crate) fn new(segments: &Segments, tree: u16) -> Self {
        let class = |size| Blocks::new(SegmentEntry::new(SegmentKind::Record, tree, size as u32));
        Self { tree, classes: class_sizes(segments.size()).map(class).collect(), epochs: Epochs::new() }
    }

    pub(crate) fn classes(&self) -> &[Blocks] {
        &self.classes
    }

    /// Bytes of memory that this takes, beside itself.
    pub(crate) fn memory(&self) -> u64 {
        let classes = self.classes.iter().map(Blocks::memory).sum::<u64>();
        size_of_val(&*self.classes) as u64 + classes + self.epochs.memory()
    }

    /// Frees everything that is not in `used`. Unused extents go back to the pool.
    pub(crate) fn recover<M: Medium>(&self, m: &M, segments: &Segments, used: &RecordSet<'_>) {
        for class in &*self.classes {
            class.recover(segments, |at| used.contains(at));
        }
        release_extents(m, segments, self.tree, |at| used.contains(at));
    }

    /// Notes that a record is in use. False if it has segments of its own. Nobody writes records meanwhile.
    pub(crate) fn note_used(&self, segments: &Segments, at: u64) -> bool {
        match locate(segments, self.tree, at) {
            Some(Location::Block(class, _)) => {
                self.classes[usize::from(class)].note_used(segments, at);
                true
            }
            _ => false,
        }
    }

    /// Writes a record that consists of these parts. Flushed, but not fenced. Before a class takes another segment,
    /// this waits for a moment for readers of retired records.
    pub(crate) fn write<M: Medium>(&self, m: &M, segments: &Segments, parts: &[&[u8]]) -> Result<u64, Fault> {
        self.write_in(m, segments, parts, YIELDS + SLEEPS_BEFORE_GROWTH)
    }

    /// Writes a record for a writer that has waited for space.
    pub(crate) fn write_again<M: Medium>(&self, m: &M, segments: &Segments, parts: &[&[u8]]) -> Result<u64, Fault> {
        self.write_in(m, segments, parts, 0)
    }

    /// Writes a record, with so many tries to find a block that was retired.
    fn write_in<M: Medium>(&self, m: &M, segments: &Segments, parts: &[&[u8]], tries: u32) -> Result<u64, Fault> {
        let size = size_of_record(parts)?;
        let at = self.find_space(m, segments, size, tries)?;
        self.store(m, at, size, parts);
        Ok(at)
    }

    /// Writes a record, for a thread that has locked a leaf. A reader may wait for that leaf, so the thread must not
    /// wait for readers. The record is durable when this returns.
    pub(crate) fn write_at_once<M: Medium>(&self, m: &M, segments: &Segments, parts: &[&[u8]]) -> Result<u64, Fault> {
        let size = size_of_record(parts)?;
        let at = match self.classes.get(class_for(size)) {
            Some(class) => class.allocate(m, segments)?.at,
            None => self.assign(m, segments, size)?,
        };
        self.store(m, at, size, parts);
        m.fence(Step::RecordWrite);
        Ok(at)
    }

    /// Stores a record of `size` bytes in its block. Flushed, but not fenced.
    fn store<M: Medium>(&self, m: &M, at: u64, size: u64, parts: &[&[u8]]) {
        delay();
        // A reader that pinned an epoch had left before the block was given back. One that relies on the version of its
        // leaf may still read here: what it sees from now on must come after the change of that version.
        version::announce();
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let mut hasher = crc32fast::Hasher::new();
        let mut words = WordWriter { m, next: at + HEADER, filled: 0, piece: [0; PIECE] };
        for part in parts {
            hasher.update(part);
            words.push(part);
        }
        words.end();
        m.store(at, len | u64::from(hasher.finalize()) << 32);
        m.flush(at, size, Step::RecordWrite);
    }

    /// Whether a record lies in a closed segment.
    pub(crate) fn is_withheld(&self, segments: &Segments, at: u64) -> bool {
        let class = match locate(segments, self.tree, at) {
            Some(Location::Block(class, _)) => self.classes.get(usize::from(class)),
            _ => None,
        };
        class.is_some_and(|class| class.is_withheld(segments, at))
    }

    /// Copies a record to another block of its class, if there is one. Returns where it is, and how long
    /// it is in bytes. Flushed, but not fenced. Nobody changes the record meanwhile.
    pub(crate) fn copy<M: Medium>(&self, m: &M, segments: &Segments, at: u64) -> Result<Option<(u64, u64)>, Broken> {
        let size = HEADER + Access { m, segments, tree: self.tree }.record_len(at)?.next_multiple_of(8);
        let Some(Location::Block(class, _)) = locate(segments, self.tree, at) else { return Ok(None) };
        let Some(block) = self.classes[usize::from(class)].take_to_move(m, segments) else { return Ok(None) };
        // As in `store`: a late reader of the block must see the change that made it free.
        version::announce();
        let mut piece = [0; PIECE / 8];
        for from in (0..size).step_by(PIECE) {
            let words = &mut piece[..((size - from).min(PIECE as u64) / 8) as usize];
            m.load_words(at + from, words);
            words.iter().zip((block.at + from..).step_by(8)).for_each(|(&word, at)| m.store(at, word));
        }
        // The checksum is copied, too: what was damaged stays damaged.
        m.flush(block.at, size, Step::RecordMove);
        Ok(Some((block.at, size)))
    }

    /// Gives back what readers have left, and lets them leave for a moment, while there are closed segments that what
    /// is retired may keep from becoming empty.
    pub(crate) fn collect_closed<M: Medium>(&self, m: &M, segments: &Segments) {
        for tries in 0.. {
            self.collect(m, segments);
            let waits =
                tries < YIELDS && self.epochs.has_retired() && self.classes.iter().any(|class| class.closed() > 0);
            if !waits {
                break;
            }
            give_way(tries);
        }
    }

    /// Finds adjacent segments for a record of `size` bytes.
    fn assign<M: Medium>(&self, m: &M, segments: &Segments, size: u64) -> Result<u64, Fault> {
        segments.assign_extent(m, self.tree, size).map(|segment| segments.start(segment))
    }

    /// Finds space for a record of `size` bytes. Retired records are collected before the pool is asked for more.
    fn find_space<M: Medium>(&self, m: &M, segments: &Segments, size: u64, tries: u32) -> Result<u64, Fault> {
        let class = self.classes.get(class_for(size));
        if let Some(block) = class.and_then(|class| class.take_at_hand(segments)) {
            return Ok(block.at);
        }
        self.collect(m, segments);
        let Some(class) = class else { return self.assign(m, segments, size) };
        match self.take_of_retired(m, segments, class, tries) {
            Some(at) => Ok(at),
            None => class.allocate(m, segments).map(|block| block.at),
        }
    }

    /// Takes a block that was retired, if readers leave soon. While a reader is not running, nothing comes back, and
    /// its writers would turn the pool into segments of the classes that they use.
    fn take_of_retired<M: Medium>(&self, m: &M, segments: &Segments, class: &Blocks, tries: u32) -> Option<u64> {
        let most = if reads_here() { 0 } else { tries };
        for tries in 0..most {
            if let Some(block) = class.take_at_hand(segments) {
                return Some(block.at);
            }
            if !self.epochs.has_retired() {
                return None;
            }
            give_way(tries);
            self.collect(m, segments);
        }
        None
    }

    /// Whether readers keep records that were retired, or a thread is just giving them back.
    pub(crate) fn has_retired(&self) -> bool {
        self.epochs.has_retired()
    }

    /// Starts a reading. Records that slots point to from now on stay as they are until it ends.
    #[inline]
    pub(crate) fn reading<'r, M: Medium>(&'r self, m: &'r M, segments: &'r Segments) -> Reading<'r, M> {
        let pool = Access { m, segments, tree: self.tree };
        Reading { records: self, pool, pin: Some(self.epochs.pin()), staying: None }
    }

    /// Gives back the space of a record to which no slot ever pointed.
    pub(crate) fn discard<M: Medium>(&self, m: &M, segments: &Segments, at: u64) {
        if let Some((record, _)) = self.weigh(segments, at) {
            self.give_back(m, segments, &[record]);
        }
    }

    /// Retires records to which slots, durably, no longer point. Readers may still know them.
    #[inline]
    pub(crate) fn retire<M: Medium>(&self, m: &M, segments: &Segments, records: impl IntoIterator<Item = u64>) {
        delay();
        let weighed = records.into_iter().filter_map(|at| self.weigh(segments, at));
        let ripe = self.epochs.retire(weighed);
        if !ripe.is_empty() {
            self.give_back(m, segments, &ripe);
        }
    }

    /// A record to retire, and its weight in bytes. `None` if the offset is damaged and no record can be there: the
    /// space then belongs to something else.
    #[inline]
    fn weigh(&self, segments: &Segments, at: u64) -> Option<(Retired, u64)> {
        Some(match locate(segments, self.tree, at)? {
            Location::Block(class, bytes) => (Retired { at, class: Some(class) }, bytes),
            // Extents count as heavy, because all trees need segments.
            Location::Extent(.., bytes) => (Retired { at, class: None }, HEAVY.max(bytes)),
        })
    }

    /// Gives back the space that readers can no longer know.
    pub(crate) fn collect<M: Medium>(&self, m: &M, segments: &Segments) {
        self.give_back(m, segments, &self.epochs.collect());
    }

    /// Gives back what no reader could know if records had to wait for `grace` epochs.
    #[cfg(all(test, bristlecone_loom))]
    pub(super) fn collect_after<M: Medium>(&self, m: &M, segments: &Segments, grace: u64) {
        self.give_back(m, segments, &self.epochs.collect_after(grace));
    }

    /// Gives back all retired space. The exclusive borrow ensures that nobody reads.
    pub(crate) fn give_back_retired<M: Medium>(&mut self, m: &M, segments: &Segments) {
        let retired = self.epochs.take_retired();
        self.give_back(m, segments, &retired);
    }

    /// The records that are currently retired.
    pub(crate) fn retired(&self) -> Vec<u64> {
        self.epochs.retired().into_iter().map(|record| record.at).collect()
    }

    /// Gives back the space of these. A reader that ends does so, too, and a transaction that fails: outside of any
    /// change.
    fn give_back<M: Medium>(&self, m: &M, segments: &Segments, records: &[Retired]) {
        if records.is_empty() {
            return;
        }
        let _window = m.window();
        for alike in records.chunk_by(|one, other| one.class == other.class) {
            delay();
            let offsets = alike.iter().map(|record| record.at);
            match alike[0].class {
                Some(class) => self.classes[usize::from(class)].give_all(m, segments, offsets),
                None => {
                    for at in offsets {
                        // In a damaged pool, a record that two slots point to may have been given back before.
                        if let Some(Location::Extent(segment, ..)) = locate(segments, self.tree, at) {
                            segments.retire_extent(m, segment, self.tree);
                        }
                    }
                }
            }
        }
    }
}

/// The size in bytes of a record of these parts.
fn size_of_record(parts: &[&[u8]]) -> Result<u64, Fault> {
    let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
    if len > BYTES_MAX {
        return Err(ErrorKind::RecordTooLong { len, limit: BYTES_MAX }.into());
    }
    Ok(HEADER + len.next_multiple_of(8))
}

/// How many bytes of a record are stored at a time.
const PIECE: usize = 256;

/// Stores bytes as words, one piece after the other.
struct WordWriter<'m, M: Medium> {
    m: &'m M,
    next: u64,
    filled: usize,
    piece: [u8; PIECE],
}

impl<M: Medium> WordWriter<'_, M> {
    #[inline]
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.filled));
            self.piece[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            if self.filled == PIECE {
                self.store();
            }
            bytes = later;
        }
    }

    /// Pads the last word with zeros.
    #[inline]
    fn end(&mut self) {
        let whole = self.filled.next_multiple_of(8);
        self.piece[self.filled..whole].fill(0);
        self.filled = whole;
        self.store();
    }

    #[inline]
    fn store(&mut self) {
        let (words, _) = self.piece[..self.filled].as_chunks::<8>();
        for (word, at) in words.iter().zip((self.next..).step_by(8)) {
            self.m.store(at, u64::from_ne_bytes(*word));
        }
        self.next += self.filled as u64;
        self.filled = 0;
    }
}

/// A reader of records. While it lasts, the space of a record is not used again if a slot pointed to that record when
/// the reader began, or later.
pub(crate) struct Reading<'r, M: Medium> {
    records: &'r Records,
    pub(crate) pool: Access<'r, M>,
    /// Present until the reader is dropped.
    pin: Option<Pin<'r>>,
    /// Present if the reader outlasts a call.
    staying: Option<Staying>,
}

impl<M: Medium> Reading<'_, M> {
    /// Marks a reader as one that outlasts a call. Writers on this thread do not wait long for it.
    pub(crate) fn staying(mut self) -> Self {
        self.staying = Some(Staying::here());
        self
    }

    /// A reader without a pin.
    #[cfg(all(test, bristlecone_loom))]
    pub(super) fn unpinned(mut self) -> Self {
        self.pin = None;
        self
    }

    /// Copies the bytes of the record at `at`, ends this reader, and then applies `read` to the copy.
    pub(crate) fn with<R>(self, at: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Broken> {
        let len = self.pool.record_len(at)?;
        delay();
        Ok(self.with_part(at, (0, len), read))
    }

    /// Copies a part of the record at `at`, ends this reader, and then applies `read` to the copy. `part` is where the
    /// part begins in the record, and its length in bytes.
    pub(crate) fn with_part<R>(self, at: u64, part: (u64, u64), read: impl FnOnce(&[u8]) -> R) -> R {
        let pool = self.pool;
        pool.with_record(at, part, |bytes| {
            drop(self);
            read(bytes)
        })
    }
}

impl<M: Medium> Drop for Reading<'_, M> {
    #[inline]
    fn drop(&mut self) {
        // Not in a forked child: the pool belongs to its parent.
        let Access { m, segments, .. } = self.pool;
        if self.pin.take().is_some_and(Pin::leave) && !m.forked() {
            self.records.collect(m, segments);
        }
    }
}

/// Gives all segments of a tree's extents back to the pool, except for the extents in `used`.
pub(crate) fn release_extents<M: Medium>(m: &M, segments: &Segments, tree: u16, used: impl Fn(u64) -> bool) {
    let heads = segments.owned(tree, SegmentKind::Extent, 0).into_iter();
    let (used, unused): (Vec<u32>, Vec<u32>) = heads.partition(|&head| used(segments.start(head)));
    // This includes segments that follow no head: a crash between the entries of one extent leaves them.
    let kept: HashSet<u32> = used.into_iter().flat_map(|head| segments.extent(head)).collect();
    let rest = segments.owned(tree, SegmentKind::Rest, 0).into_iter().filter(|segment| !kept.contains(segment));
    segments.release(m, unused.into_iter().chain(rest), |entry| entry.tree == tree);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Dram;
    use crate::pool::format::PoolGeometry;
    use crate::pool::record::class_of;

    fn pool() -> (Dram, Segments, Records) {
        let geometry = PoolGeometry { segment: 4096, capacity: 256 << 10 };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        let records = Records::new(&segments, 2);
        (m, segments, records)
    }

    #[test]
    fn the_class_for_a_size_is_the_smallest_that_holds_it() {
        let sizes: Vec<u64> = class_sizes(1 << 20).collect();
        for size in (0..5000).chain(sizes.iter().flat_map(|size| size - 1..=size + 1)) {
            let smallest = sizes.iter().position(|&class| class >= size).unwrap_or(sizes.len());
            assert_eq!(class_for(size), smallest, "{size}");
            let exact = sizes.iter().position(|&class| class == size).map(|number| number as u16);
            assert_eq!(class_of(size as u32).filter(|_| size <= 1 << 18), exact, "{size}");
        }
    }

    #[test]
    fn every_length_is_read_back() {
        let (m, segments, records) = pool();
        for len in (0..200).chain([1015, 1016, 1017, 4088, 4089, 9000]) {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            let at = records.write(&m, &segments, &[&bytes]).unwrap();
            assert_eq!(records.reading(&m, &segments).pool.read_record(at).unwrap(), bytes);
            assert!(records.reading(&m, &segments).with(at, |read| read == bytes).unwrap());
            records.reading(&m, &segments).pool.check_record(at).unwrap();
            records.retire(&m, &segments, [at]);
        }
        // Everything was given back, so the record fits again and again.
        for _ in 0..100 {
            let at = records.write(&m, &segments, &[&[7; 60_000]]).unwrap();
            records.discard(&m, &segments, at);
        }
    }

    #[test]
    fn a_reader_that_stays_is_one_of_the_thread_where_it_began() {
        let (m, segments, records) = pool();
        let begin = || records.reading(&m, &segments).staying();
        assert!(!reads_here());
        let (one, another) = (begin(), begin());
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                let own = begin();
                // Ending here is as good as ending on the thread where it began.
                drop(one);
                assert!(reads_here());
                drop(own);
                assert!(!reads_here());
            });
            elsewhere.join().unwrap();
        });
        assert!(reads_here());
        drop(another);
        assert!(!reads_here());
        // A reader that never ends no longer counts for any thread once its thread has ended.
        std::thread::scope(|scope| drop(scope.spawn(|| std::mem::forget(begin()))));
        assert!(!reads_here());
    }

    #[test]
    fn a_wrong_offset_is_an_error() {
        let (m, segments, records) = pool();
        let at = records.write(&m, &segments, &[b"hello"]).unwrap();
        for wrong in [0, at + 8, at + 1, u64::MAX, segments.start(7)] {
            assert!(records.reading(&m, &segments).pool.read_record(wrong).is_err(), "{wrong}");
        }
        m.store(at, u64::MAX);
        assert!(records.reading(&m, &segments).pool.read_record(at).is_err());
        m.store(at, 3);
        assert!(records.reading(&m, &segments).pool.check_record(at).is_err());
        assert!(matches!(Records::new(&segments, 1).reading(&m, &segments).pool.read_record(at), Err(Broken { .. })));
    }
}
