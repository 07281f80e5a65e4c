//! `put`: set one key.

use crate::out::Outcome;
use crate::place::{TreeArgs, key};
use std::ffi::OsString;
use std::process::ExitCode;

/// Set the value of a key in an existing tree
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The key
    key: String,
    /// The value: its bytes as they are, UTF-8 in a tree of texts, or a decimal number in a tree of numbers
    #[arg(allow_hyphen_values = true)]
    value: OsString,
}

pub(crate) fn run(args: Args) -> Outcome {
    let value = args.value.as_encoded_bytes();
    args.place.changing(
        |keys| key(&args.key, keys),
        |tree, key| {
            if !tree.accepts(value) {
                return Err(format!("tree '{}': {}", args.place.tree, tree.values().asked()).into());
            }
            Ok(tree.put(&key, value)?)
        },
    )?;
    Ok(ExitCode::SUCCESS)
}
