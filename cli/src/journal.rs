//! `journal`: gives a pool a journal, or takes it away. How its figures are shown is here, too.

use crate::opening::{self, Opening};
use crate::out::{self, Outcome};
use crate::parse;
use bristlecone::medium::JournalStat;
use bristlecone::{ErrorKind, Pool};
use serde_json::{Value, json};
use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Give a pool a journal, with which it survives a loss of power, or take it away
///
/// The pool must be closed. A new pool on a disk has one, unless `load --journal none` makes it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Give a pool a journal: a log and a ring, which are files beside it, POOL.log and POOL.ring
    Add(On),
    /// Take the journal away, when all that it has is in the pool, and remove log and ring
    Remove(From),
}

#[derive(Debug, clap::Args)]
struct On {
    /// The pool file
    #[arg(value_parser = parse::pool())]
    pool: PathBuf,
}

#[derive(Debug, clap::Args)]
struct From {
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    opening: Opening,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.what {
        What::Add(On { pool }) => {
            if let Some(old) = Pool::add_journal(&pool)? {
                let told = opening::left_over(&pool, old);
                out::aside(&out::shown(&format!("bristlecone: {}: {told}", pool.display())));
            }
        }
        What::Remove(From { on: On { pool }, opening }) => {
            remove(&pool, opening).map_err(|error| match error.kind {
                ErrorKind::JournalThere { has: false } => format!("{}: the pool has no journal", error.pool).into(),
                _ => Box::<dyn StdError>::from(error),
            })?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes the journal away, after an open that says what the last process has left.
fn remove(pool: &Path, opening: Opening) -> bristlecone::Result<()> {
    opening.open(Pool::options().create(false), pool)?.close()?;
    Pool::remove_journal(pool)
}

/// The figures of a journal, for programs.
pub(crate) fn object(figures: &JournalStat) -> Value {
    let recovered = &figures.recovered;
    json!({
        "mode": parse::journal_name(figures.mode),
        "log_bytes": figures.log,
        "used_bytes": figures.used,
        "ring_bytes": figures.ring,
        "pending": figures.pending,
        "entries": figures.entries,
        "syncs": figures.syncs,
        "log_written_bytes": figures.log_written,
        "pool_written_bytes": figures.pool_written,
        "checkpoints": figures.checkpoints,
        "waits": figures.waits,
        "rings": figures.rings,
        "private_bytes": figures.private,
        "budget_bytes": figures.budget,
        "evicted_pages": figures.evicted,
        "slowed": figures.slowed,
        "recovered": {
            "from_ring": recovered.from_ring,
            "incomplete": recovered.incomplete,
            "given_up": recovered.given_up,
            "without_ring": recovered.without_ring,
            "lost": recovered.lost,
            "damaged_twin": recovered.damaged_twin,
        },
    })
}

/// What there is of a journal that is only looked at. Of a pool that was not closed, the ring has what had not reached
/// the log.
pub(crate) fn state(figures: &JournalStat) -> String {
    let ring = match figures.ring {
        0 if figures.recovered.without_ring => "no ring: what had not reached the log is not to be seen".to_owned(),
        0 => "nothing in its ring".to_owned(),
        ring => format!("a ring of {} with {} pending", out::bytes(ring), entries(figures.pending)),
    };
    let mode = parse::journal_name(figures.mode);
    format!("{mode}; a log of {}, {} in use; {ring}", out::bytes(figures.log), out::bytes(figures.used))
}

/// What a journal has done since the pool was opened.
pub(crate) fn done(figures: &JournalStat) -> String {
    format!(
        "{}, {} written to the log, {} and {} to the pool, {}",
        out::counted(figures.syncs, "sync", "syncs"),
        out::bytes(figures.log_written),
        out::counted(figures.checkpoints, "checkpoint", "checkpoints"),
        out::bytes(figures.pool_written),
        out::counted(figures.waits, "wait", "waits"),
    )
}

fn entries(n: u64) -> String {
    out::counted(n, "entry", "entries")
}
