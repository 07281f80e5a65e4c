//! Real processes, killed with SIGKILL: everything that they had acknowledged is there, and nothing else is.
//!
//! `bristlecone kill` does most of it; `load` acknowledges lines, too, and has a test of its own.
//!
//! `KILL_ROUNDS` (default 12) sets the number of rounds.

use bristlecone::{IndexKind, Map, OneLine, Pool, WordNode};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const LINES: u64 = 20_000;
const SIGKILL: i32 = 9;

type Line = (u64, Vec<u8>);
type Content = BTreeMap<u64, Vec<u8>>;

fn bristlecone() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bristlecone"))
}

/// Random numbers; the seed is printed when a test fails.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }
}

/// Lines with keys that repeat, values of many lengths, and every byte except a newline.
fn data(random: &mut Random) -> Vec<Line> {
    let line = |_| {
        let key = match random.below(100) {
            0 => u64::MAX,
            1 => 0,
            2..30 => random.below(1000),
            _ => random.below(1 << 31).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let len = if random.below(50) == 0 { random.below(5000) } else { random.below(60) };
        let value = (0..len).map(|_| random.below(256) as u8).filter(|&byte| byte != b'\n').collect();
        (key, value)
    };
    (0..LINES).map(line).collect()
}

fn write(path: &Path, lines: &[Line]) {
    let mut bytes = Vec::new();
    for (key, value) in lines {
        bytes.extend_from_slice(format!("{key}\t").as_bytes());
        bytes.extend_from_slice(value);
        bytes.push(b'\n');
    }
    std::fs::write(path, bytes).unwrap();
}

/// Loads lines, and kills the process at a random moment after `kill_after` acknowledgements. With 0, that is often
/// while it opens the pool and recovers what the previous kill has left.
///
/// Returns how many lines were acknowledged, and whether the process was killed before it was done.
fn load(pool: &Path, lines: &[Line], options: &[&str], kill_after: Option<u64>, random: &mut Random) -> (usize, bool) {
    let file = pool.with_extension("tsv");
    write(&file, lines);
    let mut command = bristlecone();
    command.arg("load").arg(pool).arg(&file).args(["--ack", "--exact"]).args(options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut acknowledged = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = 0;
    let mut next = |seen: &mut usize| match acknowledged.next() {
        Some(key) => {
            assert_eq!(key.unwrap(), lines[*seen].0.to_string(), "acknowledgement {seen}");
            *seen += 1;
            true
        }
        None => false,
    };
    if let Some(kill_after) = kill_after {
        while (seen as u64) < kill_after && next(&mut seen) {}
        let a_moment = if kill_after == 0 { 5000 } else { 300 };
        std::thread::sleep(Duration::from_micros(random.below(a_moment)));
        child.kill().unwrap();
    }
    while next(&mut seen) {}
    let status = child.wait().unwrap();
    let killed = status.signal() == Some(SIGKILL);
    assert!(killed || (status.success() && seen == lines.len()), "{status}, {seen} lines");
    (seen, killed)
}

#[track_caller]
fn check(pool: &Path) {
    let output = bristlecone().arg("check").arg(pool).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("clean"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// Opens the pool through the library and compares its whole content with what was acknowledged; the line in flight may
/// be there.
fn compare<N: WordNode>(index: IndexKind, pool: &Path, content: &mut Content, in_flight: Option<&Line>) {
    let pool = Pool::open(pool).unwrap();
    let map: Map<u64, Vec<u8>, N> = pool.map_with("main", index).unwrap();
    let found: Content = map.iter().map(Result::unwrap).collect();
    if let Some((key, value)) = in_flight
        && found.get(key) == Some(value)
    {
        content.insert(*key, value.clone());
    }
    for (key, value) in &*content {
        assert_eq!(found.get(key), Some(value), "key {key}");
        assert_eq!(map.get(*key).unwrap().as_ref(), Some(value), "key {key}");
    }
    assert_eq!((found.len(), map.len()), (content.len(), content.len() as u64), "something else is there");
    let report = map.check();
    assert!(report.is_clean(), "{report:?}");
    drop(map);
    pool.close().unwrap();
}

fn rounds() -> u64 {
    std::env::var("KILL_ROUNDS").map_or(12, |rounds| rounds.parse().expect("KILL_ROUNDS is a number"))
}

/// Runs the rounds on one pool of one kind.
fn survives<N: WordNode>(index: IndexKind) {
    let seed = RandomState::new().hash_one(0);
    println!("seed {seed}");
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let pool = dir.path().join("a.pool");
    let options = ["--layout", N::NAME, "--index", index.name(), "--capacity", "256M"];
    let lines = data(&mut random);
    let mut content = Content::new();
    let mut rest = &lines[..];
    let rounds = rounds().div_ceil(2);
    let mut kills = 0;
    while kills < rounds {
        let kill_after = if random.below(4) == 0 { 0 } else { random.below(2 * LINES / rounds) };
        let (seen, killed) = load(&pool, rest, &options, Some(kill_after), &mut random);
        kills += u64::from(killed);
        content.extend(rest[..seen].iter().cloned());
        rest = &rest[seen..];
        // A process that is killed before its first acknowledgement may not have created the pool.
        if !content.is_empty() {
            check(&pool);
            compare::<N>(index, &pool, &mut content, rest.first());
            check(&pool);
        }
        if rest.is_empty() {
            // Loads all lines once more, on top of the existing content.
            rest = &lines;
        }
    }
    let (seen, _) = load(&pool, rest, &options, None, &mut random);
    assert_eq!(seen, rest.len());
    content.extend(rest.iter().cloned());
    check(&pool);
    compare::<N>(index, &pool, &mut content, None);
    println!("{kills} kills, {} keys", content.len());
}

#[test]
fn load_acknowledges_what_is_durable() {
    survives::<OneLine>(IndexKind::Volatile);
}

/// Kills processes while they make a pool with a journal. Whatever they leave, the next one makes the pool.
#[cfg(target_os = "linux")]
#[test]
fn a_pool_with_a_journal_whose_creation_was_cut_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..30 {
        let pool = dir.path().join(format!("{n}.pool"));
        let load = || {
            let mut command = bristlecone();
            command.arg("load").arg(&pool).args(["-", "--journal", "request", "--capacity", "16M"]);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut killed = load();
        std::thread::sleep(Duration::from_millis(2 * n));
        killed.kill().unwrap();
        killed.wait().unwrap();
        let mut next = load();
        next.stdin.take().unwrap().write_all(b"1\tone\n").unwrap();
        assert!(next.wait().unwrap().success(), "after a kill at {} ms", 2 * n);
        let stat = bristlecone().arg("stat").arg(&pool).arg("--json").output().unwrap();
        let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).unwrap();
        assert_eq!((&stat["domain"], &stat["keys"]), (&"journal".into(), &1.into()));
    }
}

/// What `bristlecone kill` found.
#[cfg(target_os = "linux")]
fn kills(args: &[&str]) -> serde_json::Value {
    let output = bristlecone().arg("kill").arg("--json").args(args).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

/// Kills threads in the middle of all their operations, with every layout and index of the command line.
#[cfg(target_os = "linux")]
#[test]
fn a_kill_loses_nothing() {
    let found = kills(&["--rounds", &(2 * rounds()).to_string()]);
    assert_eq!((&found["lost"], &found["invented"], &found["leaked_bytes"]), (&0.into(), &0.into(), &0.into()));
    assert!(found["acknowledged"].as_u64() > Some(1000) && found["pools"].as_array().is_some_and(|p| p.len() == 16));
    assert!(found["kills_with_journal"].as_u64() > Some(0), "{found}");
}

/// The negative controls: a change that is lost or acknowledged too early is found, and so is space that is not given
/// back.
#[cfg(target_os = "linux")]
#[test]
fn planted_bugs_are_found() {
    let one = ["--layout", "one_line", "--index", "volatile", "--threads", "2", "--control"];
    for (control, rounds) in [("missing", "16"), ("early", "20"), ("leak", "48"), ("unsynced", "8")] {
        let found = kills(&[&one[..], &[control, "--rounds", rounds]].concat());
        assert_eq!(found["control"], control);
    }
}
