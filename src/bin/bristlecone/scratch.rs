//! Places for temporary pools.

use crate::out::Outcome;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory that is removed with all its content when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// A new directory below `parent`, or where temporary pools are best.
    pub(crate) fn new(parent: Option<&Path>) -> Outcome<Self> {
        let parent = parent.map_or_else(best, Path::to_path_buf);
        sweep(&parent);
        for n in 0..1000 {
            let path = parent.join(format!("bristlecone-{}-{n}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, keep: false }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("{}: {error}", path.display()).into()),
            }
        }
        Err(format!("{}: full of old scratch directories, bristlecone-*", parent.display()).into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Leaves it behind for the user to look at, where no later run sweeps it away; tells where.
    pub(crate) fn keep(&mut self) -> &Path {
        self.keep = true;
        let kept = self.path.with_file_name(format!("bristlecone-kept-{}", std::process::id()));
        if fs::rename(&self.path, &kept).is_ok() {
            self.path = kept;
        }
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes what processes that were killed have left. Whether a process lives is known on Linux only.
fn sweep(parent: &Path) {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("bristlecone-")?.split_once('-'));
        if let Some((process, _)) = process
            && process.parse::<u32>().is_ok()
            && !Path::new("/proc").join(process).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Shared memory if there is any: no disk is slower than the tree then.
fn best() -> PathBuf {
    let shared = Path::new("/dev/shm");
    let probe = shared.join(format!(".bristlecone-{}", std::process::id()));
    if cfg!(target_os = "linux") && fs::create_dir(&probe).is_ok() {
        let _ = fs::remove_dir(&probe);
        return shared.to_path_buf();
    }
    std::env::temp_dir()
}
