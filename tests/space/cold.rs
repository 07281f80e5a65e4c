//! Pools that are not in memory: which pages of the file an operation reads.

use super::{Scratch, crash, plain};
use bristlecone::{Access, Map, Pool};
use std::fs::{self, File};
use std::path::Path;

const PAGE: u64 = 4096;
const ENTRIES: u64 = 20_000;

type Strings = Map<Vec<u8>, Vec<u8>>;

/// Keys in any order.
fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn options() -> bristlecone::Options {
    plain().access(Access::Random)
}

/// Opens a pool of 14 MiB in this file, with its map.
fn filled(path: &Path, key: impl Fn(u64) -> [u8; 8]) -> (Pool, Strings) {
    let pool = options().open(path).unwrap();
    let map: Strings = pool.map("m").unwrap();
    (0..ENTRIES).for_each(|i| assert!(map.insert(&key(i), &[7; 500]).is_ok()));
    (pool, map)
}

/// How many pages of a file are in memory.
fn in_memory(path: &Path) -> u64 {
    let file = File::open(path).unwrap();
    // SAFETY: nobody reads what is mapped.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    let mut there = vec![0u8; map.len().div_ceil(PAGE as usize)];
    // SAFETY: the mapping, and a byte for each of its pages, which are no smaller.
    assert_eq!(unsafe { libc::mincore(map.as_ptr().cast_mut().cast(), map.len(), there.as_mut_ptr()) }, 0);
    there.iter().filter(|&&byte| byte & 1 == 1).count() as u64
}

/// Takes a file out of memory, which may be mapped. False where the system keeps it.
fn take_out(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    for line in
        fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|line| line.ends_with(path.to_str().unwrap()))
    {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let address = |digits| usize::from_str_radix(digits, 16).unwrap();
        let start = std::ptr::without_provenance_mut(address(start));
        // SAFETY: a shared mapping of the file, which has all content.
        unsafe { libc::madvise(start, address(end) - start.addr(), libc::MADV_PAGEOUT) };
    }
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let is_out = in_memory(path) < 64;
    if !is_out {
        eprintln!("skipped: this file system does not let go of its cache");
    }
    is_out
}

/// Pages for which this thread has waited.
fn waits() -> i64 {
    let mut usage = std::mem::MaybeUninit::uninit();
    // SAFETY: a place for what the system tells.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) }, 0);
    // SAFETY: the call has succeeded.
    let usage: libc::rusage = unsafe { usage.assume_init() };
    usage.ru_majflt
}

#[test]
fn a_get_reads_the_pages_of_its_leaf_and_of_its_record() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("a.pool");
    let (_pool, map) = filled(&path, key);
    if !take_out(&path) {
        return;
    }
    let (mut before, start) = (in_memory(&path), in_memory(&path));
    const GETS: u64 = 60;
    for i in 0..GETS {
        assert!(map.get(&key(i * 331)).unwrap().is_some());
        let now = in_memory(&path);
        // Each of the two may lie on the border of two pages.
        assert!(now <= before + 4, "{} pages for one get", now - before);
        before = now;
    }
    let read = before - start;
    assert!((GETS..=GETS * 5 / 2).contains(&read), "{read} pages for {GETS} gets");
}

#[test]
fn an_open_after_a_kill_reads_leaves_and_no_records() {
    let scratch = Scratch::on_disk();
    let (path, killed) = (scratch.path("a.pool"), scratch.path("killed.pool"));
    let (pool, map) = filled(&path, key);
    pool.sync().unwrap();
    // What a kill would leave.
    crash(&path, &killed);
    drop(map);
    pool.close().unwrap();
    if !take_out(&killed) {
        return;
    }
    let pool = options().open(&killed).unwrap();
    let map: Strings = pool.map("m").unwrap();
    let (leaves, read) = (pool.metrics().trees[0].leaves, in_memory(&killed));
    // A segment of leaves grows by a quarter, so some of it may be free.
    let most = 64 + leaves * 640 * 3 / 2 / PAGE;
    assert!((leaves * 640 / PAGE..=most).contains(&read), "{read} pages, {leaves} leaves");
    assert_eq!(map.len(), ENTRIES);
    assert!(in_memory(&killed) <= most);
}

#[test]
fn a_close_reads_no_leaf_that_was_not_read() {
    let scratch = Scratch::on_disk();
    let path = scratch.path("a.pool");
    let (pool, map) = filled(&path, key);
    drop(map);
    pool.close().unwrap();
    if !take_out(&path) {
        return;
    }
    let pool = options().open(&path).unwrap();
    let map: Strings = pool.map("m").unwrap();
    let before = in_memory(&path);
    // The last handle closes the tree.
    drop(map);
    let read = in_memory(&path) - before;
    assert!(read <= 40, "{read} pages");
}

#[test]
fn a_scan_asks_ahead() {
    let scratch = Scratch::on_disk();
    let orders = [("in order", u64::to_be_bytes as fn(u64) -> [u8; 8], 200), ("in any order", key, 1000)];
    for (name, key, most) in orders {
        let path = scratch.path(name);
        let (pool, map) = filled(&path, key);
        let snapshot = pool.snapshot();
        let scans: [(&str, &dyn Fn() -> usize); 4] = [
            ("forwards", &|| map.iter().count()),
            ("backwards", &|| map.iter().rev().count()),
            ("a snapshot", &|| snapshot.iter(&map).unwrap().count()),
            ("a transaction", &|| in_transaction(&pool, &map)),
        ];
        for (scan, count) in scans {
            if !take_out(&path) {
                return;
            }
            let before = waits();
            assert_eq!(count() as u64, ENTRIES);
            let waits = waits() - before;
            // Otherwise, it would be 1,500 and 3,300.
            assert!(waits < most, "{waits} pages were waited for, {name}, {scan}");
        }
    }
}

/// How many entries a transaction sees.
fn in_transaction(pool: &Pool, map: &Strings) -> usize {
    pool.transaction(|tx| Ok::<_, bristlecone::Error>(tx.range(map, ..)?.count())).unwrap()
}
