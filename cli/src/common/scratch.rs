//! Places for temporary pools.
//!
//! A scratch directory holds a marker file. Only its process writes to the marker, and holds a lock on it for as long
//! as it lives:
//!
//! ```text
//! bristlecone scratch directory DEVICE:INODE      of the marker itself: in a copy of the directory they are wrong
//! NAME                                            one line for each file that is made here
//! ```
//!
//! Only the files that a marker names are removed, and then the directory if it is empty. Files that other programs put
//! into it stay, and then so does the directory.

use crate::out::Outcome;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The marker's file name.
const MARKER: &str = ".bristlecone-scratch";

/// A directory that is removed, with the files made in it, when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Locked. `None` once the directory should be kept.
    marker: Option<File>,
    /// The files that were made in it.
    made: Vec<PathBuf>,
}

impl Scratch {
    /// Makes a new directory below `parent`, or by default where temporary pools are best.
    pub(crate) fn new(parent: Option<&Path>) -> Outcome<Self> {
        let shared = Path::new("/dev/shm");
        let scratch = match parent {
            Some(parent) => Self::below(parent)?,
            // Shared memory if there is any: then no disk is slower than the tree.
            None if cfg!(target_os = "linux") => Self::below(shared).or_else(|_| Self::below(&std::env::temp_dir()))?,
            None => Self::below(&std::env::temp_dir())?,
        };
        #[cfg(target_os = "linux")]
        scratch.sweep();
        Ok(scratch)
    }

    fn below(parent: &Path) -> Outcome<Self> {
        for n in 0..1000 {
            let path = parent.join(format!("bristlecone-{}-{n}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let marker = mark(&path).inspect_err(|_| drop(fs::remove_dir(&path)));
                    let marker = marker.map_err(|error| format!("{}: {error}", path.display()))?;
                    return Ok(Self { path, marker: Some(marker), made: Vec::new() });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("{}: {error}", path.display()).into()),
            }
        }
        Err(format!("{}: full of old scratch directories, bristlecone-*", parent.display()).into())
    }

    /// The path of a file, or of a directory, that will be made in it. A directory stays if the process is killed,
    /// because nothing proves whose files are in it.
    pub(crate) fn file(&mut self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        // If this fails, the marker does not name the file, and the file stays if the process is killed. Nothing worse
        // happens.
        let _ = self.marker.as_ref().map(|mut marker| marker.write_all(format!("{name}\n").as_bytes()));
        self.made.push(path.clone());
        path
    }

    /// The path of a pool that will be made in it, with or without a journal, whose files have their names from the
    /// pool.
    pub(crate) fn pool(&mut self, name: &str) -> PathBuf {
        for ending in [".log", ".log.part", ".ring", ".image", ".image.part"] {
            self.file(&format!("{name}{ending}"));
        }
        self.file(name)
    }

    /// Keeps the directory for the user to inspect, where no later run removes it; returns its path.
    pub(crate) fn keep(&mut self) -> &Path {
        if self.marker.take().is_some() {
            let _ = fs::remove_file(self.path.join(MARKER));
        }
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(marker) = self.marker.take() else { return };
        // Makes sure that the directory at this path is still the one that was made.
        let path = self.path.join(MARKER);
        if !fs::symlink_metadata(&path).is_ok_and(|there| marker.metadata().is_ok_and(|own| same(&own, &there))) {
            return;
        }
        for made in &self.made {
            // The rings of a pool go before the pool itself.
            rings(made).iter().for_each(|ring| drop(fs::remove_file(ring)));
            let is_dir = fs::symlink_metadata(made).is_ok_and(|meta| meta.is_dir());
            let _ = if is_dir { fs::remove_dir_all(made) } else { fs::remove_file(made) };
        }
        if !cfg!(unix) {
            // An open file cannot be removed.
            drop(marker);
        }
        let _ = fs::remove_file(path).and_then(|()| fs::remove_dir(&self.path));
    }
}

/// The rings of a pool with a journal, beside it and in memory: what a killed process had not written to the log yet.
#[cfg(target_os = "linux")]
pub(crate) fn rings(pool: &Path) -> Vec<PathBuf> {
    let beside =
        pool.file_name().map(|name| (pool.parent().unwrap_or(Path::new("")), name.to_string_lossy().into_owned()));
    let in_memory = uuid(pool).map(|uuid| (Path::new("/dev/shm"), format!("bristlecone-{uuid}")));
    let there = |(directory, name): (&Path, String)| {
        let begin = format!("{name}.ring");
        // The name, or the name and a number.
        let is_ring =
            |name: &str| name.strip_prefix(&begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_ring))
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    beside.into_iter().chain(in_memory).flat_map(there).collect()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn rings(_pool: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// The number of a pool with a journal, as the names of its rings in memory have it.
#[cfg(target_os = "linux")]
fn uuid(pool: &Path) -> Option<String> {
    /// Where the marker of a pool file has it.
    const AT: u64 = 1032;
    let mut words = [0; 16];
    std::os::unix::fs::FileExt::read_exact_at(&File::open(pool).ok()?, &mut words, AT).ok()?;
    let (words, _) = words.as_chunks::<8>();
    Some(words.iter().map(|word| format!("{:016x}", u64::from_le_bytes(*word))).collect())
}

/// Makes the marker of a directory that this process has just made.
fn mark(directory: &Path) -> io::Result<File> {
    let mut marker = File::create_new(directory.join(MARKER))?;
    // Without a lock, or cut short, the marker is not valid: then the directory stays if the process is killed.
    if marker.try_lock().is_ok() {
        let _ = marker.write_all(head(&marker.metadata()?).as_bytes());
    }
    Ok(marker)
}

/// The first line of a marker.
fn head(marker: &Metadata) -> String {
    let [device, inode] = identity(marker);
    format!("bristlecone scratch directory {device}:{inode}\n")
}

fn same(a: &Metadata, b: &Metadata) -> bool {
    a.is_file() && b.is_file() && identity(a) == identity(b)
}

#[cfg(unix)]
fn identity(meta: &Metadata) -> [u64; 2] {
    use std::os::unix::fs::MetadataExt;
    [meta.dev(), meta.ino()]
}

#[cfg(not(unix))]
fn identity(_meta: &Metadata) -> [u64; 2] {
    [0; 2]
}

/// What killed processes have left behind.
#[cfg(target_os = "linux")]
mod leftovers {
    use super::{MARKER, Scratch, fs, head, io};
    use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat, unlinkat};
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// Longer than any marker.
    const LONGEST: u64 = 4096;

    impl Scratch {
        /// Removes directories beside this one if their markers prove that they belong to killed processes of the same
        /// user.
        pub(super) fn sweep(&self) {
            let user = self.marker.as_ref().and_then(|marker| marker.metadata().ok()).map(|own| own.uid());
            let (Some(user), Some(parent)) = (user, self.path.parent()) else { return };
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                let path = entry.path();
                if path != self.path && is_name(&entry.file_name()) {
                    // An error means that it may not be a leftover, so it stays.
                    let _ = clear(&path, user);
                }
            }
        }
    }

    /// Whether a scratch directory may have this name: `bristlecone-PROCESS-N`.
    fn is_name(name: &OsStr) -> bool {
        let numbers = name.to_str().and_then(|name| name.strip_prefix("bristlecone-")?.split_once('-'));
        numbers.is_some_and(|(process, n)| process.parse::<u32>().is_ok() && n.parse::<u32>().is_ok())
    }

    /// Removes a leftover. Everything that is examined and removed is reached from the directory that was opened,
    /// wherever the path leads meanwhile.
    fn clear(path: &Path, user: u32) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let directory = File::from(openat(CWD, path, flags | OFlags::DIRECTORY, Mode::empty())?);
        let mut marker = File::from(openat(&directory, MARKER, flags, Mode::empty())?);
        let found = marker.metadata()?;
        if !found.is_file() || [found.uid(), directory.metadata()?.uid()] != [user; 2] || marker.try_lock().is_err() {
            return Ok(());
        }
        let mut text = String::new();
        marker.by_ref().take(LONGEST).read_to_string(&mut text)?;
        let Some(names) = text.strip_prefix(&head(&found)) else { return Ok(()) };
        for name in names.lines().filter(|name| !name.contains('/')) {
            if statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|meta| FileType::from_raw_mode(meta.st_mode).is_file())
            {
                unlinkat(&directory, name, AtFlags::empty())?;
            }
        }
        unlinkat(&directory, MARKER, AtFlags::empty())?;
        fs::remove_dir(path)
    }
}
