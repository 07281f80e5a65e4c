//! The command line, run as a user runs it.
#![cfg(feature = "cli")]

mod bench;
mod figures;
mod pools;
mod scratch;
mod trials;

use serde_json::Value;
use std::ffi::OsStr;
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

/// That nothing is left in a directory.
#[track_caller]
fn is_empty(dir: &Path) {
    assert!(dir.read_dir().unwrap().next().is_none(), "{dir:?} is not empty");
}

fn objects(ran: Ran) -> Vec<Value> {
    ran.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
