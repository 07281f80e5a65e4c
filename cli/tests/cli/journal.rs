//! Pools with a journal: made, killed, looked at, without their ring, without their journal.

use super::{Desk, Ran, command, has_keys, start};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const FIGURES: [&str; 12] = [
    "mode",
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
    "recovered",
];

/// Bytes of a ring before its cells.
const CELLS: usize = 2048;

const RECOVERED: [&str; 6] = ["from_ring", "incomplete", "given_up", "without_ring", "lost", "damaged_twin"];

fn with(pool: &Path, ending: &str) -> PathBuf {
    let mut path = pool.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

fn log(pool: &Path) -> PathBuf {
    with(pool, ".log")
}

/// Runs a verb on a pool that is not the desk's.
fn on(pool: &Path, verb: &str, args: &[&str]) -> Ran {
    super::run([OsStr::new(verb), pool.as_os_str()].into_iter().chain(args.iter().map(OsStr::new)))
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// Loads lines into the desk's pool, and kills the process when all are acknowledged.
fn killed(desk: &Desk, lines: std::ops::Range<u64>, journal: &str) {
    let pool = desk.pool();
    let args = ["--ack", "--capacity", "32M", "--journal", journal].map(OsStr::new);
    let mut load = command([OsStr::new("load"), pool.as_os_str(), "-".as_ref()].into_iter().chain(args));
    let mut child = start(load.stdin(Stdio::piped()).stdout(Stdio::piped()));
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
    desk.run("put", &["2", "B"]).ok();
    desk.run("del", &["1"]).ok();
    desk.load("", &["--journal", "request"]).ok();
    assert_eq!(desk.run("scan", &[]).ok(), "2\tB\n3\tc\n");
    let stat = desk.run("stat", &["--json"]).json();
    has_keys(&stat["journal"], &FIGURES);
    has_keys(&stat["journal"]["recovered"], &RECOVERED);
    assert_eq!((&stat["domain"], number(&stat["journal"], "used_bytes")), (&"journal".into(), 0));
    assert!(
        desk.run("stat", &[])
            .ok()
            .contains("  journal    request; a log of 256 KiB, 0 B in use; nothing in its ring\n")
    );
    let info = desk.run("info", &["--json"]).json();
    assert_eq!((&info["domain"], &info["journal"]), (&"journal".into(), &stat["journal"]));
    assert!(desk.run("info", &[]).ok().contains("journal      request; a log of "));

    super::run(["journal", "remove", path]).ok();
    assert!(!log(&pool).exists());
    assert!(super::run(["journal", "remove", path]).fails(1).contains("the pool has no journal"));
    desk.load("2\tB\n", &["--journal", "none"]).ok();
    let stat = desk.run("stat", &["--json"]).json();
    assert_eq!((&stat["domain"], &stat["journal"]), (&"process".into(), &Value::Null));
    super::run(["journal", "add", path]).ok();
    assert_eq!(desk.run("stat", &["--json"]).json()["journal"]["mode"], "10ms");
    assert!(super::run(["journal", "add", path]).fails(1).contains("the pool has a journal"));
    let refused = desk.load("2\tb\n", &["--journal", "none"]).fails(1);
    assert!(refused.contains("`bristlecone journal remove POOL` takes it away"), "{refused}");
    desk.load("5\te\n", &["--journal", "1s"]).ok();
    assert_eq!(desk.run("scan", &[]).ok(), "2\tB\n3\tc\n5\te\n");
    for wrong in ["often", "0ms", "999us", "10"] {
        assert!(desk.load("5\te\n", &["--journal", wrong]).err.contains("each, request, or a time of at least 1ms"));
    }
}

#[test]
fn a_killed_pool_is_looked_at_without_a_change() {
    for journal in ["request", "1h", "1ms"] {
        let journal = if journal == "1h" { "60min" } else { journal };
        let desk = Desk::new();
        let pool = desk.pool();
        killed(&desk, 0..100, journal);
        let content = || (std::fs::read(&pool).unwrap(), std::fs::read(log(&pool)).unwrap());
        let before = content();
        assert_eq!(desk.run("get", &["99"]).ok(), "value 99\n");
        assert_eq!(desk.run("scan", &[]).ok().lines().count(), 100);
        assert_eq!(desk.run("dump", &[]).ok().lines().count(), 100);
        assert!(desk.run("check", &[]).ok().contains("clean: 1 tree"));
        let stat = desk.run("stat", &["--json"]).json();
        assert_eq!((&stat["last_shutdown"], number(&stat, "keys")), (&"crash".into(), 100));
        let pending = number(&stat["journal"], "pending");
        assert!(number(&stat["journal"], "ring_bytes") > 0 && (journal == "1ms" || pending > 50), "{stat}");
        let recovered = &stat["journal"]["recovered"];
        assert_eq!((number(recovered, "from_ring"), &recovered["without_ring"]), (pending, &false.into()));
        assert_eq!(desk.run("info", &["--json"]).json()["journal"], stat["journal"]);
        assert!(desk.run("stat", &[]).ok().contains(" in use; a ring of "));
        assert!(before == content());
        // It is all there for the next process that writes.
        desk.run("put", &["1", "one"]).ok();
        assert_eq!(desk.run("scan", &["--limit", "2"]).ok(), "0\tvalue 0\n1\tone\n");
        assert_eq!(desk.run("stat", &["--json"]).json()["journal"]["ring_bytes"], 0);
    }
}

#[test]
fn each_line_is_on_the_disk_before_it_is_acknowledged() {
    let desk = Desk::new();
    killed(&desk, 0..300, "each");
    // A copy without the ring.
    let copy = desk.dir.path().join("copy.pool");
    std::fs::copy(desk.pool(), &copy).unwrap();
    std::fs::copy(log(&desk.pool()), log(&copy)).unwrap();
    for verb in ["scan", "dump", "check", "stat", "compact"] {
        let refused = on(&copy, verb, &[]).fails(1);
        assert!(refused.contains("copy.pool.ring, is not there") && refused.contains("--without-ring"), "{refused}");
    }
    assert!(on(&copy, "info", &[]).ok().contains("copy.pool.ring, is not there"));
    let lost = "was opened without its ring: what was not synced is lost";
    for (verb, found) in [("scan", "299\tvalue 299\n"), ("check", "clean: 1 tree"), ("stat", "; no ring: ")] {
        let ran = on(&copy, verb, &["--without-ring"]);
        assert!(
            ran.err.contains("copy.pool: ") && ran.err.lines().filter(|line| line.contains(lost)).count() == 1,
            "{ran:?}"
        );
        assert!(ran.ok().contains(found));
    }
    assert_eq!(on(&copy, "scan", &["--without-ring"]).ok().lines().count(), 300);
    let backup = desk.dir.path().join("backup.pool");
    on(&copy, "backup", &[backup.to_str().unwrap(), "--without-ring"]).ok();
    // Without its log, the pool is of the past.
    std::fs::rename(log(&copy), log(&copy).with_extension("aside")).unwrap();
    for verb in ["scan", "check", "stat"] {
        for args in [&[][..], &["--without-ring"]] {
            assert!(on(&copy, verb, args).fails(1).contains("cannot be used: it is not there"));
        }
    }
    assert!(on(&copy, "info", &[]).ok().contains("journal      the log of the pool, "));
    std::fs::rename(log(&copy).with_extension("aside"), log(&copy)).unwrap();
    // The way on is for once.
    on(&copy, "put", &["1", "one", "--without-ring"]).ok();
    let ran = on(&copy, "get", &["1"]);
    assert!(ran.err.is_empty(), "{ran:?}");
    assert_eq!(ran.ok(), "one\n");
    desk.run("put", &["1", "one"]).ok();
}

/// What the superblock says may be older than the last use.
#[test]
fn a_killed_pool_without_its_ring_is_not_one_that_was_closed() {
    let desk = Desk::new();
    let last_with = |pool: &Path, options: &[&str]| {
        let stat = |args: &[&str]| on(pool, "stat", &[args, options].concat());
        (stat(&["--json"]).json()["last_shutdown"].as_str().unwrap().to_owned(), stat(&[]).ok())
    };
    let last = |pool: &Path| last_with(pool, &[]);
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
    let (shutdown, told) = last_with(&copy, &["--without-ring"]);
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
    killed(&desk, 1..3, "request");
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
    // A pool that is there takes its place.
    desk.load("2\tb\n", &["--capacity", "32M"]).ok();
    let ran = super::run([OsStr::new("journal"), OsStr::new("add"), pool.as_os_str()]);
    let kept = with(&log, ".old-1");
    assert!(ran.err.contains(&format!("is {} now", kept.display())) && kept.exists(), "{ran:?}");
    ran.ok();
    // Now it was closed in order.
    assert!(desk.run("put", &["3", "c"]).err.is_empty());
    std::fs::remove_file(&pool).unwrap();
    let ran = desk.load("2\tb\n", &["--journal", "request", "--capacity", "32M"]);
    assert!(ran.err.contains("was closed in order, was removed"), "{ran:?}");
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
fn a_restored_pool_has_the_journal_that_it_had() {
    let desk = Desk::new();
    let (pool, backup) = (desk.pool(), desk.dir.path().join("monday.pool"));
    desk.load("1\ta\n", &["--journal", "25ms", "--capacity", "32M"]).ok();
    desk.run("backup", &[backup.to_str().unwrap()]).ok();
    killed(&desk, 2..100, "request");
    let log = std::fs::read(log(&pool)).unwrap();
    std::fs::remove_file(&pool).unwrap();
    on(&backup, "restore", &[pool.to_str().unwrap()]).ok();
    let stat = desk.run("stat", &["--json"]).json();
    assert_eq!((&stat["journal"]["mode"], &stat["last_shutdown"]), (&"25ms".into(), &"clean".into()));
    let ran = desk.run("put", &["2", "b"]);
    let kept = with(&pool, ".log.old-1");
    assert!(ran.err.contains(&format!("is {} now", kept.display())), "{ran:?}");
    assert!(std::fs::read(kept).unwrap() == log);
    ran.ok();
    assert_eq!(desk.run("scan", &[]).ok(), "1\ta\n2\tb\n");
    assert_eq!(desk.run("stat", &["--json"]).json()["journal"]["mode"], "25ms");
}

#[test]
fn a_damaged_copy_of_the_header_of_a_log_is_named_and_mended() {
    let desk = Desk::new();
    desk.load("1\ta\n", &["--journal", "each", "--capacity", "32M"]).ok();
    let damage = || {
        let mut content = std::fs::read(log(&desk.pool())).unwrap();
        let sequence = |at: usize| u64::from_le_bytes(content[at + 8..at + 16].try_into().unwrap());
        let older = if sequence(0) < sequence(4096) { 0 } else { 4096 };
        content[older + 40] ^= 1;
        std::fs::write(log(&desk.pool()), &content).unwrap();
        older
    };
    let is_whole = || {
        let told = desk.run("check", &["--json"]).json();
        assert_eq!((&told["damaged_log_twin"], &told["verdict"]), (&Value::Null, &"clean".into()));
    };
    is_whole();
    let at = damage();
    let named = |what: &str| format!("offset {at} ({at:#x}): this copy of the log's header {what}");
    assert!(desk.run("check", &[]).ok().contains(&named("is damaged")));
    assert_eq!(desk.run("check", &["--json"]).json()["damaged_log_twin"], at);
    assert!(desk.run("check", &["--repair"]).ok().starts_with(&named("was damaged, and was written anew")));
    is_whole();
    let at = damage();
    let ran = desk.run("put", &["2", "b"]);
    let mended = format!("a copy of its log's header, at offset {at}, was damaged, and was written anew");
    assert!(ran.err.contains(&mended), "{ran:?}");
    is_whole();
    let at = damage();
    let told = desk.run("check", &["--repair", "--json"]).json();
    assert_eq!(told["mended"], serde_json::json!([{ "of": "log", "at": at }]));
}

/// The log is as it was before the first open, and the ring is gone: only the marker says that something was changed.
#[test]
fn stat_does_not_take_a_pool_for_closed_whose_marker_says_otherwise() {
    let desk = Desk::new();
    let pool = desk.pool();
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    super::run([OsStr::new("journal"), OsStr::new("add"), pool.as_os_str()]).ok();
    let new = std::fs::read(log(&pool)).unwrap();
    killed(&desk, 2..102, "each");
    std::fs::write(log(&pool), new).unwrap();
    std::fs::remove_file(with(&pool, ".ring")).unwrap();
    for args in [&[][..], &["--without-ring"]] {
        assert!(desk.run("stat", args).fails(1).contains("the log of the pool is damaged at byte"));
    }
}

/// A copied ring that lacks an entry before others may be of a disk that was away.
#[test]
fn an_uncertain_ring_is_opened_with_what_is_said() {
    /// Bytes of a cell.
    const CELL: usize = 80;
    let desk = Desk::new();
    killed(&desk, 0..100, "request");
    let copied = |name: &str| {
        let to = desk.dir.path().join(name);
        for ending in ["", ".log", ".ring"] {
            std::fs::copy(with(&desk.pool(), ending), with(&to, ending)).unwrap();
        }
        let mut ring = std::fs::read(with(&to, ".ring")).unwrap();
        // The first of its last cells that is filled.
        let filled = ring[CELLS..].chunks_exact(CELL).rposition(|cell| cell.iter().any(|&byte| byte != 0)).unwrap();
        ring[CELLS + (filled - 30) * CELL..][..CELL].fill(0);
        std::fs::write(with(&to, ".ring"), ring).unwrap();
        to
    };
    let keys = |pool: &Path, args: &[&str]| on(pool, "scan", args).ok().lines().count();
    let [prefix, all] = ["prefix.pool", "all.pool"].map(copied);
    let refused = on(&prefix, "scan", &[]).fails(1);
    assert!(refused.contains("--uncertain-ring prefix") && refused.contains("and 30 behind one"), "{refused}");
    let ran = on(&prefix, "put", &["7", "seven", "--uncertain-ring", "prefix"]);
    assert!(ran.err.contains("30 entries of its ring, after others that are missing, are lost"), "{ran:?}");
    let found = keys(&prefix, &[]);
    assert!((50..100).contains(&found), "{found}");
    // No thread was killed in the act here, so its content may be anything.
    let ran = on(&all, "stat", &["--uncertain-ring", "all", "--json"]);
    assert!(ran.err.is_empty(), "{ran:?}");
    let recovered = &ran.json()["journal"]["recovered"];
    assert!(number(recovered, "from_ring") > 50, "{recovered}");
    assert_eq!((number(recovered, "incomplete"), number(recovered, "given_up")), (1, 0));
    assert_eq!(on(&all, "scan", &["--uncertain-ring", "all", "--without-ring"]).code, Some(2));
}

#[test]
fn a_damaged_log_is_kept_and_ends_where_it_is_damaged() {
    let desk = Desk::new();
    let pool = desk.pool();
    desk.load("1\ta\n", &["--journal", "each", "--capacity", "32M"]).ok();
    assert!(desk.run("check", &["--repair"]).ok().starts_with("there is nothing to repair: the log is not damaged\n"));
    assert_eq!(desk.run("check", &["--repair", "--json"]).json()["repaired"], Value::Null);
    let kept = [".log.damaged", ".log.damaged.2"].map(|ending| with(&pool, ending));
    for round in 0..2 {
        killed(&desk, 2..300, "each");
        let mut content = std::fs::read(log(&pool)).unwrap();
        let used = content.iter().rposition(|&byte| byte != 0).unwrap();
        content[used / 2] ^= 1;
        std::fs::write(log(&pool), &content).unwrap();
        // As if other entries had taken their cells.
        let mut ring = std::fs::read(with(&pool, ".ring")).unwrap();
        ring[CELLS..].fill(0);
        std::fs::write(with(&pool, ".ring"), ring).unwrap();
        let before = std::fs::read(&pool).unwrap();
        let refused = desk.run("check", &[]).fails(1);
        assert!(refused.contains("`bristlecone check --repair`"), "{refused}");
        assert!(desk.run("put", &["1", "b"]).fails(1).contains("the log of the pool is damaged at byte "));
        assert!(std::fs::read(log(&pool)).unwrap() == content && std::fs::read(&pool).unwrap() == before);
        if round == 0 {
            let told = desk.run("check", &["--repair"]).ok();
            assert!(told.starts_with("the log was damaged, and ends there now: "), "{told}");
            assert!(told.contains(kept[0].to_str().unwrap()) && told.contains("clean: 1 tree"), "{told}");
        } else {
            let found = desk.run("check", &["--repair", "--json"]).json();
            assert_eq!((&found["repaired"]["kept"], &found["verdict"]), (&kept[1].to_str().into(), &"clean".into()));
            assert!(number(&found["repaired"], "lost") > 10, "{found}");
        }
        assert!(std::fs::read(&kept[round]).unwrap() == content);
        assert!(desk.run("get", &["2"]).ok() == "value 2\n" && desk.run("scan", &[]).ok().lines().count() < 300);
        assert!(desk.run("check", &["--repair"]).ok().starts_with("there is nothing to repair"));
    }
}

#[test]
fn a_ring_is_where_a_load_says() {
    let desk = Desk::new();
    let pool = desk.pool();
    let ring = with(&pool, ".ring");
    let without = desk.load("1\ta\n", &["--ring", "memory"]);
    assert!(without.fails(2).contains("--ring is for a pool with a journal") && !pool.exists());
    desk.load("1\ta\n", &["--ring", "memory", "--journal", "request", "--capacity", "32M"]).ok();
    assert!(!ring.exists());
    desk.load("2\tb\n", &["--ring", "beside"]).ok();
    assert!(ring.exists());
    desk.load("3\tc\n", &[]).ok();
    assert!(ring.exists());
    desk.load("4\td\n", &["--ring", "memory"]).ok();
    assert!(!ring.exists(), "no log names it any more");
    assert_eq!(desk.run("scan", &[]).ok().lines().count(), 4);
    super::run([OsStr::new("journal"), OsStr::new("remove"), pool.as_os_str()]).ok();
    assert!(desk.load("5\te\n", &["--ring", "beside"]).fails(1).contains("`bristlecone journal add POOL`"));
}

#[test]
fn a_journal_is_taken_away_with_what_is_said_of_its_ring() {
    let desk = Desk::new();
    killed(&desk, 0..300, "each");
    std::fs::remove_file(with(&desk.pool(), ".ring")).unwrap();
    let pool = desk.pool();
    let remove = |args: &[&str]| super::run([&["journal", "remove", pool.to_str().unwrap()], args].concat());
    assert!(remove(&[]).fails(1).contains("--without-ring"));
    let ran = remove(&["--without-ring"]);
    assert!(ran.err.contains("opened without its ring"), "{ran:?}");
    ran.ok();
    assert_eq!(desk.run("scan", &[]).ok().lines().count(), 300);
    assert!(!log(&desk.pool()).exists());
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

/// A file in shared memory that goes with the test.
struct InMemory(PathBuf);

impl InMemory {
    /// One with the name of a ring that nobody has.
    fn new(ending: &str) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        Self(format!("/dev/shm/bristlecone-{now:032x}{ending}").into())
    }

    /// The ring of a pool that has it in memory.
    fn of(desk: &Desk) -> Self {
        let uuid = desk.run("stat", &["--json"]).json()["uuid"].as_str().unwrap().replace('-', "");
        Self(format!("/dev/shm/bristlecone-{uuid}.ring").into())
    }

    /// `bristlecone rings RING ARGS... --json`: whether it is done, and what is known of the ring.
    fn run(&self, args: &[&str]) -> (bool, Value) {
        let ran = super::run([&["rings", self.0.to_str().unwrap(), "--json"], args].concat());
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        let found: Value = serde_json::from_slice(&ran.out).unwrap();
        let is_there = self.0.symlink_metadata().is_ok();
        let removed = (&found["rings"][0]["removed"], number(&found, "removed"));
        assert_eq!(removed, (&(!is_there).into(), u64::from(!is_there)));
        (ran.code == Some(0), found["rings"][0].clone())
    }

    /// Asserts that it stays though it is named, and what is said of it.
    #[track_caller]
    fn stays(&self, state: &str, kept: &str) {
        let (is_done, found) = self.run(&["--remove"]);
        assert!(!is_done && found["state"] == state && self.0.symlink_metadata().is_ok(), "{found}");
        assert!(found["kept"].as_str().unwrap().contains(kept), "{found}");
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_ring_in_memory_is_shown_and_goes_if_it_is_named_and_nobody_has_it_open() {
    let desk = Desk::new();
    desk.load("1\ta\n", &["--ring", "memory", "--journal", "request", "--capacity", "32M"]).ok();
    let ring = InMemory::of(&desk);
    assert!(!ring.0.exists());
    killed(&desk, 2..100, "request");
    let (_, found) = ring.run(&[]);
    assert_eq!((&found["state"], &found["form"], &found["this_boot"]), (&"left".into(), &2.into(), &true.into()));
    assert!(super::run(["rings", "--remove"]).ok().contains(ring.0.to_str().unwrap()) && ring.0.exists());
    // A process that has it open, and has not locked it, or not so that this one can see it.
    let open = std::fs::File::options().write(true).open(&ring.0).unwrap();
    ring.stays("left", "a process has it open");
    open.try_lock().unwrap();
    ring.stays("in_use", "a process has it open");
    drop(open);
    assert_eq!(desk.run("scan", &[]).ok().lines().count(), 99);
    assert!(ring.run(&["--remove"]).0 && !ring.0.exists());
    assert!(desk.run("get", &["1"]).fails(1).contains("its ring, /dev/shm/"));
}

#[test]
fn what_lies_in_memory_under_the_name_of_a_ring_is_known() {
    // Its process was killed when it had made the file.
    for content in [&[][..], &[0; 4096]] {
        let ring = InMemory::new("-fe00-7.ring");
        std::fs::write(&ring.0, content).unwrap();
        assert_eq!(ring.run(&[]).1["state"], "nothing");
        super::run(["rings", "--remove"]).ok();
        assert!(!ring.0.exists());
    }
    let ring = InMemory::new(".ring.1");
    std::fs::write(&ring.0, "somebody else's").unwrap();
    ring.stays("other", "no ring");
    std::fs::write(&ring.0, [&[0; 4095][..], &[1]].concat()).unwrap();
    ring.stays("other", "no ring");
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("target");
    std::fs::write(&target, "").unwrap();
    let link = InMemory::new(".ring");
    std::os::unix::fs::symlink(&target, &link.0).unwrap();
    link.stays("other", "");
    // One of the first form.
    let ring = InMemory::new("-fe00-7.ring");
    let name = ring.0.file_name().unwrap().to_str().unwrap();
    let half = |at: usize| u64::from_str_radix(&name["bristlecone-".len() + at..][..16], 16).unwrap();
    let mut words = vec![0; 8 + 1024 * 10];
    let magic = u64::from_le_bytes(*b"BRISRING");
    for (log, state) in [([0xfe00, 8], "other"), ([0xfe00, 7], "left")] {
        words[..8].copy_from_slice(&[magic, half(0), half(16), 5, 1, 1024, log[0], log[1]]);
        std::fs::write(&ring.0, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        let found = ring.run(&[]).1;
        assert_eq!(found["state"], state);
        if state == "left" {
            let log = &found["log"];
            assert_eq!((number(&found, "epoch"), &found["this_boot"], number(log, "inode")), (5, &false.into(), 7));
        }
    }
    assert!(ring.run(&["--remove"]).0);
    assert!(super::run(["rings", "/dev/shm/other"]).fails(1).contains("no ring with this path"));
}

/// Neither a budget that is no number nor a ring that nobody has asked for is taken without a word.
#[test]
fn what_is_asked_for_in_vain_is_told() {
    let desk = Desk::new();
    let lines = desk.file("data.tsv", "1\ta\n");
    desk.run("load", &[lines.to_str().unwrap(), "--ring", "beside"]).ok();
    assert_eq!(desk.run("stat", &["--json"]).json()["domain"], "journal");
    let mut put = super::command(["put", desk.pool().to_str().unwrap(), "1", "b"]);
    let refused = super::ran(put.env("BRISTLECONE_PRIVATE_MEMORY", "64M")).fails(1);
    assert!(refused.contains("BRISTLECONE_PRIVATE_MEMORY is '64M', and must be a number of bytes"), "{refused}");
    assert_eq!(desk.run("get", &["1"]).ok(), "a\n");
}
