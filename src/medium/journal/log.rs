//! Frames in the log's region: where they lie, and which of them count.

use super::disk::Disk;
use super::frame::{Frame, Head, Mark};
use super::header::{Header, REGION, Region};
use super::rule::{Rule, holds};
use std::io;

/// Writes bytes to a place in the log.
pub(super) fn write<F: Disk>(file: &F, region: Region, at: u64, bytes: &[u8]) -> io::Result<()> {
    let (first, rest) = bytes.split_at(before_end(region, at, bytes.len()));
    file.write(REGION + region.offset(at), first)?;
    if rest.is_empty() { Ok(()) } else { file.write(REGION, rest) }
}

/// Reads bytes from a place in the log.
pub(super) fn read<F: Disk>(file: &F, region: Region, at: u64, bytes: &mut [u8]) -> io::Result<()> {
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

    /// The next frame, if it counts (J6).
    pub(super) fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        let Self { file, header, next, frame } = self;
        let (region, size) = (header.region, header.form.head());
        // What is used is at most the region.
        let left = (header.oldest() + region.len).saturating_sub(next.at);
        if left < size as u64 {
            return Ok(None);
        }
        frame.resize(size, 0);
        read(*file, region, next.at, frame)?;
        let head = Head::decode(frame, header.form);
        let of_epoch = !holds(Rule::Epoch)
            || if next.at < header.from.at { head.epoch < header.life.epoch } else { head.epoch == header.life.epoch };
        if !(head.mark == *next && head.is_sane() && of_epoch && head.len() <= left) {
            return Ok(None);
        }
        frame.resize(head.len() as usize, 0);
        read(*file, region, next.at + size as u64, &mut frame[size..])?;
        let found = Frame { head, bytes: frame };
        if !found.is_whole(header.salt) && holds(Rule::Checksum) {
            return Ok(None);
        }
        *next = head.end();
        Ok(Some(found))
    }
}
