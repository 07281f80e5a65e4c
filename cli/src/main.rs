//! The binary `bristlecone`: see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    bristlecone_cli::main()
}
