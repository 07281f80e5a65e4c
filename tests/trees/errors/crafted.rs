//! Pools that claim to have much more than they hold.
#![cfg(target_os = "linux")]

use super::{SPAWNING, Scratch, Small, TABLE};
use bristlecone::papers::Circular;
use bristlecone::{IndexKind, Map, Options, Pool};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::PoisonError;

/// The size that the file claims, in segments of the smallest size: a table of half a gigabyte.
const CLAIMED: u64 = 64 << 30;
/// The most memory that a process may use while it has the pool open.
const BOUND: u64 = 64 << 20;
/// The environment variables with the pool and with what to do with it.
const CHILD: [&str; 2] = ["BRISTLECONE_TEST_CRAFTED", "BRISTLECONE_TEST_STEP"];

fn options() -> Options {
    crate::plain().segment_size(1024).capacity(CLAIMED)
}

/// The most bytes of memory that this process ever used, mapped files included.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn keys(path: &Path, from: u64) {
    let pool = options().open(path).unwrap();
    let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
    assert_eq!(tree.len(), from);
    (from..from + 500).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
}

#[test]
#[cfg_attr(miri, ignore)]
fn child() {
    let [Some(path), Some(step)] = CHILD.map(std::env::var_os) else { return };
    let path = Path::new(&path);
    match step.to_str().unwrap() {
        "crash" => {
            let pool = options().open(path).unwrap();
            let tree: Small = pool.tree_with("t", IndexKind::Volatile).unwrap();
            (0..500).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
            println!("\npeak: {}", peak());
            std::process::exit(0);
        }
        "recover" => keys(path, 500),
        "reopen" => keys(path, 1000),
        "check" => {
            // Nothing here has opened a tree of that layout.
            <Pool>::name_layout::<Circular<4>>();
            let pool = crate::plain().read_only(true).open(path).unwrap();
            let report = pool.check().unwrap();
            assert!(report.is_clean() && report.entries == 1500, "{report:?}");
        }
        "whole" => {
            let report = crate::plain().read_only(true).open(path).unwrap().check().unwrap();
            assert!(report.is_clean(), "{report:?}");
        }
        "cut" => {
            let report = crate::plain().read_only(true).open(path).unwrap().check().unwrap();
            assert!(report.violations.iter().any(|broken| broken.invariant.starts_with("V1")), "{report:?}");
        }
        "long" => {
            let report = crate::plain().read_only(true).open(path).unwrap().check().unwrap();
            assert!(report.violations.iter().any(|broken| broken.invariant.starts_with("V2")), "{report:?}");
        }
        step => panic!("{step}"),
    }
    println!("\npeak: {}", peak());
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_pool_takes_memory_for_what_it_holds_not_for_what_it_says() {
    let mut scratch = Scratch::empty();
    scratch._calm = None;
    ["crash", "recover", "reopen", "check"].iter().for_each(|step| bounded(&scratch.path, step));
}

/// Another process does a step, and may use only little memory for it.
fn bounded(path: &Path, step: &str) {
    let alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args(["--exact", "errors::crafted::child", "--nocapture"]);
    let output = command.env(CHILD[0], path).env(CHILD[1], step).output().unwrap();
    drop(alone);
    let said = String::from_utf8_lossy(&output.stdout);
    let peak = said.lines().find_map(|line| line.strip_prefix("peak: ")).unwrap_or_else(|| panic!("{output:?}"));
    assert!(peak.parse::<u64>().unwrap() < BOUND, "{step}: {peak} bytes");
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_record_takes_no_more_memory_than_it_has_bytes() {
    const SEGMENT: u64 = 1 << 20;
    let mut scratch = Scratch::empty();
    let pool = crate::plain().segment_size(SEGMENT).capacity(4 << 30);
    let pool = pool.open(&scratch.path).unwrap();
    let map: Map<u64, Vec<u8>> = pool.map("m").unwrap();
    map.insert(1, &vec![7; 40 << 20]).unwrap();
    drop(map);
    pool.close().unwrap();
    scratch._calm = None;
    // No more than the record itself, whose bytes are in the file.
    bounded(&scratch.path, "whole");
    // The record now claims one segment more than it has; then a length above that of any record.
    let file = OpenOptions::new().read(true).write(true).open(&scratch.path).unwrap();
    let mut table = [[0; 8]; 64];
    file.read_exact_at(table.as_flattened_mut(), TABLE as u64).unwrap();
    let words = table.map(u64::from_le_bytes);
    let head = words.iter().position(|word| (word & 0xf, word >> 37) == (5, 41)).unwrap();
    let word = words[head] & (0xffff << 21 | 0x1fff) | 42 << 37;
    let check = (word ^ head as u64).wrapping_add(0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    file.write_all_at(&(word | check << 13).to_le_bytes(), (TABLE + head * 8) as u64).unwrap();
    for (len, step) in [(40 << 20, "cut"), ((1u64 << 30) + (1 << 17) + 1, "long")] {
        file.write_all_at(&len.to_le_bytes(), SEGMENT * head as u64).unwrap();
        bounded(&scratch.path, step);
    }
}
