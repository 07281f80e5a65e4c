//! `del`: remove one key.

use crate::keys::Key;
use crate::out::Outcome;
use crate::parse;
use crate::place::{TreeArgs, key};
use crate::trees::Tree;
use bristlecone::Journal;
use std::process::ExitCode;

/// Remove a key; exit 1 if it is not there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// When a pool with a journal waits for the disk: each, request, or a time, as in 10ms [default: as it
    /// did last]
    #[arg(long, value_name = "WHEN", value_parser = parse::journal)]
    journal: Option<Journal>,
    /// The key
    key: String,
}

pub(crate) fn run(args: Args) -> Outcome {
    let remove = |tree: &dyn Tree, key: Key| if tree.remove(&key)? { Ok(()) } else { Err(args.place.missing(&key)) };
    args.place.changing(args.journal, |keys| key(&args.key, keys), remove)?;
    Ok(ExitCode::SUCCESS)
}
