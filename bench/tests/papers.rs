//! The tables of `docs/papers.md` between markers, and the pictures in `docs/figures/`, are made from
//! `docs/papers/*.jsonl`, which `scripts/papers.sh` fills. They are never edited by hand. `BRISTLECONE_WRITE=1` writes
//! them.

mod marked;

use bristlecone_bench::{Page, pictures};
use marked::docs;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

fn results() -> Vec<Value> {
    let files = fs::read_dir(docs("papers")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|name| name == "jsonl")).collect();
    files.sort();
    files.iter().flat_map(|path| marked::rows(path)).collect()
}

#[test]
fn the_tables_are_those_of_the_results() {
    let page = Page::new(results());
    marked::keep(&docs("papers.md"), |text| marked::written(text, "found", |name| page.table(name)));
}

#[test]
fn the_pictures_are_those_of_the_results() {
    let pictures = pictures(results());
    for (name, svg) in &pictures {
        marked::keep(&docs("figures").join(name), |_| svg.clone());
    }
    let there = fs::read_dir(docs("figures")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let drawn: BTreeSet<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
    let left: Vec<String> = there.filter(|name| !drawn.contains(name.as_str())).collect();
    assert!(left.is_empty(), "pictures without results: {left:?}");
}

/// The negative control: a figure that was edited by hand is found.
#[test]
fn a_figure_that_was_typed_is_found() {
    let row = |tree: &str, lines: f64| {
        json!({"figure": "circ:7b", "flush": "clwb", "tree": tree, "node_bytes": 4096, "n": 1000, "threads": 1,
            "mix": "insert", "repeat": 1, "lines_per_op": lines})
    };
    let page = Page::new([row("fast-fair", 24.0), row("circ-printed", 12.0)]);
    let written = |text: &str| marked::written(text, "found", |name| page.table(name));
    let right = written("a\n<!-- found claims circ -->\nold\n<!-- end -->\nb\n");
    assert!(right.contains("| | `fast-fair` : `circ-printed`, 4096 B | 13.3 | 2 |  | in part |\n"), "{right}");
    assert_eq!(written(&right), right);
    assert_ne!(right.replace("| 2 |", "| 12 |"), right);
    assert_eq!(written(&right.replace("| 2 |", "| 12 |")), right);
}
