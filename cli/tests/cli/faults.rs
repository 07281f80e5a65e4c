//! The fault campaign: each system call that a command makes on a pool fails in turn, with each error that it can have.
//!
//! The command must then end with success, or with one line that names the file and says what was attempted. The
//! content of the pool must be what it was before, or what the command makes of it. And the next command must work.
//! `strace` makes the calls fail, so calls from every layer are covered.
//!
//! `FAULTS` says which faults are tried: `all`, or a number `n` for every `n`-th (default 64). The last test is the
//! negative control.

use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The errors that a call can have, as far as they are handled differently.
const CALLS: &[(&str, &[&str])] = &[
    ("openat", &["EACCES", "EINTR", "EIO", "EMFILE", "ENOENT", "ENOMEM", "EROFS"]),
    ("statx", &["EACCES", "EIO", "ENOMEM"]),
    ("newfstatat", &["EACCES", "EIO", "ENOMEM"]),
    ("fstat", &["EIO", "ENOMEM"]),
    ("flock", &["EAGAIN", "EINTR", "EIO", "ENOLCK"]),
    ("ftruncate", &["EFBIG", "EINTR", "EIO", "ENOSPC", "EPERM"]),
    ("fallocate", &["EDQUOT", "EFBIG", "EINTR", "EIO", "ENOSPC", "ENOSYS", "EOPNOTSUPP"]),
    ("lseek", &["EINVAL", "EIO", "ENXIO"]),
    ("mmap", &["EACCES", "EAGAIN", "EINVAL", "ENOMEM", "EOPNOTSUPP"]),
    ("madvise", &["EAGAIN", "EFAULT", "EINVAL", "EIO", "ENOMEM"]),
    ("munmap", &["EINVAL", "ENOMEM"]),
    ("read", &["EINTR", "EIO"]),
    ("pread64", &["EINTR", "EIO"]),
    ("write", &["EDQUOT", "EINTR", "EIO", "ENOSPC"]),
    ("pwrite64", &["EDQUOT", "EINTR", "EIO", "ENOSPC"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("sync_file_range", &["EIO", "ENOSPC"]),
    ("msync", &["EIO", "ENOMEM"]),
    ("unlink", &["EACCES", "EIO"]),
    ("unlinkat", &["EACCES", "EIO"]),
];

type Content = BTreeMap<u64, Vec<u8>>;

fn bristlecone(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bristlecone"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command under `strace`, which writes to `log`.
fn traced(options: &[&str], log: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-s", "200", "-o"]).arg(log).args(options);
    command.arg(env!("CARGO_BIN_EXE_bristlecone")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Whether `strace` works; some systems have it but do not let it trace.
fn is_there() -> bool {
    let works = |output: Output| output.status.success();
    Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output().is_ok_and(works)
}

/// A command on a pool in a certain state.
struct Case {
    name: &'static str,
    /// `POOL` and `LINES` are replaced by the paths of the files.
    args: &'static [&'static str],
    pool: Pool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pool {
    Missing,
    Closed,
    /// As a kill leaves it.
    InUse,
}

const CASES: &[Case] = &[
    Case { name: "create", args: &["load", "POOL", "LINES", "--capacity", "32M"], pool: Pool::Missing },
    Case { name: "load", args: &["load", "POOL", "LINES"], pool: Pool::Closed },
    Case { name: "grow", args: &["load", "POOL", "LINES", "--capacity", "48M"], pool: Pool::InUse },
    Case { name: "put", args: &["put", "POOL", "5", "five"], pool: Pool::Closed },
    Case { name: "put after a kill", args: &["put", "POOL", "5", "five"], pool: Pool::InUse },
    Case { name: "del", args: &["del", "POOL", "3"], pool: Pool::Closed },
    Case { name: "get", args: &["get", "POOL", "3"], pool: Pool::InUse },
    Case { name: "scan", args: &["scan", "POOL"], pool: Pool::Closed },
    Case { name: "check", args: &["check", "POOL"], pool: Pool::InUse },
    Case { name: "stat", args: &["stat", "POOL"], pool: Pool::Closed },
    Case { name: "info", args: &["info", "POOL"], pool: Pool::Closed },
];

/// Lines that take several segments; one of them is a record with segments of its own.
fn lines() -> Vec<(u64, Vec<u8>)> {
    (0..12).map(|n| (n * 2, vec![b'a' + n as u8; if n == 7 { 3 << 20 } else { 500_000 }])).collect()
}

fn write_lines(path: &Path, lines: &[(u64, Vec<u8>)]) {
    let text: Vec<u8> =
        lines.iter().flat_map(|(key, value)| [key.to_string().as_bytes(), b"\t", value, b"\n"].concat()).collect();
    fs::write(path, text).unwrap();
}

/// The files that the cases start with.
struct Desk {
    dir: tempfile::TempDir,
    before: Content,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("faults").tempdir_in(shared()).unwrap();
        let before: Vec<(u64, Vec<u8>)> = (0..60).map(|n| (n * 3, format!("old {n}").into_bytes())).collect();
        write_lines(&dir.path().join("old"), &before);
        write_lines(&dir.path().join("lines"), &lines());
        let desk = Self { before: before.into_iter().collect(), dir };
        // Killed while it waits for more lines.
        let pool = desk.file("in-use");
        let mut child = Command::new(env!("CARGO_BIN_EXE_bristlecone"))
            .args(["load", &pool, "-", "--ack", "--capacity", "32M"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&fs::read(desk.path("old")).unwrap()).unwrap();
        stdin.flush().unwrap();
        let mut acknowledged = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(acknowledged.by_ref().take(desk.before.len()).filter_map(Result::ok).count(), desk.before.len());
        child.kill().unwrap();
        child.wait().unwrap();
        fs::copy(desk.path("in-use"), desk.path("closed")).unwrap();
        // This loads nothing, and closes the pool orderly.
        let closed = bristlecone(&["load", &desk.file("closed"), "/dev/null"]).output().unwrap();
        assert!(closed.status.success());
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Copies the pool of a case to a path of its own; returns the path and the arguments.
    fn set_up(&self, case: &Case, place: usize) -> (PathBuf, Vec<String>) {
        let pool = self.path(&format!("{place}.pool"));
        let _ = fs::remove_file(&pool);
        match case.pool {
            Pool::Missing => {}
            Pool::Closed => drop(fs::copy(self.path("closed"), &pool).unwrap()),
            Pool::InUse => drop(fs::copy(self.path("in-use"), &pool).unwrap()),
        }
        let pool_name = pool.display().to_string();
        let args = case.args.iter().map(|&arg| match arg {
            "POOL" => pool_name.clone(),
            "LINES" => self.file("lines"),
            other => other.to_owned(),
        });
        (pool, args.collect())
    }

    /// What may be found after a case that failed: the old content, or the content after any of the lines that were
    /// loaded.
    fn allowed(&self, case: &Case) -> Vec<Content> {
        let before = if case.pool == Pool::Missing { Content::new() } else { self.before.clone() };
        let mut allowed = vec![before.clone()];
        let mut content = before;
        let mut change = |key, value: Option<&[u8]>| {
            match value {
                Some(value) => drop(content.insert(key, value.to_vec())),
                None => drop(content.remove(&key)),
            }
            allowed.push(content.clone());
        };
        match case.args[0] {
            "load" => lines().iter().for_each(|(key, value)| change(*key, Some(value))),
            "put" => change(5, Some(b"five")),
            "del" => change(3, None),
            _ => {}
        }
        allowed
    }
}

/// A directory in memory, if there is such a file system: a disk would make the test slow.
fn shared() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() }
}

/// A call of a case that fails.
#[derive(Clone, Copy)]
struct Fault {
    case: usize,
    call: &'static str,
    error: &'static str,
    /// The number of the call among those with the same name.
    when: usize,
}

impl Fault {
    fn name(self) -> String {
        format!("{}: {} number {} with {}", CASES[self.case].name, self.call, self.when, self.error)
    }
}

/// All faults of a case: the calls that it makes without a fault, as far as they concern the files, or ask for a lot of
/// memory.
fn faults_of(desk: &Desk, case: usize) -> Vec<Fault> {
    let (_, args) = desk.set_up(&CASES[case], 0);
    let log = desk.path("0.log");
    let output = traced(&[], &log, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}: {output:?}", CASES[case].name);
    let log = fs::read_to_string(log).unwrap();
    let here = desk.dir.path().display().to_string();
    let mut begun = false;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for line in log.lines() {
        let Some((call, rest)) = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('(')) else {
            continue;
        };
        begun |= line.contains(&here) && call != "execve";
        let Some(&(call, errors)) = CALLS.iter().find(|(name, _)| *name == call) else { continue };
        let when = seen.entry(call).or_default();
        *when += 1;
        let of_streams = matches!(call, "write" | "read") && ["0,", "1,", "2,"].iter().any(|fd| rest.starts_with(fd));
        // Requests of the allocator are not the crate's.
        let of_allocator = call == "mmap" && rest.contains("-1, 0)") && !rest.contains("MAP_NORESERVE")
            || call == "munmap" && !rest.starts_with("0x7")
            || call == "madvise" && rest.contains("MADV_DONTNEED");
        if begun && !of_streams && !of_allocator {
            faults.extend(errors.iter().map(|&error| Fault { case, call, error, when: *when }));
        }
    }
    faults
}

/// The content of a pool; `None` if there is no pool, or only the remains of a creation. A pool whose disk has failed
/// is checked first.
fn content(pool: &str) -> Result<Option<Content>, String> {
    let scan = || bristlecone(&["scan", pool]).output().unwrap();
    let mut output = scan();
    if String::from_utf8_lossy(&output.stderr).contains("the disk has failed to take what was written") {
        bristlecone(&["check", "--after-power-loss", pool]).output().unwrap();
        output = scan();
    }
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let unborn = ["not found", "not a pool", "no tree"].iter().any(|what| error.contains(what));
        return if unborn { Ok(None) } else { Err(format!("afterwards, scan: {error}")) };
    }
    let mut content = Content::new();
    for line in output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|&byte| byte == b'\t').ok_or("scan prints a line without a tab")?;
        let key = std::str::from_utf8(&line[..tab]).ok().and_then(|key| key.parse().ok()).ok_or("and without a key")?;
        content.insert(key, line[tab + 1..].to_vec());
    }
    Ok(Some(content))
}

/// Executes a fault, and reports what is wrong. True: the command noticed the fault.
fn execute(desk: &Desk, fault: Fault, place: usize, allowed: &[Content]) -> Result<bool, String> {
    let (case, name) = (&CASES[fault.case], fault.name());
    let (pool, args) = desk.set_up(case, place);
    let pool = pool.display().to_string();
    let inject = format!("inject={}:error={}:when={}", fault.call, fault.error, fault.when);
    let trace = format!("trace={}", fault.call);
    let log = desk.path(&format!("{place}.log"));
    let output = traced(&["-e", &trace, "-e", &inject], &log, &args.iter().map(String::as_str).collect::<Vec<_>>());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let wrong = |what: &str| Err(format!("{name}: {what}: {error}"));
    let Some(code) = output.status.code() else {
        return wrong(&format!("ended by signal {:?}", output.status.signal()));
    };
    if !fs::read_to_string(&log).is_ok_and(|log| log.contains("(INJECTED)")) {
        return wrong("the fault did not come");
    }
    let names_file = error.contains(&pool) || error.contains(&desk.file("lines"));
    if code != 0 && !(code == 1 && error.starts_with("bristlecone: ") && error.lines().count() == 1 && names_file) {
        return wrong(&format!("code {code}, or no line that names the file"));
    }
    if code != 0 && fault.error == "EINTR" {
        return wrong("an interrupted call is not made again");
    }
    let found = match content(&pool) {
        Ok(found) => found,
        Err(what) => return wrong(&what),
    };
    let born = found.is_some();
    let found = found.unwrap_or_default();
    let right = if code == 0 { found == allowed[allowed.len() - 1] } else { allowed.contains(&found) };
    if !right || (!born && case.pool != Pool::Missing) {
        let keys: Vec<_> = found.keys().collect();
        return wrong(&format!("code {code}, and the content is not right: {keys:?}"));
    }
    // The next command must work, and creates the pool if there is none.
    let next = desk.path(&format!("{place}.next"));
    write_lines(&next, &[(1, b"one".to_vec())]);
    for args in [&["load", &pool, &next.display().to_string(), "--capacity", "48M"][..], &["check", &pool]] {
        let output = bristlecone(args).output().unwrap();
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            return wrong(&format!("afterwards, {}: {error}{text}", args[0]));
        }
    }
    Ok(code != 0)
}

#[test]
fn every_call_that_fails_leaves_the_content() {
    if !is_there() {
        eprintln!("skipped: there is no strace that works here");
        return;
    }
    let desk = Desk::new();
    let every = match std::env::var("FAULTS").as_deref() {
        Ok("all") => 1,
        Ok(every) => every.parse().expect("FAULTS is `all` or a number"),
        Err(_) => 64,
    };
    let start = Instant::now();
    let faults: Vec<Fault> = (0..CASES.len()).flat_map(|case| faults_of(&desk, case)).collect();
    let allowed: Vec<_> = CASES.iter().map(|case| desk.allowed(case)).collect();
    let of_all = faults.len();
    // A different selection in each run would find more, but its findings could not be reproduced.
    let faults: Vec<Fault> = faults.into_iter().step_by(every).collect();
    let (next, noticed, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = |place: usize| {
        while let Some(&fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
            match execute(&desk, fault, place, &allowed[fault.case]) {
                Ok(was_noticed) => drop(noticed.fetch_add(usize::from(was_noticed), Ordering::Relaxed)),
                Err(what) => wrong.lock().unwrap().push(what),
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        for place in 1..=std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(move || work(place));
        }
    });
    let wrong = wrong.into_inner().unwrap();
    println!(
        "{}",
        json!({
            "faults": of_all,
            "tried": faults.len(),
            "noticed": noticed.into_inner(),
            "wrong": wrong.len(),
            "seconds": start.elapsed().as_secs(),
        })
    );
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}

/// The negative control: a command that loses what it acknowledged is found, and so is a command that a signal ends.
#[test]
fn a_lost_change_and_a_crash_are_found() {
    if !is_there() {
        return;
    }
    let desk = Desk::new();
    let case = CASES.iter().position(|case| case.name == "put").unwrap();
    let fault = Fault { case, call: "fallocate", error: "EOPNOTSUPP", when: 1 };
    // Pretends that `put` should have made a different content.
    let mut allowed = desk.allowed(&CASES[case]);
    allowed.iter_mut().for_each(|content| drop(content.insert(6, b"six".to_vec())));
    let found = execute(&desk, Fault { call: "flock", error: "EIO", ..fault }, 1, &allowed).unwrap_err();
    assert!(found.contains("the content is not right"), "{found}");
    let killed = Fault { call: "flock", error: "EIO:signal=SIGABRT", ..fault };
    let found = execute(&desk, killed, 1, &desk.allowed(&CASES[case])).unwrap_err();
    assert!(found.contains("ended by signal"), "{found}");
}
