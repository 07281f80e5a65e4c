//! `scan`: the entries of a range of keys.

use crate::out::{self, Outcome};
use crate::parse::Usage;
use crate::trees::{Tree, TreeArgs};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Print entries as `key<TAB>value` lines, in order of keys
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The smallest key
    #[arg(long, value_name = "KEY", default_value_t = 0, hide_default_value = true)]
    from: u64,
    /// The greatest key, included
    #[arg(long, value_name = "KEY", default_value_t = u64::MAX, hide_default_value = true)]
    to: u64,
    /// Print at most this many entries
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// From the greatest key down
    #[arg(long)]
    reverse: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    if args.from > args.to {
        return Err(Usage(format!("--from {} is greater than --to {}", args.from, args.to)).into());
    }
    args.place.reading(|tree| print(&args, tree))?;
    Ok(ExitCode::SUCCESS)
}

fn print(args: &Args, tree: &dyn Tree) -> Outcome<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    for entry in tree.entries(args.from..=args.to, args.reverse).take(limit) {
        let (key, value) = entry?;
        let line = write!(out, "{key}\t").and_then(|()| out.write_all(&value)).and_then(|()| out.write_all(b"\n"));
        out::written(line)?;
    }
    Ok(out::written(out.flush())?)
}
