//! Files that are pools, files that are not pools yet, and files that cannot become pools.
#![cfg(target_os = "linux")]

use bristlecone::medium::{Dram, Layer, Mapped, Mapping};
use bristlecone::{Error, ErrorKind, PTree, Pool};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options without a journal, whatever the file system of the directory for temporary files: what is tested here is the
/// pool's file alone.
fn plain() -> bristlecone::Options {
    bristlecone::Pool::options().journal(bristlecone::Journal::None)
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[track_caller]
fn refused(path: &Path) -> Error {
    plain().capacity(16 << 20).open(path).expect_err("an open that is refused")
}

/// Memory that cannot be reserved, with this error.
struct Failing(Dram, i32);

impl Layer for Failing {
    type Below = Dram;

    fn below(&self) -> &Dram {
        &self.0
    }

    fn reserve(&self, _at: u64, _len: u64) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(self.1))
    }
}

/// More than the address space of any processor.
const TOO_LARGE: u64 = 1 << 50;

#[test]
fn a_creation_that_fails_removes_what_it_made() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let failing = || plain().capacity(TOO_LARGE).open(&path).expect_err("no room");
    failing();
    assert!(!path.exists());
    // An empty file stays, and stays empty.
    File::create(&path).unwrap();
    failing();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    plain().capacity(16 << 20).open(&path).unwrap().close().unwrap();
    // Opening an existing pool is not a creation.
    failing();
    Pool::open(&path).unwrap().close().unwrap();
}

#[test]
fn the_remains_of_a_creation_are_created_anew_whatever_their_size() {
    let scratch = Scratch::new();
    for (len, name) in [(TOO_LARGE, "large"), (16 << 20, "whole"), (8, "short")] {
        let path = scratch.path(name);
        fs::write(&path, b"BRISTLE?").unwrap();
        if File::options().write(true).open(&path).unwrap().set_len(len).is_err() {
            continue;
        }
        let pool = plain().capacity(16 << 20).open(&path).unwrap();
        assert_eq!(pool.stat().capacity, 16 << 20);
        assert!(fs::metadata(&path).unwrap().len() <= 16 << 20);
    }
}

#[test]
fn a_pool_with_a_damaged_header_is_not_created_anew() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let pool = plain().capacity(16 << 20).open(&path).unwrap();
    let tree: PTree = pool.tree("t").unwrap();
    tree.insert(1, 2).unwrap();
    drop(tree);
    pool.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[..8].copy_from_slice(b"BRISTLE?");
    bytes[4096..4224].fill(0);
    fs::write(&path, &bytes).unwrap();
    let error = refused(&path);
    assert!(matches!(error.kind, ErrorKind::Superblock { .. }), "{error}");
    assert!(fs::read(&path).unwrap() == bytes, "the data are gone");
    // With nothing but the mark, the file is the remains of a creation.
    bytes[8..].fill(0);
    fs::write(&path, &bytes).unwrap();
    plain().capacity(16 << 20).open(&path).unwrap();
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = scratch.path("socket");
    let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [&*fifo, &*socket, scratch.0.path(), Path::new("/dev/null")] {
        for options in [plain(), plain().create(false), plain().read_only(true)] {
            let (done, wait) = std::sync::mpsc::channel();
            let of = path.to_owned();
            std::thread::spawn(move || done.send(options.open(of).expect_err("no pool")));
            let error = wait.recv_timeout(std::time::Duration::from_secs(20)).expect("it waits for somebody");
            assert!(matches!(error.kind, ErrorKind::NotAFile), "{path:?}: {error}");
        }
    }
}

#[test]
fn a_link_to_no_file_names_the_pool_to_create() {
    let scratch = Scratch::new();
    let (link, target) = (scratch.path("link"), scratch.path("target"));
    std::os::unix::fs::symlink("target", &link).unwrap();
    let (done, wait) = std::sync::mpsc::channel();
    let of = link.clone();
    std::thread::spawn(move || {
        // A creation that fails leaves the link, and no pool.
        plain().capacity(1).open(&of).expect_err("no room");
        done.send(plain().capacity(16 << 20).open(&of).and_then(Pool::close))
    });
    wait.recv_timeout(std::time::Duration::from_secs(20)).expect("it tries for ever").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && fs::metadata(&target).unwrap().len() > 0);
    // A link to a place where no file can be; and a link that leads to itself.
    let astray = scratch.path("astray");
    std::os::unix::fs::symlink("no/target", &astray).unwrap();
    assert!(matches!(refused(&astray).kind, ErrorKind::NotFound));
    let circle = scratch.path("circle");
    std::os::unix::fs::symlink("circle", &circle).unwrap();
    for error in [refused(&circle), Pool::open(&circle).err().unwrap()] {
        assert!(matches!(error.kind, ErrorKind::Io { .. }) && error.to_string().contains("circle: cannot "), "{error}");
    }
}

/// What the system says of the mapping of a file, in KiB.
fn mapped(path: &Path, what: &str) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let of_file = maps.split_once(path.to_str().unwrap()).expect("the file is mapped").1;
    let (_, value) = of_file.split_once(&format!("\n{what}:")).expect("the system tells");
    value.trim_start().split_once(' ').unwrap().0.parse().unwrap()
}

/// Linux has huge pages for files in memory since 6.1, unless they are forbidden.
fn has_huge_pages(scratch: &Scratch) -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let new_enough = (numbers.next(), numbers.next()) >= (Some(6), Some(1));
    let small_pages = cfg!(target_arch = "x86_64");
    new_enough
        && small_pages
        && setting.contains("never")
        && !setting.contains("[deny]")
        && scratch.0.path().starts_with("/dev/shm")
}

#[test]
fn a_pool_in_memory_has_huge_pages_and_keeps_them() {
    const KEYS: u64 = 200_000;
    let scratch = Scratch::new();
    if !has_huge_pages(&scratch) {
        eprintln!("skipped: no huge pages for files in memory here");
        return;
    }
    let path = scratch.path("a.pool");
    let pool = plain().capacity(64 << 20).open(&path).unwrap();
    let tree: PTree = pool.tree("t").unwrap();
    // Enough for a segment that is whole.
    (0..KEYS).for_each(|i| assert_eq!(tree.insert(i, i).unwrap(), None));
    assert!(mapped(&path, "ShmemPmdMapped") >= 2048);
    drop((tree, pool));
    let pool = plain().open(&path).unwrap();
    let tree: PTree = pool.tree("t").unwrap();
    assert_eq!(tree.iter().count() as u64, KEYS);
    assert!(mapped(&path, "ShmemPmdMapped") >= 2048);
}

#[test]
fn errors_say_what_was_not_allowed() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    plain().capacity(16 << 20).open(&path).unwrap().close().unwrap();
    // No file may be that long: the error is the same at creation and at growth.
    let on_disk = tempfile::tempdir().unwrap();
    let large = on_disk.path().join("large.pool");
    let too_large = || plain().capacity(TOO_LARGE).open(&large).err().unwrap();
    let created = too_large();
    plain().capacity(16 << 20).segment_size(1 << 30).capacity(4 << 30).open(&large).unwrap();
    let len = fs::metadata(&large).unwrap().len();
    let grown = too_large();
    // A growth that fails leaves the file as it was, also the growth of a damaged pool.
    assert_eq!(fs::metadata(&large).unwrap().len(), len);
    drop(Pool::open(&large).unwrap());
    let mut damaged = fs::read(&path).unwrap();
    damaged[8192] ^= 1;
    damaged[8192 + 40] = 1;
    fs::write(&path, &damaged).unwrap();
    let error = plain().capacity(32 << 20).open(&path).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::Corrupt { at: 8192, .. }), "{error}");
    assert!(fs::read(&path).unwrap() == damaged);
    assert_eq!(std::mem::discriminant(&created.kind), std::mem::discriminant(&grown.kind), "{created}; {grown}");
    // A failing disk is not a full disk.
    for (errno, full) in [(libc::EIO, false), (libc::ENOSPC, true), (libc::EDQUOT, true), (libc::EFBIG, true)] {
        let error = plain().create_on(Failing(Dram::zeroed(16 << 20), errno)).err().unwrap();
        assert_eq!(matches!(error.kind, ErrorKind::OutOfSpace { .. }), full, "{error}");
        assert_eq!(matches!(error.kind, ErrorKind::Io { .. }), !full, "{error}");
    }
    // The superuser may read everything.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(&path).is_err() {
        let error = plain().read_only(true).open(&path).err().unwrap();
        assert!(
            matches!(error.kind, ErrorKind::Io { .. }) && error.to_string().contains("ermission denied"),
            "{error}"
        );
    }
}

/// A file system of 1 MiB in memory.
struct Tiny(Scratch);

impl Tiny {
    fn mount() -> Option<Self> {
        let at = Scratch::new();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at.0.path()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: this process may not mount a tmpfs");
            return None;
        }
        Some(Self(at))
    }

    /// Leaves no page free.
    fn fill(&self) {
        let ballast = File::create(self.0.path("ballast")).unwrap();
        while io::Write::write_all(&mut &ballast, &[1; 4096]).is_ok() {}
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.0.path()).status();
    }
}

/// The environment variable with the pool that another process leaves in use.
const LEFT: &str = "BRISTLECONE_TEST_LEFT";

#[test]
fn leaves_a_pool_in_use() {
    let Some(path) = std::env::var_os(LEFT) else { return };
    let pool = plain().capacity(1 << 30).segment_size(16 << 10).open(path).unwrap();
    let tree: PTree = pool.tree("t").unwrap();
    tree.insert(1, 2).unwrap();
    // A value of zeros, for which a copy may leave out space.
    pool.map::<u64, Vec<u8>>("zeros").unwrap().insert(1, &vec![0; 12_000]).unwrap();
    std::process::exit(0);
}

#[test]
fn a_full_disk_after_a_crash_is_no_signal() {
    let Some(tiny) = Tiny::mount() else { return };
    let (path, sparse) = (tiny.0.path("a.pool"), tiny.0.path("sparse.pool"));
    let mut other = Command::new(std::env::current_exe().unwrap());
    let left = other.args(["--exact", "leaves_a_pool_in_use"]).env(LEFT, &path).output().unwrap();
    assert!(left.status.success(), "{left:?}");
    assert!(Command::new("cp").arg("--sparse=always").args([&path, &sparse]).status().unwrap().success());
    tiny.fill();
    // The part behind the end of the table, which would be read, has no space, so it holds nothing.
    let get = |pool: Pool| pool.tree("t").unwrap().get(1);
    let copy = |path: &Path| plain().open_on(Mapped::open(path, Mapping::Copy).unwrap());
    assert_eq!(get(copy(&path).unwrap()), Some(2));
    assert!(!copy(&path).unwrap().stat().was_clean);
    assert_eq!(get(Pool::open(&path).unwrap()), Some(2));
    // In a copy that left out zeros, even the part that must be read has no space.
    for error in [copy(&sparse).unwrap_err(), Pool::open(&sparse).unwrap_err()] {
        assert!(
            matches!(error.kind, ErrorKind::OutOfSpace { .. }) && error.to_string().contains("sparse.pool"),
            "{error}"
        );
    }
}
