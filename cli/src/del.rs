//! `del`: remove one key.

use crate::keys::Key;
use crate::out::Outcome;
use crate::place::{TreeArgs, key};
use crate::trees::Tree;
use std::process::ExitCode;

/// Remove a key; exit 1 if it is not there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The key
    key: String,
}

pub(crate) fn run(args: Args) -> Outcome {
    let remove = |tree: &dyn Tree, key: Key| if tree.remove(&key)? { Ok(()) } else { Err(args.place.missing(&key)) };
    args.place.changing(|keys| key(&args.key, keys), remove)?;
    Ok(ExitCode::SUCCESS)
}
