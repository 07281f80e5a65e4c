//! The process that `tour` and `bench` kill: it fills a tree. The code that opens its pool again is here, too.

use crate::out::Outcome;
use crate::parse;
use crate::pipe::{Job, Worker};
use bristlecone::{Journal, PTree, Pool};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The name of the tree that workers fill.
pub(crate) const TREE: &str = "worker";

/// Insert keys and acknowledge them in binary; started by `tour` and `bench`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The pool, created if need be
    pub(crate) pool: PathBuf,
    #[arg(long)]
    pub(crate) capacity: u64,
    /// The journal of the pool, or none
    #[arg(long, value_parser = parse::journal)]
    pub(crate) journal: Journal,
    /// Sync the pool after every so many keys, before they are acknowledged
    #[arg(long, default_value_t = 0)]
    pub(crate) sync_every: u64,
    #[command(flatten)]
    pub(crate) job: Job,
}

/// A pool that was opened again.
pub(crate) struct Reopened {
    pub(crate) pool: Pool,
    pub(crate) tree: PTree,
    /// The value of the key that was looked up.
    pub(crate) value: Option<u64>,
    /// How long opening pool and tree and looking up the key took.
    pub(crate) took: Duration,
}

impl Args {
    /// Starts a process with these arguments.
    pub(crate) fn start(&self) -> Outcome<Worker> {
        let mut args = vec![self.pool.clone().into_os_string(), "--capacity".into(), self.capacity.to_string().into()];
        args.extend(["--journal".into(), parse::journal_name(self.journal).into()]);
        args.extend(["--sync-every".into(), self.sync_every.to_string().into()]);
        Worker::start(args, self.job)
    }

    /// Opens the pool that the process has left, and looks up a key.
    pub(crate) fn reopen(&self, key: u64) -> Outcome<Reopened> {
        let start = Instant::now();
        let pool = Pool::options().create(false).journal(self.journal).open(&self.pool)?;
        let tree: PTree = pool.tree(TREE)?;
        let value = tree.get(key);
        Ok(Reopened { pool, tree, value, took: start.elapsed() })
    }
}

/// The most bytes that a pool for this many keys may take.
pub(crate) fn capacity(keys: u64) -> u64 {
    (64 << 20) + keys.saturating_mul(64)
}

pub(crate) fn run(args: Args) -> Outcome {
    let pool = Pool::options().capacity(args.capacity).journal(args.journal).open(&args.pool)?;
    let tree: PTree = pool.tree(TREE)?;
    args.job.fill(|key, value, place| {
        tree.insert(key, value)?;
        if args.sync_every > 0 && (place + 1).is_multiple_of(args.sync_every) {
            pool.sync()?;
        }
        Ok(())
    })?;
    drop(tree);
    pool.close()?;
    Ok(ExitCode::SUCCESS)
}
