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

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Leaves it behind, for the user to look at.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
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
