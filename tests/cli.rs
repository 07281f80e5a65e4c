//! The command line, run as a user runs it.
#![cfg(feature = "cli")]

use bristlecone::{CircTree, FastFair, Persistent, Pool};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// What a run printed, and how it ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: Vec<u8>,
    err: String,
}

impl Ran {
    fn new(output: Output) -> Self {
        let err = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), out: output.stdout, err }
    }

    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        String::from_utf8(self.out).unwrap()
    }

    #[track_caller]
    fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// The one line of an error.
    #[track_caller]
    fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.starts_with("bristlecone: ") && self.err.lines().count() == 1, "{self:?}");
        self.err.trim_end().to_owned()
    }
}

fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bristlecone"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    Ran::new(command(args).output().unwrap())
}

/// A directory with a pool and a data file.
struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn pool(&self) -> PathBuf {
        self.dir.path().join("a.pool")
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// `bristlecone VERB POOL ARGS...`
    fn run(&self, verb: &str, args: &[&str]) -> Ran {
        run([OsStr::new(verb), self.pool().as_os_str()].into_iter().chain(args.iter().map(OsStr::new)))
    }

    fn load(&self, content: impl AsRef<[u8]>, args: &[&str]) -> Ran {
        let file = self.file("data.tsv", content);
        let mut all = vec![file.to_str().unwrap()];
        all.extend_from_slice(args);
        self.run("load", &all)
    }
}

#[track_caller]
fn has_keys(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object.get(key).is_some(), "no '{key}' in {object}");
    }
}

#[test]
fn what_is_loaded_is_found() {
    for options in [
        &[][..],
        &["--layout", "linear", "--index", "persistent", "--node-bytes", "1K"],
        &["--layout", "circular", "--index", "persistent", "--node-bytes", "4096", "--capacity", "64M"],
    ] {
        let desk = Desk::new();
        let loaded = desk.load(b"7\tseven\n0\t\n18446744073709551615\tmax\n20\ttabs\there\n7\tSEVEN\n", options);
        assert!(loaded.ok().contains("5 lines loaded"));
        assert_eq!(desk.run("get", &["7"]).ok(), "SEVEN\n");
        assert_eq!(desk.run("get", &["0"]).ok(), "\n");
        assert_eq!(desk.run("scan", &[]).ok(), "0\t\n7\tSEVEN\n20\ttabs\there\n18446744073709551615\tmax\n");
        assert_eq!(desk.run("scan", &["--from", "1", "--to", "20", "--reverse"]).ok(), "20\ttabs\there\n7\tSEVEN\n");
        assert_eq!(desk.run("scan", &["--limit", "1"]).ok(), "0\t\n");
        assert_eq!(desk.run("put", &["8", "-1"]).ok(), "");
        assert_eq!(desk.run("get", &["8"]).ok(), "-1\n");
        assert_eq!(desk.run("del", &["8"]).ok(), "");
        assert!(desk.run("get", &["8"]).fails(1).contains("key 8 is not in tree 'main'"));
        assert!(desk.run("del", &["8"]).fails(1).contains("key 8 is not in tree 'main'"));
        assert!(desk.run("check", &[]).ok().contains("clean: 1 tree"));
        // Onto what is there, whatever it was made with.
        assert!(desk.load("21\tmore\n", &[]).ok().contains("tree 'main' has 5 keys"));
    }
}

#[test]
fn values_are_bytes() {
    let desk = Desk::new();
    let mut line = b"5\t".to_vec();
    line.extend((0..=255).filter(|&byte| byte != b'\n'));
    desk.load(&line, &[]).ok();
    line.push(b'\n');
    assert_eq!(desk.run("scan", &[]).out, line);
    assert_eq!(desk.run("get", &["5"]).out, line[2..]);
}

#[test]
fn a_bad_line_is_named_and_stops_the_load() {
    for (line, what) in [
        ("x\ty", "the key 'x' is not a decimal number"),
        ("-1\ty", "the key '-1' is not a decimal number"),
        ("3 y", "no tab between key and value"),
        ("", "no tab between key and value"),
        ("18446744073709551616\ty", "the key 18446744073709551616 is greater than 18446744073709551615"),
    ] {
        let desk = Desk::new();
        let error = desk.load(format!("1\ta\n2\tb\n{line}\n4\td\n"), &[]).fails(1);
        assert!(error.contains("data.tsv:3: ") && error.contains(what), "{error}");
        assert_eq!(desk.run("scan", &[]).ok(), "1\ta\n2\tb\n");
    }
}

#[test]
fn bad_lines_are_skipped_and_counted_if_wanted() {
    let desk = Desk::new();
    let ran = desk.load("1\ta\n\n2\tb\nx\ty\n3\tc", &["--skip-bad", "--json"]);
    assert!(ran.err.contains("data.tsv:2: ") && ran.err.contains("data.tsv:4: "), "{ran:?}");
    let object = ran.json();
    has_keys(
        &object,
        &["file", "tree", "lines", "loaded", "replaced", "skipped", "keys", "bytes", "seconds", "domain"],
    );
    assert_eq!((&object["lines"], &object["loaded"], &object["skipped"]), (&5.into(), &3.into(), &2.into()));
    assert_eq!(desk.run("scan", &[]).ok(), "1\ta\n2\tb\n3\tc\n");
}

#[test]
fn the_standard_input_is_loaded_and_acknowledged() {
    let desk = Desk::new();
    let pool = desk.pool();
    let mut child = command([OsStr::new("load"), pool.as_os_str(), "-".as_ref(), "--ack".as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"3\tc\n1\ta\nbad\n").unwrap();
    let ran = Ran::new(child.wait_with_output().unwrap());
    assert_eq!(ran.out, b"3\n1\n");
    assert!(ran.fails(1).contains("standard input:3: no tab"));
}

#[test]
fn a_load_that_cannot_be_is_refused() {
    let desk = Desk::new();
    let missing = desk.run("load", &["/no/such/file"]).fails(1);
    assert!(missing.contains("/no/such/file: "), "{missing}");
    assert!(!desk.pool().exists());
    assert!(desk.load("1\ta\n", &["--capacity", "4K"]).fails(1).contains("capacity of 4096 bytes"));
    desk.load("1\ta\n", &["--layout", "linear"]).ok();
    assert!(desk.load("1\ta\n", &["--layout", "circular"]).fails(1).contains("layout linear/32"));
    assert!(desk.load("1\ta\n", &["--tree", ""]).fails(1).contains("tree name"));
    assert_eq!(desk.load("1\ta\n", &["--layout", "square"]).code, Some(2));
    assert_eq!(desk.load("1\ta\n", &["--node-bytes", "600"]).code, Some(2));
}

#[test]
fn a_full_pool_says_so_and_keeps_what_it_has() {
    let desk = Desk::new();
    let lines: String = (0..200).map(|i| format!("{i}\t{}\n", "x".repeat(100_000))).collect();
    let error = desk.load(lines, &["--capacity", "20M"]).fails(1);
    assert!(error.contains("no space for") && error.contains("the capacity is 20971520 bytes"), "{error}");
    let found = desk.run("check", &["--json"]).json();
    let kept = found["entries"].as_u64().unwrap();
    assert!((10..200).contains(&kept), "{found}");
    assert!(error.contains(&format!("data.tsv:{}: ", kept + 1)), "{error}");
    // A larger capacity, and the load goes on.
    assert!(desk.load("1000\tmore\n", &["--capacity", "64M"]).ok().contains(&format!("has {} keys", kept + 1)));
}

#[test]
fn trees_made_by_the_library_are_read() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(64 << 20).open(desk.pool()).unwrap();
    let numbers: CircTree = pool.tree("numbers").unwrap();
    let other: FastFair<Persistent> = pool.tree("other").unwrap();
    let signed: bristlecone::Map<i64, u64> = pool.map("signed").unwrap();
    for i in 0..1000 {
        numbers.insert(i, i * i).unwrap();
        other.insert(i, u64::MAX - i).unwrap();
    }
    drop((numbers, other, signed));
    pool.close().unwrap();
    assert_eq!(desk.run("get", &["30", "--tree", "numbers"]).ok(), "900\n");
    assert_eq!(desk.run("scan", &["--tree", "other", "--reverse", "--limit", "1"]).ok(), "999\t18446744073709550616\n");
    desk.run("put", &["30", "31", "--tree", "numbers"]).ok();
    assert_eq!(desk.run("get", &["30", "--tree", "numbers"]).ok(), "31\n");
    assert!(desk.run("put", &["30", "x", "--tree", "numbers"]).fails(1).contains("must be a decimal number"));
    let ran = desk.load("1\t2\n2\tx\n", &["--tree", "numbers"]).fails(1);
    assert!(ran.contains("data.tsv:2: the tree holds numbers"), "{ran}");
    assert!(desk.run("get", &["1", "--tree", "signed"]).fails(1).contains("keys of kind i64"));
    let missing = desk.run("get", &["1"]).fails(1);
    assert!(missing.contains("no tree 'main'; there is 'numbers', 'other', 'signed'"), "{missing}");
    let stat = desk.run("stat", &["--json"]).json();
    assert_eq!(stat["trees"].as_array().unwrap().len(), 3);
    assert_eq!(stat["keys"], 2000);
    let keys: Vec<u64> = stat["trees"].as_array().unwrap().iter().map(|tree| tree["keys"].as_u64().unwrap()).collect();
    assert_eq!(keys.iter().sum::<u64>(), 2000, "{keys:?}");
}

#[test]
fn stat_tells_what_there_is() {
    let desk = Desk::new();
    let lines: String = (0..5000u64).map(|i| format!("{}\tvalue {i}\n", i * 7919 % 5000)).collect();
    desk.load(lines, &["--layout", "circular", "--node-bytes", "1K"]).ok();
    let refused = desk.load("1\t2\n", &["--tree", "other", "--node-bytes", "1K"]).fails(2);
    assert!(refused.contains("--node-bytes goes with"), "{refused}");
    let stat = desk.run("stat", &["--json"]).json();
    has_keys(&stat, &["trees", "pool_bytes", "used_bytes", "bytes_per_key", "last_shutdown", "domain", "boots"]);
    has_keys(&stat, &["memory_bytes_per_key"]);
    has_keys(
        &stat["trees"][0],
        &["name", "layout", "index", "keys", "height", "leaves", "fill", "bytes", "memory_bytes"],
    );
    assert_eq!(stat["last_shutdown"], "clean");
    assert_eq!(stat["trees"][0]["keys"], 5000);
    assert_eq!(stat["trees"][0]["layout"], "circular/64");
    // Some 110 leaves: two levels of index nodes, and the leaves.
    assert_eq!(stat["trees"][0]["height"], 3);
    let fill = stat["trees"][0]["fill"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&fill), "{fill}");
    // It changes nothing.
    assert_eq!(desk.run("stat", &["--json"]).json(), stat);
    let text = desk.run("stat", &[]).ok();
    assert!(text.contains("5,000 keys") && text.contains("circular/64"), "{text}");
}

/// Offsets of the words in a file that equal `word`.
fn find_word(bytes: &[u8], word: u64) -> Vec<usize> {
    let words = bytes.as_chunks::<8>().0.iter().enumerate();
    words.filter(|(_, bytes)| u64::from_le_bytes(**bytes) == word).map(|(i, _)| i * 8).collect()
}

#[test]
fn damage_is_found_and_named() {
    let desk = Desk::new();
    let lines: String = (0..1000u64).map(|i| format!("{}\t{i}\n", i + 1_000_000_000)).collect();
    desk.load(lines, &["--capacity", "32M", "--layout", "linear"]).ok();
    let mut bytes = std::fs::read(desk.pool()).unwrap();
    // A key in the middle of a leaf, made smaller than its left neighbour.
    let places = find_word(&bytes, 1_000_000_005);
    let at = places[0];
    bytes[at..at + 8].copy_from_slice(&1_000_000_001u64.to_le_bytes());
    std::fs::write(desk.pool(), &bytes).unwrap();

    let ran = desk.run("check", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let text = String::from_utf8(ran.out).unwrap();
    assert!(text.contains(&format!("offset {at} ({at:#x}): N3: ")), "{text}");
    let ran = desk.run("check", &["--json"]);
    assert_eq!(ran.code, Some(1));
    let object: Value = serde_json::from_slice(&ran.out).unwrap();
    let problem = &object["problems"][0];
    assert_eq!((problem["at"].as_u64(), problem["invariant"].as_str()), (Some(at as u64), Some("N3")));
    has_keys(problem, &["message"]);
    // It was only looked at.
    assert!(std::fs::read(desk.pool()).unwrap() == bytes);
}

#[test]
fn a_damaged_header_is_a_problem_too() {
    let desk = Desk::new();
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    let mut bytes = std::fs::read(desk.pool()).unwrap();
    for twin in [0, 4096] {
        bytes[twin + 80] ^= 1;
    }
    std::fs::write(desk.pool(), &bytes).unwrap();
    let ran = desk.run("check", &["--json"]);
    assert_eq!(ran.code, Some(1));
    let object: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(object["problems"][0]["invariant"], "S1");
    assert!(desk.run("get", &["1"]).fails(1).contains("no valid superblock"));

    std::fs::write(desk.pool(), &bytes[..1 << 20]).unwrap();
    assert_eq!(desk.run("check", &[]).code, Some(1));
    std::fs::write(desk.pool(), "not a pool at all, and long enough to be looked into").unwrap();
    assert!(desk.run("check", &[]).fails(1).contains("not a pool"));
    assert!(desk.run("stat", &[]).fails(1).contains("not a pool"));
    assert!(desk.run("load", &[desk.file("d", "1\ta\n").to_str().unwrap()]).fails(1).contains("not a pool"));
}

#[test]
fn what_is_not_there_is_an_error() {
    let desk = Desk::new();
    for verb in ["stat", "check", "scan"] {
        assert!(desk.run(verb, &[]).fails(1).contains("a.pool: not found"));
    }
    assert!(desk.run("get", &["1"]).fails(1).contains("a.pool: not found"));
    assert!(!desk.pool().exists());
    let dir = desk.dir.path().to_str().unwrap();
    assert!(run(["stat", dir]).fails(1).contains("not a regular file"));
    assert!(run(["scan", dir, "--from", "2", "--to", "1"]).fails(2).contains("--from 2 is greater than --to 1"));
    assert_eq!(run(["get", dir]).code, Some(2));
    assert_eq!(run(["get", dir, "x"]).code, Some(2));
    assert_eq!(run(["nonsense"]).code, Some(2));
}

#[test]
fn a_second_opener_is_refused() {
    let desk = Desk::new();
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    let pool = Pool::open(desk.pool()).unwrap();
    for verb in ["stat", "check", "scan"] {
        assert!(desk.run(verb, &[]).fails(1).contains("already open"));
    }
    drop(pool);
    desk.run("check", &[]).ok();
}

#[test]
#[cfg(unix)]
fn a_closed_pipe_ends_a_scan_quietly() {
    let desk = Desk::new();
    let lines: String = (0..20_000).map(|i| format!("{i}\t{}\n", "v".repeat(40))).collect();
    desk.load(lines, &[]).ok();
    let pool = desk.pool();
    let mut child =
        command([OsStr::new("scan"), pool.as_os_str()]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::new(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(desk.run("stat", &["--json"]).json()["last_shutdown"], "clean");
}

#[test]
fn info_tells_what_survives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let object = run(["info", path, "--json"]).json();
    has_keys(&object, &["arch", "cpu", "flush", "pair_method", "line_bytes", "path", "domain", "promise"]);
    assert_eq!(object["domain"], "process");
    assert!(run(["info", path]).ok().contains("survives a crash of the process"));
    assert!(dir.path().read_dir().unwrap().next().is_none(), "it cleans up");
    let forced = Ran::new(command(["info", path, "--json"]).env("BRISTLECONE_DOMAIN", "power").output().unwrap());
    assert_eq!(forced.json()["domain"], "power");
}

/// That nothing is left in a directory.
#[track_caller]
fn is_empty(dir: &Path) {
    assert!(dir.read_dir().unwrap().next().is_none(), "{dir:?} is not empty");
}

#[test]
fn the_tour_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let text = run(["tour", "--keys", "100k", "--kills", "2", "--dir", path]).ok();
    assert!(text.contains("Lost: nothing, of 100,000 acknowledged inserts and 2 kills"), "{text}");
    let after_the_first = text.lines().skip(1).all(|line| line.chars().count() <= 80);
    assert!(text.lines().count() <= 24 && after_the_first, "{text}");
    is_empty(dir.path());
    assert!(run(["tour", "--keys", "5", "--dir", path]).fails(2).contains("too few"));
    let object = run(["tour", "--keys", "5000", "--kills", "1", "--dir", path, "--json"]).json();
    has_keys(&object, &["keys", "kills", "seed", "acknowledged", "lost", "problems", "rounds"]);
    has_keys(&object, &["dirty_reopen_ms", "clean_reopen_ms", "acknowledged_per_second"]);
    has_keys(&object["rounds"][0], &["ended_by", "acknowledged", "lost", "reopen_ms", "problems"]);
    assert_eq!((&object["lost"], &object["acknowledged"]), (&0.into(), &5000.into()));
}

fn objects(ran: Ran) -> Vec<Value> {
    ran.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn bench_has_stable_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let all = "insert,get,update,scan,mixed,remove";
    for options in [
        &["--layout", "linear,circular", "--index", "volatile,persistent", "--vs-btreemap"][..],
        &["--medium", "dram", "--node-bytes", "512,4K"],
        &["--slow", "10", "--flush", "power", "--no-counts"],
    ] {
        let mut args = vec!["bench", "--n", "2000", "--repeat", "1", "--json", "--mix", all, "--seed", "1"];
        if !options.contains(&"--medium") {
            args.extend(["--medium", path]);
        }
        args.extend_from_slice(options);
        let rows = objects(run(args));
        assert_eq!(rows.len() % 6, 0);
        for row in &rows {
            has_keys(row, &["layout", "index", "node_bytes", "n", "mix", "threads", "domain", "ns_per_op"]);
            has_keys(row, &["lines_per_op", "fences_per_op", "orders_per_op", "bytes_per_op"]);
            has_keys(&row["ns_per_op"], &["median", "p99", "min", "run"]);
            assert!(row["ns_per_op"]["median"].as_f64().unwrap() > 0.0);
        }
    }
    is_empty(dir.path());
}

#[test]
fn every_mix_is_measured_with_every_order_of_keys() {
    let mixes = "insert,batch,get,miss,dependent,multi-get,update,scan,scan100,mixed,remove";
    let ycsb = "ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f";
    let all = format!("{mixes},{ycsb}");
    for keys in ["uniform", "zipfian", "ascending", "descending", "clustered"] {
        let args = ["bench", "--n", "2000", "--repeat", "2", "--json", "--mix", &all, "--keys", keys, "--vs-btreemap"];
        let rows = objects(run(args));
        assert_eq!(rows.len(), 2 * 17);
        for row in &rows {
            assert_eq!((&row["keys"], &row["threads"]), (&keys.into(), &1.into()));
            has_keys(&row["ns_per_op"], &["median", "p99", "min", "run", "run_min", "run_max"]);
            has_keys(&row["ns_per_op"], &["cpu", "cpu_min", "cpu_max"]);
            let run = |key| row["ns_per_op"][key].as_f64().unwrap();
            assert!(run("run_min") <= run("run") && run("run") <= run("run_max"), "{row}");
        }
    }
}

#[test]
fn threads_measure_those_that_can_be_shared() {
    let args = ["bench", "--n", "4000", "--repeat", "1", "--threads", "2", "--vs-btreemap"];
    let args = args.into_iter().chain(["--mix", "insert,batch,get,scan,scan100,ycsb-d,mixed,remove"]);
    let ran = run(args.clone().chain(["--json"]));
    assert!(ran.err.contains("left out of 2 threads, being for one only: btreemap"), "{ran:?}");
    let rows = objects(ran);
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["layout"] == "one_line" && row["threads"] == 2));
    let text = run(args).ok();
    assert!(text.contains("2 threads") && text.contains("left out of 2 threads"), "{text}");
    let few = run(["bench", "--n", "200", "--threads", "2"]).fails(2);
    assert!(few.contains("less than a batch of 128 per thread"), "{few}");
    let alone = run(["bench", "--n", "4000", "--threads", "2", "--layout", "btreemap"]).fails(2);
    assert!(alone.contains("nothing to measure"), "{alone}");
}

#[test]
fn a_chart_is_drawn() {
    let desk = Desk::new();
    let file = desk.dir.path().join("chart.svg");
    let args = ["bench", "--n", "2000", "--repeat", "1", "--vs-btreemap", "--svg", file.to_str().unwrap()];
    run(args).ok();
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    // Two mixes of two contestants.
    assert_eq!(svg.matches("<title>").count(), 4);
    assert!(svg.contains("btreemap") && svg.contains("one_line 640 volatile"), "{svg}");
    assert!(
        run(["bench", "--n", "2000", "--repeat", "1", "--svg", "/no/such/chart.svg"]).fails(1).contains("/no/such/")
    );
}

#[test]
#[cfg(not(feature = "peers"))]
fn peers_are_wanted_but_not_built_in() {
    let error = run(["bench", "--n", "2000", "--peers", "all"]).fails(2);
    assert!(error.contains("--features peers"), "{error}");
}

#[test]
#[cfg(feature = "peers")]
fn peers_are_measured_next_to_the_trees() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let bench = |options: &[&str]| {
        let args = ["bench", "--n", "1000", "--repeat", "1", "--json", "--medium", path];
        run(args.iter().chain(options))
    };
    let rows = objects(bench(&["--peers", "all,lmdb-sync", "--mix", "insert,batch,get,multi-get,scan100"]));
    let peers = rows.iter().filter(|row| row.get("peer").is_some()).count();
    assert_eq!((rows.len() - peers, peers % 5), (5, 0));
    assert!(peers >= 12 * 5);
    for row in &rows {
        assert!(row.get("layout").is_some() != row.get("peer").is_some(), "{row}");
        has_keys(row, &["index", "node_bytes", "n", "mix", "threads", "keys", "domain", "ns_per_op"]);
        has_keys(row, &["ratio_to_btreemap"]);
    }
    is_empty(dir.path());
    let ran = bench(&["--peers", "all", "--threads", "2", "--mix", "insert,get,ycsb-a,ycsb-e,mixed,remove"]);
    assert!(ran.err.contains("btreemap, brie-tree"), "{ran:?}");
    assert!(objects(ran).iter().all(|row| row.get("peer").is_none_or(|peer| peer != "brie-tree")));
    is_empty(dir.path());
    assert!(bench(&["--peers", "volatile,ldmb"]).fails(2).contains("no peer is named 'ldmb'"));
}

#[test]
fn counts_are_as_expected_and_the_same_each_time() {
    let counts = || objects(run(["bench", "--mix", "counts", "--n", "50k", "--seed", "3", "--json"]));
    let rows = counts();
    // Of all sizes; a debug build has one.
    assert_eq!(rows.len(), if cfg!(debug_assertions) { 3 } else { 9 });
    for row in &rows {
        has_keys(row, &["lines_per_op", "expected_lines", "fences_per_op", "expected_fences"]);
        for off in ["lines_off_percent", "fences_off_percent"] {
            assert!(row[off].as_f64().unwrap().abs() < 10.0, "{row}");
        }
        assert!(row["lines_to_linear"].as_f64().is_none_or(|ratio| ratio < 0.7), "{row}");
    }
    assert_eq!(rows, counts());
}

#[test]
fn crash_has_stable_keys() {
    let found = run(["crash", "--slots", "7", "--ops", "2", "--json"]).json();
    let keys = ["layout", "index", "model", "slots", "states", "crash_points", "nested", "violations", "seconds"];
    has_keys(&found, &keys);
    assert_eq!(found["violations"], 0);
    assert!(found["states"].as_u64() > found["crash_points"].as_u64(), "{found}");
}

#[test]
fn reopening_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["bench", "--mix", "reopen", "--n", "5000", "--repeat", "1", "--medium", path];
    let rows = objects(run(args.into_iter().chain(["--json"])));
    has_keys(&rows[0], &["layout", "index", "node_bytes", "n", "mix", "clean_ms", "dirty_ms", "lost", "limit_ms"]);
    assert!(rows[0]["dirty_ms"]["median"].as_f64().unwrap() > 0.0);
    assert!(run(args).ok().contains("dirty"));
    is_empty(dir.path());
}

/// The rows of figures that were asked for so.
fn figures(asked: &str, options: &[&str]) -> Vec<Value> {
    let args = ["bench", "--figure", asked, "--repeat", "1", "--seed", "5", "--json"];
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
    // Of the one size that a debug build has.
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
    let desk = Desk::new();
    let list = run(["bench", "--figure", "list"]).ok();
    assert!(list.contains("circ:7b") && list.contains("13.3 times as many lines as Circ-Tree"), "{list}");
    let (svg, json) = (desk.dir.path().join("a.svg"), desk.dir.path().join("a.json"));
    let (svg_at, json_at) = (svg.to_str().unwrap(), json.to_str().unwrap());
    let args = ["bench", "--figure", "circ:7b", "--n", "2000", "--svg", svg_at, "--json", json_at];
    let table = run(args).ok();
    assert!(table.contains("fast-fair") && table.contains("ratio: to circ"), "{table}");
    let rows = std::fs::read_to_string(&json).unwrap();
    // One bar per row.
    assert_eq!(std::fs::read_to_string(&svg).unwrap().matches("<title>").count(), rows.lines().count());
    let none = run(["bench", "--figure", "nv:9"]).ok();
    assert!(none.contains("nv:9 cannot be had here"), "{none}");
    for (args, why) in [
        (&["--figure", "circ:77"][..], "no figure is named 'circ:77'"),
        (&["--figure", "circ", "--svg", svg_at], "--svg draws one figure"),
        (&["--figure", "circ:7a", "--n", "10"], "a figure needs 1000 keys"),
        (&["--json", json_at], "--json takes a file with --figure only"),
    ] {
        let error = run(["bench"].iter().chain(args)).fails(2);
        assert!(error.contains(why), "{error}");
    }
}
