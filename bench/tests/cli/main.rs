//! The benchmarks, run as a user runs them.

mod figures;
#[path = "../../../cli/tests/cli/ran.rs"]
mod ran;
mod times;

use ran::{Ran, has_keys, is_empty};
use serde_json::Value;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bristlecone-bench"));
    Ran::new(command.args(args).stdin(Stdio::null()).output().unwrap())
}

fn objects(ran: Ran) -> Vec<Value> {
    ran.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
