//! `compact`: moves what lies in sparse segments, and cuts off the end of the pool's file.

use crate::opening::Opening;
use crate::out::{self, Outcome};
use crate::parse;
use bristlecone::{ErrorKind, Pool, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Give back what a few entries keep: move leaves and records together, and cut off free space at the end of the file
///
/// The pool must be closed: a process that has it open does the same through the library. Trees with other than the
/// default leaves stay as they are. Beside a full disk it works, too: it needs no more space than it gives back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool file
    #[arg(value_parser = parse::pool())]
    pool: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    opening: Opening,
}

pub(crate) fn run(args: Args) -> Outcome {
    let look = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} %");
    let bar = ProgressBar::new(1).with_style(look.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let shown = bar.clone();
    let progress = move |Progress { tree, done, of, .. }: Progress<'_>| {
        shown.set_message(out::shown(tree).to_string());
        shown.set_length(of);
        shown.set_position(done);
    };
    let pool = args.opening.open(Pool::options().create(false).progress(progress), &args.pool)?;
    let before = pool.stat().used;
    let done = pool.compact();
    bar.finish_and_clear();
    let done = done?;
    let cut = match pool.shrink() {
        // On this system, a file that is mapped is not cut.
        Err(error) if !cfg!(target_os = "linux") && matches!(error.kind, ErrorKind::Io { .. }) => 0,
        cut => cut?,
    };
    let after = pool.stat().used;
    pool.close()?;
    if args.json {
        out::json(&json!({
            "trees": done.trees,
            "leaves": done.leaves,
            "inner_nodes": done.inner_nodes,
            "records": done.records,
            "moved_bytes": done.bytes,
            "segments": done.segments,
            "used_before": before,
            "used": after,
            "cut_bytes": cut,
            "skipped": done.skipped,
        }))?;
    } else {
        let skipped: String =
            done.skipped.iter().map(|name| format!("\nleft as it is: {}", out::shown(name))).collect();
        out::text(&format!(
            "{}: {} in use, {} before; {} and {} moved{skipped}",
            out::counted(done.trees, "tree", "trees"),
            out::bytes(after),
            out::bytes(before),
            out::counted(done.leaves, "leaf", "leaves"),
            out::counted(done.records, "record", "records"),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
