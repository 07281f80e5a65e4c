//! Every bad input gets its own error, which names the file and the offset or limit, and leaves the pool as it was.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Mapped, Mapping, Medium};
use bristlecone::{
    CircTree, Circular, Error, Index, Linear, Map, Node, Options, PTree, Persistent, Pool, Result, Volatile,
    delegate_medium,
};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

const CAPACITY: u64 = 64 << 10;
const TWINS: [usize; 2] = [0, 4096];
const ROOTS: usize = 8192;
/// Behind four root entries.
const TABLE: usize = ROOTS + 4 * 256;
/// Offset of segment 0: the header, in whole segments.
const FIRST: usize = 12288;
const BIRTH: &[u8; 8] = b"BRISTLE?";

type Small<I = Volatile, M = Mapped> = PTree<Circular<4>, I, M>;

fn options() -> Options {
    Pool::options().capacity(CAPACITY).max_capacity(1 << 20).segment_size(4096).max_trees(4)
}

/// Held for reading by who opens pools, for writing by who starts a process: until it has loaded its program, a new
/// process has all files open that this one has, locks included.
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

    /// A pool with a tree "t" of the keys 0 to 49, closed.
    fn pool() -> Self {
        let scratch = Self::empty();
        let pool = options().open(&scratch.path).unwrap();
        let tree: Small = pool.tree("t").unwrap();
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

    /// Opening is refused, by these options and for reading only; the file stays as it is.
    fn refused(&self, options: &Options) -> Error {
        let error = self.refused_to_writers(options);
        let before = self.bytes();
        let read_only = self::error(options.clone().read_only(true).open(&self.path));
        assert_eq!(std::mem::discriminant(&error), std::mem::discriminant(&read_only), "{error} / {read_only}");
        assert!(before == self.bytes(), "touched: {read_only}");
        error
    }

    /// Opening for writing is refused; the file stays as it is.
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

    /// The pool opens and holds what it did.
    fn unharmed(&self) {
        let pool = options().open(&self.path).unwrap();
        holds_the_fifty(&pool);
        assert!(pool.check().unwrap().is_clean());
        pool.close().unwrap();
    }
}

fn holds_the_fifty<M: Medium>(pool: &Pool<M>) {
    let tree: Small<Volatile, M> = pool.tree("t").unwrap();
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

// Files that are no pools.

#[test]
fn a_foreign_file_is_left_alone() {
    let scratch = Scratch::empty();
    for content in
        [&b"x"[..], b"1234567", b"12345678", &[0; 4096], &[7; 100_000], b"SQLite format 3\0", BIRTH.split_at(5).0]
    {
        fs::write(&scratch.path, content).unwrap();
        for create in [false, true] {
            let error = scratch.refused(&options().create(create));
            assert!(matches!(error, Error::NotAPool { .. }), "{} bytes: {error}", content.len());
        }
    }
}

#[test]
fn an_empty_file_becomes_a_pool_only_if_creating_is_allowed() {
    let scratch = Scratch::empty();
    fs::write(&scratch.path, b"").unwrap();
    let error = scratch.refused(&options().create(false));
    assert!(matches!(error, Error::NotAPool { found: "an empty file", .. }), "{error}");
    let pool = options().open(&scratch.path).unwrap();
    pool.tree::<Circular<4>, Volatile>("t").unwrap().insert(1, 2).unwrap();
    drop(pool);
    let pool = Pool::open(&scratch.path).unwrap();
    assert_eq!(pool.tree::<Circular<4>, Volatile>("t").unwrap().get(1), Some(2));
}

#[test]
fn no_file_is_not_found() {
    let scratch = Scratch::empty();
    for error in [
        error(Pool::open(&scratch.path)),
        error(options().create(false).open(&scratch.path)),
        error(options().read_only(true).open(&scratch.path)),
        error(options().open(scratch.path.join("below/a.pool"))),
    ] {
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
        scratch.named(&error);
    }
    assert!(!scratch.path.exists());
}

#[test]
fn a_directory_or_device_is_not_a_file() {
    let scratch = Scratch::empty();
    fs::create_dir(&scratch.path).unwrap();
    for options in [options(), options().create(false), options().read_only(true)] {
        let error = error(options.open(&scratch.path));
        assert!(matches!(error, Error::NotAFile { .. }), "{error}");
        scratch.named(&error);
    }
    assert!(fs::read_dir(&scratch.path).unwrap().next().is_none());
    if cfg!(target_os = "linux") {
        for options in [options(), options().read_only(true)] {
            let error = error(options.open("/dev/zero"));
            assert!(matches!(error, Error::NotAFile { .. }), "{error}");
            assert!(error.to_string().contains("/dev/zero"));
        }
    }
}

#[test]
fn a_truncated_pool_is_refused() {
    let scratch = Scratch::pool();
    let whole = scratch.bytes();
    for len in [whole.len() - 1, whole.len() - 4096, FIRST + 4096, FIRST, ROOTS, 4096 + 128] {
        fs::write(&scratch.path, &whole[..len]).unwrap();
        let error = scratch.refused(&options());
        match error {
            Error::Truncated { expected, found, .. } => assert_eq!((expected, found / 8), (CAPACITY, len as u64 / 8)),
            other => panic!("{len} bytes: {other}"),
        }
    }
    for len in [4096 + 127, 4096, 128, 9, 8, 7, 1] {
        fs::write(&scratch.path, &whole[..len]).unwrap();
        let error = scratch.refused(&options());
        assert!(matches!(error, Error::NotAPool { .. } | Error::Truncated { .. }), "{len} bytes: {error}");
    }
    fs::write(&scratch.path, whole).unwrap();
    scratch.unharmed();
}

// The superblock.

#[test]
fn a_future_version_is_named() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    let version = word(&good, 8);
    scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 1, version + 1)));
    let error = scratch.refused(&options());
    match error {
        Error::Version { found, supported, .. } => assert_eq!(found, supported + 1),
        other => panic!("{other}"),
    }
    fs::write(&scratch.path, good).unwrap();
    scratch.unharmed();
}

#[test]
fn an_unknown_incompatible_feature_is_named() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 4, 1 << 40)));
    let error = scratch.refused(&options());
    match error {
        Error::Features { unknown, .. } => assert_eq!(unknown, 1 << 40),
        other => panic!("{other}"),
    }
    fs::write(&scratch.path, good).unwrap();
    scratch.unharmed();
}

#[test]
fn an_unknown_compatible_feature_is_kept() {
    let scratch = Scratch::pool();
    scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 2, 1 << 41)));
    scratch.unharmed();
    for twin in TWINS {
        assert_eq!(word(&scratch.bytes(), twin + 16), 1 << 41);
    }
}

#[test]
fn an_unknown_read_only_compatible_feature_allows_reading() {
    let scratch = Scratch::pool();
    scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 3, 1 << 42)));
    let before = scratch.bytes();
    let error = error(options().open(&scratch.path));
    assert!(matches!(error, Error::Features { .. } | Error::ReadOnly { .. }), "{error}");
    scratch.named(&error);
    let pool = options().read_only(true).open(&scratch.path).unwrap();
    assert!(pool.check().unwrap().is_clean());
    drop(pool);
    assert!(before == scratch.bytes());
}

#[test]
fn one_wrong_checksum_is_made_good_by_the_twin() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    for twin in TWINS {
        for at in [0, 9, 60, 70, 80, 90, 100, 127] {
            fs::write(&scratch.path, &good).unwrap();
            scratch.change(|bytes| bytes[twin + at] ^= 0x20);
            scratch.unharmed();
            // And the damage is gone.
            let now = scratch.bytes();
            assert_eq!(now[..128], now[4096..4096 + 128], "byte {at} of the twin at {twin}");
        }
    }
}

#[test]
fn two_wrong_checksums_are_an_error() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    for at in [9, 60, 70, 80, 90, 100, 127] {
        fs::write(&scratch.path, &good).unwrap();
        scratch.change(|bytes| TWINS.into_iter().for_each(|twin| bytes[twin + at] ^= 0x20));
        let error = scratch.refused(&options());
        assert!(matches!(error, Error::Superblock { at: 0, .. }), "{error}");
        assert!(error.to_string().contains("offset 0"), "{error}");
    }
    fs::write(&scratch.path, good).unwrap();
    scratch.unharmed();
}

#[test]
fn counters_at_their_end_are_no_panic() {
    let scratch = Scratch::pool();
    scratch.change(|bytes| {
        for twin in TWINS {
            forge(bytes, twin, 10, u64::MAX);
            forge(bytes, twin, 11, u64::MAX);
        }
    });
    match options().open(&scratch.path) {
        Ok(pool) => holds_the_fifty(&pool),
        Err(error) => scratch.named(&error),
    }
}

#[test]
fn impossible_sizes_under_a_right_checksum_are_corrupt() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    for (index, value) in
        [(7, 0), (7, 3), (7, 1 << 31), (7, u64::MAX), (8, 0), (8, 256), (8, 2 | 4 << 32), (9, 0), (9, 1)]
    {
        fs::write(&scratch.path, &good).unwrap();
        scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, index, value)));
        let error = scratch.refused(&options());
        assert!(matches!(error, Error::Corrupt { at: 56, .. }), "{index} = {value:#x}: {error}");
    }
    for value in [CAPACITY + 1, 1 << 20, 1 << 60, u64::MAX] {
        fs::write(&scratch.path, &good).unwrap();
        scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 9, value)));
        let error = scratch.refused(&options());
        assert!(matches!(error, Error::Truncated { .. } | Error::Corrupt { .. }), "{value:#x}: {error}");
    }
}

#[test]
fn a_damaged_root_or_table_entry_is_an_error_that_changes_nothing() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    for at in [ROOTS, ROOTS + 5, ROOTS + 8, ROOTS + 12, ROOTS + 64, ROOTS + 100] {
        fs::write(&scratch.path, &good).unwrap();
        scratch.change(|bytes| bytes[at] ^= 0x10);
        let error = scratch.refused_to_writers(&options());
        assert!(matches!(error, Error::Corrupt { at: 8192, .. }), "{error}");
        assert!(error.to_string().contains("8192"), "{error}");
    }
    fs::write(&scratch.path, &good).unwrap();
    scratch.change(|bytes| bytes[TABLE + 1] ^= 0x10);
    let error = scratch.refused(&options());
    assert!(matches!(error, Error::Corrupt { at, .. } if at == TABLE as u64), "{error}");
    fs::write(&scratch.path, good).unwrap();
    scratch.unharmed();
}

// Interrupted creation.

#[test]
fn an_interrupted_creation_starts_over() {
    let scratch = Scratch::empty();
    for len in [8, 4096, CAPACITY as usize] {
        let mut content = vec![0; len];
        content[..8].copy_from_slice(BIRTH);
        fs::write(&scratch.path, &content).unwrap();
        let error = scratch.refused(&options().create(false));
        assert!(matches!(error, Error::NotAPool { .. }), "{error}");
        let pool = options().open(&scratch.path).unwrap();
        assert!(pool.trees().unwrap().is_empty());
        pool.tree::<Circular<4>, Volatile>("t").unwrap();
        pool.close().unwrap();
    }
}

#[test]
fn every_cut_of_a_creation_starts_over() {
    // The whole superblock but for the magic, as `create` leaves it just before the end.
    let scratch = Scratch::empty();
    let pool = options().create_on(zeroed(CAPACITY)).unwrap();
    let words = words_of(pool.medium());
    drop(pool);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for twin in TWINS {
        forge(&mut bytes, twin, 10, 1);
        forge(&mut bytes, twin, 11, 0);
    }
    bytes[..8].copy_from_slice(BIRTH);
    for second in [&bytes[4096..4104].to_vec(), &vec![0; 8]] {
        bytes[4096..4104].copy_from_slice(second);
        fs::write(&scratch.path, &bytes).unwrap();
        let pool = options().open(&scratch.path).unwrap();
        assert!(pool.trees().unwrap().is_empty());
        pool.close().unwrap();
    }
}

#[test]
fn a_used_pool_is_never_taken_for_an_interrupted_creation() {
    // One damaged byte makes "BRISTLEC" "BRISTLE?"; the twin still says that this is a pool.
    let scratch = Scratch::pool();
    scratch.change(|bytes| bytes[..8].copy_from_slice(BIRTH));
    scratch.unharmed();
}

// Other openers, other rights.

#[test]
fn a_second_opener_is_refused() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    let tree: Small = pool.tree("t").unwrap();
    for options in [options(), options().create(false), options().read_only(true), options().capacity(1 << 20)] {
        let error = error(options.open(&scratch.path));
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        scratch.named(&error);
    }
    // Nor under another name.
    let link = scratch.path.with_file_name("link.pool");
    fs::hard_link(&scratch.path, &link).unwrap();
    assert!(matches!(error(options().open(&link)), Error::InUse { .. }));
    tree.insert(1000, 1).unwrap();
    tree.remove(1000).unwrap();
    drop(tree);
    pool.close().unwrap();
    scratch.unharmed();
}

#[test]
fn readers_exclude_writers_and_not_each_other() {
    let scratch = Scratch::pool();
    let before = scratch.bytes();
    let one = options().read_only(true).open(&scratch.path).unwrap();
    let two = options().read_only(true).open(&scratch.path).unwrap();
    assert!(matches!(error(options().open(&scratch.path)), Error::InUse { .. }));
    assert_eq!(one.trees().unwrap(), two.trees().unwrap());
    for error in [
        error(one.tree::<Circular<4>, Volatile>("t")),
        error(one.tree::<Circular<4>, Volatile>("new")),
        error(one.drop_tree("t")),
    ] {
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
        scratch.named(&error);
    }
    assert!(one.check().unwrap().is_clean());
    drop((one, two));
    assert!(before == scratch.bytes());
    scratch.unharmed();
}

const CHILD: &str = "BRISTLECONE_TEST_CHILD";

/// Not a test of its own: the other process of `another_process_is_refused`.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let error = error(options().open(path));
    println!("child: {} {error}", matches!(error, Error::InUse { .. }));
}

#[test]
#[cfg_attr(miri, ignore)]
fn another_process_is_refused() {
    let mut scratch = Scratch::pool();
    scratch._calm = None;
    let alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
    let pool = options().open(&scratch.path).unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "errors::child", "--nocapture"]).env(CHILD, &scratch.path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("child: true") && said.contains("orders.pool"), "{said}");
    drop(alone);
    pool.close().unwrap();
    scratch.unharmed();
}

#[test]
fn a_read_only_file_is_named_and_can_be_read() {
    let scratch = Scratch::pool();
    let mut permissions = fs::metadata(&scratch.path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&scratch.path, permissions.clone()).unwrap();
    let before = scratch.bytes();
    for options in [options(), options().create(false)] {
        let error = error(options.open(&scratch.path));
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
        scratch.named(&error);
    }
    let pool = options().read_only(true).open(&scratch.path).unwrap();
    assert!(pool.check().unwrap().is_clean());
    drop(pool);
    assert!(before == scratch.bytes());
    #[expect(clippy::permissions_set_readonly_false, reason = "a scratch file of this test")]
    permissions.set_readonly(false);
    fs::set_permissions(&scratch.path, permissions).unwrap();
    scratch.unharmed();
}

#[test]
fn creating_at_the_same_time_loses_nothing() {
    for round in 0..if cfg!(miri) { 2 } else { 300 } {
        let scratch = Scratch::empty();
        let create = |key: u64| {
            let path = &scratch.path;
            move || {
                let pool = match options().open(path) {
                    Ok(pool) => pool,
                    Err(Error::InUse { .. }) => return false,
                    Err(error) => panic!("{error}"),
                };
                let tree: Small = pool.tree("t").unwrap();
                tree.insert(key, key).unwrap();
                true
            }
        };
        let acknowledged: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|key| scope.spawn(create(key))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let pool = options().open(&scratch.path).unwrap();
        let tree: Small = pool.tree("t").unwrap();
        for (key, acknowledged) in acknowledged.into_iter().enumerate() {
            assert_eq!(tree.contains_key(key as u64), acknowledged, "round {round}, key {key}");
        }
    }
}

// Sizes and options.

#[test]
fn a_capacity_out_of_range_names_the_range() {
    let scratch = Scratch::empty();
    let (low, high) = (FIRST as u64 + 3 * 4096, FIRST as u64 + 256 * 4096);
    for asked in [0, 1, 4096, low - 1] {
        let error = error(options().capacity(asked).open(&scratch.path));
        match &error {
            Error::Capacity { asked: a, least, greatest, .. } => {
                assert_eq!((*a, *least, *greatest), (asked, low, high))
            }
            other => panic!("{other}"),
        }
        scratch.named(&error);
        assert!(error.to_string().contains(&low.to_string()), "{error}");
        assert!(!scratch.path.exists(), "a file for {asked} bytes");
    }
    let error = error(Pool::options().capacity(u64::MAX).open(&scratch.path));
    assert!(matches!(error, Error::Capacity { asked: u64::MAX, .. }), "{error}");
    assert!(!scratch.path.exists());
    options().capacity(low).open(&scratch.path).unwrap();
}

#[test]
fn impossible_options_are_named() {
    let scratch = Scratch::empty();
    for (options, given) in [
        (options().segment_size(0), 0),
        (options().segment_size(512), 512),
        (options().segment_size(3000), 3000),
        (options().segment_size(2 << 30), 2 << 30),
        (options().segment_size(u64::MAX), u64::MAX),
        (options().max_trees(0), 0),
        (options().max_trees(65536), 65536),
        (options().max_trees(u32::MAX), u32::MAX.into()),
    ] {
        let error = error(options.open(&scratch.path));
        assert!(matches!(error, Error::Option { given: g, .. } if g == given), "{error}");
        assert!(error.to_string().contains(&given.to_string()), "{error}");
        assert!(!scratch.path.exists());
    }
    for extreme in [options().max_capacity(0), options().max_capacity(u64::MAX), Pool::options().max_capacity(1)] {
        match extreme.open(&scratch.path) {
            Ok(pool) => drop(pool),
            Err(error) => assert!(matches!(error, Error::Capacity { .. }), "{error}"),
        }
        let _ = fs::remove_file(&scratch.path);
    }
    // A node that fits into no segment.
    let pool = options().segment_size(1024).open(&scratch.path).unwrap();
    let error = error(pool.tree::<Circular<64>, Volatile>("wide"));
    assert!(matches!(error, Error::Option { given: 1024, .. }), "{error}");
    assert!(pool.trees().unwrap().is_empty());
}

#[test]
fn a_pool_grows_by_reopening() {
    let scratch = Scratch::pool();
    let pool = options().capacity(256 << 10).open(&scratch.path).unwrap();
    assert_eq!(pool.stat().capacity, 256 << 10);
    holds_the_fifty(&pool);
    let tree: Small = pool.tree("more").unwrap();
    let mut inserted = 0;
    while tree.insert(inserted, 1).is_ok() {
        inserted += 1;
    }
    assert!(inserted * 16 > CAPACITY, "{inserted} entries in the grown pool");
    drop(tree);
    pool.close().unwrap();
    // A smaller capacity changes nothing.
    let pool = options().capacity(CAPACITY).open(&scratch.path).unwrap();
    assert_eq!(pool.stat().capacity, 256 << 10);
    assert_eq!(pool.tree::<Circular<4>, Volatile>("more").unwrap().len(), inserted);
    holds_the_fifty(&pool);
    drop(pool);
    let before = scratch.bytes();
    let error = error(options().capacity(1 << 30).open(&scratch.path));
    assert!(matches!(error, Error::Capacity { asked, .. } if asked == 1 << 30), "{error}");
    scratch.named(&error);
    assert!(before == scratch.bytes());
    scratch.unharmed();
}

// Trees.

#[test]
fn another_layout_size_index_or_kind_is_a_mismatch() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    let layout = |error: Error, found: &str, expected: &str| {
        assert!(matches!(error, Error::LayoutMismatch { .. }), "{error}");
        for part in ["'t'", found, expected] {
            assert!(error.to_string().contains(part), "{part} is missing: {error}");
        }
    };
    for open in [true, false] {
        let held: Option<Small> = open.then(|| pool.tree("t").unwrap());
        layout(error(pool.tree::<Linear<4>, Volatile>("t")), "circular/4", "linear/4");
        layout(error(pool.tree::<Circular<8>, Volatile>("t")), "circular/4", "circular/8");
        layout(error(pool.tree::<Circular<4>, Persistent>("t")), "volatile", "persistent");
        let kind = |error: Error, expected: &str| {
            assert!(matches!(error, Error::KindMismatch { .. }), "{error}");
            for part in ["'t'", "u64 -> u64", expected] {
                assert!(error.to_string().contains(part), "{part} is missing: {error}");
            }
        };
        kind(error(pool.map::<u64, Vec<u8>, Circular<4>, Volatile>("t")), "u64 -> bytes");
        kind(error(pool.map::<i64, u64, Circular<4>, Volatile>("t")), "i64 -> u64");
        kind(error(pool.map::<u64, (), Circular<4>, Volatile>("t")), "u64 -> ()");
        drop(held);
    }
    // The plain tree and the map of words are the same thing.
    let map: Map<u64, u64, Circular<4>> = pool.map("t").unwrap();
    assert_eq!(map.get(7).unwrap(), Some(21));
    drop(map);
    pool.close().unwrap();
    scratch.unharmed();
}

#[test]
fn tree_names_have_limits() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    for name in ["", &"x".repeat(121), &"é".repeat(61)] {
        let error = error(pool.tree::<Circular<4>, Volatile>(name));
        assert!(matches!(error, Error::TreeName { len, limit: 120 } if len == name.len()), "{error}");
    }
    for name in ["x", &"x".repeat(120), "é\0\n"] {
        let tree: Small = pool.tree(name).unwrap();
        assert_eq!(tree.name(), name);
        tree.insert(1, name.len() as u64).unwrap();
    }
    let error = error(pool.tree::<Circular<4>, Volatile>("one too many"));
    assert!(matches!(error, Error::TooManyTrees { limit: 4, .. }), "{error}");
    scratch.named(&error);
    pool.close().unwrap();
    let pool = options().open(&scratch.path).unwrap();
    let mut names: Vec<_> = pool.trees().unwrap().into_iter().map(|tree| tree.name).collect();
    names.sort();
    assert_eq!(names, ["t", "x", &"x".repeat(120), "é\0\n"]);
    // A freed name makes room.
    pool.drop_tree("x").unwrap();
    pool.tree::<Circular<4>, Volatile>("one too many").unwrap();
    holds_the_fifty(&pool);
}

#[test]
fn a_tree_that_is_open_or_missing_is_not_dropped() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    let tree: Small = pool.tree("t").unwrap();
    let error = error(pool.drop_tree("t"));
    assert!(matches!(error, Error::StillOpen { handles: 1, .. }), "{error}");
    scratch.named(&error);
    assert_eq!(tree.get(1), Some(3));
    let missing = self::error(pool.drop_tree("u"));
    assert!(matches!(missing, Error::NotFound { .. }) && missing.to_string().contains('u'), "{missing}");
    drop(tree);
    pool.drop_tree("t").unwrap();
    assert!(pool.trees().unwrap().is_empty());
    assert!(matches!(self::error(pool.drop_tree("t")), Error::NotFound { .. }));
}

#[test]
fn a_pool_with_live_handles_is_not_closed() {
    let scratch = Scratch::pool();
    let pool = options().open(&scratch.path).unwrap();
    let tree: Small = pool.tree("t").unwrap();
    let error = error(pool.close());
    match &error {
        Error::StillOpen { handles, .. } => assert!(*handles >= 1, "a tree is open"),
        other => panic!("{other}"),
    }
    scratch.named(&error);
    // It stays open through the handle.
    tree.insert(50, 150).unwrap();
    assert!(matches!(self::error(options().open(&scratch.path)), Error::InUse { .. }));
    let pool = tree.pool();
    let other = pool.clone();
    drop(tree);
    assert!(matches!(self::error(pool.close()), Error::StillOpen { handles: 1, .. }));
    other.close().unwrap();
    let pool = options().open(&scratch.path).unwrap();
    assert!(pool.stat().was_clean);
    assert_eq!(pool.tree::<Circular<4>, Volatile>("t").unwrap().remove(50).unwrap(), Some(150));
    drop(pool);
    scratch.unharmed();
}

#[test]
fn the_place_of_a_dropped_tree_is_as_good_as_new() {
    fn with<I: Index>() {
        let pool = options().create_on(zeroed(CAPACITY)).unwrap();
        let available = pool.stat().available;
        for round in 0..20 {
            let tree: PTree<Linear<4>, I, Any> = pool.tree("a").unwrap();
            assert!(tree.is_empty());
            (0..100).for_each(|key| assert_eq!(tree.insert(key, round).unwrap(), None));
            assert!(tree.check().is_clean());
            drop(tree);
            pool.drop_tree("a").unwrap();
            assert_eq!(pool.stat().available, available, "round {round}");
            // Another layout in the same place, too.
            let tree: PTree<Circular<8>, I, Any> = pool.tree("a").unwrap();
            (0..100).for_each(|key| assert_eq!(tree.insert(key, round).unwrap(), None));
            drop(tree);
            pool.drop_tree("a").unwrap();
        }
    }
    with::<Volatile>();
    with::<Persistent>();
}

#[test]
fn bulk_load_refuses_and_changes_nothing() {
    fn with<I: Index>() {
        let pool = options().create_on(zeroed(CAPACITY)).unwrap();
        let tree: Small<I, Any> = pool.tree("bulk").unwrap();
        for (keys, at) in
            [(vec![5, 4], 1), (vec![1, 2, 3, 3], 3), (vec![0, u64::MAX, u64::MAX], 2), (vec![u64::MAX, 0], 1)]
        {
            let error = error(tree.bulk_load(keys.into_iter().map(|key| (key, 0))));
            assert!(matches!(error, Error::Unsorted { position } if position == at), "{error}");
            assert!(error.to_string().contains(&at.to_string()), "{error}");
            assert!(tree.is_empty() && tree.iter().next().is_none());
            assert!(tree.check().is_clean(), "{:?}", tree.check().violations);
        }
        let error = error(tree.bulk_load((0..300).chain([7]).map(|key| (key, 0))));
        assert!(matches!(error, Error::Unsorted { position: 300 }), "{error}");
        tree.insert(3, 4).unwrap();
        let error = self::error(tree.bulk_load([(1, 1)]));
        assert!(matches!(&error, Error::NotEmpty { tree } if tree == "bulk"), "{error}");
        assert_eq!(tree.iter().collect::<Vec<_>>(), [(3, 4)]);
        assert!(tree.check().is_clean());
        tree.remove(3).unwrap();
        assert_eq!(tree.bulk_load((0..300).map(|key| (key, key))).unwrap(), 300);
        assert!(tree.check().is_clean());
    }
    with::<Volatile>();
    with::<Persistent>();
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_record_that_is_too_long_is_refused() {
    // Never touched, so never really there.
    let huge = vec![0; (1 << 30) + 1];
    let pool = options().create_on(zeroed(CAPACITY)).unwrap();
    let map: Map<u64, Vec<u8>, Circular<4>, Volatile, Any> = pool.map("m").unwrap();
    map.insert(1, b"one").unwrap();
    let before = words_of(pool.medium());
    for error in [
        error(map.insert(1, &huge)),
        error(map.insert(2, &huge)),
        error(map.update(1, &huge)),
        error(map.insert_new(2, &huge)),
    ] {
        assert!(
            matches!(error, Error::RecordTooLong { len, limit } if len == limit + 1 && limit == 1 << 30),
            "{error}"
        );
        assert!(error.to_string().contains("1073741824"), "{error}");
    }
    // One within the limit, and beyond the pool.
    let error = error(map.insert(2, &huge[..100_000]));
    assert!(matches!(error, Error::OutOfSpace { capacity: CAPACITY, source: None, .. }), "{error}");
    assert!(before == words_of(pool.medium()));
    map.clear().unwrap();
    assert!(matches!(self::error(map.bulk_load([(1, &b"x"[..]), (2, &huge)])), Error::RecordTooLong { .. }));
    assert!(map.is_empty() && map.check().is_clean());
}

#[test]
fn creating_on_a_used_medium_starts_from_nothing() {
    let pool = options().create_on(zeroed(CAPACITY)).unwrap();
    let tree: Small<Volatile, Any> = pool.tree("t").unwrap();
    (0..50).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    let words = words_of(pool.medium());
    let again = options().create_on(holding(words)).unwrap();
    assert!(again.trees().unwrap().is_empty());
    let tree: Small<Volatile, Any> = again.tree("t").unwrap();
    assert!(tree.is_empty());
    tree.insert(1, 2).unwrap();
    assert!(tree.check().is_clean());
    let again = options().open_on(holding(words_of(again.medium()))).unwrap();
    let tree: Small<Volatile, Any> = again.tree("t").unwrap();
    assert_eq!(tree.iter().collect::<Vec<_>>(), [(1, 2)]);
}

// Disk full.

/// A medium on a disk that fills up: only so many reservations succeed.
struct Filling {
    on: Any,
    left: AtomicU64,
}

impl Filling {
    fn new(on: Any, left: u64) -> Arc<Self> {
        Arc::new(Self { on, left: left.into() })
    }

    /// As trees take it.
    fn any(self: &Arc<Self>) -> Any {
        Arc::<Self>::clone(self)
    }

    fn allow(&self, reservations: u64) {
        self.left.store(reservations, Ordering::Relaxed);
    }
}

impl Medium for Filling {
    delegate_medium!(this => this.on; len domain load store store_pair cas order flush fence);

    fn name(&self) -> &str {
        "filling disk"
    }

    fn reserve(&self, _at: u64, _len: u64) -> io::Result<()> {
        let less = |left: u64| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.map(|_| ()).map_err(|_| io::ErrorKind::StorageFull.into())
    }
}

/// The disk is full, and the error says so.
fn full(error: &Error) {
    let Error::OutOfSpace { pool, wanted, capacity, source: Some(source) } = error else { panic!("{error}") };
    assert_eq!((pool.as_str(), source.kind()), ("filling disk", io::ErrorKind::StorageFull));
    assert!(*wanted > 0 && *capacity > 0 && error.to_string().contains("filling disk"));
}

/// Keys in an order that splits leaves everywhere.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn tiny() -> Options {
    Pool::options().segment_size(1024).max_capacity(256 << 10).max_trees(4)
}

fn same<N: Node, I: Index, M: Medium>(tree: &PTree<N, I, M>, model: &BTreeMap<u64, u64>, when: &str) {
    assert!(tree.fault().is_none(), "{when}: {}", tree.fault().unwrap());
    assert_eq!(tree.len(), model.len() as u64, "{when}");
    assert!(tree.iter().eq(model.iter().map(|(&k, &v)| (k, v))), "{when}");
    assert!(model.iter().all(|(&k, &v)| tree.get(k) == Some(v)), "{when}");
    let report = tree.check();
    assert!(report.is_clean(), "{when}: {:?}", report.violations);
}

fn a_disk_fills_up<N: Node, I: Index>() {
    let mut outcomes = [0; 4];
    for left in 0..60 {
        let when = format!("{left} reservations");
        let mut disk = Filling::new(zeroed(256 << 10), left);
        let pool = match tiny().create_on(disk.any()) {
            Ok(pool) => pool,
            Err(error) => {
                full(&error);
                outcomes[0] += 1;
                continue;
            }
        };
        let mut tree: PTree<N, I, Any> = match pool.tree("t") {
            Ok(tree) => tree,
            Err(error) => {
                full(&error);
                assert!(pool.trees().unwrap().is_empty());
                outcomes[1] += 1;
                disk.allow(u64::MAX);
                pool.tree("t").unwrap()
            }
        };
        let mut model = BTreeMap::new();
        let mut refused = 0;
        for n in 0..400 {
            let key = scattered(n);
            match tree.insert(key, n) {
                Ok(old) => assert_eq!(old, model.insert(key, n)),
                Err(error) => {
                    full(&error);
                    assert_eq!(tree.get(key), None);
                    refused += 1;
                    if refused < 4 {
                        same(&tree, &model, &when);
                    }
                }
            }
        }
        same(&tree, &model, &when);
        outcomes[2] += u64::from(refused > 0);
        outcomes[3] += u64::from(refused == 0);
        if refused > 0 {
            full(&error(tree.bulk_load((0..1000).map(|key| (key, key))).and_then(|_| tree.clear())).or_not_empty());
        }
        same(&tree, &model, &when);
        // What needs no space goes on: replacing, removing, and inserting where there is room.
        for n in (0..400).step_by(3) {
            let key = scattered(n);
            assert_eq!(
                tree.update(key, 1).unwrap(),
                model.get_mut(&key).map(|old| std::mem::replace(old, 1)),
                "{when}"
            );
        }
        for n in (0..400).filter(|n| n % 4 != 1) {
            let key = scattered(n);
            assert_eq!(tree.remove(key).unwrap(), model.remove(&key), "{when}");
        }
        same(&tree, &model, &when);
        // Reopened while the disk is still full, in order and not.
        for in_order in [true, false] {
            let crashed = words_of(&disk.on);
            drop(tree);
            let words = if in_order { words_of(&disk.on) } else { crashed };
            // The opening itself reserves twice.
            disk = Filling::new(holding(words), 2);
            let pool = tiny().open_on(disk.any()).unwrap();
            let reopened: PTree<N, I, Any> = pool.tree("t").unwrap();
            same(&reopened, &model, &when);
            tree = self::reopen(&pool, reopened);
        }
        // Space has come back.
        disk.allow(u64::MAX);
        for n in 0..400 {
            let key = scattered(n);
            assert_eq!(tree.insert(key, n).unwrap(), model.insert(key, n), "{when}");
        }
        same(&tree, &model, &when);
        drop(tree);
        let pool = tiny().open_on(holding(words_of(&disk.on))).unwrap();
        same(&pool.tree::<N, I>("t").unwrap(), &model, &when);
    }
    assert!(outcomes.iter().all(|&n| n > 0), "not every outcome was met: {outcomes:?}");
}

/// Closes a tree and opens it again in the same pool, so that the old pool is not needed any more.
fn reopen<N: Node, I: Index, M: Medium>(pool: &Pool<M>, tree: PTree<N, I, M>) -> PTree<N, I, M> {
    drop(tree);
    pool.tree("t").unwrap()
}

trait OrNotEmpty {
    fn or_not_empty(self) -> Error;
}

impl OrNotEmpty for Error {
    /// A tree that holds something is not loaded, disk full or not.
    fn or_not_empty(self) -> Error {
        match self {
            Error::NotEmpty { .. } => Error::OutOfSpace {
                pool: "filling disk".to_owned(),
                wanted: 1,
                capacity: 1,
                source: Some(io::ErrorKind::StorageFull.into()),
            },
            other => other,
        }
    }
}

#[test]
fn a_disk_fills_up_linear_volatile() {
    a_disk_fills_up::<Linear<4>, Volatile>();
}

#[test]
fn a_disk_fills_up_linear_persistent() {
    a_disk_fills_up::<Linear<4>, Persistent>();
}

#[test]
fn a_disk_fills_up_circular_volatile() {
    a_disk_fills_up::<Circular<4>, Volatile>();
}

#[test]
fn a_disk_fills_up_circular_persistent() {
    a_disk_fills_up::<Circular<4>, Persistent>();
}

#[test]
fn a_disk_fills_up_circular_8_persistent() {
    a_disk_fills_up::<Circular<8>, Persistent>();
}

#[test]
fn a_bulk_load_onto_a_full_disk_loads_nothing() {
    fn with<I: Index>() {
        for left in 6..60 {
            let disk = Filling::new(zeroed(256 << 10), u64::MAX);
            let pool = tiny().create_on(disk.any()).unwrap();
            let tree: Small<I, Any> = pool.tree("t").unwrap();
            disk.allow(left);
            let entries = (0..120).map(|key| (key, !key));
            let before = BTreeMap::new();
            match tree.bulk_load(entries.clone()) {
                Ok(n) => assert_eq!(n, 120),
                Err(error) => {
                    full(&error);
                    same(&tree, &before, "after a failed load");
                    disk.allow(u64::MAX);
                    assert_eq!(tree.bulk_load(entries).unwrap(), 120);
                }
            }
            same(&tree, &(0..120).map(|key| (key, !key)).collect(), "after a load");
        }
    }
    with::<Volatile>();
    with::<Persistent>();
}

#[test]
fn a_disk_fills_up_with_records() {
    type Records = Map<u64, Vec<u8>, Circular<4>, Persistent, Any>;
    let value = |key: u64| vec![key as u8; key as usize * 37 % 700];
    let mut refusals = 0;
    for left in 8..60 {
        let disk = Filling::new(zeroed(256 << 10), u64::MAX);
        let pool = tiny().create_on(disk.any()).unwrap();
        let map: Records = pool.map("m").unwrap();
        disk.allow(left);
        let mut model = BTreeMap::new();
        for n in 0..150 {
            let key = n * 7 % 60;
            match map.insert(key, &value(n)) {
                Ok(was_there) => assert_eq!(was_there, model.insert(key, value(n)).is_some()),
                Err(error) => {
                    full(&error);
                    refusals += 1;
                }
            }
            assert_eq!(map.get(key).unwrap(), model.get(&key).cloned());
        }
        let same = |map: &Records, model: &BTreeMap<u64, Vec<u8>>| {
            let all: Result<Vec<_>> = map.iter().collect();
            assert!(all.unwrap().into_iter().eq(model.clone()));
            assert!(map.check().is_clean(), "{:?}", map.check().violations);
        };
        same(&map, &model);
        disk.allow(u64::MAX);
        for key in 0..60 {
            map.insert(key, &value(key)).unwrap();
            model.insert(key, value(key));
        }
        same(&map, &model);
        let pool = tiny().open_on(holding(words_of(&disk.on))).unwrap();
        same(&pool.map("m").unwrap(), &model);
    }
    assert!(refusals > 100, "{refusals}");
}

#[test]
fn a_full_disk_at_open_changes_nothing() {
    let pool = tiny().create_on(zeroed(256 << 10)).unwrap();
    let tree: Small<Persistent, Any> = pool.tree("t").unwrap();
    (0..100).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    let words = words_of(pool.medium());
    for left in [0, 1] {
        let seen = Filling::new(holding(words.clone()), left);
        full(&error(tiny().open_on(seen.any())));
        assert!(words_of(&seen.on) == words, "{left} reservations");
    }
}

#[test]
fn a_full_pool_says_how_large_it_is() {
    let scratch = Scratch::empty();
    let pool = options().open(&scratch.path).unwrap();
    let tree: Small = pool.tree("t").unwrap();
    let mut model = BTreeMap::new();
    let refused = loop {
        let key = scattered(model.len() as u64);
        match tree.insert(key, 1) {
            Ok(_) => model.insert(key, 1),
            Err(error) => break error,
        };
    };
    assert!(matches!(refused, Error::OutOfSpace { wanted: 4096, capacity: CAPACITY, source: None, .. }), "{refused}");
    scratch.named(&refused);
    assert!(refused.to_string().contains("65536"), "{refused}");
    same(&tree, &model, "full");
    // No room even for the record of an orderly close: the next open walks.
    drop(tree);
    pool.close().unwrap();
    let pool = options().capacity(128 << 10).open(&scratch.path).unwrap();
    let tree: Small = pool.tree("t").unwrap();
    same(&tree, &model, "reopened");
    for n in 0..2000 {
        let key = scattered(n);
        assert_eq!(tree.insert(key, 2).unwrap(), model.insert(key, 2));
    }
    same(&tree, &model, "grown");
}

// A disk that is really full.

/// A file system of `kib` KiB in memory, if this process may mount one.
struct Tiny(PathBuf);

impl Tiny {
    fn mount(at: &Path, kib: u64) -> Option<Self> {
        let _alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(at);
        let mounted = command.output().is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: this process may not mount a tmpfs");
        }
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore)]
fn a_real_disk_fills_up() {
    let dir = tempfile::tempdir().unwrap();
    let Some(tiny) = Tiny::mount(dir.path(), 1024) else { return };
    let path = tiny.0.join("orders.pool");
    let ballast = tiny.0.join("ballast");
    let fill = |kib: usize| fs::write(&ballast, vec![1; kib << 10]).unwrap();
    let options = || Pool::options().capacity(64 << 20).max_capacity(64 << 20).segment_size(64 << 10).max_trees(4);
    let refused = |error: &Error| {
        let Error::OutOfSpace { source: Some(source), .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("orders.pool"), "{error}");
    };
    // At create: not even the header fits.
    fill(1024);
    refused(&error(options().open(&path)));
    // At growth, in a split.
    fill(256);
    let pool = options().open(&path).unwrap();
    let tree: CircTree = pool.tree("t").unwrap();
    let mut model = BTreeMap::new();
    let error = loop {
        let key = scattered(model.len() as u64);
        match tree.insert(key, 1) {
            Ok(_) => model.insert(key, 1),
            Err(error) => break error,
        };
    };
    refused(&error);
    assert!(model.len() > 4000, "{}", model.len());
    same(&tree, &model, "full");
    let map: Result<Map<u64, Vec<u8>>> = pool.map("records");
    refused(&self::error(map));
    drop(tree);
    pool.close().unwrap();
    // Still full.
    let pool = options().open(&path).unwrap();
    let tree: CircTree = pool.tree("t").unwrap();
    same(&tree, &model, "reopened");
    fs::remove_file(&ballast).unwrap();
    let more = (0..).map(scattered).filter(|key| !model.contains_key(key)).take(1000).collect::<Vec<_>>();
    for key in more {
        tree.insert(key, 2).unwrap();
        model.insert(key, 2);
    }
    same(&tree, &model, "with space again");
}

#[test]
fn a_pool_on_any_medium_can_be_opened_for_reading_only() {
    let pool = Pool::options().capacity(16 << 20).create_on(zeroed(16 << 20)).unwrap();
    let tree: CircTree<Volatile, Any> = pool.tree("t").unwrap();
    tree.insert(1, 2).unwrap();
    let words = words_of(pool.medium());
    let reader = Pool::options().read_only(true).open_on(holding(words.clone())).unwrap();
    assert!(matches!(reader.tree::<Circular<32>, Volatile>("t"), Err(Error::ReadOnly { .. })));
    assert!(matches!(reader.drop_tree("t"), Err(Error::ReadOnly { .. })));
    assert_eq!(reader.check().unwrap().entries, 1);
    assert_eq!(words_of(reader.medium()), words);
    let refused = Pool::options().read_only(true).create_on(zeroed(16 << 20));
    assert!(matches!(refused.err(), Some(Error::ReadOnly { .. })));
}

#[test]
fn a_pool_grows_to_an_odd_size() {
    let scratch = Scratch::empty();
    let small = Pool::options().segment_size(4096).max_trees(4).max_capacity(16 << 20);
    drop(small.clone().capacity(1 << 20).open(&scratch.path).unwrap());
    let grown = small.clone().capacity(2_000_003).open(&scratch.path).unwrap();
    assert_eq!(grown.stat().capacity, 2_000_000);
    let tree: PTree<Circular<4>, Volatile> = grown.tree("t").unwrap();
    tree.insert(1, 2).unwrap();
    drop((tree, grown));
    let again = small.open(&scratch.path).unwrap();
    assert_eq!(again.tree::<Circular<4>, Volatile>("t").unwrap().get(1), Some(2));
}

#[test]
fn what_is_stored_to_a_read_only_mapping_goes_nowhere() {
    let scratch = Scratch::empty();
    drop(options().open(&scratch.path).unwrap());
    let before = fs::read(&scratch.path).unwrap();
    let mapped = Mapped::open(&scratch.path, Mapping::Read).unwrap();
    mapped.store(0, 1);
    mapped.store_pair(64, [1, 2]);
    let _ = mapped.cas(8, 0, 1);
    drop(mapped);
    assert!(fs::read(&scratch.path).unwrap() == before);
    let refused = options().create_on(Mapped::open(&scratch.path, Mapping::Read).unwrap());
    assert!(matches!(refused.err(), Some(Error::ReadOnly { .. })));
}

#[test]
fn nothing_of_what_a_medium_held_comes_back() {
    let used = tiny().create_on(zeroed(256 << 10)).unwrap();
    let tree: PTree<Linear<4>, Volatile, Any> = used.tree("old").unwrap();
    for key in 0..100 {
        tree.insert(key, key).unwrap();
    }
    let mut words = words_of(used.medium());
    // As a creation over it leaves it that was cut at once; and with a first word that tells nothing.
    for first in [u64::from_le_bytes(*b"BRISTLE?"), 0] {
        words[0] = first;
        words[512] = 0;
        let pool = tiny().create_on(holding(words.clone())).unwrap();
        assert!(pool.trees().unwrap().is_empty());
        let tree: PTree<Linear<4>, Volatile, Any> = pool.tree("new").unwrap();
        assert!(tree.is_empty());
        for key in 0..100 {
            tree.insert(key * 3, key).unwrap();
        }
        // A crash: all that was never written is looked at.
        let again = tiny().open_on(holding(words_of(pool.medium()))).unwrap();
        let tree: PTree<Linear<4>, Volatile, Any> = again.tree("new").unwrap();
        assert!(tree.iter().eq((0..100).map(|key| (key * 3, key))));
        assert!(tree.check().is_clean(), "{:?}", tree.check());
    }
}

#[test]
fn a_load_that_panics_takes_no_space() {
    let pool = tiny().create_on(zeroed(256 << 10)).unwrap();
    let map: Map<u64, Vec<u8>, Circular<4>, Persistent, Any> = pool.map("m").unwrap();
    let bytes = vec![7; 3000];
    for _ in 0..50 {
        let entries = (0..20).map(|key| {
            assert!(key < 15, "as asked");
            (key, &bytes[..key as usize * 200])
        });
        let load = std::panic::AssertUnwindSafe(|| map.bulk_load(entries));
        assert!(std::panic::catch_unwind(load).is_err());
        assert!(map.check().is_clean(), "{:?}", map.check());
    }
    assert_eq!(map.bulk_load((0..20).map(|key| (key, &bytes[..key as usize * 10]))).unwrap(), 20);
    assert!(map.check().is_clean(), "{:?}", map.check());
}
