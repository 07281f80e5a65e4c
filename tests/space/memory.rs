//! Memory: what open trees take of it, and that they say so.

use super::{Scratch, child, run_apart};
use bristlecone::{IndexKind, Map, OneLine, PTree, Pool};
use std::fs;
use std::path::Path;

/// Bytes of this process that are no file's.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

enum Tree {
    Words(PTree),
    Strings(Map<Vec<u8>, Vec<u8>>),
}

impl Tree {
    fn open(pool: &Pool, kind: &str, number: u64) -> Self {
        let name = format!("tree {number}");
        match kind {
            "words" => Self::Words(pool.tree(&name).unwrap()),
            "words, persistent" => Self::Words(pool.tree_with::<OneLine>(&name, IndexKind::Persistent).unwrap()),
            "strings" => Self::Strings(pool.map(&name).unwrap()),
            _ => unreachable!("there are three kinds"),
        }
    }

    fn fill(&self, keys: u64) {
        // Few one by one, as they come; many at once, but in several parts.
        match self {
            Self::Words(tree) if keys <= 10_000 => {
                (0..keys).for_each(|key| _ = tree.insert(key * 7919 % keys, key).unwrap());
            }
            Self::Words(tree) => _ = tree.extend((0..keys).map(|key| (key, key))).unwrap(),
            Self::Strings(map) if keys <= 10_000 => {
                (0..keys).for_each(|key| _ = map.insert(&(key * 7919 % keys).to_be_bytes(), b"value").unwrap());
            }
            Self::Strings(map) => {
                _ = map.extend((0..keys).map(|key| (key.to_be_bytes().to_vec(), b"value".to_vec()))).unwrap();
            }
        }
    }

    fn read(&self) {
        match self {
            Self::Words(tree) => _ = tree.iter().count(),
            Self::Strings(map) => _ = map.iter().count(),
        }
    }

    fn memory(&self) -> u64 {
        match self {
            Self::Words(tree) => tree.memory(),
            Self::Strings(map) => map.memory(),
        }
    }
}

/// In a process of its own, in which nothing was allocated and given back before.
#[test]
fn does_a_step() {
    let Some((path, step)) = child() else { return };
    let [kind, keys, trees, when] = step.split('/').collect::<Vec<_>>().try_into().unwrap();
    let (keys, trees) = (keys.parse::<u64>().unwrap(), trees.parse::<u64>().unwrap());
    let pool = crate::plain().capacity(32 << 30).sync(false).open(&path).unwrap();
    let mut open = Vec::with_capacity(trees as usize);
    let before = resident();
    for number in 0..trees {
        let tree = Tree::open(&pool, kind, number);
        if when == "new" {
            tree.fill(keys)
        } else {
            tree.read()
        }
        open.push(tree);
    }
    let grown = resident() - before;
    let said: u64 = open.iter().map(Tree::memory).sum();
    println!("\nper tree: {} {}", grown / trees, said / trees);
}

/// Bytes for each tree: what the process has taken, and what the trees say.
fn measured(pool: &Path, kind: &str, keys: u64, trees: u64, when: &str) -> (u64, u64) {
    let output = run_apart("memory::does_a_step", pool, &format!("{kind}/{keys}/{trees}/{when}"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.strip_prefix("per tree: ")).expect("the child has measured");
    let (taken, said) = line.split_once(' ').unwrap();
    (taken.parse().unwrap(), said.parse().unwrap())
}

const KINDS: [&str; 3] = ["words", "words, persistent", "strings"];

#[test]
fn a_small_tree_takes_little_and_no_tree_takes_more_or_less_than_it_says() {
    for kind in KINDS {
        let all = [(10, 1000, 8 << 10), (2000, 100, 64 << 10), (10_000, 30, 256 << 10), (300_000, 1, 8 << 20)];
        for &(keys, trees, most) in &all[..if super::long() { 4 } else { 3 }] {
            let scratch = Scratch::in_memory().for_processes();
            for when in ["new", "opened again"] {
                let (taken, said) = measured(&scratch.path("a.pool"), kind, keys, trees, when);
                let what = format!("{kind}, {keys} keys, {when}: {taken} bytes are taken, and {said} are said to be");
                println!("{what}");
                assert!(taken <= most, "{what}");
                assert!(taken.abs_diff(said) <= taken / 10, "{what}");
            }
        }
    }
}
