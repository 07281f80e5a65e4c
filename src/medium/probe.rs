//! Finding out the domain of a path without leaving anything there.

use super::disk_file::{DiskFile, Role};
use super::journal::Marker;
use super::mapped::{detect, forced, is_on_disk};
use super::{Domain, Mapped};
use std::fs::File;
use std::io;
use std::path::Path;

impl Mapped {
    /// The domain that a pool has at `path`, which is a file, or the directory in which a pool will lie: that of a new
    /// one, which has a journal where [`Options::journal`](crate::Options::journal) says so.
    ///
    /// Nothing is created, changed or locked there. A file is mapped for reading, and only what says that the pool has
    /// a journal is read. In a directory, a file without a name is mapped, which the system removes with its last
    /// descriptor, even if the process is killed.
    ///
    /// # Errors
    ///
    /// The error of the system. Where a file cannot be read, or a directory cannot hold files without a name, the
    /// domain is known only once a pool is open there. [`io::ErrorKind::InvalidInput`] if the path is neither a file
    /// nor a directory.
    pub fn domain_at(path: &Path) -> io::Result<Domain> {
        let found = std::fs::metadata(path)?;
        if !found.is_file() && !found.is_dir() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a directory"));
        }
        let forced = forced()?.map(Ok);
        let file = match open(path, found.is_dir()) {
            Ok(file) => file.map(|file| DiskFile::new(file, Role::Pool)),
            Err(error) => return forced.unwrap_or(Err(error)),
        };
        let has_journal = |file: &DiskFile| Marker::read(file).is_ok_and(|marker| marker.is_some());
        if file.as_ref().filter(|_| found.is_file()).is_some_and(has_journal) {
            return Ok(Domain::Journal);
        }
        let Some(file) = file else { return forced.unwrap_or(Ok(Domain::Process)) };
        forced.unwrap_or_else(|| match detect(file.as_file(), found.is_dir()) {
            Domain::Process if found.is_dir() && is_on_disk(file.as_file()) => Ok(Domain::Journal),
            detected => Ok(detected),
        })
    }
}

/// A file to map: the one at the path, or one without a name in the directory. `None` where every mapping has the same
/// domain.
#[cfg(target_os = "linux")]
fn open(path: &Path, is_dir: bool) -> io::Result<Option<File>> {
    use rustix::fs::{Mode, OFlags};
    // The path may have become a FIFO meanwhile, and opening it must not wait.
    let flags = if is_dir { OFlags::TMPFILE | OFlags::RDWR } else { OFlags::RDONLY | OFlags::NONBLOCK };
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    Ok(Some(file.into()))
}

#[cfg(not(target_os = "linux"))]
fn open(_path: &Path, _is_dir: bool) -> io::Result<Option<File>> {
    Ok(None)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn looking_leaves_nothing_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let changed = || std::fs::metadata(dir.path()).unwrap().modified().unwrap();
        let before = changed();
        assert!(Mapped::domain_at(dir.path()).is_ok());
        assert_eq!(changed(), before);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        // Empty, of odd length, in use by another process.
        for content in ["", "not a pool"] {
            let path = dir.path().join("file");
            std::fs::write(&path, content).unwrap();
            let held = File::open(&path).unwrap();
            held.lock().unwrap();
            assert!(Mapped::domain_at(&path).is_ok());
            assert_eq!(std::fs::read(&path).unwrap(), content.as_bytes());
        }
    }

    #[test]
    fn what_holds_no_pool_has_no_domain() {
        let refused = |path: &str| Mapped::domain_at(Path::new(path)).unwrap_err().kind();
        assert_eq!(refused("/no/such/path"), io::ErrorKind::NotFound);
        assert_eq!(refused("/dev/null"), io::ErrorKind::InvalidInput);
        // This directory cannot hold files without a name.
        assert!(Mapped::domain_at(Path::new("/proc/self")).is_err());
    }
}
