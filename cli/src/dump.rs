//! `dump`: all entries, to be loaded again.

use crate::format::Format;
use crate::out::{self, Outcome};
use crate::place::TreeArgs;
use crate::trees::{Span, Tree};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Print all entries as lines that `load` reads, in order of keys
///
/// The lines are `key<TAB>value`, for `load --format escaped`: a tab is \t, a newline \n, a carriage return \r, a
/// backslash \\, and each byte of another control character, or that is not UTF-8, \x and two hexadecimal digits. Keys
/// of bytes are hexadecimal digits throughout.
///
/// With --json they are objects, for `load --format json`: {"key":"a","value":"1"}. Numbers are numbers, keys of bytes
/// are strings of hexadecimal digits, and a value that is not UTF-8 is such a string in the field "value_hex" instead
/// of "value".
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// Print a JSON object on each line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let format = if args.json { Format::Json } else { Format::Escaped };
    args.place.reading(|_| Ok(()), |tree, ()| print(tree, (&Span::ALL, false, usize::MAX), format))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the entries that are meant, from either end, and at most so many.
pub(crate) fn print(tree: &dyn Tree, (span, reverse, limit): (&Span, bool, usize), format: Format) -> Outcome<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    for entry in tree.entries(span, reverse)?.take(limit) {
        let (key, value) = entry?;
        out::written(format.write((&key, &value), tree.values(), &mut out))?;
    }
    Ok(out::written(out.flush())?)
}
