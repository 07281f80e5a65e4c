//! Threads for real: on a pool whose ring is full all the time. Files are copied meanwhile, which is what a loss of
//! power leaves.

use super::header::Header;
use super::{Journal, Recovery};
use crate::medium::disk_file::{DiskFile, Role};
use crate::pool::Pool;
use crate::tree::by_image;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const THREADS: u64 = 4;
/// Keys. Each has a sum to which all threads add.
const SUMS: u64 = 3;

fn open(path: &Path, mode: Journal, recovery: Recovery) -> Pool {
    // A checkpoint must not come between the copies of two files.
    Pool::options().capacity(16 << 20).log_size(32 << 20).journal(mode).recovery(recovery).open(path).unwrap()
}

/// How many trees were opened by images.
static BY_IMAGE: AtomicU64 = AtomicU64::new(0);

/// The number of the image that a log names.
fn number_of_image(log: &Path) -> Option<u64> {
    let log = DiskFile::new(std::fs::File::open(log).unwrap(), Role::Log);
    Header::read(&log).unwrap()?.image.map(|image| image.number)
}

/// The number of an image.
fn number(image: &Path) -> u64 {
    std::fs::read(image).unwrap().get(24..).map_or(0, super::sealed::word)
}

/// Opens copies of a pool's files, and checks that each thread's changes are there up to one, which is not before
/// `least`.
fn check(path: &Path, least: [u64; THREADS as usize], mode: Journal) {
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("copy");
    std::fs::copy(path, &copied).unwrap();
    let log = |path: &Path| super::beside::with_ending(path, ".log");
    let image = |path: &Path| super::beside::with_ending(path, ".image");
    // Another image may be made in between, which the log does not name yet, or does.
    for _ in 0..100 {
        let is_there = std::fs::copy(image(path), image(&copied)).is_ok();
        std::fs::copy(log(path), log(&copied)).unwrap();
        if is_there && number_of_image(&log(&copied)) == Some(number(&image(&copied))) {
            break;
        }
    }
    let by_image_before = by_image();
    let pool = open(&copied, Journal::OnRequest, Recovery::WithoutRing);
    let (own, sums, batches) = (pool.tree("own").unwrap(), pool.tree("sums").unwrap(), pool.tree("batches").unwrap());
    assert!(pool.check().unwrap().violations.is_empty());
    let mut all = 0;
    for (thread, least) in (0..THREADS).zip(least) {
        let found: Vec<u64> = own.range(thread << 32..(thread + 1) << 32).map(|(key, _)| key & 0xffff_ffff).collect();
        assert!(
            found.iter().copied().eq(1..=found.len() as u64),
            "{mode:?}: {thread} lacks a change before a later one"
        );
        assert!(found.len() as u64 >= least, "{mode:?}: {} of {thread} are there, not {least}", found.len());
        all += found.len() as u64;
        // Two trees, at once, in every eighth of its rounds.
        let last = batches.get(thread).unwrap_or(0);
        assert!(found.len() as u64 / 8 - last <= 1, "{mode:?}: {last} batches, {} changes", found.len());
        assert_eq!(own.get(1 << 40 | thread).unwrap_or(0), last, "{mode:?}: a part of a batch");
    }
    BY_IMAGE.fetch_add(by_image() - by_image_before, Ordering::Relaxed);
    let added: u64 = sums.iter().map(|(_, sum)| sum).sum();
    assert!((all.saturating_sub(THREADS)..=all).contains(&added), "{mode:?}: {added} were added, of {all}");
}

fn threads(mode: Journal, rounds: u64, copies: u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, mode, Recovery::Whole);
    let (own, sums, batches) = (pool.tree("own").unwrap(), pool.tree("sums").unwrap(), pool.tree("batches").unwrap());
    pool.sync().unwrap();
    let acknowledged: [AtomicU64; THREADS as usize] = Default::default();
    let so_far = || acknowledged.each_ref().map(|last| last.load(Ordering::SeqCst));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, own, sums, batches) = (&pool, &own, &sums, &batches);
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                for round in 1..=rounds {
                    own.insert(thread << 32 | round, round).unwrap();
                    let key = round % SUMS;
                    while let old = sums.get(key)
                        && sums.compare_exchange(key, old, Some(old.unwrap_or(0) + 1)).unwrap() != old
                    {
                    }
                    if round % 8 == 0 {
                        let mut batch = pool.batch();
                        batch.insert(batches, thread, round / 8).unwrap();
                        batch.insert(own, 1 << 40 | thread, round / 8).unwrap();
                        batch.commit().unwrap();
                    }
                    if mode == Journal::Each {
                        acknowledged[thread as usize].store(round, Ordering::SeqCst);
                    }
                }
            });
        }
        let copying = scope.spawn(|| {
            for _ in 0..copies {
                if !done.load(Ordering::SeqCst) {
                    check(&path, so_far(), mode);
                }
            }
        });
        copying.join().unwrap();
    });
    done.store(true, Ordering::SeqCst);
    assert_eq!(sums.iter().map(|(_, sum)| sum).sum::<u64>(), THREADS * rounds, "{mode:?}: updates are lost");
    pool.sync().unwrap();
    check(&path, [rounds; THREADS as usize], mode);
    let stat = pool.journal().unwrap();
    println!("{mode:?}: {stat:?}");
    assert!(mode == Journal::Each || stat.waits > 0, "{mode:?}: the ring was never full: {stat:?}");
}

#[test]
fn threads_on_a_ring_that_is_always_full() {
    threads(Journal::OnRequest, 3_000, 3);
    threads(Journal::Every(Duration::from_millis(1)), 3_000, 2);
    threads(Journal::Each, 150, 2);
    let by_image = BY_IMAGE.load(Ordering::Relaxed);
    println!("{by_image} trees were opened by images");
    assert!(by_image > 0);
}
