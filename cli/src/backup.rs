//! `backup` and `restore`: a copy of a pool, checked and compact.

use crate::opening::Opening;
use crate::out::{self, Outcome};
use crate::parse;
use bristlecone::{Pool, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool file to copy; it is only read
    #[arg(value_parser = parse::pool())]
    from: PathBuf,
    /// The file to make; there must be none
    #[arg(value_parser = parse::pool())]
    to: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    opening: Opening,
}

pub(crate) fn run(args: Args) -> Outcome {
    // What a crash left unfinished is finished in memory.
    let pool = args.opening.open(Pool::options().read_only(true), &args.from)?;
    // A copy of a damaged pool may lack entries without a sign.
    let report = pool.check()?;
    if let Some(broken) = report.violations.first() {
        let from = out::shown(&args.from.to_string_lossy()).to_string();
        return Err(
            format!("{from}: {broken}; 'bristlecone check' shows all that is broken, nothing was copied").into()
        );
    }
    let look = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %");
    let bar = ProgressBar::new(1).with_style(look.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let progress = |Progress { tree, done, of, .. }: Progress<'_>| {
        bar.set_message(out::shown(tree).to_string());
        bar.set_length(of);
        bar.set_position(done);
    };
    let start = Instant::now();
    let backup = pool.backup_with(&args.to, progress);
    bar.finish_and_clear();
    let (backup, took) = (backup?, start.elapsed());
    if args.json {
        out::json(&json!({
            "file": args.to.to_string_lossy(),
            "trees": backup.trees,
            "entries": backup.entries,
            "bytes": backup.bytes,
            "seconds": out::rounded(took.as_secs_f64(), 6),
        }))?;
    } else {
        out::text(&format!(
            "{}: {}, {} in {}",
            out::shown(&args.to.to_string_lossy()),
            out::counted(backup.trees, "tree", "trees"),
            out::counted(backup.entries, "entry", "entries"),
            out::time(took),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
