//! The command line, run as a user runs it.

#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod journal;
mod keys;
#[cfg(unix)]
mod kill;
#[cfg(target_os = "linux")]
mod looking;
mod pools;
mod ran;
mod scratch;
#[cfg(target_os = "linux")]
#[path = "../../../tests/space/looking/still.rs"]
mod still;
mod trials;
mod words;

use ran::{Ran, has_keys, is_empty};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock};
use tempfile::TempDir;

impl Ran {
    #[track_caller]
    fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }
}

fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bristlecone"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Held for writing while a process starts: until it has loaded its program, it has all files of this one open,
/// including their locks. A test holds it for reading while that would disturb it.
static SPAWNING: RwLock<()> = RwLock::new(());

fn start(command: &mut Command) -> Child {
    let _alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

fn ran(command: &mut Command) -> Ran {
    Ran::new(start(command.stdout(Stdio::piped()).stderr(Stdio::piped())).wait_with_output().unwrap())
}

fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    let ran = ran(&mut command(args));
    assert!(!ran.err.contains("::"), "a message for a shell names what only Rust knows: {ran:?}");
    ran
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

    /// Loads lines; into a new pool without a journal, unless the arguments say something of one.
    fn load(&self, content: impl AsRef<[u8]>, args: &[&str]) -> Ran {
        let file = self.file("data.tsv", content);
        let mut all = vec![file.to_str().unwrap()];
        if !self.pool().exists() && !args.contains(&"--journal") {
            all.extend(["--journal", "none"]);
        }
        all.extend_from_slice(args);
        self.run("load", &all)
    }
}
