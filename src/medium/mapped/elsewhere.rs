//! What systems other than Linux do with a mapping: it has its final length from the open on, and no space is taken or
//! given back. The names are those of `linux.rs`, in the same order.

use super::file::LockedFile;
use super::{Mapped, Mapping, NewMapping, Reach};
use crate::error::Fault;
use crate::medium::journal::Marker;
use crate::medium::{Access, Domain, Medium};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// What keeps the pages mapped.
pub(super) type Map = memmap2::MmapRaw;

/// How far a mapping may grow if nobody says how far it should.
pub(super) const REACH: u64 = 0;

/// What the system needs to know of a mapping.
pub(super) struct System;

impl System {
    pub(super) fn of(_file: &LockedFile) -> Self {
        Self
    }
}

/// There are no journals.
pub(in crate::medium) fn is_on_disk(_file: &File) -> bool {
    false
}

/// The length with which a file is created that may grow as far as `reach` says.
pub(super) fn len_to_create(len: u64, reach: Reach) -> u64 {
    len.max(reach.most)
}

/// The length with which a file that is there is mapped.
pub(super) fn len_to_map(file: &LockedFile, mapping: Mapping, reach: Reach) -> Result<u64, Fault> {
    let len = file.metadata().map_err(Fault::io("inspect"))?.len();
    if mapping != Mapping::Write || reach.most <= len {
        return Ok(len);
    }
    file.resize(reach.most).map_err(Fault::space(reach.most - len, reach.most))?;
    Ok(reach.most)
}

/// The marker of a file, if it has one.
pub(super) fn marker(file: &LockedFile, _mapping: Mapping) -> Result<Option<Marker>, Fault> {
    Marker::read(&**file).map_err(Fault::io("read"))
}

/// The current boot of the machine, as a word other than 0; 0 where the system does not tell.
pub(in crate::medium) fn boot() -> u64 {
    0
}

/// The domain of a mapping of this file; the file is not read, and may be empty.
pub(in crate::medium) fn detect(_file: &File, _writable: bool) -> Domain {
    Domain::Process
}

impl Mapping {
    /// Maps a file of `len` bytes, which stays as long as it is.
    pub(super) fn map(self, file: &File, len: u64, _reach: Reach, has_journal: bool) -> io::Result<NewMapping> {
        let bytes = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut options = memmap2::MmapOptions::new();
        options.len(bytes).no_reserve_swap();
        let map = if self == Self::Write && !has_journal {
            options.map_raw(file)?
        } else {
            // Private pages: even a store to them would not reach the file.
            // SAFETY: only atomic accesses are made to the mapping, so no change of the file makes them undefined.
            unsafe { options.map_copy(file) }?.into()
        };
        let base = NonNull::new(map.as_mut_ptr().cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(NewMapping { map, base, len, reach: len, domain: Domain::Process })
    }
}

impl Mapped {
    /// Makes everything that was stored to a mapping without a journal survive the machine.
    pub(super) fn sync_file(&self) -> io::Result<()> {
        self.file.sync_mapped(|| self.map.flush())
    }

    /// There is no portable way to say how a mapping is read.
    pub(super) fn read_as(&mut self, _access: Access) {}

    /// The system reads ahead as it does by default.
    pub(super) fn kept_by_a_reader(&self) -> Option<u64> {
        None
    }

    /// The system does not tell.
    pub(super) fn not_in_memory(&self, _at: u64, _len: u64) -> Vec<Range<u64>> {
        Vec::new()
    }

    pub(super) fn ask(&self, _at: u64, _len: u64) {}

    pub(super) fn let_go(&self, _at: u64, _len: u64) {}

    /// Makes a hole of everything from an offset on, which then reads as zeros. False where files cannot have holes.
    pub(crate) fn punch_from(&self, at: u64) -> io::Result<bool> {
        Ok(at >= self.accessible())
    }

    /// Takes no space: there is no portable way to, so a full disk may end the process with a signal (see README,
    /// limits).
    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(super) fn take(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// See [`Medium::reserved_to`].
    pub(super) fn taken_to(&self, at: u64) -> u64 {
        at
    }

    /// See [`Medium::release`].
    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(super) fn give_back(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// See [`Medium::truncate`]. A file that is mapped cannot be cut on all of these systems.
    pub(super) fn cut(&self, len: u64) -> io::Result<()> {
        if len < self.accessible() { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
    }

    /// See [`Medium::space`].
    pub(super) fn space_of_file(&self) -> u64 {
        0
    }

    pub(super) fn populate(&self, _at: u64, _len: u64) {}

    pub(super) fn collapse(&self, _at: u64, _len: u64) {}

    pub(super) fn detach(&self, _at: u64, _len: u64) {}
}
