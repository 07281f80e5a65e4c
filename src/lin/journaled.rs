//! Rounds on a pool in a file with a journal, whose private pages go all the time.

use super::plan::Plan;
use super::round::{checked, filled, has_kept, options};
use crate::crash::tree_type::TreeType;
use crate::error::{Error, Result};
use crate::medium::any::Any;
use crate::medium::{Journal, Mapped, Mapping, Wanted};
use crate::pool::Pool;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs, io, process};

/// One page.
const BUDGET: u64 = 4096;
/// A pool gets no longer.
const REACH: u64 = 256 << 20;
/// So often what was changed is synced, and may go.
const PERIOD: Duration = Duration::from_millis(1);

/// The directory of a round.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("bristlecone-lin-{}-{number}", process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path, of: TreeType) -> Result<Pool<Any>> {
    let wanted = Wanted { mode: Some(Journal::Every(PERIOD)), private_memory: Some(BUDGET), ..Wanted::default() };
    let medium = Mapped::existing_with(path, Mapping::Write, REACH, wanted).map_err(|fault| fault.of_file(path))?;
    options(of.bytes).open_on(Arc::new(medium) as Any)
}

/// Runs the round of a seed. Returns how many operations it had, or what was wrong.
pub(super) fn run(tree_type: TreeType, seed: u64, threads: usize) -> std::result::Result<u64, String> {
    let plan = Plan::new(seed, threads, tree_type);
    let failed = |error: Error| error.to_string();
    let scratch = Scratch::new().map_err(|error| error.to_string())?;
    let path = scratch.path("a");
    options(tree_type.bytes).journal(Journal::OnRequest).open(&path).map_err(failed)?.close().map_err(failed)?;
    let pool = open(&path, tree_type).map_err(failed)?;
    let tree = filled(tree_type, &pool, &plan).map_err(failed)?;
    let (operations, entries) = checked(&plan, seed, &*tree)?;
    drop(tree);
    pool.close().map_err(failed)?;
    let pool = open(&path, tree_type).map_err(failed)?;
    let tree = tree_type.open(&pool).map_err(failed)?;
    has_kept(&plan, &*tree, &entries, "after closing")?;
    Ok(operations)
}
