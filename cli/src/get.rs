//! `get`: the value of one key.

use crate::out::{self, Outcome};
use crate::place::{TreeArgs, key};
use std::io::{self, Write};
use std::process::ExitCode;

/// Print the value of a key; exit 1 if there is none
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The key
    key: String,
}

pub(crate) fn run(args: Args) -> Outcome {
    let value = args.place.reading(
        |keys| key(&args.key, keys),
        |tree, key| match tree.get(&key)? {
            Some(value) => Ok(value),
            None => Err(args.place.missing(&key)),
        },
    );
    let mut value = value?;
    value.push(b'\n');
    out::written(io::stdout().lock().write_all(&value))?;
    Ok(ExitCode::SUCCESS)
}
