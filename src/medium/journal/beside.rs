//! The files beside a pool's file: what they are called, and which users may use them.

use crate::error::{ErrorKind, Fault};
use rustix::fs::{Gid, Mode, Uid, fchmod, fchown};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The path of the file that a path names, with an ending.
pub(super) fn with_ending(pool: &Path, ending: &str) -> PathBuf {
    let mut path = pool.canonicalize().unwrap_or_else(|_| pool.to_owned()).into_os_string();
    path.push(ending);
    path.into()
}

/// Gives a file the owner, the group and the permissions of a pool's file, as far as this process may.
pub(super) fn belong_to_those_of(file: &File, pool: &File) -> io::Result<()> {
    let (meta, own) = (pool.metadata()?, file.metadata()?);
    let mut mode = Mode::from_raw_mode(meta.mode()) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
    let owner = (own.uid() != meta.uid()).then(|| Uid::from_raw(meta.uid()));
    let group = (own.gid() != meta.gid()).then(|| Gid::from_raw(meta.gid()));
    // The pool may belong to another user, and others may be allowed to use it.
    let _ = fchown(file, owner, None);
    if fchown(file, None, group).is_err() {
        mode -= Mode::RWXG;
    }
    Ok(fchmod(file, mode)?)
}

/// What tells a file from all others: its device and its inode.
pub(super) fn id(meta: &Metadata) -> [u64; 2] {
    [meta.dev(), meta.ino()]
}

/// The user that this process acts for.
pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a file beside a pool's file is to be believed. The users that may write to the pool's file may say what the
/// pool holds, and nobody else.
pub(super) fn is_trusted(file: &Metadata, pool: &Metadata) -> bool {
    [user(), pool.uid(), 0].contains(&file.uid())
}

/// The fault, if it says that a ring is not there, and something else is in its place: an operator who sees a file
/// there, and reads that there is none, would give up what the file has.
pub(super) fn in_its_place(fault: Fault, pool: &File) -> Fault {
    let ErrorKind::RingLost { path } = fault.kind() else { return fault };
    let Ok(there) = std::fs::symlink_metadata(path) else { return fault };
    let found = if !there.is_file() {
        "what is there is no file"
    } else if !pool.metadata().is_ok_and(|pool| is_trusted(&there, &pool)) {
        "it belongs to another user than the pool; if a process of that user has left it, open the pool as that user, or give the ring to \
         the pool's owner"
    } else {
        "it has a length that no ring has: it was cut, or it is something else"
    };
    ErrorKind::Ring { path: path.clone(), found }.into()
}
