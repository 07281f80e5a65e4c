//! Putting a copy of a file in its place.
//!
//! After the disk has failed, the system may show what the disk does not have, and a later sync succeeds without
//! writing it. It writes a new file, though: all of it is new.

use super::file::{self, LockedFile, Mapping};
use super::{Mapped, sync_name};
use crate::error::Fault;
use crate::medium::disk_file::DiskFile;
use crate::medium::journal::Disk;
use crate::random::random;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// How many bytes of the file `is_unsure` is asked about.
const HEAD: u64 = 16 << 10;
/// How many bytes are copied at a time, and how many of them are left out if they are zeros.
const PIECE: usize = 1 << 20;
const BLOCK: usize = 64 << 10;

impl Mapped {
    /// Puts a copy of what the system shows of a file in its place, durably, if `is_unsure` says of its first bytes
    /// that the disk may not have it. Nothing is read through the file's extents, which the copy could share.
    ///
    /// Cut: the old file is there, and perhaps a part of a copy beside it, `NAME.anew-...`, which nobody uses; or the
    /// new file.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`ErrorKind::OutOfSpace`](crate::ErrorKind::OutOfSpace); then the old file is
    /// there.
    pub(crate) fn made_anew_if(path: &Path, is_unsure: impl Fn(&[u8]) -> bool) -> Result<(), Fault> {
        let old = file::open(path, Mapping::Write)?;
        let len = old.metadata().map_err(Fault::io("inspect"))?.len();
        let mut head = vec![0; HEAD.min(len) as usize];
        old.read(0, &mut head).map_err(Fault::io("read"))?;
        if !is_unsure(&head) {
            return Ok(());
        }
        // A link stays one.
        let path = path.canonicalize().map_err(Fault::io("find the file of"))?;
        let beside = beside(&path);
        let new = OpenOptions::new().read(true).write(true).create_new(true).open(&beside);
        let new = new.map_err(Fault::io("create a copy of"))?;
        let made = || {
            // Locked before it has its name, so that nobody else finds it there.
            let new = LockedFile::new(new, Mapping::Write)?;
            belongs_as(new.as_file(), old.as_file()).map_err(Fault::io("give its owner to the copy of"))?;
            copy(&old, &new, len).map_err(Fault::space(len, len))?;
            new.sync_with_length().map_err(Fault::io("sync the copy of"))?;
            std::fs::rename(&beside, &path).map_err(Fault::io("name the copy of"))
        };
        let made = made();
        if made.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        made?;
        sync_name(&path).map_err(Fault::io("sync the directory"))
    }
}

/// A name beside a file that nothing else has.
fn beside(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(format!(".anew-{:016x}", random()));
    path.into()
}

/// Gives a file the owner and the permissions of another one, and its way of taking space.
fn belongs_as(new: &File, old: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt;
        let (meta, own) = (old.metadata()?, new.metadata()?);
        if (meta.uid(), meta.gid()) != (own.uid(), own.gid()) {
            std::os::unix::fs::fchown(new, Some(meta.uid()), Some(meta.gid()))?;
        }
        if file::is_written_in_place(old) {
            file::write_in_place(new);
        }
    }
    new.set_permissions(old.metadata()?.permissions())
}

/// Copies `len` bytes, but for zeros.
fn copy(old: &DiskFile, new: &DiskFile, len: u64) -> io::Result<()> {
    new.resize(len)?;
    let mut piece = vec![0; PIECE];
    for at in (0..len).step_by(PIECE) {
        let piece = &mut piece[..(len - at).min(PIECE as u64) as usize];
        old.read(at, piece)?;
        for (block, at) in piece.chunks(BLOCK).zip((at..).step_by(BLOCK)) {
            if block.iter().any(|&byte| byte != 0) {
                new.write(at, block)?;
            }
        }
    }
    Ok(())
}
