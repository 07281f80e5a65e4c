//! Space: what pools take, what they give back, and that nothing is refused that fits. And looking without writing.
#![cfg(target_os = "linux")]

mod addresses;
mod again;
mod cold;
mod compact;
mod damage;
mod limits;
mod looking;
mod memory;
mod owners;
mod private;
mod sizes;

use bristlecone::{Map, Pool};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Options without a journal, whatever the file system of the directory for temporary files: what is tested here is the
/// pool's file alone.
fn plain() -> bristlecone::Options {
    bristlecone::Pool::options().journal(bristlecone::Journal::None)
}

const MIB: u64 = 1 << 20;

/// A test that opens pools holds it for reading, a test that starts a process for writing: until it has loaded its
/// program, a new process has all files of this one open, including their locks.
static SPAWNING: RwLock<()> = RwLock::new(());

/// A directory of its own.
struct Scratch {
    dir: tempfile::TempDir,
    _calm: Option<RwLockReadGuard<'static, ()>>,
}

impl Scratch {
    fn in_memory() -> Self {
        Self::of(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn on_disk() -> Self {
        Self::of(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn of(dir: tempfile::TempDir) -> Self {
        Self { dir, _calm: Some(SPAWNING.read().unwrap_or_else(PoisonError::into_inner)) }
    }

    /// For a test that starts processes.
    fn for_processes(mut self) -> Self {
        self._calm = None;
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Runs a test of this program in another process, with the pool in an environment variable.
fn run_apart(test: &str, pool: &Path, step: &str) -> Output {
    let alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD[0], pool).env(CHILD[1], step);
    let output = command.output().unwrap();
    drop(alone);
    output
}

/// The environment variables with the pool and with what to do with it.
const CHILD: [&str; 2] = ["BRISTLECONE_TEST_SPACE", "BRISTLECONE_TEST_SPACE_STEP"];

/// What this process is to do, if it was [run apart](run_apart).
fn child() -> Option<(PathBuf, String)> {
    Some((std::env::var_os(CHILD[0])?.into(), std::env::var(CHILD[1]).ok()?))
}

/// Bytes that a file takes where it lies.
fn taken(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// The pool as a killed process would leave it now.
fn crash(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    to.set_len(from.metadata().unwrap().len()).unwrap();
    let seek = |at: u64, whence| {
        // SAFETY: it only moves the position of a file that is open.
        let found = unsafe { libc::lseek(from.as_raw_fd(), at as i64, whence) };
        (found >= 0).then_some(found as u64)
    };
    let mut at = 0;
    // A hole stays one.
    while let Some(start) = seek(at, libc::SEEK_DATA) {
        at = seek(start, libc::SEEK_HOLE).unwrap();
        let mut bytes = vec![0; (at - start) as usize];
        from.read_exact_at(&mut bytes, start).unwrap();
        to.write_all_at(&bytes, start).unwrap();
    }
}

fn used(pool: &Pool) -> u64 {
    let stat = pool.stat();
    stat.capacity - stat.available
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0xa076_1d64_78bd_642f) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) % limit
    }
}

/// A value that shows which key it belongs to, and whether it is whole.
fn value(key: u64, len: u64) -> Vec<u8> {
    let seed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ len;
    let mut bytes = Vec::with_capacity(len as usize + 64);
    // Line by line: it takes longer than the tree, otherwise, without optimisation.
    while (bytes.len() as u64) < len {
        bytes.extend_from_slice((seed ^ bytes.len() as u64).to_le_bytes().repeat(8).as_slice());
    }
    bytes.truncate(len as usize);
    bytes
}

/// The bytes of the block, or of the extent, of a record with so many bytes, with segments of 2 MiB.
fn block_for(len: u64) -> u64 {
    let size = (8 + len.next_multiple_of(8)).max(32);
    if size > MIB / 2 {
        return size.next_multiple_of(4096);
    }
    size.next_multiple_of((1 << size.ilog2()) / 4)
}

type Values = Map<u64, Vec<u8>>;

/// Whether tests run whole, as `scripts/check long` wants it. `cargo test` takes a part, to be done in minutes.
fn long() -> bool {
    std::env::var_os("BRISTLECONE_LONG").is_some()
}

/// All, or a quarter if tests do not run whole.
fn part_of(all: u64) -> u64 {
    if long() { all } else { all / 4 }
}
