//! `put`: set one key.

use crate::out::Outcome;
use crate::trees::TreeArgs;
use std::ffi::OsString;
use std::process::ExitCode;

/// Set the value of a key in an existing tree
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The key, a decimal number
    key: u64,
    /// The value: its bytes as they are, or a decimal number in a tree of numbers
    #[arg(allow_hyphen_values = true)]
    value: OsString,
}

pub(crate) fn run(args: Args) -> Outcome {
    let value = args.value.as_encoded_bytes();
    args.place.changing(|tree| {
        if !tree.accepts(value) {
            return Err(format!("tree '{}' holds numbers: the value must be a decimal number", args.place.tree).into());
        }
        Ok(tree.put(args.key, value)?)
    })?;
    Ok(ExitCode::SUCCESS)
}
