//! The file of a pool's image, beside the pool.

use super::beside::{belong_to_those_of, id, is_trusted, with_ending};
use super::disk::Disk;
use super::images::{HEAD_BYTES, ImagePlace, NewImage, is_image};
use crate::medium::disk_file::{DiskFile, Role};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the image is called, and an image that is being made.
const ENDING: &str = ".image";
const PART: &str = ".image.part";
/// An image is made if there is room for so many.
const ROOM: u64 = 4;
/// The mode of a file that only its owner may read, until it has the mode of the pool's file.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The file of the image of the pool at a path.
pub(super) struct ImageFile {
    path: PathBuf,
    pool: DiskFile,
    uuid: [u64; 2],
}

impl ImageFile {
    pub(super) fn new(path: &Path, pool: &DiskFile, uuid: [u64; 2]) -> Self {
        Self { path: path.to_owned(), pool: pool.clone(), uuid }
    }

    /// Removes what a process has left that was killed while it made an image.
    pub(super) fn clean(&self) {
        // What a loss of power has left may have a length and no content.
        let is_own = |head: &[u8]| head.iter().all(|&byte| byte == 0) || is_image(head, Some(self.uuid));
        self.clear(&with_ending(&self.path, PART), is_own);
    }

    /// Opens what is at a path, if it is a file that is to be believed; `None` if there is nothing.
    fn open(&self, path: &Path) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => File::from(file?),
        };
        let meta = file.metadata()?;
        if meta.is_file() && is_trusted(&meta, &self.pool.metadata()?) {
            Ok(Some(file))
        } else {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is something else", path.display())))
        }
    }

    /// The first bytes of what is at a path; `None` if there is nothing.
    fn head_of(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.open(path)?.map(|file| head(&file)).transpose()
    }

    /// Removes what is at a path, if its first bytes say that it is this pool's. An image is never needed.
    fn clear(&self, path: &Path, is_own: impl Fn(&[u8]) -> bool) {
        if matches!(self.head_of(path), Ok(Some(head)) if is_own(&head)) && self.is_here() {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Whether the pool is still where its path says.
    fn is_here(&self) -> bool {
        let here = std::fs::metadata(&self.path).and_then(|here| Ok((here, self.pool.metadata()?)));
        here.is_ok_and(|(here, file)| id(&here) == id(&file))
    }

    /// An error if there is no room for so many bytes several times over: the pool and the log need it more.
    fn has_room(&self, bytes: u64) -> io::Result<()> {
        let there = rustix::fs::fstatvfs(self.pool.as_file())?;
        let is_enough = there.f_bavail.saturating_mul(there.f_frsize) >= bytes.saturating_mul(ROOM);
        if is_enough { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

/// The first bytes of a file that was just opened.
fn head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

impl ImagePlace for ImageFile {
    fn replace(&self, image: &NewImage) -> io::Result<()> {
        let (place, part) = (with_ending(&self.path, ENDING), with_ending(&self.path, PART));
        if !self.is_here() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the pool is not at its path any more"));
        }
        // Any pool's image may go, because none is ever needed; what is something else stays.
        if self.head_of(&place)?.is_some_and(|head| !is_image(&head, None)) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is no image", place.display())));
        }
        self.clean();
        self.has_room(image.len())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = DiskFile::new(File::from(rustix::fs::open(&part, flags, PRIVATE)?), Role::Image);
        let made = belong_to_those_of(file.as_file(), self.pool.as_file())
            .and_then(|()| image.write(|at, bytes| file.write(at, bytes)))
            .and_then(|()| file.sync())
            .and_then(|()| std::fs::rename(&part, &place));
        if made.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        made.and_then(|()| crate::medium::sync_name(&place))
    }

    fn read(&self, len: &dyn Fn(&[u8]) -> Option<u64>) -> io::Result<Option<Vec<u8>>> {
        let place = with_ending(&self.path, ENDING);
        let Some(file) = self.open(&place)? else { return Ok(None) };
        let mut bytes = head(&file)?;
        let Some(len) = len(&bytes) else { return Ok(None) };
        if file.metadata()?.len() != len {
            return Ok(None);
        }
        let rest = len.saturating_sub(bytes.len() as u64);
        bytes.try_reserve_exact(rest as usize).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        file.take(rest).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn remove(&self) {
        self.clean();
        self.clear(&with_ending(&self.path, ENDING), |head| is_image(head, Some(self.uuid)));
    }
}
