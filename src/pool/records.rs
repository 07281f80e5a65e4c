//! Records: byte values in the pool, reached by offset from a slot.
//!
//! The words of a record and the invariants V1 and V2 are in `docs/design.md`, section 2. Section 6 says when the space
//! of a record is used again.
//!
//! A record lies in a block of the smallest class that holds it. There are four classes per doubling, from 32 bytes up
//! to a quarter of a segment. A longer record has adjacent segments of its own (an extent).
//!
//! Retired records are in no list of free blocks and need none: after a crash they are free because no slot points to
//! them, and before an orderly close all of them are given back.

use crate::delay::delay;
use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{Medium, Step};
use crate::pool::blocks::Blocks;
use crate::pool::epochs::{Epochs, HEAVY, Pin, Staying, reads_here};
use crate::pool::segments::{SegmentEntry, SegmentKind, Segments};
use crate::sync::{sleep, yield_now};
use std::collections::HashSet;
use std::time::Duration;

/// The longest record, in bytes.
pub(crate) const RECORD_MAX: u64 = 1 << 30;
const HEADER: u64 = 8;
const SMALLEST: u64 = 32;

/// When there is no space, a writer first yields up to `YIELDS` times, for readers that may have lost their processor.
/// Then it sleeps up to `SLEEPS` times, for a [`NAP`] each. A thread that is itself reading would wait in vain, unless
/// it reads another tree: it sleeps up to `SLEEPS_OF_READER` times.
const YIELDS: u32 = 64;
const SLEEPS: u32 = 3000;
const SLEEPS_OF_READER: u32 = 30;
/// The number of these sleeps before a class takes another segment.
const SLEEPS_BEFORE_GROWTH: u32 = 8;
const NAP: Duration = Duration::from_millis(1);

/// The records of one tree.
pub(crate) struct Records {
    tree: u16,
    /// One class of blocks per size, ascending.
    classes: Vec<Blocks>,
    /// Records that no slot points to any longer.
    epochs: Epochs<Retired>,
}

/// Where a record lies, according to the segment table.
enum Location {
    /// A block of the class with this number, and its size in bytes.
    Block(u16, u64),
    /// The first segment, the end of the segments, and the size in bytes.
    Extent(u32, u32, u64),
}

/// A record that no slot points to any longer.
#[derive(Debug, Clone, Copy)]
struct Retired {
    at: u64,
    /// The number of its class; `None` if the record has segments of its own.
    class: Option<u16>,
}

/// The number of words that are copied at a time.
const PIECE: usize = 32;
/// The sizes in bytes of the stack buffers of a [reader](Reading::with).
const SHORT: u64 = 128;
const LONGER: u64 = 1024;

/// The class sizes for a segment size: 32, 40, 48, 56, 64, 80, ... in multiples of 8.
fn class_sizes(segment: u64) -> impl Iterator<Item = u64> {
    let doublings = std::iter::successors(Some(SMALLEST), |size| Some(size * 2));
    doublings
        .flat_map(|size| (0..4).map(move |quarter| size + quarter * size / 4))
        .take_while(move |&size| size <= segment / 4)
}

/// The number of the smallest class that holds `size` bytes, if there are classes of that size.
#[inline]
fn class_for(size: u64) -> usize {
    let size = size.max(SMALLEST);
    let doublings = size.ilog2() - SMALLEST.ilog2();
    let quarter = (SMALLEST << doublings) / 4;
    (u64::from(doublings) * 4 + (size - (SMALLEST << doublings)).div_ceil(quarter)) as usize
}

/// Lets readers run. `tries` says how often this was already done.
fn give_way(tries: u32) {
    if tries < YIELDS { yield_now() } else { sleep(NAP) }
}

impl Records {
    pub(crate) fn new(segments: &Segments, tree: u16) -> Self {
        let class = |size| Blocks::new(SegmentEntry::new(SegmentKind::Record, tree, size as u32));
        Self { tree, classes: class_sizes(segments.size()).map(class).collect(), epochs: Epochs::new() }
    }

    pub(crate) fn classes(&self) -> &[Blocks] {
        &self.classes
    }

    /// Frees everything that is not in `used`. Unused extents go back to the pool.
    pub(crate) fn recover<M: Medium>(&self, m: &M, segments: &Segments, used: &HashSet<u64>) {
        for class in &self.classes {
            class.recover(segments, |at| used.contains(&at));
        }
        release_extents(m, segments, self.tree, |at| used.contains(&at));
    }

    /// Writes a record. It is durable when this returns.
    pub(crate) fn write<M: Medium>(&self, m: &M, segments: &Segments, bytes: &[u8]) -> Result<u64, Fault> {
        let len = bytes.len() as u64;
        if len > RECORD_MAX {
            return Err(ErrorKind::RecordTooLong { len, limit: RECORD_MAX }.into());
        }
        let size = HEADER + len.next_multiple_of(8);
        let at = self.take(m, segments, size)?;
        delay();
        // This needs no fence before the first store: every reader of this block had left before it was given back (see
        // `epochs`).
        m.store(at, len | u64::from(crc32fast::hash(bytes)) << 32);
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            m.store(at + HEADER + i as u64 * 8, u64::from_ne_bytes(word));
        }
        m.flush(at, size, Step::RecordWrite);
        m.fence(Step::RecordWrite);
        Ok(at)
    }

    /// Finds space for a record of `size` bytes. Retired records are collected before the pool is asked for more.
    fn take<M: Medium>(&self, m: &M, segments: &Segments, size: u64) -> Result<u64, Fault> {
        let class = self.classes.get(class_for(size));
        if let Some(block) = class.and_then(Blocks::take_at_hand) {
            return Ok(block.at);
        }
        self.collect(m, segments);
        match class {
            Some(class) => {
                if let Some(at) = self.take_of_retired(m, segments, class) {
                    return Ok(at);
                }
                let take = || class.take(m, segments).map(|block| block.at);
                take().or_else(|fault| self.patiently(m, segments, Epochs::has_retired, fault, take))
            }
            None => {
                let count = size.div_ceil(segments.size()) as u32;
                let entry = SegmentEntry::new(SegmentKind::Extent, self.tree, count);
                let assign = || segments.assign(m, entry, count).map(|(segment, _)| segments.start(segment));
                assign().or_else(|fault| self.patiently(m, segments, Epochs::is_awaited, fault, assign))
            }
        }
    }

    /// Takes a block that was retired, if readers leave soon. A class never gives a segment back. So while a reader is
    /// not running, its writers would turn the pool into segments of the classes that they use.
    fn take_of_retired<M: Medium>(&self, m: &M, segments: &Segments, class: &Blocks) -> Option<u64> {
        let most = if reads_here() { 0 } else { YIELDS + SLEEPS_BEFORE_GROWTH };
        for tries in 0..most {
            if let Some(block) = class.take_at_hand() {
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

    /// Retries for a while what failed with `fault`, if it failed for want of space and as long as there is hope that
    /// readers leave and space comes back.
    #[cold]
    fn patiently<M: Medium, T>(
        &self,
        m: &M,
        segments: &Segments,
        hope: fn(&Epochs<Retired>) -> bool,
        fault: Fault,
        mut attempt: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut result = Err(fault);
        for tries in 0.. {
            if !result.as_ref().is_err_and(Fault::is_out_of_space) || !self.gave_way(m, segments, hope, tries) {
                break;
            }
            result = attempt();
        }
        result
    }

    /// Lets readers run, if there is still hope after this many tries.
    fn gave_way<M: Medium>(&self, m: &M, segments: &Segments, hope: fn(&Epochs<Retired>) -> bool, tries: u32) -> bool {
        let most = YIELDS + if reads_here() { SLEEPS_OF_READER } else { SLEEPS };
        let is_hope = tries < most && hope(&self.epochs);
        if is_hope {
            give_way(tries);
            self.collect(m, segments);
        }
        is_hope
    }

    /// Retries what failed with `fault` and may need segments for something other than a record, as long as segments of
    /// this tree are about to come back.
    pub(crate) fn with_space<M: Medium, T>(
        &self,
        m: &M,
        segments: &Segments,
        fault: Fault,
        attempt: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.patiently(m, segments, Epochs::is_awaited, fault, attempt)
    }

    /// The location of the record at `at`, if it can be a record of this tree.
    #[inline]
    fn place(&self, segments: &Segments, at: u64) -> Option<Location> {
        let segment = segments.of(at)?;
        let SegmentEntry { kind, unit, .. } = segments.entry(segment).filter(|entry| entry.tree == self.tree)?;
        let (within, size) = (segments.within(at), segments.size());
        match kind {
            SegmentKind::Record => {
                let (number, bytes) = (class_for(unit.into()), u64::from(unit));
                let is_class = self.classes.get(number).is_some_and(|class| class.class().unit == unit);
                let whole = is_class && within.is_multiple_of(bytes) && within + bytes <= size;
                whole.then_some(Location::Block(number as u16, bytes))
            }
            SegmentKind::Extent => {
                let whole = unit >= 1 && unit <= segments.count() - segment && within == 0;
                whole.then(|| Location::Extent(segment, segment + unit, u64::from(unit) * size))
            }
            _ => None,
        }
    }

    /// The length of the record at `at`.
    fn len<M: Medium>(&self, m: &M, segments: &Segments, at: u64) -> Result<u64, Broken> {
        let place = self.place(segments, at).ok_or(Broken::new(at, "V1: a slot points to no record of its tree"))?;
        let (Location::Block(_, bytes) | Location::Extent(.., bytes)) = place;
        let len = m.load(at) & 0xffff_ffff;
        if len > (bytes - HEADER).min(RECORD_MAX) {
            return Err(Broken::new(at, "V2: record longer than its block"));
        }
        if let Location::Extent(segment, end, _) = place {
            // Space is reserved only for the segments that the extent really has.
            let is_rest = |segment| segments.entry(segment).is_some_and(|entry| entry.kind == SegmentKind::Rest);
            if !(segment + 1..end).all(is_rest) {
                return Err(Broken::new(at, "V1: a slot points to an extent that is not whole"));
            }
        }
        Ok(len)
    }

    /// Starts a reading. Records that slots point to from now on stay as they are until it ends.
    #[inline]
    pub(crate) fn reading<'r, M: Medium>(&'r self, m: &'r M, segments: &'r Segments) -> Reading<'r, M> {
        Reading { records: self, m, segments, pin: Some(self.epochs.pin()), staying: None }
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
        Some(match self.place(segments, at)? {
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
    #[cfg(all(test, loom))]
    pub(super) fn collect_after<M: Medium>(&self, m: &M, segments: &Segments, grace: u64) {
        self.give_back(m, segments, &self.epochs.collect_after(grace));
    }

    /// Gives back all retired space. The exclusive borrow ensures that nobody reads.
    pub(crate) fn settle<M: Medium>(&mut self, m: &M, segments: &Segments) {
        let retired = self.epochs.take_retired();
        self.give_back(m, segments, &retired);
    }

    /// The records that are currently retired.
    pub(crate) fn retired(&self) -> Vec<u64> {
        self.epochs.retired().into_iter().map(|record| record.at).collect()
    }

    fn give_back<M: Medium>(&self, m: &M, segments: &Segments, records: &[Retired]) {
        let mut extents = Vec::new();
        for alike in records.chunk_by(|one, other| one.class == other.class) {
            delay();
            let offsets = alike.iter().map(|record| record.at);
            match alike[0].class {
                Some(class) => self.classes[usize::from(class)].give_all(offsets),
                // In a damaged pool, a record that two slots point to may have been given back before.
                None => {
                    extents.extend(offsets.filter_map(|at| self.place(segments, at)).flat_map(|place| match place {
                        Location::Extent(segment, ..) => extent(segments, segment),
                        Location::Block(..) => Vec::new(),
                    }))
                }
            }
        }
        if !extents.is_empty() {
            segments.release(m, extents, |entry| entry.tree == self.tree);
        }
    }
}

/// A reader of records. While it lasts, the space of a record is not used again if a slot pointed to that record when
/// the reader began, or later.
pub(crate) struct Reading<'r, M: Medium> {
    records: &'r Records,
    m: &'r M,
    segments: &'r Segments,
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

    /// The bytes of the record at `at`. A slot points to it, or did so after this reader had begun.
    pub(crate) fn read(&self, at: u64) -> Result<Vec<u8>, Broken> {
        let len = self.records.len(self.m, self.segments, at)?;
        delay();
        let room = len.next_multiple_of(8) as usize;
        if len <= SHORT {
            // Allocating zeros would take twice as long.
            let bytes = &mut [0; SHORT as usize][..room];
            self.copy(at + HEADER, bytes);
            return Ok(bytes[..len as usize].to_vec());
        }
        let mut bytes = vec![0; room];
        self.copy(at + HEADER, &mut bytes);
        bytes.truncate(len as usize);
        Ok(bytes)
    }

    /// A reader without a pin.
    #[cfg(all(test, loom))]
    pub(super) fn unpinned(mut self) -> Self {
        self.pin = None;
        self
    }

    /// Ends this reader and applies `read` to a copy of the bytes of the record at `at`. The copy is on the stack if
    /// the record is short. `read` gets no reference to the pool, where the bytes could be changed through another slot
    /// of a damaged tree, or by another process.
    pub(crate) fn with<R>(self, at: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Broken> {
        let len = self.records.len(self.m, self.segments, at)?;
        delay();
        let room = len.next_multiple_of(8) as usize;
        Ok(if len <= SHORT {
            self.with_copy(at, &mut [0; SHORT as usize][..room], len, read)
        } else if len <= LONGER {
            self.with_copy(at, &mut [0; LONGER as usize][..room], len, read)
        } else {
            self.with_copy(at, &mut vec![0; room], len, read)
        })
    }

    fn with_copy<R>(self, at: u64, bytes: &mut [u8], len: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        self.copy(at + HEADER, bytes);
        drop(self);
        read(&bytes[..len as usize])
    }

    /// Copies whole words.
    fn copy(&self, at: u64, bytes: &mut [u8]) {
        let mut words = [0; PIECE];
        for (piece, at) in bytes.chunks_mut(PIECE * 8).zip((at..).step_by(PIECE * 8)) {
            let words = &mut words[..piece.len() / 8];
            self.m.load_words(at, words);
            piece.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_ne_bytes()));
        }
    }

    /// Checks the record's length and checksum.
    pub(crate) fn check(&self, at: u64) -> Result<(), Broken> {
        let len = self.records.len(self.m, self.segments, at)?;
        // Read piece by piece: in a damaged pool, a record may claim a length for which there are no bytes.
        let mut hasher = crc32fast::Hasher::new();
        let mut piece = [0; 4096];
        for from in (0..len).step_by(piece.len()) {
            let bytes = &mut piece[..(len - from).next_multiple_of(8).min(4096) as usize];
            self.copy(at + HEADER + from, bytes);
            hasher.update(&bytes[..(len - from).min(4096) as usize]);
        }
        if u64::from(hasher.finalize()) == self.m.load(at) >> 32 {
            Ok(())
        } else {
            Err(Broken::new(at, "V2: record checksum"))
        }
    }
}

impl<M: Medium> Drop for Reading<'_, M> {
    #[inline]
    fn drop(&mut self) {
        // Not in a forked child: the pool belongs to its parent.
        if self.pin.take().is_some_and(Pin::leave) && !self.m.forked() {
            self.records.collect(self.m, self.segments);
        }
    }
}

/// The segments of an extent.
pub(crate) fn extent(segments: &Segments, head: u32) -> Vec<u32> {
    let count = segments.entry(head).map_or(1, |entry| entry.unit);
    let rest = (head + 1..head.saturating_add(count))
        .take_while(|&segment| segments.entry(segment).is_some_and(|entry| entry.kind == SegmentKind::Rest));
    std::iter::once(head).chain(rest).collect()
}

/// Gives all segments of a tree's extents back to the pool, except for the extents in `used`.
pub(crate) fn release_extents<M: Medium>(m: &M, segments: &Segments, tree: u16, used: impl Fn(u64) -> bool) {
    let heads = segments.owned(tree, SegmentKind::Extent, 0).into_iter();
    let (used, unused): (Vec<u32>, Vec<u32>) = heads.partition(|&head| used(segments.start(head)));
    // This includes segments that follow no head: a crash between the entries of one extent leaves them.
    let kept: HashSet<u32> = used.into_iter().flat_map(|head| extent(segments, head)).collect();
    let rest = segments.owned(tree, SegmentKind::Rest, 0).into_iter().filter(|segment| !kept.contains(segment));
    segments.release(m, unused.into_iter().chain(rest), |entry| entry.tree == tree);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Dram;
    use crate::pool::format::Geometry;

    fn pool() -> (Dram, Segments, Records) {
        let geometry = Geometry { segment: 4096, limit: 64, trees: 4, capacity: 256 << 10 };
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
        }
    }

    #[test]
    fn every_length_is_read_back() {
        let (m, segments, records) = pool();
        for len in (0..200).chain([1015, 1016, 1017, 4088, 4089, 9000]) {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            let at = records.write(&m, &segments, &bytes).unwrap();
            assert_eq!(records.reading(&m, &segments).read(at).unwrap(), bytes);
            assert!(records.reading(&m, &segments).with(at, |read| read == bytes).unwrap());
            records.reading(&m, &segments).check(at).unwrap();
            records.retire(&m, &segments, [at]);
        }
        // Everything was given back, so the record fits again and again.
        for _ in 0..100 {
            let at = records.write(&m, &segments, &[7; 60_000]).unwrap();
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
        let at = records.write(&m, &segments, b"hello").unwrap();
        for wrong in [0, at + 8, at + 1, u64::MAX, segments.start(7)] {
            assert!(records.reading(&m, &segments).read(wrong).is_err(), "{wrong}");
        }
        m.store(at, u64::MAX);
        assert!(records.reading(&m, &segments).read(at).is_err());
        m.store(at, 3);
        assert!(records.reading(&m, &segments).check(at).is_err());
        assert!(matches!(Records::new(&segments, 1).reading(&m, &segments).read(at), Err(Broken { .. })));
    }
}
