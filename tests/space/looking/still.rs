//! Whether files have changed. The tests of the command line use this file, too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a file is: its bytes, when it was changed last, and how much space it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    bytes: u32,
    len: u64,
    changed: [i64; 4],
    blocks: u64,
}

/// All files of a pool.
pub(crate) fn still(path: &Path) -> Vec<(PathBuf, File)> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut files = Vec::new();
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let at = entry.unwrap().path();
        if !at.file_name().unwrap().to_string_lossy().starts_with(&name) {
            continue;
        }
        // A sync of everything by another program would do it between two looks, and change the blocks.
        fs::File::open(&at).unwrap().sync_all().unwrap();
        let (bytes, meta) = (fs::read(&at).unwrap(), fs::metadata(&at).unwrap());
        let file = File {
            bytes: crc32fast::hash(&bytes),
            len: bytes.len() as u64,
            changed: [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()],
            blocks: meta.blocks(),
        };
        files.push((at, file));
    }
    files.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(!files.is_empty());
    files
}
