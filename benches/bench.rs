//! `cargo bench`: hands over to the benchmarks, which are a package of their own, so that nothing else compiles what
//! they depend on.
//!
//! Arguments after `--` are criterion's: `cargo bench -- insert`.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode};

/// What cargo puts before the arguments of a benchmark, and not before those of a test.
const BENCH: &str = "--bench";

fn main() -> io::Result<ExitCode> {
    let (bench, args): (Vec<OsString>, Vec<_>) = env::args_os().skip(1).partition(|arg| arg == BENCH);
    if bench.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["bench", "--package", "bristlecone-bench", "--features", "peers", "--"]).args(args);
    let ended = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    Ok(if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
