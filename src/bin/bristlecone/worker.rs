//! The process that `tour` and `bench` kill: it fills a tree. The code that opens its pool again is here, too.

use crate::out::Outcome;
use crate::pipe::{Job, Worker};
use bristlecone::{PTree, Pool};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The name of the tree that workers fill.
const TREE: &str = "worker";

/// Insert keys and acknowledge them in binary; started by `tour` and `bench`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The pool, created if need be
    pub(crate) pool: PathBuf,
    #[arg(long)]
    pub(crate) capacity: u64,
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
        let capacity = self.capacity.to_string().into();
        Worker::start([self.pool.clone().into_os_string(), "--capacity".into(), capacity], self.job)
    }

    /// Opens the pool that the process has left, and looks up a key.
    pub(crate) fn reopen(&self, key: u64) -> Outcome<Reopened> {
        let start = Instant::now();
        let pool = Pool::open(&self.pool)?;
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
    let pool = Pool::options().capacity(args.capacity).open(&args.pool)?;
    let tree: PTree = pool.tree(TREE)?;
    args.job.fill(|key, value| {
        tree.insert(key, value)?;
        Ok(())
    })?;
    drop(tree);
    pool.close()?;
    Ok(ExitCode::SUCCESS)
}
