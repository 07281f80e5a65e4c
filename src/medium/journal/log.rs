//! Frames in the log's region: where they lie, and which of them count.

use super::disk::Disk;
use super::frame::{ENTRY, HEAD, Head, Mark, POSITIONS, is_whole};
use super::header::{Header, REGION, Region};
use super::rule::{Rule, holds};
use std::io;

/// Writes bytes to a place in the log.
pub(super) fn write<F: Disk>(file: &F, region: Region, at: u64, bytes: &[u8]) -> io::Result<()> {
    let (first, rest) = bytes.split_at(before_end(region, at, bytes.len()));
    file.write(REGION + region.offset(at), first)?;
    if rest.is_empty() { Ok(()) } else { file.write(REGION, rest) }
}

fn read<F: Disk>(file: &F, region: Region, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    let (first, rest) = bytes.split_at_mut(before_end(region, at, bytes.len()));
    file.read(REGION + region.offset(at), first)?;
    if rest.is_empty() { Ok(()) } else { file.read(REGION, rest) }
}

/// How many of `len` bytes at a place lie before the region's end.
fn before_end(region: Region, at: u64, len: usize) -> usize {
    (region.len - region.offset(at)).min(len as u64) as usize
}

/// Reads the frames that count, one after the other.
pub(super) struct Frames<'f, F> {
    file: &'f F,
    header: Header,
    next: Mark,
    frame: Vec<u8>,
}

impl<'f, F: Disk> Frames<'f, F> {
    /// From a place on at which a frame begins.
    pub(super) fn new(file: &'f F, header: Header, from: Mark) -> Self {
        Self { file, header, next: from, frame: Vec::new() }
    }

    /// Where the last frame ended.
    pub(super) fn end(&self) -> Mark {
        self.next
    }

    /// The next frame, with its head, if it counts (J6).
    pub(super) fn next(&mut self) -> io::Result<Option<(Head, &[u8])>> {
        let Self { file, header, next, frame } = self;
        let region = header.region;
        // What is used is at most the region.
        let left = (header.start.at + region.len).saturating_sub(next.at);
        if left < HEAD as u64 {
            return Ok(None);
        }
        frame.resize(HEAD, 0);
        read(*file, region, next.at, frame)?;
        let head = Head::decode(frame.first_chunk().expect("a head"));
        let is_next = head.mark == *next && head.positions > 0;
        let of_epoch = !holds(Rule::Epoch)
            || if next.at < header.from.at { head.epoch < header.epoch } else { head.epoch == header.epoch };
        let body = u64::from(head.body);
        // No frame is longer than a sync makes it, so nobody can ask for more memory than that.
        let fits = body.is_multiple_of(8) && body <= POSITIONS * ENTRY as u64 && HEAD as u64 + body <= left;
        if !(is_next && of_epoch && fits) {
            return Ok(None);
        }
        frame.resize(HEAD + head.body as usize, 0);
        read(*file, region, next.at + HEAD as u64, &mut frame[HEAD..])?;
        if !is_whole(frame, header.salt) && holds(Rule::Checksum) {
            return Ok(None);
        }
        *next = head.end();
        Ok(Some((head, frame)))
    }
}
