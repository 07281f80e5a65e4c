//! `del`: remove one key.

use crate::out::Outcome;
use crate::trees::TreeArgs;
use std::process::ExitCode;

/// Remove a key; exit 1 if it is not there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The key, a decimal number
    key: u64,
}

pub(crate) fn run(args: Args) -> Outcome {
    let key = args.key;
    if args.place.changing(|tree| Ok(tree.remove(key)?))? {
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!("{}: key {key} is not in tree '{}'", args.place.pool.display(), args.place.tree).into())
}
