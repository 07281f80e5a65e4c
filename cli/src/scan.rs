//! `scan`: the entries of a range of keys.

use crate::dump;
use crate::format::Format;
use crate::keys::KeyKind;
use crate::out::Outcome;
use crate::parse::Usage;
use crate::place::{TreeArgs, key};
use crate::trees::Span;
use std::process::ExitCode;

/// Print entries as `key<TAB>value` lines, in order of keys
///
/// Texts and values are printed as they are. `dump` prints them so that they can be loaded again, whatever bytes they
/// have.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The smallest key
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The greatest key, included
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Only keys that begin with this text, or with these bytes in hex
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// Print at most this many entries
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// From the greatest key down
    #[arg(long)]
    reverse: bool,
}

impl Args {
    fn span(&self, keys: KeyKind) -> Outcome<Span> {
        if let Some(prefix) = &self.prefix {
            if keys == KeyKind::U64 {
                return Err(Usage("--prefix is for text and hex keys, not for u64 keys".to_owned()).into());
            }
            return Ok(Span::Prefix(key(prefix, keys)?));
        }
        let parse = |typed: &Option<String>| typed.as_deref().map(|typed| key(typed, keys)).transpose();
        let (from, to) = (parse(&self.from)?, parse(&self.to)?);
        match (&from, &to) {
            (Some(from), Some(to)) if from > to => {
                Err(Usage(format!("--from {from} is greater than --to {to}")).into())
            }
            _ => Ok(Span::Between(from, to)),
        }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    args.place
        .reading(|keys| args.span(keys), |tree, span| dump::print(tree, (&span, args.reverse, limit), Format::Plain))?;
    Ok(ExitCode::SUCCESS)
}
