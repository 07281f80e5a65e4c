//! Records: byte values in the pool, reached by offset from a slot.
//!
//! ```text
//! record  | length 32, CRC-32 of the bytes 32 | bytes, padded with zeros to whole words |
//! ```
//!
//! A record lies in a block of the smallest class that holds it, four classes per doubling from 32 bytes up to a
//! quarter of a segment; a longer one has adjacent segments of its own (a span).
//!
//! Invariants:
//! - **V1** A record is durable before the slot that points to it is stored.
//! - **V2** A record never changes while a slot points to it.

use crate::delay::delay;
use crate::error::{Broken, Error, Result};
use crate::medium::Medium;
use crate::pool::blocks::Blocks;
use crate::pool::segments::{Entry, Kind, Segments};
use std::collections::HashSet;

/// The longest record, in bytes.
pub(crate) const RECORD_MAX: u64 = 1 << 30;
const HEADER: u64 = 8;
const SMALLEST: u64 = 32;

/// The records of one tree.
pub(crate) struct Records {
    tree: u16,
    /// One class of blocks per size, ascending.
    classes: Vec<Blocks>,
}

/// The class sizes for a segment size: 32, 40, 48, 56, 64, 80, ... in multiples of 8.
fn class_sizes(segment: u64) -> impl Iterator<Item = u64> {
    let doublings = std::iter::successors(Some(SMALLEST), |size| Some(size * 2));
    doublings
        .flat_map(|size| (0..4).map(move |quarter| size + quarter * size / 4))
        .take_while(move |&size| size <= segment / 4)
}

impl Records {
    pub(crate) fn new(segments: &Segments, tree: u16) -> Self {
        let class = |size| Blocks::new(Entry::new(Kind::Record, tree, size as u32));
        Self { tree, classes: class_sizes(segments.size()).map(class).collect() }
    }

    pub(crate) fn classes(&self) -> &[Blocks] {
        &self.classes
    }

    /// Everything that `used` does not hold is free; spans among it go back to the pool.
    pub(crate) fn recover<M: Medium>(&self, m: &M, segments: &Segments, used: &HashSet<u64>) {
        for class in &self.classes {
            class.recover(segments, |at| used.contains(&at));
        }
        release_spans(m, segments, self.tree, |at| used.contains(&at));
    }

    /// Writes a record; durable when it returns.
    pub(crate) fn write<M: Medium>(&self, m: &M, segments: &Segments, bytes: &[u8]) -> Result<u64> {
        let len = bytes.len() as u64;
        if len > RECORD_MAX {
            return Err(Error::RecordTooLong { len, limit: RECORD_MAX });
        }
        let size = HEADER + len.next_multiple_of(8);
        let at = match self.classes.iter().find(|class| u64::from(class.class().unit) >= size) {
            Some(class) => class.take(m, segments)?.at,
            None => {
                let count = size.div_ceil(segments.size()) as u32;
                let (segment, _) = segments.assign(m, Entry::new(Kind::Span, self.tree, count), count)?;
                segments.start(segment)
            }
        };
        delay();
        m.store(at, len | u64::from(crc32fast::hash(bytes)) << 32);
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            m.store(at + HEADER + i as u64 * 8, u64::from_ne_bytes(word));
        }
        m.flush(at, size);
        // Crash: bytes in a block that no slot points to; the next open counts it as free.
        m.fence();
        Ok(at)
    }

    /// How many bytes a record's block has room for, if `at` is one of this tree's.
    fn room(&self, segments: &Segments, at: u64) -> Option<u64> {
        let segment = segments.of(at)?;
        let entry = segments.entry(segment).filter(|entry| entry.tree == self.tree)?;
        let room = match entry.kind {
            Kind::Record => {
                let unit = u64::from(entry.unit);
                let within = segments.within(at);
                let whole = unit >= SMALLEST && within.is_multiple_of(unit) && within + unit <= segments.size();
                whole.then_some(unit)?
            }
            Kind::Span => {
                let there = entry.unit >= 1 && entry.unit <= segments.count() - segment;
                let room = u64::from(entry.unit) * segments.size();
                (there && segments.within(at) == 0).then_some(room)?
            }
            _ => return None,
        };
        Some(room - HEADER)
    }

    /// The length of the record at `at`.
    pub(crate) fn len<M: Medium>(&self, m: &M, segments: &Segments, at: u64) -> Result<u64, Broken> {
        let room = self.room(segments, at).ok_or(Broken::new(at, "V1: a slot points to no record of its tree"))?;
        let len = m.load(at) & 0xffff_ffff;
        if len > room.min(RECORD_MAX) { Err(Broken::new(at, "V2: record longer than its block")) } else { Ok(len) }
    }

    /// The bytes of the record at `at`.
    pub(crate) fn read<M: Medium>(&self, m: &M, segments: &Segments, at: u64) -> Result<Vec<u8>, Broken> {
        let len = self.len(m, segments, at)?;
        delay();
        let mut bytes = Vec::with_capacity(len.next_multiple_of(8) as usize);
        for i in 0..len.div_ceil(8) {
            bytes.extend_from_slice(&m.load(at + HEADER + i * 8).to_ne_bytes());
        }
        bytes.truncate(len as usize);
        Ok(bytes)
    }

    /// Checks the record's length and checksum.
    pub(crate) fn check<M: Medium>(&self, m: &M, segments: &Segments, at: u64) -> Result<(), Broken> {
        let bytes = self.read(m, segments, at)?;
        if u64::from(crc32fast::hash(&bytes)) == m.load(at) >> 32 {
            Ok(())
        } else {
            Err(Broken::new(at, "V2: record checksum"))
        }
    }

    /// Gives a record's space back. No slot points to it any more, durably.
    pub(crate) fn free<M: Medium>(&self, m: &M, segments: &Segments, at: u64) {
        delay();
        let Some(segment) = segments.of(at).filter(|_| self.room(segments, at).is_some()) else {
            // Damaged: no record of this tree. Whatever it is, it is somebody else's.
            return;
        };
        match segments.entry(segment) {
            Some(Entry { kind: Kind::Span, .. }) => segments.release(m, span(segments, segment)),
            Some(Entry { kind: Kind::Record, unit, .. }) => {
                if let Some(class) = self.classes.iter().find(|class| class.class().unit == unit) {
                    class.give(at);
                }
            }
            _ => {}
        }
    }
}

/// The segments of a span.
pub(crate) fn span(segments: &Segments, head: u32) -> Vec<u32> {
    let count = segments.entry(head).map_or(1, |entry| entry.unit);
    let rest = (head + 1..head.saturating_add(count))
        .take_while(|&segment| segments.entry(segment).is_some_and(|entry| entry.kind == Kind::Rest));
    std::iter::once(head).chain(rest).collect()
}

/// Gives all segments of a tree's spans back to the pool, except the spans that `used` knows.
pub(crate) fn release_spans<M: Medium>(m: &M, segments: &Segments, tree: u16, used: impl Fn(u64) -> bool) {
    let heads = segments.owned(tree, Kind::Span, 0).into_iter();
    let (used, unused): (Vec<u32>, Vec<u32>) = heads.partition(|&head| used(segments.start(head)));
    // Also those that follow no head: what a crash between the entries of one span leaves.
    let kept: HashSet<u32> = used.into_iter().flat_map(|head| span(segments, head)).collect();
    let rest = segments.owned(tree, Kind::Rest, 0).into_iter().filter(|segment| !kept.contains(segment));
    segments.release(m, unused.into_iter().chain(rest));
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
    fn every_length_is_read_back() {
        let (m, segments, records) = pool();
        for len in (0..200).chain([1015, 1016, 1017, 4088, 4089, 9000]) {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            let at = records.write(&m, &segments, &bytes).unwrap();
            assert_eq!(records.read(&m, &segments, at).unwrap(), bytes);
            records.check(&m, &segments, at).unwrap();
            records.free(&m, &segments, at);
        }
        // Everything was given back, so it fits again and again.
        for _ in 0..100 {
            let at = records.write(&m, &segments, &[7; 60_000]).unwrap();
            records.free(&m, &segments, at);
        }
    }

    #[test]
    fn a_wrong_offset_is_an_error() {
        let (m, segments, records) = pool();
        let at = records.write(&m, &segments, b"hello").unwrap();
        for wrong in [0, at + 8, at + 1, u64::MAX, segments.start(7)] {
            assert!(records.read(&m, &segments, wrong).is_err(), "{wrong}");
        }
        m.store(at, u64::MAX);
        assert!(records.read(&m, &segments, at).is_err());
        m.store(at, 3);
        assert!(records.check(&m, &segments, at).is_err());
        assert!(matches!(Records::new(&segments, 1).read(&m, &segments, at), Err(Broken { .. })));
    }
}
