//! Pools with a journal: made, killed, looked at, without their ring, without their journal.

use super::{Desk, command, has_keys};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const FIGURES: [&str; 10] = [
    "log_bytes",
    "used_bytes",
    "ring_bytes",
    "pending",
    "entries",
    "syncs",
    "log_written_bytes",
    "pool_written_bytes",
    "checkpoints",
    "waits",
];

fn log(pool: &Path) -> PathBuf {
    let mut log = pool.as_os_str().to_owned();
    log.push(".log");
    log.into()
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// Loads lines into the desk's pool, and kills the process when all are acknowledged.
fn killed(desk: &Desk, lines: std::ops::Range<u64>, journal: &str) {
    let pool = desk.pool();
    let args = ["--ack", "--capacity", "32M", "--journal", journal].map(OsStr::new);
    let mut child = command([OsStr::new("load"), pool.as_os_str(), "-".as_ref()].into_iter().chain(args))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text: String = lines.clone().map(|i| format!("{i}\tvalue {i}\n")).collect();
    // It is not closed: the process waits for more.
    stdin.write_all(text.as_bytes()).unwrap();
    let acknowledged = BufReader::new(child.stdout.as_mut().unwrap()).lines().take(lines.count()).count();
    assert_eq!(acknowledged, text.lines().count());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_pool_has_a_journal_from_the_start_or_later_or_no_more() {
    let desk = Desk::new();
    let pool = desk.pool();
    let path = pool.to_str().unwrap();
    let loaded = desk.load("1\ta\n2\tb\n", &["--journal", "10ms", "--json", "--capacity", "32M"]).json();
    assert_eq!(loaded["domain"], "journal");
    has_keys(&loaded["journal"], &FIGURES);
    assert!(number(&loaded["journal"], "syncs") > 0 && number(&loaded["journal"], "log_written_bytes") > 0);
    assert_eq!(number(&loaded["journal"], "pending"), 0);
    assert!(desk.load("3\tc\n", &[]).ok().contains("\njournal: "));
    desk.run("put", &["2", "B", "--journal", "each"]).ok();
    desk.run("del", &["1", "--journal", "request"]).ok();
    assert_eq!(desk.run("scan", &[]).ok(), "2\tB\n3\tc\n");
    let stat = desk.run("stat", &["--json"]).json();
    has_keys(&stat["journal"], &FIGURES);
    assert_eq!((&stat["domain"], number(&stat["journal"], "used_bytes")), (&"journal".into(), 0));
    assert!(desk.run("stat", &[]).ok().contains("  journal    a log of 32.0 MiB, 0 B in use; no ring\n"));
    let info = desk.run("info", &["--json"]).json();
    assert_eq!((&info["domain"], &info["journal"]), (&"journal".into(), &stat["journal"]));
    assert!(desk.run("info", &[]).ok().contains("journal      a log of "));

    super::run(["journal", "remove", path]).ok();
    assert!(!log(&pool).exists());
    assert!(super::run(["journal", "remove", path]).fails(1).contains("the pool has no journal"));
    for (verb, args) in [("put", &["2", "b"][..]), ("del", &["2"])] {
        let refused = desk.run(verb, &[args, &["--journal", "each"]].concat()).fails(1);
        assert!(refused.contains("`bristlecone journal add POOL` gives it one"), "{refused}");
    }
    assert!(desk.load("4\td\n", &["--journal", "each"]).fails(1).contains("`bristlecone journal add POOL`"));
    let stat = desk.run("stat", &["--json"]).json();
    assert_eq!((&stat["domain"], &stat["journal"]), (&"process".into(), &Value::Null));
    super::run(["journal", "add", path]).ok();
    assert!(super::run(["journal", "add", path]).fails(1).contains("the pool has a journal"));
    desk.run("put", &["5", "e", "--journal", "1s"]).ok();
    assert_eq!(desk.run("scan", &[]).ok(), "2\tB\n3\tc\n5\te\n");
    for wrong in ["often", "0ms", "10"] {
        assert!(desk.run("put", &["5", "e", "--journal", wrong]).err.contains("each, request, or a time"));
    }
}

#[test]
fn a_killed_pool_is_looked_at_without_a_change() {
    for journal in ["request", "1h", "1ms"] {
        let journal = if journal == "1h" { "60min" } else { journal };
        let desk = Desk::new();
        let pool = desk.pool();
        killed(&desk, 0..2000, journal);
        let content = || (std::fs::read(&pool).unwrap(), std::fs::read(log(&pool)).unwrap());
        let before = content();
        assert_eq!(desk.run("get", &["1999"]).ok(), "value 1999\n");
        assert_eq!(desk.run("scan", &[]).ok().lines().count(), 2000);
        assert_eq!(desk.run("dump", &[]).ok().lines().count(), 2000);
        assert!(desk.run("check", &[]).ok().contains("clean: 1 tree"));
        let stat = desk.run("stat", &["--json"]).json();
        assert_eq!((&stat["last_shutdown"], number(&stat, "keys")), (&"crash".into(), 2000));
        let pending = number(&stat["journal"], "pending");
        assert!(number(&stat["journal"], "ring_bytes") > 0 && (journal == "1ms" || pending > 1000), "{stat}");
        assert_eq!(desk.run("info", &["--json"]).json()["journal"], stat["journal"]);
        assert!(desk.run("stat", &[]).ok().contains(" in use; a ring of "));
        assert!(before == content());
        // It is all there for the next one who writes.
        desk.run("put", &["1", "one"]).ok();
        assert_eq!(desk.run("scan", &["--limit", "2"]).ok(), "0\tvalue 0\n1\tone\n");
        assert_eq!(desk.run("stat", &["--json"]).json()["journal"]["ring_bytes"], 0);
    }
}

#[test]
fn each_line_is_on_the_disk_before_it_is_acknowledged() {
    let desk = Desk::new();
    killed(&desk, 0..300, "each");
    // A copy has no ring: it is what a loss of power leaves.
    let copy = desk.dir.path().join("copy.pool");
    std::fs::copy(desk.pool(), &copy).unwrap();
    std::fs::copy(log(&desk.pool()), log(&copy)).unwrap();
    let of_copy = |verb: &str| super::run([OsStr::new(verb), copy.as_os_str()]);
    assert_eq!(of_copy("scan").ok().lines().count(), 300);
    assert!(of_copy("check").ok().contains("clean: 1 tree"));
    // Without its log, the pool is of the past.
    std::fs::remove_file(log(&copy)).unwrap();
    for verb in ["scan", "check", "stat"] {
        assert!(of_copy(verb).fails(1).contains("the log of the pool cannot be used: it is not there"));
    }
    assert!(of_copy("info").ok().contains("journal      the log of the pool cannot be used"));
    desk.run("put", &["1", "one"]).ok();
}

/// What the superblock says may be older than the last use.
#[test]
fn a_killed_pool_without_its_ring_is_not_one_that_was_closed() {
    let desk = Desk::new();
    let last = |pool: &Path| {
        let stat = |args: &[&str]| {
            super::run([OsStr::new("stat"), pool.as_os_str()].into_iter().chain(args.iter().map(OsStr::new)))
        };
        (stat(&["--json"]).json()["last_shutdown"].as_str().unwrap().to_owned(), stat(&[]).ok())
    };
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    super::run([OsStr::new("journal"), OsStr::new("add"), desk.pool().as_os_str()]).ok();
    // Nobody has opened it since.
    assert_eq!(last(&desk.pool()).0, "clean");
    desk.run("put", &["2", "b"]).ok();
    assert_eq!(last(&desk.pool()).0, "clean");
    killed(&desk, 3..100, "request");
    let copy = desk.dir.path().join("copy.pool");
    std::fs::copy(desk.pool(), &copy).unwrap();
    std::fs::copy(log(&desk.pool()), log(&copy)).unwrap();
    let (shutdown, told) = last(&copy);
    assert_eq!(shutdown, "crash", "{told}");
    assert!(told.contains("not closed: it crashed, or was killed"), "{told}");
    assert!(told.contains("no ring: what had not reached the log is not to be seen"), "{told}");
    // With its ring, all is there.
    assert!(last(&desk.pool()).1.contains(" in use; a ring of "));
    desk.run("put", &["1", "one"]).ok();
    assert_eq!(last(&desk.pool()).0, "clean");
}

#[test]
fn a_log_that_a_pool_has_left_is_named() {
    let desk = Desk::new();
    let pool = desk.pool();
    desk.load("1\ta\n", &["--journal", "request", "--capacity", "32M"]).ok();
    std::fs::remove_file(&pool).unwrap();
    let log = log(&pool);
    let mut part = log.clone().into_os_string();
    part.push(".part");
    let refused = |at: &Path, what: &str| {
        let at = at.to_str().unwrap();
        let error = desk.load("2\tb\n", &["--journal", "request", "--capacity", "32M"]).fails(1);
        assert!(
            error.contains(&format!("{at} is where the log of the pool is to be, and is {what}: move it away")),
            "{error}"
        );
        assert!(!pool.exists());
    };
    refused(&log, "the log of another pool");
    desk.load("2\tb\n", &["--capacity", "32M"]).ok();
    let error = super::run([OsStr::new("journal"), OsStr::new("add"), pool.as_os_str()]).fails(1);
    assert!(error.contains(log.to_str().unwrap()) && error.contains("the log of another pool"), "{error}");
    std::fs::remove_file(&pool).unwrap();
    std::fs::write(&log, "a diary").unwrap();
    refused(&log, "no log");
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    refused(&log, "a directory");
    std::fs::remove_dir(&log).unwrap();
    std::fs::write(&part, "a diary").unwrap();
    refused(Path::new(&part), "no log");
    std::fs::remove_file(&part).unwrap();
    desk.load("2\tb\n", &["--journal", "request", "--capacity", "32M"]).ok();
}

#[test]
fn bench_measures_pools_with_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "--keys", "2000", "--repeat", "1", "--journal", "1ms", "--dir", dir.path().to_str().unwrap()];
    let found = super::run(args.into_iter().chain(["--json"])).json();
    assert_eq!((&found["domain"], &found["journal_mode"]), (&"journal".into(), &"1ms".into()));
    has_keys(&found["journal"], &FIGURES);
    assert!(super::run(args).ok().contains("With --journal 1ms, in the last repeat: "));
    super::is_empty(dir.path());
}
