//! The log of a pool that was here before, where the log of another pool is to be.
//!
//! A pool that takes the place of another one, such as a backup that was restored, finds log and ring of that one
//! beside its path. They are removed if it is proven that no pool needs them, and renamed otherwise: the old pool may
//! have been moved away without them.

use super::beside::with_ending;
use super::closed::is_dead;
use super::disk::Disk;
use super::header::{FIRST, Header};
use super::image_file::ImageFile;
use super::images::ImagePlace;
use super::left::OldLog;
use super::marker::Marker;
use super::memory::Memory;
use super::shared::{Home, RingFile};
use crate::error::{ErrorKind, Fault};
use crate::medium::disk_file::DiskFile;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::symlink_metadata;
use std::io;
use std::path::Path;

/// Whether a file is the log of another pool than the one with this uuid.
pub(super) fn is_of_another<F: Disk>(log: &F, uuid: [u64; 2]) -> bool {
    header(log).is_some_and(|header| header.uuid != uuid)
}

/// Whether a log is that of a pool that was here before the one with this marker: of another pool, or of another copy
/// of the same backup. Only a pool that was closed in order can tell: any other one needs its log, and does not
/// have it.
pub(super) fn is_one<F: Disk>(log: &F, marker: &Marker) -> bool {
    let of_another_copy = || marker.had_no_log() && header(log).is_some_and(|header| header.life.epoch > FIRST);
    marker.is_settled() && (is_of_another(log, marker.uuid) || of_another_copy())
}

/// The header of a log, of whichever form.
fn header<F: Disk>(log: &F) -> Option<Header> {
    [Header::read(log), Header::read_first(log)].into_iter().find_map(|found| found.ok().flatten())
}

/// Takes log and ring of a pool that was here before out of the way of the pool at a path, whose file is `pool`: they
/// are removed if nobody needs them, and get other names if that is not proven. Nothing is ever replaced.
///
/// The ring goes first. Cut: the log alone is there, and the next open goes on, with the number that the ring has got.
pub(super) fn clear(path: &Path, pool: &DiskFile, log: &DiskFile) -> Result<OldLog, Fault> {
    let place = with_ending(path, ".log");
    let ring = ring_of(path, pool, log).map_err(|fault| match fault.kind() {
        ErrorKind::InUse => {
            let found = "the log of another pool, which a process has open (close that first)";
            ErrorKind::LogInTheWay { path: place.display().to_string(), found }.into()
        }
        _ => fault,
    })?;
    // An image is never needed.
    header(log).iter().for_each(|header| ImageFile::new(path, pool, header.uuid).remove());
    if is_dead(log) {
        ring.iter().for_each(RingFile::remove);
        std::fs::remove_file(&place).map_err(Fault::io("remove the log of a pool that was here before"))?;
        return Ok(OldLog::Removed);
    }
    let ring = ring.map(|ring| ring.place());
    let moving = || Fault::io("rename the log of a pool that was here before");
    for number in 1.. {
        let ending = format!(".old-{number}");
        let is_free = |file: &Path| {
            symlink_metadata(with_ending(file, &ending)).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        if !(is_free(&place) && ring.iter().all(|ring| is_free(ring))) {
            continue;
        }
        for file in ring.iter().chain([&place]) {
            rename(file, &with_ending(file, &ending)).map_err(moving())?;
        }
        crate::medium::sync_name(&with_ending(&place, &ending)).map_err(Fault::io("sync the directory of the log"))?;
        return Ok(OldLog::Kept { number });
    }
    Err(moving()(io::ErrorKind::AlreadyExists.into()))
}

/// The ring beside a path that goes with a log there, locked.
fn ring_of(path: &Path, pool: &DiskFile, log: &DiskFile) -> Result<Option<RingFile>, Fault> {
    let Some(header) = Header::read(log).map_err(Fault::io("read the log"))? else { return Ok(None) };
    let home = Home { path: path.to_owned(), file: pool.clone(), uuid: header.uuid };
    let ring = header.life.seat.map_or(Ok(None), |seat| RingFile::find(&home, seat, true))?;
    // What is in memory is in nobody's way, and its pool finds it there.
    Ok(ring.filter(|ring| ring.is_own() && !ring.seat.in_memory))
}

/// Gives a file a name that no other has.
pub(super) fn rename(file: &Path, name: &Path) -> io::Result<()> {
    match renameat_with(CWD, file, CWD, name, RenameFlags::NOREPLACE) {
        // Where files have several names and this is not known (network file systems).
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            std::fs::hard_link(file, name)?;
            std::fs::remove_file(file)
        }
        renamed => Ok(renamed?),
    }
}
