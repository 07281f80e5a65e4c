//! `cargo bench`: hands over to the benchmarks, which are a package of their own, so that nothing else compiles what
//! they depend on.
//!
//! Arguments after `--` are criterion's: `cargo bench -- insert`.

use std::env;
use std::io;
use std::process::{Command, ExitCode};

fn main() -> io::Result<ExitCode> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // What cargo itself puts before the arguments of a benchmark, and will again.
    let args = env::args_os().skip(1).filter(|arg| arg != "--bench");
    let mut bench = Command::new(cargo);
    bench.args(["bench", "--package", "bristlecone-bench", "--features", "peers", "--"]).args(args);
    let done = bench.current_dir(env!("CARGO_MANIFEST_DIR")).status()?.success();
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
