//! What a process may not have, and what a disk has not: errors, and nothing is lost.

use super::{CHILD, MIB, Scratch, Values, child, run_apart, taken, used, value};
use bristlecone::{Error, ErrorKind, Journal, PTree, Pool};
use std::fs;
use std::path::Path;
use std::process::Command;

fn is_full(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::OutOfSpace { .. })
}

/// Addresses that this process may have from now on.
fn limit_addresses(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: it reads the limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// The most bytes of a private mapping of this process that can be written.
fn greatest_private_mapping() -> u64 {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let sizes = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let size = u64::from_str_radix(to, 16).ok()? - u64::from_str_radix(from, 16).ok()?;
        let rights = rest.get(..4)?;
        (rights.contains('w') && rights.contains('p')).then_some(size)
    });
    sizes.max().unwrap()
}

#[test]
fn does_a_step() {
    let Some((path, step)) = child() else { return };
    match step.as_str() {
        "few addresses" => {
            limit_addresses(768 * MIB);
            let options = crate::plain().capacity(1 << 30).sync(false);
            let pool = options.open(&path).unwrap();
            let map: Values = pool.map("m").unwrap();
            // More than there are addresses for.
            let mut count = 0;
            let error = loop {
                match map.insert(count, &value(count, 60_000)) {
                    Ok(_) => count += 1,
                    Err(error) => break error,
                }
                assert!(count < 30_000, "the limit is not one");
            };
            println!("\nstopped after {} MiB: {error}", count * 60_000 / MIB);
            assert!(is_full(&error), "{error}");
            assert!(count > 2000, "{count}");
            (0..count).for_each(|key| assert_eq!(map.get(key).unwrap().unwrap(), value(key, 60_000)));
            (0..count).step_by(2).for_each(|key| assert!(map.remove(key).unwrap()));
            map.insert(0, &value(0, 60_000)).unwrap();
            drop(map);
            pool.close().unwrap();
            let pool = options.open(&path).unwrap();
            let map: Values = pool.map("m").unwrap();
            assert_eq!(map.len(), count / 2 + 1);
        }
        "large" | "large journal" => {
            let before = greatest_private_mapping();
            let mut options = crate::plain().capacity(1 << 40);
            if step == "large journal" {
                options = options.journal(Journal::OnRequest);
            }
            for _ in 0..2 {
                let pool = options.open(&path).unwrap();
                let tree: PTree = pool.tree("t").unwrap();
                (0..1000).for_each(|i| assert!(tree.insert(i, i).is_ok()));
                let greatest = greatest_private_mapping();
                println!("\n{step}: {before} before, {greatest} with the pool");
                assert!(greatest <= before.max(64 * MIB), "{greatest}");
                drop(tree);
                pool.close().unwrap();
            }
        }
        "open and stay" => {
            let pool = crate::plain().open(&path).unwrap();
            let tree: PTree = pool.tree("t").unwrap();
            (0..1000).for_each(|i| assert!(tree.insert(i, i).is_ok()));
            std::process::exit(0);
        }
        step => panic!("{step}"),
    }
    println!("\nwell done");
}

fn well_done(path: &Path, step: &str) {
    let output = run_apart("limits::does_a_step", path, step);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("well done"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines()
        .filter(|line| line.contains("stopped") || line.contains("with the pool"))
        .for_each(|l| println!("{l}"));
}

#[test]
fn a_process_with_few_addresses_has_a_pool_of_what_it_may() {
    let scratch = Scratch::in_memory().for_processes();
    well_done(&scratch.path("a.pool"), "few addresses");
}

#[test]
fn a_large_capacity_reserves_no_memory() {
    let scratch = Scratch::on_disk().for_processes();
    well_done(&scratch.path("a.pool"), "large");
    well_done(&scratch.path("journal.pool"), "large journal");
}

#[test]
fn a_capacity_below_what_is_used_changes_nothing() {
    let scratch = Scratch::in_memory();
    let path = scratch.path("a.pool");
    let pool = crate::plain().capacity(64 * MIB).open(&path).unwrap();
    let map: Values = pool.map("m").unwrap();
    (0..300).for_each(|key| assert!(!map.insert(key, &value(key, 100_000)).unwrap()));
    drop(map);
    pool.close().unwrap();
    let pool = crate::plain().capacity(1 << 20).open(&path).unwrap();
    assert_eq!(pool.stat().capacity, 64 * MIB);
    let map: Values = pool.map("m").unwrap();
    (0..300).for_each(|key| assert_eq!(map.get(key).unwrap().unwrap(), value(key, 100_000)));
    let mut more = 300;
    let error = loop {
        match map.insert(more, &value(more, 100_000)) {
            Ok(_) => more += 1,
            Err(error) => break error,
        }
    };
    assert!(is_full(&error), "{error}");
    println!("{more} records of 100,000 bytes in 64 MiB");
    assert!(more >= 500, "{more}");
    drop(map);
    drop(pool);
    // More is granted at the next open.
    let pool = crate::plain().capacity(80 * MIB).open(&path).unwrap();
    let map: Values = pool.map("m").unwrap();
    assert_eq!(map.len(), more);
    map.insert(more, &value(more, 100_000)).unwrap();
}

/// A file system of 8 MiB in memory.
struct Tiny(Scratch);

impl Tiny {
    fn mount() -> Option<Self> {
        let at = Scratch::in_memory().for_processes();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(at.dir.path()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: this process may not mount a tmpfs");
            return None;
        }
        Some(Self(at))
    }

    /// Leaves so many pages free.
    fn fill(&self, free: u64) {
        use std::io::Write;
        let ballast = fs::File::options().append(true).create(true).open(self.0.path("ballast")).unwrap();
        while (&ballast).write_all(&[1; 4096]).is_ok() {}
        let len = ballast.metadata().unwrap().len();
        ballast.set_len((len / 4096 * 4096).saturating_sub(free * 4096)).unwrap();
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.dir.path()).status();
    }
}

#[test]
fn a_full_disk_is_an_error_and_what_is_removed_is_free_again() {
    let Some(tiny) = Tiny::mount() else { return };
    let path = tiny.0.path("a.pool");
    let pool = crate::plain().open(&path).unwrap();
    let maps: [Values; 2] = ["a", "b"].map(|name| pool.map(name).unwrap());
    for round in 0..6 {
        let len = [100, 3000, 20_000, 700_000][round % 4];
        let (map, other) = (&maps[round % 2], &maps[1 - round % 2]);
        let mut count = 0;
        let error = loop {
            match map.insert(count, &value(count, len)) {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
        };
        assert!(is_full(&error), "{error}");
        println!("round {round}: {count} of {len} bytes: {} bytes; {}", count * len, taken(&path));
        assert!(count * len >= 4 * MIB, "round {round}: {count} of {len}");
        assert!(other.is_empty());
        (0..count).for_each(|key| assert_eq!(map.get(key).unwrap().unwrap(), value(key, len), "{key}"));
        assert!(pool.check().unwrap().is_clean());
        // Emptying needs hardly any space.
        match round % 3 {
            0 => (0..count).for_each(|key| assert!(map.remove(key).unwrap())),
            1 => (0..count).rev().for_each(|key| assert!(map.remove(key).unwrap())),
            _ => {
                if let Err(error) = map.clear() {
                    assert!(is_full(&error), "{error}");
                    (0..count).for_each(|key| assert!(map.remove(key).unwrap()));
                }
            }
        }
        assert!(map.is_empty());
    }
    // Full at the close, and at the open.
    let mut count = 0;
    while maps[0].insert(count, &value(count, 500)).is_ok() {
        count += 1;
    }
    tiny.fill(0);
    drop(maps);
    pool.close().unwrap();
    for free in [0, 1, 2] {
        tiny.fill(free);
        let pool = match Pool::open(&path) {
            Ok(pool) => pool,
            Err(error) => {
                assert!(is_full(&error), "{error}");
                println!("with {free} pages free, no open: {error}");
                continue;
            }
        };
        match pool.map::<u64, Vec<u8>>("a") {
            Ok(map) => {
                assert_eq!(map.len(), count);
                (0..count).for_each(|key| assert_eq!(map.get(key).unwrap().unwrap(), value(key, 500), "{key}"));
            }
            Err(error) => assert!(is_full(&error), "{error}"),
        }
    }
    fs::remove_file(tiny.0.path("ballast")).unwrap();
    let pool = Pool::open(&path).unwrap();
    let map: Values = pool.map("a").unwrap();
    assert_eq!(map.len(), count);
    map.clear().unwrap();
    assert!(pool.check().unwrap().is_clean());
}

#[test]
fn another_process_and_a_child_leave_the_space_alone() {
    let scratch = Scratch::in_memory().for_processes();
    let path = scratch.path("a.pool");
    // Killed by itself.
    assert!(run_apart("limits::does_a_step", &path, "open and stay").status.success());
    let pool = Pool::open(&path).unwrap();
    let tree: PTree = pool.tree("t").unwrap();
    assert_eq!(tree.len(), 1000);
    let before = (used(&pool), taken(&path));
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "limits::does_a_step", "--nocapture"]);
    let refused = other.env(CHILD[0], &path).env(CHILD[1], "open and stay").output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("InUse"), "{refused:?}");
    assert_eq!((used(&pool), taken(&path)), before);
    drop(tree);
    pool.drop_tree("t").unwrap();
    assert!(used(&pool) < before.0 && taken(&path) < before.1);
}
