//! The papers' figures, of few keys.

use super::{has_keys, is_empty, objects, run};
use serde_json::Value;

/// The rows of figures that were asked for so.
fn figures(asked: &str, options: &[&str]) -> Vec<Value> {
    let args = ["--figure", asked, "--repeat", "1", "--seed", "5", "--json"];
    objects(run(args.iter().chain(options)))
}

#[test]
fn figures_have_stable_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for row in figures("circ:8b,crab:2,circ:table1", &["--n", "2000", "--medium", path]) {
        has_keys(&row, &["figure", "tree", "node_bytes", "n", "threads", "mix", "seed", "ratio"]);
        if row["figure"] == "circ:table1" {
            assert!(row["ms"].as_f64().unwrap() > 0.0, "{row}");
        } else {
            has_keys(&row, &["ns_per_op", "wall_ns_per_op"]);
            assert!(row["mix"] == "get" || row.get("slow_ns").is_some(), "{row}");
        }
        if row["figure"] == "circ:8b" {
            has_keys(&row, &["lines_per_op", "fences_per_op", "orders_per_op", "bytes_per_op"]);
            assert_eq!(row["ratio"] == 1.0, row["tree"] == "circ", "{row}");
        }
    }
    is_empty(dir.path());
}

#[test]
fn figures_that_count_are_the_same_each_time() {
    let counts = || figures("circ:7b,circ:7c,nv:7", &["--n", "5000"]);
    let rows = counts();
    assert_eq!(rows, counts());
    // The row of the one size that a debug build has.
    let row = |figure: &str, tree: &str| {
        let is_it = |row: &&Value| {
            (&row["figure"], &row["tree"]) == (&figure.into(), &tree.into()) && row["node_bytes"] == 1024
        };
        rows.iter().find(is_it).unwrap()
    };
    let (linear, circular) = (row("circ:7b", "fast-fair"), row("circ:7b", "circ"));
    assert!(linear["ratio"].as_f64().unwrap() > 1.2 && circular["ratio"] == 1.0, "{linear} {circular}");
    let flushed = row("circ:7c", "circ")["flushed_bytes_per_op"].as_f64().unwrap();
    assert!((flushed - circular["lines_per_op"].as_f64().unwrap() * 64.0).abs() < 0.02, "{flushed} {circular}");
    let inner = row("nv:7", "fast-fair")["inner_percent"].as_f64().unwrap();
    assert!(inner > 0.0 && inner < 10.0, "{inner}");
}

#[test]
fn figures_are_listed_drawn_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let list = run(["--figure", "list"]).ok();
    assert!(list.contains("circ:7b") && list.contains("13.3 times as many lines as Circ-Tree"), "{list}");
    let (svg, json) = (dir.path().join("a.svg"), dir.path().join("a.json"));
    let (svg_at, json_at) = (svg.to_str().unwrap(), json.to_str().unwrap());
    let args = ["--figure", "circ:7b", "--n", "2000", "--svg", svg_at, "--json", json_at];
    let table = run(args).ok();
    assert!(table.contains("fast-fair") && table.contains("ratio: to circ"), "{table}");
    let rows = std::fs::read_to_string(&json).unwrap();
    // One bar per row, besides the marks of what the paper has found.
    let drawn = std::fs::read_to_string(&svg).unwrap();
    let bars = drawn.split("<title>").skip(1).filter(|title| !title.starts_with("the paper's ratio"));
    assert_eq!(bars.count(), rows.lines().count());
    let none = run(["--figure", "nv:1b"]).ok();
    assert!(none.contains("nv:1b cannot be had here"), "{none}");
    for (args, why) in [
        (&["--figure", "circ:77"][..], "no figure is named 'circ:77'"),
        (&["--figure", "circ", "--svg", svg_at], "--svg draws one figure"),
        (&["--figure", "circ:7a", "--n", "10"], "a figure needs 1000 keys"),
        (&["--json", json_at], "--json takes a file with --figure only"),
    ] {
        let error = run(args).fails(2);
        assert!(error.contains(why), "{error}");
    }
}
