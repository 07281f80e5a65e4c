//! The commands that look at a pool change none of its files, and need no right to.

use super::still::still;
use super::{SPAWNING, command, start};
use bristlecone::{Journal, Pool};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::PoisonError;
use tempfile::TempDir;

fn scratch() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn printed(command: &mut Command) -> (Option<i32>, String) {
    let output = start(command.stdout(Stdio::piped()).stderr(Stdio::piped())).wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A process that has put `count` lines into a pool, and would go on.
fn writer(path: &Path, count: u64, more: &[&str]) -> Child {
    let mut args = vec!["load", text(path), "-", "--ack"];
    args.extend(more);
    let mut child = start(command(args).stdin(Stdio::piped()).stdout(Stdio::piped()));
    let input = child.stdin.as_mut().unwrap();
    (0..count).for_each(|key| writeln!(input, "{key}\tvalue {key}").unwrap());
    input.flush().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line == (count - 1).to_string()));
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

const LINES: u64 = 3000;

/// All that looks, and what it must print.
fn looks(path: &Path, run: impl Fn(&[&str]) -> (Option<i32>, String)) {
    let pool = text(path);
    let last = format!("{}\tvalue {}\n", LINES - 1, LINES - 1);
    let lines = LINES.to_string();
    for (args, expected) in [
        (&["get", pool, "77"][..], "value 77\n"),
        (&["scan", pool], &*last),
        (&["scan", pool, "--from", "2990", "--reverse"], &*last),
        (&["dump", pool], &*last),
        (&["dump", pool, "--json"], "{\"key\":2999,\"value\":\"value 2999\"}\n"),
        (&["stat", pool], "3,000 keys"),
        (&["stat", pool, "--json"], &format!("\"keys\":{lines}")),
        (&["check", pool], "clean: 1 tree"),
        (&["check", pool, "--json"], &format!("\"entries\":{lines}")),
        (&["info", pool], "domain "),
        (&["info", pool, "--json"], "\"domain\":"),
    ] {
        let (code, found) = run(args);
        assert!(code == Some(0) && found.contains(expected), "{args:?}: {code:?} {found}");
    }
    assert_eq!(run(&["get", pool, "3000"]).0, Some(1));
    assert_eq!(run(&["get", pool, "1", "--tree", "none"]).0, Some(1));
}

fn pools(scratch: &TempDir) -> Vec<PathBuf> {
    let (closed, killed) = (scratch.path().join("closed"), scratch.path().join("killed"));
    let mut done = writer(&closed, LINES, &[]);
    drop(done.stdin.take());
    assert!(done.wait().unwrap().success());
    kill(writer(&killed, LINES, &[]));
    let (kept, left) = (scratch.path().join("journal"), scratch.path().join("left"));
    let mut done = writer(&kept, LINES, &["--journal", "10ms"]);
    drop(done.stdin.take());
    assert!(done.wait().unwrap().success());
    kill(writer(&left, LINES, &["--journal", "10ms"]));
    vec![closed, killed, kept, left]
}

#[test]
fn what_looks_changes_nothing() {
    let scratch = scratch();
    for path in pools(&scratch) {
        let before = still(&path);
        looks(&path, |args| printed(&mut command(args)));
        assert_eq!(still(&path), before, "{}", path.display());
        // A backup reads, too.
        let copy = scratch.path().join("copy");
        assert_eq!(printed(&mut command(["backup", text(&path), text(&copy)])).0, Some(0));
        fs::remove_file(copy).unwrap();
        assert_eq!(still(&path), before, "{}", path.display());
        // The control: what writes changes something.
        assert_eq!(printed(&mut command(["put", text(&path), "1", "value 1"])).0, Some(0));
        assert_ne!(still(&path), before);
    }
}

#[test]
fn somebody_else_looks_at_what_he_may_only_read() {
    // SAFETY: it only asks.
    if unsafe { libc::getuid() } != 0 {
        println!("not tried: only root can be somebody else");
        return;
    }
    let scratch = scratch();
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let program = place.path().join("bristlecone");
    fs::copy(env!("CARGO_BIN_EXE_bristlecone"), &program).unwrap();
    for from in pools(&scratch) {
        let path = place.path().join("a.pool");
        let files = ["", ".log", ".ring"].map(|ending| {
            let with = |path: &Path| PathBuf::from(format!("{}{ending}", path.display()));
            (with(&from), with(&path))
        });
        for (from, to) in files.iter().filter(|(from, _)| from.exists()) {
            fs::copy(from, to).unwrap();
            fs::set_permissions(to, fs::Permissions::from_mode(0o444)).unwrap();
        }
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o555)).unwrap();
        let before = still(&path);
        let other =
            |args: &[&str]| printed(Command::new(&program).args(args).stdin(Stdio::null()).uid(65534).gid(65534));
        looks(&path, other);
        assert!(other(&["put", text(&path), "1", "x"]).1.contains("read-only"));
        assert_eq!(still(&path), before);
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (_, to) in files.iter().filter(|(_, to)| to.exists()) {
            fs::remove_file(to).unwrap();
        }
    }
}

#[test]
fn while_a_writer_lives_the_reason_is_told() {
    let scratch = scratch();
    let path = scratch.path().join("a.pool");
    let child = writer(&path, LINES, &[]);
    // The writer's journal may replace its ring meanwhile, so only the pool itself is looked at.
    let len = || fs::metadata(&path).unwrap().len();
    let before = len();
    for args in [
        &["get", text(&path), "1"][..],
        &["scan", text(&path)],
        &["stat", text(&path)],
        &["check", text(&path)],
        &["dump", text(&path)],
    ] {
        let (code, told) = printed(&mut command(args));
        let why = told.contains("already open")
            && told.contains("locks are in its own memory")
            && told.contains("read a backup");
        assert!(code == Some(1) && why, "{told}");
    }
    assert_eq!(len(), before);
    kill(child);
    assert_eq!(printed(&mut command(["get", text(&path), "1"])), (Some(0), "value 1\n".to_owned()));
}

/// A `stat --watch`, and what it prints.
struct Watch {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn of(path: &Path) -> Self {
        let mut child = start(command(["stat", text(path), "--json", "--watch", "0.02"]).stdout(Stdio::piped()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_watch_tells_what_becomes_of_a_pool() {
    let scratch = scratch();
    let path = scratch.path().join("a.pool");
    let mut watch = Watch::of(&path);
    let missing = watch.next();
    assert_eq!((&missing["in_use"], &missing["error"]), (&false.into(), &"not found".into()), "{missing}");
    let child = writer(&path, 10, &["--journal", "none"]);
    let in_use = watch.next();
    assert_eq!(in_use["in_use"], true, "{in_use}");
    kill(child);
    let killed = watch.next();
    assert_eq!((&killed["keys"], &killed["last_shutdown"]), (&10.into(), &"crash".into()), "{killed}");
    // Nothing changes: it holds no lock. A process could meet it only while it looks.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let calm = SPAWNING.read().unwrap_or_else(PoisonError::into_inner);
    let before = still(&path);
    for _ in 0..20 {
        let locked = fs::File::open(&path).unwrap();
        locked.try_lock().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(3));
        // Not only closed: a process that another test starts just now has it open, too.
        locked.unlock().unwrap();
    }
    assert_eq!(still(&path), before);
    let pool = Pool::options().segment_size(64 << 10).journal(Journal::None).sync(false).open(&path).unwrap();
    let tree = pool.map::<u64, Vec<u8>>("main").unwrap();
    assert_eq!(watch.next()["in_use"], true);
    tree.insert(10, b"more").unwrap();
    drop(tree);
    Pool::close(pool).unwrap();
    drop(calm);
    let closed = watch.next();
    assert_eq!((&closed["keys"], &closed["last_shutdown"]), (&11.into(), &"clean".into()), "{closed}");
    // What is no pool ends it.
    fs::write(&path, "something else").unwrap();
    let last = watch.lines.by_ref().map(Result::unwrap).last().unwrap();
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert!(
        last["error"].as_str().is_some_and(|error| error.contains("not a pool")) && last["in_use"] == false,
        "{last}"
    );
    assert_eq!(watch.child.wait().unwrap().code(), Some(1));
    for wrong in ["0", "-1", "x", "1e300"] {
        assert_eq!(printed(&mut command(["stat", text(&path), "--watch", wrong])).0, Some(2), "{wrong}");
    }
}
