//! `get`: the value of one key.

use crate::out::{self, Outcome};
use crate::trees::TreeArgs;
use std::io::{self, Write};
use std::process::ExitCode;

/// Print the value of a key; exit 1 if there is none
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The key, a decimal number
    key: u64,
}

pub(crate) fn run(args: Args) -> Outcome {
    let key = args.key;
    let Some(mut value) = args.place.reading(|tree| Ok(tree.get(key)?))? else {
        return Err(format!("{}: key {key} is not in tree '{}'", args.place.pool.display(), args.place.tree).into());
    };
    value.push(b'\n');
    out::written(io::stdout().lock().write_all(&value))?;
    Ok(ExitCode::SUCCESS)
}
