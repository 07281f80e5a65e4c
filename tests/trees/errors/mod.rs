//! Every bad input gets its own error, which names the file and the offset or limit, and leaves the pool as it was.

mod crafted;
mod files;
mod full;
mod media;
mod openers;
mod trees;

use bristlecone::medium::{Mapped, Medium};
use bristlecone::papers::Circular;
use bristlecone::{Error, IndexKind, Options, PTree, Pool, Result};
use std::fs;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

const CAPACITY: u64 = 64 << 10;
const TWINS: [usize; 2] = [0, 4096];
const ROOTS: usize = 8192;
/// The offset of the segment table, behind sixteen root entries.
const TABLE: usize = ROOTS + 16 * 256;
/// The offset of the first segment behind the header.
const FIRST: usize = TABLE + 4096;
const BIRTH: &[u8; 8] = b"BRISTLE?";

type Small<M = Mapped> = PTree<Circular<4>, M>;

fn options() -> Options {
    crate::plain().capacity(CAPACITY).segment_size(4096)
}

/// A test that opens pools holds it for reading, a test that starts a process for writing: until it has loaded its
/// program, a new process has all files of this one open, including their locks.
static SPAWNING: RwLock<()> = RwLock::new(());

struct Scratch {
    _calm: Option<RwLockReadGuard<'static, ()>>,
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Scratch {
    /// A path in a directory of its own, without a file.
    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("orders.pool");
        let calm = SPAWNING.read().unwrap_or_else(PoisonError::into_inner);
        Self { _calm: Some(calm), _dir: dir, path }
    }

    /// A closed pool with a tree "t" that has the keys 0 to 49.
    fn pool() -> Self {
        let scratch = Self::empty();
        let pool = options().open(&scratch.path).unwrap();
        let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
        (0..50).for_each(|key| assert_eq!(tree.insert(key, key * 3).unwrap(), None));
        drop(tree);
        pool.close().unwrap();
        scratch
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes();
        change(&mut bytes);
        fs::write(&self.path, bytes).unwrap();
    }

    /// Asserts that opening is refused, with these options and also for reading only, and that the file does not
    /// change.
    fn refused(&self, options: &Options) -> Error {
        let error = self.refused_to_writers(options);
        let before = self.bytes();
        let read_only = self::error(options.clone().read_only(true).open(&self.path));
        assert_eq!(
            std::mem::discriminant(&error.kind),
            std::mem::discriminant(&read_only.kind),
            "{error} / {read_only}"
        );
        assert!(before == self.bytes(), "touched: {read_only}");
        error
    }

    /// Asserts that opening for writing is refused, and that the file does not change.
    fn refused_to_writers(&self, options: &Options) -> Error {
        let before = self.bytes();
        let error = error(options.open(&self.path));
        assert!(before == self.bytes(), "touched: {error}");
        self.named(&error);
        error
    }

    fn named(&self, error: &Error) {
        assert!(error.to_string().contains("orders.pool"), "the file is not named: {error}");
    }

    /// Asserts that the pool opens and still has its content.
    fn unharmed(&self) {
        let pool = options().open(&self.path).unwrap();
        holds_the_fifty(&pool);
        assert!(pool.check().unwrap().is_clean());
        pool.close().unwrap();
    }
}

fn holds_the_fifty<M: Medium>(pool: &Pool<M>) {
    let tree: Small<M> = pool.tree_with("t", IndexKind::Volatile).unwrap();
    let expected: Vec<_> = (0..50).map(|key| (key, key * 3)).collect();
    assert_eq!(tree.iter().collect::<Vec<_>>(), expected);
    assert!(tree.check().is_clean());
}

fn error<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("must be refused"),
        Err(error) => error,
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Replaces a word of a superblock and makes the checksum right again.
fn forge(bytes: &mut [u8], twin: usize, index: usize, value: u64) {
    set_word(bytes, twin + index * 8, value);
    let crc = u64::from(crc32fast::hash(&bytes[twin..twin + 120]));
    set_word(bytes, twin + 120, crc | !crc << 32);
}
