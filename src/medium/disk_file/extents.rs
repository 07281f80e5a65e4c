//! What has space in a file, and what of it the disk has ever written.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// A part of a file that has space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) bytes: Range<u64>,
    /// The file system has reserved it, and takes it for zeros: nothing was written there that the disk has reported.
    pub(super) is_unwritten: bool,
}

const ROOM: usize = 128;

/// As in the system's `linux/fiemap.h`.
#[repr(C)]
struct ExtentMap {
    start: u64,
    len: u64,
    flags: u32,
    found: u32,
    most: u32,
    _reserved: u32,
    extents: [FoundExtent; ROOM],
}

#[repr(C)]
#[derive(Default, Clone, Copy)]
struct FoundExtent {
    start: u64,
    _physical: u64,
    len: u64,
    _others: [u64; 2],
    flags: u32,
    _reserved: [u32; 3],
}

const HEAD: usize = 32;
const UNWRITTEN: u32 = 0x800;
const _: () = assert!(size_of::<FoundExtent>() == 56 && std::mem::offset_of!(ExtentMap, extents) == HEAD);

/// Calls `each` for the parts of a range that have space, in their order, until it returns false.
///
/// # Errors
///
/// Those of file systems that do not tell.
pub(super) fn each(file: &File, range: &Range<u64>, mut each: impl FnMut(Extent) -> bool) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let (len, most) = (range.end - at, ROOM as u32);
        let extents = [FoundExtent::default(); ROOM];
        let mut map = ExtentMap { start: at, len, flags: 0, found: 0, most, _reserved: 0, extents };
        let code = rustix::ioctl::opcode::read_write::<[u8; HEAD]>(b'f', 11);
        // SAFETY: the system writes as many extents as there is room for, which `most` says.
        if unsafe { libc::ioctl(file.as_raw_fd(), code as _, &raw mut map) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let before = at;
        for found in map.extents.iter().take(map.found as usize) {
            let bytes = found.start..found.start.saturating_add(found.len);
            at = at.max(bytes.end);
            if !each(Extent { bytes, is_unwritten: found.flags & UNWRITTEN != 0 }) {
                return Ok(());
            }
        }
        if at == before {
            break;
        }
    }
    Ok(())
}

/// Whether a range of a file has all its blocks, stored to or not, as far as the file system tells.
pub(in crate::medium) fn has_blocks(file: &File, range: &Range<u64>) -> bool {
    let mut at = range.start;
    let told = each(file, range, |extent| {
        let is_next = extent.bytes.start <= at;
        at = if is_next { at.max(extent.bytes.end) } else { at };
        is_next
    });
    told.is_ok() && at >= range.end
}

/// Whether a file has nothing but zeros in a range. A hole may have pages that were read ahead of their use: the system
/// calls these data.
pub(in crate::medium) fn is_zero(file: &File, range: Range<u64>) -> io::Result<bool> {
    let mut buffer = vec![0; 64 << 10];
    let mut at = range.start;
    while at < range.end {
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) if data < range.end => data,
            Ok(_) | Err(Errno::NXIO) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(at))?.min(range.end);
        while at < end {
            let part = &mut buffer[..(end - at).min(64 << 10) as usize];
            file.read_exact_at(part, at)?;
            if part.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at += part.len() as u64;
        }
    }
    Ok(true)
}
