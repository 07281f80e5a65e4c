//! Where there are no journals: on systems other than Linux.

use super::engine::JournalStat;
use super::{FoundImage, ImageMaker, Journal, Marker, OldLog, Wanted};
use crate::error::{ErrorKind, Fault};
use crate::medium::Window;
use crate::medium::disk_file::DiskFile;
use crate::medium::vitals::Vitals;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The journal of an open pool, which there is none.
pub(crate) enum Attached {}

fn unsupported() -> Fault {
    ErrorKind::Log { path: String::new(), found: "pools with a journal can be used on Linux only" }.into()
}

pub(crate) fn lacks_nothing(_path: &Path, _pool: &DiskFile, _uuid: [u64; 2], _boot: u64) -> Result<(), Fault> {
    Err(unsupported())
}

#[allow(unused_variables, dead_code, reason = "the methods are those on Linux")]
impl Attached {
    pub(crate) fn open(path: &Path, pool: &DiskFile, marker: Marker, boot: u64, wanted: Wanted) -> Result<Self, Fault> {
        Err(unsupported())
    }

    pub(crate) fn look(
        path: &Path,
        pool: &DiskFile,
        marker: Marker,
        (boot, wanted): (u64, Wanted),
        store: impl FnMut(u64, u64),
    ) -> Result<JournalStat, Fault> {
        Err(unsupported())
    }

    pub(crate) fn flush(&self, at: u64, len: u64, whole_lines: bool, load: impl Fn(u64) -> u64) {
        match *self {}
    }

    pub(crate) fn window(&self) -> Window<'_> {
        match *self {}
    }

    pub(crate) fn window_for_change(&self) -> Window<'_> {
        match *self {}
    }

    pub(crate) fn pause(&self) {
        match *self {}
    }

    #[cfg(debug_assertions)]
    pub(crate) fn is_window_open(&self) -> bool {
        match *self {}
    }

    pub(crate) fn may_detach(&self, bytes: u64) -> bool {
        match *self {}
    }

    pub(crate) fn forgets(&self, range: Range<u64>) {
        match *self {}
    }

    pub(crate) fn is_detached(&self, range: Range<u64>) {
        match *self {}
    }

    pub(crate) fn admit(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn acknowledge(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn vitals(&self) -> Arc<Vitals> {
        match *self {}
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn settle(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn resize(&self, len: u64, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn has_len(&self, len: u64) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn empty(&self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn release(&self, pages: Range<u64>) {
        match *self {}
    }

    pub(crate) fn retain(&self, range: Range<u64>) {
        match *self {}
    }

    pub(crate) fn set_mode(&mut self, mode: Journal) {
        match *self {}
    }

    pub(crate) fn take_image(&self) -> Option<FoundImage> {
        match *self {}
    }

    pub(crate) fn set_image_maker(&self, maker: Option<Box<dyn ImageMaker>>) {
        match *self {}
    }

    pub(crate) fn stat(&self) -> Option<JournalStat> {
        match *self {}
    }
}

pub(crate) fn create_log(
    _path: &Path,
    _pool: &DiskFile,
    _uuid: [u64; 2],
    _len: u64,
    _is_new: bool,
) -> Result<Option<OldLog>, Fault> {
    Err(unsupported())
}

pub(crate) fn adopt(_path: &Path, _pool: &DiskFile, _uuid: [u64; 2], _mode: Journal) -> Result<(), Fault> {
    Err(unsupported())
}

pub(crate) fn remove_log(_path: &Path, _uuid: [u64; 2]) {}
